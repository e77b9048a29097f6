"""The generators of made-up tables: pure functions of their arguments, a shorter one a prefix."""

import numpy as np
import pytest

from bitgrove.cli.demo.data import make_higgs_like
from lab.datasets import simple
from lab.datasets.simple import make_multiclass_like, make_ranking_like, make_regression_like

GENERATORS = {
    "higgs": lambda n, seed: make_higgs_like(n, seed),
    "regression": lambda n, seed: make_regression_like(n, 12, seed),
    "multiclass": lambda n, seed: make_multiclass_like(n, 4, seed),
    "ranking": lambda n, seed: make_ranking_like(n, seed),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_generator_is_a_function_of_its_arguments(name):
    make = GENERATORS[name]
    for first, second in zip(make(700, 3), make(700, 3), strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.array_equal(make(700, 3)[0][:500], make(700, 4)[0][:500])


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("n", [1, 300])
def test_shorter_is_a_prefix_of_longer(name, n):
    make = GENERATORS[name]
    for short, long in zip(make(n, 1), make(17_000 if name != "ranking" else 600, 1), strict=True):
        np.testing.assert_array_equal(short, long[: len(short)])


@pytest.mark.parametrize("name", GENERATORS)
def test_generated_arrays_are_finite_float32(name):
    X, y, *_ = GENERATORS[name](2000, 0)
    assert X.dtype == y.dtype == np.float32
    assert len(X) == len(y)
    assert X.flags.c_contiguous
    assert np.isfinite(X).all()
    assert np.isfinite(y).all()


def test_multiclass_and_ranking_labels():
    _, y = make_multiclass_like(5000, 4, 0)
    assert set(np.unique(y)) == {0.0, 1.0, 2.0, 3.0}
    assert np.bincount(y.astype(int)).min() > 200
    X, grades, group = make_ranking_like(300, 0)
    assert group.dtype == np.int64
    assert len(group) == 300
    assert group.sum() == len(X)
    assert group.min() >= 5
    assert group.max() <= 60
    assert set(np.unique(grades)) == {0.0, 1.0, 2.0, 3.0, 4.0}
    starts = np.concatenate([[0], np.cumsum(group)[:-1]])
    np.testing.assert_array_equal(X[:, :4], np.repeat(X[starts, :4], group, axis=0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_higgs_like(0), "at least 1"),
        (lambda: make_higgs_like(10, -1), "seed"),
        (lambda: make_regression_like(10, 4), "at least 5"),
        (lambda: make_multiclass_like(10, 1), "at least 2"),
    ],
)
def test_impossible_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_tasks_have_the_rows_that_were_asked_for():
    for make in (simple.higgs_like, simple.regression_like, simple.multiclass_like, simple.pareto):
        task = make(400, 100)
        assert (len(task.X_train), len(task.X_test)) == (400, 100)
        assert not np.array_equal(task.X_train[:100], task.X_test)
    assert simple.wide_binary(300, 100, 7).X_train.shape == (300, 7)
    ranking = simple.ranking_like(640, 320)
    assert (len(ranking.group_train), len(ranking.group_test)) == (20, 10)
    long = simple.long_queries(6, 2, 5)
    assert long.group_train.sum() == len(long.X_train) and len(long.group_test) == 2
    assert 0 < (simple.weights(5000, 100).weight_train > 1).sum() < 30
