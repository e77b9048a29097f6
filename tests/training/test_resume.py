"""A training that was stopped goes on from its checkpoint to the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.distributed import Comm, run_threads
from bitgrove.errors import ParameterError
from bitgrove.params import resolve
from bitgrove.training.variants import BOOSTING
from cases import CASES, Case


class PowerCut(Exception):
    pass


def interrupted(case: Case, path: Path, every: int, cut: int, **more: Any) -> None:
    """Trains with checkpoints until the callback of an iteration raises."""

    def fail(state: Any) -> None:
        if state.iteration == cut:
            raise PowerCut

    with pytest.raises(PowerCut):
        train(case, callbacks=[bg.checkpoint(path, every), fail], **more)


def train(case: Case, **more: Any) -> bg.Model:
    valid = None
    if case.valid is not None:
        X, y, group = case.valid
        valid = bg.Dataset(X, y, group=group)
    dataset = bg.Dataset(case.X, case.y, weight=case.weight, group=case.group)
    return bg.train(case.params, dataset, valid_sets=valid, **more)


def test_every_case_resumes_to_the_same_bytes(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    interrupted(case, path, every=2, cut=3)
    assert bg.load(path).n_iterations == 2
    if not BOOSTING[resolve(case.params).boosting_type].can_resume:
        with pytest.raises(ParameterError, match="resume_from: not with boosting_type="):
            train(case, resume_from=path)
        return
    resumed, whole = train(case, resume_from=path), train(case)
    assert resumed.to_bytes() == whole.to_bytes()
    assert resumed.info.evals_result == whole.info.evals_result


def test_early_stopping_remembers_the_time_before_the_stop(tmp_path: Path) -> None:
    case = CASES["early stopping"]()
    whole = train(case)
    n_trained = len(whole.info.evals_result["valid_0"]["auc"])
    interrupted(case, tmp_path / "c", every=1, cut=n_trained - 1)
    resumed = train(case, resume_from=tmp_path / "c")
    assert resumed == whole and resumed.best_iteration == whole.best_iteration


def test_a_checkpoint_is_replaced_only_by_a_longer_one(tmp_path: Path) -> None:
    case, path = CASES["regression"](), tmp_path / "c"
    interrupted(case, path, every=1, cut=5)
    assert bg.load(path).n_iterations == 5
    seen = []
    train(
        case,
        resume_from=bg.load(path),
        callbacks=[bg.checkpoint(path, 1), lambda s: seen.append(bg.load(path).n_iterations)],
    )
    assert seen == [5, 5, 5, 5, 5, 6]


def test_ranks_resume_from_the_file_of_rank_0(tmp_path: Path) -> None:
    case = CASES["binary sampled"]()
    interrupted(case, tmp_path / "c", every=2, cut=4)

    def work(comm: Comm) -> str:
        rows = np.array_split(np.arange(len(case.y)), comm.size)[comm.rank]
        start = tmp_path / "c" if comm.rank == 0 else tmp_path / "not here"
        dataset = bg.Dataset(case.X[rows], case.y[rows])
        return bg.train(
            {**case.params, "n_jobs": 1}, dataset, comm=comm, resume_from=start
        ).digest()

    assert set(run_threads(3, work)) == {train(case).digest()}


def test_checkpoints_of_another_training_are_refused(tmp_path: Path) -> None:
    case, path = CASES["regression"](), tmp_path / "c"
    interrupted(case, path, every=1, cut=3)
    dataset = bg.Dataset(case.X, case.y)
    for change, message in [
        ({"num_leaves": 9}, "num_leaves=9: the checkpoint was trained with 15"),
        ({"n_estimators": 2}, "n_estimators=2: the checkpoint already has 3"),
    ]:
        with pytest.raises(bg.ParameterError, match=message):
            bg.train({**case.params, **change}, dataset, resume_from=path)
    with pytest.raises(bg.DataError, match="other labels"):
        bg.train(case.params, bg.Dataset(case.X, case.y + 1), resume_from=path)
    with pytest.raises(bg.DataError, match="other features"):
        named = bg.Dataset(case.X, case.y, feature_names=list("abcde"))
        bg.train(case.params, named, resume_from=path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(bg.ModelFormatError):
        bg.train(case.params, dataset, resume_from=path)


@pytest.mark.parametrize("change", ["rows", "labels", "weights", "groups", "init scores"])
def test_resuming_on_other_data_is_refused(change: str, tmp_path: Path) -> None:
    """Lambdarank starts at zero, whatever the labels: only fingerprints tell the data apart."""
    case, path = CASES["ranking"](), tmp_path / "c"
    data = {"label": case.y, "weight": np.ones(len(case.y)), "group": np.array(case.group),
            "init_score": np.zeros(len(case.y))}  # fmt: skip
    params = {**case.params, "n_estimators": 2, "early_stopping_rounds": None}
    bg.train(params, bg.Dataset(case.X, **data), callbacks=[bg.checkpoint(path, 1)])
    X = case.X.copy()
    if change == "rows":
        X[7, 1] += 1.0
    elif change == "labels":
        data["label"] = np.roll(case.y, 1)
    elif change == "weights":
        data["weight"][3] = 2.0
    elif change == "groups":
        data["group"][:2] += [1, -1]
    else:
        data["init_score"][5] = 0.5

    def rank(comm: Comm) -> None:
        shard = bg.Dataset(X, **data) if comm.rank == 0 else bg.Dataset(X[:0], case.y[:0])
        with pytest.raises(bg.DataError, match=f"the checkpoint was trained on other {change}"):
            bg.train(params, shard, comm=comm, resume_from=path)

    for n_ranks in (1, 2):
        run_threads(n_ranks, rank)


def test_resuming_from_the_checkpoint_of_another_start_is_refused(tmp_path: Path) -> None:
    case, path = CASES["regression"](), tmp_path / "c"
    data = bg.Dataset(case.X, case.y)
    part = data.subset(np.arange(200))  # with the bins of all rows
    bg.train(case.params, part, callbacks=[bg.checkpoint(path, 1)])
    with pytest.raises(bg.DataError, match="trained on other reference"):
        bg.train(case.params, bg.Dataset(case.X[:200], case.y[:200]), resume_from=path)
