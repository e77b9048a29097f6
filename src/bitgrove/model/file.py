"""The model file's bytes.

Owns: the one binary format (docs/model_format.md) and its checks.
Receives: a Model to write, or bytes that nobody vouches for. Returns: canonical bytes (equal models
have equal bytes), or a Model whose every index has been checked; all else is a ModelFormatError.
"""

from __future__ import annotations

import hashlib
import reprlib
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from bitgrove.errors import ModelFormatError
from bitgrove.machine import headers
from bitgrove.model import category_file
from bitgrove.model.checks import ROOM_FOR_CLASSES
from bitgrove.model.forest_checks import check_forest, refuse
from bitgrove.model.tree import Tree
from bitgrove.params import DEFAULTS_VERSION, changed_params, complete_params
from bitgrove.provenance.record import TrainingRecord

if TYPE_CHECKING:
    from bitgrove.model.model import Model

MAGIC = b"BITGROVE"
VERSION = 2
MAX_HEADER_BYTES = headers.MAX_HEADER_BYTES
_PREAMBLE = struct.Struct("<8sIQ")  # magic, version, header length
_CHECKSUM_BYTES = hashlib.sha256().digest_size
_ALIGNMENT = 8  # arrays are used where they lie in the file's bytes

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
T = TypeVar("T")
P = ParamSpec("P")


class _Section(NamedTuple):
    name: str
    dtype: str
    per: str  # what it has one value for


_SECTIONS = (
    _Section("base_score", "<f8", "output"),
    _Section("tree_splits", "<i4", "tree"),
    _Section("feature", "<i4", "split"),
    _Section("split_bin", "|u1", "split"),
    _Section("threshold", "<f8", "split"),
    _Section("default_left", "|u1", "split"),
    _Section("left", "<i4", "split"),
    _Section("right", "<i4", "split"),
    _Section("gain", "<f8", "split"),
    _Section("split_rows", "<i8", "split"),
    _Section("split_hess", "<f8", "split"),
    _Section("leaf_value", "<f8", "leaf"),
    _Section("leaf_rows", "<i8", "leaf"),
    _Section("leaf_hess", "<f8", "leaf"),
)

_HEADER_TYPES: dict[str, tuple[type, ...]] = {
    "best_iteration": (int, type(None)),
    "classes": (list, type(None)),
    "classes_dtype": (str, type(None)),
    "defaults": (int,),
    "feature_names": (list,),
    "n_outputs": (int,),
    "n_splits": (int,),
    "n_trees": (int,),
    "objective": (str,),
    "params": (dict,),
    "sections": (list,),
}
# Only where the model has them.
_OPTIONAL_TYPES: dict[str, tuple[type, ...]] = {"categories": (dict,), "training": (dict,)}
_SECTION_TYPES: dict[str, tuple[type, ...]] = {
    "dtype": (str,),
    "name": (str,),
    "offset": (int,),
    "shape": (list,),
}


def _refusing(work: Callable[P, T]) -> Callable[P, T]:
    """What is wrong with a header is a ModelFormatError."""

    @wraps(work)
    def refused(*given: P.args, **named: P.kwargs) -> T:
        try:
            return work(*given, **named)
        except headers.BadHeader as error:
            raise ModelFormatError(str(error)) from error

    return refused


@_refusing
def encode(model: Model, *, with_record: bool = True) -> bytes:
    """The model's bytes. What `decode` would refuse is refused here already."""
    header, arrays = _described(model, with_record)
    parts: list[bytes | memoryview] = [_PREAMBLE.pack(MAGIC, VERSION, len(header)) + header]
    parts += [array.data.cast("B") for array in arrays]
    checksum = hashlib.sha256()
    pieces = [piece for part in parts for piece in (part, bytes(_gap(len(part))))]
    for piece in pieces:
        checksum.update(piece)
    return b"".join([*pieces, checksum.digest()])


def _described(model: Model, with_record: bool) -> tuple[bytes, list[npt.NDArray[Any]]]:
    """The header, and the arrays in its order; a ModelFormatError where `decode` would have one."""
    arrays = _arrays_of(model)
    categories, of_categories = category_file.described(model)
    arrays |= of_categories
    check_forest(arrays, model.n_columns)
    category_file.check_sets(arrays, model.encoder)
    record = model.record.facts() if with_record and model.record is not None else None
    header, sections = _header(model, len(arrays["feature"]), categories, record)
    _parse_header(header, VERSION)
    return header, [arrays[section["name"]] for section in sections]


