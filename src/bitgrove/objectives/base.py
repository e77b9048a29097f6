"""What an objective is, and the registry of all of them.

Owns Objective, OBJECTIVES (by name) and SYNONYMS (other spellings). Receives labels, weights and
query sizes of this rank and a Comm; returns what training asks for. Nothing else in the library
asks for an objective's name: it asks the objective.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import numpy_to_gradient
from bitgrove.arithmetic.fixed_point import fixed_point_sums
from bitgrove.errors import DataError, ParameterError
from bitgrove.objectives.links import IDENTITY, Link

if TYPE_CHECKING:
    from typing_extensions import Self

    from bitgrove.data.dataset import Dataset
    from bitgrove.distributed.comm import Comm
    from bitgrove.params import TrainParams

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Tables = tuple[Any, ...]
# How a kernel goes through the rows: one by one; one by one over all outputs; query by query.
Family = Literal["elementwise", "softmax", "ranked"]
# What a prediction is; a metric says which of these it can judge.
Prediction = Literal["probability", "value", "class probabilities", "ranking score"]


class Objective:
    """The life of an objective, in the order in which training asks:

    1. `check_settings`, `check_labels`: the parameters it owns and the labels it can learn from.
       `check_valid_labels` does it for a validation set.
    2. `for_labels`: the objective with as many outputs as these labels need; `n_outputs` scores
       per row, one tree each in every iteration.
    3. `row_weights`: the weights of the loss, where classes have weights too.
    4. `base_scores`: the best constant score of each output, where training starts.
    5. `tables`: arrays that the gradients need besides labels and weights, made once.
    6. In every iteration `gradients`: first and second derivative of the loss, in plain NumPy.
       This is the oracle; fast backends run the struct named `kernel`, with `kernel_parameters`,
       from kernels/shared/ instead and must return the same bits.
    7. `link`: from scores to predictions, in training, in the model and on a GPU.
    8. `default_metric` judges the predictions where the user names no metric.

    A subclass is a frozen dataclass. Its fields are the parameters it owns: a parameter that some
    objectives own is refused with all others.
    """

    name: ClassVar[str]
    synonyms: ClassVar[tuple[str, ...]] = ()
    family: ClassVar[Family]
    kernel: ClassVar[str]
    default_metric: ClassVar[str]
    predicts: ClassVar[Prediction]
    is_classifier: ClassVar[bool] = False
    needs_queries: ClassVar[bool] = False
    # The second derivative is one for every row: without weights the count is the hessian.
    unit_hessian: ClassVar[bool] = False

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters it owns."""
        return tuple(f.name for f in fields(cls))  # type: ignore[arg-type]

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """From parameters of any kind; those that others own are left out."""
        return cls(**{name: settings[name] for name in cls.parameters() if name in settings})

    @classmethod
    def for_model(cls, settings: Mapping[str, Any], n_outputs: int) -> Self:
        """The objective of a finished model; ParameterError if it cannot predict with a setting.

        Settings out of a file are of any type."""
        return cls.from_settings(settings)

    @classmethod
    def allows_outputs(cls, n_outputs: int) -> bool:
        return n_outputs == 1

    @classmethod
    def class_settings(cls, n_classes: int) -> dict[str, Any]:
        """The parameters that tell it the number of classes."""
        return {}

    @property
    def n_outputs(self) -> int:
        return 1

    @property
    def n_classes(self) -> int | None:
        """0 if it knows no classes; None if the labels are to say how many."""
        return 0

    @property
    def promised_classes(self) -> range | None:
        """The labels that the settings announce; None where only the labels tell."""
        return None

    @property
    def top_label(self) -> int | None:
        """Labels are whole numbers from 0 to this one; None: any number is a label."""
        return None

    @property
    def gains(self) -> F64:
        """The gain of each grade, for metrics of ranking; empty where labels are no grades."""
        return np.zeros(0)

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        """What the kernel's struct reads as parameters[0], parameters[1], ..."""
        return ()

    @property
    def link(self) -> Link:
        return IDENTITY

    def check_settings(self) -> None:
        """ParameterError where a parameter it owns cannot be used."""

    def check_labels(self, label: F64) -> None:
        """DataError where a label of the training set cannot be learnt from."""

    def check_valid_labels(self, set_name: str, label: F64) -> None:
        top = self.top_label
        if top is not None and ((label < 0) | (label > top) | (label != np.floor(label))).any():
            raise DataError(f"validation set {set_name!r}: labels must be whole numbers 0 to {top}")

    def for_labels(self, label: F64, comm: Comm) -> Objective:
        return self

    def row_weights(self, label: F64, weight: F32 | None) -> F32 | None:
        return weight

    def base_scores(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        """(n_outputs,), from order-free sums over all ranks."""
        return np.zeros(self.n_outputs)

    def tables(self, label: F64, group: I64 | None) -> Tables:
        """Host arrays, in the order in which the kernel takes them."""
        return ()

    def constant_hessian(self, weight: Any) -> bool:
        """The count is the hessian: nothing to quantize."""
        return self.unit_hessian and weight is None

    def gradients(
        self, scores: F64, label: F64, weight: F32 | None, tables: Tables
    ) -> tuple[F32, F32 | None]:
        """grad and hess, (n_outputs, n_rows); hess is None where it is constant one."""
        grad, hess = self.derivatives(scores, label, tables)
        w = 1.0 if weight is None else weight.astype(np.float64)
        constant = self.constant_hessian(weight)
        return numpy_to_gradient(grad * w), None if constant else numpy_to_gradient(hess * w)

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        """First and second derivative for each score, before weights."""
        raise NotImplementedError

    def losses(self, scores: F64, label: F64) -> F64:
        """The loss of each row (where it has one of its own), whose derivative is checked."""
        raise NotImplementedError


OBJECTIVES: dict[str, type[Objective]] = {}
SYNONYMS: dict[str, str] = {}
AnyObjective = TypeVar("AnyObjective", bound=type[Objective])


def register(objective: AnyObjective) -> AnyObjective:
    """Makes an objective known to parameters, training, models and documentation."""
    spellings = (objective.name, *objective.synonyms)
    taken = [name for name in spellings if name in OBJECTIVES or name in SYNONYMS]
    if taken:
        raise ValueError(f"objective {objective.name!r}: {taken[0]!r} is taken")
    OBJECTIVES[objective.name] = objective
    SYNONYMS.update(dict.fromkeys(objective.synonyms, objective.name))
    return objective


def owners(parameter: str) -> tuple[str, ...]:
    """Objectives where a value other than the default has a meaning; all, if none owns it."""
    owning = tuple(n for n, objective in OBJECTIVES.items() if parameter in objective.parameters())
    return owning or tuple(OBJECTIVES)


def make_objective(params: TrainParams, train_set: Dataset, comm: Comm) -> Objective:
    """The objective of a training, its parameters and labels checked."""
    if params.objective is None:
        names = ", ".join(map(repr, OBJECTIVES))
        raise ParameterError(f"objective: must be given; one of {names}")
    if train_set.label is None:
        raise DataError("label: the training Dataset has none")
    objective = OBJECTIVES[params.objective].from_settings(vars(params))
    objective.check_settings()
    objective.check_labels(train_set.label)
    if objective.needs_queries and train_set.group is None:
        raise DataError(f"group: {objective.name} needs the number of rows of each query")
    return objective.for_labels(train_set.label, comm)


def check_sigmoid(sigmoid: float) -> None:
    """Keeps products of the slope within float32 and hessians positive."""
    if not 1e-6 <= sigmoid <= 1e6:
        raise ParameterError(f"sigmoid={sigmoid!r}: must lie between 1e-6 and 1e6")


def label_mean(label: F64, weight: F32 | None, comm: Comm) -> F64:
    """The weighted mean of the labels of all ranks, (1,)."""
    if weight is not None:
        weights = weight.astype(np.float64)
        total, of_weights = fixed_point_sums([label * weights, weights], comm)
        return np.array([total / of_weights])
    n_rows = comm.allreduce_sum(np.array([len(label)], dtype=np.int64))
    return np.asarray(fixed_point_sums([label], comm) / n_rows)
