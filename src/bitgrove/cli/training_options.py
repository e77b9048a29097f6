"""Options of the commands that train: files, roles of columns, and every training parameter.

This room receives a parser and adds options to it. Training parameters come from the one table in
params, as (name, text) pairs in `params`; nothing is converted here.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn

from bitgrove.errors import ParameterError
from bitgrove.params import PARAMETERS
from bitgrove.params.parameter import Parameter


class _Once:
    """An option that is not given two values."""

    given: Any = None

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        super().__call__(parser, namespace, values, option)  # type: ignore[misc]
        value = getattr(namespace, self.dest)  # type: ignore[attr-defined]
        if self.given not in (None, value):
            raise ParameterError(f"{option} is given twice: {self.given!r} and {value!r}")
        self.given = value


class _Value(_Once, argparse._StoreAction):
    pass


class _Switch(_Once, argparse.BooleanOptionalAction):
    """--name or --no-name."""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are exceptions, so that all errors leave by one door."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.register("action", None, _Value)

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


def add_data_options(parser: Parser, *, required: bool = True) -> None:
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


def add_train_options(parser: Parser) -> None:
    # The generated usage would list forty parameters.
    parser.usage = "bitgrove train --data FILE --label COL --objective NAME --model OUT [options]"
    _add_config(parser)
    add_data_options(parser)
    add_column_options(parser)
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
        "--report", metavar="FILE",
        help="an HTML page about the model to write, shown with the rows of --valid, or with those "
        "of --data, e.g. --report report.html",
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint", metavar="FILE",
        help="save the model so far to this file while training, and go on from it if it is "
        "there: the same final model, e.g. --checkpoint price.checkpoint",
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint_every", "--checkpoint-every", metavar="INT", type=integer(1), default=10,
        help="iterations between two checkpoints, e.g. --checkpoint_every 50 (default: 10)",
    )  # fmt: skip
    _add_progress(parser)
    _add_parameters(parser)


def add_cv_options(parser: Parser) -> None:
    parser.usage = "bitgrove cv --data FILE --label COL --objective NAME [options]"
    _add_config(parser)
    add_data_options(parser)
    add_column_options(parser)
    parser.add_argument("--nfold", metavar="INT", type=integer(2), default=5,
                        help="folds, e.g. --nfold 10 (default: 5)")  # fmt: skip
    parser.add_argument(
        "--stratified", action=_Switch, default=True,
        help="whether each fold has the same part of each class (default: yes)",
    )  # fmt: skip
    parser.add_argument("--shuffle", action=_Switch, default=True,
                        help="whether rows are shuffled first (default: yes)")  # fmt: skip
    parser.add_argument("--time_order", "--time-order", action="store_true",
                        help="each fold is later than the rows it is trained on")  # fmt: skip
    parser.add_argument(
        "--out", metavar="OUT",
        help="where to write the metrics of every iteration, as CSV, TSV or Parquet by its name",
    )  # fmt: skip
    _add_progress(parser)
    _add_parameters(parser)


def _add_config(parser: Parser) -> None:
    parser.add_argument(
        "--config", metavar="FILE",
        help="options and parameters from a TOML, YAML or key=value file; what is written on the "
        "command line goes first, e.g. --config train.toml",
    )  # fmt: skip


def _add_progress(parser: Parser) -> None:
    parser.add_argument(
        "--progress", action=_Switch,
        help="show a progress bar or not (default: only on a terminal), e.g. --no-progress",
    )  # fmt: skip


def _add_parameters(parser: Parser) -> None:
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


def add_column_options(parser: Parser, *, is_label_needed: bool = True) -> None:
    """What the columns are for."""
    parser.add_argument(
        "--label", metavar="COL", required=is_label_needed,
        help="the column to predict; text is fine for classes, e.g. --label price"
        + ("" if is_label_needed else " (default: the only column that is no feature)"),
    )  # fmt: skip
    add_weight_and_group(parser)
    parser.add_argument(
        "--ignore", metavar="COLS", action="append",
        help="columns that are not features, e.g. --ignore id,date (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--categorical_feature", "--categorical-feature", metavar="COLS", action="append",
        help="columns of numbers that are categories, e.g. --categorical_feature zip,shop "
        "(repeatable); text columns are categories anyway",
    )  # fmt: skip


def add_weight_and_group(parser: Parser) -> None:
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


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name.strip().replace("-", "_"), value.strip()


def integer(low: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"expected an integer >= {low}, got {text!r}")
        return value

    return convert
