"""The file of a binned Dataset: bytes that are mapped into memory and trained on where they lie.

Owns the format (docs/streams.md) and its checks. Receives a Dataset whose numbers are bins, or the
path of a file that nobody vouches for; whatever is wrong with one is a DataError that names it.
Layout: magic, version and length of the header; the header as canonical JSON; arrays, each at a
cache line; last the checksum, a sha256 of the sha256 of every 16 MiB.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.limits import MAX_MAGNITUDE, MIN_WEIGHT
from bitgrove.data.binned.host import COLUMN_PADDING, empty_bins, whole_bins
from bitgrove.data.binned.level_arrays import (
    check_described,
    described_levels,
    level_arrays,
    level_sections,
    levels_in,
)
from bitgrove.data.binning import Binning
from bitgrove.data.levels import missing_code
from bitgrove.data.tables import MAX_ROWS, Columns
from bitgrove.errors import DataError
from bitgrove.machine.files import PathLike, replacing
from bitgrove.machine.headers import (
    BadHeader,
    canonical_json,
    check_canonical,
    check_types,
    read_json,
    refuse,
)
from bitgrove.machine.threads import available_cores

MAGIC = b"BITGBINS"
VERSION = 1
_PREAMBLE = struct.Struct("<8sIQ")  # magic, version, header length
_ALIGNMENT = 64
_CHUNK = 16 << 20  # that one checksum is of
_MOST_BIN = 255
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LIMITS = {"text_bytes": 1 << 62}
Array = NDArray[Any]
_HEADER_TYPES: dict[str, tuple[type, ...]] = {
    "binning": (dict,),
    "categories": (list,),
    "feature_names": (list,),
    "n_edges": (list,),
    "n_queries": (int, type(None)),
    "n_rows": (int,),
    "rows": (str,),
    "label": (int, type(None)),
    "init_score": (int, type(None)),
    "has_weight": (bool,),
    "text_bytes": (int,),
}
_BINNING_TYPES = dict.fromkeys(Binning._fields, (int,))


class Parts(NamedTuple):
    """Of a Dataset: its columns with the edges of those that are bins, and what goes with rows."""

    table: Columns
    edges: Mapping[int, Array]
    binning: Binning
    digest: str  # the fingerprint of the values
    label: Array | None
    weight: Array | None
    group: Array | None
    init_score: Array | None


class _Section(NamedTuple):
    name: str
    dtype: str
    shape: list[int]

    @property
    def n_bytes(self) -> int:
        n = np.dtype(self.dtype).itemsize
        for size in self.shape:
            n *= size
        return n


def write(path: PathLike, parts: Parts) -> None:
    """Writes the file: the whole of it or nothing."""
    header, arrays = _header_of(parts), _arrays_of(parts)
    text = canonical_json(header)
    _check_header(header, text)
    with replacing(path) as file:
        checksum = _Checksum()
        start = _PREAMBLE.pack(MAGIC, VERSION, len(text)) + text
        for piece in _pieces(start, [arrays[section.name] for section in _sections(header)]):
            file.write(piece)
            checksum.update(piece)
        file.write(checksum.digest())


def _pieces(start: bytes, arrays: Sequence[Array]) -> Iterator[Any]:
    yield start
    yield bytes(-len(start) % _ALIGNMENT)
    for array in arrays:
        data: Any = np.ascontiguousarray(array).data.cast("B") if array.size else b""
        yield data
        yield bytes(-len(data) % _ALIGNMENT)


class _Checksum:
    """The sha256 of the sha256 of every chunk, of bytes that come in pieces."""

    def __init__(self) -> None:
        self._all, self._chunk, self._n = hashlib.sha256(), hashlib.sha256(), 0

    def update(self, piece: Any) -> None:
        view = memoryview(piece)
        while len(view):
            part = view[: _CHUNK - self._n]
            self._chunk.update(part)
            self._n += len(part)
            view = view[len(part) :]
            if self._n == _CHUNK:
                self._close()

    def _close(self) -> None:
        self._all.update(self._chunk.digest())
        self._chunk, self._n = hashlib.sha256(), 0

    def digest(self) -> bytes:
        if self._n:
            self._close()
        return self._all.digest()


def checksum_of(data: memoryview) -> bytes:
    """The same, by all threads."""
    starts = range(0, len(data), _CHUNK)
    with ThreadPoolExecutor(min(available_cores(), 8)) as pool:
        chunks = pool.map(lambda at: hashlib.sha256(data[at : at + _CHUNK]).digest(), starts)
        return hashlib.sha256(b"".join(chunks)).digest()


def _header_of(parts: Parts) -> dict[str, Any]:
    levels, n_features = parts.table.levels, len(parts.table.values)
    group = parts.group
    return {
        "binning": parts.binning._asdict(),
        "categories": described_levels(levels),
        "feature_names": parts.table.names,
        "n_edges": [len(parts.edges[f]) if f in parts.edges else -1 for f in range(n_features)],
        "n_queries": None if group is None else len(group),
        "n_rows": len(parts.table.values[0]),
        "rows": parts.digest,
        "label": _width(parts.label),
        "init_score": _width(parts.init_score),
        "has_weight": parts.weight is not None,
        "text_bytes": len(level_arrays(levels)["level_text"]),
    }


def _width(part: Array | None) -> int | None:
    """Columns of a part; 0: it is one-dimensional."""
    return None if part is None else 0 if part.ndim == 1 else part.shape[1]


def _code_type(n_levels: int) -> Any:
    return np.dtype(np.min_scalar_type(missing_code(n_levels))).newbyteorder("<")


def _sections(header: Mapping[str, Any]) -> list[_Section]:
    """The only possible arrays for these counts."""
    n_rows, n_levels = header["n_rows"], {c["feature"]: c["n_levels"] for c in header["categories"]}
    wide = {f: _code_type(n) for f, n in n_levels.items() if missing_code(n) > _MOST_BIN}
    n_bytes = len(header["feature_names"]) - len(wide)
    found = [
        _Section("edges", "<f8", [sum(n for n in header["n_edges"] if n > 0)]),
        *(_Section(*one) for one in level_sections(header["categories"], header["text_bytes"])),
        _Section("bins", "|u1", [n_bytes, n_rows + COLUMN_PADDING]),
        *(_Section(f"codes {f}", dtype.str, [n_rows]) for f, dtype in wide.items()),
    ]
    for part, dtype in (("label", "<f8"), ("init_score", "<f8")):
        if header[part] is not None:
            found.append(_Section(part, dtype, [n_rows, *([header[part]] if header[part] else [])]))
    if header["has_weight"]:
        found.append(_Section("weight", "<f4", [n_rows]))
    if header["n_queries"] is not None:
        found.append(_Section("group", "<i8", [header["n_queries"]]))
    return found


def _arrays_of(parts: Parts) -> dict[str, Array]:
    columns, edges, n_rows = parts.table.values, parts.edges, len(parts.table.values[0])
    narrow = [f for f, column in enumerate(columns) if column.dtype == np.uint8]
    bins = whole_bins([columns[f] for f in narrow]) if narrow else None
    if bins is None:
        bins = empty_bins(len(narrow), n_rows)
        for row, f in zip(bins, narrow, strict=True):
            row[:n_rows] = columns[f]
    arrays = {
        "edges": np.concatenate([np.zeros(0), *(edges[f] for f in sorted(edges))]),
        "bins": bins,
        **level_arrays(parts.table.levels),
        **{f"codes {f}": columns[f] for f in range(len(columns)) if f not in narrow},
    }
    for name in ("label", "init_score", "weight", "group"):
        if getattr(parts, name) is not None:
            arrays[name] = getattr(parts, name)
    return arrays


def read(path: PathLike) -> Parts:
    """The parts, mapped from the file; its pages are shared with all who read it."""
    try:
        data = _mapped(path)
        header, payload = _open(data)
        return _checked_parts(header, _arrays_in(header, payload))
    except BadHeader as error:
        raise DataError(f"{os.fspath(path)}: {error}") from error


def _mapped(path: PathLike) -> mmap.mmap:
    """Private pages: what is written to them would stay in this process, and nothing is."""
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            refuse("not a regular file")
        if file.read(len(MAGIC)) != MAGIC:
            refuse("not a file of a binned Dataset (it does not begin with 'BITGBINS')")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _open(data: mmap.mmap) -> tuple[dict[str, Any], memoryview]:
    """Check the envelope; give the header and the arrays' bytes."""
    n_checksum = hashlib.sha256().digest_size
    if len(data) < _PREAMBLE.size + n_checksum:
        refuse(f"cut off: only {len(data)} bytes")
    _, version, size = _PREAMBLE.unpack_from(data)
    if version != VERSION:
        refuse(f"format version {version} is unknown; this bitgrove reads {VERSION}")
    body = memoryview(data)[:-n_checksum]
    if checksum_of(body) != data[-n_checksum:]:
        refuse("checksum mismatch: the file is damaged or cut off")
    end = _PREAMBLE.size + size
    start = end + -end % _ALIGNMENT
    if start > len(body):
        refuse(f"a header of {size} bytes does not fit into the file")
    if any(body[end:start]):
        refuse("the padding after the header is not zero")
    text = bytes(body[_PREAMBLE.size : end])
    header = read_json(text)
    _check_header(header, text)
    return header, body[start:]


