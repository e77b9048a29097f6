"""The best split of a node in plain NumPy: the oracle of the searches of the core and the kernels.

Ties: lowest feature, then lowest bin, then missing-left. Subsets of levels are levels.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.reference.gain import FeatureGain
from bitgrove.kernels.plans import Records

I64 = NDArray[np.int64]
_NO_SET = (0, 0, 0, 0)


def search_feature(bins: I64, has_missing: bool, gain: FeatureGain, best: Records) -> None:
    """Updates best if this feature has a better split; ties keep the earlier one."""
    n_values = len(bins) - int(has_missing)
    left = np.cumsum(bins[:n_values], axis=0)
    cuts = left if has_missing else left[:-1]
    looked_at = gain.looked_at(cuts[:, 1], bins[n_values, 1] if has_missing else 0)
    candidates = [(cuts, not has_missing)]
    if has_missing:
        candidates.insert(0, (left[:-1] + bins[n_values], True))
    options = []
    for order, (sums, default_left) in enumerate(candidates):
        gains = gain.of(sums)
        gains = np.where(np.isin(np.arange(len(gains)), looked_at), gains, -np.inf)
        if len(gains):
            b = int(np.argmax(gains))
            options.append((-gains[b], b, order, default_left, sums[b]))
    if not options:
        return
    negative_gain, b, _, default_left, sums = min(options, key=lambda option: option[:3])
    if -negative_gain > best["gain"][0]:
        best[0] = (-negative_gain, sums[0], sums[1], gain.feature, b, default_left, 0, _NO_SET)
