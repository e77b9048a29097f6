"""`bitgrove report`: the page of a model file, and of rows in table files."""

import json
import re

import numpy as np
import pytest

import bitgrove
from cli_cases import (
    SMALL,
    features,
    ok,
    refused,
    regression_csv,
    train_argv,
    write_csv,
    write_parquet,
)


def kinds_of(path):
    text = path.read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    return {section["kind"] for section in data["sections"]}, data


def test_a_page_of_rows_and_their_truth(tmp_path, capsys):
    data, X, y = regression_csv(tmp_path)
    model, page = tmp_path / "m.bitgrove", tmp_path / "page.html"
    ok(capsys, *train_argv(data, model))
    said = ok(capsys, "report", model, "--data", data, "--label", "y", "--out", page,
              "--title", "Prices <b>")  # fmt: skip
    assert str(page) in said and "browser" in said
    kinds, content = kinds_of(page)
    assert {"summary", "residuals", "trees"} <= kinds and content["title"] == "Prices <b>"
    in_python = tmp_path / "python.html"
    bitgrove.load(model).report(in_python, X, y, title="Prices <b>")
    assert kinds_of(in_python)[1]["sections"][0] == content["sections"][0]


def test_a_page_without_truth_and_without_rows(tmp_path, capsys):
    data, _, _ = regression_csv(tmp_path)
    model, page = tmp_path / "m.bitgrove", tmp_path / "page.html"
    ok(capsys, *train_argv(data, model))
    ok(capsys, "report", model, "--data", data, "--out", page)
    assert "residuals" not in kinds_of(page)[0]
    ok(capsys, "report", model, "--out", page)
    assert kinds_of(page)[0] == {"summary", "importance", "trees"}


def test_classes_text_weights_and_queries(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x, shop = rng.normal(size=300), rng.choice(["north", "south"], 300)
    columns = {"x": x, "shop": shop, "w": np.ones(300), "q": np.repeat(np.arange(30), 10)}
    labels = np.where(x + (shop == "north") > 0.5, "yes", "no")
    data = write_csv(tmp_path / "d.csv", {**columns, "y": labels})
    model, page = tmp_path / "m.bitgrove", tmp_path / "page.html"
    ok(capsys, *train_argv(data, model, "--ignore", "w,q", objective="binary"))
    ok(capsys, "report", model, "--data", data, "--label", "y", "--weight", "w", "--out", page)
    assert {"thresholds", "calibration"} <= kinds_of(page)[0]
    graded = write_parquet(tmp_path / "g.parquet", {**columns, "y": (x > 0) * 1.0})
    ok(capsys, "train", "--data", graded, "--label", "y", "--group", "q", "--ignore", "w",
       "--objective", "lambdarank", "--model", model, *SMALL)  # fmt: skip
    ok(capsys, "report", model, "--data", graded, "--label", "y", "--group", "q", "--out", page)
    assert "queries" in kinds_of(page)[0]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--label", "y"], "--label is a column of rows: give --data FILE"),
        (["--data", "DATA", "--label", "z"], "no column 'z'"),
        (["--data", "nowhere.csv"], "nowhere.csv: no such file"),
    ],
)
def test_what_cannot_be_shown(tmp_path, capsys, words, complaint):
    data, _, _ = regression_csv(tmp_path)
    model = tmp_path / "m.bitgrove"
    ok(capsys, *train_argv(data, model))
    words = [data if word == "DATA" else word for word in words]
    assert complaint in refused(capsys, "report", model, *words, "--out", tmp_path / "page.html")


def test_the_name_of_the_page(tmp_path, capsys):
    data, _, _ = regression_csv(tmp_path)
    model = tmp_path / "m.bitgrove"
    ok(capsys, *train_argv(data, model))
    assert ".html" in refused(capsys, "report", model, "--out", tmp_path / "page.pdf")
    assert "--out" in refused(capsys, "report", model)


def test_training_writes_a_report_with_curves_and_times(tmp_path, capsys):
    data, X, y = regression_csv(tmp_path)
    valid = write_parquet(tmp_path / "v.parquet", {**features(X[:50]), "y": y[:50]})
    page = tmp_path / "page.html"
    words = train_argv(data, tmp_path / "m.bitgrove", "--valid", valid, "--report", page)
    assert str(page) in ok(capsys, *words)
    kinds, content = kinds_of(page)
    assert {"curves", "residuals", "training"} <= kinds
    assert content["sections"][0]["n_rows"] == 50
    assert ".html" in refused(capsys, *train_argv(data, tmp_path / "m", "--report", tmp_path / "p"))
