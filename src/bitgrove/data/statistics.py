"""Target statistics: what each level of a category with many levels is worth, as numbers.

Owns Statistics. A level is worth the step that a leaf of its rows would take from the base score,
-G / (H + prior), G and H summed over its rows. The prior is learnt from all levels: the less they
differ beyond noise, the more a level is drawn to zero. In training a row gets what other blocks of
rows say of its level: never its own label. Which block a row is in is a hash of its id, and sums
are integers, so that the bits depend neither on ranks nor on the order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import hash_key, row_hash
from bitgrove.arithmetic.fixed_point import fixed_point_sums, to_units
from bitgrove.data.levels import Codes, whole_codes
from bitgrove.data.row_ids import RowRuns, row_ids
from bitgrove.distributed.comm import Comm, SoloComm

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
# Blocks stand in a circle, and each hears the half of the others that is before it. So of two rows
# one may inform the other, never both each other: noise that they share is not counted twice.
N_BLOCKS, N_HEARD = 9, 4
# The prior in rows: between these, and the middle one where no level has rows in two blocks.
LEAST_PRIOR, USUAL_PRIOR, MOST_PRIOR = 0.1, 10.0, 100.0
# Values are rounded to this many steps or half as many: finer cuts between levels are noise.
N_STEPS = 64
_BLOCK_PURPOSE = 5
# Integers of 36 bits are summed in two halves of 18: float64 holds the sums of 2^31 rows exactly.
_VALUE_BITS, _HALF_BITS, _MAX_SUM_BITS = 36, 18, 62


@dataclass(frozen=True, eq=False)
class Statistics:
    """values: (n_columns, n_levels + 1), the last of missing rows. Unseen levels are worth zero."""

    values: F64

    @property
    def n_columns(self) -> int:
        return len(self.values)

    def of_codes(self, codes: NDArray[Any], new_code: Codes) -> list[F64]:
        """The columns of rows with codes of other levels; new_code: the codes here, or -1."""
        worth = np.append(self.values, np.zeros((self.n_columns, 1)), axis=1)[:, new_code]
        worth = np.append(worth, self.values[:, -1:], axis=1)
        rows = whole_codes(codes, len(new_code))
        return [column[rows] for column in worth]


class FirstGradients(NamedTuple):
    """Of all rows at the base score: (n_outputs, n_rows) each; hess None: one for every row."""

    grad: F32
    hess: F32 | None


class Blocks(NamedTuple):
    """The block of each row of this rank."""

    of_row: I64
    comm: Comm

    @staticmethod
    def of(runs: RowRuns, seed: int, comm: Comm) -> Blocks:
        hashes = row_hash(hash_key(seed, _BLOCK_PURPOSE), row_ids(runs))
        return Blocks((hashes % np.uint64(N_BLOCKS)).astype(np.int64), comm)


def fit_statistics(
    codes: NDArray[Any], n_levels: int, gradients: FirstGradients, blocks: Blocks
) -> tuple[Statistics, list[F64]]:
    """The statistics of all rows, and the columns of this rank's rows: one for each output."""
    level = whole_codes(codes, n_levels)
    group = blocks.of_row * (n_levels + 1) + level
    n_groups = N_BLOCKS * (n_levels + 1)
    counts = _summed([np.bincount(group, minlength=n_groups).astype(np.int64)], blocks.comm)
    values, columns = [], []
    for k, grad in enumerate(gradients.grad):
        sums, unit = _fixed_sums(grad, group, n_groups, blocks.comm)
        hess, unit_hess = counts, 1.0
        if gradients.hess is not None:
            hess, unit_hess = _fixed_sums(gradients.hess[k], group, n_groups, blocks.comm)
        shape = (N_BLOCKS, n_levels + 1)
        parts = Sums(sums.reshape(shape), hess.reshape(shape), (unit, unit_hess))
        prior = _prior(parts, int(counts.sum()))
        worth = parts.of_levels().steps(prior)
        step = _rounding_step(worth)
        values.append(np.rint(worth / step) * step)
        columns.append((np.rint(parts.heard().steps(prior) / step) * step)[blocks.of_row, level])
    return Statistics(np.array(values)), columns


