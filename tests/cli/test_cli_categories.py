"""Text columns and continued training on the command line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import bitgrove as bg
from bitgrove.cli.options import parse
from bitgrove.cli.training import _train_shard
from bitgrove.distributed import run_threads
from cli_cases import ok, read, refused, train_argv, write_csv, write_parquet

PARAMS = {"objective": "regression", "n_estimators": 5, "num_leaves": 7, "n_jobs": 1}


@pytest.fixture
def columns():
    """A text column, one of numbers that are categories, one of numbers, and the label."""
    rng = np.random.default_rng(0)
    city = np.array(["Rome", "Oslo", "Bonn", None], dtype=object)[rng.integers(0, 4, 300)]
    shop, x = rng.integers(0, 9, 300), np.round(rng.normal(size=300), 3)
    y = (city == "Oslo") + (shop % 2) + x
    return {"city": pa.array(city, pa.string()), "shop": shop, "x": x, "y": y}


def expected(columns):
    table = pa.table({name: columns[name] for name in ("city", "shop", "x")})
    return bg.train(PARAMS, bg.Dataset(table, columns["y"], categorical_feature=["shop"]))


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_the_model_is_that_of_python(write, columns, tmp_path, capsys):
    name = "d.csv" if write is write_csv else "d.parquet"
    path, model = write(tmp_path / name, columns), tmp_path / "m"
    ok(capsys, *train_argv(path, model, "--categorical-feature", "shop"))
    assert bg.load(model).digest() == expected(columns).digest()
    out = tmp_path / "p.csv"
    ok(capsys, "predict", "--model", model, "--data", path, "--out", out)
    table = pa.table({name: columns[name] for name in ("city", "shop", "x")})
    np.testing.assert_array_equal(read(out)["prediction"], bg.load(model).predict(table))


def test_dictionaries_are_categories(columns, tmp_path, capsys):
    columns["city"] = columns["city"].dictionary_encode()
    path, model = write_parquet(tmp_path / "d.parquet", columns), tmp_path / "m"
    ok(capsys, *train_argv(path, model, "--categorical_feature", "shop"))
    assert bg.load(model).digest() == expected(columns).digest()


def test_text_stays_text_where_it_looks_like_numbers(columns, tmp_path, capsys):
    """Codes such as 007 in one file, a letter among them in another."""
    codes = np.array(["007", "7", "a", "b"], dtype=object)[columns["shop"] % 4]
    columns["shop"], first = pa.array(codes, pa.string()), np.flatnonzero(columns["shop"] % 4 < 2)
    rest = np.setdiff1d(np.arange(300), first)
    for name, rows in (("1.csv", first), ("2.csv", rest)):
        write_csv(tmp_path / name, pa.table(columns).take(rows).to_pydict())
    argv = train_argv(tmp_path / "1.csv", tmp_path / "m", "--categorical_feature", "shop,city")
    argv.insert(3, tmp_path / "2.csv")
    ok(capsys, *argv, "--valid", tmp_path / "1.csv")
    whole = pa.table(columns).take(np.concatenate([first, rest])).to_pydict()
    model = bg.load(tmp_path / "m")
    assert model.digest() == expected({k: pa.array(v) for k, v in whole.items()}).digest()
    assert model.encoder.levels[1].values.tolist() == ["007", "7", "a", "b"]
    out = tmp_path / "p.csv"
    ok(capsys, "predict", "--model", tmp_path / "m", "--data", tmp_path / "1.csv", "--out", out)
    table = pa.table(columns).take(first).select(["city", "shop", "x"])
    np.testing.assert_array_equal(read(out)["prediction"], model.predict(table))


def test_text_on_one_rank_is_text_on_all(columns, tmp_path):
    """The first rank's file has only shops that look like numbers."""
    shops = np.array(["007", "7", "a", "b"], dtype=object)[columns["shop"] % 4]
    columns["shop"] = pa.array(shops, pa.string())
    order = np.argsort(shops, kind="stable")
    parts = np.split(order, [int(np.isin(shops, ["007", "7"]).sum())])
    for name, rows in zip(("1.csv", "2.csv"), parts, strict=True):
        write_csv(tmp_path / name, pa.table(columns).take(rows).to_pydict())
    words = train_argv(tmp_path / "*.csv", tmp_path / "m", "--categorical_feature", "shop")
    args = parse([str(word) for word in words])
    run_threads(2, lambda comm: _train_shard(args, comm))
    whole = pa.table(columns).take(order)
    assert bg.load(tmp_path / "m").digest() == expected(whole).digest()


