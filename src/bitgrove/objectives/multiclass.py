"""Many classes, one output each: softmax and the cross entropy, or each class against the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bitgrove.arithmetic.exact_math import exact_log, numpy_exp
from bitgrove.arithmetic.fixed_point import fixed_point_sums
from bitgrove.errors import DataError, ParameterError, everywhere
from bitgrove.objectives.base import F32, F64, Objective, Tables, check_sigmoid
from bitgrove.objectives.binary import Binary
from bitgrove.objectives.links import SOFTMAX, Link, OneVsAll

if TYPE_CHECKING:
    from typing_extensions import Self

    from bitgrove.distributed.comm import Comm

_MAX_CLASSES = 1 << 16


@dataclass(frozen=True)
class _Classes(Objective):
    """Labels 0, 1, 2, ...; `num_class` is None until the labels were counted."""

    default_metric = "multi_logloss"
    predicts = "class probabilities"
    is_classifier = True

    num_class: int | None = None

    @classmethod
    def allows_outputs(cls, n_outputs: int) -> bool:
        return n_outputs >= 2

    @classmethod
    def class_settings(cls, n_classes: int) -> dict[str, Any]:
        return {"num_class": n_classes}

    @property
    def n_outputs(self) -> int:
        assert self.num_class is not None, "for_labels counts the classes"
        return self.num_class

    @property
    def n_joint(self) -> int:
        """All: the probabilities of a row are scaled to one."""
        return self.n_outputs

    @property
    def n_classes(self) -> int | None:
        return self.num_class

    @property
    def promised_classes(self) -> range | None:
        return None if self.num_class is None else range(self.num_class)

    @property
    def top_label(self) -> int | None:
        return self.n_outputs - 1

    def check_settings(self) -> None:
        if (self.num_class or 0) > _MAX_CLASSES:
            raise ParameterError(
                f"num_class={self.num_class!r}: at most {_MAX_CLASSES} are possible"
            )

    def check_labels(self, label: F64) -> None:
        not_whole = (label < 0) | (label != np.floor(label))
        if not_whole.any():
            raise DataError(
                f"label: {self.name} needs whole labels 0, 1, 2, ..., got {label[not_whole][0]:g}"
            )

    def for_labels(self, label: F64, comm: Comm) -> Objective:
        super().for_labels(label, comm)
        seen = int(comm.allreduce_max(np.array([label.max(initial=0.0)]))[0]) + 1
        n_total = int(comm.allreduce_sum(np.array([len(label)], dtype=np.int64))[0])
        if self.num_class is None:
            if seen < 2:
                raise DataError(f"label: {self.name} needs at least 2 classes, all labels are 0")
            if seen > min(n_total, _MAX_CLASSES):
                raise DataError(
                    f"label: class {seen - 1} found among {n_total} rows; number the classes "
                    "0, 1, 2, ... or give num_class"
                )
            counts = np.bincount(label.astype(np.int64), minlength=seen)
            absent = np.flatnonzero(comm.allreduce_sum(counts) == 0)
            if len(absent):
                raise everywhere(
                    DataError,
                    f"label: class {absent[0]} does not occur, but class {seen - 1} does; number "
                    "the classes 0, 1, 2, ... or give num_class",
                )
            return replace(self, num_class=seen)
        if seen > self.num_class:
            raise DataError(f"label: class {seen - 1} found, but num_class is {self.num_class}")
        return self


@dataclass(frozen=True)
class Multiclass(_Classes):
    """Scores become probabilities together: softmax."""

    name = "multiclass"
    synonyms = ("softmax", "multi:softprob", "multi:softmax", "MultiClass")
    family = "softmax"
    kernel = "softmax"

    @classmethod
    def for_model(cls, settings: Mapping[str, Any], n_outputs: int) -> Self:
        return cls(n_outputs)

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self._curvature,)

    @property
    def _curvature(self) -> float:
        """A factor of the hessian that makes two classes equal to the logistic loss."""
        return self.n_outputs / (self.n_outputs - 1)

    @property
    def link(self) -> Link:
        return SOFTMAX

    def base_scores(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        if weight is None:
            counts = np.bincount(label.astype(np.int64), minlength=self.n_outputs)
            sums = comm.allreduce_sum(np.append(counts, len(label))).astype(np.float64)
        else:
            weights = weight.astype(np.float64)
            rows = [np.where(label == k, weights, 0.0) for k in range(self.n_outputs)]
            sums = fixed_point_sums([*rows, weights], comm)
        # A class that is absent gets a very small, not a zero, probability.
        return exact_log(np.clip(sums[:-1] / sums[-1], 1e-15, 1.0 - 1e-15))

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        powers = numpy_exp(scores - scores.max(axis=0))
        total = np.zeros_like(powers[0])
        for k in range(self.n_outputs):
            total = total + powers[k]
        p = powers / total
        is_class = label == np.arange(self.n_outputs)[:, None]
        return p - is_class, (self._curvature * p) * (1.0 - p)


@dataclass(frozen=True)
class MulticlassOva(_Classes):
    """Each class against all others by a logistic loss of its own."""

    name = "multiclassova"
    synonyms = ("multiclass_ova", "ova", "ovr", "MultiClassOneVsAll")
    family = "elementwise"
    kernel = "logistic"

    sigmoid: float = 1.0

    @classmethod
    def for_model(cls, settings: Mapping[str, Any], n_outputs: int) -> Self:
        sigmoid = Binary.for_model(settings, 1).sigmoid
        return cls(n_outputs, sigmoid)

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.sigmoid,)

    @property
    def link(self) -> Link:
        return OneVsAll(float(self.sigmoid))

    def check_settings(self) -> None:
        super().check_settings()
        check_sigmoid(self.sigmoid)

    def output(self, k: int) -> Objective:
        return Binary(sigmoid=self.sigmoid)

    def output_labels(self, label: F64) -> F64:
        return (label == np.arange(self.n_outputs)[:, None]).astype(np.float64)
