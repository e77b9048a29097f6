"""Voting-parallel search: all features elected is the exact search; fewer save bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.distributed import Comm, CountingComm, run_threads
from cases import CASES, Case, signal, table

X = table(4000, 30, 0)
Y = signal(X, 0)
PARAMS = {"objective": "regression", "n_estimators": 4, "num_leaves": 31, "n_jobs": 1}
PARAMS |= {"bin_sample_rows": 200}  # next to nothing is sent to find the edges of the bins


def vote(case: Case, n_ranks: int, **changes: Any) -> list[bg.Model]:
    return case.train_on_shards(n_ranks, n_jobs=1, distributed="voting", **changes)


@pytest.mark.parametrize(
    "name", ["binary 2 bits", "multiclass", "regression weighted", "binary full precision"]
)
@pytest.mark.parametrize("changes", [{}, {"packed": False}, {"device": "reference"}])
def test_electing_every_feature_is_the_exact_search(name: str, changes: dict[str, Any]) -> None:
    case = CASES[name]()
    exact = case.train()
    for model in vote(case, 3, top_k=100, **changes):
        assert [t.threshold.tolist() for t in model.trees] == [
            t.threshold.tolist() for t in exact.trees
        ]
        assert [t.leaf_value.tolist() for t in model.trees] == [
            t.leaf_value.tolist() for t in exact.trees
        ]
        assert model.params["distributed"] == "voting" and exact.params["distributed"] == "data"


def train(comm: Comm, **changes: Any) -> tuple[bg.Model, CountingComm]:
    counting = CountingComm(comm)
    rows = np.array_split(np.arange(len(Y)), comm.size)[comm.rank]
    model = bg.train({**PARAMS, **changes}, bg.Dataset(X[rows], Y[rows]), comm=counting)
    return model, counting


def test_few_elected_features_save_bytes_and_still_learn() -> None:
    exact = run_threads(4, train)
    voted = run_threads(4, lambda comm: train(comm, distributed="voting", top_k=2))
    again = run_threads(4, lambda comm: train(comm, distributed="voting", top_k=2))
    assert len({model.digest() for model, _ in voted + again}) == 1
    sent = [runs[0][1].sent_bytes["alltoall"] for runs in (exact, voted)]
    # 4 of 30 features; but all nodes are sent, not only the smaller child of each pair.
    assert sent[1] < 0.5 * sent[0]
    errors = [np.mean(np.square(runs[0][0].predict(X) - Y)) for runs in (exact, voted)]
    assert errors[1] < 1.1 * errors[0] < np.var(Y)


def test_the_user_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    run_threads(2, lambda comm: train(comm, distributed="voting", verbosity=1))
    assert capsys.readouterr().err.count("voting over 2 ranks: the model may depend") == 1


def test_messages_of_a_tree() -> None:
    """Per frontier round: counts, one exchange whatever the widths, best splits."""

    def work(comm: Comm) -> tuple[int, int]:
        model, counting = train(comm, gradient_bits=8)
        rounds = sum(model.info.rounds_per_tree)
        # One for the edges of the bins, two each for the fingerprints of rows and labels.
        return rounds, counting.calls["alltoall"] - 5

    for rounds, n_exchanges in run_threads(2, work):
        assert n_exchanges <= rounds  # the last round of a tree finds nothing left to do
