"""Bad input is refused, with a message that says what is wrong and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import bitgrove as bg
from bitgrove import BitGroveClassifier, BitGroveRanker, BitGroveRegressor
from cases import signal, table

FAST: dict[str, Any] = {"n_estimators": 3, "num_leaves": 7, "min_child_samples": 2, "n_jobs": 1}
N = 60
X = table(N, 3, 20)
Y = signal(X, 20)
BINARY = (Y > 0).astype(float)
CLASSES = np.digitize(Y, [-0.5, 0.5]).astype(float)
GRADES = np.clip(np.floor(Y + 2), 0, 3)
GROUP = [20, 20, 20]
RANKING: dict[str, Any] = {"objective": "lambdarank", "group": GROUP}
Refusal = (ValueError, TypeError)


def train(X: Any = X, y: Any = Y, **more: Any) -> bg.Model:
    """Weights, groups and names go to the Dataset, all else to the parameters."""
    data = {k: more.pop(k) for k in ("weight", "group", "feature_names") if k in more}
    return bg.train({**FAST, "objective": "regression", **more}, bg.Dataset(X, y, **data))


def changed(values: Any, value: Any, dtype: Any = float) -> Any:
    """A copy whose fifth row is `value`."""
    copy = np.array(values, dtype=dtype)
    copy[5] = value
    return copy


TABLES = {
    "text": (X.astype(str), "numbers|strings"),
    "bytes": (X.astype(str).astype("S"), "numbers|strings"),
    "complex": (X + 1j, "Complex data not supported"),
    "sparse complex": (sparse.csr_matrix(X + 1j), "Complex data not supported"),
    "objects": (changed(X, {}, object), "not 'dict'"),
    "words in objects": (changed(X, "abc", object), "text|abc"),
    "dates": ((1e6 * X).astype("datetime64[s]"), "datetime64"),
    "one-dimensional": (Y, "Expected 2D array"),
    "three-dimensional": (X[None], "dim 3"),
    "a number": (3.0, "2D"),
    "ragged": ([[1.0, 2.0], [3.0]], "inhomogeneous"),
    "no rows": (X[:0], r"0 sample\(s\)"),
    "no columns": (X[:, :0], r"0 feature\(s\)"),
    "frame without rows": (pd.DataFrame(X).iloc[:0], r"0 sample\(s\)|\[0, 60\]"),
    "frame without columns": (pd.DataFrame(index=range(N)), r"0 feature\(s\)"),
    "frame with dates": (pd.DataFrame({"day": pd.date_range("2020", periods=N)}), "column 'day'"),
    "frame with complex": (pd.DataFrame({"z": X[:, 0] + 1j}), "column 'z'"),
    "frame with lists": (pl.DataFrame({"l": [[1.0, 2.0]] * N}), "column 'l'"),
    "frame with arrays": (
        pl.DataFrame({"m": [[1.0, 2.0]] * N}, schema={"m": pl.Array(pl.Float64, 2)}), "column 'm'"),
    "same name twice": (pd.DataFrame(X, columns=["a", "b", "a"]), "same name|'a' 2 times"),
    "names equal as text": (pd.DataFrame(X, columns=[1, "1", "b"]), "same name|string"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_tables(kind: str) -> None:
    wrong, message = TABLES[kind]
    without_rows = kind in ("no rows", "frame without rows")
    with pytest.raises(Refusal, match=message):
        dataset = bg.Dataset(wrong)
        if without_rows:  # an empty shard: only all of them together are too few
            bg.train({"objective": "regression"}, dataset)
    with pytest.raises(Refusal, match=message):
        BitGroveRegressor(**FAST).fit(wrong, Y)
    if not without_rows:  # no rows have no predictions
        with pytest.raises(Refusal, match=f"{message}|columns|features"):
            train().predict(wrong)


def test_estimators_name_text_and_columns_that_are_there_twice() -> None:
    fitted = BitGroveRegressor(**FAST).fit(X, Y)
    words = changed(X, 1.0, object)
    words[7, 1] = "red"
    for call in (fitted.predict, lambda table: BitGroveRegressor(**FAST).fit(table, Y)):
        with pytest.raises(ValueError, match=r"X holds text: 'red' in column 1; .*_features=\[1\]"):
            call(words)
        with pytest.raises(ValueError, match="X has two columns of the same name, 'a'"):
            call(pd.DataFrame(X, columns=["a", "b", "a"]))


def test_text_that_looks_like_numbers_and_masks_are_refused() -> None:
    """NumPy alone would read the text, and forget the mask."""
    for what in (X.astype(str).tolist(), X.astype(str).astype(object)):
        with pytest.raises(ValueError, match="X must hold numbers, not text"):
            bg.Dataset(what)
    with pytest.raises(TypeError, match="X is a masked array"):
        bg.Dataset(np.ma.masked_greater(X, 0.0))
    with pytest.raises(TypeError, match="label is a masked array"):
        bg.Dataset(X, np.ma.masked_greater(Y, 0.0))
    with pytest.raises(TypeError, match="X is a masked array"):
        train().predict(np.ma.masked_greater(X, 0.0))
    fitted = BitGroveRegressor(**FAST).fit(X, Y)
    with pytest.raises(TypeError, match="X is a masked array"):
        fitted.predict(np.ma.masked_greater(X, 0.0))
    for place, name in enumerate(("X", "y", "sample_weight")):
        given = [X, Y, np.ones(N)]
        given[place] = np.ma.masked_greater(given[place], 0.0)
        with pytest.raises(TypeError, match=f"{name} is a masked array"):
            BitGroveRegressor(**FAST).fit(*given)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_series_is_no_table(library: str) -> None:
    series = pytest.importorskip(library).Series(X[:, 0])
    for call in (bg.Dataset, BitGroveRegressor(**FAST).fit(X, Y).predict, train().predict):
        with pytest.raises(ValueError, match="X is a Series; a table is needed"):
            call(series)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=str)
def test_rows_without_a_class(missing: Any) -> None:
    labels = np.array([*["yes", "no"] * (N // 2 - 1), "yes", missing], dtype=object)
    with pytest.raises(ValueError, match=f"y has no label in 1 of {N} rows .row {N - 1}"):
        BitGroveClassifier(**FAST).fit(X, labels)


TARGETS = {
    "NaN": (changed(Y, np.nan), "NaN"),
    "infinity": (changed(Y, np.inf), "infinity"),
    "minus infinity": (changed(Y, -np.inf), "infinity"),
    "None": ([None, *Y[1:]], "NaN"),
    "1e39": (changed(Y, 1e39), "label holds 1e.39; magnitudes above 1e38"),
    "1e300": (changed(Y, -1e300), "label holds 1e.300; magnitudes above 1e38"),
    "text": (["a"] * N, "numbers"),
    "text in objects": (changed(Y, "abc", object), "numbers"),
    "complex": (Y + 1j, "[Cc]omplex"),
    "short": (Y[:-1], "59"),
    "long": (np.append(Y, 1.0), "61"),
    "three dimensions": (np.zeros((60, 2, 2)), r"\(60, 2, 2\)|dim 3"),
    "no columns": (np.zeros((60, 0)), r"\(60, 0\)"),
    "a number": (1.0, "shape"),
    "objects": (changed(Y, {}, object), "not 'dict'|numbers"),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_targets(kind: str) -> None:
    target, message = TARGETS[kind]
    with pytest.raises(Refusal, match=message):
        bg.Dataset(X, target)
    with pytest.raises(Refusal, match=message):
        BitGroveRegressor(**FAST).fit(X, target)


def test_targets_that_only_datasets_see() -> None:
    with pytest.raises(ValueError, match="label must hold numbers, not text"):
        bg.Dataset(X, Y.astype(str))
    with pytest.raises(TypeError, match="label has type timedelta64"):
        bg.Dataset(X, (1e6 * Y).astype("timedelta64[s]"))
    with pytest.raises(ValueError, match="the training Dataset has none"):
        bg.train({**FAST, "objective": "regression"}, bg.Dataset(X))


WEIGHTS = {
    "negative": (changed(np.ones(N), -1.0), "weight must not be negative, got -1"),
    "NaN": (changed(np.ones(N), np.nan), "weight contains NaN"),
    "infinity": (changed(np.ones(N), np.inf), "weight contains NaN or infinity"),
    "1e39": (changed(np.ones(N), 1e39), "weight holds 1e.39"),
    "all zero": (np.zeros(N), "weights are zero"),
    "all below float32": (np.full(N, 1e-40), "weights are zero"),
    "short": (np.ones(N - 1), "59"),
    "two columns": (np.ones((N, 2)), r"\(60, 2\)"),
    "text": (["heavy"] * N, "numbers|'heavy'"),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights(kind: str) -> None:
    weight, message = WEIGHTS[kind]
    with pytest.raises(ValueError, match=message):
        train(weight=weight)
    for estimator, y in ((BitGroveRegressor, Y), (BitGroveClassifier, BINARY)):
        with pytest.raises(ValueError, match=message):
            estimator(**FAST).fit(X, y, sample_weight=weight)


GROUPS = {
    "too few rows": ([20, 20], "add up to 40 but there are 60"),
    "too many rows": ([60, 20], "add up to 80"),
    "negative": ([80, -20], "positive, got -20"),
    "empty query": ([60, 0], "positive, got 0"),
    "no query": ([], "whole numbers"),
    "fractions": ([30.0, 30.0], "whole numbers"),
    "two-dimensional": ([[30, 30]], "whole numbers"),
    "text": (["30", "30"], "whole numbers"),
    "wraps around": (np.array([2**63, 2**63, 60], dtype=np.uint64), "add up to 18446744073709551"),
}  # fmt: skip


@pytest.mark.parametrize("kind", GROUPS)
def test_groups(kind: str) -> None:
    group, message = GROUPS[kind]
    with pytest.raises(ValueError, match=message):
        bg.Dataset(X, GRADES, group=group)
    with pytest.raises(ValueError, match=message):
        BitGroveRanker(**FAST).fit(X, GRADES, group=group)


LABELS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "ranking without queries": ({"objective": "lambdarank"}, GRADES, "group: lambdarank needs"),
    "grade beyond the gains": ({**RANKING, "label_gain": [0, 1]}, GRADES, "grades 0 to 1"),
    "grade beyond 30": (RANKING, 11 * GRADES, "grades 0 to 30"),
    "half a grade": (RANKING, GRADES / 2, "whole grades"),
    "negative grade": (RANKING, -GRADES, "whole grades"),
    "binary 1 and 2": ({"objective": "binary"}, BINARY + 1, "labels 0 and 1"),
    "binary -1 and 1": ({"objective": "binary"}, 2 * BINARY - 1, "labels 0 and 1"),
    "binary probabilities": ({"objective": "binary"}, 0.5 * BINARY, "labels 0 and 1"),
    "fractional class": ({"objective": "multiclass"}, CLASSES / 4, "whole labels.*, got 0.(25|5)"),
    "negative class": ({"objective": "multiclass"}, -1 - CLASSES, "whole labels.*, got -[123]"),
    "one class": ({"objective": "multiclass"}, 0 * CLASSES, "at least 2 classes"),
    "num_class too small": (
        {"objective": "multiclass", "num_class": 2}, CLASSES, "class 2 found, but num_class is 2"),
    "class numbers that are ids": (
        {"objective": "multiclass"}, 1e9 * BINARY, "class 1000000000 found among 60 rows"),
    "astronomical class": ({"objective": "multiclass"}, 1e38 * BINARY, "number the classes"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LABELS)
def test_labels_that_do_not_fit_the_objective(kind: str) -> None:
    params, y, message = LABELS[kind]
    with pytest.raises(ValueError, match=message):
        train(X, y, **params)


PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown objective": ({"objective": "nope"}, "objective='nope': must be one of 'binary'"),
    "no objective": ({"objective": None}, "objective: must be given"),
    "unknown name": ({"num_leafs": 7}, "unknown parameter 'num_leafs'; did you mean 'num_leaves'"),
    "leaves": ({"num_leaves": 1}, "num_leaves=1: must be an integer >= 2"),
    "bins": ({"max_bin": 256}, "max_bin=256"),
    "bits": ({"gradient_bits": 1}, "gradient_bits=1"),
    "rate": ({"learning_rate": 0.0}, "learning_rate=0.0"),
    "NaN": ({"reg_lambda": float("nan")}, "reg_lambda=nan"),
    "part": ({"subsample": 1.5}, "subsample=1.5"),
    "text": ({"n_estimators": "10"}, "n_estimators='10'"),
    "flat sigmoid": ({"objective": "binary", "sigmoid": 1e-300}, "sigmoid=1e-300: must lie"),
    "steep sigmoid": ({**RANKING, "sigmoid": 1e200}, "sigmoid=1e.200"),
    "heavy class": ({"objective": "binary", "scale_pos_weight": 1e39}, "scale_pos_weight=1e.39"),
    "light class": ({"objective": "binary", "scale_pos_weight": 1e-39}, "scale_pos_weight=1e-39"),
    "falling gains": ({**RANKING, "label_gain": [3, 2, 1, 0]}, "must not decrease"),
    "huge gains": ({**RANKING, "label_gain": [0, 1, 2, 1e308]}, "label_gain=.* 1e-30 and 1e30"),
    "tiny gains": ({**RANKING, "label_gain": [0, 1e-310, 1, 2]}, "label_gain=.* 1e-30 and 1e30"),
    "many classes": ({"objective": "multiclass", "num_class": 2**31 - 1}, "num_class=2147483647"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PARAMETERS)
def test_parameters(kind: str) -> None:
    params, message = PARAMETERS[kind]
    y = {"binary": BINARY, "multiclass": CLASSES, "lambdarank": GRADES}
    with pytest.raises(ValueError, match=message):
        train(X, y.get(params.get("objective") or "", Y), **params)


def test_parameters_of_estimators() -> None:
    with pytest.raises(ValueError, match="max_bin=256"):
        BitGroveRegressor(max_bin=256).fit(X, Y)
    with pytest.raises(TypeError, match="num_leafs"):
        BitGroveRegressor(num_leafs=7)
    with pytest.raises(ValueError, match="1 class"):
        BitGroveClassifier().fit(X, np.ones(N))
    with pytest.raises(NotFittedError, match="not fitted"):
        BitGroveClassifier().predict(X)


def test_things_that_are_no_datasets() -> None:
    for wrong in (X, None, (X, Y)):
        with pytest.raises(TypeError, match="train_set must be a Dataset, got"):
            bg.train({**FAST, "objective": "regression"}, wrong)  # type: ignore[arg-type]
    for valid in (X, (X, Y), [(X, Y)]):
        with pytest.raises(TypeError, match="valid_sets must be a Dataset or a list"):
            bg.train({**FAST, "objective": "regression"}, bg.Dataset(X, Y), valid_sets=valid)  # type: ignore[arg-type]


def test_feature_names() -> None:
    for names, message in (
        ("abc", "list of names"),
        (["a"], "1 names for 3"),
        (["a"] * 3, "unique"),
    ):
        with pytest.raises(ValueError, match=message):
            bg.Dataset(X, Y, feature_names=names)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [["a", "b", "c"], ["f0", "f1", "f2"]])
def test_columns_at_prediction(names: list[str]) -> None:
    frame = pd.DataFrame(X, columns=names)
    model = train(frame)
    expected = model.predict(X)  # a table without names is taken as it is
    np.testing.assert_array_equal(model.predict(frame), expected)
    wrong = {
        "another order": frame[[names[1], names[0], names[2]]],
        "missing": frame[names[:2]],
        "unexpected": frame.assign(d=1.0),
    }
    fitted = BitGroveRegressor(**FAST).fit(frame, Y)
    for message, other in wrong.items():
        with pytest.raises(ValueError, match=message):
            model.predict(other)
        with pytest.raises(ValueError, match="feature names should match"):
            fitted.predict(other)
    nameless = BitGroveRegressor(**FAST).fit(X, Y)
    for rows in (X[:, :2], np.column_stack([X, X])):
        for predictor in (model, nameless):
            with pytest.raises(ValueError, match=r"X has \d features, but .* 3"):
                predictor.predict(rows)


def test_any_names_fit_a_model_without_names() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_array_equal(train(X).predict(frame), train(X).predict(X))


VALID: dict[str, tuple[dict[str, Any], bg.Dataset, str]] = {
    "fewer features": ({}, bg.Dataset(X[:, :2], Y), "'valid_0' has 2 features, the training set 3"),
    "other names": ({}, bg.Dataset(X, Y, feature_names=["a", "b", "c"]), "other feature names"),
    "no label": ({}, bg.Dataset(X), "'valid_0' has no label"),
    "no weight": ({}, bg.Dataset(X, Y, weight=np.zeros(N)), "'valid_0': all weights are zero"),
    "class": ({"objective": "multiclass", "y": CLASSES}, bg.Dataset(X, CLASSES + 1), "0 to 2"),
    "fraction": ({"objective": "binary", "y": BINARY}, bg.Dataset(X, BINARY / 2), "0 to 1"),
    "grade": (
        {"objective": "lambdarank", "y": GRADES, "label_gain": [0, 1, 2, 3]},
        bg.Dataset(X, GRADES + 1, group=GROUP), "0 to 3"),
    "no queries": ({"objective": "lambdarank", "y": GRADES}, bg.Dataset(X, GRADES), "group: ndcg"),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALID)
def test_validation_sets(kind: str) -> None:
    params, valid, message = VALID[kind]
    params = {"objective": "regression", **FAST, **params}
    train_set = bg.Dataset(X, params.pop("y", Y), group=GROUP)
    with pytest.raises(ValueError, match=message):
        bg.train(params, train_set, valid_sets=valid)


def test_validation_class_unseen_by_an_estimator() -> None:
    with pytest.raises(ValueError, match="eval_set has classes that the training data has not"):
        BitGroveClassifier(**FAST).fit(X, CLASSES, eval_set=(X, CLASSES + 1))


def test_names_of_validation_sets() -> None:
    train_set, valid = bg.Dataset(X, Y), bg.Dataset(X, Y)
    params = {**FAST, "objective": "regression"}
    wrong: list[tuple[Any, str]] = [
        (["a"], "1 names for 2 sets"),
        ([], "0 names for 2 sets"),
        ("ab", "1 names for 2 sets"),
        (["a", "a"], "must differ"),
    ]
    for names, message in wrong:
        with pytest.raises(ValueError, match=message):
            bg.train(params, train_set, valid_sets=[valid, valid], valid_names=names)
    with pytest.raises(ValueError, match="1 names for 0 sets"):
        bg.train(params, train_set, valid_names=["a"])


def test_early_stopping_without_validation_data() -> None:
    params = {**FAST, "objective": "regression"}
    train_set = bg.Dataset(X, Y)
    with pytest.raises(ValueError, match="needs a validation set"):
        bg.train({**params, "early_stopping_rounds": 2}, train_set)
    for valid in (None, [train_set]):
        with pytest.raises(ValueError, match="needs a validation set"):
            bg.train(params, train_set, valid_sets=valid, callbacks=[bg.early_stopping(2)])
    for rounds in (0, -1, 2.5, "3", None):
        with pytest.raises(ValueError, match="early stopping rounds must be an integer"):
            bg.early_stopping(rounds)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="period must be an integer"):
        bg.log_evaluation(2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="min_delta must be"):
        bg.early_stopping(2, min_delta=-1.0)
    with pytest.raises(ValueError, match="are the same"):
        bg.early_stopping(2, stopping_rounds=3)
