"""Our own format among the others, so that everything that converts models knows it too."""

from __future__ import annotations

from bitgrove.model import file as model_file
from bitgrove.model.exchange.formats import Format, register
from bitgrove.model.exchange.outgoing import Outgoing
from bitgrove.model.model import Model


@register
class BitgroveFile(Format):
    name = "bitgrove"
    extensions = (".bitgrove",)

    def recognises(self, data: bytes) -> bool:
        return data[: len(model_file.MAGIC)] == model_file.MAGIC

    def write(self, model: Outgoing) -> bytes:
        return model.model.to_bytes()

    def read(self, data: bytes) -> Model:
        return Model.from_bytes(data)
