"""A few seconds of each fuzzer with fixed numbers, and what a damaged file must always do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.errors import DataError, ModelFormatError
from tests.fuzz import binned_files, imports, model_files
from tests.fuzz.targets import READERS, TARGETS, run_case

SHORT = {"models": 300, "bins": 300, "imports": 200, "messages": 300, "forests": 300, "tables": 25,
         "train": 15}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_a_few_cases(target: str) -> None:
    accepted = sum(run_case(target, case) for case in range(SHORT[target]))
    assert 0 < accepted <= SHORT[target]  # nothing is learnt from cases that are all refused


def damaged(data: bytes) -> list[bytes]:
    """Cut off at every byte, and with each byte flipped."""
    flipped = []
    for n in range(len(data)):
        changed = bytearray(data)
        changed[n] ^= 1 << n % 8
        flipped.append(bytes(changed))
    return flipped + [data[:n] for n in range(len(data))]


def test_every_truncation_and_every_flipped_byte_of_a_model_is_refused() -> None:
    for data in damaged(min(model_files.seeds(), key=len)):
        with pytest.raises(ModelFormatError):
            bg.Model.from_bytes(data)


def test_every_truncation_and_every_flipped_byte_of_bins_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "damaged.bins"
    for data in damaged(min(binned_files.seeds(), key=len)):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"damaged\.bins: "):
            bg.open_dataset(path)


def names(corpus: Path) -> list[Path]:
    return sorted(corpus.iterdir())


@pytest.mark.parametrize("path", names(model_files.CORPUS), ids=lambda path: path.stem)
def test_models_of_every_version_stay_readable(path: Path) -> None:
    model = bg.load(path)
    assert model.forest.n_trees == len(model.trees) > 0
    assert path.read_bytes()[8] == (1 if path.stem == "version_1" else 2)


@pytest.mark.parametrize("path", names(binned_files.CORPUS), ids=lambda path: path.stem)
def test_bins_of_every_version_stay_readable(path: Path) -> None:
    dataset = bg.open_dataset(path)
    assert path.read_bytes()[8] == 1
    assert dataset.n_rows == {"all_parts": 24, "many_levels": 310, "no_labels": 20}.get(
        path.stem, 16
    )


@pytest.mark.parametrize("path", names(imports.CORPUS), ids=lambda path: path.name)
def test_imports_stay_readable(path: Path) -> None:
    """Of LightGBM 4.7 and XGBoost 3.2, and written by us."""
    model = bg.import_model(path)
    assert model.forest.n_trees == len(model.trees) >= 3


@pytest.mark.parametrize("target", READERS)
def test_the_corpus_keeps_the_promises(target: str) -> None:
    rng = np.random.default_rng(0)
    assert all(READERS[target].check(data, rng) for data in READERS[target].seeds())