def _check_header(header: Any, text: bytes) -> None:
    """Types and bounds, before anything is sized by it."""
    check_types("the header", header, _HEADER_TYPES)
    check_canonical(header, text)
    check_types("binning", header["binning"], _BINNING_TYPES)
    names, n_edges = header["feature_names"], header["n_edges"]
    if not _DIGEST.fullmatch(header["rows"]):
        refuse("rows is not a sha256 in hexadecimal")
    if not names or not all(isinstance(name, str) for name in names):
        refuse("feature_names are not texts")
    if len(set(names)) != len(names):
        refuse("feature_names are not unique")
    check_described(header["categories"], len(names))
    for name in ("n_rows", "n_queries", "label", "init_score", "text_bytes"):
        if header[name] is not None and not 0 <= header[name] <= _LIMITS.get(name, MAX_ROWS):
            refuse(f"{name} is {header[name]}")
    if len(n_edges) != len(names) or not all(type(n) is int for n in n_edges):
        refuse("n_edges does not have a number for each feature")
    categories = {item["feature"] for item in header["categories"]}
    most = header["binning"]["max_bin"] - 1
    for f, n in enumerate(n_edges):
        if not (n == -1 if f in categories else 0 <= n <= min(most, _MOST_BIN - 1)):
            refuse(f"feature {f} has {n} edges")


