"""Rules over ranks that vote: every rank has the same model, and it keeps the rules.

Ranks that sum all histograms are the shard cases of tests/cases.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_feature_rules import paths
from test_monotone import violation

from cases import CASES

SMALL = {"n_jobs": 1, "distributed": "voting", "top_k": 1, "n_estimators": 2, "num_leaves": 7}


@pytest.mark.parametrize("name", ["monotone", "monotone intermediate"])
def test_voting_keeps_the_order(name: str) -> None:
    case = CASES[name]()
    models = case.train_on_shards(2, **SMALL)
    assert len({model.digest() for model in models}) == 1
    directions = {f: d for f, d in enumerate(case.params["monotone_constraints"]) if d}
    assert violation(models[0], np.nan_to_num(case.X[:15]), directions) <= 0.0
    again = case.train_on_shards(2, device="reference", **SMALL)
    assert again[0].digest() == models[0].digest()


def test_voting_keeps_the_groups() -> None:
    case = CASES["interactions"]()
    groups = [{0, 1}, {1, 2, 3}, {4, 5, 6}]
    models = case.train_on_shards(2, n_jobs=1, distributed="voting", top_k=2)
    assert all(any(path <= group for group in groups) for path in paths(models[0]))
    assert models[0].digest() == models[1].digest()


def test_voting_for_every_feature_is_the_search_of_one_machine() -> None:
    case = CASES["interactions"]()
    voted = case.train_on_shards(2, n_jobs=1, distributed="voting", top_k=100)[0]
    alone = case.train()
    for one, other in zip(voted.trees, alone.trees, strict=True):
        np.testing.assert_array_equal(one.threshold, other.threshold)
        np.testing.assert_array_equal(one.leaf_value, other.leaf_value)
