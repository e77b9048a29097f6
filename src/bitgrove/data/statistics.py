"""Target statistics: what each level of a category with many levels is worth, as numbers.

Owns Statistics. A level is worth the step that a leaf of its rows would take from the base score,
-G / (H + smoothing * mean hessian), G and H summed over its rows. In training a row gets what the
rows of the other folds say of its level: never its own label. Which fold a row is in is a hash of
its id, and sums are integers, so that the bits depend neither on ranks nor on the order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import hash_key, row_hash
from bitgrove.arithmetic.fixed_point import to_units
from bitgrove.data.levels import Codes
from bitgrove.data.row_ids import RowRuns, row_ids
from bitgrove.distributed.comm import Comm

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
N_FOLDS = 4
SMOOTHINGS = (10.0,)  # one for each column
_FOLD_PURPOSE = 5
# Integers of 36 bits are summed in two halves of 18: float64 holds the sums of 2^31 rows exactly.
_VALUE_BITS, _HALF_BITS, _MAX_SUM_BITS = 36, 18, 62


@dataclass(frozen=True, eq=False)
class Statistics:
    """values: (n_columns, n_levels + 1), the last of missing rows. Unseen levels are worth zero."""

    values: F64

    @property
    def n_columns(self) -> int:
        return len(self.values)

    def of_codes(self, codes: NDArray[np.floating], new_code: Codes) -> list[F64]:
        """The columns of rows with float codes (NaN: missing); new_code: the codes here, or -1."""
        worth = np.append(self.values, np.zeros((self.n_columns, 1)), axis=1)[:, new_code]
        worth = np.append(worth, self.values[:, -1:], axis=1)
        rows = np.where(np.isnan(codes), len(new_code), codes).astype(np.intp)
        return [column[rows] for column in worth]


class FirstGradients(NamedTuple):
    """Of all rows at the base score: (n_outputs, n_rows) each; hess None: one for every row."""

    grad: F32
    hess: F32 | None


class Folds(NamedTuple):
    """The fold of each row of this rank."""

    of_row: I64
    comm: Comm

    @staticmethod
    def of(runs: RowRuns, seed: int, comm: Comm) -> Folds:
        hashes = row_hash(hash_key(seed, _FOLD_PURPOSE), row_ids(runs))
        return Folds((hashes % np.uint64(N_FOLDS)).astype(np.int64), comm)


def fit_statistics(
    codes: NDArray[np.floating], n_levels: int, gradients: FirstGradients, folds: Folds
) -> tuple[Statistics, list[F64]]:
    """The statistics of all rows, and the columns of this rank's rows from the other folds."""
    level = np.where(np.isnan(codes), n_levels, codes).astype(np.int64)
    group = folds.of_row * (n_levels + 1) + level
    n_groups = N_FOLDS * (n_levels + 1)
    counts = _summed([np.bincount(group, minlength=n_groups).astype(np.int64)], folds.comm)
    values, columns = [], []
    for k, grad in enumerate(gradients.grad):
        hess = counts if gradients.hess is None else None
        sums_grad, unit_grad = _fixed_sums(grad, group, n_groups, folds.comm)
        unit_hess = 1.0
        if gradients.hess is not None:
            hess, unit_hess = _fixed_sums(gradients.hess[k], group, n_groups, folds.comm)
        assert hess is not None
        by_fold = [s.reshape(N_FOLDS, -1) for s in (sums_grad, hess)]
        totals = [s.sum(axis=0) for s in by_fold]
        mean_hess = float(totals[1].sum()) * unit_hess / max(float(counts.sum()), 1.0)
        for smoothing in SMOOTHINGS:
            prior = smoothing * mean_hess
            units = (unit_grad, unit_hess)
            values.append(_worth(totals[0], totals[1], units, prior))
            others = _worth(totals[0] - by_fold[0], totals[1] - by_fold[1], units, prior)
            columns.append(others[folds.of_row, level])
    return Statistics(np.array(values)), columns


def _worth(grad: I64, hess: I64, units: tuple[float, float], prior: float) -> F64:
    curvature = hess.astype(np.float64) * units[1] + prior
    step = -(grad.astype(np.float64) * units[0])
    return np.divide(step, curvature, out=np.zeros(grad.shape), where=curvature > 0.0) + 0.0


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
