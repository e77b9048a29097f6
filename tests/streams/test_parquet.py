"""Parquet files train to the bytes of their rows in memory, in Python and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.cli.main import main
from bitgrove.data.streams import parquet
from bitgrove.errors import DataError, DataTypeError
from cases import CASES

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
PARAMS = {"objective": "lambdarank", "n_estimators": 4, "min_child_samples": 5, "n_jobs": 2}


def rows() -> Any:
    """A table with queries, weights, text and categories."""
    case, rng = CASES["ranking"](), np.random.default_rng(3)
    names = {f"x{f}": case.X[:, f] for f in range(6)}
    n_rows = len(case.y)
    return pa.table(
        {
            "id": np.arange(n_rows),
            **names,
            "small": rng.integers(0, 9, n_rows).astype(np.int8),
            "text": rng.choice(["a", "b", "c"], n_rows),
            "shop": pa.array([f"s{i}" for i in rng.integers(0, 99, n_rows)]).dictionary_encode(),
            "grade": case.y.astype(np.int32),
            "weight": rng.integers(0, 4, n_rows) / 2,
            "query": np.repeat(np.arange(len(case.group)), case.group),
        }
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Any) -> Path:
    """The table in three files of several row groups, read in batches of 100 rows or fewer."""
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 0)
    monkeypatch.setattr(parquet, "_LEAST_ROWS", 100)
    table = rows()
    for part, first in enumerate(range(0, table.num_rows, 250)):
        path = tmp_path / f"part-{part}.parquet"
        pq.write_table(table.slice(first, 250), path, row_group_size=120)
    return tmp_path


def in_memory() -> bg.Model:
    df = rows().to_pandas()
    roles = ["id", "grade", "weight", "query"]
    queries = np.unique(df["query"], return_counts=True)[1]
    data = bg.Dataset(df.drop(columns=roles), df["grade"], weight=df["weight"], group=queries)
    return bg.train(PARAMS, data)


def test_parquet_files_train_as_in_memory(folder: Path) -> None:
    found = bg.Dataset.from_parquet(
        f"{folder}/part-*.parquet", label="grade", weight="weight", group="query", ignore=["id"]
    )
    assert found.feature_names == [*(f"x{f}" for f in range(6)), "small", "text", "shop"]
    assert bg.train(PARAMS, found).to_bytes() == in_memory().to_bytes()
    listed = [folder / f"part-{part}.parquet" for part in range(3)]
    again = bg.Dataset.from_parquet(
        listed, label="grade", weight="weight", group="query", ignore=["id"], reference=found
    )
    assert again.n_rows == found.n_rows


def test_command_line_trains_as_in_memory(folder: Path) -> None:
    words = ["train", "--data", f"{folder}/part-*.parquet", "--model", f"{folder}/model",
             "--label", "grade", "--weight", "weight", "--group", "query", "--ignore", "id",
             "--no-progress"]  # fmt: skip
    for name, value in PARAMS.items():
        words += [f"--{name}", str(value)]
    assert main(words) == 0
    assert bg.load(folder / "model").to_bytes() == in_memory().to_bytes()


def test_rows_of_a_range(folder: Path) -> None:
    """What a rank reads of files that are fewer than the ranks."""
    paths, table = sorted(map(str, folder.glob("*.parquet"))), rows()
    for first, last in [(0, 10), (90, 380), (250, 250), (249, 600), (0, table.num_rows + 9)]:
        part = parquet.ParquetRows(paths, first, last)
        expected = table.slice(first, last - first)
        assert part.n_rows == expected.num_rows
        assert part.read(["id", "text"]).to_pydict() == expected.select(["id", "text"]).to_pydict()


def test_bad_parquet(tmp_path: Path) -> None:
    good = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [0, None]}), good)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 but not really")
    pq.write_table(pa.table({"x": [1.0], "z": [0]}), tmp_path / "c.parquet")
    for paths, more, message in [
        (tmp_path / "none.parquet", {}, "no such file"),
        (f"{tmp_path}/none-*.parquet", {}, "no file matches"),
        (tmp_path, {}, "is a directory; name its files"),
        (tmp_path / "b.parquet", {}, "b.parquet: cannot be read"),
        ([good, tmp_path / "c.parquet"], {}, "c.parquet: its columns differ .* missing .'y'."),
        (good, {"label": "z"}, "label='z': no such column"),
        (good, {"ignore": ["z"]}, "ignore='z': no such column"),
        (good, {"ignore": "x"}, "ignore='x': a list of columns is needed"),
        (good, {"group": "q"}, "group='q': no such column"),
        (good, {"label": "y"}, "column 'y' has no value in 1 rows"),
    ]:
        with pytest.raises(DataError, match=message):
            bg.Dataset.from_parquet(paths, **more)
    with pytest.raises(DataTypeError, match="paths: a name, a pattern or a list"):
        bg.Dataset.from_parquet(3)
