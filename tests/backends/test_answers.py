"""What the core checks of a GPU's answers and leaves before it calls the driver: needs no GPU."""

from __future__ import annotations

import numpy as np
import pytest

from bitgrove import _core
from bitgrove.kernels.plans import GRADIENT_SUMS


def answer_in(told: np.ndarray) -> _core.Answer:
    answer = _core.Answer(_core.Stream(0))
    answer.use_memory(sums=0, n_done=0, told=told.ctypes.data, n_words=len(told) - 1)
    return answer


def test_launches_without_blocks_answer_zeros() -> None:
    """An empty shard launches nothing, so that nobody would tell."""
    told = np.full(9, 7, dtype=np.int64)
    answer = answer_in(told)
    for n_records in (4, 1):
        answer.expect(2 * n_records, 0)
        found = answer.read(GRADIENT_SUMS, n_records)
        assert found.dtype == GRADIENT_SUMS
        assert found.tobytes() == bytes(16 * n_records)


def test_an_answer_has_room_and_is_read_before_the_next_one() -> None:
    answer = answer_in(np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match="larger than its buffer"):
        answer.expect(3, 1)
    answer.expect(2, 1)
    with pytest.raises(RuntimeError, match="was not read"):
        answer.expect(2, 1)


@pytest.mark.parametrize(
    ("begins", "ends"),
    [([], []), ([0], [1, 2]), ([-1], [2]), ([3], [2]), ([0], [11])],
    ids=["none", "lengths", "negative", "backwards", "beyond"],
)
def test_ranges_of_leaves_are_checked(begins: list[int], ends: list[int]) -> None:
    kernels = [_core.Kernel(0, 256, 0)] * 3
    leaves = _core.CudaLeaves(_core.Stream(0), kernels, answer_in(np.zeros(3, dtype=np.int64)))
    leaves.n_rows = 10
    ranges = (np.array(side, dtype=np.int64) for side in (begins, ends))
    with pytest.raises(ValueError, match=r"leaf has rows beyond|begin and an end"):
        leaves.mark(0, *ranges)


def test_every_leaf_has_a_value() -> None:
    kernels = [_core.Kernel(0, 256, 0)] * 3
    leaves = _core.CudaLeaves(_core.Stream(0), kernels, answer_in(np.zeros(3, dtype=np.int64)))
    with pytest.raises(ValueError, match="one value per leaf"):
        leaves.add(0, np.zeros(2))