class Sums(NamedTuple):
    """Integer sums over groups of rows, and what one of each is worth."""

    grad: I64
    hess: I64
    units: tuple[float, float]

    def of_levels(self) -> Sums:
        return Sums(self.grad.sum(axis=0), self.hess.sum(axis=0), self.units)

    def heard(self) -> Sums:
        """For each block: the sums of the blocks that it hears."""
        heard = [np.zeros_like(sums) for sums in (self.grad, self.hess)]
        for i in range(1, N_HEARD + 1):
            heard[0] += np.roll(self.grad, i, axis=0)
            heard[1] += np.roll(self.hess, i, axis=0)
        return Sums(heard[0], heard[1], self.units)

    def steps(self, prior: float) -> F64:
        """-G / (H + prior), zero where there is nothing."""
        curvature = self.hess.astype(np.float64) * self.units[1] + prior
        step = -(self.grad.astype(np.float64) * self.units[0])
        return np.divide(step, curvature, out=np.zeros(step.shape), where=curvature > 0.0) + 0.0

    def squares(self) -> tuple[float, int]:
        """The sum of G * G / H over groups that have rows, and how many have."""
        has_rows = self.hess > 0
        grad = self.grad[has_rows].astype(np.float64) * self.units[0]
        terms = grad * grad / (self.hess[has_rows].astype(np.float64) * self.units[1])
        return float(fixed_point_sums([terms], SoloComm())[0]), len(terms)


def _rounding_step(worth: F64) -> float:
    """A power of two, so that rounding is exact."""
    width = float(worth.max() - worth.min())
    return math.ldexp(1.0, math.frexp(width)[1] - (N_STEPS.bit_length() - 1)) if width else 1.0


def _prior(parts: Sums, n_rows: int) -> float:
    """noise / spread, by moments, from the sums of each level in each block.

    If steps of levels have the variance `spread`, and gradients the variance noise * hessian, then
    G * G / H is expected to be noise + spread * H: of a level, and of its rows in one block.
    """
    total_hess = float(parts.hess.sum()) * parts.units[1]
    one_row = total_hess / max(n_rows, 1)
    of_parts, n_parts = parts.squares()
    of_levels, n_levels = parts.of_levels().squares()
    if n_parts == n_levels:
        return USUAL_PRIOR * one_row
    noise = (of_parts - of_levels) / (n_parts - n_levels)
    spread = (of_levels - n_levels * noise) / total_hess
    if noise >= spread * MOST_PRIOR * one_row:
        return MOST_PRIOR * one_row
    return max(noise / spread, LEAST_PRIOR * one_row)


def _summed(parts: Sequence[I64], comm: Comm) -> I64:
    return np.asarray(comm.allreduce_sum(np.concatenate(parts)))


def _fixed_sums(values: F32, group: I64, n_groups: int, comm: Comm) -> tuple[I64, float]:
    """The sum of each group over all ranks, in integers, and what one of them is worth."""
    top = comm.allreduce_max(np.array([np.abs(values).max(initial=0.0)], dtype=np.float64))[0]
    n_rows = int(comm.allreduce_sum(np.array([len(values)], dtype=np.int64))[0])
    exponent = min(_VALUE_BITS, _MAX_SUM_BITS - n_rows.bit_length()) - math.frexp(float(top))[1]
    units = to_units(values.astype(np.float64), exponent)
    halves = (units >> _HALF_BITS, units & (2**_HALF_BITS - 1))
    high, low = (np.bincount(group, half, n_groups).astype(np.int64) for half in halves)
    return _summed([(high << _HALF_BITS) + low], comm), math.ldexp(1.0, -exponent)
