"""The table of datasets: generated rows, official files, encoding and spec files."""

from __future__ import annotations

import bz2
import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bitgrove as bg
from lab.datasets import official
from lab.datasets.encoding import encode_categories
from lab.datasets.entry import Wanted, data_folder, sample
from lab.datasets.specs import Spec, read_spec
from lab.datasets.table import DATASETS, PAPER, REAL, available
from lab.datasets.task import Task


def load(name: str, folder: Path | None, scale: float | None, max_rows: int | None) -> Task:
    return DATASETS[name].load(Wanted(folder, scale, max_rows))


def load_spec(spec: Spec, folder: Path | None) -> Task:
    return spec.load(Wanted(folder))


@pytest.mark.parametrize("name", PAPER)
def test_generated_rows_have_the_papers_shape(name: str) -> None:
    paper = DATASETS[name]
    task = paper.generate(2000, 1000)
    again = paper.generate(2000, 1000)
    assert task.X_train.shape == (2000, paper.n_features)
    assert task.X_test.shape == (1000, paper.n_features)
    assert task.objective == paper.objective
    np.testing.assert_array_equal(task.X_train, again.X_train)
    np.testing.assert_array_equal(task.y_test, again.y_test)
    if task.objective == "lambdarank":
        assert task.group_train is not None and task.group_test is not None
        assert task.group_train.sum() == 2000 and task.group_test.sum() == 1000
        assert set(np.unique(task.y_train)) <= {0, 1, 2, 3, 4}
    elif task.objective == "binary":
        assert set(np.unique(task.y_train)) == {0.0, 1.0}


def test_generated_sets_have_the_real_ones_character() -> None:
    bosch = DATASETS["bosch"].generate(4000, 1000)
    assert 0.7 < np.isnan(bosch.X_train).mean() < 0.85
    assert 0.002 < bosch.y_train.mean() < 0.015
    criteo = DATASETS["criteo"].generate(4000, 1000)
    assert 0.2 < criteo.y_train.mean() < 0.4
    epsilon = DATASETS["epsilon"].generate(2000, 1000)
    np.testing.assert_allclose(np.linalg.norm(epsilon.X_train, axis=1), 1.0, rtol=1e-5)
    year = DATASETS["year"].generate(4000, 1000)
    assert year.y_train.min() >= 1922 and year.y_train.max() <= 2011


def test_scale_and_rows_limit_the_generated_rows() -> None:
    assert len(load("year", None, 0.01, None).X_train) == 4637
    assert len(load("year", None, None, 3000).X_train) == 3000
    assert len(load("higgs", None, 1e-9, None).X_train) == 2000  # never fewer


def test_samples_keep_whole_queries() -> None:
    task = DATASETS["letor"].generate(6000, 3000)
    part = sample(task, 0.5)
    assert part.group_train is not None and part.group_train.sum() == len(part.X_train)
    assert 0.3 < len(part.X_train) / 6000 < 0.7
    assert len(part.X_test) >= 0.3 * len(part.X_train)


# ---------------------------------------------------------------- official files


def _ranking_lines(n: int, shift: float) -> str:
    return "".join(f"{k % 3} qid:{k // 4} 1:{k + shift} 3:2.5\n" for k in range(n))


def test_higgs_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[k % 2, *(k + 0.5 * f for f in range(28))] for k in range(7)]
    text = "".join(",".join(f"{v:.3e}" for v in row) + "\n" for row in rows)
    (tmp_path / "HIGGS.csv.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(official, "_HIGGS_TEST", 2)
    monkeypatch.setitem(DATASETS, "higgs", replace(DATASETS["higgs"], n_train=5, n_test=2))
    task = load("higgs", tmp_path, None, None)
    np.testing.assert_array_equal(task.y_test, [1, 0])
    np.testing.assert_allclose(task.X_train, np.array(rows)[:5, 1:], rtol=1e-3)
    assert available(PAPER, tmp_path) == ["higgs"]


def test_wrong_row_counts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "HIGGS.csv").write_text("1,2,3\n" * 10)
    with pytest.raises(bg.DataError, match=r"Higgs: .* the paper has 10,500,000"):
        load("higgs", tmp_path, None, None)


def test_a_missing_file_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(bg.DataError, match=r"archive\.ics\.uci\.edu/dataset/203"):
        load("year", tmp_path, None, None)


