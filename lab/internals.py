"""Where the lab reaches below the library's public names: here, and nowhere else.

Owns a training that goes tree by tree, stopwatches around a backend's verbs, and short ways to the
library's own metrics, bins and hashes. A change inside of the library is followed in this file.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from bitgrove import Dataset, Model
from bitgrove.arithmetic.exact_math import hash_key, row_hash
from bitgrove.backends import give_back_memory, make_backend
from bitgrove.backends.base import TreeInputs, TreeWork
from bitgrove.backends.cpu import CpuBackend
from bitgrove.backends.cuda.backend import CudaBackend
from bitgrove.backends.cuda.memory import Telling
from bitgrove.backends.cuda.tree import CudaTreeWork
from bitgrove.backends.room import Needs, share_room
from bitgrove.cli import files, tables
from bitgrove.cli.demo.data import blocks, make_higgs_like
from bitgrove.data.binning import fit_edges
from bitgrove.data.row_ids import one_run
from bitgrove.distributed import SoloComm
from bitgrove.distributed.comm import Comm, gather_facts
from bitgrove.errors import HostMemoryError
from bitgrove.machine.files import write_atomically
from bitgrove.machine.gpu import import_cupy
from bitgrove.machine.simd import simd_level
from bitgrove.model.tree import Tree
from bitgrove.objectives import LambdaRank
from bitgrove.objectives.metrics import EvalData, make_metric
from bitgrove.params import resolve
from bitgrove.theory.gain_error import rounding_errors
from bitgrove.theory.leaves import leaf_of_rows
from bitgrove.training import booster, encoding
from bitgrove.training.booster import Booster, bin_training_set
from bitgrove.training.grower import Grower

__all__ = [
    "HostMemoryError", "TreeByTree", "Wrapped", "bin_once", "bin_rows", "bins_of", "blocks",
    "chosen_by_hash", "estimates_noted", "evaluate", "files", "gather_facts", "host_laps",
    "import_cupy", "make_higgs_like", "n_bins", "scores_along", "simd_level", "statistics_alone",
    "tables", "timed_cuda_verbs", "without_record", "write_atomically",
]  # fmt: skip

Array = NDArray[Any]
_CUDA_VERBS = {
    CudaBackend: ("gradients", "quantize", "select_rows", "start_tree"),
    CudaTreeWork: ("begin", "grow", "leaf_sums", "add_tree"),
}
_LAPS: dict[tuple[Any, str], str] = {
    (CudaBackend, "gradients"): "gradients",
    (CudaBackend, "select_rows"): "row list",
    (CudaBackend, "quantize"): "quantizing",
    (CudaBackend, "start_tree"): "start",
    (CudaTreeWork, "begin"): "beginning the rounds",
    (CudaTreeWork, "grow"): "rounds",
    (CudaTreeWork, "set_leaves"): "numbers of leaves",
    (CudaTreeWork, "leaf_sums"): "leaf sums",
    (CudaTreeWork, "add_tree"): "adding leaf values",
    (Telling, "read"): "waiting to be told",
    (Tree, "write_down"): "Python: the splits, while rounds go on",
    (booster, "quantize"): "Python: scales",
    (Booster, "_add_tree"): "Python: the tree's steps",
    (Grower, "grow"): "Python: the frontier, what it found",
    (Booster, "boost"): "Python: the iteration",
}


# ---------------------------------------------------------------- metrics, bins, hashes


def evaluate(metric: str, prediction: Array, label: Array, group: Array | None) -> float:
    """The library's own metric of that name, without weights."""
    label = label.astype(np.float64)
    sizes = None if group is None else group.astype(np.int64)
    gains = LambdaRank().gains
    data = EvalData(np.asarray(prediction, np.float64), label, np.ones_like(label), sizes, gains)
    return make_metric(metric).compute(data, SoloComm())


def bin_rows(params: dict[str, Any], data: Dataset) -> None:
    """Bins a Dataset before train() would do it."""
    resolved = resolve(params)
    bin_training_set(data, make_backend(resolved), resolved, SoloComm(), one_run(data.n_rows))


def bin_once(params: dict[str, Any], data: Dataset) -> None:
    """Bins a Dataset for trainings of every seed: seeds then differ by rounding alone."""
    bin_rows(params, data)
    (matrix,) = data.binned.values()
    data.binned = _OneMatrix(matrix)


