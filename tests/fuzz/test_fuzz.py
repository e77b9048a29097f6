"""A few seconds of each fuzzer with fixed numbers, and what a damaged file must always do."""

from __future__ import annotations

from pathlib import Path

import pytest

import bitgrove as bg
from bitgrove.errors import ModelFormatError
from tests.fuzz.model_files import CORPUS, seeds
from tests.fuzz.targets import TARGETS, run_case

SHORT = {"models": 400, "messages": 300, "tables": 25, "train": 15}


@pytest.mark.parametrize("target", [*TARGETS])
def test_a_few_cases(target: str) -> None:
    accepted = sum(run_case(target, case) for case in range(SHORT[target]))
    assert 0 < accepted <= SHORT[target]  # nothing is learnt from cases that are all refused


def test_every_truncation_and_every_flipped_byte_of_a_model_is_refused() -> None:
    data = min(seeds(), key=len)
    for n in range(len(data)):
        flipped = bytearray(data)
        flipped[n] ^= 1 << n % 8
        for damaged in (data[:n], bytes(flipped)):
            with pytest.raises(ModelFormatError):
                bg.Model.from_bytes(damaged)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.bitgrove")), ids=lambda path: path.stem)
def test_files_of_every_version_stay_readable(path: Path) -> None:
    model = bg.load(path)
    assert model.forest.n_trees == len(model.trees) > 0
    assert path.read_bytes()[8] == (1 if path.stem == "version_1" else 2)
