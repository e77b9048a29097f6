"""Benchmarks: `python -m lab bench NAME`. Each is a module of this room with main(words)."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

QUESTIONS = {
    "versus_peers": "how fast is it beside other libraries?",
    "same_bits": "is the model the same however it is trained?",
    "two_versions": "is this version as fast as another, and are its models the same?",
    "lossless": "what do few bits cost, on light and heavy tails?",
    "losses": "do labels that are mostly zero, or of any size, do harm, beside other libraries?",
    "threads": "how does training scale with threads?",
    "memory": "how much memory does a fit take, in memory and from files, beside other libraries?",
    "linearity": "does the cost grow in proportion to rows, features and stored values?",
    "categories": "how good and how fast is it on text and categories, beside other libraries?",
    "level_sets": "what do categories of 65 to 255 levels gain by sets beside their statistics?",
    "sparse": "how fast and how small is it on sparse tables, beside other libraries?",
    "cuda": "is the GPU's model the CPU's, and how fast does it train?",
    "gpu_eval": "what does a user of a GPU wait for, with a metric in every round?",
    "shap": "how long do Shapley values take, beside other libraries?",
    "calls": "what does a user wait for besides trees: binning, first use, predictions?",
    "dask_cluster": "what does training on Dask cost, beside LightGBM's?",
    "distributed": "what crosses between MPI ranks, beside LightGBM's sockets? (root)",
    "faults": "one rank of MPI or Dask fails: what do the others say, and how soon? (root)",
    "reliability": "the same damage, wrong inputs, kills and Ctrl-C given to other libraries, too",
    "scaling": "how does time grow with ranks and links? The points of fig4's model (root)",
}


def run(name: str, words: Sequence[str]) -> int:
    """The benchmark's exit status."""
    return int(importlib.import_module(f"lab.benchmarks.{name}").main(words) or 0)


def parser(name: str) -> argparse.ArgumentParser:
    """For the words of a benchmark."""
    return argparse.ArgumentParser(f"python -m lab bench {name}", description=QUESTIONS[name])


def again(name: str, *words: str) -> list[str]:
    """The command that runs a benchmark in a process of its own, from the same folder."""
    return [sys.executable, "-m", "lab", "bench", name, *words]
