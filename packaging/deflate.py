"""Compresses the files of a wheel again, as small as deflate can (`make wheel`).

`python packaging/deflate.py dist/bitgrove-*.whl` writes the same files, dates and rights by
zopfli: a few percent less to download, unpacked by every installer. The same wheel gives the same
bytes.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from unittest import mock

from zopfli.zlib import compress


class Zopfli:
    """What zipfile asks of a compressor; a zlib stream is deflate between a head and a sum."""

    def __init__(self, *_: object) -> None:
        self._content = bytearray()

    def compress(self, content: bytes) -> bytes:
        self._content += content
        return b""

    def flush(self) -> bytes:
        return compress(bytes(self._content))[2:-4]


def deflate(wheel: Path) -> None:
    smaller = wheel.with_suffix(".smaller")
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(smaller, "w") as made:
        for entry in given.infolist():
            content = given.read(entry)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with mock.patch("zipfile._get_compressor", Zopfli):
                made.writestr(entry, content)
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, now {smaller.stat().st_size:,}")
    smaller.replace(wheel)


if __name__ == "__main__":
    deflate(Path(sys.argv[1]))
