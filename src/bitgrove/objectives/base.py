"""What an objective is, and the registry of all of them.

Owns Objective, OBJECTIVES (by name) and SYNONYMS (other spellings). Receives labels, weights and
query sizes of this rank and a Comm; returns what training asks for. Nothing else in the library
asks for an objective's name: it asks the objective.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import numpy_to_gradient
from bitgrove.arithmetic.fixed_point import fixed_point_sums
from bitgrove.errors import DataError, ParameterError
from bitgrove.objectives.links import IDENTITY, Link
from bitgrove.objectives.written import check_settings_of, name_and_settings

if TYPE_CHECKING:
    from typing_extensions import Self

    from bitgrove.data.dataset import Dataset
    from bitgrove.distributed.comm import Comm
    from bitgrove.params import TrainParams

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Tables = tuple[Any, ...]
# How a kernel goes through the rows: one by one and output by output; one by one over all outputs;
# query by query, in pairs or all at once; or not at all: a function of the user does it.
Family = Literal["elementwise", "softmax", "ranked", "listwise", "given"]
# What a prediction is; a metric says which of these it can judge.
Prediction = Literal["probability", "value", "class probabilities", "ranking score", "score"]


@dataclass(frozen=True)
class Objective:
    """The life of an objective, in the order in which training asks:

    1. `check_settings`, `check_labels`: the parameters it owns and the labels it can learn from.
       `check_valid_labels` does it for a validation set.
    2. `for_labels`: the objective with as many outputs as these labels need; `n_outputs` scores
       per row, one tree each in every iteration.
    3. `row_weights`: the weights of the loss, where classes have weights too.
    4. `base_scores`: the best constant score of each output, where training starts; `penalty`:
       the reg_lambda of its leaves, where the user gives none.
    5. `output_labels`, `tables`: what the scores of each output are compared with, and arrays that
       the gradients need besides labels and weights, made once.
    6. In every iteration `at`, where the loss draws numbers, and `gradients`: first and second
       derivative of the loss, in plain NumPy. This is the oracle; fast backends run the struct
       named `kernel`, with `kernel_parameters`, from kernels/shared/ instead and must return the
       same bits. An elementwise objective of several outputs is one objective for each: `output`.
    7. `leaf_level`: whether leaves are Newton steps or quantiles of their rows' residuals.
    8. `link`: from scores to predictions, in training, in the model and on a GPU.
    9. `default_metric` judges the predictions where the user names no metric.

    A subclass is a frozen dataclass. Its fields are the parameters it owns (except those that are
    kw_only): a parameter that some objectives own is refused with all others. `spellings` are
    names that mean one of them here, whatever they mean elsewhere.
    """

    name: ClassVar[str]
    synonyms: ClassVar[tuple[str, ...]] = ()
    family: ClassVar[Family]
    kernel: ClassVar[str]
    # Names that stand for values of its parameters, too, where another library has other defaults.
    shorthands: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    spellings: ClassVar[Mapping[str, str]] = {}
    default_metric: ClassVar[str | None]
    predicts: ClassVar[Prediction]
    is_classifier: ClassVar[bool] = False
    needs_queries: ClassVar[bool] = False
    # It draws numbers, by the ids of rows: so that no device and no number of ranks changes them.
    needs_row_ids: ClassVar[bool] = False
    # The second derivative is one for every row: without weights the count is the hessian.
    unit_hessian: ClassVar[bool] = False
    # A label may have several columns, each learnt by an output of its own.
    takes_columns: ClassVar[bool] = False
    # What other libraries call it; those that are not here know its link alone.
    peers: ClassVar[Mapping[str, str]] = {}

    n_columns: int = field(default=1, kw_only=True)  # of the label; not a parameter

    @classmethod
    @cache
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters it owns."""
        return tuple(f.name for f in fields(cls) if not f.kw_only)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """From parameters of any kind; those that others own are left out."""
        return cls(**{name: settings[name] for name in cls.parameters() if name in settings})

    @classmethod
    def for_model(cls, settings: Mapping[str, Any], n_outputs: int) -> Self:
        """The objective of a finished model; ParameterError if it cannot predict with a setting.

        Settings out of a file are of any type."""
        return replace(cls.from_settings(settings), n_columns=n_outputs)

    @classmethod
    def allows_outputs(cls, n_outputs: int) -> bool:
        return n_outputs == 1 or (cls.takes_columns and n_outputs > 1)

    @classmethod
    def class_settings(cls, n_classes: int) -> dict[str, Any]:
        """The parameters that tell it the number of classes."""
        return {}

    @property
    def n_outputs(self) -> int:
        return self.n_columns

    @property
    def n_joint(self) -> int:
        """Outputs that become one prediction together: the noise of all their trees adds up."""
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
    def leaf_level(self) -> float | None:
        """Leaves are this quantile of label - score over their rows; None: Newton steps."""
        return None

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        """Of each output, the share of labels that should lie below it; none: no such promise."""
        return ()

    @property
    def link(self) -> Link:
        return IDENTITY

    def output(self, k: int) -> Objective:
        """The loss of one output alone, where outputs have their own."""
        return self

    def check_settings(self) -> None:
        """ParameterError where a parameter it owns cannot be used."""

    def check_labels(self, label: F64) -> None:
        """DataError where a label of the training set cannot be learnt from."""

    def check_valid_labels(self, set_name: str, label: F64) -> None:
        """DataError where a label of a validation set is none that the training could have had."""
        top = self.top_label
        if top is not None and ((label < 0) | (label > top) | (label != np.floor(label))).any():
            raise DataError(f"validation set {set_name!r}: labels must be whole numbers 0 to {top}")
        if _n_columns(label) != self.n_columns:
            raise DataError(
                f"validation set {set_name!r}: the label has {_n_columns(label)} columns, "
                f"that of the training set {self.n_columns}"
            )
        try:
            self.check_labels(label)
        except DataError as error:
            raise DataError(f"validation set {set_name!r}: {error}") from None

    def require_labels(self, ok: NDArray[np.bool_], label: F64, needed: str) -> None:
        """DataError that names the first label that is not ok, and what is needed."""
        if not ok.all():
            raise DataError(
                f"label: objective {self.name!r} needs {needed}, got {label[~ok].flat[0]:g}"
            )

    def for_labels(self, label: F64, comm: Comm) -> Objective:
        n_columns = _n_columns(label)
        if n_columns > 1 and not self.takes_columns:
            raise DataError(f"label: has {n_columns} columns; objective {self.name!r} takes one")
        return replace(self, n_columns=n_columns)

    def row_weights(self, label: F64, weight: F32 | None) -> F32 | None:
        return weight

    def base_scores(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        """(n_outputs,), from order-free sums over all ranks."""
        labels = self.output_labels(label)
        return np.concatenate(
            [
                self.output(k).base_score(labels if labels.ndim == 1 else labels[k], weight, comm)
                for k in range(self.n_outputs)
            ]
        )

    def base_score(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        """The best constant score of one output, (1,)."""
        return np.zeros(1)

    def penalty(self, label: F64, weight: F32 | None, comm: Comm) -> float:
        """reg_lambda where nobody gives it."""
        return 0.0

    def output_labels(self, label: F64) -> F64:
        """(n_rows,) for all outputs, or (n_outputs, n_rows)."""
        return label if label.ndim == 1 else np.ascontiguousarray(label.T)

    def tables(self, label: F64, group: I64 | None, row_ids: U64 | None = None) -> Tables:
        """Host arrays, in the order in which the kernel takes them."""
        return ()

    def at(self, iteration: int, seed: int) -> Objective:
        """Itself in one iteration, where the loss draws numbers."""
        return self

    def constant_hessian(self, weight: Any) -> bool:
        """The count is the hessian: nothing to quantize."""
        return self.unit_hessian and weight is None

    def gradients(
        self, scores: F64, label: F64, weight: F32 | None, tables: Tables
    ) -> tuple[F32, F32 | None]:
        """grad and hess, (n_outputs, n_rows); hess is None where it is constant one.

        label: as output_labels has it.
        """
        w = 1.0 if weight is None else weight.astype(np.float64)
        with np.errstate(over="ignore"):  # what is not finite is found by its bits
            grad, hess = self._all_derivatives(scores, label, tables)
            weighted = grad * w, hess * w
        constant = self.constant_hessian(weight)
        return numpy_to_gradient(weighted[0]), None if constant else numpy_to_gradient(weighted[1])

    def _all_derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        if self.family != "elementwise":
            return self.derivatives(scores, label, tables)
        labels = np.broadcast_to(label, scores.shape)
        pairs = [
            self.output(k).derivatives(scores[k], labels[k], tables) for k in range(len(scores))
        ]
        grad, hess = (np.stack(side) for side in zip(*pairs, strict=True))
        return grad, hess

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        """First and second derivative for each score, before weights.

        Elementwise: of one output, (n_rows,). Otherwise of all, (n_outputs, n_rows).
        """
        raise NotImplementedError


OBJECTIVES: dict[str, type[Objective]] = {}
SYNONYMS: dict[str, str] = {}
AnyObjective = TypeVar("AnyObjective", bound=type[Objective])


def register(objective: AnyObjective) -> AnyObjective:
    """Makes an objective known to parameters, training, models and documentation."""
    others = (*objective.synonyms, *objective.shorthands)
    taken = [n for n in (objective.name, *others) if n in OBJECTIVES or n in SYNONYMS]
    if taken:
        raise ValueError(f"objective {objective.name!r}: {taken[0]!r} is taken")
    OBJECTIVES[objective.name] = objective
    SYNONYMS.update(dict.fromkeys(others, objective.name))
    return objective


def objective_of(text: str) -> type[Objective] | None:
    """The objective that is meant by a name, a synonym or a name with settings."""
    name, _ = name_and_settings(text)
    return OBJECTIVES.get(SYNONYMS.get(name, name))


def written_out(text: str) -> Mapping[str, object]:
    """What a shorthand or a name with settings stands for, by parameter; nothing for others."""
    objective, (name, settings) = objective_of(text), name_and_settings(text)
    if objective is None or not (settings or name in objective.shorthands):
        return {}
    found = {"objective": objective.name, **objective.shorthands.get(name, {})}
    known = [*objective.spellings, *objective.parameters()]
    check_settings_of(f"objective={text!r}", objective.name, settings, known)
    for written, value in settings.items():
        found[objective.spellings.get(written, written)] = _numbers(value)
    return found


def _numbers(text: str) -> object:
    """A number, or a list of them; other text as it is, which no parameter takes."""
    try:
        numbers = [int(word) if word.strip().isdigit() else float(word) for word in text.split(",")]
    except ValueError:
        return text
    return numbers if len(numbers) > 1 else numbers[0]


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


def with_penalty(
    params: TrainParams, objective: Objective, label: F64, weight: F32 | None, comm: Comm
) -> TrainParams:
    """With a reg_lambda: the objective's own where nobody gives one."""
    if params.reg_lambda is not None:
        return params
    return replace(params, reg_lambda=objective.penalty(label, weight, comm))


def _n_columns(label: F64) -> int:
    return 1 if label.ndim == 1 else label.shape[1]


def check_sigmoid(sigmoid: float) -> None:
    """Keeps products of the slope within float32 and hessians positive."""
    if not 1e-6 <= sigmoid <= 1e6:
        raise ParameterError(f"sigmoid={sigmoid!r}: must lie between 1e-6 and 1e6")


def check_level(name: str, level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ParameterError(f"{name}={level!r}: must be greater than 0 and less than 1")


def label_mean(label: F64, weight: F32 | None, comm: Comm) -> F64:
    """The weighted mean of the labels of all ranks, (1,)."""
    if weight is not None:
        weights = weight.astype(np.float64)
        total, of_weights = fixed_point_sums([label * weights, weights], comm)
        return np.array([total / of_weights])
    n_rows = comm.allreduce_sum(np.array([len(label)], dtype=np.int64))
    return np.asarray(fixed_point_sums([label], comm) / n_rows)
