"""Ranks on a GPU: histograms are staged through the host, the bytes are those of one process."""

from __future__ import annotations

from typing import Any

import pytest

from cases import CASES
from mpi_launch import run_job

NAMES = ["binary 2 bits", "binary full precision", "multiclass", "ranking", "regression weighted"]


@pytest.mark.parametrize("dealing", ["uneven", "empty"])
def test_two_ranks_share_one_gpu(backend: Any, dealing: str) -> None:
    found = run_job(2, "digests", [(name, dealing, {"device": "cuda"}) for name in NAMES])
    for name, digests in zip(NAMES, found, strict=True):
        assert digests == [CASES[name]().train().digest()] * 2, name


def test_voting_on_a_gpu_is_voting_on_the_cpu(backend: Any) -> None:
    voting = {"distributed": "voting", "top_k": 2}
    jobs = [("wide", "even", {**voting, "device": device}) for device in ("cuda", "cpu")]
    on_gpu, on_cpu = run_job(2, "digests", jobs)
    assert on_gpu == on_cpu and len(set(on_cpu)) == 1


def test_gpu_and_cpu_ranks_may_be_mixed(backend: Any) -> None:
    digest = CASES["binary 2 bits"]().train().digest()
    assert run_job(2, "mixed", ["binary 2 bits", ["cuda", "cpu"]]) == [[digest] * 2]
