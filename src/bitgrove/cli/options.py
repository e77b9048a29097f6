"""The grammar of the command line: which words mean what, and the help pages.

This room receives the words after `bitgrove` and returns a namespace with the
command and its options; those of training are in training_options.py. Words
that do not fit are a ParameterError.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from bitgrove.cli.configuration import spelled_out
from bitgrove.cli.training_options import (
    Parser,
    add_column_options,
    add_cv_options,
    add_data_options,
    add_train_options,
    add_weight_and_group,
    integer,
)
from bitgrove.errors import ParameterError
from bitgrove.params import CANONICAL

_TRAIN_EXAMPLES = """\
examples:
  bitgrove train --data flights.csv --label delayed --objective binary --model flights.bitgrove
  bitgrove train --data 'part-*.parquet' --valid valid.parquet --label price --ignore id,date \\
      --objective regression --n_estimators 2000 --early_stopping_rounds 50 --model price.bitgrove
  bitgrove train --data web.parquet --label grade --group query --objective lambdarank \\
      --metric ndcg@10 --param num_leaves=63 --model web.bitgrove
"""
_CV_EXAMPLES = """\
examples:
  bitgrove cv --data flights.csv --label delayed --objective binary --metric auc --nfold 10
  bitgrove cv --config price.toml --early_stopping_rounds 50 --out curves.csv
  bitgrove cv data=flights.csv label=delayed objective=binary num_leaves=63
"""
_PREDICT_EXAMPLES = """\
examples:
  bitgrove predict --model flights.bitgrove --data new.csv --out predictions.csv
  bitgrove predict --model price.bitgrove --data 'new-*.parquet' --keep id --out prices.parquet
"""
_INFO_EXAMPLES = """\
examples:
  bitgrove info flights.bitgrove
  bitgrove info flights.bitgrove --json | jq .digest
"""
_EXPLAIN_EXAMPLES = """\
examples:
  bitgrove explain --model flights.bitgrove --data new.csv
  bitgrove explain --model price.bitgrove --data new.parquet --keep id --out contributions.parquet
"""
_CONVERT_EXAMPLES = """\
examples:
  bitgrove convert price.bitgrove price.onnx
  bitgrove convert price.bitgrove price.txt --format lightgbm
  bitgrove convert old_xgboost.json price.bitgrove
"""
_REPORT_EXAMPLES = """\
examples:
  bitgrove report flights.bitgrove --data valid.csv --label delayed --out report.html
  bitgrove report web.bitgrove --data test.parquet --label grade --group query --out web.html
  bitgrove report flights.bitgrove --out model.html
"""
_VERIFY_EXAMPLES = """\
examples:
  bitgrove verify price.bitgrove --data train.parquet
  bitgrove verify flights.bitgrove --data 'part-*.csv' --label delayed --weight n_seen --json
  mpiexec -n 4 bitgrove verify price.bitgrove --data 'part-*.parquet' --label price
exit codes: 0 the same model, 3 another one, 2 the input cannot be used
"""
_DEMO_EXAMPLES = """\
examples:
  bitgrove demo
  bitgrove demo --rows 50000 --out /tmp/demo
"""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command and its options; unknown options come with a suggestion."""
    parser, commands = _build()
    words = spelled_out(sys.argv[1:] if argv is None else argv, commands)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        raise ParameterError(_complaint(unknown[0], args.command, commands[args.command]))
    return args


def _complaint(word: str, command: str, parser: Parser) -> str:
    """What to say about a word that no option wants."""
    if not word.startswith("-"):
        return f"unknown argument {word!r}; see bitgrove {command} --help"
    word = word.partition("=")[0]
    known = [option for action in parser._actions for option in action.option_strings]
    close = difflib.get_close_matches(word, known, n=1)
    if not close:
        return f"unknown option {word!r}; see bitgrove {command} --help"
    name = close[0].removeprefix("--").replace("-", "_")
    meant = f"--{CANONICAL[name]}" if name in CANONICAL else close[0]
    return f"unknown option {word!r}; did you mean {meant!r}?"


