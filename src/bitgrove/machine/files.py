"""Files that appear whole or not at all.

Owns the one writer of files that users name: models, checkpoints, reports and tables of
predictions. A writer holds a lock on its temporary file, so that the next one in the same folder
can tell those that a killed process left, and removes them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: nothing is locked, and nothing of others removed
    fcntl = None  # type: ignore[assignment]

PathLike = str | os.PathLike[str]
_TEMPORARY = re.compile(r"\.bitgrove-[0-9a-f]{16}\.tmp")
_LONG_QUIET = 600.0  # seconds after which a file that has no writer is abandoned


def write_atomically(path: PathLike, data: bytes) -> None:
    """Replaces the file at once; on failure the old one stays."""
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[BinaryIO]:
    """An empty file to write to, which takes the place of the old one if the block ends well.

    It has the old one's owner and permissions. Links are followed; devices, pipes and folders are
    refused. An OSError names the path that was given, never the temporary file.
    """
    target = os.path.realpath(path)  # through a link: replace the file, not the link
    directory = os.path.dirname(target)
    temporary = os.path.join(directory, f".bitgrove-{secrets.token_hex(8)}.tmp")
    try:
        old = _stat_of(target)
        _remove_abandoned(directory)
        with open(temporary, "xb") as file, _locked(file):
            if old is not None:
                _take_after(old, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        ours = (None, temporary, target)
        if isinstance(error, OSError) and error.errno and error.filename in ours:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    _sync_directory(directory)


def _stat_of(target: str) -> os.stat_result | None:
    """Of the file that is there, if there is one; OSError if it is no file."""
    try:
        found = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", target)
    return found


def _take_after(old: os.stat_result, path: str) -> None:
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):  # only root may give a file away
            os.chown(path, old.st_uid, old.st_gid)
    os.chmod(path, stat.S_IMODE(old.st_mode))


@contextlib.contextmanager
def _locked(file: BinaryIO) -> Iterator[None]:
    """Says that the file has a writer, until the block ends or the process dies."""
    if fcntl is None:
        yield
        return
    handle = os.dup(file.fileno())  # the lock outlives the closing of the file
    try:
        with contextlib.suppress(OSError):  # not all file systems have locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _remove_abandoned(directory: str) -> None:
    """Removes temporary files that killed processes left."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for name in filter(_TEMPORARY.fullmatch, os.listdir(directory)):
            with contextlib.suppress(OSError):
                _remove_if_abandoned(os.path.join(directory, name))


def _remove_if_abandoned(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: it has a writer
        # A new one may be about to be locked, or locked where this machine cannot see it.
        if time.time() - os.fstat(handle).st_mtime > _LONG_QUIET:
            os.unlink(path)
    finally:
        os.close(handle)


def _sync_directory(directory: str) -> None:
    # So that the new name survives a power cut. Not all systems offer it; the file is whole and in
    # place by now, so a refusal is no failure.
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
