"""Rules as searches and growing trees are told them, in terms of the columns that trees see.

Owns the records that cross to the backends; what their fields do is kernels/shared/gain.h and
rules.h (a split) and cpp/growth/node_rules.h (a node).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


class GainRules(NamedTuple):
    """What turns integer sums into a gain, for one tree."""

    grad_scale: float
    hess_scale: float
    reg_lambda: float
    reg_alpha: float
    min_gain: float
    cat_smooth: float = 0.0
    cat_l2: float = 0.0
    min_data_per_group: float = 1.0
    max_cat_threshold: float = 255.0
    max_cat_to_onehot: float = 0.0


class SplitRules(NamedTuple):
    """Rules of splits beside their gain: of each column its direction and what its gains count."""

    direction: NDArray[np.int8]
    contribution: F64
    path_smooth: float
    extra_trees: bool


class TreeRules(NamedTuple):
    """Rules that give every node of one tree its bounds and its features."""

    gain: GainRules
    path_smooth: float
    features_per_node: float
    intermediate: bool
    direction: NDArray[np.int8]
    allowed: NDArray[np.uint8]
    has_missing: NDArray[np.uint8]
    missing_bin: NDArray[np.int64]
    groups: NDArray[np.uint8]  # (n_groups, n_columns)
