"""Options from files and as key=value, cross-validation and explanations on the command line."""

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.cli.main import main
from cli_cases import features, ok, read, refused, regression_csv, train_argv, write_csv

TOML = """
data = "{data}"
label = "y"
model = "{model}"
objective = "regression"
[params]
n_estimators = 4
num_leaves = 7
n_jobs = 1
learning_rate = 0.3
eval_metric = ["rmse", "mae"]
"""
YAML = """
data: ["{data}"]
label: y
output_model: {model}
objective: regression
params: {{n_estimators: 4, num-leaves: 7, n_jobs: 1, learning_rate: 0.3, eval_metric: [rmse, mae]}}
"""
CONF = """
# LightGBM's way
data = {data}
label_column = y   # the target
output_model = {model}
objective = regression
n_estimators = 4
num_leaves = 7
n_jobs = 1
learning_rate = 0.3
metric = rmse,mae
"""


@pytest.fixture
def rows(tmp_path):
    data, X, y = regression_csv(tmp_path)
    return data, X, y


@pytest.mark.parametrize(("ending", "text"), [("toml", TOML), ("yaml", YAML), ("conf", CONF)])
def test_a_file_is_as_the_words(capsys, tmp_path, rows, ending, text):
    data, X, y = rows
    model, config = tmp_path / "m.bitgrove", tmp_path / f"train.{ending}"
    config.write_text(text.format(data=data, model=model))
    params = {"objective": "regression", "n_estimators": 4, "num_leaves": 7, "learning_rate": 0.3,
              "eval_metric": ["rmse", "mae"]}  # fmt: skip
    names = [f"x{i}" for i in range(X.shape[1])]
    expected = bg.train(params, bg.Dataset(X, y, feature_names=names))
    ok(capsys, "train", "--config", config)
    assert bg.load(model) == expected
    other = tmp_path / "other.bitgrove"
    ok(capsys, "train", f"config={config}", f"model={other}", "num_round=2", "--eta", "0.5")
    found = bg.load(other)
    assert found.n_iterations == 2 and found.params["learning_rate"] == 0.5  # words go first
    assert found.params["num_leaves"] == 7


def test_pairs_are_options(capsys, tmp_path, rows):
    data, _, _ = rows
    one, two = tmp_path / "a.bitgrove", tmp_path / "b.bitgrove"
    ok(capsys, *train_argv(data, one))
    ok(capsys, "train", f"data={data}", "label=y", "objective=regression", f"output_model={two}",
       "num_iterations=5", "num_leaves=7", "n_jobs=1")  # fmt: skip
    assert one.read_bytes() == two.read_bytes()


def test_switches_are_pairs_too(capsys, tmp_path, rows):
    data, X, y = rows
    argv = [str(word) for word in train_argv(data, tmp_path / "m.bitgrove")]
    ok(capsys, *argv, "progress=false")
    for spelling in (["progress=true"], ["--progress", "true"], ["--progress=true"]):
        assert main([*argv, *spelling]) == 0
        assert "5/5" in capsys.readouterr().err
    ok(capsys, *argv, "--progress", "false")
    said = ok(capsys, "cv", f"data={data}", "label=y", "objective=regression", "n_estimators=3",
              "shuffle=false", "time_order=false")  # fmt: skip
    params = {"objective": "regression", "n_estimators": 3}
    expected = bg.cv(params, bg.Dataset(X, y), shuffle=False)
    assert f"{expected['valid rmse-mean'][-1]:.6g} +- " in said
    assert "shuffle must be true or false" in refused(capsys, "cv", f"data={data}", "shuffle=no?")


def test_train_and_cv_share_a_file(capsys, tmp_path, rows):
    data, X, y = rows
    model, config = tmp_path / "m.bitgrove", tmp_path / "both.toml"
    config.write_text("nfold = 3\n" + TOML.format(data=data, model=model))
    ok(capsys, "train", "--config", config)
    said = ok(capsys, "cv", "--config", config)
    expected = bg.cv(bg.load(model).params, bg.Dataset(X, y), nfold=3)
    assert f"{expected['valid rmse-mean'][-1]:.6g} +- " in said
    config.write_text("nfolds = 3\n" + TOML.format(data=data, model=model))
    for command in ("train", "cv"):
        assert "unknown option 'nfolds'" in refused(capsys, command, "--config", config)


@pytest.mark.parametrize("command", ["predict", "explain", "report"])
def test_a_model_by_its_place_or_its_name(capsys, tmp_path, rows, command):
    data, _, _ = rows
    model = tmp_path / "m.bitgrove"
    ok(capsys, *train_argv(data, model))
    written = []
    for k, way in enumerate(([model], ["--model", model])):
        out = tmp_path / f"{k}.{'html' if command == 'report' else 'csv'}"
        ok(capsys, command, *way, "--data", data, "--out", out)
        written.append(out.read_bytes())
    assert written[0] == written[1]
    both = (command, model, "--model", model, "--data", data, "--out", tmp_path / "x.csv")
    assert "not allowed with" in refused(capsys, *both)


