"""`bitgrove verify`: exit codes, what it says, and columns that it finds by itself."""

import json

import numpy as np

from bitgrove.cli.main import main
from cli_cases import features, ok, refused, regression_csv, train_argv, write_csv


def test_exit_codes_say_whether_it_is_the_same(capsys, tmp_path):
    data, X, y = regression_csv(tmp_path)
    model = tmp_path / "m.bitgrove"
    ok(capsys, *train_argv(data, model))
    said = ok(capsys, "verify", model, "--data", data)  # y is the only column that is no feature
    assert "VERIFIED: training again gives the same model" in said
    facts = json.loads(ok(capsys, "verify", model, "--data", data, "--label", "y", "--json"))
    assert facts["verified"] and facts["digest"] == facts["again"]
    assert facts["recorded"] == facts["found"]
    assert facts["recorded"]["rows"] in ok(capsys, "info", model)
    X[7, 2] += 1e-9
    other = write_csv(tmp_path / "other.csv", {**features(X), "y": y})
    assert main(["verify", str(model), "--data", other]) == 3
    out = capsys.readouterr().out
    assert "differs         rows: these are not the rows" in out and "NOT VERIFIED" in out


def test_columns_that_are_no_features(capsys, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    kind = np.where(X[:, 0] > 0, "good", "bad")
    city, weight = rng.choice(["x", "y"], 300), rng.uniform(1, 2, 300)
    columns = {**features(X), "kind": kind, "w": weight, "city": city, "id": X[:, 0]}
    data, model = write_csv(tmp_path / "d.csv", columns), tmp_path / "m.bitgrove"
    ok(capsys, *train_argv(data, model, "--weight", "w", "--ignore", "id", label="kind",
                           objective="binary"))  # fmt: skip
    again = ["verify", "--model", model, "--data", data, "--weight", "w"]
    assert "VERIFIED" in ok(capsys, *again, "--label", "kind", "--n_jobs", 1)
    message = refused(capsys, *again)
    assert message == "--label is needed: columns that are no features: 'kind', 'id'"
    assert main([*map(str, again[:-2]), "--label", "kind"]) == 3  # without weights
    assert "differs         weights" in capsys.readouterr().out


def test_going_on_from_a_model(capsys, tmp_path):
    data, _, _ = regression_csv(tmp_path)
    first, second = tmp_path / "a.bitgrove", tmp_path / "b.bitgrove"
    ok(capsys, *train_argv(data, first))
    ok(capsys, *train_argv(data, second, "--init_model", first))
    assert "VERIFIED" in ok(capsys, "verify", second, "--data", data, "--init_model", first)
    assert main(["verify", str(second), "--data", data]) == 3
    assert "init_model: the model was trained from another" in capsys.readouterr().out
    assert "no such file" in refused(capsys, "verify", second, "--data", tmp_path / "none.csv")
