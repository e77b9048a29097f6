"""Which features a node may use, how its outputs are smoothed, and what gains count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

import bitgrove as bg
from bitgrove.errors import ParameterError

F64 = NDArray[np.float64]


def product_table(n_rows: int, seed: int) -> tuple[F64, F64]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + X[:, 3] * X[:, 4] + 0.1 * rng.normal(size=n_rows)
    return X, y


def paths(model: bg.Model) -> set[frozenset[int]]:
    """The features on the way to each leaf."""
    found = set()
    for tree in model.trees:
        waiting = [(0, frozenset[int]())] if tree.n_splits else []
        while waiting:
            split, above = waiting.pop()
            here = above | {int(tree.feature[split])}
            for child in (int(tree.left[split]), int(tree.right[split])):
                if child >= 0:
                    waiting.append((child, here))
                else:
                    found.add(here)
    return found


def train(X: F64, y: F64, **params: Any) -> bg.Model:
    return bg.train({"objective": "regression", "n_estimators": 10, **params}, bg.Dataset(X, y))


def test_paths_stay_within_a_group() -> None:
    X, y = product_table(1500, 1)
    groups = [{0, 1}, {1, 2}, {3, 4}]
    groups_given = [[0, 1], [1, 2]]  # 3 and 4: one more group
    model = train(X, y, interaction_constraints=groups_given, n_estimators=40)
    assert all(any(path <= group for group in groups) for path in paths(model))
    assert {frozenset({0, 1}), frozenset({3, 4})} <= paths(model)
    free = paths(train(X, y))
    assert not all(any(path <= group for group in groups) for path in free)


def test_as_accurate_as_scikit_learn() -> None:
    (X, y), (Xt, yt) = product_table(1500, 2), product_table(2000, 3)
    groups = [[0, 1], [2], [3, 4]]
    with threadpool_limits(1):
        other = HistGradientBoostingRegressor(interaction_cst=groups, max_iter=30).fit(X, y)
    ours = train(X, y, interaction_constraints=groups, n_estimators=30, gradient_bits=None)
    errors = [np.mean((yt - m.predict(Xt)) ** 2) for m in (ours, other)]
    assert errors[0] < 1.02 * errors[1]


def test_no_interactions_is_a_sum_of_functions_of_one_feature() -> None:
    X, y = product_table(800, 4)
    model = train(X, y, interaction_constraints="no_interactions")
    assert all(len(path) == 1 for path in paths(model))
    base = model.predict(np.zeros((1, 5)))
    single = sum(model.predict(np.where(np.arange(5) == f, X[:50], 0.0)) for f in range(5))
    np.testing.assert_allclose(single - 4 * base, model.predict(X[:50]), atol=1e-9)


def test_spellings_of_groups() -> None:
    X, y = product_table(400, 5)
    table = bg.Dataset(X, y, feature_name=["a", "b", "c", "d", "e"])
    spellings: list[Any] = [
        [[0, 1], [2]], [["a", "b"], ["c"]], "[0,1],[2]", "[[0, 1], [2]]", "[a,b],[c]",
        '[["a", "b"], ["c"]]', ({0, 1}, {2}), [np.array([0, 1]), [2]],
    ]  # fmt: skip
    params = {"objective": "regression", "n_estimators": 4}
    found = [
        bg.train({**params, "interaction_constraints": given}, table).predict(X)
        for given in spellings
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    aliased = bg.train({**params, "interaction_cst": [[0, 1], [2]]}, table).predict(X)
    np.testing.assert_array_equal(aliased, found[0])


def test_nodes_draw_features_of_their_own() -> None:
    """One feature per node: the root of each tree is drawn, and nodes below draw again."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(1000, 6))
    y = X.sum(axis=1)
    model = train(X, y, colsample_bynode=0.17, n_estimators=60, num_leaves=4)
    roots = np.bincount([tree.feature[0] for tree in model.trees], minlength=6)
    assert np.all(roots >= 3)  # all of them, each about ten times
    assert any(len(set(tree.feature.tolist())) > 1 for tree in model.trees)
    again = train(X, y, colsample_bynode=0.17, n_estimators=60, num_leaves=4)
    assert again.digest() == model.digest()
    other = train(X, y, colsample_bynode=0.17, n_estimators=60, num_leaves=4, random_state=1)
    assert [t.feature[0] for t in other.trees] != [t.feature[0] for t in model.trees]
    names = {"feature_fraction_bynode": 0.17, "max_features": 0.17}
    for name, value in names.items():
        spelled = train(X, y, n_estimators=60, num_leaves=4, **{name: value})
        assert spelled.digest() == model.digest()


def test_path_smooth_is_the_formula() -> None:
    """Two splits of squared error: each output is its mean, drawn towards its parent's."""
    X = np.repeat([0.0, 1.0, 2.0], [10, 20, 30])[:, None]
    y = np.repeat([0.0, 9.0, 10.0], [10, 20, 30])
    smooth = 7.0
    model = train(
        X, y, n_estimators=1, learning_rate=1.0, path_smooth=smooth, min_child_samples=1,
        gradient_bits=None, num_leaves=3,
    )  # fmt: skip

    def drawn(mean: float, n: int, parent: float) -> float:
        return (n * mean + smooth * parent) / (n + smooth)

    root = y.mean()
    assert model.trees[0].threshold[0] == pytest.approx(0.5)
    left = drawn(0.0, 10, root)
    inner = drawn((20 * 9.0 + 30 * 10.0) / 50, 50, root)
    expected = [left, drawn(9.0, 20, inner), drawn(10.0, 30, inner)]
    np.testing.assert_allclose(model.predict(np.array([[0.0], [1.0], [2.0]])), expected, rtol=1e-6)


