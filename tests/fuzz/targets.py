"""What can be fuzzed: a name for each room, and a case of it by its number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz import model_files, rank_messages, text_tables, trainings

TARGETS: dict[str, Callable[[np.random.Generator], bool]] = {
    "models": model_files.one,
    "messages": rank_messages.one,
    "tables": text_tables.one,
    "train": trainings.one,
}


def run_case(target: str, case: int) -> bool:
    """Whether what was made was accepted; any exception is a find."""
    return TARGETS[target](np.random.default_rng(case))
