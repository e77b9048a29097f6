"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets

PathLike = str | os.PathLike[str]


def write_atomically(path: PathLike, data: bytes) -> None:
    """Replaces the file at once; on failure the old one stays."""
    target = os.path.realpath(path)  # through a link: replace the file, not the link
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".{name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(directory)


def _sync_directory(directory: str) -> None:
    # So that the new name survives a power cut. Not all systems offer it; the file is whole and in
    # place by now, so a refusal is no failure.
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
