"""NCCL without GPUs: the same bytes, what is refused, and that nobody waits for ever."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import numpy as np
import pytest

from bitgrove.backends.reference import ReferenceBackend
from bitgrove.distributed import SoloComm, ThreadComm, nccl, run_threads
from bitgrove.distributed.nccl.comm import NcclComm, _check
from bitgrove.errors import ParameterError, RankFailure
from cases import CASES
from one_tree import builds, empty_case
from staged_channel import StagedChannel

GPU = {"gpu": ["node", "aa"], "version": 22000}


@pytest.mark.parametrize("n_ranks", [2, 3])
@pytest.mark.parametrize("name", ["binary 2 bits", "binary full precision", "tall narrow"])
def test_sums_of_a_channel_give_the_bytes_of_one_process(name: str, n_ranks: int) -> None:
    case = CASES[name]()

    def work(comm: ThreadComm) -> tuple[str, int]:
        channel = StagedChannel(comm)
        model = case.train_shard(NcclComm(comm, channel), "uneven", {"device": "reference"})
        return model.digest(), channel.n_sums

    digests, n_sums = zip(*run_threads(n_ranks, work), strict=True)
    assert set(digests) == {case.train().digest()}
    assert min(n_sums) > 10  # the histograms went that way


def test_histograms_on_the_cpu_are_refused() -> None:
    case = CASES["binary 2 bits"]()

    def work(comm: ThreadComm) -> None:
        case.train_shard(NcclComm(comm, StagedChannel(comm)), "uneven", {"device": "cpu"})

    with pytest.raises(ParameterError, match="histograms are on the CPU"):
        run_threads(2, work)


def _wait_in_nccl(comm: ThreadComm, timeout: float) -> tuple[RankFailure, float, StagedChannel]:
    """What a rank raises whose sums never end, and after how long."""
    comm.timeout = timeout
    channel = StagedChannel(SoloComm(), ended=lambda: False)
    pool = ReferenceBackend().new_pool(empty_case(4).reference, 1, 64)
    rank_bins = np.array([[0, 4]] * comm.size)
    started = time.monotonic()
    with pytest.raises(RankFailure) as failure:
        NcclComm(comm, channel).sum_histograms(pool, builds((0, 1, 0, 64, 64, 1)), rank_bins)
    return failure.value, time.monotonic() - started, channel


def _outcome(n_ranks: int, rank: int, misbehave: Any, timeout: float) -> dict[int, Any]:
    """What the other ranks met in NCCL while one rank did something else."""
    found: dict[int, Any] = {}

    def work(comm: ThreadComm) -> None:
        if comm.rank == rank:
            misbehave(comm)
        else:
            found[comm.rank] = _wait_in_nccl(comm, timeout)

    run_threads(n_ranks, work)
    return found


def test_a_rank_that_fails_ends_those_that_wait_in_nccl_at_once() -> None:
    def fail(comm: ThreadComm) -> None:
        time.sleep(0.2)
        comm.fail("no memory left")

    for failure, seconds, channel in _outcome(3, 1, fail, timeout=30.0).values():
        assert (failure.rank, failure.reason) == (1, "no memory left")
        assert seconds < 10.0 and channel.n_aborts > 0


def test_a_silent_rank_is_named_after_the_time_limit() -> None:
    found = _outcome(3, 2, lambda comm: time.sleep(2.5), timeout=0.5)
    assert {failure.rank for failure, _, _ in found.values()} == {2}
    assert all(channel.n_aborts > 0 for _, _, channel in found.values())


def test_sums_that_do_not_end_though_all_answer_are_an_error() -> None:
    # Long enough that a busy machine does not make one of them late.
    for failure, _, channel in run_threads(2, lambda comm: _wait_in_nccl(comm, 2.0)):
        assert "though all ranks answer" in failure.reason
        assert channel.n_aborts > 0


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"error": "this CuPy has no NCCL"}, "rank 1: this CuPy has no NCCL"),
        (GPU, "ranks 0 and 1 have the same GPU of node"),
        ({**GPU, "gpu": ["node", "bb"], "version": 21000}, "22000 but rank 1 21000"),
    ],
)
def test_ranks_that_cannot_use_nccl_together(other: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message) as error:
        _check([{**GPU, "id": [0]}, other])
    assert error.value.everywhere
    _check([{**GPU, "id": [0]}, {**GPU, "gpu": ["other node", "aa"]}])


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed")
def test_without_cupy_every_rank_hears_why() -> None:
    def work(comm: ThreadComm) -> str:
        with pytest.raises(ParameterError, match="rank 0: device='cuda' needs CuPy") as error:
            nccl(comm)
        return str(error.value)

    assert len(set(run_threads(2, work))) == 1
