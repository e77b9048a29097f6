"""The official files of the paper's datasets, with its splits.

Owns one reader per dataset. Each receives the folder that holds the files (also packed with gzip or
bzip2) and returns a Task of float32 features. SVMlight text is read in pieces, so that memory stays
near that of the table itself. A file that cannot be understood is a DataError with its name.
"""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from bitgrove import DataError
from lab.datasets.encoding import encode_categories
from lab.datasets.task import Array, Task, run_lengths
from lab.internals import tables

_PIECE = 64 << 20  # bytes of text at a time
_CRITEO_TRAIN, _CRITEO_TEST = 41_256_555, 4_584_061
_BOSCH_TRAIN, _YEAR_TRAIN, _HIGGS_TEST = 1_000_000, 463_715, 500_000


def read_higgs(folder: Path) -> Task:
    """The last 500,000 rows are the test set, as in the set's description."""
    table = _read_csv(_find(folder, "HIGGS.csv"), header=False)
    X, y, cut = table[:, 1:], table[:, 0], len(table) - _HIGGS_TEST
    return Task.cut("higgs", "binary", X, y, cut)


def read_year(folder: Path) -> Task:
    """The first 463,715 songs train, the others test: no artist is in both."""
    table = _read_csv(_find(folder, "YearPredictionMSD.txt"), header=False)
    X, y, cut = table[:, 1:], table[:, 0], _YEAR_TRAIN
    return Task.cut("year", "regression", X, y, cut)


def read_bosch(folder: Path) -> Task:
    """Columns Id, 968 measurements, Response; the first million rows train."""
    table = _read_csv(_find(folder, "train_numeric.csv"), header=True)
    X, y, cut = table[:, 1:-1], table[:, -1], _BOSCH_TRAIN
    return Task.cut("bosch", "binary", X, y, cut)


def read_epsilon(folder: Path) -> Task:
    X, y, _ = _read_svmlight(_find(folder, "epsilon_normalized"), 2000)
    X_test, y_test, _ = _read_svmlight(_find(folder, "epsilon_normalized.t"), 2000)
    return Task("epsilon", "binary", X, (y + 1) / 2, X_test, (y_test + 1) / 2)


def read_yahoo(folder: Path) -> Task:
    return _read_ranking("yahoo", folder, "set1.train.txt", "set1.test.txt", 700)


def read_letor(folder: Path) -> Task:
    return _read_ranking("letor", folder / "Fold1", "train.txt", "test.txt", 136)


def read_kitsune(folder: Path) -> Task:
    """Of each attack the first 80% of the packets train and the others test."""
    parts: list[list[Array]] = [[], [], [], []]
    for path in sorted(folder.glob("**/*_dataset.csv*")):
        labels = path.with_name(path.name.replace("_dataset.csv", "_labels.csv"))
        X = _read_csv(path, header=None)
        y = _read_csv(_find(labels.parent, labels.name.removesuffix(".gz")), header=None)[:, -1]
        if len(X) != len(y):
            raise DataError(f"{path}: {len(X):,} packets, but {len(y):,} labels in {labels.name}")
        cut = int(0.8 * len(X))
        for part, rows in zip(parts, (X[:cut], y[:cut], X[cut:], y[cut:]), strict=True):
            part.append(rows)
    X, y, X_test, y_test = (np.concatenate(part) for part in parts)
    return Task("kitsune", "binary", X, y, X_test, y_test)


def read_criteo(folder: Path) -> Task:
    """13 counts and 26 categories; the first and the last rows, as many as the paper names."""
    pyarrow, path = tables.arrow(), _find(folder, "train.txt")
    names = ["label", *(f"i{k}" for k in range(13)), *(f"c{k}" for k in range(26))]
    types = dict.fromkeys(names[:14], pyarrow.float32())
    types |= dict.fromkeys(names[14:], pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    try:
        table = pyarrow.csv.read_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=_PIECE),
            parse_options=pyarrow.csv.ParseOptions(delimiter="\t"),
            convert_options=pyarrow.csv.ConvertOptions(column_types=types),
        )
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    n = table.num_rows
    if n < _CRITEO_TRAIN + _CRITEO_TEST:
        raise DataError(
            f"{path}: {n:,} rows; the official file has {_CRITEO_TRAIN + _CRITEO_TEST + 1:,}"
        )
    kept = np.r_[:_CRITEO_TRAIN, n - _CRITEO_TEST : n]
    label = table["label"].to_numpy()[kept]
    codes = []
    for name in names[14:]:
        column = table[name].unify_dictionaries().combine_chunks()
        indices = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        codes.append(indices.astype(np.int64)[kept] + 1)  # a missing category is one of its own
    counts = np.column_stack([table[name].to_numpy()[kept] for name in names[1:14]])
    X = np.hstack([counts, encode_categories(codes, label, _CRITEO_TRAIN)])
    return Task.cut("criteo", "binary", X, label, _CRITEO_TRAIN)


def _read_ranking(name: str, folder: Path, train: str, test: str, n_features: int) -> Task:
    X, y, query = _read_svmlight(_find(folder, train), n_features)
    X_test, y_test, query_test = _read_svmlight(_find(folder, test), n_features)
    return Task(
        name, "lambdarank", X, y, X_test, y_test, run_lengths(query), run_lengths(query_test)
    )


def _find(folder: Path, name: str) -> Path:
    """The file, as it is or packed."""
    for suffix in ("", ".gz", ".bz2"):
        if (path := folder / f"{name}{suffix}").is_file():
            return path
    raise DataError(f"{folder / name}: no such file (also not as .gz or .bz2)")


def _open(path: Path) -> Any:
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
    return openers.get(path.suffix, open)(path, "rb")


def _read_csv(path: Path, header: bool | None) -> Array:
    """A table of numbers as float32; header None: there is one if its cells are no numbers."""
    pyarrow = tables.arrow()
    with _open(path) as file:
        first = file.readline().decode("ascii", "replace").strip()
    cells = first.split(",")
    if header is None:
        header = not all(_is_number(cell) for cell in cells)
    names = [f"{k}" for k in range(len(cells))]
    read = pyarrow.csv.ReadOptions(column_names=names, skip_rows=int(header), block_size=_PIECE)
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.float32()))
    try:
        table = pyarrow.csv.read_csv(path, read_options=read, convert_options=convert)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    found = np.empty((table.num_rows, len(names)), np.float32)
    for k in range(len(names)):
        found[:, k] = table.column(k).to_numpy()
    return found


def _is_number(text: str) -> bool:
    try:
        float(text.strip('"') or "nan")
    except ValueError:
        return False
    return True


def _read_svmlight(path: Path, n_features: int) -> tuple[Array, Array, Array]:
    """(features, labels, query ids) of a file in SVMlight format; absent features are zero."""
    parts: list[tuple[Array, Array, Array]] = []
    for line, piece in _pieces(path):
        try:
            X, y, query = load_svmlight_file(
                io.BytesIO(piece), n_features=n_features, query_id=True, dtype=np.float32
            )
        except ValueError as error:
            raise DataError(f"{path}: near line {line}: {error}") from error
        parts.append((X.toarray(), np.asarray(y, np.float32), query))
    if not parts:
        raise DataError(f"{path}: no rows")
    features, labels, queries = (np.concatenate(part) for part in zip(*parts, strict=True))
    return features, labels, queries


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number of the first line, whole lines of about _PIECE bytes)."""
    line = 1
    with _open(path) as file:
        while lines := file.readlines(_PIECE):
            yield line, b"".join(lines)
            line += len(lines)
