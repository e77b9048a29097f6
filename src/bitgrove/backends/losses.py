"""The kernels of an objective, for backends that run kernels.

Receives an objective; returns names and parameters that the structs of kernels/shared read.
The core lists those structs; the CUDA kernels are made from the same list.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from bitgrove import _core
from bitgrove.errors import TrainingError
from bitgrove.objectives import Objective

_FAMILIES: dict[str, str] = _core.loss_families()
_N_PARAMETERS: int = _core.N_LOSS_PARAMETERS


class LossPart(NamedTuple):
    """The outputs [first, last) of one call of a kernel."""

    first: int
    last: int
    kernel: str
    parameters: tuple[float, ...]  # as many as the struct has places


def loss_parts(objective: Objective, n_outputs: int) -> list[LossPart]:
    """One call for each output of elementwise losses, one for all of others.

    TrainingError if no struct is listed under its name and family."""
    if objective.family == "elementwise":
        return [_part(objective.output(k), k, k + 1) for k in range(n_outputs)]
    return [_part(objective, 0, n_outputs)]


def _part(objective: Objective, first: int, last: int) -> LossPart:
    facts = (objective.name, objective.kernel, objective.family, objective.kernel_parameters)
    return LossPart(first, last, objective.kernel, _parameters(*facts))


@lru_cache(maxsize=256)  # an objective that draws numbers has others in each iteration
def _parameters(
    name: str, kernel: str, family: str, parameters: tuple[float, ...]
) -> tuple[float, ...]:
    if _FAMILIES.get(kernel) != family:
        known = ", ".join(known_name for known_name, other in _FAMILIES.items() if other == family)
        raise TrainingError(
            f"objective {name!r} has no kernel: kernels/shared lists no "
            f"{family} loss {kernel!r} (known: {known}); "
            "device='reference' needs none"
        )
    given = tuple(map(float, parameters))
    return given + (0.0,) * (_N_PARAMETERS - len(given))
