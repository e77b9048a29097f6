"""Makes wheels smaller (`make wheel`, cibuildwheel): `smaller.py WHEEL_OR_FOLDER [TO_FOLDER]`.

Without another folder in place. Comments of sources stay out (comments.py), and so do the stub of
the core, which mypy and editors read in the repository, what `make docs` makes the page of
parameters with, and entries of folders. The rest is compressed by zopfli, as small as deflate can,
unpacked by every installer. Dates and rights stay; the same wheel gives the same bytes.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from unittest import mock

from comments import without_comments
from zopfli.zlib import compress

PAGE = ("/params/__main__.py", "/params/reasons.py", "/params/reference_page.py")
LEFT_OUT = ("/_core.pyi", "/", *PAGE)


class Zopfli:
    """What zipfile asks of a compressor; a zlib stream is deflate between a head and a sum."""

    def __init__(self, *_: object) -> None:
        self._content = bytearray()

    def compress(self, content: bytes) -> bytes:
        self._content += content
        return b""

    def flush(self) -> bytes:
        return compress(bytes(self._content), blocksplittingmax=0)[2:-4]


def _record_line(name: str, content: bytes) -> str:
    digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def make_smaller(wheel: Path) -> None:
    smaller, lines = wheel.with_suffix(".smaller"), []
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(smaller, "w") as made:
        entries = [one for one in given.infolist() if not one.filename.endswith(LEFT_OUT)]
        for entry in sorted(entries, key=lambda one: one.filename.endswith("/RECORD")):
            name = entry.filename
            if name.endswith("/RECORD"):  # the last one: it lists the others
                content = "".join([*lines, f"{name},,\n"]).encode()
            else:
                content = without_comments(name, given.read(entry))
                lines.append(_record_line(name, content))
            entry.compress_type = zipfile.ZIP_DEFLATED
            with mock.patch("zipfile._get_compressor", Zopfli):
                made.writestr(entry, content)
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, now {smaller.stat().st_size:,}")
    smaller.replace(wheel)


def main(given: str, to: str | None = None) -> None:
    path = Path(given)
    for wheel in sorted(path.glob("*.whl")) if path.is_dir() else [path]:
        make_smaller(Path(shutil.copy(wheel, to)) if to else wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
