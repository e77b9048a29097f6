"""Pictures of a model: metric curves, feature importance, trees, thresholds, accuracy by bits.

This room owns the drawing and nothing else. It receives a Model, an estimator
or plain records and returns matplotlib objects; it never calls show() and never
changes global matplotlib settings. matplotlib is imported when a picture is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from bitgrove.errors import DataError
from bitgrove.model.explain.dump import condition
from bitgrove.model.explain.nodes import Node, node_name, nodes_of

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
    amount = {"gain": "total gain", "split": "number of splits", "cover": "rows divided"}[kind]
    title = "Feature importance"
    if len(order) < len(importance):
        title += f" ({len(order)} of {len(importance)} features)"
    return _labelled(ax, title, amount, "feature", grid="x")


def plot_split_value_histogram(
    source: Any, feature: str | int, *, bins: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw where the splits by a feature (its name or position) of a Model or estimator are."""
    model = getattr(source, "model_", source)
    counts, edges = model.get_split_value_histogram(feature, bins)
    if not counts.sum():
        raise DataError(f"no split is by feature {feature!r}")
    ax = _axes(ax)
    ax.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=_COLORS[0], alpha=0.85)
    name = feature if isinstance(feature, str) else model.feature_names[feature]
    return _labelled(ax, f"Splits by {name}", "threshold", "number of splits")


plot_split_values = plot_split_value_histogram  # the other is LightGBM's name


def plot_tree(
    source: Any,
    tree_index: int = 0,
    *,
    max_depth: int | None = None,
    precision: int = 3,
    ax: Axes | None = None,
) -> Axes:
    """Draw one tree of a Model or a fitted estimator, the root on top.

    A row goes left where the condition of a box holds. max_depth: splits below it are not drawn.
    """
    model = getattr(source, "model_", source)
    if not 0 <= tree_index < len(model.trees):
        raise DataError(f"tree_index={tree_index}: the model has {len(model.trees)} trees")
    nodes = {n.name: n for n in nodes_of(model, tree_index) if n.depth <= (max_depth or n.depth)}
    places = _places(tree_index, nodes)
    depth, width = max(n.depth for n in nodes.values()), max(x for x, _ in places.values()) + 1
    ax = _axes(ax, height=1.0 + 0.95 * depth, width=max(5.0, 1.25 * width))
    for name, node in nodes.items():
        x, y = places[name]
        if node.parent is not None:
            above = nodes[node_name(tree_index, node.parent)]
            link = ~node.number if node.is_leaf else node.number
            word = "yes" if above.left == link else "no"
            ax.plot(*zip(places[above.name], (x, y), strict=True), color="#999999", zorder=1)
            at_x, at_y = np.mean([places[above.name], (x, y)], axis=0)
            ax.text(at_x, at_y, word, fontsize=7, color="#555555", ha="center", va="center",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
        colour = _COLORS[2] if node.is_leaf else _COLORS[0]
        ax.text(x, y, _box(model, node, precision), fontsize=8, ha="center", va="center", zorder=2,
                bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": colour})  # fmt: skip
    ax.set_xlim(-0.7, width - 0.3)
    ax.set_ylim(-depth - 0.5, -0.5)
    ax.set_axis_off()
    ax.set_title(f"Tree {tree_index}")
    return ax


def _box(model: Any, node: Node, precision: int) -> str:
    if node.is_leaf:
        return f"{node.value:.{precision}g}\n{node.rows} rows"
    text = condition(model, node, precision)
    text = text if len(text) <= 36 else f"{text[:35]}…"
    # A name may hold what matplotlib would take for a formula.
    return f"{text}\n{node.rows} rows".replace("$", r"\$")


def _places(tree: int, nodes: Mapping[str, Node]) -> dict[str, tuple[float, float]]:
    """Where each node is drawn: leaves side by side, a split above the middle of its children."""
    x: dict[str, float] = {}
    n_ends = 0
    for name, node in reversed(list(nodes.items())):  # children come before their parents
        below = [x[n] for n in (node_name(tree, node.left), node_name(tree, node.right)) if n in x]
        if below and not node.is_leaf:
            x[name] = float(np.mean(below))
        else:
            x[name] = float(-n_ends)
            n_ends += 1
    first = min(x.values())
    return {name: (at - first, float(-nodes[name].depth)) for name, at in x.items()}


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


def _axes(ax: Axes | None, height: float = 4.2, width: float = 7.0) -> Axes:
    if ax is not None:
        return ax
    made: Axes = _pyplot().subplots(figsize=(width, height), layout="constrained")[1]
    return made


def _labelled(ax: Axes, title: str, x: str, y: str, grid: Literal["both", "x"] = "both") -> Axes:
    ax.set_title(title)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(True, axis=grid, alpha=0.25)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
