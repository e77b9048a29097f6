"""Files that appear whole or not at all.

Owns the one writer of files that users name: models, checkpoints and tables of predictions.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

PathLike = str | os.PathLike[str]


def write_atomically(path: PathLike, data: bytes) -> None:
    """Replaces the file at once; on failure the old one stays."""
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[BinaryIO]:
    """An empty file to write to, which takes the place of the old one if the block ends well.

    It has the old one's permissions. Links are followed; devices, pipes and folders are refused.
    An OSError names the path that was given, never the temporary file.
    """
    target = os.path.realpath(path)  # through a link: replace the file, not the link
    directory = os.path.dirname(target)
    temporary = os.path.join(directory, f".bitgrove-{secrets.token_hex(8)}.tmp")
    try:
        mode = _mode_of(target)
        with open(temporary, "xb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        ours = (None, temporary, target)
        if isinstance(error, OSError) and error.errno and error.filename in ours:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    _sync_directory(directory)


def _mode_of(target: str) -> int | None:
    """The permissions of the file that is there, if there is one; OSError if it is no file."""
    try:
        found = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    if not stat.S_ISREG(found):
        raise OSError(errno.EINVAL, "not a regular file", target)
    return stat.S_IMODE(found)


def _sync_directory(directory: str) -> None:
    # So that the new name survives a power cut. Not all systems offer it; the file is whole and in
    # place by now, so a refusal is no failure.
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