def test_a_file_may_be_named_like_a_pair(capsys, tmp_path, monkeypatch, rows):
    data, _, _ = rows
    monkeypatch.chdir(tmp_path)
    (tmp_path / "year=2020.csv").write_bytes((tmp_path / "data.csv").read_bytes())
    one, two = tmp_path / "a.bitgrove", tmp_path / "b.bitgrove"
    ok(capsys, *train_argv(data, one))
    ok(capsys, *train_argv("year=2020.csv", two))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.toml", "label = ", "c.toml: "),
        ("c.toml", "lable = 'y'", "unknown option 'lable'"),
        ("c.toml", "[params]\nnum_leaves = [[1]]", "num_leaves must be a value or a list"),
        ("c.toml", "params = 3", "params must be a table"),
        ("c.toml", "label='y'\n[params]\nlabel='y'", "label is given twice"),
        ("c.toml", "progress = 'maybe'", "progress must be true or false"),
        ("c.yaml", "- a\n- b", "options are written as name: value"),
        ("c.yaml", "label: [", "c.yaml: "),
        ("c.yaml", "!!python/object/apply:os.system ['false']", "c.yaml: "),
        ("c.conf", "label y", "line 1: key = value is expected"),
        ("c.conf", "label = y\nlabel = z", "label is given twice"),
        ("c.conf", b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_files_that_cannot_be_used(capsys, tmp_path, name, text, message):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert message in refused(capsys, "train", "--config", path)


def test_config_that_is_not_there(capsys, tmp_path):
    assert "none.toml" in refused(capsys, "train", "--config", tmp_path / "none.toml")
    assert "--config: one file" in refused(capsys, "train", "--config")
    assert "--config: one file" in refused(capsys, "train", "config=a.toml", "config=b.toml")


def test_cv(capsys, tmp_path, rows):
    data, X, y = rows
    out = tmp_path / "curves.csv"
    said = ok(capsys, "cv", "--data", data, "--label", "y", "--objective", "regression", "--out",
              out, "n_estimators=6", "num_leaves=7", "metric=rmse,mae", "--nfold", "3")  # fmt: skip
    params = {"objective": "regression", "n_estimators": 6, "num_leaves": 7,
              "metric": ["rmse", "mae"]}  # fmt: skip
    expected = bg.cv(params, bg.Dataset(X, y), nfold=3)
    curves = read(out)
    assert curves["iteration"].tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(curves["valid rmse-mean"], expected["valid rmse-mean"])
    assert f"{expected['valid mae-mean'][-1]:.6g} +- " in said and "folds           3" in said
    stopped = ok(capsys, "cv", "--data", data, "--label", "y", "--objective", "regression",
                 "n_estimators=200", "learning_rate=0.9", "early_stopping_rounds=2")  # fmt: skip
    assert "(best)" in stopped
    assert "--objective is needed" in refused(capsys, "cv", "--data", data, "--label", "y")
    assert "an integer >= 2" in refused(capsys, "cv", "--data", data, "--label", "y", "nfold=1")


def test_explain(capsys, tmp_path, rows):
    data, X, _ = rows
    model, out = tmp_path / "m.bitgrove", tmp_path / "shap.csv"
    ok(capsys, *train_argv(data, model))
    said = ok(capsys, "explain", "--model", model, "--data", data, "--keep", "y", "--out", out,
              "--top", "2")  # fmt: skip
    assert said.count("\n  x") == 2
    found = read(out)
    total = sum(found[name] for name in found if name != "y")
    np.testing.assert_allclose(total, bg.load(model).predict(X), rtol=1e-9, atol=1e-9)
    assert "--keep: columns are copied to a file" in refused(
        capsys, "explain", "--model", model, "--data", data, "--keep", "y"
    )


def test_explain_loses_no_column(capsys, tmp_path):
    """A feature may be called as what we add; two columns of one name would be one."""
    X = np.random.default_rng(0).normal(size=(80, 2))
    data, model = tmp_path / "d.csv", tmp_path / "m.bitgrove"
    write_csv(data, {"expected_value": X[:, 0], "b": X[:, 1], "y": X[:, 0] + X[:, 1]})
    ok(capsys, *train_argv(data, model))
    argv = ("explain", "--model", model, "--data", data)
    assert "expected_value" in ok(capsys, *argv)
    said = refused(capsys, *argv, "--out", tmp_path / "out.csv")
    assert "two columns would be called 'expected_value'" in said


def test_explain_classes(capsys, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    kind = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    data = write_csv(tmp_path / "d.csv", {**features(X), "kind": kind})
    model, out = tmp_path / "m.bitgrove", tmp_path / "shap.parquet"
    ok(capsys, *train_argv(data, model, label="kind", objective="multiclass"))
    ok(capsys, "explain", "--model", model, "--data", data, "--out", out)
    found = read(out)
    scores = bg.load(model).predict_raw(X)
    for k, name in enumerate("abc"):
        total = sum(found[f"{column}_{name}"] for column in ("x0", "x1", "expected_value"))
        np.testing.assert_allclose(total, scores[:, k], rtol=1e-9, atol=1e-9)
    assert main(["explain", "--model", str(model), "--data", data, "--out", data]) == 2
    assert "is also an input" in capsys.readouterr().err
