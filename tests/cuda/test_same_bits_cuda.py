"""The same model bytes from the GPU as from everywhere else."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream_cases import NAMES, streamed, streamed_valid

import bitgrove as bg
from bitgrove.backends.room import Needs
from bitgrove.errors import DeviceMemoryError, ParameterError
from bitgrove.params import resolve
from cases import CASES, signal, table

DIGESTS = json.loads((Path(__file__).parents[1] / "golden" / "digests.json").read_text())
BINARY = {"objective": "binary", "n_estimators": 3, "num_leaves": 31, "random_state": 3}


@pytest.mark.parametrize("name", sorted(CASES))
def test_digest_is_the_committed_one(backend: Any, name: str) -> None:
    assert CASES[name]().train(device="cuda").digest() == DIGESTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_streams_and_binned_files(backend: Any, name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    params = {**case.params, "device": "cuda"}
    data, valid = streamed(case, group=case.group), streamed_valid(case)
    assert bg.train(params, data, valid_sets=valid).digest() == DIGESTS[name]
    data.save(tmp_path / "a.bins", case.params)
    opened = bg.open_dataset(tmp_path / "a.bins")
    assert bg.train(params, opened, valid_sets=streamed_valid(case)).digest() == DIGESTS[name]


@pytest.mark.parametrize("name", ["binary 3 bits nearest", "multiclass", "regression weighted"])
def test_settings_that_change_nothing(backend: Any, name: str) -> None:
    case = CASES[name]()
    digest = case.train().digest()
    for change in ({"frontier_alpha": 0.2}, {"packed": False}, {"device": backend.name}):
        assert case.train(**{"device": "cuda", **change}).digest() == digest


@pytest.mark.parametrize("num_leaves", [31, 120])
def test_a_gpu_chooses_nodes_as_the_frontier_does(backend: Any, num_leaves: int) -> None:
    """Gains grow on the way down here: ranks by the least gain alone leave rounds to the host."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + rng.normal(size=3000) > 0
    params = {**BINARY, "num_leaves": num_leaves, "n_estimators": 30, "min_child_samples": 5,
              "frontier_alpha": 0.6}  # fmt: skip
    rounds = [
        bg.train({**params, "device": device}, bg.Dataset(X, y)).info.rounds_per_tree
        for device in ("cuda", "cpu")
    ]
    assert sum(rounds[0]) <= 1.02 * sum(rounds[1])


@pytest.mark.parametrize("n_ranks", [2, 3])
@pytest.mark.parametrize(
    "name",
    ["binary 2 bits", "binary full precision", "ranking", "monotone intermediate", "interactions"],
)
def test_shards_on_one_gpu(backend: Any, name: str, n_ranks: int) -> None:
    case = CASES[name]()
    models = case.train_on_shards(n_ranks, device="cuda")
    assert {m.digest() for m in models} == {case.train().digest()}


def same(X: Any, y: Any, **params: Any) -> None:
    models = [
        bg.train({**BINARY, **params, "device": d}, bg.Dataset(X, y)) for d in ("cpu", "cuda")
    ]
    assert models[0].digest() == models[1].digest()
    assert models[0].trees


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8, None])
def test_bits(backend: Any, bits: int | None) -> None:
    """Enough rows that nodes take several blocks, in every width of accumulator."""
    X = table(20_000, 5, 1, missing=0.1)
    same(X, (signal(X, 1) > 0.75).astype(float), gradient_bits=bits, num_leaves=63)


RULES: list[dict[str, Any]] = [
    {"monotone_constraints": [1, -1, 1, 0, 0, 0]},
    {"monotone_constraints": [1, -1, 1, 0, 0, 0], "monotone_constraints_method": "intermediate"},
    {"interaction_constraints": [[0, 1, 2], [2, 3]], "colsample_bynode": 0.5},
    {"extra_trees": True, "path_smooth": 4.0, "feature_contri": [1, 0.5, 1, 1, 1, 0.9]},
    {"monotone_constraints": [1, 0, 0, 0, 0, -1], "colsample_bynode": 0.6, "gradient_bits": None},
]


