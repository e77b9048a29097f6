"""Pictures of training: metric curves, feature importance, accuracy against bits.

This room owns the drawing and nothing else. It receives a Model, an estimator
or plain records and returns matplotlib objects; it never calls show() and never
changes global matplotlib settings. matplotlib is imported when a picture is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from bitgrove.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinguishable for most colour-blind readers, and in grey.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_REFERENCE: dict[str, Any] = {"color": "#555555", "linestyle": "--", "linewidth": 1.2}


class BitsRow(Protocol):
    """One training run: gradient bits (None is full precision), test AUC, training seconds."""

    @property
    def bits(self) -> int | None: ...
    @property
    def auc(self) -> float: ...
    @property
    def seconds(self) -> float: ...


def plot_metric(source: Any, metric: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw a metric over the iterations, one line per validation set.

    Parameters
    ----------
    source : Model, fitted estimator, or dict
        A dict is an `evals_result`: {set: {metric: [value, ...]}}.
    metric : str, optional
        By default the first recorded one. The best iteration is marked.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from bitgrove.plotting import plot_metric
    >>> plot_metric({"valid": {"rmse": [3.0, 2.0, 1.5]}}).get_title()
    'rmse during training'
    """
    results, best = _evaluations(source)
    recorded = list(dict.fromkeys(name for curves in results.values() for name in curves))
    if not recorded:
        raise DataError("no metric was recorded: train with validation data")
    metric = recorded[0] if metric is None else metric
    if metric not in recorded:
        raise DataError(f"metric {metric!r} was not recorded; there is {', '.join(recorded)}")
    ax = _axes(ax)
    for index, (name, curves) in enumerate(results.items()):
        values = curves.get(metric, [])
        iterations = np.arange(1, len(values) + 1)
        ax.plot(iterations, values, color=_COLORS[index % len(_COLORS)], label=name)
    if best is not None:
        ax.axvline(best, label=f"best iteration ({best})", **_REFERENCE)
    ax.legend(frameon=False)
    return _labelled(ax, f"{metric} during training", "iteration", metric)


def plot_importance(
    source: Any,
    kind: str = "gain",
    *,
    max_features: int = 20,
    max_num_features: int | None = None,
    importance_type: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the most important features of a Model or a fitted estimator as bars, largest on top.

    Parameters
    ----------
    source : Model or fitted estimator
    kind : "gain" or "split"
        Total reduction of the loss, or number of splits. LightGBM `importance_type`.
    max_features : int
        LightGBM `max_num_features`.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import bitgrove as bg
    >>> from bitgrove.plotting import plot_importance
    >>> model = bg.BitGroveRegressor(n_estimators=5).fit([[i, 1] for i in range(99)], range(99))
    >>> plot_importance(model).get_xlabel()
    'total gain'
    """
    kind = kind if importance_type is None else importance_type
    max_features = max_features if max_num_features is None else max_num_features
    model = getattr(source, "model_", source)
    importance = model.feature_importance(kind)
    # Stable, so that equal features keep the order of the columns.
    order = np.argsort(-importance, kind="stable")[:max_features]
    order = order[importance[order] > 0]
    if not len(order):
        raise DataError("no feature has any importance: the model made no split")
    ax = _axes(ax, height=max(2.4, 0.28 * len(order) + 1.2))
    ax.barh([model.feature_names[i] for i in order], importance[order], color=_COLORS[0])
    ax.invert_yaxis()
    amount = {"gain": "total gain", "split": "number of splits"}[kind]
    title = "Feature importance"
    if len(order) < len(importance):
        title += f" ({len(order)} of {len(importance)} features)"
    return _labelled(ax, title, amount, "feature", grid="x")


def plot_bits(rows: Sequence[BitsRow], *, figure: Figure | None = None) -> Figure:
    """Draw test AUC and training seconds against gradient bits, side by side.

    Parameters
    ----------
    rows : list of records with `bits`, `auc` and `seconds`
        One per run. The run with bits=None is the dashed full-precision line.
    figure : matplotlib Figure, optional

    Returns
    -------
    matplotlib Figure
    """
    quantized = sorted((row for row in rows if row.bits is not None), key=lambda row: row.bits or 0)
    full = next((row for row in rows if row.bits is None), None)
    if not quantized:
        raise DataError("nothing to draw: no run has gradient bits")
    if figure is None:
        figure = _pyplot().figure(figsize=(9, 3.8))
    axes = figure.subplots(1, 2)
    bits = [row.bits for row in quantized]
    for ax, quantity, title in zip(
        axes, ("auc", "seconds"), ("Accuracy", "Training time"), strict=True
    ):
        values = [getattr(row, quantity) for row in quantized]
        ax.plot(bits, values, marker="o", color=_COLORS[0], label="quantized")
        if full is not None:
            ax.axhline(getattr(full, quantity), label="full precision", **_REFERENCE)
        ax.set_xticks(bits)
        ax.legend(frameon=False, loc="lower right")
        name = "test AUC" if quantity == "auc" else "seconds"
        _labelled(ax, title, "gradient bits", name)
    _frame_auc(axes[0], [row.auc for row in rows])
    axes[1].set_ylim(0, 1.15 * max(row.seconds for row in rows))
    figure.suptitle("Gradient boosting in few bits")
    figure.tight_layout()
    return figure


def _frame_auc(ax: Axes, values: Sequence[float]) -> None:
    """Keep differences below the noise from looking large: show at least 0.02 of AUC."""
    low, high = min(values), max(values)
    room = max(0.02 - (high - low), 0.2 * (high - low)) / 2
    ax.set_ylim(low - room, high + room)
    ax.ticklabel_format(axis="y", useOffset=False)


def _evaluations(source: Any) -> tuple[Mapping[str, Mapping[str, Sequence[float]]], int | None]:
    """(evals_result, best iteration or None) of whatever the user has."""
    if isinstance(source, Mapping):
        return source, None
    if hasattr(source, "evals_result_"):  # an estimator, which keeps it when it is pickled
        return source.evals_result_, source.best_iteration_
    model = getattr(source, "model_", source)
    info = getattr(model, "info", None)
    if info is None:
        raise DataError("the model holds no training record; a model file does not keep it")
    return info.evals_result, model.best_iteration


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plotting needs matplotlib: pip install bitgrove[plot]") from error
    return plt


def _axes(ax: Axes | None, height: float = 4.2) -> Axes:
    if ax is not None:
        return ax
    made: Axes = _pyplot().subplots(figsize=(7, height), layout="constrained")[1]
    return made


def _labelled(ax: Axes, title: str, x: str, y: str, grid: Literal["both", "x"] = "both") -> Axes:
    ax.set_title(title)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(True, axis=grid, alpha=0.25)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
