"""The trained model.

Owns: what a forest means (objective, outputs, classes, feature names), its predictions,
and its place on disk. Receives: trees from training, or bytes through file.py.
Returns: predictions as float64 arrays; bytes that are equal when the models are.
"""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitgrove.data.encoder import Encoder
from bitgrove.data.prediction_rows import rows_for_prediction
from bitgrove.data.tables import default_names
from bitgrove.distributed.comm import Comm, SoloComm
from bitgrove.errors import ModelFormatError, ParameterError
from bitgrove.machine.files import PathLike, write_atomically
from bitgrove.model import file as model_file
from bitgrove.model.checks import (
    check_classes,
    check_names_and_params,
    check_outputs,
    own_objective,
    plain_classes,
)
from bitgrove.model.explain.methods import Explains
from bitgrove.model.explain.values import make_shap_forest
from bitgrove.model.exporting import Exportable
from bitgrove.model.judged import GivenRows, dataset_of
from bitgrove.model.predict import (
    add_scores,
    as_int,
    checked_n_jobs,
    choose_gpu,
    predict_leaves,
    predict_scores,
)
from bitgrove.model.refit import refitted_trees
from bitgrove.model.spellings import OtherNames, in_our_words
from bitgrove.model.tree import Tree, make_forest
from bitgrove.objectives.links import IDENTITY, Link
from bitgrove.params import complete_params
from bitgrove.provenance.record import TrainingRecord
from bitgrove.report import Reported

if TYPE_CHECKING:
    from bitgrove.training.booster import TrainInfo


