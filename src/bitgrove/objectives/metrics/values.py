"""Metrics of predicted values: means over rows, and R²."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bitgrove.arithmetic.exact_math import exact_exp, exact_log
from bitgrove.objectives.metrics.base import Metric, RowMetric, mean_of_outputs
from bitgrove.objectives.metrics.facts import F64, EvalData
from bitgrove.objectives.metrics.tally import Promise, Tally

if TYPE_CHECKING:
    from typing_extensions import Self

    from bitgrove.objectives.base import Objective

# Predictions below it count as it where a logarithm is taken, as in LightGBM.
_LEAST = 1e-10


class ValueMetric(RowMetric):
    judges = ("value", "score")


class Mse(ValueMetric):
    base_name = "mse"
    kernel = "squared"
    synonyms: ClassVar[tuple[str, ...]] = (
        "l2",
        "mean_squared_error",
        "regression",
        "regression_l2",
    )

    def term(self, prediction: F64, label: F64) -> F64:
        return np.square(prediction - label)


class Rmse(Mse):
    base_name = "rmse"
    synonyms: ClassVar[tuple[str, ...]] = ("l2_root", "root_mean_squared_error", "RMSE")

    def of_mean(self, mean: float) -> float:
        return math.sqrt(mean)


class Rmsle(Rmse):
    """Of logarithms of one more than the values, which must not be negative."""

    base_name = "rmsle"
    kernel = "squared_log"
    synonyms: ClassVar[tuple[str, ...]] = ()

    def term(self, prediction: F64, label: F64) -> F64:
        logs = [exact_log(1.0 + np.maximum(values, 0.0)) for values in (prediction, label)]
        return np.square(logs[0] - logs[1])


class Mae(ValueMetric):
    base_name = "mae"
    kernel = "absolute"
    synonyms = ("l1", "mean_absolute_error", "regression_l1", "MAE")

    def term(self, prediction: F64, label: F64) -> F64:
        return np.abs(prediction - label)


class MapeMetric(ValueMetric):
    """Relative to the label; to one, where the label is smaller."""

    base_name = "mape"
    kernel = "relative"
    synonyms = ("mean_absolute_percentage_error", "MAPE")

    def term(self, prediction: F64, label: F64) -> F64:
        return np.abs(prediction - label) / np.maximum(np.abs(label), 1.0)


class PoissonLikelihood(ValueMetric):
    """The negative log-likelihood without what depends on the label alone."""

    base_name = "poisson"
    kernel = "poisson"
    synonyms = ("poisson-nloglik", "Poisson")

    def term(self, prediction: F64, label: F64) -> F64:
        mean = np.maximum(prediction, _LEAST)
        return mean - label * exact_log(mean)


class GammaLikelihood(ValueMetric):
    base_name = "gamma"
    kernel = "gamma"
    synonyms = ("gamma-nloglik",)

    def term(self, prediction: F64, label: F64) -> F64:
        mean = np.maximum(prediction, _LEAST)
        return label / mean + exact_log(mean)


class PoissonDeviance(ValueMetric):
    base_name = "poisson_deviance"
    kernel = "poisson_deviance"

    def term(self, prediction: F64, label: F64) -> F64:
        mean = np.maximum(prediction, _LEAST)
        log = exact_log(np.where(label > 0.0, label, 1.0) / mean)
        return 2.0 * (np.where(label > 0.0, label * log, 0.0) - (label - mean))


class GammaDeviance(ValueMetric):
    base_name = "gamma_deviance"
    kernel = "gamma_deviance"
    synonyms = ("gamma-deviance",)

    def term(self, prediction: F64, label: F64) -> F64:
        ratio = np.maximum(label, _LEAST) / np.maximum(prediction, _LEAST)
        return 2.0 * ((ratio - 1.0) - exact_log(ratio))


@dataclass(frozen=True)
class SettingMetric(ValueMetric):
    """A loss with a setting: of the metric's name, or the objective's, or the usual one."""

    setting: ClassVar[str]  # as the objective calls it
    usual: ClassVar[float]
    above: ClassVar[float] = 0.0  # bounds of the setting, both open
    below: ClassVar[float] = math.inf

    values: tuple[float, ...] = ()  # one for all outputs, or one each; empty: the usual one
    written: str = ""  # the argument in the name

    @property
    def name(self) -> str:
        return f"{self.base_name}@{self.written}" if self.written else self.base_name

    @classmethod
    def with_argument(cls, text: str) -> Self:
        try:
            value = float(text)
        except ValueError:
            raise KeyError(text) from None
        if not cls.above < value < cls.below:
            raise KeyError(text)
        return cls((value,), text)

    def for_objective(self, objective: Objective) -> Metric:
        found = getattr(objective, self.setting, None)
        if self.values or found is None:
            return self
        return type(self)(tuple(np.ravel(found).tolist()))

    def settings(self, n_outputs: int) -> tuple[float, ...]:
        values = self.values or (self.usual,)
        return values * n_outputs if len(values) == 1 else values

    def terms(self, data: EvalData) -> F64:
        n_outputs = data.n_outputs
        values = self.settings(n_outputs)
        predictions = data.prediction.reshape(-1, n_outputs)
        return mean_of_outputs(
            [
                self.setting_term(predictions[:, k], data.label_of(k), values[k])
                for k in range(n_outputs)
            ]
        )

    def setting_term(self, prediction: F64, label: F64, value: float) -> F64:
        raise NotImplementedError


class Pinball(SettingMetric):
    """The quantile loss."""

    base_name = "quantile"
    kernel = "pinball"
    synonyms = ("pinball", "quantile_loss", "Quantile", "MultiQuantile")
    argument = "alpha"
    setting, usual, below = "quantile_alpha", 0.9, 1.0

    def setting_term(self, prediction: F64, label: F64, value: float) -> F64:
        gap = label - prediction
        return np.where(gap >= 0.0, value * gap, (value - 1.0) * gap)


class ExpectileMetric(SettingMetric):
    base_name = "expectile"
    synonyms = ("Expectile",)
    kernel = "expectile"
    argument = "alpha"
    setting, usual, below = "expectile_alpha", 0.9, 1.0

    def setting_term(self, prediction: F64, label: F64, value: float) -> F64:
        gap = prediction - label
        return np.where(gap >= 0.0, 1.0 - value, value) * np.square(gap)


class HuberMetric(SettingMetric):
    base_name = "huber"
    synonyms = ("Huber",)
    kernel = "huber"
    argument = "delta"
    setting, usual = "huber_delta", 0.9

    def setting_term(self, prediction: F64, label: F64, value: float) -> F64:
        size = np.abs(prediction - label)
        return np.where(size <= value, 0.5 * size * size, value * (size - 0.5 * value))


class FairMetric(SettingMetric):
    base_name = "fair"
    kernel = "fair"
    argument = "c"
    setting, usual = "fair_c", 1.0

    def setting_term(self, prediction: F64, label: F64, value: float) -> F64:
        ratio = np.abs(prediction - label) / value
        return (value * value) * (ratio - exact_log(1.0 + ratio))


class _TweediePower(SettingMetric):
    argument = "rho"
    argument_synonyms = ("variance_power",)
    setting, usual, above, below = "tweedie_variance_power", 1.5, 1.0, 2.0


class TweedieLikelihood(_TweediePower):
    """The negative log-likelihood without what depends on the label alone."""

    base_name = "tweedie"
    kernel = "tweedie"
    synonyms = ("tweedie-nloglik", "Tweedie")

    def setting_term(self, prediction: F64, label: F64, value: float) -> F64:
        log, first, second = exact_log(np.maximum(prediction, _LEAST)), 1.0 - value, 2.0 - value
        return exact_exp(second * log) / second - (label * exact_exp(first * log)) / first


class TweedieDeviance(_TweediePower):
    base_name = "tweedie_deviance"
    kernel = "tweedie_deviance"

    def setting_term(self, prediction: F64, label: F64, value: float) -> F64:
        log, first, second = exact_log(np.maximum(prediction, _LEAST)), 1.0 - value, 2.0 - value
        of_label = exact_exp(second * exact_log(np.maximum(label, _LEAST)))
        own = np.where(label > 0.0, of_label / (first * second), 0.0)
        away = (label * exact_exp(first * log)) / first
        return 2.0 * ((own - away) + exact_exp(second * log) / second)


class R2(Metric):
    """One minus the squared error over that of the mean label; the mean of several outputs."""

    base_name = "r2"
    synonyms = ("R2",)
    judges = ("value", "score")
    higher_is_better = True

    def judge(self, tally: Tally) -> Promise[float]:
        outputs = range(tally.n_outputs)
        errors = [tally.rows(Mse(), k) for k in outputs]
        spreads = [tally.facts.spread(k) for k in outputs]

        def value() -> float:
            parts = (_explained(e(), s) for e, s in zip(errors, spreads, strict=True))
            return sum(parts) / len(outputs)

        return value


def _explained(error: float, spread: float) -> float:
    if spread > 0.0:
        return 1.0 - error / spread
    return 1.0 if error == 0.0 else 0.0  # nothing to explain: as scikit-learn has it
