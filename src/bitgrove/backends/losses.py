"""The kernel of an objective, for backends that run kernels.

Receives an objective; returns the name and the parameters that the struct of kernels/shared reads.
The core lists those structs; the CUDA kernels are made from the same list.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from bitgrove import _core
from bitgrove.errors import TrainingError
from bitgrove.objectives import Objective

_FAMILIES: dict[str, str] = _core.loss_families()
_N_PARAMETERS: int = _core.N_LOSS_PARAMETERS


class LossKernel(NamedTuple):
    name: str
    parameters: tuple[float, ...]  # as many as the struct has places


def loss_kernel(objective: Objective) -> LossKernel:
    """TrainingError if no struct is listed under its name and family."""
    return _kernel(objective.name, objective.kernel, objective.family, objective.kernel_parameters)


@cache
def _kernel(name: str, kernel: str, family: str, parameters: tuple[float, ...]) -> LossKernel:
    if _FAMILIES.get(kernel) != family:
        known = ", ".join(known_name for known_name, other in _FAMILIES.items() if other == family)
        raise TrainingError(
            f"objective {name!r} has no kernel: kernels/shared lists no "
            f"{family} loss {kernel!r} (known: {known}); "
            "device='reference' needs none"
        )
    given = tuple(map(float, parameters))
    return LossKernel(kernel, given + (0.0,) * (_N_PARAMETERS - len(given)))
