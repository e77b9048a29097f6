"""`bitgrove explain`: what each feature adds to the score of each row (Shapley values)."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from bitgrove.cli import files, tables
from bitgrove.cli.failures import printable
from bitgrove.cli.training import categories_of_model
from bitgrove.errors import DataError
from bitgrove.model.model import Model, load

_FORMATS = (".csv", ".tsv", ".parquet", ".pq")


def run_explain(args: argparse.Namespace) -> None:
    """Prints the features that matter most; with --out writes the contributions of every row."""
    if args.out:
        files.check_output(args.out, [*args.data, args.model], _FORMATS)
    elif args.keep:
        raise DataError("--keep: columns are copied to a file; give --out FILE")
    model = load(args.model)
    categories = categories_of_model(model)
    text = frozenset(name for name, is_text in categories.items() if is_text)
    table = files.read_table(args.data, files.Reading(args.delimiter, text=text))
    rows = tables.feature_table(table, model.feature_names, categories)
    values = model.shap_values(rows, n_jobs=args.n_jobs)
    sizes = np.abs(values).mean(axis=0)
    sizes = sizes if sizes.ndim == 1 else sizes.sum(axis=1)
    print(f"{table.num_rows:,} rows; mean size of what a feature adds to a score")
    for f in np.argsort(-sizes, kind="stable")[: args.top]:
        print(f"  {printable(model.feature_names[f]):<30}{sizes[f]:.6g}")
    if args.out:
        found = _columns(model, values)
        kept = {name: tables.column(table, name) for name in tables.named(table, args.keep)}
        if clash := sorted(kept.keys() & found.keys()):
            raise DataError(f"--keep {clash[0]}: a column of contributions has the same name")
        files.write_table({**kept, **found}, args.out)
        print(f"written to {args.out}; a row's columns add up to its raw score")


def _columns(model: Model, values: Any) -> dict[str, Any]:
    """One column per feature (and output), and what a row of which nothing is known gets."""
    expected = np.atleast_1d(model.expected_value())
    if model.n_outputs == 1:
        found = {name: values[:, f] for f, name in enumerate(model.feature_names)}
        return {**found, "expected_value": np.full(len(values), expected[0])}
    is_class = model.classes is not None and model.n_classes == model.n_outputs
    outputs = model.classes if is_class and model.classes else range(model.n_outputs)
    found = {}
    for k, output in enumerate(outputs):
        found |= {f"{n}_{output}": values[:, f, k] for f, n in enumerate(model.feature_names)}
        found[f"expected_value_{output}"] = np.full(len(values), expected[k])
    return found
