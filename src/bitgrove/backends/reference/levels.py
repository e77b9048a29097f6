"""The best subset of levels in plain NumPy: the oracle of kernels/shared/levels.h.

Levels with rows are sorted by gradient / (hessian + cat_smooth), ties by bin. Runs from the low end
and then from the high end are tried; a feature of few bins is split one level against the rest.
Counts of rows are shares of the node's hessian.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.reference.gain import FeatureGain
from bitgrove.constraints.rules import GainRules
from bitgrove.kernels.plans import SUBSET, Records

I64 = NDArray[np.int64]


def search_levels(bins: I64, has_missing: bool, gain: FeatureGain, best: Records) -> None:
    """Updates best if a subset of this feature's levels is better; ties keep the earlier one."""
    rules = gain.rules
    onehot = len(bins) <= rules.max_cat_to_onehot
    subsets = _single_levels(bins) if onehot else _runs(bins, gain.node, rules)
    for subset in subsets:
        left = bins[subset].sum(axis=0)
        found = gain.of(left[None, :], 0.0 if onehot else rules.cat_l2)[0]
        if found > best["gain"][0]:
            missing_left = has_missing and len(bins) - 1 in subset
            words = bin_set(subset)
            best[0] = (found, left[0], left[1], gain.feature, SUBSET, missing_left, 0, words)


def bin_set(members: list[int]) -> NDArray[np.uint64]:
    """256 bits in four words."""
    flags = np.zeros(256, dtype=np.uint8)
    flags[members] = 1
    return np.packbits(flags, bitorder="little").view(np.uint64)


def in_set(words: NDArray[np.uint64], bins: NDArray[np.uint8]) -> NDArray[np.bool_]:
    flags = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")
    return np.asarray(flags[bins] == 1)


def _single_levels(bins: I64) -> Iterator[list[int]]:
    for level in range(len(bins)):
        if bins[level, 1] > 0:
            yield [level]


def _runs(bins: I64, node: np.void, rules: GainRules) -> Iterator[list[int]]:
    levels = np.flatnonzero(bins[:, 1] > 0)
    curvature = bins[levels, 1] * rules.hess_scale + rules.cat_smooth
    step = (bins[levels, 0] * rules.grad_scale) / curvature
    order = levels[np.lexsort((levels, step))].tolist()
    longest = min(int(rules.max_cat_threshold), (len(order) + 1) // 2)
    least = (rules.min_data_per_group - 0.5) * node["hess_per_row"]
    for end in (order, order[::-1]):
        n_tried = 0  # levels of the last run that was tried
        for n in range(1, longest + 1):
            left_hess, added = bins[end[:n], 1].sum(), bins[end[n_tried:n], 1].sum()
            right_hess = node["hess"] - left_hess
            if left_hess < node["min_hess"]:
                continue
            if right_hess < node["min_hess"] or right_hess < least:
                break
            if added >= least:
                n_tried = n
                yield end[:n]
