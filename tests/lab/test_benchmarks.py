"""The benchmarks that need neither root nor a GPU nor other libraries, at their smallest."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lab.__main__ import main
from lab.benchmarks.categories import Run, Table, read_runs, report
from lab.systems.bitgrove import Bitgrove


def test_same_bits_says_that_the_ways_agree(capsys: pytest.CaptureFixture[str]) -> None:
    ways = ["reference", "threads 2", "ranks 3"]
    assert main(["bench", "same_bits", "--cases", "binary 2", "lambdarank 5", "--ways", *ways]) == 0
    printed = capsys.readouterr().out
    assert "all equal: yes" in printed
    lines = [line for line in printed.splitlines() if line.startswith("| ranks 3")]
    assert len(lines) == 1 and lines[0].count("|") == 4


def test_lossless_shows_losses_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    """Classes are learnt as softmax or one against all; times are shown against "max 4"."""
    few = ["--seeds", "2", "--rows", "600", "--trees", "2", "--threads", "1"]
    words = ["bench", "lossless", "--tables", "three_classes", *few]
    printed = []
    for more in (["--settings", "robust 4"], ["--settings", "max 4"], ["--one-against-all"]):
        assert main([*words, *more]) == 0
        printed.append(capsys.readouterr().out.splitlines()[-1])
    assert "(" not in printed[0] and printed[1].endswith("(1.00) |")
    assert printed[1].split("|")[2] != printed[2].split("|")[2]


def test_versus_peers_measures_each_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    lines = ["fit_1k", "higgs_100k", "multiclass_like"]
    words = ["--quick", "--lines", *lines, "--systems", "bitgrove-2", "sklearn", "--json", str(out)]
    assert main(["bench", "versus_peers", *words]) == 0
    assert "whole fit(), 1k x 20" in capsys.readouterr().out
    records = json.loads(out.read_text())["lines"]
    assert [record["line"] for record in records] == lines
    for record in records:
        assert set(record["outcomes"]) == {"bitgrove-2", "sklearn"}
        for outcome in record["outcomes"].values():
            # What is timed as a difference may be nothing on a busy machine.
            seconds = list(outcome["best"].values())
            assert outcome["error"] is None and min(seconds) >= 0.0 and max(seconds) > 0.0
    assert set(records[2]["outcomes"]["sklearn"]["quality"]) == {"multi_logloss", "multi_error"}


def test_libraries_that_are_missing_are_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.systems.base.find_spec", lambda package: None)
    monkeypatch.setattr(Bitgrove, "installed", True)
    words = ["--quick", "--lines", "fit_1k", "--systems", "bitgrove-3", "lightgbm-3", "xgboost"]
    assert main(["bench", "versus_peers", *words]) == 0
    said = capsys.readouterr()
    assert "bitgrove-3" in said.out and "xgboost" not in said.out
    assert "left out: pip install lightgbm" in said.err and "pip install xgboost" in said.err


def test_categories_beside_other_libraries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    words = ["--tables", "ids", "--max-rows", "3000", "--trees", "20", "--csv", str(out)]
    words += ["--systems", "bitgrove", "lightgbm"]
    assert main(["bench", "categories", *words, "--seeds", "1"]) == 0
    first = read_runs(out)
    assert main(["bench", "categories", *words, "--seeds", "2"]) == 0
    said = capsys.readouterr().out
    n_systems = 1 + (importlib.util.find_spec("lightgbm") is not None)
    assert "| bitgrove |" in said and "bitgrove is better by" in said
    runs = read_runs(out)
    # What the file held was not measured again.
    assert runs[:n_systems] == first and len(runs) == 2 * n_systems
    assert all(0.5 < r.metric < 1.0 and r.seconds and r.rows == 3000 for r in runs)


def test_categories_are_compared_on_the_same_splits() -> None:
    table = Table(pd.DataFrame({"c": ["a", "b"]}), np.zeros(2), False)
    libraries = {"bitgrove": (2.0, (3.0, 9.0)), "b": (5.0, (4.0, 12.0))}
    runs = [
        Run("t", 2, seed, "default", library, metric, seconds)
        for library, (seconds, metrics) in libraries.items()
        for seed, metric in enumerate(metrics)
    ]
    line = report("t", table, runs).splitlines()[-1]
    assert [cell.strip() for cell in line.split("|")[1:-1]] == [
        "b", "8.00000 ± 4.00000", "2.00000 ± 1.00000", "5.00", "2.5"
    ]  # fmt: skip


def test_threads_and_linearity_print_tables(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--rows", "2000", "--trees", "2", "--repeats", "1"]
    assert main(["bench", "threads", *small, "--threads", "1", "2"]) == 0
    assert "| threads | ms per tree | speed-up |" in capsys.readouterr().out
    assert main(["bench", "linearity", *small, "--features", "28", "56", "--per-row", "3"]) == 0
    printed = capsys.readouterr().out
    assert "|       56 |" in printed and "|              3 |" in printed


@pytest.mark.parametrize(
    "words",
    [
        ["binning", "--shapes", "300x3", "--repeats", "1", "--trees", "2", "--devices", "cpu"],
        ["predict", "--rows", "50", "--trees", "2", "--repeats", "1", "--devices", "cpu"],
        ["first_use", "--rows", "400", "--device", "cpu", "--here"],
        ["fingerprint", "--shapes", "3000x5", "--repeats", "1", "--trees", "1"],
    ],
    ids=lambda words: words[0],
)
def test_calls(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "calls", *words]) == 0
    assert "NO" not in capsys.readouterr().out


def test_shapley_values_beside_other_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rows", "300", "--trees", "3", "--leaves", "7", "--repeats", "1", "--threads", "1"]
    assert main(["bench", "shap", *words]) == 0
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if line[:1] == "|"]
    assert lines[2][1].strip() == "bitgrove" and float(lines[2][3]) == 1.0
    assert float(lines[2][4]) < 1e-12


def test_reliability_refuses_every_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--sections", "inputs", "--libraries", "bitgrove"]
    assert main(["bench", "reliability", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    total = next(line for line in lines if line.startswith("| refused"))
    counted, _, of = total.split("|")[2].split()
    assert counted == of


def test_losses_beside_the_best_constant(capsys: pytest.CaptureFixture[str]) -> None:
    tables = ["claims of 0.03", "huber, values of 30.0"]
    assert main(["bench", "losses", "--rows", "600", "--seeds", "2", "--tables", *tables]) == 0
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if line[:1] == "|"]
    claims, huber = lines[2:]
    assert float(claims[2]) < 3.0 < float(claims[4].split("(")[0])
    assert float(huber[2]) < 0.9
