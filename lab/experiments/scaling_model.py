"""A model of the time per tree over machines, fitted to measured points.

Owns the terms, the fit and what it says about other numbers of machines. The points are those of
lab/benchmarks/scaling.py (lab/results/scaling_points.json): ranks in network namespaces with
shaped links. Per tree and rank, in seconds:

    compute = a updates/n + b rows/n + c bins/n + d bins (n-1)/n
    comm    = k (s steps + p messages + q bytes + r bytes through the switch)
              + t steps * round trip + w bytes / bandwidth

updates: rows of the histograms that are built, times features; bins: those of all built
histograms, of which a rank searches 1/n and exchanges the rest; steps: collectives * log2(n);
messages: n - 1 for each exchange of histograms; k: ranks that share a core (1 on machines of their
own); the switch: a program that delays frames on the measuring machine, which no cluster has. All
coefficients are least squares of the relative errors and not negative.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
FLOAT_BYTES = 16  # of a bin: two float64
PER_TREE, PER_SEARCH = 4.0, 3.0  # collectives; a tree has a search more than rounds
_POINTS = Path(__file__).parents[1] / "results" / "scaling_points.json"


@dataclass(frozen=True)
class Link:
    """Of each machine: bytes per second (inf: not limited), seconds there and back."""

    bandwidth: float
    round_trip: float
    switched: bool = False  # by the program that delays frames


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What the ranks say to each other for one tree."""

    ranks: int
    rounds: float
    collectives: float
    bytes: float  # sent by a rank
    crowd: float = 1.0  # ranks that share a core


@dataclass(frozen=True, kw_only=True)
class Load(Traffic):
    """One tree of a training; counts are of the whole table unless said otherwise."""

    rows: float
    features: int
    bins: int  # of a histogram
    histograms: float  # built: the root and each smaller child
    built_rows: float  # in these
    bin_bits: float  # mean over them of log2(1 + rows of a rank in a bin)


@dataclass(frozen=True)
class Point:
    """What was measured for a load: seconds of a tree's parts on one rank."""

    shape: str
    bits: int | None
    load: Load
    link: Link
    compute: float
    comm: float
    check: bool = False  # not for fitting


@dataclass(frozen=True)
class Coefficients:
    """Of the terms above; compute depends on whether there are bits, messages on how many."""

    compute: dict[bool, F64]
    message: dict[int | None, F64]
    comm: F64

    def compute_seconds(self, load: Load, bits: int | None) -> float:
        return float(self.compute[bits is not None] @ compute_terms(load))

    def comm_seconds(self, traffic: Traffic, link: Link) -> float:
        return float(self.comm @ comm_terms(traffic, link))

    def with_bytes(self, load: Load, bits: int | None) -> Load:
        """The load with the bytes that its messages are expected to have."""
        return replace(load, bytes=float(self.message[bits] @ message_terms(load)))


def compute_terms(load: Load) -> list[float]:
    n, bins = load.ranks, load.histograms * load.bins
    return [load.built_rows * load.features / n, load.rows / n, bins / n, bins * (n - 1) / n]


def comm_terms(traffic: Traffic, link: Link) -> list[float]:
    steps = traffic.collectives * float(np.log2(traffic.ranks))
    messages = (traffic.rounds + 1.0) * (traffic.ranks - 1)
    relayed = traffic.bytes if link.switched else 0.0
    software = [traffic.crowd * term for term in (steps, messages, traffic.bytes, relayed)]
    return [*software, steps * link.round_trip, traffic.bytes / link.bandwidth]


def message_terms(load: Load) -> list[float]:
    """Bytes grow with the bits of the sums, so with the logarithm of a rank's rows in a bin."""
    sent = load.histograms * load.bins * (load.ranks - 1) / load.ranks
    return [sent, sent * load.bin_bits]


def fit(points: Sequence[Point]) -> Coefficients:
    """Coefficients from at least one point over ranks and one alone, of each precision there is."""
    together = [point for point in points if point.load.ranks > 1]
    compute, message = {}, {}
    for quantized in {point.bits is not None for point in points}:
        own = [point for point in points if (point.bits is not None) == quantized]
        compute[quantized] = _least_squares((compute_terms(p.load), p.compute) for p in own)
    for bits in {point.bits for point in together}:
        loads = [point.load for point in together if point.bits == bits]
        message[bits] = _least_squares((message_terms(load), load.bytes) for load in loads)
    comm = _least_squares((comm_terms(p.load, p.link), p.comm) for p in together)
    return Coefficients(compute, message, comm)


def _least_squares(equations: Iterable[tuple[list[float], float]]) -> F64:
    """The coefficients >= 0 with the least sum of squared relative errors."""
    from scipy.optimize import nnls

    rows = np.array([[term / value for term in terms] for terms, value in equations])
    scale = np.maximum(np.abs(rows).max(axis=0), 1e-300)  # the terms have very different sizes
    solution: F64 = nnls(rows / scale, np.ones(len(rows)))[0] / scale
    return solution


def relative_errors(coefficients: Coefficients, points: Iterable[Point]) -> dict[str, F64]:
    """Predicted over measured, less 1, of both parts of the time and of the bytes."""
    errors: dict[str, list[float]] = {"compute": [], "comm": [], "bytes": []}
    for p in points:
        errors["compute"].append(coefficients.compute_seconds(p.load, p.bits) / p.compute - 1.0)
        if p.load.ranks > 1:
            errors["comm"].append(coefficients.comm_seconds(p.load, p.link) / p.comm - 1.0)
            sent = coefficients.with_bytes(p.load, p.bits).bytes
            errors["bytes"].append(sent / p.load.bytes - 1.0)
    return {part: np.array(values) for part, values in errors.items()}


def left_out_errors(
    points: Sequence[Point], group: Callable[[Point], Any]
) -> dict[Any, dict[str, F64]]:
    """For each group of points, the errors of a fit that has not seen it."""
    found = {}
    for key in dict.fromkeys(map(group, points)):
        seen = [point for point in points if group(point) != key]
        found[key] = relative_errors(fit(seen), [p for p in points if group(p) == key])
    return found


@cache
def measured() -> tuple[str, tuple[Point, ...]]:
    """Where the points come from, and the points."""
    content = json.loads(_POINTS.read_text(encoding="utf-8"))
    return content["origin"], tuple(_point(p, content["cores"]) for p in content["points"])


def _point(facts: dict[str, Any], cores: int) -> Point:
    known = {field.name: facts[field.name] for field in fields(Load) if field.name in facts}
    load = Load(**known, crowd=max(1.0, facts["ranks"] / cores))
    rate = float("inf") if facts["gbit"] is None else facts["gbit"] * 1e9 / 8
    link = Link(rate, facts["round_trip"], switched=facts["gbit"] is not None)
    return Point(facts["shape"], facts["bits"], load, link, facts["compute"], facts["comm"],
                 facts.get("check", False))  # fmt: skip


def spread(load: Load, ranks: int, rows: float, features: int) -> Load:
    """The same kind of tree on another table and number of ranks, each on cores of its own."""
    more = rows / load.rows
    typical = 2.0**load.bin_bits - 1.0  # rows of a rank in a bin
    return Load(
        ranks=ranks,
        rounds=load.rounds,
        collectives=PER_TREE + PER_SEARCH * (load.rounds + 1.0),
        bytes=0.0,
        rows=rows,
        features=features,
        bins=round(load.bins * features / load.features),
        histograms=load.histograms,
        built_rows=load.built_rows * more,
        bin_bits=float(np.log2(1.0 + typical * more * load.ranks / ranks)),
    )
