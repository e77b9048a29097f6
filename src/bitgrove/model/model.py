"""The trained model.

Owns: what a forest means (objective, outputs, classes, feature names), its predictions,
importances, and its place on disk. Receives: trees from training, or bytes through file.py.
Returns: predictions as float64 arrays; bytes that are equal when the models are.
"""

from __future__ import annotations

import hashlib
import math
import operator
import os
import reprlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitgrove.data.dataset import rows_for_prediction
from bitgrove.errors import ModelFormatError, ParameterError
from bitgrove.machine.files import PathLike, write_atomically
from bitgrove.model import file as model_file
from bitgrove.model.predict import choose_gpu, predict_leaves, predict_scores
from bitgrove.model.tree import Tree, make_forest
from bitgrove.objectives import OBJECTIVES, Objective
from bitgrove.objectives.links import IDENTITY, Link
from bitgrove.params import complete_params

if TYPE_CHECKING:
    from bitgrove.training.booster import TrainInfo

# "<U" is text of any width: an array takes that of its longest label. "|O" is an array of objects.
_CLASS_DTYPES = frozenset(
    ["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<U", "|O"]
)
_MAX_LABEL_CELLS = 1 << 24  # classes times the longest label: what an array of them takes


class Model:
    """A forest and all that is needed to predict with it; made by `train` and by `load`.

    `trees[iteration * n_outputs + output]` adds to one output; `base_score` is where each starts.
    `classes` are the labels behind the outputs, `classes_dtype` the NumPy dtype they came in.
    `params` are all that shape the model; those not given have their defaults.
    `best_iteration` is set by early stopping: predictions use that many iterations.
    `info` is what training measured; it is not part of the file, so a loaded model has None.
    """

    def __init__(
        self,
        objective: str,
        trees: Sequence[Tree],
        base_score: npt.ArrayLike,
        feature_names: Sequence[str],
        params: Mapping[str, Any],
        classes: Sequence[Any] | npt.NDArray[Any] | None = None,
        best_iteration: int | None = None,
        *,
        classes_dtype: str | None = None,
        info: TrainInfo | None = None,
    ) -> None:
        self.objective = objective
        self.trees = list(trees)
        self.base_score: npt.NDArray[np.float64] = np.array(base_score, np.float64, ndmin=1)
        self.feature_names = list(feature_names)
        self.params = complete_params(params)
        self.classes, self.classes_dtype = _plain_classes(classes, classes_dtype)
        self.best_iteration = None if best_iteration is None else operator.index(best_iteration)
        self.info = info
        self._forest: Any = None
        self._device_forests: dict[str, Any] = {}
        _check_outputs(self)
        _check_names_and_params(self)
        self._objective = _own_objective(self)
        _check_classes(self)

    @property
    def n_outputs(self) -> int:
        """Scores per row: the number of classes for multiclass, otherwise 1."""
        return len(self.base_score)

    @property
    def n_classes(self) -> int:
        """Classes that the predictions are about; 0 if it is not a classifier."""
        return self._objective.n_classes or 0

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def n_iterations(self) -> int:
        """Boosting rounds; each has one tree per output."""
        return len(self.trees) // self.n_outputs

    @property
    def forest(self) -> Any:
        """All trees in flat arrays, made once."""
        if self._forest is None:
            self._forest = make_forest(self.trees, self.n_features)
        return self._forest

    def class_labels(self) -> npt.NDArray[Any] | None:
        """The classes as the array they were given as."""
        if self.classes is None:
            return None
        return np.array(self.classes, dtype=self.classes_dtype)

    def predict_raw(
        self,
        X: Any,
        *,
        num_iteration: int | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> npt.NDArray[np.float64]:
        """Scores before any link function: (n_rows,), or (n_rows, n_outputs) if multiclass.

        `num_iteration` limits the boosting rounds used (0: the base score alone; None: all, or up
        to the best iteration). `n_jobs` is the number of threads (None or -1: all cores).
        `device` is "cpu", "cuda" or "cuda:1"; None is where the rows of X are. Rows on a GPU give
        a CuPy array; the bits are the same everywhere.
        """
        return self._predicted(IDENTITY, X, num_iteration, n_jobs, device)

    def predict(
        self,
        X: Any,
        *,
        num_iteration: int | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> npt.NDArray[np.float64]:
        """Predictions: (n_rows,) probabilities of the second class for binary, values for
        regression, scores for lambdarank; (n_rows, n_classes) probabilities for multiclass.
        The arguments are those of `predict_raw`."""
        return self._predicted(self._objective.link, X, num_iteration, n_jobs, device)

    def predict_leaf(
        self, X: Any, *, num_iteration: int | None = None, n_jobs: int | None = None
    ) -> npt.NDArray[np.int32]:
        """The index of the leaf that each row reaches in each tree: (n_rows, n_trees)."""
        n_trees = self._n_used(num_iteration) * self.n_outputs
        rows = rows_for_prediction(X, self.feature_names)
        return predict_leaves(self.forest, rows, _checked_n_jobs(n_jobs))[:, :n_trees]

    def feature_importance(
        self, kind: str = "gain", *, num_iteration: int | None = None
    ) -> npt.NDArray[np.float64]:
        """Per feature, the total gain of its splits ("gain") or their number ("split")."""
        if kind not in ("gain", "split"):
            raise ParameterError(f"kind={kind!r}: allowed are 'gain' and 'split'")
        importance = np.zeros(self.n_features)
        for tree in self.trees[: self._n_used(num_iteration) * self.n_outputs]:
            np.add.at(importance, tree.feature, tree.gain if kind == "gain" else 1.0)
        return importance

    def truncate(self, num_iteration: int | None = None) -> Model:
        """A model of the first iterations only (None: up to the best one)."""
        n_kept = self._n_used(num_iteration)
        best = self.best_iteration
        cut = self._copy()
        cut.trees = self.trees[: n_kept * self.n_outputs]
        cut.best_iteration = best if best is not None and best <= n_kept else None
        cut._forest, cut._device_forests = None, {}
        return cut

    def with_classes(self, classes: Sequence[Any] | npt.NDArray[Any]) -> Model:
        """The same forest with these labels behind its outputs."""
        named = self._copy()
        named.classes, named.classes_dtype = _plain_classes(classes, None)
        _check_classes(named)
        return named

    def to_bytes(self) -> bytes:
        """The model file's content: the same bytes for the same model, on every machine."""
        return model_file.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Model:
        """The model in these bytes; ModelFormatError if they are not wholly sound."""
        return model_file.decode(data)

    def digest(self) -> str:
        """The sha256 of `to_bytes()`, in hexadecimal."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def save(self, path: PathLike) -> None:
        """Write the model file. An existing one is replaced at once, or left alone on failure."""
        write_atomically(path, self.to_bytes())

    def __getstate__(self) -> dict[str, bytes]:
        return {"model_file": self.to_bytes()}

    def __setstate__(self, state: dict[str, bytes]) -> None:
        self.__dict__.update(model_file.decode(state["model_file"]).__dict__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        return self is other or self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        n_leaves = sum(tree.n_leaves for tree in self.trees)
        parts = [
            f"{self.n_iterations} iterations",
            f"{len(self.trees)} trees",
            f"{n_leaves} leaves",
            f"{self.n_features} features",
        ]
        if self.n_classes == self.n_outputs:
            parts.append(f"{self.n_outputs} classes")
        if self.best_iteration is not None:
            parts.append(f"best iteration {self.best_iteration}")
        return f"<bitgrove.Model {self.objective}: {', '.join(parts)}>"

    def _copy(self) -> Model:
        """A shallow one, whose fields the caller changes; copy.copy would go through the file."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def _predicted(
        self,
        link: Link,
        X: Any,
        num_iteration: int | None,
        n_jobs: int | None,
        device: str | None,
    ) -> Any:
        """Scores after the link; of the kind (CuPy or NumPy) that X is of."""
        gpu = choose_gpu(X, device)
        n_used = self._n_used(num_iteration)
        rows = rows_for_prediction(X, self.feature_names)
        if gpu is not None:
            found = self._device_forest(gpu).predict(rows, n_used * self.n_outputs, link)
            return found if self.n_outputs > 1 else found[:, 0]
        n_threads = _checked_n_jobs(n_jobs)
        return link.predictions(
            predict_scores(self.forest, rows, self.base_score, n_used, n_threads)
        )

    def _device_forest(self, gpu: str) -> Any:
        """The trees on a GPU, sent there once."""
        from bitgrove.backends.cuda.predict import DeviceForest

        if gpu not in self._device_forests:
            self._device_forests[gpu] = DeviceForest(self.trees, self.base_score, gpu)
        return self._device_forests[gpu]

    def _n_used(self, num_iteration: int | None) -> int:
        if num_iteration is None:
            return self.n_iterations if self.best_iteration is None else self.best_iteration
        n_used = _as_int("num_iteration", num_iteration)
        if not 0 <= n_used <= self.n_iterations:
            raise ParameterError(
                f"num_iteration={num_iteration!r}: the model has {self.n_iterations} iterations"
            )
        return n_used


def load(path: PathLike) -> Model:
    """Read a model file. It is data, never code; see docs/security.md for what is checked."""
    try:
        with open(path, "rb") as file:
            model_file.check_magic(file.read(len(model_file.MAGIC)))
            file.seek(0)
            return model_file.decode(file.read())
    except ModelFormatError as error:
        raise ModelFormatError(f"{os.fspath(path)}: {error}") from error


def _as_int(name: str, value: object) -> int:
    if isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name}={value!r}: an integer is needed")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ParameterError(f"{name}={value!r}: an integer is needed") from None


