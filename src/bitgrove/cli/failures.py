"""What a failed command says, and its exit code; how text of others is shown."""

from __future__ import annotations

import os
import sys

from bitgrove.errors import BitgroveError


def fail(error: BaseException, prefix: str = "") -> int:
    """Says what went wrong, in one line, and returns the exit code."""
    if os.environ.get("BITGROVE_DEBUG") == "1":
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    message, code = _explained(error)
    print(f"bitgrove: error: {prefix}{printable(' '.join(message.split()))}", file=sys.stderr)
    return code


def printable(text: str) -> str:
    """The text with what would move a terminal's cursor, or forge a line, spelled out.

    Names of columns come from files of strangers.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def _explained(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(error, MemoryError) and not isinstance(error, BitgroveError):
        return "out of memory", 2
    if isinstance(error, (BitgroveError, ImportError)):
        return str(error).replace("\n-", ""), 2  # several problems, in one line
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error), 2
    hint = "set BITGROVE_DEBUG=1 for the traceback and please report it"
    return f"unexpected {type(error).__name__}: {error} ({hint})", 1
