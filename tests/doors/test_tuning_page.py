"""The examples of docs/tuning.md run, where the packages are installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"


def run_example(heading: str) -> dict[str, Any]:
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, f"{PAGE.name}: {heading}", "exec"), names)
    return names


def test_optuna() -> None:
    optuna = pytest.importorskip("optuna")
    study = run_example("Optuna")["study"]
    states = [trial.state for trial in study.trials]
    assert len(states) == 8 and set(states) <= {
        optuna.trial.TrialState.COMPLETE,
        optuna.trial.TrialState.PRUNED,
    }
    assert study.best_value > 0.7


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.chdir(tmp_path)  # artifacts go beside the runs
    names = run_example("MLflow")
    recorded = names["model"].info.evals_result["valid_0"]["rmse"]
    assert [point.value for point in names["history"]] == recorded
    run = names["mlflow"].get_run(names["run"].info.run_id)
    assert run.data.tags["digest"] == names["model"].digest()
    assert run.data.params["num_leaves"] == "15"
