"""Tables in files, their columns explained: the lab's real sets, and those of the user.

Owns Spec and its reading. A user's spec is a small TOML or JSON file; the lab's own are written in
table. Returns a Task. Unknown keys are refused with a suggestion.

    name = "adult"
    files = ["adult.parquet"]        # in --data, or beside the spec file
    objective = "binary"             # binary, regression, multiclass or lambdarank
    label = "income"
    positive = ">50K"                # the label that counts as 1 (binary, if it is not 0/1)
    encode = ["workclass"]           # categories: target and count encoding; ["*"]: all text
    times = ["taken_at"]             # dates: minute of the day, day of the week, day of the year
    ignore = ["id"]
    group = "qid"                    # lambdarank: the column of query ids
    together = "user"                # rows of equal value are all training or all test rows
    split = {column = "part", train = ["train"], test = ["test"]}   # or: test_share = 0.2
    drop_missing_labels = false
    parameters = {learning_rate = 0.1, num_leaves = 31, min_child_weight = 1e-3}
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bitgrove import DataError, ParameterError
from lab.datasets.encoding import encode_categories
from lab.datasets.entry import Entry, Wanted, sample
from lab.datasets.task import Array, Task, run_lengths
from lab.internals import chosen_by_hash, files, tables

OBJECTIVES = ("binary", "regression", "multiclass", "lambdarank")
PARAMETERS = ("learning_rate", "num_leaves", "min_child_weight", "min_child_samples")
_SPLIT = 20220


@dataclass(frozen=True, kw_only=True)
class Spec(Entry):
    """Encoded categories follow the numbers; a split without a column is made by a hash."""

    files: list[str]
    label: str
    positive: Any = None
    group: str | None = None
    together: str | None = None
    weight: str | None = None
    encode: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    split: dict[str, Any] | None = None
    test_share: float = 0.2
    drop_missing_labels: bool = False
    parameters: dict[str, float] = field(default_factory=dict)
    folder: str | None = None  # where the spec file is

    def found(self, folder: Path | None) -> bool:
        return all(self._path(name, folder) is not None for name in self.files)

    def load(self, wanted: Wanted) -> Task:
        table = files.read_table([self._located(name, wanted.folder) for name in self.files])
        if self.drop_missing_labels:
            absent = tables.column(table, self.label).is_null(nan_is_null=True).to_numpy()
            table = table.filter(~absent)
        train, test = _parts(table, self)
        y, n_classes = _label(table, self)
        X = _features(table, self, y, train, test)
        queries = tables.column(table, self.group).to_numpy() if self.group else None
        weight = tables.numbers(table, self.weight).astype(np.float32) if self.weight else None
        task = Task(
            self.name, self.objective, X[train], y[train], X[test], y[test],
            None if queries is None else run_lengths(queries[train]),
            None if queries is None else run_lengths(queries[test]),
            n_classes, "all rows", None if weight is None else weight[train],
        )  # fmt: skip
        share = wanted.share(len(train))
        return task if share >= 1.0 else sample(task, share)

    def source(self) -> str:
        return ", ".join(self.files)

    def _path(self, name: str, folder: Path | None) -> str | None:
        for place in self._places(folder):
            if (place / name).exists() or any(place.glob(name)):
                return str(place / name)
        return None

    def _places(self, folder: Path | None) -> list[Path]:
        return [Path(place) for place in (folder, self.folder) if place is not None]

    def _located(self, name: str, folder: Path | None) -> str:
        path = self._path(name, folder)
        if path is None:
            places = " or ".join(map(str, self._places(folder))) or "no folder"
            raise DataError(
                f"{self.name}: {name} not found in {places}; say where with --data DIR or "
                "BITGROVE_DATA"
            )
        return path


def read_spec(path: Path) -> Spec:
    """The spec in a .toml or .json file."""
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".toml":
            content = _tomllib(path).loads(text)
        else:
            content = json.loads(text)
    except ValueError as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    return _checked(content, path)


def _tomllib(path: Path) -> Any:
    try:
        return importlib.import_module("tomllib")
    except ImportError:
        raise DataError(f"{path}: TOML needs Python 3.11; write the same as JSON") from None


def _checked(content: Any, path: Path) -> Spec:
    if not isinstance(content, Mapping):
        raise DataError(f"{path}: a table of keys is needed")
    known = [f.name for f in dataclasses.fields(Spec) if f.name != "folder"]
    for given, allowed in ((content, known), (content.get("parameters", {}), list(PARAMETERS))):
        for key in given:
            if key not in allowed:
                close = difflib.get_close_matches(key, allowed, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"allowed: {', '.join(allowed)}"
                raise DataError(f"{path}: unknown key {key!r}; {hint}")
    missing = [k for k in ("name", "files", "objective", "label") if k not in content]
    if missing:
        raise DataError(f"{path}: {missing[0]!r} is needed")
    spec = Spec(**content, folder=str(path.parent))
    if spec.objective not in OBJECTIVES:
        raise DataError(
            f"{path}: objective={spec.objective!r}: must be one of {', '.join(OBJECTIVES)}"
        )
    if (spec.objective == "lambdarank") != (spec.group is not None):
        raise DataError(f"{path}: objective 'lambdarank' and 'group' need each other")
    if spec.together is not None and (spec.group or spec.split):
        raise DataError(f"{path}: 'together' needs neither 'group' nor 'split'")
    if not 0.0 < spec.test_share < 1.0:
        raise DataError(f"{path}: test_share={spec.test_share!r}: must be > 0 and < 1")
    if spec.split is not None and set(spec.split) != {"column", "train", "test"}:
        raise DataError(f"{path}: split needs exactly the keys column, train and test")
    return spec


def _parts(table: Any, spec: Spec) -> tuple[Array, Array]:
    """(training rows, test rows): by a column, else by a hash of the row or query number."""
    if spec.split is not None:
        part = tables.column(table, str(spec.split["column"])).to_numpy()
        train, test = (
            np.flatnonzero(np.isin(part.astype(str), [str(v) for v in spec.split[key]]))
            for key in ("train", "test")
        )
    else:
        unit, whole = np.arange(table.num_rows), spec.group or spec.together
        if whole is not None:
            sizes = run_lengths(tables.column(table, whole).to_numpy())
            unit = np.repeat(np.arange(len(sizes)), sizes)
        is_test = chosen_by_hash(spec.test_share, unit, _SPLIT)
        train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    if not len(train) or not len(test):
        raise DataError(f"{spec.name}: {len(train)} training and {len(test)} test rows")
    return train, test


def _label(table: Any, spec: Spec) -> tuple[Array, int]:
    """(float32 labels, number of classes)."""
    if spec.objective == "multiclass":
        codes, classes = tables.class_codes(table, spec.label)
        return codes.astype(np.float32), len(classes)
    if spec.positive is None:
        return tables.numbers(table, spec.label).astype(np.float32), 1
    values = tables.column(table, spec.label).to_numpy().astype(str)
    if str(spec.positive) not in values:
        raise DataError(f"{spec.name}: no row of {spec.label!r} is {spec.positive!r} (positive)")
    return (values == str(spec.positive)).astype(np.float32), 1


def _features(table: Any, spec: Spec, y: Array, train: Array, test: Array) -> Array:
    """Numbers as they are, three columns per time, then two per encoded category."""
    roles = {spec.label, spec.group, spec.together, spec.weight, *spec.ignore}
    if spec.split is not None:
        roles.add(spec.split["column"])
    encode = _text_columns(table, roles) if spec.encode == ["*"] else spec.encode
    roles |= {*encode, *spec.times}
    names = [name for name in table.column_names if name not in roles]
    if not (names or encode or spec.times):
        raise ParameterError(f"{spec.name}: no column is left to be a feature")
    columns = [
        np.asarray(column, np.float32) for column in tables.feature_table(table, names).columns
    ]
    columns += [part for name in spec.times for part in _clock(tables.column(table, name))]
    order = np.concatenate([train, test])
    codes = []
    for name in encode:
        values = tables.column(table, name).to_numpy()[order].astype(str)
        codes.append(np.unique(values, return_inverse=True)[1].astype(np.int64))
    if codes:
        encoded = np.empty((table.num_rows, 2 * len(codes)), np.float32)
        encoded[:] = np.nan
        encoded[order] = encode_categories(codes, y[order], len(train))
        columns += list(encoded.T)
    return np.column_stack(columns)


def _clock(column: Any) -> list[Array]:
    """Minute of the day, day of the week (Monday is 0) and day of the year."""
    moment = column.to_numpy().astype("datetime64[m]")
    day, year = moment.astype("datetime64[D]"), moment.astype("datetime64[Y]")
    parts = (moment - day, (day.astype(np.int64) + 3) % 7, day - year.astype("datetime64[D]"))
    return [part.astype(np.int64).astype(np.float32) for part in parts]


def _text_columns(table: Any, roles: set[Any]) -> list[str]:
    types = tables.arrow().types
    return [
        name
        for name in table.column_names
        if name not in roles
        and (
            types.is_string(kind := tables.column(table, name).type) or types.is_large_string(kind)
        )
    ]
