"""Rows that come in batches train to the bytes of the same rows in memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream_cases import NAMES, cut, streamed, streamed_valid, train, train_shard

import bitgrove as bg
from bitgrove.distributed import run_threads
from cases import CASES


@pytest.mark.parametrize("name", NAMES)
def test_same_bytes_as_in_memory(name: str) -> None:
    case = CASES[name]()
    whole, found = case.train(), train(case)
    assert found.to_bytes() == whole.to_bytes()
    assert found.info.evals_result == whole.info.evals_result


@pytest.mark.parametrize("name", ["binary few bins", "ranking", "categories multiclass"])
def test_same_bytes_on_several_ranks(name: str) -> None:
    case = CASES[name]()
    case.valid = None
    case.params.pop("early_stopping_rounds", None)
    expected = case.train().to_bytes()
    for model in run_threads(3, lambda comm: train_shard(case, comm)):
        assert model.to_bytes() == expected


@pytest.mark.parametrize("name", ["binary few bins", "categories"])
def test_same_bytes_of_the_oracle(name: str) -> None:
    case = CASES[name]()
    assert train(case, device="reference").to_bytes() == case.train().to_bytes()


@pytest.mark.parametrize("seed", [0, 3])
def test_sample_of_many_small_batches(seed: int) -> None:
    """Far more rows than the sample: its limit falls while they come."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 3)).astype(np.float32)
    y, weight = X[:, 0] + rng.normal(size=6000), rng.integers(0, 3, size=6000)
    params = {"objective": "regression", "n_estimators": 3, "bin_sample_rows": 150, "max_bin": 40}
    params["random_state"] = seed
    found = bg.Dataset.from_batches(cut(X, y, weight, size=77))
    expected = bg.train(params, bg.Dataset(X, y, weight=weight)).to_bytes()
    assert bg.train(params, found).to_bytes() == expected


def test_first_pass_keeps_the_rows_that_binning_takes(monkeypatch: Any) -> None:
    """With usual parameters two passes are enough."""
    monkeypatch.setattr("bitgrove.data.streams.streamed._DEFAULTS", bg_params(bin_sample_rows=200))
    case, passes = CASES["binary 2 bits"](), []
    case.params |= {"bin_sample_rows": 200, "random_state": 0}
    make = cut(case.X, case.y)

    def counted() -> Iterator[Any]:
        passes.append(1)
        return make()

    dataset = bg.Dataset.from_batches(counted)
    assert bg.train(case.params, dataset).to_bytes() == case.train().to_bytes()
    assert len(passes) == 2
    bg.train({**case.params, "num_leaves": 4}, dataset)  # the bins are there
    assert len(passes) == 2
    other = {**case.params, "random_state": 5}
    assert bg.train(other, dataset).to_bytes() == case.train(random_state=5).to_bytes()


def bg_params(**given: Any) -> Any:
    from bitgrove.params import resolve

    return resolve(given)


