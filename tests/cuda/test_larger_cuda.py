"""Tables whose bins have no room on the GPU: some rows on the host, and the same model bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.backends.cuda import backend as backend_room
from bitgrove.backends.cuda import binning
from bitgrove.backends.cuda.matrix import CudaMatrix
from bitgrove.backends.cuda.memory import BYTES_PER_ROW
from bitgrove.errors import HostMemoryError
from cases import CASES, signal, table
from verb_cases import REFERENCE
from verbs_of_data import bins_on, check_bins, columns_of_many_kinds, mapper_for

DIGESTS = json.loads((Path(__file__).parents[1] / "golden" / "digests.json").read_text())
SHARES = [0.0, 0.37, 1.0]
BINARY = {"objective": "binary", "n_estimators": 4, "num_leaves": 31, "random_state": 3}


def keep(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Only a share of each table's rows has room, and no columns beside them."""
    add_columns = binning.add_columns

    def rows_with_room(self: Any, n_rows: int, n_features: int, beside: int) -> int:
        return int(share * n_rows)

    def without_room(matrix: CudaMatrix, room: int, device: Any) -> None:
        add_columns(matrix, -1, device)
        assert matrix.here.columns is None
        assert (matrix.there.n_rows == 0) == (matrix.there.columns is None)

    monkeypatch.setattr(backend_room.CudaBackend, "_rows_with_room", rows_with_room)
    monkeypatch.setattr(backend_room, "add_columns", without_room)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", sorted(CASES))
def test_digest_is_the_committed_one(
    backend: Any, monkeypatch: pytest.MonkeyPatch, name: str, share: float
) -> None:
    keep(monkeypatch, share)
    assert CASES[name]().train(device="cuda").digest() == DIGESTS[name]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("n_features", [3, 7, 16, 32, 33, 70])
def test_tiles_of_every_width(
    backend: Any, monkeypatch: pytest.MonkeyPatch, n_features: int, share: float
) -> None:
    """Sampled rows are walked, others divided; the validation rows are in two places, too."""
    X = table(30_001, n_features, 5, missing=0.1)
    y = (signal(X, 5) > 0.75).astype(float)
    params = {**BINARY, "subsample": 0.7, "metric": "auc"}

    def trained(device: str) -> tuple[str, Any]:
        kept: dict[str, Any] = {}
        valid = bg.Dataset(X[:5000], y[:5000])
        data, keep_it = bg.Dataset(X, y), [bg.record_evaluation(kept)]
        model = bg.train({**params, "device": device}, data, valid_sets=valid, callbacks=keep_it)
        return model.digest(), kept

    expected = trained("cpu")
    keep(monkeypatch, share)
    assert trained("cuda") == expected


def test_several_parts_on_their_way(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binning, "_PART_BYTES", 32 * 1000)
    monkeypatch.setattr(type(backend), "_rows_with_room", lambda self, n_rows, *_: n_rows // 3)
    for n_features in (8, 40):
        kinds = columns_of_many_kinds(7001, np.float32)
        columns = [kinds[f % len(kinds)] for f in range(n_features)]
        mapper = mapper_for(columns, 255)
        check_bins(backend, columns, mapper)
        found = backend.bin_columns([backend.upload(column) for column in columns], mapper)
        expected = REFERENCE.bin_columns(columns, mapper)
        np.testing.assert_array_equal(bins_on(backend, found), expected.bins)


def test_room_is_counted(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows on the device get what rows' own memory and histograms leave."""
    X = table(50_000, 40, 5)
    y = (signal(X, 5) > 0.75).astype(float)
    params = {**BINARY, "histogram_pool_mb": 1}
    expected = bg.train({**params, "device": "cpu"}, bg.Dataset(X, y)).digest()
    seen: list[CudaMatrix] = []

    def noted(matrix: CudaMatrix, room: int, device: Any) -> None:
        seen.append(matrix)
        binning.add_columns(matrix, room, device)

    monkeypatch.setattr(backend_room, "add_columns", noted)
    beside = 50_000 * BYTES_PER_ROW + (1 << 20)
    for room, n_here in ((beside, 0), (beside + 40 * 1000 + 39, 1000), (1 << 40, 50_000)):
        monkeypatch.setattr(type(backend.device), "free_bytes", lambda self, room=room: room)
        assert bg.train({**params, "device": "cuda"}, bg.Dataset(X, y)).digest() == expected
        assert seen[-1].here.n_rows == n_here
        assert (seen[-1].there.columns is None) == (n_here == 50_000)
    assert seen[-1].here.columns is not None


def test_a_host_without_room_is_said(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, 0.5)
    monkeypatch.setattr(backend_room, "free_memory", lambda: 10_000)
    X = table(5_000, 6, 5)
    with pytest.raises(HostMemoryError, match="no room on the GPU need"):
        bg.train({**BINARY, "device": "cuda"}, bg.Dataset(X, X[:, 0] > 0))
