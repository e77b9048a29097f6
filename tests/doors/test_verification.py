"""verify(): trains again, anywhere, and names what differs first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.distributed import Comm, run_threads
from cases import CASES, Case

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
Y = X[:, 0] - X[:, 1] * X[:, 2]
PARAMS = {"objective": "regression", "n_estimators": 4, "num_leaves": 7, "n_jobs": 1}


def dataset(case: Case, rows: Any = slice(None), group: Any = None) -> bg.Dataset:
    weight = None if case.weight is None else case.weight[rows]
    return bg.Dataset(case.X[rows], case.y[rows], weight=weight, group=group, **case.kinds)


def test_every_case_is_verified_elsewhere(case: Case) -> None:
    """The bytes of any training, made again by another backend from the file alone."""
    model = bg.Model.from_bytes(case.train().to_bytes())
    place: dict[str, Any] = {"n_jobs": 3}
    if callable(own := case.params["objective"]):
        place["objective"] = own  # no file holds a function
    found = bg.verify(model, dataset(case, group=case.group), **place)
    assert found and found.verified and found.digest == found.again == model.digest(), str(found)
    assert "VERIFIED" in str(found) and not found.differences


@pytest.mark.parametrize("name", ["regression weighted", "categories"])
def test_over_ranks_and_by_the_oracle(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    path = tmp_path / "model.bitgrove"
    case.train().save(path)

    def rank(comm: Comm) -> bool:
        rows = np.array_split(np.arange(len(case.y)), comm.size)[comm.rank]
        return bg.verify(path, dataset(case, rows), comm=comm, n_jobs=1).verified

    assert run_threads(3, rank) == [True] * 3
    assert bg.verify(path, dataset(case), device="reference").verified


def test_what_differs_first() -> None:
    weight = RNG.uniform(0.5, 2.0, 400)
    model = bg.train(PARAMS, bg.Dataset(X, Y, weight=weight))
    other = X.copy()
    other[399, 3] = np.nan
    cases: list[tuple[Any, Any, Any, list[str]]] = [
        (other, Y, weight, ["rows"]),
        (X, Y + 1, weight, ["labels"]),
        (X, Y, None, ["weights"]),
        (X[:-1], Y[:-1], weight[:-1], ["rows", "labels", "weights"]),
    ]
    for rows, labels, weights, expected in cases:
        found = bg.verify(model, rows, labels, weight=weights)
        assert [d.what for d in found.differences] == expected
        assert not found and found.again is None  # no need to train to the end
    ranking = CASES["ranking"]()
    ranker = ranking.train()
    sizes = np.array(ranking.group)
    sizes[:2] += [1, -1]
    found = bg.verify(ranker, ranking.X, ranking.y, group=sizes)
    assert [d.what for d in found.differences] == ["groups"]


def test_a_changed_model_is_found_out() -> None:
    """The record is right, but the model is not what such a training gives."""
    model = bg.train(PARAMS, bg.Dataset(X, Y))
    grown = model.trees[2]
    wrong = {
        "trees": lambda m: m.trees.__setitem__(
            2, replace(grown, leaf_value=np.nextafter(grown.leaf_value, 9.0))
        ),
        "features": lambda m: setattr(m, "feature_names", list("abcd")),
        "base score": lambda m: setattr(m, "base_score", m.base_score + 1e-9),
    }
    for what, change in wrong.items():
        forged = bg.Model.from_bytes(model.to_bytes())
        change(forged)
        names = forged.feature_names if what != "features" else model.feature_names
        found = bg.verify(forged, bg.Dataset(X, Y, feature_names=names))
        assert found.differences[0].what == what and found.again == model.digest()
    forged = bg.Model.from_bytes(model.to_bytes())
    forged.params["learning_rate"] = 0.2
    assert "from tree 0 on" in bg.verify(forged, X, Y).differences[-1].detail
    without = model[:]
    found = bg.verify(without, X, Y + 0.5)
    assert not found and "no record" in found.notes[0]
    assert bg.verify(without, X, Y).verified


def test_trainings_that_stopped_went_on_or_had_functions() -> None:
    data, valid = bg.Dataset(X[:300], Y[:300]), bg.Dataset(X[300:], Y[300:])
    schedule = {"n_estimators": 60, "learning_rate": [0.9] * 60, "early_stopping_rounds": 2}
    stopped = bg.train({**PARAMS, **schedule}, data, valid_sets=valid)
    found = bg.verify(stopped, X[:300], Y[:300])
    assert found.verified and "of 60 iterations; why it ended" in found.notes[0]
    start = bg.train(PARAMS, valid)
    more = bg.train(PARAMS, data, init_model=start)
    assert bg.verify(more, data, init_model=start).verified
    assert bg.verify(more, data).differences[0].what == "init_model"
    part = data.subset(np.arange(200))
    shared = bg.train(PARAMS, part)
    assert bg.verify(shared, part).verified
    found = bg.verify(shared, X[:200], Y[:200])
    assert [d.what for d in found.differences] == ["reference"]

    def squared(label: Any, scores: Any) -> Any:
        return scores - label, np.ones(len(scores))

    custom = bg.train({**PARAMS, "objective": squared}, data)
    assert bg.verify(custom, data, objective=squared).verified
    later = bg.train(PARAMS, data)
    assert later.record is not None
    later.record = replace(later.record, version="0.0.9")
    found = bg.verify(later, data)
    assert found.verified and "version 0.0.9" in found.notes[0]


def test_estimators_are_fitted_again() -> None:
    label = np.where(Y > 0.5, "yes", "no")
    model = bg.BitGroveClassifier(
        n_estimators=9, class_weight="balanced", validation_fraction=0.2, n_jobs=1,
        early_stopping_rounds=2, num_leaves=7, random_state=3,
    ).fit(X, label)  # fmt: skip
    assert bg.verify(model, X, label).verified
    assert bg.verify(model, X, np.roll(label, 1)).differences[0].what == "rows"  # held out: others
    assert model.n_estimators == 9  # it is left alone
    plain = bg.BitGroveClassifier(n_estimators=3, n_jobs=1).fit(X, label, sample_weight=Y**2)
    assert bg.verify(plain.model_, X, label, weight=Y**2).verified
    assert bg.verify(plain, X, label, weight=Y**2).verified
    assert bg.verify(plain.model_, X, label).differences[0].what == "weights"


def test_what_cannot_be_asked() -> None:
    model = bg.train(PARAMS, bg.Dataset(X, Y))
    with pytest.raises(bg.ParameterError, match=r"num_leaves=9: a model is verified with its own"):
        bg.verify(model, X, Y, num_leaves=9)
    with pytest.raises(bg.ParameterError, match="nonsense=1"):
        bg.verify(model, X, Y, nonsense=1)
    with pytest.raises(bg.DataError, match="y is needed"):
        bg.verify(model, X)
    with pytest.raises(bg.DataError, match="X is a Dataset: labels"):
        bg.verify(model, bg.Dataset(X, Y), Y)
    with pytest.raises(bg.DataError, match="as many iterations"):
        bg.verify(model, X, Y, init_model=model)
