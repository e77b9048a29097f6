"""Is this model what training on these rows gives? Trains again and compares.

Owns verify() and Verification. Receives a model, as an object, a file or a fitted estimator, and
the data that it is said to come from; returns what is the same and what differs first. The answer
does not depend on where it is asked: device, threads and ranks may be others than in the first
training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bitgrove.callbacks import TrainingState
from bitgrove.data.dataset import Dataset
from bitgrove.distributed.comm import Comm
from bitgrove.errors import DataError, ParameterError
from bitgrove.machine.files import PathLike
from bitgrove.model.judged import GivenRows, dataset_of
from bitgrove.model.model import Model, load
from bitgrove.model.tree import Tree
from bitgrove.params import BY_NAME, CANONICAL
from bitgrove.provenance.record import TrainingRecord
from bitgrove.training.train import train
from bitgrove.version import __version__

if TYPE_CHECKING:
    from bitgrove.estimators.base import Estimator

# What a training on other data could stop at, and functions that a file cannot hold.
_LEFT_OUT = {"early_stopping_rounds": None, "max_seconds": None, "eval_metric": None,
             "first_metric_only": False}  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """Something that is not the same; what: rows, labels, ..., features, trees."""

    what: str
    detail: str


@dataclass(frozen=True)
class Verification:
    """The answer of `verify`; true where the model is what training on the data gives.

    differences: in the order in which they were looked for; nothing is looked for after data that
    differs. digest, again: of the model, and of the one that was trained again (None: it was not).
    """

    differences: tuple[Difference, ...]
    digest: str
    again: str | None
    recorded: TrainingRecord | None
    found: TrainingRecord
    notes: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    def __bool__(self) -> bool:
        return self.verified

    def __str__(self) -> str:
        lines = [f"digest          {self.digest}", f"trained again   {self.again or '-'}"]
        for field in fields(TrainingRecord):
            lines.append(f"{field.name.replace('_', ' '):<16}{self._compared(field.name)}")
        lines += [f"note            {note}" for note in self.notes]
        lines += [f"differs         {d.what}: {d.detail}" for d in self.differences]
        same = "VERIFIED: training again gives the same model"
        lines.append(same if self.verified else "NOT VERIFIED: see what differs first")
        return "\n".join(lines)

    def _compared(self, name: str) -> str:
        old = None if self.recorded is None else getattr(self.recorded, name)
        new = getattr(self.found, name)
        if self.recorded is None:
            return f"{new or '-'} (no record to compare with)"
        return f"{old or '-'} ({'same' if old == new else f'here {new or None}'})"


def verify(
    model: Model | PathLike | Estimator,
    X: Any,
    y: Any = None,
    *,
    weight: Any = None,
    group: Any = None,
    qid: Any = None,
    init_score: Any = None,
    init_model: Model | PathLike | None = None,
    comm: Comm | None = None,
    **place: Any,
) -> Verification:
    """Train again on these rows and say whether the same model comes out.

    Parameters
    ----------
    model : Model, path or fitted estimator
        An estimator is fitted again, so that its `class_weight` and `validation_fraction` count.
    X : table or Dataset
        The training rows. A Dataset has everything; with a Comm, it is this rank's shard.
    y : array, optional
        The labels that were given to the training.
    weight, group, qid, init_score : array, optional
        As in the training.
    init_model : Model or path, optional
        The model that training went on from, if there was one.
    comm : Comm, optional
        The ranks that train again; they need not be as many as they were.
    **place
        Parameters that cannot change a model, such as `device` and `n_jobs`; and `objective`, if
        it is a function of yours.

    Returns
    -------
    Verification
        True where the model is what training on this data gives; else it says what differs first.

    Examples
    --------
    >>> import numpy as np
    >>> import bitgrove as bg
    >>> X = np.arange(2000.0).reshape(500, 4) % 37
    >>> model = bg.train({"objective": "regression"}, bg.Dataset(X, X[:, 0]), 5)
    >>> bool(bg.verify(model, X, X[:, 0]))
    True
    >>> bg.verify(model, X, X[:, 1]).differences[0].what
    'labels'
    """
    held: Any = getattr(model, "model_", model)
    known: Model = held if isinstance(held, Model) else load(held)
    _check_place(place)
    again = _Again(known, init_model, place, comm)
    start = {"weight": weight, "group": group, "qid": qid, "init_score": init_score}
    given = {name: value for name, value in start.items() if value is not None}
    if hasattr(model, "model_"):
        trained = again.fitted(model, X, y, given)
    elif isinstance(X, Dataset):
        if y is not None or given:
            raise DataError("X is a Dataset: labels, weights and groups are part of it")
        trained = again.trained(X)
    else:
        if y is None:
            raise DataError("y is needed: the labels that the model was trained on")
        trained = again.trained(dataset_of(known, GivenRows(X, y, **given)))
    return _judged(known, trained, again)


def _check_place(place: Mapping[str, Any]) -> None:
    for name, value in place.items():
        main = CANONICAL.get(name)
        if main is None or (BY_NAME[main].affects_model and not callable(value)):
            raise ParameterError(
                f"{name}={value!r}: a model is verified with its own parameters; others may be "
                "given only where they cannot change it, such as device and n_jobs"
            )


class _Again:
    """One more training with a model's parameters, for as many iterations as it has."""

    def __init__(
        self,
        model: Model,
        init_model: Model | PathLike | None,
        place: Mapping[str, Any],
        comm: Comm | None,
    ) -> None:
        self.model, self.comm, self.stopped = model, comm, False
        given = getattr(init_model, "model_", init_model)
        self.start = given if given is None or isinstance(given, Model) else load(given)
        n_before = 0 if self.start is None else self.start.n_iterations
        self.n_iterations = model.n_iterations - n_before
        if self.n_iterations < 1:
            raise DataError("init_model has as many iterations as the model")
        params = {n: v for n, v in model.params.items() if n != "objective_function"}
        rate = params["learning_rate"]
        if isinstance(rate, list):
            params["learning_rate"] = rate[: self.n_iterations]
        self.params = {**params, **_LEFT_OUT, **place}
        self.params["n_estimators"] = self.n_iterations
        if callable(place.get("objective")):
            self.params["objective"] = place["objective"]

    def trained(self, dataset: Dataset) -> Model:
        return train(
            self.params, dataset, init_model=self.start, comm=self.comm, callbacks=[self._stop]
        )

    def fitted(self, estimator: Any, X: Any, y: Any, given: dict[str, Any]) -> Model:
        if self.comm is not None:
            raise ParameterError("comm: give the estimator's model_ and a Dataset of each rank")
        from sklearn.base import clone

        own = {n: v for n, v in self.params.items() if n in estimator.get_params(deep=False)}
        own = {n: v for n, v in own.items() if n not in ("objective", "num_class")}
        twin = clone(estimator).set_params(**own, warm_start=False)
        if "weight" in given:
            given["sample_weight"] = given.pop("weight")
        twin.fit(X, y, init_model=self.start, callbacks=[self._stop], **given)
        again: Model = twin.model_
        return again

    def _stop(self, state: TrainingState) -> bool:
        """Other data gives another model: no need to see all of it."""
        assert state.booster is not None
        recorded = self.model.record
        found = state.booster.record.result()
        self.stopped = recorded is not None and any(recorded.differences(found))
        return self.stopped