def _checked_n_jobs(n_jobs: int | None) -> int | None:
    if n_jobs is None:
        return None
    n_threads = _as_int("n_jobs", n_jobs)
    if n_threads != -1 and n_threads < 1:
        raise ParameterError(f"n_jobs={n_jobs!r}: allowed are None, -1 and integers >= 1")
    return n_threads


def _check_outputs(model: Model) -> None:
    if model.objective not in OBJECTIVES:
        raise ModelFormatError(f"objective {reprlib.repr(model.objective)} is unknown")
    if model.base_score.ndim != 1:
        raise ModelFormatError("base_score must have one dimension")
    n_outputs, n_trees = model.n_outputs, len(model.trees)
    if not OBJECTIVES[model.objective].allows_outputs(n_outputs):
        raise ModelFormatError(f"objective {model.objective!r} with {n_outputs} outputs")
    if n_trees % n_outputs:
        raise ModelFormatError(f"{n_trees} trees cannot be shared by {n_outputs} outputs")
    best = model.best_iteration
    if best is not None and not 1 <= best <= model.n_iterations:
        raise ModelFormatError(f"best_iteration {best} is not in 1..{model.n_iterations}")


def _check_names_and_params(model: Model) -> None:
    if not model.feature_names:
        raise ModelFormatError("there are no features")
    if not all(type(name) is str for name in model.feature_names):
        raise ModelFormatError("a feature name is not a string")
    if len(set(model.feature_names)) != model.n_features:
        raise ModelFormatError("the feature names are not unique")
    for name, value in model.params.items():
        label = reprlib.repr(name)
        if type(name) is not str:
            raise ModelFormatError(f"the parameter name {label} is not a string")
        for item in value if isinstance(value, list) else [value]:
            if item is not None and type(item) not in (bool, int, float, str):
                raise ModelFormatError(f"parameter {label} holds a {type(item).__name__}")
            if type(item) is float and not math.isfinite(item):
                raise ModelFormatError(f"parameter {label} holds {item}")


