"""The experiments: running, stopping, going on, and what they write."""

from __future__ import annotations

import csv
import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bitgrove as bg
from bitgrove.cli.demo.data import make_higgs_like
from lab.__main__ import main
from lab.benchmarks import QUESTIONS
from lab.datasets.entry import Wanted
from lab.datasets.table import DATASETS
from lab.datasets.task import Task
from lab.experiments import EXPERIMENTS
from lab.experiments.table2 import Table2
from lab.experiments.timing import step_ms
from lab.reporting import machine
from lab.running.experiment import Cell, Experiment, Report, Result, Results
from lab.running.runs import run
from lab.running.study import Bench, Study
from lab.scoring import score
from lab.systems import lineup
from lab.systems.base import Settings
from lab.systems.bitgrove import Bitgrove

TINY = {"trees": 3, "seeds": 2, "leaves": 7, "bits": (2, 4), "peers": ()}


def _study(out: Path, rows: int = 2000, **changes: Any) -> Study:
    wanted = Wanted(None, None, rows)
    return Study(out, wanted, **{**TINY, "datasets": ("higgs",), **changes})


class Trial(Experiment):
    summary = "a trial"

    def __init__(self, measure: Any, name: str = "trial") -> None:
        self.name, self._measure = name, measure

    def plan(self, study: Study) -> list[Cell]:
        return [Cell("higgs", label, seed) for label in ("ours", "LightGBM") for seed in range(2)]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        return self._measure(cell, bench)

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        rows = [{"system": c.system, "seed": c.seed, **r} for c, r in results]
        return Report(rows, f"{len(results)} results", lambda figure: figure.subplots())


def test_stopped_runs_go_on_where_they_were(tmp_path: Path) -> None:
    calls: list[tuple[str, int]] = []

    def measure(cell: Cell, bench: Bench) -> Result:
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append((cell.system, cell.seed))
        return {"value": cell.seed}

    with pytest.raises(KeyboardInterrupt):
        run(Trial(measure), _study(tmp_path))
    assert not (tmp_path / "trial/trial.csv").exists()
    done = list(calls)
    calls.clear()
    written = run(Trial(lambda c, b: calls.append((c.system, c.seed)) or {"value": 9}),
                  _study(tmp_path))  # fmt: skip
    assert calls == [("LightGBM", 1)] and len(done) == 3
    assert [path.suffix for path in written] == [".csv", ".md", ".png"]
    with written[0].open() as file:
        assert [row["value"] for row in csv.DictReader(file)] == ["0", "1", "0", "9"]
    assert "4 results" in written[1].read_text()
    assert written[2].read_bytes().startswith(b"\x89PNG")


def test_damaged_cells_and_other_settings_are_measured_again(tmp_path: Path) -> None:
    calls: list[str] = []
    experiment = Trial(lambda c, b: calls.append(c.system) or {"value": 1})
    run(experiment, _study(tmp_path))
    assert len(calls) == 4
    damaged = sorted((tmp_path / "trial/cells").iterdir())[0]
    damaged.write_text('{"cell": ')
    run(experiment, _study(tmp_path))
    assert len(calls) == 5 and json.loads(damaged.read_text())["result"] == {"value": 1}
    run(experiment, _study(tmp_path, trees=4))
    assert len(calls) == 9
    run(experiment, _study(tmp_path, threads=2))  # a model does not depend on threads
    assert len(calls) == 9


def test_only_other_libraries_may_fail(tmp_path: Path) -> None:
    def measure(cell: Cell, bench: Bench) -> Result:
        if cell.system == "LightGBM":
            raise RuntimeError("Check failed\nmore")
        return {"value": 1}

    run(Trial(measure), _study(tmp_path))
    assert "Check failed" in (tmp_path / "trial/trial.csv").read_text()

    def ours(cell: Cell, bench: Bench) -> Result:
        raise RuntimeError("ours")

    with pytest.raises(RuntimeError, match="ours"):
        run(Trial(ours, "other"), _study(tmp_path))


def test_several_jobs_measure_the_same(tmp_path: Path) -> None:
    study = _study(tmp_path / "one", seeds=1)
    run(EXPERIMENTS["table2"], study)
    run(EXPERIMENTS["table2"], replace(study, out=tmp_path / "two", jobs=2))
    one, two = ((tmp_path / n / "table2/table2.csv").read_text() for n in ("one", "two"))
    assert one == two and len(one.splitlines()) == 10
    assert len(list((tmp_path / "two/table2/cells").iterdir())) == 9


