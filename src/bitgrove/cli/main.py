"""The `bitgrove` command: train, predict, info and demo.

This room owns the commands: it receives words, which options.py turns into
settings, runs the command on Datasets and Models, and returns an exit code.
Results go to stdout, progress and errors to stderr. Anything wrong with the
input is exit code 2 and one line; BITGROVE_DEBUG=1 shows where it came from.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.cli import sharded_files, tables
from bitgrove.cli.options import parse
from bitgrove.data.dataset import Dataset
from bitgrove.distributed import Comm, SoloComm, fails_together
from bitgrove.errors import BitgroveError, DataError, ParameterError, RankFailure
from bitgrove.objectives import OBJECTIVES
from bitgrove.params import PARAMETERS, TrainParams, resolve
from bitgrove.params.parameter import Parameter

_TRUTH = {"true": True, "yes": True, "on": True, "1": True,
          "false": False, "no": False, "off": False, "0": False}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 2 bad input, 1 a fault of ours."""
    try:
        args = parse(argv)
        _COMMANDS[args.command](args)
        sys.stdout.flush()
        return 0
    except BrokenPipeError:
        # The reader of our output has left (`bitgrove info | head`): nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, Exception) as error:
        return _fail(error)


def _fail(error: BaseException, prefix: str = "") -> int:
    """Says what went wrong, in one line, and returns the exit code."""
    if os.environ.get("BITGROVE_DEBUG") == "1":
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    message, code = _explained(error)
    print(f"bitgrove: error: {prefix}{' '.join(message.split())}", file=sys.stderr)
    return code


def _explained(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(error, MemoryError) and not isinstance(error, BitgroveError):
        return "out of memory", 2
    if isinstance(error, (BitgroveError, ImportError)):
        return str(error).replace("\n-", ""), 2  # several problems, in one line
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error), 2
    hint = "set BITGROVE_DEBUG=1 for the traceback and please report it"
    return f"unexpected {type(error).__name__}: {error} ({hint})", 1


# ---------------------------------------------------------------- commands


def _train(args: argparse.Namespace) -> None:
    """Trains alone, or as one rank of those that an MPI launcher started."""
    from bitgrove.distributed.mpi import end_all, launched_comm

    comm = launched_comm()
    if comm is None:
        _train_shard(args, SoloComm())
        return
    try:
        with fails_together(comm):
            _train_shard(args, comm)
    except BaseException as error:
        # Rank 0 speaks for all and ends them; if it cannot, the next one does.
        time.sleep(min(comm.rank, 5))
        told = isinstance(error, RankFailure) or getattr(error, "everywhere", False)
        end_all(_fail(error, "" if told else f"rank {comm.rank}: "))


def _train_shard(args: argparse.Namespace, comm: Comm) -> None:
    from bitgrove.training.train import train

    given = _given_parameters(args)
    params = resolve(given)
    comm.timeout = params.distributed_timeout
    _check_train_options(args, params)
    if comm.rank == 0:
        tables.check_output(args.model, [*args.data, *(args.valid or [])])

    read = _ShardReader(args, params, comm)
    train_set = read.dataset(args.data)
    valid_set = read.dataset(args.valid) if args.valid else None
    n_rows = sharded_files.introduce_ranks(comm, train_set.n_rows)
    if read.classes is not None:  # as the estimator does: the same model file
        given = {**given, **read.objective.class_settings(len(read.classes))}
    if comm.size > 1 and params.n_jobs is None:
        given = {**given, "n_jobs": sharded_files.threads_per_rank(comm)}
    if comm.rank > 0:
        given = {**given, "verbosity": 0}
    start = time.perf_counter()
    model = train(
        {**given, "progress": comm.rank == 0 and _wants_progress(args, params)},
        train_set,
        valid_sets=valid_set,
        valid_names=["valid"] if valid_set else None,
        comm=comm,
        **_checkpointing(args, comm),
    )
    seconds = time.perf_counter() - start
    if read.classes is not None:
        model = model.with_classes(read.classes)
    if comm.rank == 0:
        model.save(args.model)
        _report_training(model, n_rows, valid_set, seconds, args.model)


def _checkpointing(args: argparse.Namespace, comm: Comm) -> dict[str, Any]:
    """--checkpoint: written while training, and where training goes on if it is there already."""
    from bitgrove.callbacks import checkpoint

    if args.checkpoint is None:
        return {}
    found = comm.broadcast(np.array([os.path.exists(args.checkpoint)]))
    return {
        "callbacks": [checkpoint(args.checkpoint, args.checkpoint_every)],
        "resume_from": args.checkpoint if found[0] else None,
    }