def _own_objective(model: Model) -> Objective:
    try:
        return OBJECTIVES[model.objective].for_model(model.params, model.n_outputs)
    except ParameterError as error:
        raise ModelFormatError(str(error)) from None


def _check_classes(model: Model) -> None:
    if model.classes is not None and len(model.classes) != model.n_classes:
        raise ModelFormatError(
            f"{len(model.classes)} classes, expected {model.n_classes} for {model.objective!r}"
        )


def _plain_classes(
    classes: Sequence[Any] | npt.NDArray[Any] | None, dtype: str | None
) -> tuple[list[Any] | None, str | None]:
    """Labels as plain Python values of one type, and a dtype that gives back the same values."""
    if classes is None:
        if dtype is not None:
            raise ModelFormatError("classes_dtype without classes")
        return None, None
    if dtype is None:
        given = np.asarray(classes)
        values, dtype = given.tolist(), _class_dtype(given.dtype)
        is_same = given.ndim == 1 and values == list(classes)  # NumPy turns ["a", 1] into strings
    else:
        values, is_same = list(classes), True
    kinds = {type(label) for label in values}
    if not is_same or len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        raise ModelFormatError("classes must all be strings, all integers, all floats or all bools")
    if dtype not in _CLASS_DTYPES:
        raise ModelFormatError(f"classes_dtype {reprlib.repr(dtype)} is unknown")
    if len(set(values)) != len(values):
        raise ModelFormatError("the classes are not unique")
    if str in kinds and len(values) * max(map(len, values)) > _MAX_LABEL_CELLS:
        raise ModelFormatError("the class labels are too long")
    if not _survives(values, dtype):
        raise ModelFormatError(f"the classes cannot be held in classes_dtype {dtype!r}")
    return values, dtype


def _class_dtype(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "U":
        return "<U"
    if dtype.kind == "T":  # NumPy's variable-width strings, which older versions cannot read
        return "|O"
    return str(dtype.newbyteorder("<").str)


def _survives(values: list[Any], dtype: str) -> bool:
    try:
        with np.errstate(all="ignore"):
            back = np.array(values, dtype=dtype).tolist()
    except (ValueError, TypeError, OverflowError):
        return False
    return back == values and [type(label) for label in back] == [type(label) for label in values]