def test_path_smooth_against_lightgbm() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    (X, y), (Xt, yt) = product_table(1500, 7), product_table(1500, 8)
    y = y + 2 * np.random.default_rng(9).normal(size=len(y))
    how = {"n_estimators": 20, "path_smooth": 10.0, "min_child_samples": 2, "num_leaves": 63}
    other = lightgbm.LGBMRegressor(**how, verbose=-1, n_jobs=1).fit(X, y)
    ours = bg.BitGroveRegressor(**how).fit(X, y)
    rough = bg.BitGroveRegressor(**{**how, "path_smooth": 0.0}).fit(X, y)
    errors = [np.mean((yt - m.predict(Xt)) ** 2) for m in (ours, other, rough)]
    assert errors[0] < 1.03 * errors[1]
    assert errors[0] < errors[2]


def test_extra_trees_look_at_one_threshold() -> None:
    X, y = product_table(1500, 10)
    usual, extra = train(X, y), train(X, y, extra_trees=True)
    # The best cut of the first root is the same whatever is drawn; a drawn one is seldom it.
    assert extra.trees[0].gain[0] < usual.trees[0].gain[0]
    seeds = [train(X, y, extra_trees=True, n_estimators=1, random_state=s) for s in range(6)]
    assert len({(int(m.trees[0].feature[0]), int(m.trees[0].split_bin[0])) for m in seeds}) > 3
    long = train(X, y, extra_trees=True, n_estimators=200)
    assert np.mean((y - long.predict(X)) ** 2) < 0.5 * np.var(y)


def test_feature_contri_multiplies_gains() -> None:
    X, y = product_table(800, 11)
    model = train(X, y, feature_contri=[0.0, 1, 1, 1, 1])
    assert not any(0 in path for path in paths(model))
    plain = train(X, y, n_estimators=1, num_leaves=2)
    feature = int(plain.trees[0].feature[0])
    half = [0.999 if f == feature else 1.0 for f in range(5)]
    less = train(X, y, n_estimators=1, num_leaves=2, feature_contri=half)
    assert less.trees[0].feature[0] == feature
    assert less.trees[0].gain[0] == pytest.approx(0.999 * plain.trees[0].gain[0], rel=1e-9)


BAD = [
    ({"monotone_constraints": [1, 0]}, "monotone_constraints: 2 values for 3 columns"),
    ({"monotone_constraints": [1, 2, 0]}, "must be a list with -1, 0 or 1"),
    ({"monotone_constraints": "up"}, "must be a list with -1, 0 or 1"),
    ({"monotone_constraints": {"a": 1, "q": 1}}, "there is no column 'q'"),
    ({"monotone_constraints": {"a": "1"}}, "or a dict of them by name"),
    ({"monotone_constraints": {"c": 1}}, "column 'c' is a category, whose levels have no order"),
    ({"monotone_constraints": [0, 0, -1]}, "column 'c' is a category"),
    ({"monotone_constraints_method": "advanced"}, "one of 'basic', 'intermediate'"),
    ({"interaction_constraints": [[0, 5]]}, "there is no column 5; there are 3, from 0 on"),
    ({"interaction_constraints": [["a", "zz"]]}, "there is no column 'zz'"),
    ({"interaction_constraints": [0, 1]}, "must be a list of lists"),
    ({"interaction_constraints": "0,1"}, "must be a list of lists"),
    ({"interaction_constraints": [[]]}, "must be a list of lists"),
    ({"feature_contri": [1.0]}, "feature_contri: 1 values for 3 columns"),
    ({"feature_contri": [1.0, -1.0, 1.0]}, "feature_contri"),
    ({"colsample_bynode": 0.0}, "colsample_bynode"),
    ({"path_smooth": -1.0}, "path_smooth"),
    ({"cegb_penalty_split": 1.0}, "known from LightGBM, not supported"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=[str(given) for given, _ in BAD])
def test_what_does_not_fit_is_refused(given: dict[str, Any], message: str) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 2)), rng.integers(0, 3, size=60)])
    table = bg.Dataset(X, X[:, 0], feature_name=["a", "b", "c"], categorical_feature=["c"])
    with pytest.raises(ParameterError, match=message.replace("(", r"\(")):
        bg.train({"objective": "regression", "n_estimators": 2, **given}, table)


def test_empty_rules_are_none() -> None:
    X, y = product_table(200, 12)
    given = {"interaction_constraints": "", "monotone_constraints": [], "feature_contri": None}
    assert train(X, y, **given).digest() == train(X, y).digest()


def test_all_problems_are_told_at_once() -> None:
    X = np.random.default_rng(1).normal(size=(60, 3))
    given = {"monotone_constraints": [1], "interaction_constraints": [[7]], "feature_contri": [1]}
    with pytest.raises(ParameterError, match="3 problems") as raised:
        bg.train({"objective": "regression", **given}, bg.Dataset(X, X[:, 0]))
    assert all(name in str(raised.value) for name in given)
