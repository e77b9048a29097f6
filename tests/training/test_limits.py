"""The limits of docs/reliability.md: what is at one works, what is past it is refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.data import tables
from bitgrove.errors import DataError, HostMemoryError, ModelFormatError, ParameterError
from bitgrove.machine import memory
from bitgrove.model import file as model_file
from bitgrove.objectives import Multiclass
from bitgrove.params import resolve
from bitgrove.training import guards

X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 2
FEW: dict[str, Any] = {"objective": "binary", "n_estimators": 1, "min_child_samples": 1}


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tables.MAX_ROWS == 2**31 - 1  # of a rank: they are numbered by int32
    monkeypatch.setattr(tables, "MAX_ROWS", 20)
    assert bg.Dataset(X, Y).n_rows == 20
    with pytest.raises(DataError, match="X has 21 rows; at most 20"):
        bg.Dataset(np.zeros((21, 2)))


def test_more_rows_than_there_can_be_are_refused_without_being_read() -> None:
    endless = np.broadcast_to(np.float64(1.0), (2**31, 1))  # 8 bytes
    with pytest.raises(DataError, match="X has 2147483648 rows; at most 2147483647"):
        bg.Dataset(endless)


def test_features(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(tables.default_names(tables.MAX_FEATURES)[-1]) == 8  # 11 bytes of the header's 24 MB
    assert 11 * tables.MAX_FEATURES < 24 * 2**20
    monkeypatch.setattr(tables, "MAX_FEATURES", 2)
    assert bg.Dataset(X, Y).n_features == 2
    with pytest.raises(DataError, match="X has 3 features; at most 2"):
        bg.Dataset(np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("num_leaves", 131_072),
        ("max_bin", 255),
        ("n_estimators", 10**6),
        ("max_depth", 2**31 - 1),
        ("gradient_bits", 8),
    ],
)
def test_parameters(name: str, most: int) -> None:
    assert getattr(resolve({name: most}), name) == most
    with pytest.raises(ParameterError, match=name):
        resolve({name: most + 1})


def test_the_largest_trees_and_depths_train() -> None:
    rows = np.arange(3000.0)[:, None]
    params = {"objective": "regression", "n_estimators": 1, "min_child_samples": 1, "max_bin": 255,
              "num_leaves": 131_072, "max_depth": 2**31 - 1, "min_child_weight": 0}  # fmt: skip
    model = bg.train(params, bg.Dataset(rows, np.exp(rows[:, 0] / 300)))
    assert 200 < model.trees[0].n_leaves <= 255
    assert bg.Model.from_bytes(model.to_bytes()).predict(rows).tobytes() == (
        model.predict(rows).tobytes()
    )


def test_one_query_of_all_rows_and_one_of_each() -> None:
    for group in ([20], [1] * 20):
        bg.train({**FEW, "objective": "lambdarank"}, bg.Dataset(X, Y, group=group))
    with pytest.raises(DataError, match="group sizes add up to"):
        bg.Dataset(X, Y, group=[2**62, 2**62])


def test_memory_that_is_not_there_is_said_before_it_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = 20 * (3 * 12 + 2)  # rows x (outputs x (score, gradient) + bins)
    params = {**FEW, "objective": "multiclass", "num_class": 3}
    monkeypatch.setattr(guards, "free_memory", lambda: needed)
    bg.train(params, bg.Dataset(X, np.arange(20) % 3))
    monkeypatch.setattr(guards, "free_memory", lambda: needed - 1)
    with pytest.raises(HostMemoryError, match="20 rows of 2 features with 3 outputs need at least"):
        bg.train(params, bg.Dataset(X, np.arange(20) % 3))
    with pytest.raises(MemoryError):
        bg.BitGroveClassifier(n_estimators=1).fit(X, np.arange(20) % 3)
    monkeypatch.setattr(guards, "free_memory", lambda: None)  # nobody says
    bg.train(params, bg.Dataset(X, np.arange(20) % 3))


def test_classes() -> None:
    params = {**FEW, "objective": "multiclass"}
    with pytest.raises(ParameterError, match="num_class=65537: at most 65536 are possible"):
        bg.train({**params, "num_class": 65_537}, bg.Dataset(X, Y))
    Multiclass(num_class=65_536).check_settings()


def test_memory_of_machine_and_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path / "cgroup")
    assert memory.free_memory() is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "cgroup" / "memory").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(
        "MemTotal: 9 kB\nMemAvailable: 7 kB\nSwapFree: 1 kB\n"
    )
    assert memory.free_memory() == 8 * 1024
    old = tmp_path / "cgroup" / "memory"
    (old / "memory.limit_in_bytes").write_text("6000\n")
    (old / "memory.usage_in_bytes").write_text("5000\n")
    (old / "memory.stat").write_text("total_inactive_file 300\n")
    assert memory.free_memory() == 1300
    (tmp_path / "cgroup" / "memory.max").write_text("max\n")
    (tmp_path / "cgroup" / "memory.current").write_text("100\n")
    assert memory.free_memory() == 1300  # no limit there
    (tmp_path / "cgroup" / "memory.max").write_text("200\n")
    assert memory.free_memory() == 100


def test_the_header_of_a_model_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_file.MAX_HEADER_BYTES == 32 * 2**20
    data = bg.train(FEW, bg.Dataset(X, Y)).to_bytes()
    size = int.from_bytes(data[12:20], "little")
    monkeypatch.setattr(model_file, "MAX_HEADER_BYTES", size)
    assert bg.Model.from_bytes(data).to_bytes() == data
    monkeypatch.setattr(model_file, "MAX_HEADER_BYTES", size - 1)
    with pytest.raises(ModelFormatError, match="header"):
        bg.Model.from_bytes(data)