class _OneMatrix(dict[Any, Any]):
    """What a Dataset keeps of its bins, whatever parameters ask for them."""

    def __init__(self, matrix: Any) -> None:
        super().__init__()
        self._matrix = matrix

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: Any) -> Any:
        return self._matrix


def scores_along(model: Model, X: Any, every: int) -> Iterator[tuple[int, Any]]:
    """(iteration, scores) after every so many iterations, where X is; each tree is walked once."""
    scores: Any = float(model.base_score[0])
    for first in range(0, model.n_iterations, every):
        last = min(first + every, model.n_iterations)
        part = model.truncate(last)
        part.trees, part.base_score = model.trees[first:last], np.zeros(1)
        scores = scores + part.predict_raw(X)
        yield last, scores


def n_bins(X: Array) -> int:
    """Bins of all features together."""
    return sum(len(edges) + 1 for edges in CpuBackend().find_edges(list(X.T), None, 255))


def timed_binning(X: Array, device: str) -> tuple[list[float], bytes]:
    """Seconds of sending a table, of finding its edges and of binning it; and the edges."""
    params = resolve({"device": device})
    backend, columns = make_backend(params), [X[:, f] for f in range(X.shape[1])]
    seconds: list[float] = []
    send, find, cut = (
        _timed(step, seconds.append, device)
        for step in (backend.send_columns, fit_edges, backend.bin_columns)
    )
    sent = send(columns)
    mapper = find(sent, backend.find_edges, params, one_run(len(X)), SoloComm())
    cut(sent, mapper)
    del sent
    give_back_memory()
    return seconds, mapper.edge_values.tobytes()


def bins_of(state: Any) -> int:
    """The same, of a training that a callback sees."""
    return int(state.booster.matrix.mapper.bin_offset[-1])


def chosen_by_hash(share: float, units: Array, *key: int) -> NDArray[np.bool_]:
    """About this share of the units, the same ones everywhere."""
    limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    return np.asarray(row_hash(hash_key(*key), units.astype(np.uint64)) < limit)


# ---------------------------------------------------------------- tree by tree


class TreeByTree:
    """One training, stepped by the caller, who may look inside between two trees."""

    def __init__(self, params: dict[str, Any], data: Dataset) -> None:
        self._booster = Booster(resolve(params), data, SoloComm())
        self._n_done = 0

    def step(self) -> None:
        self._booster.boost(self._n_done)
        self._n_done += 1

    @property
    def bits(self) -> int | None:
        return self._booster.params.gradient_bits

    @bits.setter
    def bits(self, bits: int) -> None:
        self._booster.params = replace(self._booster.params, gradient_bits=bits)

    @property
    def base_score(self) -> float:
        return float(self._booster.base_score[0])

    def last_tree_scores(self, X: Array) -> Array:
        """What the last tree adds to the scores of these rows."""
        model = self._booster.model(None)
        model.trees, model.base_score = model.trees[-1:], np.zeros(1)
        return model.predict_raw(X)

    def fewest_bits(self, tolerance: float, choices: Iterable[int]) -> int:
        """The first choice whose gain error on the last tree is in the tolerance, or the last."""
        booster = self._booster
        assert booster.gradients is not None, "no tree was grown yet"
        tree, part = booster.trees[-1], booster.gradients.output(0)
        leaf = leaf_of_rows(booster, tree)
        for bits in choices:
            params = replace(booster.params, gradient_bits=bits)
            errors = rounding_errors(tree, leaf, part.grad, part.hess, params, len(booster.trees))
            if errors.worst() <= tolerance:
                break
        return bits

    def zero_shares(self) -> list[float]:
        """Share of the rows whose integers were zero, by tree."""
        return [n / self._booster.dataset.n_rows for n in self._booster.info.zero_rows]

    def treat_zero_rows_alike(self) -> None:
        """Rows whose integers are zero go into the histograms like all others."""
        grower = self._booster.grower
        grower.backend = _AllRowsAlike(grower.backend)

    def seconds_by_step(self, n_trees: int) -> dict[str, float]:
        """Trains that many trees, verb by verb: seconds of histograms, of the scan, and of all."""
        grower = self._booster.grower
        grower.backend = watch = _Stopwatch(grower.backend)
        started = time.perf_counter()
        for _ in range(n_trees):
            self.step()
        return {**watch.seconds, "all": time.perf_counter() - started}