def _header(
    model: Model,
    n_splits: int,
    categories: Mapping[str, Any] | None,
    record: Mapping[str, Any] | None = None,
) -> tuple[bytes, list[dict[str, Any]]]:
    """As it is written, and its sections."""
    sections, _ = _layout(model.n_outputs, len(model.trees), n_splits, categories)
    header = headers.canonical_json(
        {
            **({"categories": categories} if categories else {}),
            **({"training": record} if record else {}),
            "best_iteration": model.best_iteration,
            "classes": model.classes,
            "classes_dtype": model.classes_dtype,
            "defaults": DEFAULTS_VERSION,
            "feature_names": model.feature_names,
            "n_outputs": model.n_outputs,
            "n_splits": n_splits,
            "n_trees": len(model.trees),
            "objective": model.objective,
            "params": changed_params(model.params),
            "sections": sections,
        }
    )
    return header, sections


@_refusing
def check_room(model: Model) -> None:
    """Refuses names and parameters of a model without trees that cannot be written as a header, or
    leave no room in it for labels of classes."""
    categories, _ = category_file.described(model)
    size, most = len(_header(model, 0, categories)[0]), MAX_HEADER_BYTES - ROOM_FOR_CLASSES
    if size > most:
        refuse(f"names and parameters take {size} bytes as JSON; at most {most} are allowed")


@_refusing
def decode(data: bytes | bytearray | memoryview) -> Model:
    """The model that these bytes hold; its arrays are read-only views of them."""
    from bitgrove.model.model import Model  # model.py imports this room

    content = data if isinstance(data, bytes) else bytes(memoryview(data))
    version, header_bytes, payload = _open(content)
    header = _parse_header(header_bytes, version)
    arrays = _arrays_in(payload, header)
    n_features = len(header["feature_names"])
    encoder = category_file.encoder_of(header.get("categories"), arrays, n_features)
    check_forest(arrays, n_features if encoder is None else encoder.n_columns)
    category_file.check_sets(arrays, encoder)
    return Model(
        objective=header["objective"],
        trees=_trees_of(arrays),
        encoder=encoder,
        base_score=arrays["base_score"],
        feature_names=header["feature_names"],
        params=_params_in(header),
        classes=header["classes"],
        classes_dtype=header["classes_dtype"],
        best_iteration=header["best_iteration"],
        record=TrainingRecord.read(header["training"]) if "training" in header else None,
    )


def check_magic(start: bytes) -> None:
    """Refuse a file by its first bytes, before the rest is read."""
    if start != MAGIC:
        refuse(
            "not a bitgrove model file (it does not begin with 'BITGROVE'); models of LightGBM and "
            "XGBoost are read by import_model() and `bitgrove convert`"
        )


def _gap(size: int) -> int:
    """How many zero bytes follow something of this size."""
    return -size % _ALIGNMENT


def _open(data: bytes) -> tuple[int, bytes, memoryview]:
    """Check the envelope; give the format's version, the header's bytes and the payload."""
    check_magic(data[: len(MAGIC)])
    if len(data) < _PREAMBLE.size + _CHECKSUM_BYTES:
        refuse(f"cut off: only {len(data)} bytes")
    _, version, header_size = _PREAMBLE.unpack_from(data)
    if not 1 <= version <= VERSION:
        refuse(f"format version {version} is unknown; this bitgrove reads 1 to {VERSION}")
    body = memoryview(data)[:-_CHECKSUM_BYTES]
    if hashlib.sha256(body).digest() != data[-_CHECKSUM_BYTES:]:
        refuse("checksum mismatch: the file is damaged or cut off")
    header_end = _PREAMBLE.size + header_size
    payload_start = header_end + _gap(header_end)
    if payload_start > len(body):
        refuse(f"a header of {header_size} bytes does not fit into the file")
    if any(body[header_end:payload_start]):
        refuse("the padding after the header is not zero")
    return version, bytes(body[_PREAMBLE.size : header_end]), body[payload_start:]


def _parse_header(data: bytes, version: int) -> dict[str, Any]:
    """The header, of its version's keys and types, in the only spelling that is allowed."""
    header = headers.read_json(data, MAX_HEADER_BYTES)
    later = ("defaults",) if version == 1 else ()
    types = {key: kinds for key, kinds in _HEADER_TYPES.items() if key not in later}
    if version > 1 and isinstance(header, dict):
        types |= {key: kinds for key, kinds in _OPTIONAL_TYPES.items() if key in header}
    headers.check_types("the header", header, types)
    if header["classes"] is not None and header["classes_dtype"] is None:
        refuse("classes without classes_dtype")  # NumPy would have to guess it, at any price
    headers.check_canonical(header, data)
    return dict(header)