def _judged(model: Model, again: Model, how: _Again) -> Verification:
    found = again.record
    assert found is not None, "every training has a record"
    differences, notes = [], []
    recorded = model.record
    if recorded is None:
        notes.append("the model has no record of its data; the models alone were compared")
    else:
        differences = [_data_difference(part) for part in recorded.differences(found)]
        if recorded.version != __version__:
            notes.append(
                f"the model was trained by version {recorded.version}, this is {__version__}; "
                "the changelog names releases that changed bits"
            )
    if how.n_iterations < (asked := model.params["n_estimators"]):
        notes.append(
            f"training ended after {how.n_iterations} of {asked} iterations; why it ended is not "
            "verified"
        )
    if how.stopped:
        return Verification(tuple(differences), model.digest(), None, recorded, found, tuple(notes))
    twin = _with_facts_of(again, model)
    differences += _model_differences(model, twin)
    if not differences and twin.digest() != model.digest():
        differences.append(Difference("parameters", "the files are not the same"))
    return Verification(
        tuple(differences), model.digest(), twin.digest(), recorded, found, tuple(notes)
    )


def _data_difference(part: str) -> Difference:
    said = {
        "init_model": "the model was trained from another init_model, or from none",
        "reference": "bins were made of the rows of another Dataset (reference)",
    }
    name = part.replace("_", " ")
    return Difference(part, said.get(part, f"these are not the {name} that it was trained on"))


def _with_facts_of(again: Model, model: Model) -> Model:
    """What is not made by training: the names of classes, and where it was told to end."""
    return Model(
        again.objective,
        again.trees,
        again.base_score,
        again.feature_names,
        {**again.params, **{name: model.params[name] for name in _GIVEN & model.params.keys()}},
        model.classes,
        model.best_iteration,
        classes_dtype=model.classes_dtype,
        encoder=again.encoder,
    )


# Parameters that say when to stop, or that are functions: of the model, as they are.
_GIVEN = {*_LEFT_OUT, "n_estimators", "learning_rate", "objective_function"}


def _model_differences(model: Model, again: Model) -> Iterator[Difference]:
    for name in sorted(model.params.keys() | again.params.keys()):
        old, new = model.params.get(name), again.params.get(name)
        if old != new:
            yield Difference("parameters", f"{name} is {old!r} in the model, {new!r} here")
    if model.feature_names != again.feature_names:
        yield Difference("features", "the columns have other names, or another order")
    if not np.array_equal(model.base_score, again.base_score):
        yield Difference("base score", f"{model.base_score.tolist()} and "
                         f"{again.base_score.tolist()}")  # fmt: skip
    if len(model.trees) != len(again.trees):
        yield Difference("trees", f"{len(model.trees)} trees, trained again {len(again.trees)}")
    for number, (old, new) in enumerate(zip(model.trees, again.trees, strict=False)):
        if (field := _other_field(old, new)) is not None:
            yield Difference("trees", f"from tree {number} on, first its {field}")
            return


def _other_field(old: Tree, new: Tree) -> str | None:
    for field in fields(Tree):
        one, other = (np.asarray(getattr(tree, field.name)) for tree in (old, new))
        if one.shape != other.shape or one.tobytes() != other.tobytes():
            return field.name.replace("_", " ")
    return None