class Wrapped:
    """A backend whose trees start otherwise."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class _AllRowsAlike(Wrapped):
    def start_tree(self, pool: Any, inputs: TreeInputs) -> TreeWork:
        work: TreeWork = self._backend.start_tree(pool, inputs._replace(separate_zeros=False))
        return work


class _Stopwatch(Wrapped):
    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self.seconds = {"histograms": 0.0, "scan": 0.0}

    def start_tree(self, pool: Any, inputs: TreeInputs) -> Any:
        work = self._backend.start_tree(pool, inputs)
        work._verbs = _TimedVerbs(work._verbs, pool.matrix.mapper, self.seconds, self._backend.name)
        # The loop in Python: one call of the core for all rounds would hide the steps.
        work.grow = lambda *args: TreeWork.grow(work, *args)
        return work


class _TimedVerbs:
    """The core's verbs on stopwatches: histograms are built and subtracted, then scanned."""

    def __init__(self, verbs: Any, mapper: Any, seconds: dict[str, float], name: str) -> None:
        self._verbs, self._mapper = verbs, mapper

        def timed(verb: Callable[..., Any], step: str) -> Callable[..., Any]:
            def add(spent: float) -> None:
                seconds[step] += spent

            return _timed(verb, add, name)

        self.build, self.subtract = (timed(v, "histograms") for v in (verbs.build, verbs.subtract))
        self.find = timed(verbs.find, "scan")

    def search(self, plan: Any) -> Any:
        self.build(plan.builds)
        self.subtract(plan.subtractions, (0, int(self._mapper.bin_offset[-1])))
        return self.find(plan.nodes, (0, self._mapper.n_features))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._verbs, name)


def _timed(
    verb: Callable[..., Any], add: Callable[[float], None], backend: str
) -> Callable[..., Any]:
    """The verb, its seconds handed to add(); a GPU works on while Python goes ahead: waited for."""

    def call(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        answer = verb(*args, **kwargs)
        if backend.startswith("cuda"):
            import_cupy().cuda.get_current_stream().synchronize()
        add(time.perf_counter() - started)
        return answer

    return call


@contextmanager
def timed_cuda_verbs() -> Iterator[dict[str, list[float]]]:
    """Seconds of each call of each verb on the GPU; their sum is above a tree's time."""
    seconds: dict[str, list[float]] = defaultdict(list)
    before = [(owner, verb) for owner, verbs in _CUDA_VERBS.items() for verb in verbs]
    kept = {(owner, verb): getattr(owner, verb) for owner, verb in before}
    for (owner, verb), function in kept.items():
        setattr(owner, verb, _timed(function, seconds[verb].append, "cuda"))
    try:
        yield seconds
    finally:
        for (owner, verb), function in kept.items():
            setattr(owner, verb, function)


@contextmanager
def host_laps() -> Iterator[dict[str, list[float]]]:
    """The host's seconds in each call of what a tree takes, less those of the calls inside of it.

    Nothing is waited for: a verb's time is that of its launches and of what it reads.
    """
    laps: dict[str, list[float]] = defaultdict(list)
    inside = [0.0]  # seconds of the calls inside of each that is under way

    def on_clock(function: Callable[..., Any], label: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            inside.append(0.0)
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter() - started
                laps[label].append(spent - inside.pop())
                inside[-1] += spent

        return call

    with ExitStack() as patched:
        for (owner, name), label in _LAPS.items():
            patched.enter_context(
                mock.patch.object(owner, name, on_clock(getattr(owner, name), label))
            )
        yield laps


@contextmanager
def without_record() -> Iterator[None]:
    """Trainings that make no fingerprints of their data."""
    with mock.patch.object(booster, "record_of", lambda *_: None):
        yield


# ---------------------------------------------------------------- memory


@contextmanager
def estimates_noted() -> Iterator[list[int]]:
    """The bytes that each training inside of it was said to need at least."""
    found: list[int] = []

    def noted(backend: Any, needs: Needs, comm: Comm) -> int:
        found.append(needs.least(backend.shares_bytes, backend.spills_bins))
        return share_room(backend, needs, comm)

    with mock.patch.object(booster, "share_room", noted):
        yield found


# ---------------------------------------------------------------- categories


@contextmanager
def statistics_alone() -> Iterator[None]:
    """Categories of many levels have no sets beside their statistics."""
    with mock.patch.object(encoding, "ROWS_PER_LEVEL", 10**9):
        yield
