"""What a user waits for besides trees: `python -m lab bench calls WHICH`, a module of this room."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from lab import benchmarks

WHICH = {
    "along": "milliseconds and rounds of a tree, from the first to the last, on the GPU",
    "binning": "from a table of the host to bins",
    "fingerprint": "the record of a training: fingerprints of its data",
    "first_use": "the first training of a process, without and with compiled kernels on disk",
    "kernels": "launches and time of each kernel of a tree, by NVIDIA's ncu",
    "laps": "where the host's time goes while a tree grows on the GPU",
    "predict": "predictions of host rows, on the CPU and on the GPU",
}


def parser(which: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(f"python -m lab bench calls {which}", description=WHICH[which])


def main(words: Sequence[str]) -> int:
    chosen = benchmarks.parser("calls")
    chosen.add_argument("which", choices=WHICH)
    which = chosen.parse_args(words[:1]).which
    return int(importlib.import_module(f"lab.benchmarks.calls.{which}").main(words[1:]) or 0)
