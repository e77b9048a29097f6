"""`bitgrove paper`: its words, and from them to a Study.

Receives an argparse parser to fill, and later the parsed words; runs the experiment and prints the
page it wrote. Only this module is loaded to parse the command line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from bitgrove.errors import ParameterError
from bitgrove.machine.threads import resolve_threads

WHAT = {
    "table2": "accuracy by bits, rounding and refit, beside other libraries",
    "table3": "training and histogram time per system",
    "fig4": "distributed training: messages and scaling",
    "fig5": "frequency of accumulator widths",
    "fig6": "time with and without packed gradients",
    "fig7": "cumulative distribution of gamma per leaf",
    "fig8": "average hessian of the leaves by iteration",
    "bounds": "the theorems' bounds beside measured gain errors",
    "tails": "heavy tails: gradient_scale max against robust",
    "zeros": "rows that round to zero, by iteration, and what leaving them out saves",
    "auto": "bits chosen per tree against fixed bits",
}
EXAMPLES = """\
examples:
  bitgrove paper table2 --quick
  bitgrove paper table2 --datasets higgs year --rows 50000 --trees 100
  bitgrove paper table2 --data-dir /data --datasets higgs
  bitgrove paper fig7 --spec mine.toml --data-dir /data --out results
Stopped at any time, the same command goes on where it was. docs/paper.md has the results.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    listed = "; ".join(f"{name}: {summary}" for name, summary in WHAT.items())
    parser.add_argument("what", choices=tuple(WHAT), metavar="WHAT", help=listed)
    add = parser.add_argument
    add("--out", metavar="DIR", default="bitgrove_paper",
        help="folder for the results, e.g. --out results (default: bitgrove_paper)")  # fmt: skip
    add("--data-dir", "--data_dir", metavar="DIR",
        help="folder with the official files, in it or in a folder per dataset; without it rows "
        "are generated, e.g. --data-dir /data")  # fmt: skip
    add("--datasets", metavar="NAME", nargs="+", default=[],
        help="datasets of the paper (default: those of the table or figure), "
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
    add("--min-child-weight", "--min_child_weight", metavar="X", type=_positive(float),
        help="least hessian of a leaf, e.g. --min-child-weight 5 (default: the paper's 100 times "
        "the share of rows)")  # fmt: skip
    add("--peers", metavar="NAME", nargs="*", choices=("lightgbm", "xgboost", "catboost"),
        help="libraries to compare with, e.g. --peers lightgbm; alone: none "
        "(default: all installed)")  # fmt: skip
    add("--peer-seeds", "--peer_seeds", metavar="INT", type=_positive(int),
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
    add("--quick", action="store_true",
        help="few rows, trees and seeds: minutes, to see what comes out")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """The experiment's files in --out, and its page on stdout."""
    from bitgrove.paper.experiments import EXPERIMENTS
    from bitgrove.paper.runs import run as run_experiment
    from bitgrove.paper.specs import read_spec
    from bitgrove.paper.study import PAPER, QUICK, Study, known

    for name in args.datasets:
        known(name)
    if args.data_dir is not None and not Path(args.data_dir).is_dir():
        raise ParameterError(f"--data-dir {args.data_dir}: no such folder")
    usual = QUICK if args.quick else PAPER
    study = Study(
        out=Path(args.out),
        data_dir=None if args.data_dir is None else Path(args.data_dir),
        scale=args.scale,
        max_rows=args.rows or usual["max_rows"],
        datasets=tuple(dict.fromkeys(args.datasets)),
        specs=tuple(read_spec(Path(path)) for path in args.spec),
        bits=tuple(args.bits or usual["bits"]),
        trees=args.trees or usual["trees"],
        seeds=args.seeds or usual["seeds"],
        leaves=args.leaves or usual["leaves"],
        min_child_weight=args.min_child_weight,
        systems=None if args.peers is None else tuple(args.peers),
        peer_seeds=args.peer_seeds,
        threads=args.threads or max(1, resolve_threads(None) // args.jobs),
        jobs=args.jobs,
        device=args.device,
    )
    written = run_experiment(EXPERIMENTS[args.what], study)
    print(next(path for path in written if path.suffix == ".md").read_text(encoding="utf-8"))
    print("\n".join(f"written to {path}" for path in written))


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
