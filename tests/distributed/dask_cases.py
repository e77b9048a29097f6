"""Dask collections of the training cases, and clusters to train them on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from numpy.typing import NDArray

import bitgrove as bg
import bitgrove.dask
from bitgrove.objectives import OBJECTIVES
from bitgrove.params import resolve
from cases import Case


@contextmanager
def cluster_of(n_workers: int, **options: Any) -> Iterator[Client]:
    """A client of a fresh cluster; its workers are threads of this process unless told else."""
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0", **options}
    with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster) as client:
        yield client


def in_blocks(array: NDArray[Any], borders: Sequence[int]) -> da.Array:
    """A Dask array cut at the borders; two equal ones make an empty partition."""
    ends = [*borders[1:], array.shape[0]]
    blocks = [array[begin:end] for begin, end in zip(borders, ends, strict=True)]
    lazy = [da.from_delayed(dask.delayed(b), b.shape, dtype=b.dtype) for b in blocks]
    return da.concatenate(lazy)


def group_blocks(group: NDArray[np.int64], borders: Sequence[int]) -> da.Array:
    """The queries that lie in each block of rows."""
    ends = np.cumsum(group)
    cuts = [int(np.searchsorted(ends, border, side="right")) for border in borders]
    return in_blocks(group, [0, *cuts[1:]])


def estimator(module: Any, case: Case, **more: Any) -> Any:
    params = {k: v for k, v in case.params.items() if k != "num_class"}
    params["categorical_features"] = case.categories or "auto"
    objective = OBJECTIVES[resolve({"objective": params["objective"]}).objective or ""]
    name = "Classifier" if objective.is_classifier else "Regressor"
    name = "Ranker" if objective.needs_queries else name
    return getattr(module, f"BitGrove{name}")(**{**params, **more})


def fit_solo(case: Case) -> Any:
    extra: dict[str, Any] = {}
    if case.weight is not None:
        extra["sample_weight"] = case.weight
    if case.group is not None:
        extra["group"] = case.group
    if case.valid is not None:
        extra["eval_set"] = [case.valid[:2]]
        if case.valid[2] is not None:
            extra["eval_group"] = [case.valid[2]]
    return estimator(bg, case).fit(case.X, case.y, **extra)


def fit_dask(case: Case, client: Client, borders: Sequence[int], callbacks: Any = None) -> Any:
    """A fit on blocks of rows cut at the borders; validation rows in three blocks."""
    extra: dict[str, Any] = {"callbacks": callbacks}
    if case.weight is not None:
        extra["sample_weight"] = in_blocks(case.weight, borders)
    if case.group is not None:
        extra["group"] = group_blocks(case.group, borders)
    if case.valid is not None:
        X, y, group = case.valid
        ends = np.cumsum([0, *(np.full(len(y), 1) if group is None else group)])
        cuts = [int(ends[len(ends) * i // 3]) for i in range(3)]
        extra["eval_set"] = [(in_blocks(X, cuts), in_blocks(y, cuts))]
        if group is not None:
            extra["eval_group"] = [group_blocks(group, cuts)]
    model = estimator(bitgrove.dask, case, client=client)
    return model.fit(in_blocks(case.X, borders), in_blocks(case.y, borders), **extra)
