"""Files of binned Datasets: trained on to the same bytes; bad ones are refused."""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream_cases import NAMES, cut, streamed, streamed_valid

import bitgrove as bg
from bitgrove.data.binned import file
from bitgrove.data.binned.host import whole_bins
from bitgrove.errors import BitgroveError, BitgroveWarning, DataError
from bitgrove.machine.headers import canonical_json
from cases import CASES, Case


def dataset_of(case: Case) -> bg.Dataset:
    return bg.Dataset(case.X, case.y, weight=case.weight, group=case.group, **case.kinds)


def saved(dataset: bg.Dataset, path: Path, params: Any = None) -> bg.Dataset:
    dataset.save(path, params)
    return bg.open_dataset(path)


@pytest.mark.parametrize("name", NAMES)
def test_same_bytes_from_a_file(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    opened = saved(dataset_of(case), tmp_path / "a.bins", case.params)
    assert opened.feature_names == [f"f{f}" for f in range(case.X.shape[1])]
    valid = None
    if case.valid is not None:
        X, y, group = case.valid
        valid = bg.Dataset(X, y, group=group, reference=opened, **case.kinds)
        valid = saved(valid, tmp_path / "b.bins", case.params)
    found, expected = bg.train(case.params, opened, valid_sets=valid), case.train()
    assert found.to_bytes() == expected.to_bytes()
    assert found.info.evals_result == expected.info.evals_result


def test_a_stream_writes_the_file_of_the_rows_in_memory(tmp_path: Path) -> None:
    case = CASES["categories"]()
    case.params["bin_sample_rows"] = 500
    dataset_of(case).save(tmp_path / "a", case.params)
    streamed(case).save(tmp_path / "b", case.params)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    opened = bg.open_dataset(tmp_path / "a")
    opened.save(tmp_path / "c", case.params)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "c").read_bytes()
    model = bg.train(case.params, opened, valid_sets=streamed_valid(case))
    assert model.to_bytes() == case.train().to_bytes()


def test_the_file_is_mapped_and_never_written(tmp_path: Path) -> None:
    case = CASES["regression weighted"]()
    opened = saved(dataset_of(case), tmp_path / "a", case.params)
    before = (tmp_path / "a").read_bytes()
    whole = whole_bins(opened.columns)
    assert whole is not None and isinstance(whole.base, mmap.mmap)  # trained on as it lies
    bg.train(case.params, opened)
    assert (tmp_path / "a").read_bytes() == before
    assert opened.binned[next(iter(opened.binned))][1].columns is whole


def test_weights_of_zero_and_queries(tmp_path: Path) -> None:
    case = CASES["ranking"]()
    weight = np.random.default_rng(0).integers(0, 3, len(case.y))
    data = bg.Dataset(case.X, case.y, weight=weight, group=case.group)
    opened = saved(data, tmp_path / "a", case.params)
    assert opened.n_rows == np.count_nonzero(weight)
    assert bg.train(case.params, opened).to_bytes() == bg.train(case.params, data).to_bytes()


def test_folds_of_a_file(tmp_path: Path) -> None:
    case = CASES["binary few bins"]()
    opened = saved(dataset_of(case), tmp_path / "a", case.params)
    expected = bg.cv(case.params, dataset_of(case), nfold=3)
    assert dict(bg.cv(case.params, opened, nfold=3)) == dict(expected)


def test_other_parameters_than_those_of_the_bins(tmp_path: Path) -> None:
    case = CASES["binary 2 bits"]()
    params = {**case.params, "bin_sample_rows": 300}
    opened = saved(dataset_of(case), tmp_path / "a", params)
    with pytest.raises(DataError, match="max_bin=9: this Dataset was binned with max_bin=255"):
        bg.train({**params, "max_bin": 9}, opened)
    with pytest.raises(
        DataError, match=r"bin_sample_rows=200000: .* binned with bin_sample_rows=3"
    ):
        bg.train(case.params, opened)
    with pytest.warns(BitgroveWarning, match="the bins are those of random_state=7"):
        bg.train({**params, "random_state": 8}, opened)
    few = saved(dataset_of(case), tmp_path / "b")  # all rows are looked at, whatever the seed
    assert bg.train(case.params, few).to_bytes() == case.train().to_bytes()


def test_bins_of_another_file_are_no_validation_set(tmp_path: Path) -> None:
    case = CASES["regression weighted"]()
    a, b = (bg.Dataset(case.X[rows], case.y[rows]) for rows in (slice(400), slice(400, 800)))
    a, b = saved(a, tmp_path / "a"), saved(b, tmp_path / "b")
    with pytest.raises(DataError, match="column 'f0' was binned with other edges"):
        bg.train({"objective": "regression"}, a, valid_sets=b)
    number = bg.Dataset(case.X[:9], case.y[:9], reference=a)
    listed = bg.Dataset(case.X[:9], case.y[:9], reference=a, categorical_feature=[2])
    number.save(tmp_path / "c")
    with pytest.raises(DataError, match="column 'f2' is a category of the Dataset or of its refer"):
        listed.save(tmp_path / "c")
    with pytest.raises(DataError, match="needs the values of the rows"):
        bg.train({"objective": "regression", "n_estimators": 2}, a).predict(b)


def small(tmp_path: Path) -> bytes:
    """A file with numbers, levels of all kinds, weights, queries and two columns of labels."""
    rng = np.random.default_rng(0)
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(
        {
            "a": rng.normal(size=300),
            "b": np.where(rng.random(300) < 0.2, np.nan, rng.integers(0, 5, 300)),
            "text": rng.choice(["ä", "bb", "c"], 300),
            "whole": rng.integers(0, 290, 300),
            "real": rng.choice([0.5, 2.0], 300),
        }
    )
    data = bg.Dataset(
        table, rng.normal(size=(300, 2)), weight=rng.random(300) + 0.1, group=[100, 150, 50],
        init_score=rng.normal(size=(300, 2)), categorical_feature=["whole", "real"],
    )  # fmt: skip
    data.save(tmp_path / "small", {"max_bin": 30})
    return (tmp_path / "small").read_bytes()


