"""Which systems are compared, and by which words.

Owns both kinds of names: short ones for the command line ("bitgrove-3", "lightgbm", "xgboost") and
the labels of the paper's tables ("3-bit SR refit", "LightGBM 2-bit", "XGBoost"). Libraries that are
not installed are left out of an experiment with a word on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache

from bitgrove import ParameterError
from lab.systems.base import System
from lab.systems.bitgrove import Bitgrove
from lab.systems.catboost import CatBoost
from lab.systems.lightgbm import LightGBM
from lab.systems.scikit import SklearnHGB
from lab.systems.xgboost import XGBoost

FULL = "bitgrove"
VARIANTS = {
    "SR refit": ("stochastic", True),
    "SR no refit": ("stochastic", False),
    "RN refit": ("nearest", True),
    "RN no refit": ("nearest", False),
}
PEERS = {"xgboost": "XGBoost", "catboost": "CatBoost", "lightgbm": "LightGBM"}  # label by package
_LIBRARIES: dict[str, type[System]] = {
    "bitgrove": Bitgrove, "lightgbm": LightGBM, "xgboost": XGBoost,
    "catboost": CatBoost, "sklearn": SklearnHGB,
}  # fmt: skip
# Above 7 bits LightGBM's quantized gradients overflow their int8 without an error.
_BITS = {"bitgrove": range(2, 9), "lightgbm": range(2, 8)}
# Appendix C: LightGBM by columns, but Epsilon with 2 or 3 bits; the others of the paper by rows.
_BY_ROWS = ("higgs", "kitsune", "criteo", "letor")
_BY_COLUMNS = ("epsilon", "bosch", "year", "yahoo")


def system(name: str) -> System:
    """The system of that short name."""
    library, _, bits = name.partition("-")
    if library not in _LIBRARIES or (bits and library not in _BITS):
        raise ParameterError(f"unknown system {name!r}; libraries: {', '.join(_LIBRARIES)}")
    if bits and bits not in map(str, _BITS[library]):
        raise ParameterError(f"gradient bits out of range in {name!r}")
    return _LIBRARIES[library](name, int(bits) if bits else None)


def installed(names: Iterable[str]) -> list[System]:
    """The systems of these short names whose libraries are there."""
    return [found for found in map(system, names) if _there(found.package, found.installed)]


@cache
def _there(package: str, found: bool) -> bool:
    if not found:
        print(f"{package} is left out: pip install {package}", file=sys.stderr)
    return found


def labelled(label: str, dataset: str = "") -> System:
    """The system of a label; the dataset decides LightGBM's layout, as in the paper."""
    if label == "XGBoost":
        return XGBoost(label, ranking="rank:pairwise")
    if label == "CatBoost":
        return CatBoost(label)
    if label.startswith("LightGBM"):
        bits = int(label.split()[1].split("-")[0]) if " " in label else None
        return LightGBM(label, bits, layout(dataset, bits))
    return ours(label)


def ours(label: str) -> Bitgrove:
    """The same for labels of bitgrove only."""
    if label == FULL:
        return Bitgrove(label)
    bits, _, variant = label.partition("-bit ")
    rounding, refit = VARIANTS[variant]
    more = {"rounding": rounding, "refit_leaves": refit, "gradient_scale": "max"}  # the paper's
    return Bitgrove(label, int(bits), **more)


def quantized(bits: int, variant: str = "SR refit") -> str:
    return f"{bits}-bit {variant}"


def is_peer(name: str) -> bool:
    """By a name of either kind."""
    return name.startswith((*PEERS, *PEERS.values()))


def peers(wanted: Iterable[str] | None, bits: Iterable[int] = ()) -> list[str]:
    """Labels of the other libraries that are installed and wanted (None: all)."""
    names = [name.partition("-") for name in peer_names(wanted, bits)]
    return [f"{PEERS[package]} {b}-bit" if b else PEERS[package] for package, _, b in names]


def peer_names(wanted: Iterable[str] | None, bits: Iterable[int] = ()) -> list[str]:
    """Their short names."""
    names = []
    for package in PEERS:
        if (wanted is None or package in wanted) and installed([package]):
            names += [package, *(f"{package}-{b}" for b in bits if b in _BITS.get(package, ()))]
    return names


def layout(dataset: str, bits: int | None) -> str | None:
    if dataset in _BY_COLUMNS and not (dataset == "epsilon" and bits in (2, 3)):
        return "col"
    return "row" if dataset in (*_BY_ROWS, *_BY_COLUMNS) else None