def _check_train_options(args: argparse.Namespace, params: TrainParams) -> None:
    if params.objective is None:
        *others, last = OBJECTIVES
        raise ParameterError(
            f"--objective is needed: {', '.join(others)} or {last}, "
            f"for example --objective {others[0]}"
        )
    if OBJECTIVES[params.objective].needs_queries != (args.group is not None):
        ranking = " or ".join(name for name, kind in OBJECTIVES.items() if kind.needs_queries)
        raise ParameterError(
            f"--objective {ranking} and --group (the column of query ids) need each other"
        )
    if params.early_stopping_rounds is not None and not args.valid:
        raise ParameterError("early_stopping_rounds needs validation data: --valid FILE")


class _ShardReader:
    """Reads this rank's part of table files as Datasets; the first one sets the classes."""

    def __init__(self, args: argparse.Namespace, params: TrainParams, comm: Comm) -> None:
        self.args, self.comm = args, comm
        assert params.objective is not None
        self.objective = OBJECTIVES[params.objective].from_settings(vars(params))
        self.classes: NDArray[Any] | None = None

    def dataset(self, patterns: Sequence[str]) -> Dataset:
        args, comm = self.args, self.comm
        table = tables.read_table(patterns, args.delimiter, (comm.rank, comm.size), args.group)
        table = sharded_files.shared_columns(table, comm)
        if args.group:
            sharded_files.check_query_borders(table, args.group, comm)
        label, self.classes = self._labels(table, args.label)
        return Dataset(
            tables.feature_table(table, _feature_names(table, args)),
            label,
            weight=tables.numbers(table, args.weight) if args.weight else None,
            group=tables.group_sizes(table, args.group) if args.group else None,
        )

    def _labels(self, table: Any, name: str) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """(labels as numbers, classes or None if the objective has none)."""
        if not self.objective.is_classifier:
            return tables.numbers(table, name), None
        codes, found = tables.class_codes(table, name, self.classes)
        if self.classes is not None:
            return codes, self.classes
        if self.comm.size > 1:
            codes, found = tables.class_codes(
                table, name, sharded_files.shared_classes(found, self.comm)
            )
        promised = self.objective.promised_classes
        if promised is not None and found.dtype.kind in "iu":
            # Rows may lack some class, but whole-number labels say which one they are.
            codes, found = tables.class_codes(table, name, np.array(promised))
        expected = self.objective.n_classes
        if len(found) < 2 or (expected is not None and len(found) != expected):
            raise DataError(
                f"label {name!r} has {len(found)} classes ({tables.listed(found.tolist())}), but "
                f"objective {self.objective.name!r} needs {expected or 'at least 2'}"
            )
        return codes, found


def _predict(args: argparse.Namespace) -> None:
    from bitgrove.model.model import load

    formats = (".csv", ".tsv", ".parquet", ".pq")
    tables.check_output(args.out, [*args.data, args.model], formats)
    model = load(args.model)
    table = tables.read_table(args.data, args.delimiter)
    rows = tables.feature_table(table, model.feature_names)
    kept = {name: tables.column(table, name) for name in _named(table, args.keep)}
    if args.leaf:
        leaves = model.predict_leaf(rows, n_jobs=args.n_jobs)
        found = {f"leaf_{tree}": leaves[:, tree] for tree in range(leaves.shape[1])}
    elif args.raw:
        scores = model.predict_raw(rows, n_jobs=args.n_jobs)
        found = _output_columns(model, scores, "score")
    else:
        predictions = model.predict(rows, n_jobs=args.n_jobs)
        found = _output_columns(model, predictions, "probability")
        if model.n_classes:
            found["predicted_class"] = _predicted_class(model, predictions)
    clash = sorted(kept.keys() & found.keys())
    if clash:
        raise DataError(f"--keep {clash[0]}: a column of predictions has the same name")
    tables.write_table({**kept, **found}, args.out)
    print(f"{table.num_rows:,} predictions written to {args.out}")


def _info(args: argparse.Namespace) -> None:
    from bitgrove.model.model import load

    model = load(args.model)
    gain = model.feature_importance("gain")
    splits = model.feature_importance("split")
    order = np.argsort(-gain, kind="stable")[: args.top]
    facts = {
        "objective": model.objective,
        "classes": model.classes,
        "iterations": model.n_iterations,
        "best_iteration": model.best_iteration,
        "trees": len(model.trees),
        "leaves": sum(tree.n_leaves for tree in model.trees),
        "features": model.n_features,
        "size_bytes": os.path.getsize(args.model),
        "digest": model.digest(),
        "parameters": model.params,
        "top_features": [
            {"name": model.feature_names[i], "gain": float(gain[i]), "splits": int(splits[i])}
            for i in order
            if splits[i] > 0
        ],
    }
    print(json.dumps(facts, indent=2) if args.json else _info_text(facts, float(gain.sum())))