def _params_in(header: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters. Version 1 of the format wrote them out, and had version 1 of the defaults."""
    params, version = header["params"], header.get("defaults", 1)
    if not 1 <= version <= DEFAULTS_VERSION:
        refuse(f"defaults {version} are unknown; this bitgrove knows 1 to {DEFAULTS_VERSION}")
    if "defaults" in header and (same := params.keys() - changed_params(params, version)):
        refuse(f"the header spells out defaults: {reprlib.repr(sorted(same))}")
    return complete_params(params, version)


def _layout(
    n_outputs: int, n_trees: int, n_splits: int, categories: Mapping[str, Any] | None = None
) -> tuple[list[dict[str, Any]], int]:
    """The only possible section list for these counts, and the payload's size (exact integers)."""
    counts = {
        "output": n_outputs,
        "tree": n_trees,
        "split": n_splits,
        "leaf": n_splits + n_trees,
    }
    sections: list[dict[str, Any]] = []
    offset = 0
    lengths = [(name, dtype, counts[per]) for name, dtype, per in _SECTIONS]
    for name, dtype, length in [*lengths, *category_file.sections(categories)]:
        sections.append({"name": name, "dtype": dtype, "shape": [length], "offset": offset})
        size = np.dtype(dtype).itemsize * length
        offset += size + _gap(size)
    return sections, offset


def _arrays_in(payload: memoryview, header: Mapping[str, Any]) -> Arrays:
    """Views of the payload. Nothing is sized by the header before it agrees with the real size."""
    counts = {name: header[name] for name in ("n_outputs", "n_trees", "n_splits")}
    for name, count in counts.items():
        if count < 0:
            refuse(f"{name} is {count}")
    categories = header.get("categories")
    category_file.check_description(categories, len(header["feature_names"]))
    expected, size = _layout(**counts, categories=categories)
    _check_sections(header["sections"], expected)
    if len(payload) != size:
        refuse(f"the payload has {len(payload)} bytes, its sections need {size}")
    arrays: Arrays = {}
    for entry in expected:
        dtype, offset, length = np.dtype(entry["dtype"]), entry["offset"], entry["shape"][0]
        end = offset + length * dtype.itemsize
        if any(payload[end : end + _gap(end)]):
            refuse(f"section {entry['name']}: the padding after it is not zero")
        view: Array = np.ndarray(length, dtype, buffer=payload, offset=offset)
        arrays[entry["name"]] = view.astype(dtype.newbyteorder("="), copy=False)
    return arrays


def _check_sections(given: Sequence[object], expected: Sequence[Mapping[str, Any]]) -> None:
    if headers.canonical_json(given) == headers.canonical_json(expected):
        return
    for index, (entry, wanted) in enumerate(zip(given, expected, strict=False)):
        headers.check_types(f"section {index}", entry, _SECTION_TYPES)
        assert isinstance(entry, dict)
        for key in ("name", "dtype", "shape", "offset"):
            # As JSON, because 1 == True == 1.0 in Python.
            if headers.canonical_json(entry[key]) != headers.canonical_json(wanted[key]):
                refuse(
                    f"section {index} ({wanted['name']}): {key} is {reprlib.repr(entry[key])}, "
                    f"expected {wanted[key]!r}"
                )
    if len(given) != len(expected):
        refuse(f"there are {len(given)} sections, expected {len(expected)}")


def _arrays_of(model: Model) -> Arrays:
    """The sections' arrays: each field of all trees, end to end."""
    n_splits = [tree.n_splits for tree in model.trees]
    lengths = {"split": n_splits, "leaf": [count + 1 for count in n_splits]}
    arrays: Arrays = {
        "base_score": np.ascontiguousarray(model.base_score, "<f8"),
        "tree_splits": np.array(n_splits, "<i4"),
    }
    for name, dtype, per in _SECTIONS[len(arrays) :]:
        parts = [np.asarray(getattr(tree, name)) for tree in model.trees]
        if [part.shape[0] for part in parts] != lengths[per]:
            refuse(f"a tree's {name} array does not have one value per {per}")
        try:
            arrays[name] = np.concatenate([np.empty(0, dtype), *parts], dtype=dtype, casting="safe")
        except (TypeError, ValueError) as error:
            raise ModelFormatError(f"the trees' {name} arrays: {error}") from error
    return arrays


def _trees_of(arrays: Arrays) -> list[Tree]:
    n_splits = arrays["tree_splits"].astype(np.int64)
    ends = {"split": np.cumsum(n_splits).tolist(), "leaf": np.cumsum(n_splits + 1).tolist()}
    parts: dict[str, list[Array]] = {}
    for name, _, per in _SECTIONS:
        if per in ends:
            spans = zip([0, *ends[per]], ends[per], strict=False)
            parts[name] = [arrays[name][start:end] for start, end in spans]
    parts["left_bins"] = category_file.sets_by_tree(arrays, n_splits)
    fields = zip(*parts.values(), strict=True)
    return [Tree(**dict(zip(parts, values, strict=True))) for values in fields]
