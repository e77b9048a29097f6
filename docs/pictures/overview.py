"""The picture of the README, from recorded measurements: `python docs/pictures/overview.py`.

Left: what few bits cost at the paper's sizes (lab/results/full_size.csv). Right: time and accuracy
of fit() beside other libraries on tables with text columns (lab/results/categories.csv).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "lab" / "results"
INK, MUTED, OURS = "#1f2a30", "#6b7780", "#1f7a4a"
LIBRARIES = {
    "bitgrove": ("bitgrove", "default", OURS),
    "LightGBM": ("lightgbm", "default", "#7f9fb8"),
    "XGBoost": ("xgboost", "default", "#b8a07f"),
    "CatBoost, 100 trees": ("catboost", "100", "#b57fa8"),
}
SETS = ["year", "letor", "higgs", "yahoo", "epsilon", "bosch", "kitsune", "criteo"]
TABLES = {"adult": "adult\nAUC", "census_kdd": "census_kdd\nAUC",
          "nycflights13": "nycflights13\nRMSE", "ids": "30,399 ids\nAUC"}  # fmt: skip


def draw_bits(ax: Any) -> None:
    """Percent better or worse than full precision, one dot per set."""
    runs = pd.read_csv(RESULTS / "full_size.csv")
    test = runs.groupby(["dataset", "system"])["test"].mean().unstack()
    sign = pd.Series({name: -1.0 if name == "year" else 1.0 for name in SETS})
    systems = {"2 bits": "2-bit SR refit", "3 bits": "3-bit SR refit", "4 bits": "4-bit SR refit",
               "4 bits, default scale": "default"}  # fmt: skip
    ax.axhline(0, color=MUTED, linewidth=1)
    ax.axhspan(-0.2, 0.2, color="#e8f3ec", zorder=0)
    for place, system in enumerate(systems.values()):
        better = sign * (test[system] / test["bitgrove"] - 1) * 100
        offsets = [place + 0.055 * (i - 3.5) for i in range(len(SETS))]
        ax.scatter(offsets, better[SETS], s=34, color=OURS, alpha=0.85, linewidth=0)
    ax.set_xticks(range(4), [name.replace(", ", ",\n") for name in systems])
    ax.set_ylim(-1.0, 1.0)
    ax.set_ylabel("% better (+) or worse (−)\nthan full precision", color=INK)
    ax.set_title("Few bits, the same accuracy", loc="left", weight="bold", color=INK)
    words = "A dot is one of 8 sets of the paper's shape (generated, 0.4 to 41 million rows)"
    ax.text(-0.14, -0.235, words, transform=ax.transAxes, color=MUTED, fontsize=8)


def draw_libraries(ax: Any) -> None:
    """Seconds of fit(), and beside each bar what it reached."""
    runs = pd.read_csv(RESULTS / "categories.csv", dtype={"trees": str})
    mean = runs.groupby(["table", "library", "trees"])[["metric", "seconds"]].mean()
    height = 0.19
    for row, table in enumerate(TABLES):
        for line, (name, (library, trees, color)) in enumerate(LIBRARIES.items()):
            metric, seconds = mean.loc[(table, library, trees)]
            y = row + (line - 1.5) * height
            ax.barh(y, seconds, height * 0.86, color=color, label=name if row == 0 else None)
            digits = 3 if metric < 1 else 1
            shown = f"{seconds:.1f} s, {metric:.{digits}f}"
            weight = "bold" if library == "bitgrove" else "normal"
            ax.text(seconds + 0.12, y, shown, va="center", fontsize=8, color=INK, weight=weight)
    ax.set_xlim(0, 15)
    ax.set_xticks([0, 3, 6, 9, 12], ["0", "3 s", "6 s", "9 s", "12 s"])
    ax.set_yticks(range(len(TABLES)), list(TABLES.values()))
    ax.invert_yaxis()
    ax.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.72, 0.22), ncols=1,
              handlelength=1)  # fmt: skip
    words = "fit() with its defaults on at most 60,000 rows, one thread; means of 2 to 5 splits"
    ax.text(-0.18, -0.235, words, transform=ax.transAxes, color=MUTED, fontsize=8)
    ax.set_title("Less time to fit tables with text columns", loc="left", weight="bold", color=INK)


def main() -> None:
    matplotlib.rcParams.update({"font.family": "DejaVu Sans", "font.size": 9.5,
                                "svg.hashsalt": "bitgrove"})  # fmt: skip
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.3), width_ratios=[1, 1.35])
    draw_bits(left)
    draw_libraries(right)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color("#c9d0d4")
        ax.tick_params(color="#c9d0d4", labelcolor=INK)
    figure.subplots_adjust(left=0.085, right=0.985, top=0.91, bottom=0.185, wspace=0.27)
    figure.savefig(HERE / "overview.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
