"""Fingerprints: an independent implementation, and all that must not change them."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import bitgrove as bg
from bitgrove import _core
from bitgrove.data.levels import Levels
from bitgrove.data.row_ids import RowRun, one_run
from bitgrove.data.sparse.tables import SparseTable
from bitgrove.distributed import SoloComm, run_threads
from bitgrove.provenance.fingerprint import RowHasher, block_rows, table_fingerprint
from cases import CASES

VALUES = [0.0, -0.0, 1.0, 254.0, 255.0, 256.0, -1.0, 0.5, 0.1, 1e300, 1e-320, 2.0**-149, np.inf,
          -np.inf, np.nan, 3e38]  # fmt: skip


def plain_fingerprint(table: Any, levels: Any = ()) -> str:
    """The definition of docs/verification.md, without any code of the library."""
    n_rows, n_columns = table.shape
    size = 65536
    while size > 256 and size * n_columns > 65536:
        size //= 2
    facts = {"columns": n_columns, "levels": list(levels), "rows": n_rows}
    whole = hashlib.sha256(
        json.dumps(facts, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    )
    for first in range(0, n_rows, size):
        block = hashlib.sha256()
        for number, column in enumerate(table[first : first + size].T):
            (filled,) = np.nonzero(column)
            if len(filled) == 0:
                continue
            block.update(number.to_bytes(4, "little"))
            if 4 * len(filled) < len(column):
                width, values = plain_values(column[filled])
                block.update(bytes([16 + width]) + len(filled).to_bytes(4, "little"))
                block.update(filled.astype("<u2").tobytes() + values)
            else:
                width, values = plain_values(column)
                block.update(bytes([width]) + values)
        whole.update(block.digest())
    return whole.hexdigest()


def plain_values(column: Any) -> tuple[int, bytes]:
    """The bytes of one value, and all values in so many."""
    values = [float(v) for v in column]
    if all(v != v or v in range(255) for v in values):
        return 1, bytes(255 if v != v else int(v) for v in values)
    with np.errstate(over="ignore"):
        narrow = np.array(values, "<f4")
    wide = np.array(values, "<f8")
    chosen = narrow if np.array_equal(narrow, wide, equal_nan=True) else wide
    chosen[chosen == 0] = 0.0
    chosen[np.isnan(chosen)] = np.nan
    return chosen.itemsize, chosen.tobytes()


def fingerprint(table: Any, **how: Any) -> str:
    return table_fingerprint(list(np.asarray(table).T), one_run(len(table)), SoloComm(), **how)


@given(
    st.lists(st.lists(st.sampled_from(VALUES), min_size=3, max_size=3), min_size=1, max_size=9),
    st.sampled_from(["f4", "f8"]),
)
@settings(max_examples=60, deadline=None)
def test_the_definition(rows: list[list[float]], dtype: str) -> None:
    with np.errstate(over="ignore"):
        table = np.array(rows).astype(dtype)
    assert fingerprint(table) == plain_fingerprint(table)
    assert sparse_fingerprint(table) == plain_fingerprint(table)


def sparse_fingerprint(table: Any, form: str = "csr") -> str:
    found = SparseTable.of(sparse.csr_array(table).asformat(form))
    return table_fingerprint(found.columns(), one_run(len(table)), SoloComm())


@pytest.mark.parametrize("shape", [(70000, 1), (9000, 9), (300, 400), (700, 300)])
def test_whole_blocks_and_the_last(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(size=shape)
    table[:, 0] = rng.integers(0, 200, shape[0])
    found = fingerprint(table)
    assert found == plain_fingerprint(table)
    assert found == fingerprint(np.asfortranarray(table), n_threads=3)
    assert found == sparse_fingerprint(table, "csc")
    assert found != fingerprint(table[:-1])
    assert 0 < shape[0] % block_rows(shape[1]) < block_rows(shape[1])
    assert [block_rows(n) for n in (1, 2, 3, 28, 256, 10**6)] == [
        65536,
        32768,
        16384,
        2048,
        256,
        256,
    ]


def test_types_and_zeros_do_not_matter_values_do() -> None:
    rng = np.random.default_rng(2)
    table = rng.normal(size=(500, 3)).astype(np.float32)
    table[::7, 1] = np.nan
    table[::5, 2] = 0.0
    signed = table.astype(np.float64)
    signed[::5, 2] = -0.0
    signed[::7, 1] = np.frombuffer(np.uint64(0x7FF8000000000123).tobytes(), "f8")
    assert fingerprint(table) == fingerprint(table.astype(np.float64)) == fingerprint(signed)
    seen = {fingerprint(table)}
    for row, column, value in [(3, 0, 1.5), (7, 1, 0.0), (499, 2, 255.0)]:
        other = signed.copy()
        other[row, column] = value
        seen.add(fingerprint(other))
    swapped = signed.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    seen |= {fingerprint(swapped), fingerprint(signed[:, ::-1]), fingerprint(signed[:-1])}
    assert len(seen) == 7


def test_levels_count() -> None:
    codes = np.array([[0.0], [1.0], [0.0]])
    text = {0: Levels("text", np.array(["a", "é"], dtype=object))}
    plain = [[0, "text", ["a", "é"]]]
    assert fingerprint(codes, levels=text) == plain_fingerprint(codes, plain)
    other = {0: Levels("text", np.array(["a", "b"], dtype=object))}
    assert len({fingerprint(codes), fingerprint(codes, levels=text),
                fingerprint(codes, levels=other)}) == 3  # fmt: skip


@given(st.lists(st.integers(0, 30000), max_size=6), st.integers(1, 3), st.randoms())
@settings(max_examples=15, deadline=None)
def test_cuts_and_ranks_do_not_matter(cuts: list[int], n_ranks: int, random: Any) -> None:
    """Parts of any size, dealt to ranks in any order, some of which get none."""
    table = np.random.default_rng(3).integers(0, 300, (30000, 5)).astype(float)
    borders = sorted({0, 30000, *cuts})
    parts = list(pairwise(borders))
    random.shuffle(parts)
    owner = [random.randrange(n_ranks) for _ in parts]

    def rank(comm: Any) -> str:
        mine = [part for part, who in zip(parts, owner, strict=True) if who == comm.rank]
        runs, begin = [], 0
        for first, last in mine:
            runs.append(RowRun(begin, begin + last - first, first))
            begin += last - first
        rows = np.concatenate([np.zeros((0, 5)), *(table[a:b] for a, b in mine)])
        return table_fingerprint(list(rows.T), runs, comm)

    assert set(run_threads(n_ranks, rank)) == {fingerprint(table)}


def test_a_table_that_comes_in_batches() -> None:
    table = np.random.default_rng(4).normal(size=(20000, 7))
    hasher = RowHasher(7, n_threads=2)
    for first in range(0, 20000, 999):
        hasher.add(list(table[first : first + 999].T), first)
    assert len(hasher._pieces) == 1  # what is whole is hashed and forgotten
    assert hasher.finish(SoloComm()) == fingerprint(table)


@pytest.mark.parametrize("name", ["regression weighted", "categories"])
def test_streams_have_the_record_of_rows_in_memory(name: str) -> None:
    case = CASES[name]()
    params = {**case.params, "n_estimators": 1, "early_stopping_rounds": None, "n_jobs": 1}
    weight = None if case.weight is None else np.where(np.arange(len(case.y)) % 7, case.weight, 0)
    whole = bg.Dataset(case.X, case.y, weight=weight, **case.kinds)

    def batches() -> Any:
        for first in range(0, len(case.y), 333):
            yield case.X[first : first + 333]

    streamed = bg.Dataset.from_batches(batches, case.y, weight=weight, **case.kinds)
    record = bg.train(params, whole).record
    assert bg.train(params, streamed).record == record
    assert bg.train({**params, "max_bin": 15}, streamed).record == record
    assert bg.verify(bg.train(params, whole), streamed).verified
    like = bg.Dataset.from_batches(batches, case.y, weight=weight, reference=whole, **case.kinds)
    shared = bg.train(params, like).record
    assert shared is not None and record is not None and shared.rows == record.rows


def test_wrong_calls_are_refused() -> None:
    rows = _core.CanonicalRows([np.ones(5), np.zeros(5, np.float32)], 5)
    room = np.zeros(2 * _core.canonical_room(5), np.uint8)
    assert rows.write(0, 5, 0, 2, room) == 10
    for first, n, last, out in [(-1, 2, 2, room), (3, 3, 2, room), (0, 5, 2, room[:-1]),
                                (0, -1, 2, room), (0, 5, 3, room), (0, 5, -1, room)]:  # fmt: skip
        with pytest.raises(ValueError, match="bitgrove core"):
            rows.write(first, n, 0, last, out)
    table = SparseTable.of(sparse.eye_array(5, format="csc"))
    with pytest.raises(ValueError, match="rows out of range"):
        _core.canonical_block(table.core, 0, 5)
    with pytest.raises(ValueError, match="differ in length"):
        _core.CanonicalRows([np.zeros(5), np.zeros(4)], 5)


@pytest.mark.parametrize("name", ["ranking", "regression weighted", "categories text", "binary"])
def test_the_record_of_a_training(name: str) -> None:
    """Equal from every device and number of ranks; of rows that are there, not of how."""
    matching = [case for case in CASES if case.startswith(name)]
    case = CASES[matching[0] if matching else "categories"]()
    params = {**case.params, "n_estimators": 1, "early_stopping_rounds": None, "n_jobs": 1}

    def dataset(rows: Any = slice(None), group: Any = None) -> bg.Dataset:
        weight = None if case.weight is None else case.weight[rows]
        return bg.Dataset(case.X[rows], case.y[rows], weight=weight, group=group, **case.kinds)

    record = bg.train(params, dataset(group=case.group)).record
    assert record is not None and record.version == bg.__version__
    assert (record.weights is None) == (case.weight is None)
    assert (record.groups is None) == (case.group is None)
    again = bg.train({**params, "device": "reference"}, dataset(group=case.group)).record
    assert again == record
    if case.group is None:

        def rank(comm: Any) -> Any:
            rows = np.array_split(np.arange(len(case.y)), comm.size)[comm.rank]
            return bg.train(params, dataset(rows), comm=comm).record

        assert set(run_threads(3, rank)) == {record}


def test_rows_without_weight_are_not_there() -> None:
    X = np.random.default_rng(5).normal(size=(300, 2))
    y, weight = X[:, 0], np.ones(300)
    weight[100:150] = 0.0
    kept = weight > 0
    params = {"objective": "regression", "n_estimators": 2}
    with_zeros = bg.train(params, bg.Dataset(X, y, weight=weight))
    without = bg.train(params, bg.Dataset(X[kept], y[kept]))
    assert with_zeros.record == without.record


def test_the_record_travels_with_the_model() -> None:
    X = np.random.default_rng(6).normal(size=(300, 2))
    model = bg.train({"objective": "regression", "n_estimators": 4}, bg.Dataset(X, X[:, 0]))
    back = bg.Model.from_bytes(model.to_bytes())
    assert back.record == model.record and back.to_bytes() == model.to_bytes()
    assert model[:].record is None and model.refit(X, X[:, 1]).record is None
    assert model[:] == model and model[:].to_bytes() != model.to_bytes()
    assert hashlib.sha256(model[:].to_bytes()).hexdigest() == model.digest()
    more = bg.train({"objective": "regression"}, bg.Dataset(X, X[:, 0]), 2, init_model=model)
    assert more.record is not None and more.record.init_model == model.digest()
