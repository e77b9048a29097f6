"""What a backend tells: records that are there, or that a device is still working on.

Owns Told, and the gradients, whose magnitudes are such records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from bitgrove.kernels.plans import Records


class Told(Protocol):
    """Records that a device may still be working on: whoever reads them first waits for them."""

    def read(self) -> Records: ...


class Known(NamedTuple):
    """Records that are there."""

    records: Records

    def read(self) -> Records:
        return self.records


class OutputGradients(NamedTuple):
    """The gradients of one output; hess and its bounds are those of Gradients."""

    grad: Any
    hess: Any
    told: Told
    at: int = 0  # which of the records

    @property
    def magnitudes(self) -> Any:
        """One MAGNITUDES record."""
        return self.told.read()[self.at]


class Gradients(NamedTuple):
    """Gradients of all outputs, and the bounds that quantization needs.

    grad and hess: (n_outputs, n_rows) float32 on the device; hess is None where it is constant one.
    told: a MAGNITUDES record for each output; zero where there is no hess.
    outputs: (grad[k], hess[k]) of each, from backends where looking them up takes time.
    """

    grad: Any
    hess: Any
    told: Told
    outputs: Sequence[tuple[Any, Any]] | None = None

    @property
    def magnitudes(self) -> Records:
        return self.told.read()

    def output(self, k: int) -> OutputGradients:
        if self.outputs is not None:
            return OutputGradients(*self.outputs[k], self.told, k)
        hess = None if self.hess is None else self.hess[k]
        return OutputGradients(self.grad[k], hess, self.told, k)
