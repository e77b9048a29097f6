"""The records that cross: the core's NumPy dtypes are what kernels/shared/plans.h declares."""

from __future__ import annotations

import ctypes
import re
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from bitgrove import _core
from bitgrove.kernels import plans
from bitgrove.kernels.plans import SEARCH_NODE

HEADER = (files("bitgrove") / "kernels" / "shared" / "plans.h").read_text()
CODE = re.sub(r"//.*", "", HEADER)
TYPES: dict[str, Any] = {
    "double": ctypes.c_double,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "uint8_t": ctypes.c_uint8,
    "BinSet": ctypes.c_uint64 * 4,
}
# Never in an array: Python makes it by its own class.
CLASSES = {"Rounding"}
# A field of other records, four words of 64 bits.
PARTS = {"BinSet"}
# Hold records on their way to a GPU, or sums on their way back.
HOLDERS = {"Plan", "PlacedBins", "AnswerPlace"}


def declared() -> dict[str, list[tuple[str, str]]]:
    """(name, type) of every field of every struct, in order; functions are left out."""
    found = {}
    for name, body in re.findall(r"struct (\w+) \{\n(.*?)\n\};", CODE, flags=re.DOTALL):
        fields = re.findall(r"^  (\w+) (\w+(?:, \w+)*);", body, flags=re.MULTILINE)
        found[name] = [(field, kind) for kind, names in fields for field in names.split(", ")]
    return found


STRUCTS = declared()


def test_every_struct_is_known() -> None:
    assert set(STRUCTS) == set(_core.dtypes()) | CLASSES | PARTS | HOLDERS
    assert all(hasattr(_core, name) for name in CLASSES)
    assert CODE.count("struct ") == len(STRUCTS)


@pytest.mark.parametrize("name", sorted(_core.dtypes()))
def test_fields_and_sizes(name: str) -> None:
    """Names, types, offsets and size, as a C compiler lays the struct out."""
    fields = [(field, TYPES[kind]) for field, kind in STRUCTS[name]]
    layout = type(name, (ctypes.Structure,), {"_fields_": fields})
    dtype = _core.dtypes()[name]
    assert list(dtype.names) == [field for field, _ in fields]
    assert dtype.itemsize == ctypes.sizeof(layout)
    for field, kind in fields:
        kept, offset = dtype.fields[field][:2]
        assert kept == np.dtype(kind) and offset == getattr(layout, field).offset


def test_python_has_a_name_for_each() -> None:
    def constant(name: str) -> str:
        return re.sub(r"(?<!^)([A-Z])", r"_\1", name).upper()

    for name, dtype in _core.dtypes().items():
        assert getattr(plans, constant(name)) is dtype


def test_constants() -> None:
    """Every constant of the header is the core's, and those written as numbers have their value."""
    listed = re.findall(r"constexpr \w+ ([^;]+);", CODE)
    pairs = [part.split(" = ") for parts in listed for part in parts.split(", ")]
    assert {name for name, _ in pairs} == set(_core.constants)
    numbers = {name: int(text.rstrip("u"), 0) for name, text in pairs if text[0].isdigit()}
    assert len(numbers) >= 8
    assert {name: _core.constants[name] for name in numbers} == numbers


def test_records_start_as_zeros() -> None:
    made = plans.records(plans.BUILD, 3, slot=[1, 2, 3], begin=7)
    assert made.dtype == plans.BUILD and made["slot"].tolist() == [1, 2, 3]
    assert made["begin"].tolist() == [7] * 3 and not made["end"].any()
    with pytest.raises(ValueError, match="no field"):
        plans.records(plans.BUILD, 1, slots=1)
    nothing = plans.no_splits(2)
    assert nothing[["gain", "feature", "bin"]].tolist() == [(-np.inf, -1, 0)] * 2
    assert not nothing["left_bins"].any()


def test_records_at_an_odd_address_are_refused() -> None:
    """NumPy calls them aligned, and the core would read them as if they were."""
    memory = np.zeros(SEARCH_NODE.itemsize + 16, dtype=np.uint8)
    first = 1 + -memory.ctypes.data % 8
    odd = memory[first : first + SEARCH_NODE.itemsize].view(SEARCH_NODE)
    with pytest.raises(TypeError):
        _core.CudaTree().find(odd, (0, 0))
    assert len(_core.CudaTree().find(odd[:0].copy(), (0, 0))) == 0
