"""The grammar of the command line: which words mean what, and the help pages.

This room receives the words after `bitgrove` and returns a namespace with the
command and its options. Training parameters come from the one table in params,
as (name, text) pairs in `params`; nothing is converted here. Words that do not
fit are a ParameterError.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

from bitgrove.errors import ParameterError
from bitgrove.params import CANONICAL, PARAMETERS
from bitgrove.params.parameter import Parameter

_TRAIN_EXAMPLES = """\
examples:
  bitgrove train --data flights.csv --label delayed --objective binary --model flights.bitgrove
  bitgrove train --data 'part-*.parquet' --valid valid.parquet --label price --ignore id,date \\
      --objective regression --n_estimators 2000 --early_stopping_rounds 50 --model price.bitgrove
  bitgrove train --data web.parquet --label grade --group query --objective lambdarank \\
      --metric ndcg@10 --param num_leaves=63 --model web.bitgrove
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


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are exceptions, so that all errors leave by one door."""

    def error(self, message: str) -> NoReturn:
        raise ParameterError(f"{message}; see {self.prog} --help")


class _TableParameter(argparse.Action):
    """Collects (name as it was written, text) of the options made from the parameter table."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        assert option_string is not None, "a table parameter is never positional"
        name = option_string.removeprefix("--").replace("-", "_")
        namespace.params = [*(namespace.params or []), (name, values)]


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command and its options; unknown options come with a suggestion."""
    parser, commands = _build()
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        raise ParameterError(_complaint(unknown[0], args.command, commands[args.command]))
    return args


def _complaint(word: str, command: str, parser: _Parser) -> str:
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


def _build() -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(
        prog="bitgrove",
        description="Gradient boosted trees trained in integers.",
        epilog="`bitgrove COMMAND --help` explains a command. Start with `bitgrove demo`.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"bitgrove {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, summary: str, examples: str) -> _Parser:
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
        "predict": command("predict", "Predict rows of CSV or Parquet files.", _PREDICT_EXAMPLES),
        "info": command("info", "Describe a model file.", _INFO_EXAMPLES),
        "convert": command(
            "convert", "Turn a model into one of another library, or back.", _CONVERT_EXAMPLES
        ),
        "report": command("report", "Write an HTML page about a model.", _REPORT_EXAMPLES),
        "verify": command("verify", "Train again and compare with a model file.", _VERIFY_EXAMPLES),
        "demo": command("demo", "Compare full precision with 5 to 2 bits.", _DEMO_EXAMPLES),
    }
    _add_train_options(made["train"])
    _add_predict_options(made["predict"])
    _add_info_options(made["info"])
    _add_convert_options(made["convert"])
    _add_report_options(made["report"])
    _add_verify_options(made["verify"])
    _add_demo_options(made["demo"])
    return parser, made


def _add_data_options(parser: _Parser, *, required: bool = True) -> None:
    parser.add_argument(
        "--data", metavar="FILE", nargs="+", action="extend", required=required,
        help="CSV, TSV (also .gz) or Parquet; several files or a quoted pattern are read one "
        "below the other, e.g. --data 'part-*.parquet'",
    )  # fmt: skip
    parser.add_argument(
        "--delimiter", metavar="CHAR",
        help="what separates the columns of a CSV file, e.g. --delimiter ';' (default: a comma; "
        "a tab for .tsv)",
    )  # fmt: skip


def _add_train_options(parser: _Parser) -> None:
    # The generated usage would list forty parameters.
    parser.usage = "bitgrove train --data FILE --label COL --objective NAME --model OUT [options]"
    _add_data_options(parser)
    _add_column_options(parser)
    parser.add_argument("--model", metavar="OUT", required=True,
                        help="the model file to write, e.g. --model price.bitgrove")  # fmt: skip
    parser.add_argument(
        "--init_model", "--init-model", metavar="FILE",
        help="a model to go on from: its trees stay, and n_estimators more are added, e.g. "
        "--init_model price.bitgrove",
    )  # fmt: skip
    parser.add_argument(
        "--valid", metavar="FILE", nargs="+", action="extend",
        help="files with the same columns to measure the model on, e.g. --valid valid.csv",
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint", metavar="FILE",
        help="save the model so far to this file while training, and go on from it if it is "
        "there: the same final model, e.g. --checkpoint price.checkpoint",
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint_every", "--checkpoint-every", metavar="INT", type=_integer(1), default=10,
        help="iterations between two checkpoints, e.g. --checkpoint_every 50 (default: 10)",
    )  # fmt: skip
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction,
        help="show a progress bar or not (default: only on a terminal), e.g. --no-progress",
    )  # fmt: skip
    parser.add_argument(
        "--param", dest="params", metavar="NAME=VALUE", type=_pair, action="append",
        help="any training parameter or alias, e.g. --param num_leaves=63 (repeatable); the same "
        "as --num_leaves 63. `none` stands for None, lists are separated by commas",
    )  # fmt: skip
    groups: dict[str, Any] = {}
    for parameter in PARAMETERS:
        # One has its own option above; a function cannot be written in a shell.
        if parameter.name == "progress" or parameter.type == "callable":
            continue
        if parameter.group not in groups:
            title = f"training parameters: {parameter.group.lower()}"
            groups[parameter.group] = parser.add_argument_group(title)
        _add_table_parameter(groups[parameter.group], parameter)


def _add_column_options(parser: _Parser, *, is_label_needed: bool = True) -> None:
    """What the columns are for."""
    parser.add_argument(
        "--label", metavar="COL", required=is_label_needed,
        help="the column to predict; text is fine for classes, e.g. --label price"
        + ("" if is_label_needed else " (default: the only column that is no feature)"),
    )  # fmt: skip
    _add_weight_and_group(parser)
    parser.add_argument(
        "--ignore", metavar="COLS", action="append",
        help="columns that are not features, e.g. --ignore id,date (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--categorical_feature", "--categorical-feature", metavar="COLS", action="append",
        help="columns of numbers that are categories, e.g. --categorical_feature zip,shop "
        "(repeatable); text columns are categories anyway",
    )  # fmt: skip


def _add_weight_and_group(parser: _Parser) -> None:
    parser.add_argument("--weight", metavar="COL",
                        help="a column of row weights, e.g. --weight n_seen")  # fmt: skip
    parser.add_argument(
        "--group", metavar="COL",
        help="the column of query ids for lambdarank; rows of a query must be contiguous, "
        "e.g. --group query",
    )  # fmt: skip


def _add_table_parameter(group: Any, parameter: Parameter) -> None:
    kind = {"choice": "|".join(parameter.choices), "metrics": "NAME,NAME", "floats": "X,Y,..."}
    first_sentence = re.split(r"\.(?: (?=[A-Z`])|$)", parameter.doc)[0]
    summary = first_sentence.replace("`", "").replace("%", "%%")
    default = parameter.default
    if default is None or isinstance(default, tuple):
        default = "none" if default is None else ",".join(map(str, default))
    group.add_argument(
        f"--{parameter.name}",
        metavar=kind.get(parameter.type, parameter.type.upper()),
        action=_TableParameter,
        dest="params",
        help=f"{summary} (default: {default})",
    )
    # Aliases and dashed spellings work too, but would make the help page unreadable.
    spellings = {parameter.name, *parameter.aliases}
    spellings |= {name.replace("_", "-") for name in spellings}
    hidden = sorted(f"--{name}" for name in spellings - {parameter.name})
    if hidden:
        group.add_argument(*hidden, action=_TableParameter, dest="params", help=argparse.SUPPRESS)


def _add_predict_options(parser: _Parser) -> None:
    parser.add_argument("--model", metavar="FILE", required=True,
                        help="the model file, e.g. --model price.bitgrove")  # fmt: skip
    _add_data_options(parser)
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
    parser.add_argument("--n_jobs", "--n-jobs", metavar="INT", type=_integer(-1),
                        help="threads (default: all cores), e.g. --n_jobs 2")  # fmt: skip


def _add_model(parser: _Parser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("model", metavar="MODEL", nargs="?", default=argparse.SUPPRESS,
                       help="the model file, e.g. price.bitgrove")  # fmt: skip
    which.add_argument("--model", dest="model", help=argparse.SUPPRESS)  # as in the other commands


def _add_verify_options(parser: _Parser) -> None:
    _add_model(parser)
    _add_data_options(parser)
    _add_column_options(parser, is_label_needed=False)
    parser.add_argument("--init_model", "--init-model", metavar="FILE",
                        help="the model that training went on from, if it did")  # fmt: skip
    parser.add_argument("--device", metavar="NAME", help="where to train, e.g. --device cuda")
    parser.add_argument("--n_jobs", "--n-jobs", metavar="INT", type=_integer(-1),
                        help="threads (default: all cores), e.g. --n_jobs 2")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")


def _add_info_options(parser: _Parser) -> None:
    _add_model(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")
    parser.add_argument("--top", metavar="INT", type=_integer(0), default=10,
                        help="how many features to list, e.g. --top 5 (default: 10)")  # fmt: skip


def _add_convert_options(parser: _Parser) -> None:
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


def _add_report_options(parser: _Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the model file, e.g. price.bitgrove")
    _add_data_options(parser, required=False)
    parser.add_argument("--label", metavar="COL",
                        help="the column of true values, e.g. --label price")  # fmt: skip
    _add_weight_and_group(parser)
    parser.add_argument("--out", metavar="FILE", required=True,
                        help="the page to write, e.g. --out report.html")  # fmt: skip
    parser.add_argument("--title", metavar="TEXT",
                        help="the headline, e.g. --title 'Delays in May'")  # fmt: skip


def _add_demo_options(parser: _Parser) -> None:
    parser.add_argument(
        "--out", metavar="DIR", default="bitgrove_demo",
        help="folder for model, report and picture, e.g. --out /tmp/demo (default: bitgrove_demo)",
    )  # fmt: skip
    parser.add_argument(
        "--rows", metavar="INT", type=_integer(1000), default=500_000,
        help="rows to train on, e.g. --rows 50000 for a quick look (default: 500000)",
    )  # fmt: skip


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name.strip().replace("-", "_"), value.strip()


def _integer(low: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"expected an integer >= {low}, got {text!r}")
        return value

    return convert


def _version() -> str:
    try:
        return version("bitgrove")
    except PackageNotFoundError:
        return "(not installed)"
