"""`bitgrove train`: from files to a model file, alone or as the ranks of an MPI launcher.

Owns what other commands that train share with it: ranks, and files that are read as Datasets.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitgrove.cli import files, sharded_files, tables
from bitgrove.cli.failures import fail
from bitgrove.cli.model_rows import TABLE_FORMATS, categories_of_model
from bitgrove.data.dataset import Dataset
from bitgrove.distributed import Comm, SoloComm, fails_together
from bitgrove.errors import DataError, ParameterError, RankFailure
from bitgrove.model.model import Model
from bitgrove.objectives import OBJECTIVES
from bitgrove.params import PARAMETERS, TrainParams, resolve
from bitgrove.params.parameter import Parameter
from bitgrove.training.starting import shared_model

Answer = TypeVar("Answer")
_TRUTH = {"true": True, "yes": True, "on": True, "1": True,
          "false": False, "no": False, "off": False, "0": False}  # fmt: skip


def run_train(args: argparse.Namespace) -> None:
    """Trains alone, or as one rank of those that an MPI launcher started."""
    on_ranks(lambda comm: _train_shard(args, comm))


def on_ranks(work: Callable[[Comm], Answer]) -> Answer:
    """The work of this process: alone, or as one rank of those that an MPI launcher started."""
    from bitgrove.distributed.mpi import end_all, launched_comm

    comm = launched_comm()
    if comm is None:
        return work(SoloComm())
    try:
        with fails_together(comm):
            return work(comm)
    except BaseException as error:
        # Rank 0 speaks for all and ends them; if it cannot, the next one does.
        time.sleep(min(comm.rank, 5))
        told = isinstance(error, RankFailure) or getattr(error, "everywhere", False)
        code = fail(error, "" if told else f"rank {comm.rank}: ")
        end_all(code)
        raise SystemExit(code) from None  # the end may take a while: nothing more is said


def _train_shard(args: argparse.Namespace, comm: Comm) -> None:
    from bitgrove.training.train import train

    given = _given_parameters(args)
    params = resolve(given)
    comm.timeout = params.distributed_timeout
    _check_train_options(args, params, comm)
    if comm.rank == 0:
        inputs = [*args.data, *(args.valid or []), *([args.init_model] if args.init_model else [])]
        files.check_output(args.model, inputs)
        if args.report is not None:
            files.check_output(args.report, inputs, (".html", ".htm"))

    init_model = shared_model(args.init_model, comm, "init_model")
    read = ShardReader(args, params, comm, init_model)
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
        init_model=init_model,
        **_checkpointing(args, comm),
    )
    seconds = time.perf_counter() - start
    if read.classes is not None:
        model = model.with_classes(read.classes)
    if comm.rank == 0:
        model.save(args.model)
        _report_training(model, n_rows, valid_set, seconds, args.model)
        if args.report is not None:
            from bitgrove.cli.reporting import rows_of_files

            model.report(args.report, rows_of_files(model, args.valid or args.data, args))
            print(f"report          {args.report}")


def run_cv(args: argparse.Namespace) -> None:
    """`bitgrove cv`: what training on these rows is worth on rows that it has not seen."""
    from bitgrove.training.cross_validation import cv

    given = _given_parameters(args)
    params = resolve(given)
    _check_objective(args, params)
    if args.out:
        files.check_output(args.out, args.data, TABLE_FORMATS)
    read = ShardReader(args, params, SoloComm(), in_memory=True)
    dataset = read.dataset(args.data)
    if read.classes is not None:
        given = {**given, **read.objective.class_settings(len(read.classes))}
    how = {name: getattr(args, name) for name in ("nfold", "stratified", "shuffle", "time_order")}
    given["progress"] = _wants_progress(args, params)
    found = cv(given, dataset, seed=params.random_state, **how)
    print(f"data            {dataset.n_rows:,} rows, {dataset.n_features} features")
    print(f"folds           {len(found.cvbooster)}")
    best = found.best_iteration
    print(f"iterations      {best or found.cvbooster[0].n_iterations}{' (best)' * bool(best)}")
    for name, values in found.items():
        if name.endswith("-mean"):
            spread = found[name.removesuffix("-mean") + "-stdv"][-1]
            print(f"{name.removesuffix('-mean'):<15} {values[-1]:.6g} +- {spread:.3g}")
    if args.out:
        numbers = np.arange(1, len(next(iter(found.values()))) + 1)
        files.write_table({"iteration": numbers, **found}, args.out)
        print(f"written to      {args.out}")


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


def _check_objective(args: argparse.Namespace, params: TrainParams) -> None:
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


def _check_train_options(args: argparse.Namespace, params: TrainParams, comm: Comm) -> None:
    _check_objective(args, params)
    if args.report is not None and comm.size > 1:
        raise ParameterError("--report: the rows are shared among ranks; use bitgrove report")
    if args.init_model and args.checkpoint:
        raise ParameterError("--init_model and --checkpoint exclude each other")
    if params.early_stopping_rounds is not None and not args.valid:
        raise ParameterError("early_stopping_rounds needs validation data: --valid FILE")


class ShardReader:
    """Reads this rank's part of table files as Datasets.

    The first one, or the model that training goes on from, sets the classes; the first one says
    which columns are categories. features: their names; None: all columns that have no other role.
    in_memory: whole, where Parquet files would be read in batches.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        params: TrainParams,
        comm: Comm,
        init_model: Model | None = None,
        features: list[str] | None = None,
        in_memory: bool = False,
    ) -> None:
        self.args, self.comm, self.features = args, comm, features
        self.in_memory = in_memory
        assert params.objective is not None
        self.objective = OBJECTIVES[params.objective].from_settings(vars(params))
        self.classes = None if init_model is None else init_model.class_labels()
        self.known = {} if init_model is None else categories_of_model(init_model)
        self.text = frozenset(name for name, is_text in self.known.items() if is_text)
        self.categories: list[str] | None = None
        self.by_type: frozenset[str] = frozenset()  # columns of text that nobody listed

    def dataset(self, patterns: Sequence[str]) -> Dataset:
        args, comm = self.args, self.comm
        how = files.Reading(args.delimiter, (comm.rank, comm.size), args.group, self.text)
        # Categories of a model to go on from are looked up in rows that are all in memory.
        whole = self.in_memory or bool(self.known)
        found = None if whole else files.parquet_rows(patterns, how)
        if found is None:
            table, names = self._table(patterns, how)
            return self._dataset(table, tables.feature_table(table, names, self.categories or ()))
        rows, head = found
        head, names = self._columns(sharded_files.shared_columns(head, comm))
        roles = [name for name in (self.label, args.weight, args.group) if name is not None]
        categories = self.categories or ()

        def batches() -> Iterator[Any]:
            for table in itertools.chain([head], rows.batches(names)):
                yield tables.feature_table(table, names, categories)

        made = self._dataset(rows.read(roles), batches)
        for f, levels in made.levels.items():
            if names[f] in self.by_type:
                tables.check_no_slip(levels.values.tolist(), names[f])
        return made

    def _dataset(self, table: Any, features: Any) -> Dataset:
        """features: a table, or a function that makes batches of it."""
        args = self.args
        if args.group:
            sharded_files.check_query_borders(table, args.group, self.comm)
        label, self.classes = self._labels(table, self.label)
        return (Dataset.from_batches if callable(features) else Dataset)(
            features,
            label,
            weight=tables.numbers(table, args.weight) if args.weight else None,
            group=tables.group_sizes(table, args.group) if args.group else None,
            categorical_feature=self.categories,
        )

    def _names(self, table: Any) -> list[str]:
        return _feature_names(table, self.args) if self.features is None else self.features

    def _columns(self, table: Any) -> tuple[Any, list[str]]:
        """The table and the names of its features; categories are set by the first one."""
        names, args = self._names(table), self.args
        self.label = args.label or _only_other(table, [*names, args.weight, args.group])
        if self.categories is None:
            listed = [*_listed_categories(table, names, args), *self.known]
            mine = tables.categories_of(table, names, listed)
            shared = sharded_files.shared_names(frozenset(mine), self.comm)
            self.categories = [name for name in names if name in shared]
            self.by_type = (files.text_columns(table) & set(names)) - set(listed)
        return table, names

    def _table(self, patterns: Sequence[str], how: files.Reading) -> tuple[Any, list[str]]:
        """The table and the names of its features; what is text on one rank is text on all."""
        table = sharded_files.shared_columns(files.read_table(patterns, how), self.comm)
        names = self._names(table)
        if self.categories is None:
            mine = self.text | (files.text_columns(table) & set(names))
            self.text = sharded_files.shared_names(mine, self.comm)
            if self.text != mine:
                again = files.read_table(patterns, replace(how, text=self.text))
                table = again.select(table.column_names)
        return self._columns(table)

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