@pytest.mark.parametrize("rules", RULES, ids=[" ".join(rules) for rules in RULES])
def test_rules(backend: Any, rules: dict[str, Any]) -> None:
    """Many nodes of several blocks; then, on the same pool, a training without rules."""
    X = table(30_000, 6, 2, missing=0.1)
    y = (signal(X, 2) > 0.75).astype(float)
    same(X, y, num_leaves=127, **rules)
    same(X, y, num_leaves=127, histogram_pool_mb=1, **rules)
    same(X, y, num_leaves=31)


def test_rules_of_ranks_that_vote(backend: Any) -> None:
    case = CASES["interactions"]()
    how = {"distributed": "voting", "top_k": 2}
    expected = case.train_on_shards(2, **how)[0].digest()
    assert case.train_on_shards(2, device="cuda", **how)[0].digest() == expected


@pytest.mark.parametrize("name", ["binary 2 bits", "multiclass", "regression weighted"])
def test_going_on_from_a_model_of_other_rows(backend: Any, name: str) -> None:
    case = CASES[name]()
    params = {k: v for k, v in case.params.items() if k != "early_stopping_rounds"}
    params |= {"n_estimators": 3, "learning_rate": [0.3, 0.2, 0.1]}
    start = bg.train(params, bg.Dataset(case.X + 0.01, case.y, weight=case.weight))
    models = []
    for device in ("cpu", "cuda"):
        data = bg.Dataset(case.X, case.y, weight=case.weight)
        valid = [data.subset(np.arange(0, len(case.y), 3))]
        how = {"valid_sets": valid, "init_model": start}
        models.append(bg.train({**params, "device": device}, data, **how))
    assert models[0].digest() == models[1].digest()
    assert models[0].info.evals_result == models[1].info.evals_result


def test_rows_that_share_the_bins_of_others(backend: Any) -> None:
    X = table(3000, 5, 1, missing=0.1)
    whole = bg.Dataset(X, (signal(X, 1) > 0.75).astype(float))
    part = whole.subset(np.arange(0, 3000, 2))
    models = [bg.train({**BINARY, "device": device}, part) for device in ("cpu", "cuda")]
    assert models[0].digest() == models[1].digest()


SHAPES = [(1, 1), (2, 1), (31, 3), (400, 33), (64, 300)]
# A warp looks at several features of a node.
WIDE_SHAPES = [
    pytest.param(*shape, marks=pytest.mark.real_gpu)
    for shape in [(500, 2000), (300, 5000), (6000, 300)]
]


@pytest.mark.parametrize(("n_rows", "n_features"), [*SHAPES, *WIDE_SHAPES])
def test_shapes(backend: Any, n_rows: int, n_features: int) -> None:
    X = table(n_rows, n_features, 2)
    y = (np.arange(n_rows) % 3 == 0).astype(float)
    same(X, y, min_child_samples=1)


def test_leaves_of_one_row(backend: Any) -> None:
    X, y = np.arange(64.0)[:, None], np.arange(64) * 3.0
    alone = {"min_child_samples": 1, "min_child_weight": 0.0, "num_leaves": 64}
    same(X, y, objective="regression", gradient_bits=None, **alone)


