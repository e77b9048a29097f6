"""Compresses the files of a wheel again, as small as deflate can (`make wheel`).

`python packaging/deflate.py dist/bitgrove-*.whl` writes the same files, dates and rights by
zopfli: a few percent less to download, unpacked by every installer. The same wheel gives the same
bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from zopfli.zipfile import ZIP_DEFLATED, ZipFile


def deflate(wheel: Path) -> None:
    smaller = wheel.with_suffix(".smaller")
    with ZipFile(wheel) as given, ZipFile(smaller, "w") as made:
        for entry in given.infolist():
            content = given.read(entry)
            entry.compress_type = ZIP_DEFLATED
            made.writestr(entry, content)
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, now {smaller.stat().st_size:,}")
    smaller.replace(wheel)


if __name__ == "__main__":
    deflate(Path(sys.argv[1]))
