"""Models out and in: the formats of other libraries, one class each.

Receives a Model or the bytes of a file; returns the other. A format is registered by its module,
which is imported here: `formats.py` tells what one is.
"""

from __future__ import annotations

import os
from typing import Any

from bitgrove.errors import ModelFormatError
from bitgrove.machine.files import PathLike, write_atomically
from bitgrove.model.exchange import bitgrove_file, c_source, lightgbm, onnx, xgboost  # noqa: F401
from bitgrove.model.exchange.formats import FORMATS, MAX_BYTES, format_to_write, is_own, read_model
from bitgrove.model.exchange.outgoing import Outgoing
from bitgrove.model.exchange.scikit_learn import model_of_estimator
from bitgrove.model.model import Model

__all__ = ["FORMATS", "Outgoing", "export_model", "import_model"]


def export_model(
    model: Model, path: PathLike, format: str | None = None, *, raw_score: bool = False
) -> None:
    """Write the model in a format of another library; see `Model.export`."""
    chosen = format_to_write(path, format)
    write_atomically(path, chosen.write(Outgoing(model, raw_score=raw_score)))


def import_model(source: Any) -> Model:
    """The model in a file of LightGBM (text), XGBoost (JSON, UBJSON) or ours; the file tells which.

    `source` may also be a fitted HistGradientBoosting estimator of scikit-learn. The model predicts
    as it did there and is one of ours in every way: it is saved, explained, exported and continued
    (`init_model`) as others are. A file is data, never code; see docs/security.md.
    """
    if not isinstance(source, (str, os.PathLike)):
        return model_of_estimator(source)
    try:
        with open(source, "rb") as file:
            data = file.read(MAX_BYTES + 1)
            return read_model(data + file.read() if is_own(data) else data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{os.fspath(source)}: {error}") from error
