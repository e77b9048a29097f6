"""MPI processes: the bytes of one process, for any number of ranks and any dealing of the rows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bitgrove as bg
from cases import CASES, signal, table
from mpi_launch import mpiexec, run_job

# One case of each way that ranks could drift apart.
FEW = ["binary full precision", "multiclass", "ranking early stopping", "regression weighted"]


@pytest.mark.parametrize("n_ranks", [2, 3, 4])
def test_uneven_shards_equal_solo(n_ranks: int, solo_digests: dict[str, str]) -> None:
    # Every case once. Ranks as threads train all of them in every number (test_shards.py): here
    # processes are what is tried, and four of them share two cores.
    names = sorted(CASES)[n_ranks % 3 :: 3]
    found = run_job(n_ranks, "digests", [(name, "uneven", {}) for name in names])
    for name, digests in zip(names, found, strict=True):
        assert digests == [solo_digests[name]] * n_ranks, name


@pytest.mark.parametrize(("n_ranks", "dealing"), [(1, "even"), (2, "even"), (3, "empty")])
def test_other_dealings_equal_solo(
    n_ranks: int, dealing: str, solo_digests: dict[str, str]
) -> None:
    found = run_job(n_ranks, "digests", [(name, dealing, {}) for name in FEW])
    for name, digests in zip(FEW, found, strict=True):
        assert digests == [solo_digests[name]] * n_ranks, name


def test_unpacked_and_reference_ranks_equal_solo(solo_digests: dict[str, str]) -> None:
    jobs = [("multiclass", {"packed": False}), ("wide", {"device": "reference"})]
    found = run_job(2, "digests", [(name, "uneven", changes) for name, changes in jobs])
    assert found == [[solo_digests[name]] * 2 for name, _ in jobs]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same 3,000 rows as three files and as one; text classes and queries of 7 rows."""
    folder = tmp_path_factory.mktemp("files")
    X = table(3000, 4, 1)
    y = signal(X, 1)
    whole = pa.table(
        {
            **{f"c{i}": X[:, i] for i in range(4)},
            "kind": np.array(["low", "middle", "high"])[np.digitize(y, [0, 1.5])],
            "grade": np.clip(np.floor(y), 0, 3).astype(np.int64),
            "query": np.arange(3000) // 7,
        }
    )
    for i, (first, last) in enumerate([(0, 1400), (1400, 1407), (1407, 3000)]):
        pq.write_table(whole.slice(first, last - first), folder / f"part-{i}.parquet")
    pq.write_table(whole, folder / "whole.parquet", row_group_size=700)
    return folder


COMMAND = ["-m", "bitgrove", "train", "--n_estimators", "3", "--min_child_samples", "5"]
CLASSES = ["--label", "kind", "--objective", "multiclass", "--ignore", "grade,query"]
QUERIES = ["--label", "grade", "--objective", "lambdarank", "--group", "query", "--ignore", "kind"]


@pytest.mark.parametrize(
    ("task", "data", "n_ranks"),
    [(CLASSES, "part-*.parquet", 3), (QUERIES, "whole.parquet", 4)],
    ids=["classes", "queries"],
)
def test_the_command_line_over_ranks(
    task: list[str], data: str, n_ranks: int, files: Path, tmp_path: Path
) -> None:
    words = [*COMMAND, *task, "--data", str(files / data), "--model"]
    done = mpiexec(n_ranks, sys.executable, *words, str(tmp_path / "ranks.bitgrove"))
    assert done.returncode == 0, done.stderr
    alone = mpiexec(1, sys.executable, *words, str(tmp_path / "alone.bitgrove"))
    assert alone.returncode == 0, alone.stderr
    assert bg.load(tmp_path / "ranks.bitgrove") == bg.load(tmp_path / "alone.bitgrove")
    assert done.stdout.count("digest") == 1 and "3,000 rows" in done.stdout


def test_a_query_on_two_ranks_is_refused(files: Path, tmp_path: Path) -> None:
    whole = pq.read_table(files / "whole.parquet")
    for i, rows in enumerate([whole.slice(0, 1000), whole.slice(1000)]):
        pq.write_table(rows, tmp_path / f"cut-{i}.parquet")
    words = [*COMMAND, *QUERIES, "--data", str(tmp_path / "cut-*.parquet"), "--model"]
    done = mpiexec(2, sys.executable, *words, str(tmp_path / "m.bitgrove"))
    assert done.returncode != 0
    assert "query '142' of column 'query' has rows on rank 0 and on rank 1" in done.stderr
    assert not (tmp_path / "m.bitgrove").exists()


def test_a_bad_file_of_one_rank_is_one_error(files: Path, tmp_path: Path) -> None:
    for i in range(2):
        (tmp_path / f"part-{i}.parquet").write_bytes((files / "part-0.parquet").read_bytes())
    (tmp_path / "part-2.parquet").write_bytes(b"not a table")
    words = [*COMMAND, *CLASSES, "--data", str(tmp_path / "part-*.parquet"), "--model"]
    done = mpiexec(3, sys.executable, *words, str(tmp_path / "m.bitgrove"), seconds=60)
    errors = [line for line in done.stderr.splitlines() if "bitgrove: error" in line]
    assert done.returncode != 0 and len(errors) == 1, done.stderr
    assert "rank 2: DataError: " in errors[0] and "part-2.parquet: cannot be read" in errors[0]


def test_the_command_line_goes_on_from_a_checkpoint(files: Path, tmp_path: Path) -> None:
    words = ["-m", "bitgrove", "train", *CLASSES, "--data", str(files / "part-*.parquet")]
    kept = ["--checkpoint", str(tmp_path / "kept"), "--checkpoint_every", "2"]
    for n_ranks, more in [(2, ["--n_estimators", "3", *kept]), (3, ["--n_estimators", "5", *kept]),
                          (1, ["--n_estimators", "5"])]:  # fmt: skip
        model = str(tmp_path / f"{n_ranks}.bitgrove")
        done = mpiexec(n_ranks, sys.executable, *words, *more, "--model", model)
        assert done.returncode == 0, done.stderr
    assert bg.load(tmp_path / "kept").n_iterations == 4  # 2 by the first, 4 by the second
    assert bg.load(tmp_path / "3.bitgrove") == bg.load(tmp_path / "1.bitgrove")