def _arrays_in(header: Mapping[str, Any], payload: memoryview) -> dict[str, Array]:
    """Views of the payload. Nothing is sized by the header before it agrees with the real size."""
    sections, offset = _sections(header), 0
    size = sum(s.n_bytes + -s.n_bytes % _ALIGNMENT for s in sections)
    if len(payload) != size:
        refuse(f"the arrays have {len(payload)} bytes, the header says {size}")
    arrays: dict[str, Array] = {}
    for section in sections:
        dtype, end = np.dtype(section.dtype), offset + section.n_bytes
        view: Array = np.ndarray(tuple(section.shape), dtype, buffer=payload, offset=offset)
        arrays[section.name] = view.astype(dtype.newbyteorder("="), copy=False)
        offset = end + -end % _ALIGNMENT
        if any(payload[end:offset]):
            refuse(f"the padding after {section.name} is not zero")
    return arrays


def _checked_parts(header: Mapping[str, Any], arrays: dict[str, Array]) -> Parts:
    """Every value that a training relies on is looked at."""
    n_rows, items = header["n_rows"], header["categories"]
    levels = levels_in(items, arrays)
    ends = np.cumsum([max(n, 0) for n in header["n_edges"]])
    edges: dict[int, Array] = {}
    columns: list[Array] = []
    rows = iter(arrays["bins"])
    for f, (n, end) in enumerate(zip(header["n_edges"], ends.tolist(), strict=True)):
        column = arrays[f"codes {f}"] if f"codes {f}" in arrays else next(rows)[:n_rows]
        columns.append(column)
        last = missing_code(len(levels[f])) if f in levels else n + 1
        if int(column.max(initial=0)) > last:
            refuse(f"feature {f}: a bin is above {last}")
        if f not in levels:
            edges[f] = arrays["edges"][end - n : end]
            if np.isnan(edges[f]).any() or not (np.diff(edges[f]) > 0).all():
                refuse(f"feature {f}: the edges do not increase")
    _check_rows(arrays, n_rows)
    given = (arrays.get(name) for name in ("label", "weight", "group", "init_score"))
    table = Columns(columns, list(header["feature_names"]), levels)
    return Parts(table, edges, Binning(**header["binning"]), header["rows"], *given)


def _check_rows(arrays: Mapping[str, Array], n_rows: int) -> None:
    for name in ("label", "init_score", "weight"):
        values = arrays.get(name, np.zeros(0))
        low, high = values.min(initial=0.0), values.max(initial=0.0)
        if not -MAX_MAGNITUDE <= low <= high <= MAX_MAGNITUDE:  # nor NaN
            refuse(f"{name} holds {low if low < -MAX_MAGNITUDE else high:g}")
    if "weight" in arrays and not (arrays["weight"] >= MIN_WEIGHT).all():
        refuse("a weight is not positive")
    if "group" in arrays:
        sizes = arrays["group"]
        if (sizes <= 0).any() or sum(sizes.tolist()) != n_rows:
            refuse(f"the sizes of queries do not add up to {n_rows} rows")
