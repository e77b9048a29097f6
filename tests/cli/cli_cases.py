"""What the tests of the command line share: small tables, and ways to run a command."""

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from bitgrove.cli.main import main
from lab.datasets.simple import make_regression_like

SMALL = ["--n_estimators", "5", "--num_leaves", "7", "--n_jobs", "1"]


def features(X):
    # float64, because a float32 printed in decimal is not read back as the same number.
    return {f"x{i}": X[:, i].astype("float64") for i in range(X.shape[1])}


def write_csv(path, columns):
    pa_csv.write_csv(pa.table(columns), path)
    return str(path)


def write_parquet(path, columns):
    pa_parquet.write_table(pa.table(columns), path)
    return str(path)


def read(path):
    table = pa_csv.read_csv(path) if str(path).endswith(".csv") else pa_parquet.read_table(path)
    return {name: table.column(name).to_numpy() for name in table.column_names}


def ok(capsys, *argv):
    code = main([str(word) for word in argv])
    output = capsys.readouterr()
    assert (code, output.err) == (0, "")
    return output.out


def refused(capsys, *argv):
    """The one line on stderr, without its prefix."""
    code = main([str(word) for word in argv])
    output = capsys.readouterr()
    assert code == 2
    assert output.out == ""
    assert output.err.startswith("bitgrove: error: ")
    assert output.err.count("\n") == 1
    return output.err.removeprefix("bitgrove: error: ").rstrip("\n")


def train_argv(data, out, *more, label="y", objective="regression"):
    return ["train", "--data", data, "--label", label, "--objective", objective,
            "--model", out, *SMALL, *more]  # fmt: skip


def regression_csv(folder):
    """(path of a CSV with columns x0..x5 and y, X, y)."""
    X, y = make_regression_like(400, 6, seed=1)
    X, y = X.astype("float64"), y.astype("float64")
    return write_csv(folder / "data.csv", {**features(X), "y": y}), X, y