def _demo(args: argparse.Namespace) -> None:
    from bitgrove.cli.demo import run_demo

    run_demo(args.out, n_train=args.rows, n_test=max(args.rows // 5, 1000))


# ---------------------------------------------------------------- pieces of the commands


def _given_parameters(args: argparse.Namespace) -> dict[str, object]:
    """The parameters that were written, by --name value or --param name=value."""
    by_spelling = {name: p for p in PARAMETERS for name in (p.name, *p.aliases)}
    given: dict[str, object] = {}
    for name, text in args.params or []:
        value = _parse_value(by_spelling[name], text) if name in by_spelling else text
        if given.setdefault(name, value) != value:
            raise ParameterError(f"{name!r} is given twice: {given[name]!r} and {value!r}")
    return given


def _parse_value(parameter: Parameter, text: str) -> object:
    """The text as the parameter's type; text that does not fit is left for resolve to refuse."""
    if text.lower() in ("none", "null"):
        return None
    if parameter.type == "bool":
        return _TRUTH.get(text.lower(), text)
    if parameter.type == "metrics":
        return text.split(",")
    try:
        if parameter.type == "int":
            return int(text)
        if parameter.type == "float":
            return float(text)
        if parameter.type == "schedule":
            rates = [float(item) for item in text.split(",")]
            return rates if len(rates) > 1 else rates[0]
        if parameter.type == "floats":
            return [float(item) for item in text.split(",")]
    except ValueError:
        pass
    return text


def _named(table: Any, given: Sequence[str] | None) -> list[str]:
    """Column names out of comma-separated lists; each must exist."""
    names: list[str] = []
    for text in given or []:
        # A name may itself hold a comma: then it must be given alone.
        names += [text] if text in table.column_names else text.split(",")
    for name in names:
        tables.column(table, name)
    return list(dict.fromkeys(names))


def _feature_names(table: Any, args: argparse.Namespace) -> list[str]:
    roles = [name for name in (args.label, args.weight, args.group) if name is not None]
    if len(set(roles)) < len(roles):
        raise DataError("--label, --weight and --group must be different columns")
    left_out = {*(name for role in roles for name in _named(table, [role])),
                *_named(table, args.ignore)}  # fmt: skip
    names = [name for name in table.column_names if name not in left_out]
    if not names:
        raise DataError("no column is left to be a feature")
    return names


def _wants_progress(args: argparse.Namespace, params: TrainParams) -> bool:
    if args.progress is None:
        return params.progress or sys.stderr.isatty()
    return bool(args.progress)


def _report_training(model: Any, n_rows: int, valid_set: Any, seconds: float, path: str) -> None:
    rows = f"{n_rows:,} rows"
    if valid_set is not None:
        rows += f" ({valid_set.n_rows:,} for validation)"
    print(f"data            {rows}, {model.n_features} features")
    print(f"model           {model.objective}, {len(model.trees)} trees in {seconds:.2f} s")
    if model.best_iteration is not None:
        print(f"best iteration  {model.best_iteration}")
    for name, curves in model.info.evals_result.items():
        for metric, values in curves.items():
            value = values[model.best_iteration - 1 if model.best_iteration else -1]
            print(f"{f'{name} {metric}':<15} {value:.6g}")
    print(f"digest          {model.digest()}")
    print(f"written to      {path} ({os.path.getsize(path):,} bytes)")


def _class_names(model: Any) -> list[Any]:
    return list(model.classes) if model.classes is not None else list(range(model.n_outputs))


def _output_columns(model: Any, values: NDArray[np.float64], what: str) -> dict[str, Any]:
    """One column named `prediction` or `score`, or one per class."""
    if values.ndim == 1:
        return {"score" if what == "score" else "prediction": values}
    names = _class_names(model)
    return {f"{what}_{names[k]}": values[:, k] for k in range(values.shape[1])}


def _predicted_class(model: Any, predictions: NDArray[np.float64]) -> NDArray[Any]:
    binary = predictions.ndim == 1
    codes = (predictions > 0.5).astype(np.int64) if binary else predictions.argmax(axis=1)
    labels = model.class_labels()
    return codes if labels is None else labels[codes]


def _info_text(facts: dict[str, Any], total_gain: float) -> str:
    plain = ("objective", "classes", "iterations", "best_iteration", "trees", "leaves", "features",
             "size_bytes", "digest")  # fmt: skip
    lines = []
    for name in plain:
        value = facts[name]
        if isinstance(value, list):
            value = tables.listed(value, most=20)
        lines.append(f"{name.replace('_', ' '):<16}{'-' if value is None else value}")
    lines += ["", "parameters"]
    lines += [f"  {name:<30}{value}" for name, value in sorted(facts["parameters"].items())]
    lines += ["", "top features by gain"]
    for feature in facts["top_features"]:
        share = feature["gain"] / total_gain if total_gain > 0 else 0.0
        lines.append(f"  {feature['name']:<30}{share:6.1%}  {feature['splits']:>7} splits")
    return "\n".join(lines)


_COMMANDS = {"train": _train, "predict": _predict, "info": _info, "demo": _demo}