def test_epsilon_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "epsilon").mkdir()
    train = "".join(f"{1 if k % 2 else -1} 1:{k} 2000:0.5\n" for k in range(6))
    (tmp_path / "epsilon/epsilon_normalized.bz2").write_bytes(bz2.compress(train.encode()))
    (tmp_path / "epsilon/epsilon_normalized.t").write_text("1 1:7 2:3\n-1 5:1\n")
    monkeypatch.setattr(official, "_PIECE", 40)  # several pieces
    monkeypatch.setitem(DATASETS, "epsilon", replace(DATASETS["epsilon"], n_train=6, n_test=2))
    task = load("epsilon", tmp_path, None, None)
    np.testing.assert_array_equal(task.y_train, [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(task.X_train[:, 0], np.arange(6))
    assert (task.X_train[:, 1999] == 0.5).all() and task.X_test[1, 4] == 1.0


def test_yahoo_and_letor_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "set1.train.txt").write_text(_ranking_lines(10, 0.0))
    (tmp_path / "set1.test.txt").write_text(_ranking_lines(4, 100.0))
    monkeypatch.setitem(DATASETS, "yahoo", replace(DATASETS["yahoo"], n_train=10, n_test=4))
    yahoo = load("yahoo", tmp_path, None, None)
    assert yahoo.group_train is not None and yahoo.group_train.tolist() == [4, 4, 2]
    assert yahoo.X_test[0, 0] == 100.0 and yahoo.X_train.shape == (10, 700)

    (tmp_path / "letor/Fold1").mkdir(parents=True)
    for part in ("train", "test"):
        (tmp_path / f"letor/Fold1/{part}.txt").write_text(_ranking_lines(8, 0.0))
    monkeypatch.setitem(DATASETS, "letor", replace(DATASETS["letor"], n_train=8, n_test=8))
    assert load("letor", tmp_path, None, None).X_train.shape == (8, 136)


def test_a_damaged_svmlight_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "set1.train.txt").write_text("1 qid:1 1:0.5\nnot a row\n")
    (tmp_path / "set1.test.txt").write_text("1 qid:1 1:0.5\n")
    with pytest.raises(bg.DataError, match=r"set1\.train\.txt: near line 1"):
        load("yahoo", tmp_path, None, None)


def test_kitsune_is_cut_within_each_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, attack in enumerate(("Mirai", "Fuzzing")):
        folder = tmp_path / "kitsune" / attack
        folder.mkdir(parents=True)
        lines = [",".join(str(100 * number + row) for _ in range(115)) for row in range(10)]
        (folder / f"{attack}_dataset.csv").write_text("\n".join(lines) + "\n")
        labels = "\n".join(f'"{row}",{int(row > 5)}' for row in range(10))
        (folder / f"{attack}_labels.csv").write_text(f'"","x"\n{labels}\n')
    changed = replace(DATASETS["kitsune"], n_train=15, n_test=5)  # only the sum is checked
    monkeypatch.setitem(DATASETS, "kitsune", changed)
    task = load("kitsune", tmp_path, None, None)
    assert task.X_train[:, 0].tolist() == [*range(100, 108), *range(8)]
    assert sorted(task.X_test[:, 0].tolist()) == [8, 9, 108, 109]
    assert task.y_test.tolist() == [1, 1, 1, 1]


