"""What the pictures of all experiments share: colours and grids of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Distinguishable for most colour-blind readers.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#999999", "#000000")


def grid(n: int) -> tuple[int, int]:
    """(rows, columns) for n panels."""
    n_columns = 2 if n == 4 else min(n, 3 if n <= 6 else 4)
    return -(-n // n_columns), n_columns


def panels(figure: Figure, n: int) -> Any:
    """n axes in a grid."""
    axes = figure.subplots(*grid(n), squeeze=False).ravel()
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=7)
    for ax in axes[n:]:
        ax.set_axis_off()
    return axes
