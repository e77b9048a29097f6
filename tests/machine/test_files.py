"""Files are replaced whole or not at all, and what is no file is refused."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bitgrove.cli.files import write_table
from bitgrove.machine.files import replacing, write_atomically

posix = pytest.mark.skipif(os.name != "posix", reason="links, modes and FIFOs are those of POSIX")


def no_room(*_: object) -> None:
    raise OSError("disk full")


def test_nothing_is_seen_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_failure_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write(b"half of the n")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@posix
def test_permissions_of_an_old_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for mode in (0o600, 0o664, 0o444):
        path.write_bytes(b"old")
        path.chmod(mode)
        with replacing(path) as file:
            (temporary,) = {*os.listdir(tmp_path)} - {"file"}
            assert stat.S_IMODE((tmp_path / temporary).stat().st_mode) == mode  # before it is full
            file.write(b"new")
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert path.read_bytes() == b"new"
        path.chmod(0o600)


@posix
def test_a_link_stays_a_link_also_to_another_folder(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link, real = tmp_path / "link", tmp_path / "far" / "real"
    link.symlink_to(real)
    for content in (b"first", b"second"):  # a link to nothing, and to a file
        write_atomically(link, content)
        assert link.is_symlink() and real.read_bytes() == content
    assert os.listdir(tmp_path / "far") == ["real"]


@posix
def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to("/dev/null")
    for path in (fifo, link, Path("/dev/null")):
        with pytest.raises(OSError, match="not a regular file") as error:
            write_atomically(path, b"data")
        assert error.value.filename == str(path)
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path, b"data")
    assert stat.S_ISFIFO(fifo.stat().st_mode) and link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["fifo", "link"]


def named_error(path: Path, code: int) -> None:
    with pytest.raises(OSError) as caught:
        write_atomically(path, b"data")
    assert (caught.value.errno, caught.value.filename) == (code, str(path))
    assert "bitgrove-" not in str(caught.value)


def test_errors_name_the_path_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named_error(tmp_path / "missing" / "model", errno.ENOENT)
    (tmp_path / "file").write_bytes(b"")
    named_error(tmp_path / "file" / "model", errno.ENOTDIR)
    os.unlink(tmp_path / "file")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "model"
    monkeypatch.setattr(os, "fsync", full)  # the disk is full when the bytes are to reach it
    named_error(path, errno.ENOSPC)

    def refused(source: str, target: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), source, None, target)

    monkeypatch.undo()
    monkeypatch.setattr(os, "replace", refused)
    named_error(path, errno.EACCES)
    assert os.listdir(tmp_path) == []


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    named_error(folder / "model", errno.EACCES)


def test_an_error_about_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "model"):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other")


KILLED = """
import os, signal, sys
from bitgrove.machine.files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@posix
def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    path, other = tmp_path / "model", tmp_path / ".bitgrove-notes.tmp"
    path.write_bytes(b"old")
    other.write_bytes(b"of somebody else")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (left,) = {*tmp_path.iterdir()} - {path, other}
    write_atomically(path, b"new")  # it might belong to a writer on another machine
    assert left.exists()
    long_ago = time.time() - 3600
    with replacing(path) as file:
        (mine,) = {*tmp_path.iterdir()} - {path, other, left}
        for temporary in (left, mine, other):
            os.utime(temporary, (long_ago, long_ago))
        write_atomically(tmp_path / "second", b"")
        assert mine.exists() and not left.exists()  # one has a writer
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert {*os.listdir(tmp_path)} == {"model", "second", other.name}


FULL = """
import resource, signal, sys
from pathlib import Path
from bitgrove.machine.files import write_atomically
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(sys.argv[1], bytes(100_000))
except OSError as error:
    print(error.filename)
"""


@posix
def test_a_quota_names_the_file_and_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")
    said = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], check=True, capture_output=True, text=True
    )
    assert said.stdout.strip() == str(path)
    assert os.listdir(tmp_path) == ["model"] and path.read_bytes() == b"old"


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives away")
def test_root_does_not_take_a_file_from_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")
    os.chown(path, 12345, 12346)
    write_atomically(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)


def test_a_name_as_long_as_the_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 120)
    write_atomically(path, b"data")
    assert path.read_bytes() == b"data"


@posix
@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_tables_are_written_by_the_same_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("pyarrow")
    real, link = tmp_path / "real", tmp_path / name
    link.symlink_to(real)
    real.write_bytes(b"old")
    real.chmod(0o640)
    write_table({"a": [1, 2]}, str(link))
    assert link.is_symlink() and real.read_bytes() != b"old"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    before = real.read_bytes()
    monkeypatch.setattr(os, "replace", no_room)
    with pytest.raises(OSError, match="disk full"):
        write_table({"a": [3]}, str(link))
    assert real.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == sorted(["real", name])


EVERY_KIND = """
import os, resource, signal, sys
import numpy as np, bitgrove as bg
folder = sys.argv[1]
X = np.random.default_rng(0).normal(size=(3000, 4))
params = {"objective": "regression", "n_estimators": 30}
data = bg.Dataset(X, X[:, 0])
model = bg.train(params, data)
at = {kind: os.path.join(folder, kind) for kind in
      ("model", "export.json", "report.html", "rows.bins", "checkpoint")}
writers = {
    "model": lambda: model.save(at["model"]),
    "export.json": lambda: model.export(at["export.json"]),
    "report.html": lambda: model.report(at["report.html"]),
    "rows.bins": lambda: data.save(at["rows.bins"]),
    "checkpoint": lambda: bg.train(params, data, callbacks=[bg.checkpoint(at["checkpoint"], 20)]),
}
def refused(why):
    for kind, write in writers.items():
        try:
            write()
            print(why, kind, "written")
        except OSError as error:
            print(why, kind, os.path.basename(error.filename), error.strerror.replace(" ", "_"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, -1))
refused("quota")
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
os.chmod(folder, 0o555)
if os.geteuid() == 0:
    os.setuid(54321)  # root may write anywhere
refused("read-only")
"""


@posix
def test_no_kind_of_file_is_lost_for_want_of_room_or_rights(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for above in (tmp_path, *tmp_path.parents[:2]):  # so that another user can look inside
        above.chmod(above.stat().st_mode | 0o055)
    kinds = ["model", "export.json", "report.html", "rows.bins", "checkpoint"]
    for kind in kinds:
        (folder / kind).write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EVERY_KIND, str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *(f"quota {kind} {kind} File_too_large" for kind in kinds),
        *(f"read-only {kind} {kind} Permission_denied" for kind in kinds),
    ]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == dict.fromkeys(
        kinds, b"old"
    )
