"""The lab's borders: what it may import of the library, and that the library never imports it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PUBLIC = {
    "bitgrove", "bitgrove.callbacks", "bitgrove.dask", "bitgrove.distributed", "bitgrove.theory",
}  # fmt: skip
_IMPORT = re.compile(r"^\s*(?:from|import) ([\w.]+)", re.MULTILINE)


def _imports(path: Path) -> set[str]:
    return set(_IMPORT.findall(path.read_text(encoding="utf-8")))


def test_only_internals_reaches_below_the_public_names() -> None:
    for path in (ROOT / "lab").rglob("*.py"):
        if path.name != "internals.py":
            below = {n for n in _imports(path) if n.split(".")[0] == "bitgrove"} - PUBLIC
            assert not below, f"{path}: {below}"


def test_the_library_knows_nothing_of_the_lab() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert not any(name.split(".")[0] == "lab" for name in _imports(path)), path


def test_rooms_are_small() -> None:
    for folder in (ROOT / "lab").iterdir():
        if folder.is_dir():
            assert len(list(folder.glob("*.py"))) <= 14, folder
