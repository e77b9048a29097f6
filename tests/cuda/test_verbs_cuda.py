"""The verbs of the GPU: the same suite as on the CPU, and how builds become thread blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitgrove import _core
from bitgrove.kernels.plans import BUILD, DIVISION, Records, records
from verb_cases import TwinPlan, random_integers, random_table
from verb_suite import VerbSuite
from verbs_of_data import bins_on, check_bins, columns_of_many_kinds, mapper_for


class TestVerbs(VerbSuite):
    """On the GPU of conftest.py; without one they are skipped."""


@pytest.mark.parametrize("order", ["C", "F"])
def test_bins_of_columns_on_the_gpu(backend: Any, order: str) -> None:
    """They are read where they are, whatever their strides."""
    host = np.array(columns_of_many_kinds(3000, np.float32)).T
    table = backend.upload(host) if order == "C" else backend.upload(host.T).T
    mapper = mapper_for(list(host.T), 100)
    expected = backend.bin_columns(list(host.T), mapper)
    check_bins(backend, list(host.T), mapper)
    for columns in (list(table.T), list(table[::2].T)):
        found = backend.bin_columns(columns, mapper)
        step = len(host) // len(columns[0])
        wanted = bins_on(backend, expected)[:, ::step]
        np.testing.assert_array_equal(bins_on(backend, found), wanted)
        np.testing.assert_array_equal(found.missing, expected.missing)


def test_more_nodes_than_there_is_room_for(backend: Any) -> None:
    rng = np.random.default_rng(1)
    made = TwinPlan(random_table(1, 100, 2), random_integers(rng, 100, (3, 6)), n_slots=2)
    twin = made.start(backend)
    with pytest.raises(ValueError, match="room"):
        twin.work.divide(records(DIVISION, 10_000))


def builds(sizes: list[int], local_width: int = 16, block_rows: int = 8192) -> Records:
    ends = np.cumsum(sizes)
    return records(
        BUILD, len(sizes), begin=ends - sizes, end=ends, slot=np.arange(len(sizes)),
        local_width=local_width, total_width=32, block_rows=block_rows,
    )  # fmt: skip


SIZES = [0, 1, 1023, 1024, 1025, 100_000, 0, 8192, 8193]


@pytest.mark.parametrize("n_processors", [1, 132])
@pytest.mark.parametrize("n_tiles", [1, 60])
@pytest.mark.parametrize(("half_bits", "local"), [(8, 8), (8, 16), (16, 32), (32, 64)])
def test_blocks_cover_every_row(
    half_bits: int, local: int, n_tiles: int, n_processors: int
) -> None:
    """No GPU is needed to plan."""
    asked = builds(SIZES, local, 4000)
    planned, first_block, words = _core.plan_blocks(asked, half_bits, n_tiles, n_processors)
    n_blocks = -(-(asked["end"] - asked["begin"]) // planned["block_rows"])
    np.testing.assert_array_equal(np.diff(first_block), n_blocks)
    assert first_block[0] == 0 and np.all(planned["block_rows"] >= 1)
    for name in ("begin", "end", "slot", "local_width", "total_width"):
        np.testing.assert_array_equal(planned[name], asked[name])
    assert words == {(8, 8): 1, (8, 16): 1, (16, 32): 2, (32, 64): 3}[half_bits, local]
    if words == 1:
        assert np.all(planned["block_rows"] <= 4000)  # more would overflow


@pytest.mark.parametrize(
    ("local", "block_rows", "half_bits", "words"),
    [(8, 50, 8, 2), (16, 8192, 8, 1), (16, 1057, 8, 2), (16, 2184, 8, 1), (32, 8192, 16, 2),
     (64, 8192, 32, 3), (16, 8192, 32, 3)],
)  # fmt: skip
def test_accumulators(local: int, block_rows: int, half_bits: int, words: int) -> None:
    """No block has more rows than its accumulators were proved to hold."""
    asked = builds([50_000, 10], local, block_rows)
    asked["block_rows"][1] = 8192
    planned, _, found = _core.plan_blocks(asked, half_bits, 1, 4)
    most = {1: block_rows, 2: 2**15, 3: 2**12}[words]
    assert found == words
    assert planned["block_rows"][0] <= most and planned["block_rows"][1] <= max(most, 8192)


def test_more_work_has_larger_blocks() -> None:
    few, _, _ = _core.plan_blocks(builds([5000]), 8, 1, 132)
    many, _, _ = _core.plan_blocks(builds([5_000_000]), 8, 1, 132)
    split, _, _ = _core.plan_blocks(builds([50_000_000], 64), 32, 60, 132)
    limits = [int(plan["block_rows"][0]) for plan in (few, many, split)]
    assert limits == [1024, 5_000_000 // (8 * 132), 4096]


@pytest.mark.parametrize("rows_that_fit", [50, 2047])
def test_one_word_is_not_worth_many_flushes(rows_that_fit: int) -> None:
    """One large node of short blocks makes the whole launch take two words; small ones do not."""
    large = builds([10, 5000], 8, rows_that_fit)
    assert _core.plan_blocks(large, 8, 1, 132)[2] == 2
    small = builds([10, rows_that_fit], 8, rows_that_fit)
    assert _core.plan_blocks(small, 8, 1, 132)[2] == 1


def test_no_builds() -> None:
    planned, first_block, _ = _core.plan_blocks(builds([]), 8, 1, 132)
    assert len(planned) == 0 and first_block.tolist() == [0]
