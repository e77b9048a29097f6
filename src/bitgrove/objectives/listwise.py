"""Ranking by all rows of a query at once: shares of the rows by score against shares by label."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from bitgrove.arithmetic.exact_math import hash_key, numpy_exp, row_hash
from bitgrove.objectives.base import F64, I64, U64, Objective, Tables
from bitgrove.objectives.ranking import Graded

_DRAWN = 16  # what the drawn numbers are for, beside the purposes of data/sampling.py
_POWER_UNIT, _CORRECTION_UNIT = 2.0**40, 2.0**38
_LEAST_REST = 2.0**-20


class Lists(NamedTuple):
    """What the gradients need to know of the queries, in row order."""

    offset: I64  # of each query's first row, and the end
    unit: F64  # of each query's sum of worths
    label_gain: F64
    row_id: U64


@dataclass(frozen=True)
class RankXendcg(Graded):
    """The cross entropy of NDCG (Bruch et al. 2019), with LightGBM's expansion of the gradient.

    A row's share by label is that of `gain + 1 - u`, u drawn from 0 to 1 by the hash of seed,
    iteration and row id; its share by score is the softmax over the query.
    """

    name = "rank_xendcg"
    synonyms = ("xendcg", "xe_ndcg", "xe_ndcg_mart", "xendcg_mart")
    family = "listwise"
    kernel = "xendcg"
    peers = {"lightgbm": "rank_xendcg", "xgboost": "rank:ndcg"}  # noqa: RUF012
    needs_row_ids = True

    key: int = field(default=0, kw_only=True)  # of the numbers drawn in this iteration

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.key >> 32, self.key & 0xFFFFFFFF)

    def at(self, iteration: int, seed: int) -> Objective:
        return replace(self, key=hash_key(seed, _DRAWN, iteration))

    def tables(self, label: F64, group: I64 | None, row_ids: U64 | None = None) -> Lists:
        assert group is not None and row_ids is not None
        offset, gains = self.offsets(group), self.gains
        query = np.repeat(np.arange(len(group)), group)
        worth = gains[label.astype(np.int64)] + 1.0
        # The worth of a query's rows, in this unit, is below 2^61.
        _, bits = np.frexp(np.bincount(query, weights=worth, minlength=len(group)))
        return Lists(offset, np.ldexp(1.0, 61 - bits), gains, row_ids)

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        lists = Lists(*tables)
        drawn = (row_hash(self.key, lists.row_id) >> np.uint64(33)).astype(np.float64) * 2.0**-31
        worth = (lists.label_gain[label.astype(np.int64)] + 1.0) - drawn
        grad, hess = np.zeros_like(scores), np.zeros_like(scores)
        for q, (begin, end) in enumerate(zip(lists.offset[:-1], lists.offset[1:], strict=True)):
            if end - begin > 1:  # a row alone has nothing to be ranked against
                rows = slice(begin, end)
                found = _gradients(scores[0, rows], worth[rows], lists.unit[q])
                grad[0, rows], hess[0, rows] = found
        return grad, hess


def _gradients(score: F64, worth: F64, unit: float) -> tuple[F64, F64]:
    """Of one query; every sum is one of integers."""
    power = numpy_exp(score - score.max())
    share = power / _sum(power, _POWER_UNIT)
    target = worth / _sum(worth, unit)
    others = np.maximum(1.0 - share, _LEAST_REST)
    first = (share - target) / others
    second_order = share * (_sum(first, _CORRECTION_UNIT) - first)
    second = second_order / others
    third_order = share * (_sum(second, _CORRECTION_UNIT) - second)
    return ((share - target) + second_order) + third_order, share * (1.0 - share)


def _sum(values: F64, unit: float) -> float:
    return int(np.rint(values * unit).astype(np.int64).sum()) / unit