def _build() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser(
        prog="bitgrove",
        description="Gradient boosted trees trained in integers.",
        epilog="`bitgrove COMMAND --help` explains a command. Start with `bitgrove demo`.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"bitgrove {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, summary: str, examples: str) -> Parser:
        return commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=examples,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    made = {
        "train": command("train", "Train a model on CSV or Parquet files.", _TRAIN_EXAMPLES),
        "cv": command("cv", "Cross-validate on CSV or Parquet files.", _CV_EXAMPLES),
        "predict": command("predict", "Predict rows of CSV or Parquet files.", _PREDICT_EXAMPLES),
        "info": command("info", "Describe a model file.", _INFO_EXAMPLES),
        "explain": command("explain", "What each feature adds to each score.", _EXPLAIN_EXAMPLES),
        "convert": command(
            "convert", "Turn a model into one of another library, or back.", _CONVERT_EXAMPLES
        ),
        "report": command("report", "Write an HTML page about a model.", _REPORT_EXAMPLES),
        "verify": command("verify", "Train again and compare with a model file.", _VERIFY_EXAMPLES),
        "demo": command("demo", "Compare full precision with 5 to 2 bits.", _DEMO_EXAMPLES),
    }
    add_train_options(made["train"])
    add_cv_options(made["cv"])
    _add_predict_options(made["predict"])
    _add_explain_options(made["explain"])
    _add_info_options(made["info"])
    _add_convert_options(made["convert"])
    _add_report_options(made["report"])
    _add_verify_options(made["verify"])
    _add_demo_options(made["demo"])
    return parser, made


def _add_predict_options(parser: Parser) -> None:
    _add_model(parser)
    add_data_options(parser)
    parser.add_argument(
        "--out", metavar="OUT", required=True,
        help="where to write, as CSV, TSV or Parquet by its name, e.g. --out predictions.csv",
    )  # fmt: skip
    parser.add_argument(
        "--keep", metavar="COLS", action="append",
        help="columns of the data to copy beside the predictions, e.g. --keep id,date (repeatable)",
    )  # fmt: skip
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--raw", action="store_true",
                      help="write the scores before the link function, e.g. log-odds")  # fmt: skip
    what.add_argument("--leaf", action="store_true",
                      help="write the leaf each row reaches in each tree")  # fmt: skip
    _add_threads(parser)


def _add_explain_options(parser: Parser) -> None:
    _add_model(parser)
    add_data_options(parser)
    parser.add_argument(
        "--out", metavar="OUT",
        help="where to write the contributions of every row, as CSV, TSV or Parquet by its name",
    )  # fmt: skip
    parser.add_argument(
        "--keep", metavar="COLS", action="append",
        help="columns of the data to copy beside them, e.g. --keep id,date (repeatable)",
    )  # fmt: skip
    parser.add_argument("--top", metavar="INT", type=integer(0), default=10,
                        help="how many features to list, e.g. --top 5 (default: 10)")  # fmt: skip
    _add_threads(parser)


def _add_model(parser: Parser) -> None:
    """By its place or as --model: what people remember from another command works in all."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("model", metavar="MODEL", nargs="?", default=argparse.SUPPRESS,
                       help="the model file, e.g. price.bitgrove")  # fmt: skip
    which.add_argument("--model", dest="model", help=argparse.SUPPRESS)


def _add_threads(parser: Parser) -> None:
    parser.add_argument("--n_jobs", "--n-jobs", metavar="INT", type=integer(-1),
                        help="threads (default: all cores), e.g. --n_jobs 2")  # fmt: skip


def _add_verify_options(parser: Parser) -> None:
    _add_model(parser)
    add_data_options(parser)
    add_column_options(parser, is_label_needed=False)
    parser.add_argument("--init_model", "--init-model", metavar="FILE",
                        help="the model that training went on from, if it did")  # fmt: skip
    parser.add_argument("--device", metavar="NAME", help="where to train, e.g. --device cuda")
    _add_threads(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")


def _add_info_options(parser: Parser) -> None:
    _add_model(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")
    parser.add_argument("--top", metavar="INT", type=integer(0), default=10,
                        help="how many features to list, e.g. --top 5 (default: 10)")  # fmt: skip


def _add_convert_options(parser: Parser) -> None:
    parser.add_argument(
        "model", metavar="IN",
        help="a model of bitgrove, LightGBM (text) or XGBoost (JSON, UBJSON); the file tells which",
    )  # fmt: skip
    parser.add_argument("out", metavar="OUT", help="the file to write, e.g. price.onnx")
    parser.add_argument(
        "--format", metavar="NAME",
        help="bitgrove, lightgbm, xgboost, onnx or c (default: what the name of OUT ends in: "
        ".bitgrove, .txt, .json or .ubj, .onnx, .c), e.g. --format xgboost",
    )  # fmt: skip
    parser.add_argument("--raw", action="store_true",
                        help="write a model that predicts the scores before the link")  # fmt: skip


def _add_report_options(parser: Parser) -> None:
    _add_model(parser)
    add_data_options(parser, required=False)
    parser.add_argument("--label", metavar="COL",
                        help="the column of true values, e.g. --label price")  # fmt: skip
    add_weight_and_group(parser)
    parser.add_argument("--out", metavar="FILE", required=True,
                        help="the page to write, e.g. --out report.html")  # fmt: skip
    parser.add_argument("--title", metavar="TEXT",
                        help="the headline, e.g. --title 'Delays in May'")  # fmt: skip


def _add_demo_options(parser: Parser) -> None:
    parser.add_argument(
        "--out", metavar="DIR", default="bitgrove_demo",
        help="folder for model, report and picture, e.g. --out /tmp/demo (default: bitgrove_demo)",
    )  # fmt: skip
    parser.add_argument(
        "--rows", metavar="INT", type=integer(1000), default=500_000,
        help="rows to train on, e.g. --rows 50000 for a quick look (default: 500000)",
    )  # fmt: skip


def _version() -> str:
    try:
        return version("bitgrove")
    except PackageNotFoundError:
        return "(not installed)"
