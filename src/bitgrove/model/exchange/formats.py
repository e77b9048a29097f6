"""What a format of models is, and the registry of all of them.

Owns Format and FORMATS. A format is one class in one file: its name, the ends of file names that
mean it, how it is recognised, and how models become its bytes and come back from them. Nothing else
asks for a format's name. Bytes that come in are data that nobody vouches for: whatever is wrong
with them is a ModelFormatError.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bitgrove.errors import ModelFormatError, ParameterError
from bitgrove.machine.files import PathLike

if TYPE_CHECKING:
    from bitgrove.model.exchange.outgoing import Outgoing
    from bitgrove.model.model import Model

# Numbers written as text grow about twenty-fold when they are read: this bounds the memory.
MAX_BYTES = 1 << 29


class Format:
    """`write` and `read`: a format that has only one of them says so in `can_write`, `can_read`."""

    name: ClassVar[str]
    library: ClassVar[str | None] = None  # several formats of one are chosen by its name as well
    extensions: ClassVar[tuple[str, ...]] = ()
    can_write: ClassVar[bool] = True
    can_read: ClassVar[bool] = True

    def recognises(self, data: bytes) -> bool:
        """Whether a file of these bytes is meant to be of this format."""
        return False

    def write(self, model: Outgoing) -> bytes:
        raise NotImplementedError

    def read(self, data: bytes) -> Model:
        raise NotImplementedError


FORMATS: dict[str, Format] = {}


def register(kind: type[Format]) -> type[Format]:
    """Makes a format known to export, import and the command line."""
    FORMATS[kind.name] = kind()
    return kind


def format_to_write(path: PathLike, name: str | None) -> Format:
    """The format of this name (or library), or the one that the end of the path means."""
    writable = [one for one in FORMATS.values() if one.can_write]
    allowed = ", ".join(repr(one.name) for one in writable)
    asked = [one for one in writable if name in (None, one.name, one.library)]
    if not asked:
        raise ParameterError(f"format={name!r}: allowed are {allowed}")
    text = os.fspath(path).lower()
    fitting = [one for one in asked if text.endswith(one.extensions)]
    if fitting or name is not None:
        return (fitting or asked)[0]
    ends = ", ".join(end for one in writable for end in one.extensions)
    raise ParameterError(
        f"{os.fspath(path)!r}: the name does not tell the format; it ends in none of {ends}. Give "
        f"format=, one of {allowed}"
    )


def is_own(data: bytes) -> bool:
    """Whether it is our own file, which takes no more memory than its size, whatever that is."""
    return FORMATS["bitgrove"].recognises(data)


def read_model(data: bytes) -> Model:
    """The model in these bytes, of whichever format they are."""
    if len(data) > MAX_BYTES and not is_own(data):
        raise ModelFormatError(f"{len(data)} bytes are over the limit of {MAX_BYTES}")
    for one in FORMATS.values():
        if one.can_read and one.recognises(data):
            return _read(one, data)
    names = ", ".join(name for name, one in FORMATS.items() if one.can_read)
    raise ModelFormatError(f"not a model file of a known format ({names})")


def _read(one: Format, data: bytes) -> Model:
    try:
        with np.errstate(all="ignore"):  # what is not finite or does not fit is found by its value
            return one.read(data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{one.name}: {error}") from None
    # What a part of the wrong type or size leads to: an ill-formed file, not a fault of ours.
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise ModelFormatError(f"{one.name}: the file is malformed ({error})") from error
    except RecursionError as error:
        raise ModelFormatError(f"{one.name}: the file is nested too deeply") from error
