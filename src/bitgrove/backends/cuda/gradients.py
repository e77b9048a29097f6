"""Gradients on the GPU: arrays that are kept, and launches that are prepared once per training.

Owns GradientKernels. Receives an objective, scores and targets; returns Gradients, whose arrays are
good until the next call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bitgrove import _core
from bitgrove.backends.base import Targets
from bitgrove.backends.cuda.device import Device, Grid, blocks_of
from bitgrove.backends.cuda.memory import address_of
from bitgrove.backends.losses import LossPart, loss_parts
from bitgrove.backends.told import Gradients
from bitgrove.kernels.plans import MAGNITUDES
from bitgrove.objectives import Custom, Objective

_C = _core.constants
_SIDES = ("gradients", "hessians")


class Launch(NamedTuple):
    """A kernel, and what it is given before and after the Answer."""

    kernel: _core.Kernel
    grid: Grid
    data: tuple[int, ...]
    rest: tuple[float, ...]  # the first output, the loss's parameters


class Prepared(NamedTuple):
    """The launches for one objective on one set of arrays."""

    objective: Objective
    scores: Any
    targets: Targets
    grad: Any
    hess: Any
    outputs: list[tuple[Any, Any]]
    launches: list[Launch]
    n_blocks: int

    def is_for(self, objective: Objective, scores: Any, targets: Targets) -> bool:
        """Whether they are the same things, not only equal ones."""
        return objective is self.objective and scores is self.scores and targets is self.targets


class GradientKernels:
    def __init__(self, device: Device) -> None:
        self._device = device
        self._prepared: Prepared | None = None

    def compute(self, objective: Objective, scores: Any, targets: Targets) -> Gradients:
        if objective.family == "given":
            return self._take_given(objective, scores, targets)
        prepared, device = self._prepared, self._device
        if prepared is None or not prepared.is_for(objective, scores, targets):
            prepared = self._prepared = self._prepare(objective, scores, targets)
        n_outputs = len(scores)
        answer = device.answers.expect(n_outputs * MAGNITUDES.itemsize, prepared.n_blocks)
        for kernel, grid, data, rest in prepared.launches:
            device.stream.launch(kernel, grid, *data, answer, *rest)
        told = device.answers.telling(MAGNITUDES, n_outputs)
        return Gradients(prepared.grad, prepared.hess, told, prepared.outputs)

    def _prepare(self, objective: Objective, scores: Any, targets: Targets) -> Prepared:
        sides = _SIDES[:1] if objective.constant_hessian(targets.weight) else _SIDES
        kept = [self._device.memory.kept(name, scores.shape, np.float32) for name in sides]
        grad, hess = kept if len(kept) == 2 else (*kept, None)
        launches = [
            self._launch_of(part, objective.family, scores, targets, (grad, hess))
            for part in loss_parts(objective, len(scores))
        ]
        outputs = [(grad[k], None if hess is None else hess[k]) for k in range(len(scores))]
        n_blocks = sum(launch.grid[0] for launch in launches)
        return Prepared(objective, scores, targets, grad, hess, outputs, launches, n_blocks)

    def _launch_of(
        self, part: LossPart, family: str, scores: Any, targets: Targets, out: tuple[Any, Any]
    ) -> Launch:
        """One kernel for the outputs of a part."""
        first, n_outputs, n_rows = part.first, part.last - part.first, scores.shape[1]
        label = targets.label_of(first)
        data = (address_of(scores, first * n_rows), address_of(label), address_of(targets.weight))
        to = [address_of(side, first * n_rows) for side in out]
        if family in ("ranked", "listwise"):  # a block for each query
            file, threads = "ranking", _C["RANK_THREADS"]
            grid = (len(targets.tables[0]) - 1, 1)
            args = (*data, *map(address_of, targets.tables), *self._rank_scratch(n_rows), *to)
        else:
            file, threads = "gradients", _C["THREADS"]
            grid = (blocks_of(n_rows), 1) if family == "softmax" else self._device.grid(n_rows)
            args = (*data, *to, n_outputs, n_rows)
        kernel = self._device.kernels.get(file, f"{part.kernel}_gradients", threads)
        return Launch(kernel, grid, args, (first, *part.parameters))

    def _rank_scratch(self, n_rows: int) -> tuple[int, int]:
        """Addresses of room for the row of each rank, and for sums."""
        order = self._device.memory.kept("order", (n_rows,), np.int32)
        sums = self._device.memory.kept("rank sums", (_C["RANK_SCRATCH"] * n_rows,), np.int64)
        return address_of(order), address_of(sums)

    def _take_given(self, objective: Objective, scores: Any, targets: Targets) -> Gradients:
        """float64 gradients of a function of the user's as float32, with their magnitudes."""
        assert isinstance(objective, Custom)
        device, (n_outputs, n_rows) = self._device, scores.shape
        with device.memory.in_use():
            given = objective.given(scores, targets.label, targets.weight, device.cupy)
        grad, hess = (device.memory.kept(name, scores.shape, np.float32) for name in _SIDES)
        grid = device.grid(n_rows)
        answer = device.answers.expect(n_outputs * MAGNITUDES.itemsize, n_outputs * grid[0])
        for k in range(n_outputs):
            data = [address_of(side[k]) for side in (*given, grad, hess)]
            device.launch("gradients", "given_gradients", grid, *data, n_rows, answer, k)
        return Gradients(grad, hess, device.answers.telling(MAGNITUDES, n_outputs))
