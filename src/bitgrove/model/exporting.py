"""Methods of a Model that hand it to other libraries; the formats themselves are in exchange/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy.typing as npt

from bitgrove.machine.files import PathLike

if TYPE_CHECKING:
    from bitgrove.model.model import Model


class Exportable:
    """What can leave for other libraries."""

    def export(self, path: PathLike, format: str | None = None, *, raw_score: bool = False) -> None:
        """Write the model for another library: "lightgbm" (text), "xgboost" (JSON, or UBJSON where
        the path ends in .ubj), "onnx" or "c" (source). Without `format` the end of the path tells.

        The file predicts what `predict` does, with the iterations that it uses, as exactly as the
        other library's arithmetic allows; `raw_score` leaves out the link function. What a format
        cannot hold is an error. docs/export.md has the table of what each holds, and the bounds.
        """
        from bitgrove.model.exchange import export_model

        export_model(cast("Model", self), path, format, raw_score=raw_score)

    def exported_table(self, X: Any) -> npt.NDArray[Any]:
        """X as the table of numbers that exported models read.

        Numbers stay as they are. Levels that are whole numbers from 0 to 65535 stand for
        themselves, others are numbered from 0 in the order of `encoder.levels`; a level that the
        model does not know is -1, a missing value NaN.
        """
        from bitgrove.model.exchange import Outgoing

        return Outgoing(cast("Model", self)).table(X)