def test_an_error_in_a_job_ends_the_run_and_keeps_what_is_done(tmp_path: Path) -> None:
    study = _study(tmp_path, seeds=1, bits=(2,), jobs=2)
    with pytest.raises(RuntimeError, match="no refit"):
        run(FailsWithoutRefit(), study)
    assert not (tmp_path / "table2/table2.csv").exists()
    assert len(list((tmp_path / "table2/cells").iterdir())) >= 1


class FailsWithoutRefit(Table2):
    def measure(self, cell: Cell, bench: Bench) -> Result:
        if "no refit" in cell.system:
            raise RuntimeError(cell.system)
        return {"value": 1}


def test_peers_may_have_fewer_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineup, "_there", lambda package, found: True)
    study = _study(tmp_path, seeds=3, peer_seeds=1, bits=(2,), peers=("lightgbm",))
    cells = EXPERIMENTS["table2"].plan(study)
    counts = Counter(cell.system for cell in cells)
    assert counts["LightGBM 2-bit"] == 1 and counts["2-bit SR refit"] == 3
    assert counts["2-bit RN refit"] == counts["bitgrove"] == 1


@pytest.mark.parametrize(
    ("what", "changes", "message"),
    [
        ("fig6", {"device": "cuda"}, "fig6 runs on the CPU only"),
        ("table3", {"jobs": 2}, "--jobs 2: table3 measures time"),
    ],
)
def test_wishes_an_experiment_cannot_follow(
    what: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(bg.ParameterError, match=message):
        run(EXPERIMENTS[what], _study(tmp_path, **changes))


def test_a_page_names_the_machines_of_its_cells(tmp_path: Path) -> None:
    experiment = Trial(lambda c, b: {"value": 1})
    run(experiment, _study(tmp_path))
    moved = sorted((tmp_path / "trial/cells").iterdir())[0]
    moved.write_text(json.dumps({**json.loads(moved.read_text()), "machine": "another one"}))
    page = run(experiment, _study(tmp_path))[1].read_text()
    assert f"Machine: another one; {machine()}" in page or f"Machine: {machine()}; another" in page


def test_the_list_names_every_experiment_benchmark_and_dataset(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line}
    assert {*EXPERIMENTS, *QUESTIONS, *DATASETS} <= listed


@pytest.mark.parametrize(
    ("what", "datasets"),
    [
        ("table2", ["year"]), ("table3", ["higgs"]), ("fig4", ["criteo"]), ("fig5", ["letor"]),
        ("fig6", ["higgs"]), ("fig7", ["year"]), ("fig8", ["higgs"]), ("bounds", ["year"]),
        ("zeros", ["letor"]), ("auto", ["higgs"]), ("tails", []), ("full_size", ["year"]),
        ("row_sweep", ["year"]), ("accuracy", ["multiclass_like"]),
        ("defaults", ["wine", "tiny_ranking"]), ("ranking_bits", ["tiny_ranking"]),
        ("sparse_rounding", ["higgs"]), ("split_refit", ["year"]),
    ],
)  # fmt: skip
def test_the_command_writes_a_table_a_page_and_a_picture(
    what: str, datasets: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [what, "--quick", "--rows", "2000", "--trees", "3", "--seeds", "1",
             "--leaves", "7", "--bits", "2", "--peers", "--out", str(tmp_path)]  # fmt: skip
    assert main([*words, *(["--datasets", *datasets] if datasets else [])]) == 0
    page = capsys.readouterr().out
    assert f"# {what}: " in page and "| " in page
    with (tmp_path / what / f"{what}.csv").open() as file:
        assert list(csv.DictReader(file))
    assert (tmp_path / what / f"{what}.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table2", "--datasets", "higs"], "dataset 'higs': must be one of higgs"),
        (["table2", "--data", "/nowhere"], "no such folder"),
        (["table2", "--datasets", "adult"], "say where with --data"),
        (["bench", "versus_peers", "--systems", "bitgrove-9"], "bits out of range"),
        (["bench", "versus_peers", "--systems", "xgboost-3"], "unknown system"),
    ],
)
def test_bad_words_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table9"], "invalid choice"),
        (["bench", "speed"], "invalid choice"),
        (["table2", "--scale", "-1"], "expected a number > 0"),
        (["table2", "--rowz", "5"], "unrecognized arguments"),
    ],
)
def test_words_that_mean_nothing_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert message in capsys.readouterr().err


