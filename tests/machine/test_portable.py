"""The core is standard C++ apart from a few files: what other compilers and processors get."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What is no standard C++, and where it may be: behind names of ours, or behind #if.
WORDS = r"__builtin_\w+|__attribute__|__int128|__declspec|asm|atomic_ref|omp\w*"
LATE = "make_unique_for_overwrite"  # not in the C++ library of Apple's older compilers
EXTENSIONS = re.compile(rf"\b({WORDS}|{LATE})\b")
MAY_USE = {"cpp/common/compiler.h", "cpp/common/simd.h", "cpp/tree/scan.h"}
MAY_USE |= {"src/bitgrove/kernels/shared/layouts.h"}
FILES = sorted(
    file
    for folder in ("cpp", "src/bitgrove/kernels/shared", "src/bitgrove/kernels/growth")
    for file in (ROOT / folder).rglob("*")
    if file.suffix in (".h", ".cpp")
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_extensions_are_behind_names(file: Path) -> None:
    code = re.sub(r"//.*", "", file.read_text())
    if str(file.relative_to(ROOT)) not in MAY_USE:
        assert not EXTENSIONS.findall(code)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_vector_code_is_behind_its_instruction_set(file: Path) -> None:
    """Every use of an intrinsic is between #if defined(BG_X86) and its #else or #endif."""
    guards: list[bool] = []
    for line in file.read_text().splitlines():
        if line.startswith("#if"):
            guards.append("BG_X86" in line)
        elif line.startswith("#el"):
            guards[-1] = False
        elif line.startswith("#endif"):
            guards.pop()
        elif re.search(r"\b_mm\d*_|\b__m\d+|BG_TARGET_AVX", line) and not line.startswith("//"):
            assert any(guards), line