def test_bosch_and_year_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = ",".join(["Id", *(f"L0_F{k}" for k in range(968)), "Response"])
    rows = [",".join([str(k), *("" if f % 2 else "0.25" for f in range(968)), str(k % 2)])
            for k in range(5)]  # fmt: skip
    (tmp_path / "train_numeric.csv").write_text("\n".join([header, *rows]) + "\n")
    monkeypatch.setattr(official, "_BOSCH_TRAIN", 3)
    monkeypatch.setitem(DATASETS, "bosch", replace(DATASETS["bosch"], n_train=3, n_test=2))
    bosch = load("bosch", tmp_path, None, None)
    assert np.isnan(bosch.X_train[:, 1]).all() and (bosch.X_train[:, 0] == 0.25).all()
    assert bosch.y_train.tolist() == [0, 1, 0] and bosch.y_test.tolist() == [1, 0]

    lines = [",".join(str(v) for v in [1990 + k, *range(90)]) for k in range(4)]
    (tmp_path / "YearPredictionMSD.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(official, "_YEAR_TRAIN", 3)
    monkeypatch.setitem(DATASETS, "year", replace(DATASETS["year"], n_train=3, n_test=1))
    assert load("year", tmp_path, None, None).y_test.tolist() == [1993]


def test_criteo_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def line(k: int) -> str:
        counts = ["" if f == k % 13 else str(f) for f in range(13)]
        return "\t".join([str(k % 2), *counts, *(["" if k == 0 else f"c{k % 2}"] * 26)])

    (tmp_path / "train.txt").write_text("\n".join(map(line, range(11))) + "\n")
    monkeypatch.setattr(official, "_CRITEO_TRAIN", 8)
    monkeypatch.setattr(official, "_CRITEO_TEST", 2)
    monkeypatch.setitem(DATASETS, "criteo", replace(DATASETS["criteo"], n_train=8, n_test=2))
    task = load("criteo", tmp_path, None, None)
    assert task.X_train.shape == (8, 65)
    assert np.isnan(task.X_train[3, 3]) and task.X_train[3, 4] == 4
    assert task.y_test.tolist() == [1, 0]  # rows 9 and 10: the one between is not used
    counts = task.X_train[:, 14]  # of the first category: missing, c1, c0, c1, c0, ...
    assert counts.tolist() == [1, 4, 3, 4, 3, 4, 3, 4]


# ---------------------------------------------------------------- encoding


def test_target_encoding_does_not_leak_a_rows_own_label() -> None:
    rng = np.random.default_rng(0)
    codes, label = rng.integers(0, 50, 1000), rng.integers(0, 2, 1000).astype(np.float32)
    before = encode_categories([codes], label, 800)
    for row in (0, 7, 799):
        changed = label.copy()
        changed[row] = 1 - changed[row]
        after = encode_categories([codes], changed, 800)
        # The overall mean moves a little; the row's own level must not move more than others.
        assert abs(after[row, 0] - before[row, 0]) <= 20 / 20 * 1 / 800 + 1e-6
    np.testing.assert_array_equal(before[:, 1], np.bincount(codes[:800], minlength=50)[codes])


def test_test_labels_do_not_enter_the_encoding() -> None:
    codes, label = np.arange(100) % 7, (np.arange(100) % 3 == 0).astype(np.float32)
    other = np.where(np.arange(100) >= 80, 1 - label, label)
    np.testing.assert_array_equal(
        encode_categories([codes], label, 80), encode_categories([codes], other, 80)
    )


# ---------------------------------------------------------------- specs


def _table(tmp_path: Path) -> Path:
    n = 60
    table = pa.table({
        "x": np.arange(n, dtype=np.float32),
        "color": ["red" if k % 3 else "blue" for k in range(n)],
        "y": pa.array([None if k == 5 else float(k) for k in range(n)]),
        "sold": ["yes" if k % 2 else "no" for k in range(n)],
        "q": np.repeat(np.arange(12), 5),
        "part": ["train" if k < 40 else "test" for k in range(n)],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "table.parquet")
    return tmp_path


def _spec(folder: Path, **content: object) -> Path:
    given = {"name": "mine", "files": ["table.parquet"], **content}
    path = folder / "spec.json"
    path.write_text(json.dumps(given))
    return path


def test_a_spec_of_a_binary_table(tmp_path: Path) -> None:
    path = _spec(_table(tmp_path), objective="binary", label="sold", positive="yes",
                 encode=["*"], ignore=["y", "q"],
                 split={"column": "part", "train": ["train"], "test": ["test"]})  # fmt: skip
    task = load_spec(read_spec(path), None)
    assert task.X_train.shape == (40, 3) and task.X_test.shape == (20, 3)
    assert task.y_train.tolist() == [k % 2 for k in range(40)]
    assert task.X_train[:, 2].tolist() == [26 if k % 3 else 14 for k in range(40)]


def test_a_spec_of_a_ranking_keeps_queries_whole(tmp_path: Path) -> None:
    path = _spec(_table(tmp_path), objective="lambdarank", label="x", group="q",
                 ignore=["color", "sold", "part", "y"], test_share=0.4,
                 encode=["color"])  # fmt: skip
    task = load_spec(read_spec(path), tmp_path)
    assert task.group_train is not None and set(task.group_train) == {5}
    assert len(task.X_train) + len(task.X_test) == 60


def test_rows_without_a_label_can_be_dropped(tmp_path: Path) -> None:
    common = {"objective": "regression", "label": "y", "ignore": ["color", "sold", "part"]}
    path = _spec(_table(tmp_path), **common)
    with pytest.raises(bg.DataError, match="no value in row 6"):
        load_spec(read_spec(path), tmp_path)
    path = _spec(tmp_path, **common, drop_missing_labels=True)
    task = load_spec(read_spec(path), tmp_path)
    assert len(task.X_train) + len(task.X_test) == 59


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_times_become_minute_weekday_and_day_of_the_year(tmp_path: Path) -> None:
    moments = ["2006-12-16 17:24:00", "2008-01-01 00:00:00", "2007-03-01 23:59:00"] * 10
    pq.write_table(pa.table({"when": moments, "y": np.arange(30.0)}), tmp_path / "t.parquet")
    spec = Spec(name="t", files=["t.parquet"], objective="regression", label="y", times=["when"])
    task = load_spec(spec, tmp_path)
    rows = {tuple(row) for row in np.concatenate([task.X_train, task.X_test]).tolist()}
    assert rows == {(1044.0, 5.0, 349.0), (0.0, 1.0, 0.0), (1439.0, 3.0, 59.0)}


def test_a_spec_in_toml(tmp_path: Path) -> None:
    path = _table(tmp_path) / "spec.toml"
    path.write_text(
        'name = "mine"\nfiles = ["table.parquet"]\nobjective = "regression"\nlabel = "x"\n'
        'ignore = ["color", "sold", "part", "y"]\nparameters = { num_leaves = 7 }\n'
    )
    assert read_spec(path).parameters == {"num_leaves": 7}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"objective": "regression", "lable": "y"}, "unknown key 'lable'; did you mean 'label'"),
        ({"objective": "regression"}, "'label' is needed"),
        ({"objective": "multi", "label": "y"}, "must be one of binary, regression, multiclass"),
        ({"objective": "lambdarank", "label": "y"}, "'group' need each other"),
        ({"objective": "regression", "label": "y", "test_share": 2}, "test_share=2"),
        ({"objective": "regression", "label": "y", "parameters": {"leaves": 3}}, "unknown key"),
        ({"objective": "regression", "label": "y", "split": {"column": "part"}}, "split needs"),
    ],
)
def test_bad_specs_are_refused(tmp_path: Path, content: dict[str, object], message: str) -> None:
    with pytest.raises(bg.DataError, match=message):
        read_spec(_spec(tmp_path, **content))


