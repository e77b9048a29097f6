"""The options of an experiment on the command line, and from them to a Study."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from lab.datasets.entry import Wanted, data_folder
from lab.datasets.specs import read_spec
from lab.datasets.table import known
from lab.reporting import n_cores
from lab.running.study import QUICK, USUAL, Study
from lab.systems.lineup import PEERS


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", metavar="DIR", default="lab_results",
        help="folder for the results, e.g. --out results (default: lab_results)")  # fmt: skip
    add("--data", metavar="DIR",
        help="folder with official files (in it or in a folder per dataset) and Parquet files, "
        "e.g. --data /data (default: $BITGROVE_DATA; without either, rows are generated)",
        )  # fmt: skip
    add("--datasets", metavar="NAME", nargs="+", default=[],
        help="by name, see `python -m lab list` (default: those of the experiment), "
        "e.g. --datasets higgs year")  # fmt: skip
    add("--spec", metavar="FILE", nargs="+", default=[],
        help="your own tables: TOML or JSON files, e.g. --spec mine.toml")  # fmt: skip
    add("--scale", metavar="X", type=_positive(float),
        help="share of the rows, e.g. --scale 0.1 (default: 1, but 0.01 of generated rows if "
        "--rows is not given, either)",
        )  # fmt: skip
    add("--rows", metavar="INT", type=_positive(int),
        help="at most so many training rows, e.g. --rows 50000")  # fmt: skip
    add("--trees", metavar="INT", type=_positive(int),
        help="iterations, e.g. --trees 100 (default: 500)")  # fmt: skip
    add("--seeds", metavar="INT", type=_positive(int),
        help="seeds, or repeats where time is measured, e.g. --seeds 3 (default: 5)")  # fmt: skip
    add("--bits", metavar="INT", type=int, nargs="+", choices=range(2, 9),
        help="gradient bits, e.g. --bits 2 4 (default: 2 3 4 5)")  # fmt: skip
    add("--leaves", metavar="INT", type=_positive(int),
        help="leaves of a tree, e.g. --leaves 31 (default: the paper's)")  # fmt: skip
    add("--min-child-weight", metavar="X", type=_positive(float),
        help="least hessian of a leaf, e.g. --min-child-weight 5 (default: the paper's 100 times "
        "the share of rows)")  # fmt: skip
    add("--peers", metavar="NAME", nargs="*", choices=tuple(PEERS),
        help="libraries to compare with, e.g. --peers lightgbm; alone: none "
        "(default: all installed)")  # fmt: skip
    add("--peer-seeds", metavar="INT", type=_positive(int),
        help="seeds of those libraries in table2, e.g. --peer-seeds 1 (default: as --seeds)",
        )  # fmt: skip
    add("--threads", metavar="INT", type=_positive(int),
        help="threads of a run, e.g. --threads 4 (default: all cores, shared by the jobs)",
        )  # fmt: skip
    add("--jobs", metavar="INT", type=_positive(int), default=1,
        help="runs at the same time, where no time is measured, e.g. --jobs 8 (default: 1)",
        )  # fmt: skip
    add("--device", choices=("cpu", "cuda"), default="cpu",
        help="where table2 and table3 train, e.g. --device cuda (default: cpu)")  # fmt: skip
    add("--seconds", metavar="X", type=_positive(float),
        help="start no run after so many seconds; the same command goes on where it was, "
        "e.g. --seconds 560 (default: no limit)")  # fmt: skip
    add("--quick", action="store_true",
        help="few rows, trees and seeds: minutes, to see what comes out")  # fmt: skip


def study_from(args: argparse.Namespace) -> Study:
    """What the words ask for."""
    for name in args.datasets:
        known(name)
    usual = QUICK if args.quick else USUAL
    return Study(
        out=Path(args.out),
        wanted=Wanted(data_folder(args.data), args.scale, args.rows or usual.get("rows")),
        datasets=tuple(dict.fromkeys(args.datasets)),
        specs=tuple(read_spec(Path(path)) for path in args.spec),
        bits=tuple(args.bits or usual["bits"]),
        trees=args.trees or usual["trees"],
        seeds=args.seeds or usual["seeds"],
        leaves=args.leaves or usual.get("leaves"),
        min_child_weight=args.min_child_weight,
        peers=None if args.peers is None else tuple(args.peers),
        peer_seeds=args.peer_seeds,
        threads=args.threads or max(1, n_cores() // args.jobs),
        jobs=args.jobs,
        device=args.device,
        seconds=args.seconds,
    )


def _positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = kind(0)
        if not 0 < value < float("inf"):
            what = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"expected {what} > 0, got {text!r}")
        return value

    return convert
