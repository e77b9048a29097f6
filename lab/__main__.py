"""`python -m lab`: experiments by name, `list`, and `bench NAME`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bitgrove import BitgroveError
from lab import benchmarks
from lab.command import add_options, study_from
from lab.datasets.table import DATASETS
from lab.experiments import EXPERIMENTS
from lab.running.runs import run

EXAMPLES = """\
examples:
  python -m lab table2 --quick
  python -m lab table2 --datasets higgs year --rows 50000 --trees 100
  python -m lab table2 --data /data --datasets higgs
  python -m lab fig7 --spec mine.toml --data /data --out results
  python -m lab bench versus_peers --lines higgs_100k fit_1k
An experiment that was stopped goes on where it was by the same command. docs/paper.md has results.
"""


def main(words: Sequence[str] | None = None) -> int:
    """0: done; 2: something is wrong with the words or the data; else what a benchmark says."""
    args = _parser().parse_args(words)
    try:
        return int(args.run(args) or 0)
    except (BitgroveError, ImportError, FileNotFoundError) as error:
        print(f"lab: error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m lab", description=__doc__, epilog=EXAMPLES, formatter_class=raw
    )
    commands = parser.add_subparsers(metavar="WHAT", required=True)
    for name, experiment in EXPERIMENTS.items():
        command = commands.add_parser(name, help=experiment.summary, allow_abbrev=False)
        add_options(command)
        command.set_defaults(run=_experiment, what=name)
    listing = commands.add_parser("list", help="all experiments, benchmarks and datasets")
    listing.set_defaults(run=_list)
    bench = commands.add_parser("bench", help="a benchmark, by name", add_help=False)
    bench.add_argument("name", choices=tuple(benchmarks.QUESTIONS), metavar="NAME")
    bench.add_argument("words", nargs=argparse.REMAINDER)
    bench.set_defaults(run=lambda args: benchmarks.run(args.name, args.words))
    return parser


def _experiment(args: argparse.Namespace) -> None:
    """The experiment's files in --out, and its page on stdout."""
    written = run(EXPERIMENTS[args.what], study_from(args))
    for page in (path for path in written if path.suffix == ".md"):
        print(page.read_text(encoding="utf-8"))
    print("\n".join(f"written to {path}" for path in written))


def _list(args: argparse.Namespace) -> None:
    datasets = {e.name: f"{e.objective:<10}  {e.source()}" for e in DATASETS.values()}
    experiments = {name: experiment.summary for name, experiment in EXPERIMENTS.items()}
    for title, lines in (
        ("experiments: python -m lab NAME", experiments),
        ("benchmarks: python -m lab bench NAME", benchmarks.QUESTIONS),
        ("datasets: --datasets NAME", datasets),
    ):
        print(title, *(f"  {name:<16}  {text}" for name, text in lines.items()), "", sep="\n")


if __name__ == "__main__":
    sys.exit(main())