class Model(Explains, Exportable, OtherNames, Reported):
    """A forest and all that is needed to predict with it; made by `train` and by `load`.

    `trees[iteration * n_outputs + output]` adds to one output; `base_score` is where each starts.
    `classes` are the labels behind the outputs, `classes_dtype` the NumPy dtype they came in.
    `params` are all that shape the model; those not given have their defaults.
    `best_iteration` is set by early stopping: predictions use that many iterations.
    `encoder` knows the levels of categories, None without categories.
    `record` says what it was trained on (docs/verification.md), if that is known; `info` what
    training measured, which is not part of the file.
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
        encoder: Encoder | None = None,
        record: TrainingRecord | None = None,
        info: TrainInfo | None = None,
    ) -> None:
        self.objective = objective
        self.trees = list(trees)
        self.base_score: npt.NDArray[np.float64] = np.array(base_score, np.float64, ndmin=1)
        self.feature_names = list(feature_names)
        self.params = complete_params(params)
        self.classes, self.classes_dtype = plain_classes(classes, classes_dtype)
        self.best_iteration = None if best_iteration is None else operator.index(best_iteration)
        self.encoder = encoder
        self.record = record
        self.info = info
        self._forest: Any = None
        self._shap_forest: Any = None
        self._device_forests: dict[str, Any] = {}
        check_outputs(self)
        check_names_and_params(self)
        self._objective = own_objective(self)
        check_classes(self)

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
    def n_columns(self) -> int:
        """Columns that the trees see: more than features where a category has statistics."""
        return self.n_features if self.encoder is None else self.encoder.n_columns

    @property
    def n_iterations(self) -> int:
        """Boosting rounds; each has one tree per output."""
        return len(self.trees) // self.n_outputs

    @property
    def forest(self) -> Any:
        """All trees in flat arrays, made once."""
        if self._forest is None:
            self._forest = make_forest(self.trees, self.n_columns)
        return self._forest

    @property
    def shap_forest(self) -> Any:
        """All trees as explanations walk them, made once."""
        if self._shap_forest is None:
            self._shap_forest = make_shap_forest(self)
        return self._shap_forest

    def class_labels(self) -> npt.NDArray[Any] | None:
        """The classes as the array they were given as."""
        if self.classes is None:
            return None
        return np.array(self.classes, dtype=self.classes_dtype)

    @property
    def has_names(self) -> bool:
        """Whether the training table named its features."""
        return self.feature_names != default_names(self.n_features)

    @in_our_words
    def predict(
        self,
        X: Any,
        *,
        raw_score: bool = False,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        pred_interactions: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> npt.NDArray[Any]:
        """Predictions: (n_rows,) probabilities of the second class for binary, values for
        regression, scores for lambdarank; (n_rows, n_classes) probabilities for multiclass.

        X is a table, or a Dataset. `raw_score` leaves out the link function, `pred_leaf` gives
        leaves as `predict_leaf` does, `pred_contrib` and `pred_interactions` what features add to
        the raw score (`predict_contrib`, `predict_interactions`). `num_iteration` limits the
        boosting rounds used, counted from `start_iteration` (0: the base score alone; None: all, or
        up to the best iteration; -1: all). The base score is always part of it. `n_jobs` is the
        number of threads (None or -1: all cores, -2: all but one). `device` is "cpu", "cuda",
        "cuda:1" or "auto" (a GPU, if there is one and enough to do); None is where the rows of X
        are, but after a training on a GPU many host rows go there. Rows on a GPU give a CuPy array;
        the bits are the same everywhere.
        """
        if pred_leaf or pred_contrib or pred_interactions:
            asked = {"pred_leaf": pred_leaf, "pred_contrib": pred_contrib,
                     "pred_interactions": pred_interactions}  # fmt: skip
            answer = self._answer_for([name for name, wanted in asked.items() if wanted])
            return answer(X, start_iteration=start_iteration, num_iteration=num_iteration,
                          n_jobs=n_jobs, device=device)  # fmt: skip
        link = IDENTITY if raw_score else self._objective.link
        if start_iteration == 0:  # a single row should not wait for more than this
            return self._predicted(link, X, self._n_used(num_iteration), n_jobs, device)
        part, n_used = self._part(start_iteration, num_iteration)
        return part._predicted(link, X, n_used, n_jobs, device)

    def predict_raw(self, X: Any, **how: Any) -> npt.NDArray[np.float64]:
        """Scores before any link function: (n_rows,), or (n_rows, n_outputs) if multiclass.

        The arguments are those of `predict`."""
        return self.predict(X, raw_score=True, **how)

    def predict_leaf(
        self,
        X: Any,
        *,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> npt.NDArray[np.int32]:
        """The index of the leaf that each row reaches in each tree: (n_rows, n_trees)."""
        part, n_used = self._part(start_iteration, num_iteration)
        n_trees = n_used * self.n_outputs
        gpu = choose_gpu(X, device, self._trained_on, n_trees)
        on_gpu = gpu is not None
        rows = rows_for_prediction(X, self.feature_names, self.encoder, dense=on_gpu)
        if gpu is not None:
            found: npt.NDArray[np.int32] = part._device_forest(gpu).leaves(rows, n_trees)
            return found
        return predict_leaves(part.forest, rows, checked_n_jobs(n_jobs))[:, :n_trees]

    def staged_predict(
        self, X: Any, *, raw_score: bool = False, n_jobs: int | None = None
    ) -> Iterator[npt.NDArray[np.float64]]:
        """What `predict` says after each iteration, up to the best one; on the CPU."""
        rows = rows_for_prediction(X, self.feature_names, self.encoder)
        n_threads = checked_n_jobs(n_jobs)
        link = IDENTITY if raw_score else self._objective.link
        scores = predict_scores(self.forest, rows, self.base_score, 0, n_threads)
        for iteration in range(self._n_used(None)):
            part = self[iteration : iteration + 1]
            add_scores(part.forest, rows, scores, self.n_outputs, n_threads)
            yield link.predictions(scores.copy())

    def __getitem__(self, iterations: slice) -> Model:
        """The model of some iterations: `model[10:20]`. The base score stays what it was."""
        if not isinstance(iterations, slice) or iterations.step not in (None, 1):
            raise ParameterError(f"model[{iterations!r}]: neighbouring iterations, as in [0:10]")
        start, stop, _ = iterations.indices(self.n_iterations)
        self._check_parts(stop - start, "a slice")
        part = self._copy()
        part.trees = self.trees[start * self.n_outputs : max(start, stop) * self.n_outputs]
        part.best_iteration = part.record = None  # no training ends with it
        part._forest = part._shap_forest = None
        part._device_forests = {}
        return part

    def truncate(self, num_iteration: int | None = None) -> Model:
        """A model of the first iterations only (None: up to the best one)."""
        n_kept, best = self._n_used(num_iteration), self.best_iteration
        cut = self[:n_kept]
        cut.best_iteration = best if best is not None and best <= n_kept else None
        return cut

    def refit(
        self,
        X: Any,
        label: Any = None,
        *,
        decay_rate: float = 0.9,
        weight: Any = None,
        group: Any = None,
        qid: Any = None,
        init_score: Any = None,
        comm: Comm | None = None,
    ) -> Model:
        """The same splits with leaf values for new rows, of which X is the table or a Dataset.

        A leaf keeps `decay_rate` of its old value and takes the rest from the new rows; one that
        they do not reach stays as it is. `init_score` holds a score for each row (and output) that
        the trees add to, as in training. With a Comm, the rows are this rank's.
        """
        dataset = dataset_of(self, GivenRows(X, label, weight, group, qid, init_score))
        fitted = self[:]
        fitted.best_iteration = self.best_iteration
        fitted.trees = refitted_trees(self, dataset, decay_rate, comm or SoloComm())
        return fitted

    def with_classes(self, classes: Sequence[Any] | npt.NDArray[Any]) -> Model:
        """The same forest with these labels behind its outputs."""
        named = self._copy()
        named.classes, named.classes_dtype = plain_classes(classes, None)
        check_classes(named)
        return named

    def to_bytes(self) -> bytes:
        """The model file's content: the same bytes for the same model, on every machine."""
        return model_file.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Model:
        """The model in these bytes; ModelFormatError if they are not wholly sound."""
        return model_file.decode(data)

    def digest(self) -> str:
        """The sha256 of the file without its record, in hexadecimal."""
        return hashlib.sha256(model_file.encode(self, with_record=False)).hexdigest()

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
        return self is other or self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        n_leaves = sum(tree.n_leaves for tree in self.trees)
        parts = [f"{self.n_iterations} iterations", f"{len(self.trees)} trees",
                 f"{n_leaves} leaves", f"{self.n_features} features"]  # fmt: skip
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

    def _part(self, start: int, num_iteration: int | None) -> tuple[Model, int]:
        """The model from an iteration on, and how many of its iterations are used."""
        first = as_int("start_iteration", start)
        if first == 0:
            return self, self._n_used(num_iteration)
        if not 0 <= first <= self.n_iterations:
            raise ParameterError(
                f"start_iteration={start!r}: the model has {self.n_iterations} iterations"
            )
        last = self._n_used(None) if num_iteration is None else self.n_iterations
        part = self[first : max(first, last)]
        return part, part._n_used(num_iteration)

    def _predicted(
        self, link: Link, X: Any, n_used: int, n_jobs: int | None, device: str | None
    ) -> Any:
        """Scores after the link; of the kind (CuPy or NumPy) that X is of."""
        gpu = choose_gpu(X, device, self._trained_on, n_used * self.n_outputs)
        on_gpu = gpu is not None
        rows = rows_for_prediction(X, self.feature_names, self.encoder, dense=on_gpu)
        if gpu is not None:
            found = self._device_forest(gpu).predict(rows, n_used * self.n_outputs, link)
            return found if self.n_outputs > 1 else found[:, 0]
        n_threads = checked_n_jobs(n_jobs)
        return link.predictions(
            predict_scores(self.forest, rows, self.base_score, n_used, n_threads)
        )

    @property
    def _trained_on(self) -> str:
        return "cpu" if self.info is None else self.info.device

    def _device_forest(self, gpu: str) -> Any:
        """The trees on a GPU, sent there once."""
        from bitgrove.backends.cuda.forest.predict import DeviceForest

        if gpu not in self._device_forests:
            self._device_forests[gpu] = DeviceForest(self.trees, self.base_score, gpu)
        return self._device_forests[gpu]

    def _check_parts(self, n_iterations: int, asked: str) -> None:
        """The trees of a forest hold their share of a mean over all of them."""
        if self.params["boosting_type"] == "rf" and 0 < n_iterations < self.n_iterations:
            raise ParameterError(f"{asked}: a forest (boosting_type='rf') has no parts")

    def _n_used(self, num_iteration: int | None) -> int:
        if num_iteration is None:
            return self.n_iterations if self.best_iteration is None else self.best_iteration
        n_used = as_int("num_iteration", num_iteration)
        if n_used == -1:
            return self.n_iterations
        self._check_parts(n_used, f"num_iteration={num_iteration!r}")
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