def frame(n_rows: int = 900) -> Any:
    """Columns of all kinds."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    df = pd.DataFrame(
        {
            "single": rng.normal(size=n_rows).astype(np.float32),
            "double": np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows)),
            "whole": rng.integers(-5, 100, n_rows),
            "truth": rng.random(n_rows) < 0.3,
            "text": rng.choice(["ä", "b", "", "dd"], n_rows).astype(object),
            "shop": np.array([f"s{i}" for i in rng.integers(0, 300, n_rows)], dtype=object),
        }
    )
    df.loc[:200, "text"] = None  # the first batches do not show that it is text
    df["price"] = df["single"] + (df["text"] == "b") + 0.1 * df["whole"]
    return df


PARAMS = {"objective": "regression", "n_estimators": 4, "min_child_samples": 5, "n_jobs": 2}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "record batches"])
def test_frames_of_all_libraries(kind: str) -> None:
    df = frame()
    expected = bg.train(PARAMS, bg.Dataset(df.drop(columns="price"), df["price"])).to_bytes()

    def batches() -> Iterator[Any]:
        for first in range(0, len(df), 100):
            part = df[first : first + 100]
            if kind == "polars":
                yield pytest.importorskip("polars").from_pandas(part)
            elif kind != "pandas":
                table = pytest.importorskip("pyarrow").Table.from_pandas(part, preserve_index=False)
                yield table if kind == "arrow" else table.to_batches()[0]
            else:
                yield part

    found = bg.Dataset.from_batches(batches, label="price")
    assert found.feature_names == list(df.columns[:-1])
    assert repr(found) == "<bitgrove.Dataset 900 rows, 6 features, with label>"
    assert bg.train(PARAMS, found).to_bytes() == expected


def test_types_may_change_between_batches() -> None:
    """Whole numbers first, then reals; narrow ones and wide ones; a column that is empty first."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    parts = [
        pd.DataFrame({"a": rng.integers(0, 9, 90), "c": [None] * 90, "k": rng.integers(0, 4, 90)}),
        pd.DataFrame({"a": rng.normal(size=90), "c": ["x", "y", None] * 30, "k": [1.5, 2.0] * 45}),
        pd.DataFrame({"a": rng.normal(size=90).astype("f4"), "c": ["z"] * 90, "k": [True] * 90}),
    ]
    whole = pd.concat([part.astype({"a": "f8", "k": "f8"}) for part in parts], ignore_index=True)
    y = rng.normal(size=270) + (whole["c"] == "x") + whole["k"]
    options = {"categorical_feature": ["k"]}
    expected = bg.train(PARAMS, bg.Dataset(whole, y, **options))
    found = bg.train(PARAMS, bg.Dataset.from_batches(lambda: iter(parts), y, **options))
    assert found.to_bytes() == expected.to_bytes()


def test_queries_that_go_on_in_the_next_batch() -> None:
    case = CASES["ranking"]()
    ids = np.repeat(np.arange(len(case.group)), case.group)
    make = cut(case.X, case.y, ids, size=33)
    dicts = lambda: ({"X": X, "label": y, "qid": q} for X, y, q in make())  # noqa: E731
    found = bg.train(case.params, bg.Dataset.from_batches(dicts))
    assert found.to_bytes() == case.train().to_bytes()
    whole = bg.Dataset.from_batches(cut(case.X, case.y), group=case.group)
    assert bg.train(case.params, whole).to_bytes() == found.to_bytes()


def test_init_model_and_init_score() -> None:
    case = CASES["regression weighted"]()
    first = bg.train(case.params, bg.Dataset(case.X, case.y))
    expected = bg.train(case.params, bg.Dataset(case.X, case.y), init_model=first)
    data = bg.Dataset.from_batches(cut(case.X, case.y))
    assert bg.train(case.params, data, init_model=first).to_bytes() == expected.to_bytes()
    start = np.linspace(-1, 1, len(case.y))
    expected = bg.train(case.params, bg.Dataset(case.X, case.y, init_score=start))
    data = bg.Dataset.from_batches(cut(case.X, case.y), init_score=start)
    assert bg.train(case.params, data).to_bytes() == expected.to_bytes()


KILLED = """
import os, signal, sys
sys.path[:0] = [{tests!r}, {here!r}]
import bitgrove as bg
from cases import CASES
from stream_cases import streamed, streamed_valid

def kill(state):
    if state.iteration == 4:
        os.kill(os.getpid(), signal.SIGKILL)

case = CASES["categories"]()
bg.train(case.params, streamed(case), valid_sets=streamed_valid(case),
         callbacks=[bg.checkpoint({path!r}, 1), kill])
"""


def test_killed_and_resumed(tmp_path: Path) -> None:
    case, here = CASES["categories"](), Path(__file__).parent
    path = tmp_path / "checkpoint"
    script = KILLED.format(tests=str(here.parent), here=str(here), path=str(path))
    done = subprocess.run([sys.executable, "-c", script], env=dict(os.environ), timeout=300)
    assert done.returncode == -signal.SIGKILL
    assert bg.load(path).n_iterations in (3, 4)
    valid = streamed_valid(case)
    resumed = bg.train(case.params, streamed(case), valid_sets=valid, resume_from=path)
    assert resumed.to_bytes() == case.train().to_bytes()
