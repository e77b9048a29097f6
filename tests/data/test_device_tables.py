"""Where a table lies, and what is said when that is the wrong place; these need no GPU."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bitgrove as bg
from bitgrove.data.device_tables import is_on_gpu, on_host, require_device, take_rows
from bitgrove.errors import DataError, ParameterError
from bitgrove.model.predict import choose_gpu


class OnGpu:
    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class OnHost:
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_where_arrays_lie() -> None:
    for host in (np.zeros(3), [1.0], pd.DataFrame({"a": [1.0]}), OnHost(), None):
        assert not is_on_gpu(host)
        assert on_host(host) is host
    assert is_on_gpu(OnGpu())


def test_gpu_array_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ParameterError, match=r"bitgrove\[cuda\]"):
        bg.Dataset(OnGpu())


@pytest.mark.parametrize(("lies_on", "device"), [("cuda:0", "cpu"), ("cuda:0", "cuda:1")])
def test_wrong_device(lies_on: str, device: str) -> None:
    with pytest.raises(DataError, match=f"X lies on {lies_on}, but this runs on {device}"):
        require_device(lies_on, device)
    require_device("cpu", device)
    require_device(lies_on, lies_on)


def test_rows_of_host_columns() -> None:
    column: Any = np.arange(5.0)
    assert take_rows(column, np.array([3, 1])).tolist() == [3.0, 1.0]
    assert take_rows(column, slice(1, 3)).tolist() == [1.0, 2.0]


def test_choice_of_the_device() -> None:
    X = np.zeros((2, 2))
    assert choose_gpu(X, None, "cpu", 9) is None and choose_gpu(X, "cpu", "cuda:0", 9) is None
    with pytest.raises(ParameterError, match="device='gpu': allowed are"):
        choose_gpu(X, "gpu", "cpu", 9)
