"""The `bitgrove` command: train, cv, predict, explain, info, convert, report, verify and demo.

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
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.cli import files, tables
from bitgrove.cli.explaining import run_explain
from bitgrove.cli.failures import fail, printable
from bitgrove.cli.model_rows import TABLE_FORMATS, output_names, read_for
from bitgrove.cli.options import parse
from bitgrove.cli.reporting import run_report
from bitgrove.cli.training import run_cv, run_train
from bitgrove.cli.verifying import run_verify
from bitgrove.errors import DataError
from bitgrove.estimators.answers import Labels, answers_of_model


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 2 bad input, 1 a fault of ours.

    A command that answers a question may have codes of its own.
    """
    try:
        args = parse(argv)
        code: int | None = _COMMANDS[args.command](args)
        if sys.stdout is not None:  # it may have been closed before we came
            sys.stdout.flush()
        return code or 0
    except BrokenPipeError:
        # The reader of our output has left (`bitgrove info | head`): nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, Exception) as error:
        return fail(error)


# ---------------------------------------------------------------- commands


def _predict(args: argparse.Namespace) -> None:
    from bitgrove.model.model import load

    files.check_output(args.out, [*args.data, args.model], TABLE_FORMATS)
    model = load(args.model)
    table, rows = read_for(model, args.data, args.delimiter)
    kept = {name: tables.column(table, name) for name in tables.named(table, args.keep)}
    if args.leaf:
        leaves = model.predict_leaf(rows, n_jobs=args.n_jobs)
        found = {f"leaf_{tree}": leaves[:, tree] for tree in range(leaves.shape[1])}
    elif args.raw:
        scores = model.predict_raw(rows, n_jobs=args.n_jobs)
        found = _output_columns(model, scores, "score")
    else:
        predictions = model.predict(rows, n_jobs=args.n_jobs)
        what = "probability" if model.n_classes else "prediction"
        found = _output_columns(model, predictions, what)
        if model.n_classes:
            found |= _predicted_classes(model, predictions)
    clash = sorted(kept.keys() & found.keys())
    if clash:
        raise DataError(f"--keep {clash[0]}: a column of predictions has the same name")
    files.write_table({**kept, **found}, args.out)
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
        "record": None if model.record is None else model.record.facts(),
        "parameters": model.params,
        "top_features": [
            {"name": model.feature_names[i], "gain": float(gain[i]), "splits": int(splits[i])}
            for i in order
            if splits[i] > 0
        ],
    }
    print(json.dumps(facts, indent=2) if args.json else _info_text(facts, float(gain.sum())))


def _convert(args: argparse.Namespace) -> None:
    from bitgrove.model.exchange import export_model, import_model

    files.check_output(args.out, [args.model])
    model = import_model(args.model)
    export_model(model, args.out, args.format, raw_score=args.raw)
    print(f"{args.model}: {model!r} written to {args.out}")


def _demo(args: argparse.Namespace) -> None:
    from bitgrove.cli.demo import run_demo

    run_demo(args.out, n_train=args.rows, n_test=max(args.rows // 5, 1000))


# ---------------------------------------------------------------- pieces of the commands


def _output_columns(model: Any, values: NDArray[np.float64], what: str) -> dict[str, Any]:
    """One column named `prediction` or `score`, or one per output."""
    if values.ndim == 1:
        return {"score" if what == "score" else "prediction": values}
    names = output_names(model)
    return {f"{what}_{names[k]}": values[:, k] for k in range(values.shape[1])}


def _predicted_classes(model: Any, predictions: NDArray[np.float64]) -> dict[str, Any]:
    """The class of each row; of several labels, whether each holds."""
    answers = answers_of_model(model)
    if isinstance(answers, Labels):
        chosen = answers.chosen(predictions - 0.5)
        return {f"predicted_{k}": chosen[:, k] for k in range(answers.n_labels)}
    scores = predictions - 0.5 if predictions.ndim == 1 else predictions
    return {"predicted_class": answers.chosen(scores)}


def _info_text(facts: dict[str, Any], total_gain: float) -> str:
    plain = ("objective", "classes", "iterations", "best_iteration", "trees", "leaves", "features",
             "size_bytes", "digest")  # fmt: skip
    lines = []
    for name in plain:
        value = facts[name]
        if isinstance(value, list):
            value = tables.listed(value, most=20)
        lines.append(f"{name.replace('_', ' '):<16}{'-' if value is None else value}")
    lines += ["", "trained on (sha256)"]
    record = facts["record"] or {"record": "none: its data is not known"}
    lines += [f"  {name.replace('_', ' '):<14}{value or '-'}" for name, value in record.items()]
    lines += ["", "parameters"]
    params = sorted(facts["parameters"].items())
    lines += [f"  {printable(name):<30}{printable(str(value))}" for name, value in params]
    lines += ["", "top features by gain"]
    for feature in facts["top_features"]:
        share = feature["gain"] / total_gain if total_gain > 0 else 0.0
        lines.append(
            f"  {printable(feature['name']):<30}{share:6.1%}  {feature['splits']:>7} splits"
        )
    return "\n".join(lines)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "train": run_train,
    "cv": run_cv,
    "predict": _predict,
    "explain": run_explain,
    "info": _info,
    "convert": _convert,
    "report": run_report,
    "verify": run_verify,
    "demo": _demo,
}