def test_an_empty_data_folder_says_where_to_get_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fig7", "--data", str(tmp_path), "--out", str(tmp_path / "o")]) == 2
    assert "YearPredictionMSD.txt" in capsys.readouterr().err


# ---------------------------------------------------------------- systems and measurements


@pytest.fixture(scope="module")
def task() -> Task:
    X, y = make_higgs_like(2000, seed=5)
    return Task("higgs", "binary", X[:1500], y[:1500], X[1500:], y[1500:])


@pytest.mark.parametrize("label", ["bitgrove", "2-bit RN no refit", "LightGBM 3-bit", "XGBoost",
                                   "CatBoost"])  # fmt: skip
def test_a_curve_ends_at_the_whole_models_score(label: str, task: Task) -> None:
    system = lineup.labelled(label)
    if not system.installed:
        pytest.skip(f"{system.package} is not installed")
    settings = Settings(n_trees=4, num_leaves=7, min_child_samples=5)
    prepared = system.prepare(task, settings)
    curve = system.curve(prepared, settings, 1)
    model = system.train(prepared, settings, 1).model
    whole = score(task, system.predictor(model, task, 1)(task.X_test))
    assert len(curve) == 4
    assert curve[-1] == pytest.approx(whole, abs=2e-4)  # XGBoost adds up float32


def test_labels_are_the_parameters_they_name() -> None:
    system = lineup.labelled("3-bit RN no refit")
    assert isinstance(system, Bitgrove) and system.bits == 3
    assert system.more == {"rounding": "nearest", "refit_leaves": False, "gradient_scale": "max"}
    assert lineup.layout("epsilon", None) == "col" and lineup.layout("epsilon", 2) == "row"
    assert lineup.layout("bosch", 2) == "col" and lineup.layout("higgs", None) == "row"
    assert lineup.layout("adult", None) is None


def test_fewer_rows_lower_the_least_hessian(tmp_path: Path) -> None:
    bench = Bench(_study(tmp_path, 46_371, datasets=("year",), leaves=None))
    settings = bench.settings("year")
    assert settings.num_leaves == 255 and settings.min_child_weight == pytest.approx(10, rel=1e-3)
    bosch = Bench(_study(tmp_path, datasets=("bosch",), leaves=None)).settings("bosch")
    assert (bosch.num_leaves, bosch.learning_rate) == (45, 0.015)


def test_the_stopwatch_counts_part_of_the_time(task: Task) -> None:
    settings = Settings(n_trees=5, num_leaves=15)
    system = Bitgrove("bitgrove", 2)
    prepared = system.prepare(task, settings)
    start = time.perf_counter()
    found = step_ms(system, prepared, settings)
    elapsed = 1e3 * (time.perf_counter() - start) / settings.n_trees
    assert found["histograms_ms"] > 0.0 and found["scan_ms"] > 0.0
    assert found["histograms_ms"] + found["scan_ms"] < found["steps_ms"] < elapsed


def test_seconds_end_a_study_and_the_same_command_goes_on(tmp_path: Path) -> None:
    calls: list[Cell] = []
    experiment = Trial(lambda c, b: calls.append(c) or time.sleep(0.01) or {"value": 1})
    assert run(experiment, _study(tmp_path, seconds=1e-9)) == [] and not calls
    run(experiment, _study(tmp_path, seconds=60.0))
    assert len(calls) == 4
    with pytest.raises(bg.ParameterError, match="--seconds 5: not with --jobs 2"):
        run(experiment, _study(tmp_path, seconds=5.0, jobs=2))


def test_fig4_counts_the_same_model_and_fewer_bytes_at_few_bits(tmp_path: Path) -> None:
    study = _study(tmp_path, datasets=("criteo",))
    run(EXPERIMENTS["fig4"], study)
    with (tmp_path / "fig4/fig4.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["ranks"] != "1"]
    for system in ("bitgrove", "2-bit SR refit"):
        assert len({row["digest"] for row in rows if row["system"] == system}) == 1
    full, few = (
        [float(row["bytes"]) for row in rows if row["system"] == system]
        for system in ("bitgrove", "2-bit SR refit")
    )
    assert all(2 * small < large for small, large in zip(few, full, strict=True))