@pytest.mark.parametrize("bits", [2, 3, 5, 8, None])
@pytest.mark.parametrize("objective", ["binary", "regression", "multiclass", "lambdarank"])
def test_everything_at_once(backend: Any, objective: str, bits: int | None) -> None:
    """Missing values, weights, samples of rows and features, and early stopping together."""
    X = table(3000, 7, 5, missing=0.1)
    grades = np.digitize(signal(X, 5), [0.0, 1.0, 2.0]).astype(float)
    label = {"binary": (grades > 1).astype(float), "regression": signal(X, 5)}
    y = label.get(objective, grades)
    weight = np.random.default_rng(5).integers(0, 5, 3000) / 4
    is_ranking = objective == "lambdarank"
    params = {
        "objective": objective, "gradient_bits": bits, "num_leaves": 15, "n_estimators": 12,
        "subsample": 0.7, "subsample_freq": 1, "colsample_bytree": 0.7, "learning_rate": 0.5,
        "early_stopping_rounds": 2, "random_state": 1,
    }  # fmt: skip
    models, results = [], []
    for device in ("cpu", "cuda"):
        group, valid_group = ([20] * 100, [10] * 100) if is_ranking else (None, None)
        data = bg.Dataset(X[:2000], y[:2000], weight=weight[:2000], group=group)
        valid = bg.Dataset(X[2000:], y[2000:], group=valid_group)
        models.append(bg.train({**params, "device": device}, data, valid_sets=valid))
        assert models[-1].info is not None
        results.append(models[-1].info.evals_result)
    assert models[0].digest() == models[1].digest()
    assert results[0] == results[1]


@pytest.mark.parametrize("bits", [3, None])
def test_few_histogram_slots(backend: Any, bits: int | None) -> None:
    """Histograms are thrown away and built again, in several searches per round."""
    X = table(3000, 300, 6)
    same(X, (signal(X, 6) > 0.75).astype(float), gradient_bits=bits, histogram_pool_mb=2)


@pytest.mark.real_gpu
def test_memory_is_returned(backend: Any) -> None:
    cupy = pytest.importorskip("cupy")
    X = table(200_000, 20, 7)

    def free_bytes() -> int:
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()
        return int(cupy.cuda.runtime.memGetInfo()[0])

    def train() -> None:
        bg.train({**BINARY, "device": "cuda"}, bg.Dataset(X, (X[:, 0] > 0).astype(float)))

    train()  # modules stay loaded, and the driver keeps some memory of its own
    before = free_bytes()
    for _ in range(4):
        train()
    assert before - free_bytes() < X.nbytes // 4


def test_memory_that_is_not_there_is_said(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the estimate it trains, with few histograms; one byte below it is refused."""
    cupy = pytest.importorskip("cupy")
    X = table(20_000, 6, 7)
    y, params = (X[:, 0] > 0).astype(float), {**BINARY, "device": "cuda"}
    expected = bg.train({**BINARY, "device": "cpu"}, bg.Dataset(X, y)).digest()
    least = Needs(bg.Dataset(X, y), [], 1, 0, resolve(params)).least(False, True)
    cupy.get_default_memory_pool().free_all_blocks()
    monkeypatch.setattr(type(backend.device), "free_bytes", lambda self: least)
    assert bg.train(params, bg.Dataset(X, y)).digest() == expected
    cupy.get_default_memory_pool().free_all_blocks()
    monkeypatch.setattr(type(backend.device), "free_bytes", lambda self: least - 1)
    with pytest.raises(DeviceMemoryError, match="need at least"):
        bg.train(params, bg.Dataset(X, y))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_of_the_table(backend: Any, order: Any, dtype: Any) -> None:
    X = np.asarray(table(500, 6, 3, missing=0.1), dtype=dtype, order=order)
    y = (np.nan_to_num(X[:, 0]) > 0).astype(float)
    same(X, y)
    same(X[::2, 1:], y[::2])


def test_second_training_on_one_dataset(backend: Any) -> None:
    X = table(800, 4, 4)
    data = bg.Dataset(X, (X[:, 0] > 0).astype(float))
    first, second = (bg.train({**BINARY, "device": "cuda"}, data) for _ in range(2))
    assert first.to_bytes() == second.to_bytes()


def test_no_such_device(backend: Any) -> None:
    with pytest.raises(ParameterError, match="numbered from 0"):
        bg.train({**BINARY, "device": "cuda:999"}, bg.Dataset([[0.0], [1.0]], [0, 1]))