def test_bad_categories(columns, tmp_path, capsys):
    path, model = write_csv(tmp_path / "d.csv", columns), tmp_path / "m"
    for name, message in (("y", "not a feature"), ("sohp", "did you mean 'shop'")):
        assert message in refused(capsys, *train_argv(path, model, "--categorical_feature", name))
    ok(capsys, *train_argv(path, model))
    columns["x"] = pa.array(["big"] * 300)
    other = write_csv(tmp_path / "o.csv", columns)
    argv = ["predict", "--model", model, "--data", other, "--out", tmp_path / "p.csv"]
    assert "column 'x' holds text: 'big' in row 1; a number is needed" in refused(capsys, *argv)
    latin = tmp_path / "latin.csv"
    latin.write_bytes("city,shop,x\nKöln,1,2\n".encode("latin-1"))
    found = refused(capsys, *argv[:4], latin, *argv[5:])
    assert "latin.csv: cannot be read" in found and "UTF8" in found


def test_going_on_from_a_model(columns, tmp_path, capsys):
    path, first, second = write_csv(tmp_path / "d.csv", columns), tmp_path / "1", tmp_path / "2"
    ok(capsys, *train_argv(path, first, "--ignore", "city"))
    ok(capsys, *train_argv(path, second, "--ignore", "city", "--init_model", first))
    table = pa.table({name: columns[name] for name in ("shop", "x")})
    data = bg.Dataset(table, columns["y"])
    assert bg.load(second).digest() == bg.train(PARAMS, data, init_model=first).digest()
    assert bg.load(second).n_iterations == 10
    argv = train_argv(path, second, "--init-model", first, "--ignore", "city")
    assert "exclude" in refused(capsys, *argv, "--checkpoint", tmp_path / "c")
    assert "is also an input" in refused(capsys, *argv[:8], first, *argv[9:])
    absent = train_argv(path, second, "--init_model", tmp_path / "none")
    assert "no such file" in refused(capsys, *absent)
    assert "other features" in refused(capsys, *train_argv(path, second, "--init-model", first))


def test_going_on_with_categories(columns, tmp_path, capsys):
    """The second file has only shops that look like numbers; they are text in the model."""
    shops = np.array(["007", "7", "a", "b"], dtype=object)[columns["shop"] % 4]
    columns["shop"] = pa.array(shops, pa.string())
    path, first, second = write_csv(tmp_path / "d.csv", columns), tmp_path / "1", tmp_path / "2"
    ok(capsys, *train_argv(path, first, "--categorical_feature", "shop"))
    rows = pa.table(columns).filter(pa.array(np.isin(shops, ["007", "7"])))
    few = write_csv(tmp_path / "few.csv", rows.to_pydict())
    ok(capsys, *train_argv(few, second, "--init_model", first))
    data = bg.Dataset(rows.select(["city", "shop", "x"]), rows["y"])
    assert bg.load(second).digest() == bg.train(PARAMS, data, init_model=first).digest()


def test_going_on_keeps_the_classes(tmp_path, capsys):
    rng = np.random.default_rng(1)
    x, kinds = rng.normal(size=200), np.array(["a", "b", "c"])
    label = kinds[np.digitize(x, [-0.5, 0.5])]
    path = write_csv(tmp_path / "d.csv", {"x": x, "y": label})
    ok(capsys, *train_argv(path, tmp_path / "1", objective="multiclass"))
    few = write_csv(tmp_path / "few.csv", {"x": x[x < 0.5], "y": label[x < 0.5]})
    more = ["--init_model", tmp_path / "1"]
    ok(capsys, *train_argv(few, tmp_path / "2", *more, objective="multiclass"))
    assert bg.load(tmp_path / "2").classes == ["a", "b", "c"]
    strange = write_csv(tmp_path / "s.csv", {"x": x, "y": np.where(x < 0, "d", label)})
    found = refused(capsys, *train_argv(strange, tmp_path / "2", *more, objective="multiclass"))
    assert "holds the class 'd'" in found


def test_predictions_of_several_outputs(tmp_path, capsys):
    X = np.random.default_rng(2).normal(size=(100, 2))
    data = write_csv(tmp_path / "d.csv", {"f0": X[:, 0], "f1": X[:, 1]})
    models = {
        "labels": bg.BitGroveClassifier(n_estimators=3).fit(X, (X > 0).astype(int)).model_,
        "values": bg.BitGroveRegressor(n_estimators=3).fit(X, X).model_,
    }
    names = {
        "labels": ["probability_0", "probability_1", "predicted_0", "predicted_1"],
        "values": ["prediction_0", "prediction_1"],
    }
    for kind, model in models.items():
        model.save(tmp_path / "m")
        out = tmp_path / "p.csv"
        ok(capsys, "predict", "--model", tmp_path / "m", "--data", data, "--out", out)
        assert pa_csv.read_csv(out).column_names == names[kind]
        first = read(out)[names[kind][0]]
        np.testing.assert_array_equal(first, model.predict(X)[:, 0])