def with_checksum(body: bytes) -> bytes:
    return body + file.checksum_of(memoryview(body))


def opened_bytes(data: bytes, path: Path) -> bg.Dataset:
    path.write_bytes(data)
    return bg.open_dataset(path)


def test_checksum_of_pieces_is_that_of_the_whole(monkeypatch: Any) -> None:
    monkeypatch.setattr(file, "_CHUNK", 100)
    data = np.random.default_rng(0).bytes(1050)
    for step in (1, 7, 100, 333, 2000):
        checksum = file._Checksum()
        for first in range(0, len(data), step):
            checksum.update(data[first : first + step])
        assert checksum.digest() == file.checksum_of(memoryview(data))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: b"", "not a file of a binned Dataset"),
        (lambda d: b"BITGROVE" + d[8:], "not a file of a binned Dataset"),
        (lambda d: d[:20], "cut off: only 20 bytes"),
        (lambda d: d[:-1], "checksum mismatch"),
        (lambda d: d[: len(d) // 2], "checksum mismatch"),
        (lambda d: d + b"\0", "checksum mismatch"),
        (lambda d: d[:8] + struct.pack("<I", 2) + d[12:], "format version 2 is unknown"),
        (lambda d: with_checksum(d[:12] + struct.pack("<Q", 2**60) + d[20:-32]), "does not fit"),
        (lambda d: with_checksum(d[:-32] + bytes(64)), "the arrays have .* bytes, the header says"),
        (lambda d: with_checksum(d[:-96]), "the arrays have .* bytes, the header says"),
    ],
)  # fmt: skip
def test_bad_envelopes(change: Callable[[bytes], bytes], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"bad: .*{message}"):
        opened_bytes(change(small(tmp_path)), tmp_path / "bad")


def forged(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The same arrays under another header."""
    size = struct.unpack_from("<Q", data, 12)[0]
    header = json.loads(data[20 : 20 + size])
    change(header)
    text, end = canonical_json(header), 20 + size
    start = data[:12] + struct.pack("<Q", len(text)) + text
    payload = data[end + -end % 64 : -32]
    return with_checksum(start + bytes(-len(start) % 64) + payload)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("n_rows", -1, "n_rows is -1"),
        ("n_rows", 2**40, "n_rows is 1099511627776"),
        ("n_rows", 301, "the header says"),
        ("n_rows", 300.0, "not of type int"),
        ("n_queries", 2**31, "n_queries is 2147483648"),
        ("text_bytes", 2**61, "the header says"),
        ("feature_names", ["a"] * 5, "not unique"),
        ("feature_names", [1, 2, 3, 4, 5], "not texts"),
        ("feature_names", [], "not texts"),
        ("n_edges", [3], "n_edges does not have a number for each feature"),
        ("n_edges", [255, 4, -1, -1, -1], "feature 0 has 255 edges"),
        ("n_edges", [29, 4, 2, -1, -1], "feature 2 has 2 edges"),
        ("categories", [], "feature 2 has -1 edges"),
        ("categories", [{"feature": 9, "kind": "text", "n_levels": 1}], "out of range"),
        ("categories", [{"feature": 2, "kind": "odd", "n_levels": 1}], "unknown"),
        ("categories", [{"feature": 2, "kind": "text", "n_levels": -1}], "n_levels is -1"),
        ("binning", {}, "binning lacks"),
        ("label", -2, "label is -2"),
        ("has_weight", 1, "not of type bool"),
        ("more", 1, "unknown keys"),
    ],
)
def test_bad_headers(key: str, value: Any, message: str, tmp_path: Path) -> None:
    data = forged(small(tmp_path), lambda header: header.__setitem__(key, value))
    with pytest.raises(DataError, match=message):
        opened_bytes(data, tmp_path / "bad")


def test_changed_bytes_are_refused_or_harmless(tmp_path: Path) -> None:
    """Whatever the bytes are, with a right checksum: an error that says why, or a training."""
    data, rng = small(tmp_path), np.random.default_rng(1)
    params = {"objective": "regression", "n_estimators": 1, "max_bin": 30, "n_jobs": 1}
    n_refused = 0
    for at in [*range(8, 700, 9), *rng.integers(700, len(data) - 32, 150).tolist()]:
        body = bytearray(data[:-32])
        body[at] ^= int(rng.integers(1, 256))
        try:
            bg.train(params, opened_bytes(with_checksum(bytes(body)), tmp_path / "bad"))
        except BitgroveError:
            n_refused += 1
    assert n_refused > 60
    with pytest.raises(DataError, match="checksum mismatch"):
        opened_bytes(data[:900] + bytes([data[900] ^ 1]) + data[901:], tmp_path / "bad")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    case, path = CASES["regression weighted"](), tmp_path / "a"
    dataset_of(case).save(path)
    before, passes = path.read_bytes(), []

    def torn() -> Any:
        passes.append(1)
        if len(passes) > 1:
            raise OSError("gone")
        return cut(case.X, case.y)()

    with pytest.raises(OSError, match="gone"):
        bg.Dataset.from_batches(torn).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    for bad, kind in [(tmp_path, IsADirectoryError), (tmp_path / "no" / "x", FileNotFoundError)]:
        with pytest.raises(kind):
            dataset_of(case).save(bad)
    with pytest.raises(FileNotFoundError):
        bg.open_dataset(tmp_path / "none")
