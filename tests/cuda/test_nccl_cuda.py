"""NCCL on one GPU: the library with a single rank, and several ranks with its place taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitgrove.backends.cpu import CpuBackend
from bitgrove.data.binning import BinMapper
from bitgrove.distributed import SoloComm, nccl, run_threads
from bitgrove.errors import ParameterError
from bitgrove.kernels.plans import BUILD, records
from cases import CASES
from mpi_launch import run_job


@pytest.fixture(scope="module")
def solo(backend: Any) -> Any:
    try:
        return nccl(SoloComm())
    except ParameterError as error:
        pytest.skip(str(error))


def pool_of(backend: Any, n_slots: int, half_bits: int) -> Any:
    """A pool of histograms of one feature with 200 bins."""
    mapper = BinMapper(np.arange(199.0), np.array([0, 199]), np.zeros(1, np.uint8))
    matrix = backend.bin_columns([np.arange(200.0)], mapper)
    matrix.prepare(mapper)
    return backend.new_pool(matrix, n_slots, half_bits)


def built(slots: list[int]) -> Any:
    return records(BUILD, len(slots), slot=slots)


@pytest.mark.parametrize("half_bits", [32, 64])
def test_one_rank_keeps_its_sums(backend: Any, solo: Any, half_bits: int) -> None:
    pool = pool_of(backend, 5, half_bits)
    before = np.random.default_rng(half_bits).integers(-(2**62), 2**62, pool.storage.shape)
    pool.storage.set(before)
    for slots in ([3, 0], [4], [0, 1, 2, 3, 4]):
        for bins in ((0, 200), (10, 11), (5, 5)):
            solo.sum_histograms(pool, built(slots), np.array([bins]))
    assert np.array_equal(pool.storage.get(), before)


def test_a_rank_alone_trains_to_the_same_bytes(solo: Any) -> None:
    case = CASES["binary 2 bits"]()
    model = case.train_shard(solo, "uneven", {"device": "cuda"})
    assert model.digest() == case.train().digest()


def test_memory_of_the_cpu_is_refused(solo: Any) -> None:
    with pytest.raises(ParameterError, match=r"on the CPU, but nccl\(\) was given cuda:"):
        solo.sum_histograms(pool_of(CpuBackend(1), 1, 64), built([0]), np.array([(0, 8)]))


def test_two_ranks_on_one_gpu_are_refused(solo: Any) -> None:
    def work(comm: Any) -> str:
        with pytest.raises(ParameterError, match="ranks 0 and 1 have the same GPU") as error:
            nccl(comm)
        return str(error.value)

    assert len(set(run_threads(2, work))) == 1


def test_an_aborted_channel_ends_and_says_so(backend: Any, solo: Any) -> None:
    own = nccl(SoloComm())
    pool = pool_of(backend, 1, 32)
    own._channel.abort()
    with pytest.raises(Exception, match="NCCL"):
        own.sum_histograms(pool, built([0]), np.array([(0, 8)]))


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_sums_on_the_device_give_the_bytes_of_one_process(backend: Any, n_ranks: int) -> None:
    names = ["binary 2 bits", "binary full precision", "tall narrow"]
    found = run_job(n_ranks, "staged", [(name, "uneven", {"device": "cuda"}) for name in names])
    for name, digests in zip(names, found, strict=True):
        assert digests == [CASES[name]().train().digest()] * n_ranks, name
