"""Bad inputs: the same wrong calls of each library's own scikit-learn estimators.

Each case is a function that ends with an exception where the library notices. One that returns was
accepted; what it returns is a word for the table where "accepted" would say too little.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from lab.benchmarks.reliability.libraries import Library
from lab.benchmarks.reliability.trials import Outcome, attempt

Case = Callable[[Library], Any]
CASES: dict[str, Case] = {}


def _case(name: str) -> Callable[[Case], Case]:
    def keep(function: Case) -> Case:
        CASES[name] = function
        return function

    return keep


def _rows(n: int = 400) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] + 2 * X[:, 1]


def _fit(
    library: Library, kind: str = "Regressor", X: Any = None, y: Any = None, **more: Any
) -> Any:
    good = _rows()
    X, y = good[0] if X is None else X, good[1] if y is None else y
    fit = {k: more.pop(k) for k in ("sample_weight", "group", "group_id", "eval_set") if k in more}
    return library.estimator(kind, **{"n_estimators": 5, **more}).fit(X, y, **fit)


def _with(values: Any, value: float) -> Any:
    changed = np.array(values, dtype=float)
    changed.flat[7] = value
    return changed


@_case("a label is NaN")
def _(library: Library) -> Any:
    _fit(library, y=_with(_rows()[1], np.nan))


@_case("a label is infinite")
def _(library: Library) -> Any:
    _fit(library, y=_with(_rows()[1], np.inf))


@_case("a class label is NaN")
def _(library: Library) -> Any:
    _fit(library, "Classifier", y=_with(_rows()[1] > 0, np.nan))


@_case("one class only")
def _(library: Library) -> Any:
    _fit(library, "Classifier", y=np.ones(400, int))


@_case("Poisson, a negative label")
def _(library: Library) -> Any:
    _fit(library, y=_with(np.abs(_rows()[1]), -3.0), objective=library.poisson)


@_case("a negative weight")
def _(library: Library) -> Any:
    _fit(library, sample_weight=_with(np.ones(400), -1.0))


@_case("a weight is NaN")
def _(library: Library) -> Any:
    _fit(library, sample_weight=_with(np.ones(400), np.nan))


@_case("all weights are 0")
def _(library: Library) -> Any:
    _fit(library, sample_weight=np.zeros(400))


@_case("fewer labels than rows")
def _(library: Library) -> Any:
    _fit(library, y=_rows()[1][:-1])


@_case("fewer weights than rows")
def _(library: Library) -> Any:
    _fit(library, sample_weight=np.ones(399))


@_case("no rows")
def _(library: Library) -> Any:
    _fit(library, X=np.zeros((0, 4)), y=np.zeros(0))


@_case("no columns")
def _(library: Library) -> Any:
    _fit(library, X=np.zeros((400, 0)))


@_case("one dimension")
def _(library: Library) -> Any:
    _fit(library, X=_rows()[0][:, 0])


@_case("complex numbers")
def _(library: Library) -> Any:
    _fit(library, X=_rows()[0].astype(complex) * 1j)


@_case("text among numbers")
def _(library: Library) -> Any:
    X = _rows()[0].astype(object)
    X[3, 1] = "word"
    _fit(library, X=X)


@_case("two columns of one name")
def _(library: Library) -> Any:
    _fit(library, X=pd.DataFrame(_rows()[0], columns=["a", "a", "b", "c"]))


@_case("validation rows with fewer columns")
def _(library: Library) -> Any:
    X, y = _rows()
    _fit(library, eval_set=[(X[:, :3], y)])


@_case("fewer columns at prediction")
def _(library: Library) -> Any:
    _fit(library).predict(_rows()[0][:, :3])


@_case("more columns at prediction")
def _(library: Library) -> Any:
    _fit(library).predict(np.ones((5, 9)))


@_case("other column names at prediction")
def _(library: Library) -> Any:
    X = pd.DataFrame(_rows()[0], columns=[*"abcd"])
    _fit(library, X=X).predict(X.rename(columns={"a": "z"}))


@_case("columns in another order at prediction")
def _(library: Library) -> Any:
    X = pd.DataFrame(_rows()[0], columns=[*"abcd"])
    fitted = _fit(library, X=X)
    same = np.array_equal(fitted.predict(X), fitted.predict(X[[*"dcba"]]))
    return "put in order" if same else "wrong scores"


@_case("text at prediction")
def _(library: Library) -> Any:
    X = _rows()[0].astype(object)
    X[3, 1] = "word"
    _fit(library).predict(X)


@_case("an unknown parameter")
def _(library: Library) -> Any:
    _fit(library, num_leafs=7)


@_case("an unknown objective")
def _(library: Library) -> Any:
    _fit(library, objective="regresion")


@_case("learning_rate is NaN")
def _(library: Library) -> Any:
    _fit(library, learning_rate=float("nan"))


@_case("learning_rate is -1")
def _(library: Library) -> Any:
    _fit(library, learning_rate=-1.0)


@_case("n_estimators is -1")
def _(library: Library) -> Any:
    _fit(library, n_estimators=-1)


@_case("subsample is 2")
def _(library: Library) -> Any:
    _fit(library, subsample=2.0)


@_case("a model that diverges (learning_rate 1e30)")
def _(library: Library) -> Any:
    scores = _fit(library, learning_rate=1e30, n_estimators=20).predict(_rows()[0])
    return "finite scores" if np.isfinite(scores).all() else "NaN or infinite scores"


@_case("ranking, groups that do not add up")
def _(library: Library) -> Any:
    grades = np.arange(400) % 4
    if library.package == "catboost":  # it has an id of each row instead: one too few
        return _fit(library, "Ranker", y=grades, group_id=np.zeros(399, int))
    return bool(_fit(library, "Ranker", y=grades, group=[100, 200])) and None


def _tried(library: Library, case: Case) -> str:
    """Warnings count where nothing else said a word."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        said = case(library) or "accepted"
    told = [w for w in found if not issubclass(w.category, (DeprecationWarning, FutureWarning))]
    return "warned" if told and said == "accepted" else said


def _word(outcome: Outcome) -> str:
    if outcome.kind == "done":
        told = outcome.value == "accepted" and "warning" in outcome.printed.lower()
        return "warned" if told else str(outcome.value)
    return (
        "refused" if outcome.kind == "refused" else f"{outcome.kind} {outcome.value or ''}".upper()
    )


def run(library: Library) -> dict[str, Any]:
    """Each case's word, and what was said about it."""
    found = {}
    for name, case in CASES.items():
        outcome = attempt(lambda case=case: _tried(library, case), 60.0)  # type: ignore[misc]
        found[name] = [_word(outcome).strip(), str(outcome.value)]
    return found
