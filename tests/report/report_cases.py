"""Names, levels and classes that would all like to run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

HOSTILE = [
    "<img src=x onerror='window.hacked=1'>",
    "</script><script>window.hacked=2</script>",
    '"><svg onload="window.hacked=3">',
    "\u202ereversed & <b>bold</b>",
    "<!--<script>",
    "plain",
    "x" * 5000,
    "city </bdi>",
]
LEVELS = ["<i>Oslo</i>", "'\"&amp;", "Łódź"]


def hostile_rows(n_rows: int = 400) -> tuple[pd.DataFrame, Any]:
    """A table whose names, levels and classes would all like to run."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame({name: rng.normal(size=n_rows) for name in HOSTILE})
    table[HOSTILE[-1]] = rng.choice(LEVELS, n_rows)
    table.loc[rng.random(n_rows) < 0.2, HOSTILE[0]] = np.nan
    score = table[HOSTILE[:6]].fillna(0.0).sum(axis=1) + 2.0 * (table[HOSTILE[-1]] == LEVELS[0])
    return table, np.where(score > 0.7, "<u>yes</u>", "</script>no")