def _given_parameters(args: argparse.Namespace) -> dict[str, object]:
    """The parameters that were written, by --name value or --param name=value."""
    by_spelling = {name: p for p in PARAMETERS for name in (p.name, *p.aliases)}
    given: dict[str, object] = {}
    for name, text in args.params or []:
        value = _parse_value(by_spelling[name], text) if name in by_spelling else text
        known = given.setdefault(name, value)
        if known is not value and known != value:  # a NaN is itself, but equals nothing
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


def _only_other(table: Any, known: Sequence[str | None]) -> str:
    """The column that is none of these: the label, if nobody says which."""
    others = [name for name in table.column_names if name not in known]
    if len(others) != 1:
        found = tables.listed(others) if others else "none"
        raise DataError(f"--label is needed: columns that are no features: {found}")
    return str(others[0])


def _feature_names(table: Any, args: argparse.Namespace) -> list[str]:
    """All columns that have no other role."""
    roles = [name for name in (args.label, args.weight, args.group) if name is not None]
    if len(set(roles)) < len(roles):
        raise DataError("--label, --weight and --group must be different columns")
    left_out = {*(name for role in roles for name in tables.named(table, [role])),
                *tables.named(table, args.ignore)}  # fmt: skip
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


def _listed_categories(table: Any, names: Sequence[str], args: argparse.Namespace) -> list[str]:
    found, features = tables.named(table, args.categorical_feature), set(names)
    for name in found:
        if name not in features:
            raise DataError(f"--categorical_feature {name}: the column is not a feature")
    return found
