"""What can be fuzzed: a name for each room, and a case of it by its number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from tests.fuzz import (
    binned_files,
    forests,
    imports,
    model_files,
    rank_messages,
    text_tables,
    trainings,
)
from tests.fuzz.mutations import chosen


class Reader(Protocol):
    """A room that reads bytes of strangers: good ones, a mutator that knows them, what holds."""

    def seeds(self) -> list[bytes]: ...
    def mutant(self, rng: np.random.Generator, data: bytes) -> bytes: ...
    def check(self, data: bytes, rng: np.random.Generator) -> bool: ...


READERS: dict[str, Reader] = {
    "models": model_files,
    "bins": binned_files,
    "imports": imports,
    "messages": rank_messages,
    "forests": forests,
}
# The others make their cases themselves.
MAKERS: dict[str, Callable[[np.random.Generator], bool]] = {
    "tables": text_tables.one,
    "train": trainings.one,
}
TARGETS = [*READERS, *MAKERS]


def run_case(target: str, case: int) -> bool:
    """Whether what was made was accepted; any exception is a find."""
    rng = np.random.default_rng(case)
    if target in MAKERS:
        return MAKERS[target](rng)
    reader = READERS[target]
    return reader.check(reader.mutant(rng, chosen(rng, reader.seeds())), rng)
