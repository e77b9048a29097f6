"""Categories in the model file: sections that only models with categories have.

Owns their layout and checks. The header's `categories` says how many sets of levels the splits
have, and for each category its feature, the kind and number of its levels, and the columns of its
statistics. Sections: `set_split` (which split each set belongs to, counted over all trees),
`left_bins` (four words each), `level_numbers` (whole numbers, or the bits of float64),
`level_ends` and `level_text` (UTF-8, where each text ends), `statistics` (a level after another).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bitgrove.data.binned.level_arrays import level_arrays, level_sections, levels_in
from bitgrove.data.encoder import Encoder
from bitgrove.data.levels import INTEGER, REAL, TEXT
from bitgrove.data.statistics import Statistics
from bitgrove.model.forest_checks import Array, Arrays, refuse, require_each
from bitgrove.model.tree import all_sets, no_sets

if TYPE_CHECKING:
    from bitgrove.model.model import Model

_TYPES = {"features": list, "n_sets": int, "text_bytes": int}
_FEATURE_TYPES = {"feature": int, "kind": str, "n_columns": int, "n_levels": int}
_MOST_BINS = 255


def described(model: Model) -> tuple[dict[str, Any] | None, Arrays]:
    """The header's entry and the arrays of the sections; None and none without categories."""
    if model.encoder is None:
        return None, {}
    levels, statistics = model.encoder.levels, model.encoder.statistics
    sets = all_sets(model.trees)
    split = np.flatnonzero(sets.any(axis=1))
    arrays = {
        "set_split": split.astype("<i4"),
        "left_bins": np.ascontiguousarray(sets[split]).ravel().astype("<u8"),
        **level_arrays(levels),
        "statistics": np.concatenate(
            [np.empty(0, "<f8"), *(s.values.ravel() for _, s in sorted(statistics.items()))]
        ),
    }
    features = [
        {
            "feature": f,
            "kind": v.kind,
            "n_columns": statistics[f].n_columns if f in statistics else 0,
            "n_levels": len(v),
            **({"has_sets": True} if f in model.encoder.kept else {}),
        }
        for f, v in sorted(levels.items())
    ]
    entry = {"features": features, "n_sets": len(split), "text_bytes": len(arrays["level_text"])}
    return entry, arrays


def sections(entry: Mapping[str, Any] | None) -> list[tuple[str, str, int]]:
    """(name, dtype, length) of each section, from the header's entry."""
    if entry is None:
        return []
    features = entry["features"]
    of_levels = level_sections(features, entry["text_bytes"])
    n_statistics = sum(f["n_columns"] * (f["n_levels"] + 1) for f in features)
    return [
        ("set_split", "<i4", entry["n_sets"]),
        ("left_bins", "<u8", 4 * entry["n_sets"]),
        *((name, dtype, shape[0]) for name, dtype, shape in of_levels),
        ("statistics", "<f8", n_statistics),
    ]


def check_description(entry: Any, n_features: int) -> None:
    """Types and bounds of the header's entry, before anything is sized by it."""
    if entry is None:
        return
    _check_counts("categories", entry, _TYPES)
    if not entry["features"]:
        refuse("categories: there are none")
    last = -1
    for item in entry["features"]:
        _check_counts("categories", item, _feature_types(item))
        if not last < item["feature"] < n_features:
            refuse(f"categories: feature {item['feature']} is out of range or out of order")
        last = item["feature"]
        if item["kind"] not in (TEXT, INTEGER, REAL):
            refuse(f"categories: levels of kind {item['kind'][:20]!r} are unknown")
        if item["n_columns"] == 0 and item["n_levels"] > _MOST_BINS:
            refuse(f"categories: feature {last} has {item['n_levels']} levels without statistics")
        if "has_sets" in item and not (
            item["has_sets"] and item["n_columns"] and item["n_levels"] <= _MOST_BINS
        ):
            refuse(f"categories: feature {last} cannot have sets beside statistics")


def _feature_types(item: Any) -> dict[str, type]:
    """Only a category that has sets of levels beside its statistics says so."""
    says_so = isinstance(item, dict) and "has_sets" in item
    return {**_FEATURE_TYPES, "has_sets": bool} if says_so else _FEATURE_TYPES


def _check_counts(what: str, value: Any, types: Mapping[str, type]) -> None:
    if not isinstance(value, dict) or value.keys() != types.keys():
        refuse(f"{what}: an entry does not have the keys {', '.join(sorted(types))}")
    for key, kind in types.items():
        if type(value[key]) is not kind or (kind is int and value[key] < 0):
            refuse(f"{what}: {key} is {str(value[key])[:20]}")


def encoder_of(entry: Any, arrays: Arrays, n_features: int) -> Encoder | None:
    """The encoder that the sections hold; every level and statistic checked."""
    if entry is None:
        return None
    levels, values = levels_in(entry["features"], arrays), arrays["statistics"]
    statistics: dict[int, Statistics] = {}
    for item in entry["features"]:
        n, f = item["n_levels"], item["feature"]
        if item["n_columns"]:
            size = item["n_columns"] * (n + 1)
            mine, values = values[:size].reshape(item["n_columns"], n + 1), values[size:]
            if not np.isfinite(mine).all():
                refuse(f"categories: a statistic of feature {f} is not finite")
            statistics[f] = Statistics(mine)
    kept = frozenset(item["feature"] for item in entry["features"] if "has_sets" in item)
    return Encoder(n_features, levels, statistics, kept)


def check_sets(arrays: Arrays, encoder: Encoder | None) -> None:
    """All splits of categories are by sets, no others are, and sets hold only their levels."""
    if encoder is None:
        return
    split, words = arrays["set_split"], arrays["left_bins"].reshape(-1, 4)
    n_splits = len(arrays["feature"])
    if len(split) and (split[0] < 0 or split[-1] >= n_splits or (np.diff(split) <= 0).any()):
        refuse("categories: the splits of sets are out of range or out of order")
    n_levels = np.full(encoder.n_columns, -1)
    for f, n in encoder.n_levels.items():
        n_levels[f] = n
    has_set = np.zeros(n_splits, dtype=np.bool_)
    has_set[split] = True
    by_set = n_levels[arrays["feature"]] >= 0
    trees = arrays["tree_splits"].astype(np.int64)
    require_each("split", by_set == has_set, trees, "a set and a category do not come together")
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    last = n_levels[arrays["feature"][split]]
    beyond = np.arange(256) > last[:, None]
    default = bits[np.arange(len(split)), last]
    ok = np.ones(n_splits, dtype=np.bool_)
    ok[split] = bits.any(axis=1) & ~(bits.astype(np.bool_) & beyond).any(axis=1)
    ok[split] &= default == arrays["default_left"][split]
    require_each("split", ok, trees, "its set is empty or holds levels that there are not")


def sets_by_tree(arrays: Arrays, n_splits: Array) -> list[Array]:
    """left_bins of each tree; no rows for trees without a set."""
    if "set_split" not in arrays:
        return [no_sets() for _ in n_splits]
    ends = np.cumsum(n_splits)
    every = np.zeros((len(arrays["feature"]), 4), dtype=np.uint64)
    every[arrays["set_split"]] = arrays["left_bins"].reshape(-1, 4)
    trees = [every[start:end] for start, end in zip(ends - n_splits, ends, strict=True)]
    return [sets if sets.any() else no_sets() for sets in trees]
