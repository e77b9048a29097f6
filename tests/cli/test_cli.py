"""The command line: what it writes and what it prints."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bitgrove
from bitgrove.cli.main import main
from bitgrove.params import PARAMETERS
from lab.datasets.simple import make_multiclass_like, make_ranking_like, make_regression_like

pa = pytest.importorskip("pyarrow")

from cli_cases import (  # noqa: E402
    features,
    ok,
    read,
    refused,
    regression_csv,
    train_argv,
    write_csv,
    write_parquet,
)


@pytest.fixture
def regression(tmp_path):
    return regression_csv(tmp_path)


@pytest.fixture
def model(tmp_path, regression, capsys):
    ok(capsys, *train_argv(regression[0], tmp_path / "m.bitgrove"))
    return tmp_path / "m.bitgrove"


# ---------------------------------------------------------------- train and predict


def test_train_writes_the_model_that_python_trains(tmp_path, regression, capsys):
    path, X, y = regression
    out = ok(capsys, *train_argv(path, tmp_path / "m.bitgrove"))
    model = bitgrove.load(tmp_path / "m.bitgrove")
    names = [f"x{i}" for i in range(6)]
    params = {"objective": "regression", "n_estimators": 5, "num_leaves": 7}
    same = bitgrove.train(params, bitgrove.Dataset(X, y, feature_names=names))
    assert model.digest() == same.digest()
    assert f"digest          {same.digest()}" in out
    assert "400 rows, 6 features" in out


def test_predictions_equal_python_in_both_formats(tmp_path, regression, model, capsys):
    path, X, _ = regression
    expected = bitgrove.load(model).predict(X)
    for name in ("p.csv", "p.parquet"):
        out = ok(capsys, "predict", "--model", model, "--data", path, "--out", tmp_path / name)
        assert out == f"400 predictions written to {tmp_path / name}\n"
        written = read(tmp_path / name)
        assert list(written) == ["prediction"]
        np.testing.assert_array_equal(written["prediction"], expected)
    assert not list(tmp_path.glob(".*.tmp"))


def test_columns_are_matched_by_name(tmp_path, regression, model, capsys):
    _, X, y = regression
    shuffled = {f"x{i}": X[:, i] for i in (3, 0, 5, 1, 4, 2)}
    ids = np.arange(len(y))
    path = write_parquet(tmp_path / "s.parquet", {"id": ids, "extra": y, **shuffled})
    ok(capsys, "predict", "--model", model, "--data", path, "--keep", "id,extra",
       "--out", tmp_path / "p.parquet")  # fmt: skip
    written = read(tmp_path / "p.parquet")
    assert list(written) == ["id", "extra", "prediction"]
    np.testing.assert_array_equal(written["id"], ids)
    np.testing.assert_array_equal(written["prediction"], bitgrove.load(model).predict(X))


def test_raw_scores_and_leaves(tmp_path, regression, model, capsys):
    path, X, _ = regression
    loaded = bitgrove.load(model)
    common = ["predict", "--model", model, "--data", path, "--n_jobs", "1"]
    ok(capsys, *common, "--raw", "--out", tmp_path / "raw.csv")
    np.testing.assert_array_equal(read(tmp_path / "raw.csv")["score"], loaded.predict_raw(X))
    ok(capsys, *common, "--leaf", "--out", tmp_path / "leaf.csv")
    leaves = read(tmp_path / "leaf.csv")
    assert list(leaves) == [f"leaf_{tree}" for tree in range(5)]
    np.testing.assert_array_equal(np.column_stack(list(leaves.values())), loaded.predict_leaf(X))
    assert "not allowed with" in refused(capsys, *common, "--raw", "--leaf", "--out", "x.csv")


def test_several_files_and_patterns_are_one_table(tmp_path, regression, model, capsys):
    _, X, y = regression
    for part in range(3):
        rows = slice(part * 150, (part + 1) * 150)
        write_csv(tmp_path / f"part-{part}.csv", {**features(X[rows]), "y": y[rows]})
    ok(capsys, *train_argv(tmp_path / "part-*.csv", tmp_path / "n.bitgrove"))
    assert (tmp_path / "n.bitgrove").read_bytes() == model.read_bytes()
    files = [tmp_path / f"part-{part}.csv" for part in range(3)]
    argv = train_argv(files[0], tmp_path / "o.bitgrove")
    ok(capsys, *argv[:3], *files[1:], *argv[3:])
    assert (tmp_path / "o.bitgrove").read_bytes() == model.read_bytes()


def test_text_labels_become_classes(tmp_path, capsys):
    X, y = make_regression_like(400, 6, seed=2)
    words = np.where(y > np.median(y), "yes", "no")
    path = write_csv(tmp_path / "d.csv", {**features(X), "y": words})
    ok(capsys, *train_argv(path, tmp_path / "m", objective="binary"))
    model = bitgrove.load(tmp_path / "m")
    assert model.classes == ["no", "yes"]
    settings = {"n_estimators": 5, "num_leaves": 7}
    names = [f"x{i}" for i in range(6)]
    frame = pa.table(features(X)).to_pandas()[names]
    same = bitgrove.BitGroveClassifier(**settings).fit(frame, words)
    assert model.digest() == same.model_.digest()
    ok(capsys, "predict", "--model", tmp_path / "m", "--data", path, "--out", tmp_path / "p.csv")
    written = read(tmp_path / "p.csv")
    np.testing.assert_array_equal(written["prediction"], model.predict(X))
    expected = np.where(model.predict(X) > 0.5, "yes", "no")
    np.testing.assert_array_equal(written["predicted_class"], expected)
    assert np.mean(expected == words) > 0.7


def test_multiclass_from_categories_with_validation(tmp_path, capsys):
    X, y = make_multiclass_like(600, 3, seed=0)
    names = pa.array(np.array(["red", "green", "blue"])[y.astype(int)]).dictionary_encode()
    path = write_parquet(tmp_path / "d.parquet", {**features(X), "y": names})
    out = ok(capsys, *train_argv(path, tmp_path / "m", "--valid", path, objective="multiclass"))
    assert "valid multi_logloss" in out
    model = bitgrove.load(tmp_path / "m")
    assert model.classes == ["blue", "green", "red"]
    assert model.params["num_class"] == 3
    ok(capsys, "predict", "--model", tmp_path / "m", "--data", path, "--out", tmp_path / "p.csv")
    written = read(tmp_path / "p.csv")
    probabilities = [written[f"probability_{name}"] for name in ("blue", "green", "red")]
    np.testing.assert_array_equal(np.column_stack(probabilities), model.predict(X))
    assert np.mean(written["predicted_class"] == np.asarray(names.to_pylist())) > 0.6


def test_ranking_with_query_ids(tmp_path, capsys):
    X, y, group = make_ranking_like(30, seed=0)
    query = np.repeat([f"q{i}" for i in range(30)], group)
    path = write_csv(tmp_path / "d.csv", {**features(X), "y": y, "query": query})
    argv = train_argv(path, tmp_path / "m", "--group", "query", objective="lambdarank")
    out = ok(capsys, *argv, "--valid", path, "--metric", "ndcg@5")
    assert "valid ndcg@5" in out
    same = bitgrove.train(
        {"objective": "lambdarank", "n_estimators": 5, "num_leaves": 7, "eval_metric": "ndcg@5"},
        bitgrove.Dataset(X, y, group=group, feature_names=[f"x{i}" for i in range(24)]),
    )
    assert bitgrove.load(tmp_path / "m").digest() == same.digest()


def test_weights_change_the_model_and_are_not_features(tmp_path, regression, model, capsys):
    _, X, y = regression
    weight = np.linspace(0.1, 3, len(y))
    path = write_csv(tmp_path / "w.csv", {**features(X), "y": y, "w": weight})
    ok(capsys, *train_argv(path, tmp_path / "weighted", "--weight", "w"))
    ok(capsys, *train_argv(path, tmp_path / "ignored", "--ignore", "w"))
    weighted = bitgrove.load(tmp_path / "weighted")
    assert weighted.feature_names == [f"x{i}" for i in range(6)]
    assert weighted.digest() != bitgrove.load(model).digest()
    assert (tmp_path / "ignored").read_bytes() == model.read_bytes()


def test_early_stopping_reports_the_best_iteration(tmp_path, regression, capsys):
    argv = train_argv(regression[0], tmp_path / "m", "--valid", regression[0])
    out = ok(capsys, *argv, "--early_stopping_rounds", "3", "--metric", "mae,rmse")
    best = bitgrove.load(tmp_path / "m").best_iteration
    assert f"best iteration  {best}\n" in out
    assert "valid mae" in out
    assert "valid rmse" in out


def test_every_spelling_of_a_parameter_is_the_same(tmp_path, regression, capsys):
    common = ["train", "--data", regression[0], "--label", "y", "--n_jobs", "1"]
    spellings = [
        ["--objective", "regression", "--n_estimators", "4", "--reg_lambda", "2"],
        ["--app", "mse", "--num-iterations=4", "--lambda", "2.0"],
        ["--param", "objective=l2", "--param", "num-trees=4", "--param", "lambda_l2=2"],
    ]
    digests = set()
    for index, words in enumerate(spellings):
        ok(capsys, *common, "--model", tmp_path / f"m{index}", *words)
        digests.add(bitgrove.load(tmp_path / f"m{index}").digest())
    assert len(digests) == 1


def test_every_table_parameter_accepts_its_default_as_text(tmp_path, regression, capsys):
    words = []
    for parameter in PARAMETERS:
        known = ("objective", "progress", "n_estimators", "num_leaves", "n_jobs")
        if parameter.name not in (*known, "objective_function"):
            default = parameter.default
            text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
            words += [f"--{parameter.name}", text]
    ok(capsys, *train_argv(regression[0], tmp_path / "all", *words))
    ok(capsys, *train_argv(regression[0], tmp_path / "none"))
    assert (tmp_path / "all").read_bytes() == (tmp_path / "none").read_bytes()


def test_missing_values_and_truth_values_are_numbers(tmp_path, capsys):
    path = tmp_path / "d.csv"
    rows = [f"{i},{'' if i % 3 else i},{'true' if i % 2 else 'false'},,{i % 2}" for i in range(60)]
    path.write_text("a,b,c,empty,y\n" + "\n".join(rows) + "\n")
    ok(capsys, *train_argv(path, tmp_path / "m", objective="binary"))
    ok(capsys, "predict", "--model", tmp_path / "m", "--data", path, "--out", tmp_path / "p.csv")
    table = np.array(
        [[i, np.nan if i % 3 else i, i % 2, np.nan] for i in range(60)], dtype=np.float64
    )
    expected = bitgrove.load(tmp_path / "m").predict(table)
    np.testing.assert_array_equal(read(tmp_path / "p.csv")["prediction"], expected)


def test_delimiter_and_tsv(tmp_path, regression, model, capsys):
    text = Path(regression[0]).read_text()
    (tmp_path / "d.tsv").write_text(text.replace(",", "\t"))
    (tmp_path / "semi.csv").write_text(text.replace(",", ";"))
    ok(capsys, *train_argv(tmp_path / "d.tsv", tmp_path / "tsv"))
    ok(capsys, *train_argv(tmp_path / "semi.csv", tmp_path / "semi", "--delimiter", ";"))
    assert (tmp_path / "tsv").read_bytes() == model.read_bytes()
    assert (tmp_path / "semi").read_bytes() == model.read_bytes()


def test_pandas_index_is_not_a_feature(tmp_path, regression, capsys):
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(regression[0]).sample(frac=1, random_state=0)
    frame.to_parquet(tmp_path / "d.parquet")
    frame.to_csv(tmp_path / "d.csv")
    for name in ("d.parquet", "d.csv"):
        ok(capsys, *train_argv(tmp_path / name, tmp_path / "m"))
        assert bitgrove.load(tmp_path / "m").feature_names == [f"x{i}" for i in range(6)]


def test_num_class_covers_classes_without_rows(tmp_path, capsys):
    X, y = make_multiclass_like(300, 3, seed=0)
    path = write_parquet(tmp_path / "d.parquet", {**features(X), "y": y.astype(int)})
    argv = train_argv(path, tmp_path / "m", "--num_class", "4", objective="multiclass")
    ok(capsys, *argv)
    assert bitgrove.load(tmp_path / "m").classes == [0, 1, 2, 3]


# ---------------------------------------------------------------- info and the process


def test_info_in_words_and_json(regression, model, capsys):
    loaded = bitgrove.load(model)
    text = ok(capsys, "info", model)
    assert loaded.digest() in text
    assert "regression" in text
    facts = json.loads(ok(capsys, "info", "--model", model, "--json", "--top", "2"))
    assert facts["digest"] == loaded.digest()
    assert facts["trees"] == 5
    assert facts["features"] == 6
    assert facts["size_bytes"] == os.path.getsize(model)
    assert facts["parameters"]["num_leaves"] == 7
    gain = loaded.feature_importance("gain")
    assert [feature["name"] for feature in facts["top_features"]] == [
        f"x{i}" for i in np.argsort(-gain)[:2]
    ]
    assert facts["top_features"][0]["gain"] == gain.max()


def run_process(*argv, **environment):
    return subprocess.run(
        [sys.executable, "-m", "bitgrove", *map(str, argv)],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


def test_python_dash_m_and_debug(tmp_path):
    done = run_process("info", tmp_path / "absent")
    assert done.returncode == 2
    assert done.stderr.startswith("bitgrove: error: ")
    assert "Traceback" not in done.stderr
    debug = run_process("info", tmp_path / "absent", BITGROVE_DEBUG="1")
    assert debug.returncode == 2
    assert "Traceback" in debug.stderr
    assert debug.stderr.splitlines()[-1] == done.stderr.splitlines()[0]


def test_progress_only_when_asked_without_terminal(tmp_path, regression, capsys):
    argv = train_argv(regression[0], tmp_path / "m")
    assert run_process(*argv).stderr == ""
    assert "5/5" in run_process(*argv, "--progress").stderr
    assert run_process(*argv, "--no-progress").stderr == ""


@pytest.mark.parametrize("command", [[], ["train"], ["predict"], ["info"], ["demo"]])
def test_help_shows_examples(command, capsys):
    with pytest.raises(SystemExit) as leaving:
        main([*command, "--help"])
    assert leaving.value.code == 0
    text = capsys.readouterr().out
    assert "bitgrove" in text
    if command == ["train"]:
        assert all(f"--{p.name}" in text for p in PARAMETERS if p.type != "callable")
    if command:
        assert "examples:" in text


def test_demo_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bitgrove.cli.demo.BITS", (None, 4))
    assert main(["demo", "--rows", "1000", "--out", str(tmp_path / "demo")]) == 0
    assert "test AUC" in capsys.readouterr().out
    assert (tmp_path / "demo" / "model.bitgrove").exists()
