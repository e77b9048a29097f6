"""The same faults given to bitgrove, LightGBM, XGBoost and CatBoost: what does a user get?

    python -m lab bench reliability
    python -m lab bench reliability --sections inputs --libraries bitgrove lightgbm --json out.json

Sections: damaged model files, wrong inputs, saving that is killed or has no room, Ctrl-C. Every
library works in a process of its own, with its own estimators, formats and defaults; the rules are
the same for all. Each attempt is a fork with limits (20 s, 4 GB).
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lab import benchmarks
from lab.benchmarks.reliability import tables
from lab.benchmarks.reliability.libraries import LIBRARIES
from lab.reporting import machine, write_json

SECTIONS = ("files", "inputs", "saving", "interrupts")


def _measure(package: str, section: str, given: argparse.Namespace) -> Any:
    """In this process, which has imported no other library."""
    sizes = {"files": (given.places,), "inputs": (), "saving": (given.kills,),
             "interrupts": (given.rows, given.repeats)}  # fmt: skip
    room = importlib.import_module(f"lab.benchmarks.reliability.{section}")
    library = LIBRARIES[package]()
    return {
        "label": f"{library.label} {library.version}",
        "found": room.run(library, *sizes[section]),
    }


def main(words: Sequence[str]) -> int:
    options = benchmarks.parser("reliability")
    options.add_argument("--sections", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    options.add_argument(
        "--libraries", nargs="*", choices=tuple(LIBRARIES), default=list(LIBRARIES)
    )
    options.add_argument("--places", type=int, default=150, help="of each kind of damage to a file")
    options.add_argument("--kills", type=int, default=40)
    options.add_argument("--rows", type=int, default=400_000, help="of a call that is interrupted")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--json", help="write what was found to this file")
    options.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args(words)
    if given.here:
        print(json.dumps(_measure(given.libraries[0], given.sections[0], given)))
        return 0
    sizes = [f"--{name}={getattr(given, name)}" for name in ("places", "kills", "rows", "repeats")]
    print(machine(), flush=True)
    everything: dict[str, dict[str, Any]] = {}
    for section in given.sections:
        found: dict[str, Any] = {}
        for package in filter(find_spec, given.libraries):
            command = benchmarks.again("reliability", "--here", "--sections", section,
                                       "--libraries", package, *sizes)  # fmt: skip
            said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            record = json.loads(said.splitlines()[-1])
            found[record["label"]] = record["found"]
        everything[section] = found
        print(f"\n{tables.of(section, found)}", flush=True)
        if given.json:
            write_json(Path(given.json), everything)
    return 0
