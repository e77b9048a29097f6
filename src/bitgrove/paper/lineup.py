"""Which systems an experiment compares, by the labels of the paper's tables.

Owns the labels ("3-bit SR refit", "LightGBM 2-bit", "XGBoost") and their adapters. Libraries that
are not installed are left out with a word on stderr.
"""

from __future__ import annotations

import sys
from functools import cache

from bitgrove.paper.datasets import DATASETS
from bitgrove.paper.peers import CatBoost, LightGBM, XGBoost
from bitgrove.paper.study import Study
from bitgrove.paper.systems import Bitgrove, System

FULL = "bitgrove"
VARIANTS = {
    "SR refit": ("stochastic", True),
    "SR no refit": ("stochastic", False),
    "RN refit": ("nearest", True),
    "RN no refit": ("nearest", False),
}
_BY_COLUMNS = ("epsilon", "bosch", "year", "yahoo")
_LIGHTGBM_BITS = range(2, 8)  # above 7 bits its quantized gradients overflow int8 without a word


def quantized(bits: int, variant: str = "SR refit") -> str:
    return f"{bits}-bit {variant}"


def peers(study: Study, bits: tuple[int, ...] = ()) -> list[str]:
    """Labels of the other libraries that are installed and wanted."""
    labels = []
    for package, title in (("xgboost", "XGBoost"), ("catboost", "CatBoost"),
                           ("lightgbm", "LightGBM")):  # fmt: skip
        if study.wants(package) and _installed(package, title):
            labels.append(title)
            if package == "lightgbm":
                labels += [f"LightGBM {b}-bit" for b in bits if b in _LIGHTGBM_BITS]
    return labels


@cache
def _installed(package: str, title: str) -> bool:
    found = {"xgboost": XGBoost, "catboost": CatBoost, "lightgbm": LightGBM}[package](title)
    if not found.installed:
        print(f"{title} is left out: pip install {package}", file=sys.stderr)
    return found.installed


def system(label: str, dataset: str = "") -> System:
    """The adapter behind a label; the dataset decides LightGBM's layout, as in the paper."""
    if label == "XGBoost":
        return XGBoost(label, ranking="rank:pairwise")
    if label == "CatBoost":
        return CatBoost(label)
    if label.startswith("LightGBM"):
        bits = int(label.split()[1].split("-")[0]) if " " in label else None
        return LightGBM(label, bits, _layout(dataset, bits))
    if label == FULL:
        return Bitgrove(label)
    bits_text, _, variant = label.partition("-bit ")
    rounding, refit = VARIANTS[variant]
    return Bitgrove(label, int(bits_text), rounding=rounding, refit_leaves=refit)


def _layout(dataset: str, bits: int | None) -> str | None:
    """Appendix C: by columns for four datasets, but not for Epsilon with 2 or 3 bits."""
    if dataset not in DATASETS:
        return None
    by_columns = dataset in _BY_COLUMNS and not (dataset == "epsilon" and bits in (2, 3))
    return "col" if by_columns else "row"
