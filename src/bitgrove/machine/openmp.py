"""Loads the C++ core with threads that wait politely.

GNU OpenMP lets idle threads spin for milliseconds by default. On a machine that is busy with other
work this makes short parallel regions several times slower, so the core asks for a short spin and
then sleep. The setting is read when the OpenMP library is loaded, and only by that copy of it; a
user's own OMP_WAIT_POLICY or GOMP_SPINCOUNT wins, and the environment is left as it was.
"""

from __future__ import annotations

import importlib
import os

from bitgrove.machine.threads import available_cores

# Waking threads takes time in proportion to their number, so many cores spin a little longer.
_SPIN_PER_CORE = 1000


def load_core() -> None:
    """Imports bitgrove._core."""
    chosen_by_user = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
    if not chosen_by_user:
        os.environ["GOMP_SPINCOUNT"] = str(_SPIN_PER_CORE * available_cores())
    try:
        importlib.import_module("bitgrove._core")
    finally:
        if not chosen_by_user:
            del os.environ["GOMP_SPINCOUNT"]