def test_a_spec_whose_file_is_missing(tmp_path: Path) -> None:
    spec = read_spec(_spec(tmp_path, objective="regression", label="y"))
    with pytest.raises(bg.DataError, match=r"table\.parquet not found in .*--data"):
        load_spec(spec, tmp_path / "elsewhere")


def test_rows_that_belong_together_stay_on_one_side(tmp_path: Path) -> None:
    path = _spec(_table(tmp_path), objective="multiclass", label="color", together="q",
                 ignore=["sold", "part", "y"], test_share=0.4)  # fmt: skip
    task = load_spec(read_spec(path), None)
    assert task.n_classes == 2 and set(task.y_train) == {0.0, 1.0}
    assert task.X_train.shape[1] == 1  # x alone
    queries = [set(np.unique(part[:, 0] // 5)) for part in (task.X_train, task.X_test)]
    assert not queries[0] & queries[1] and len(queries[0] | queries[1]) == 12


def test_the_real_sets_are_found_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 50
    table = pa.table({"label": [k % 2 for k in range(n)], "x": np.arange(n, dtype=np.float32)})
    pq.write_table(table, tmp_path / "higgs_11k.parquet")
    assert available(REAL, tmp_path) == ["higgs_11k"] and available(REAL, None) == []
    assert len(load("higgs_11k", tmp_path, None, 20).X_train) < 30
    with pytest.raises(bg.DataError, match=r"covtype\.parquet not found in"):
        load("covtype", tmp_path, None, None)
    assert data_folder(None) is None
    monkeypatch.setenv("BITGROVE_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path
    with pytest.raises(bg.ParameterError, match="no such folder"):
        data_folder("/nowhere")


def test_shards_of_rows_are_whole_queries() -> None:
    rows = DATASETS["letor"].load(Wanted(None, None, 2000)).train
    shards = [rows.shard(rank, 3) for rank in range(3)]
    np.testing.assert_array_equal(np.concatenate([shard.X for shard in shards]), rows.X)
    np.testing.assert_array_equal(np.concatenate([shard.group for shard in shards]), rows.group)
    assert all(shard.group.sum() == len(shard.y) for shard in shards)
