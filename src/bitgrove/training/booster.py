"""One training run: its rows, its scores, and what an iteration does to them.

Owns Booster. Each iteration asks the backend for gradients, quantizes them, grows one tree per
output, sets its leaf values and adds them to the scores. Nothing here depends on which backend or
which Comm it runs on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.selection import integer_weights
from bitgrove.backends import (
    Backend,
    BinnedMatrix,
    choose_device,
    give_back_memory,
    make_backend,
)
from bitgrove.backends.base import LeafRule, TreeWork, make_targets
from bitgrove.backends.room import Needs, share_room
from bitgrove.backends.told import Gradients, OutputGradients
from bitgrove.constraints.given import feature_rules
from bitgrove.data.binning import Known, fit_edges
from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import require_device
from bitgrove.data.encoder import Encoder
from bitgrove.data.given_values import widened
from bitgrove.data.row_ids import RowRuns, number_rows
from bitgrove.data.sampling import feature_sample, node_key, rounding_key
from bitgrove.data.statistics import FirstGradients
from bitgrove.distributed.agreement import agree
from bitgrove.distributed.comm import Comm, SoloComm
from bitgrove.errors import DataError, DataTypeError
from bitgrove.machine.files import PathLike
from bitgrove.machine.threads import resolve_threads
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.objectives import make_objective, with_penalty
from bitgrove.params import TrainParams, model_params
from bitgrove.provenance.making import RecordMaking
from bitgrove.provenance.record import TrainingRecord, record_of
from bitgrove.training.encoding import (
    Seen,
    fit_encoder,
    kept_codes,
    known_columns,
    many_levels,
    shared_bins,
    with_agreed_levels,
)
from bitgrove.training.grower import Grower, Later, TreeSample, split_params
from bitgrove.training.guards import Guards, check_savable
from bitgrove.training.histograms import LOCAL_WIDTHS, WidthPlan
from bitgrove.training.quantize import quantize, traits_of
from bitgrove.training.refit import (
    finish_tree,
    integer_leaf_sums,
    leaf_units,
    original_leaf_sums,
    residual_quantiles,
    smoothed_leaves,
    within_bounds,
)
from bitgrove.training.starting import (
    base_scores,
    check_continues,
    column_scores,
    raw_scores,
    shared_model,
    start_scores,
)
from bitgrove.training.variants import make_boosting, make_draws
from bitgrove.training.variants.boosting import ScoreChange
from bitgrove.training.variants.rows import RowDraws, TrainingRows

F64 = NDArray[np.float64]


@dataclass
class TrainInfo:
    """Facts about a training run; none of them is part of the model's bytes.

    best_score: the metrics of the kept iteration (of the last one, without early stopping).
    rounding_noise: for each tree, the part of its gradients' variance that is rounding, 0 to 1.
    seconds: "bin" (until the first tree), "fingerprint" (of the data; what was waited for), "train"
    (the trees) and, of validation sets, "evaluate".
    """

    rounds_per_tree: list[int] = field(default_factory=list)
    accumulator_widths: Counter[str] = field(default_factory=Counter)
    zero_rows: list[int] = field(default_factory=list)
    rounding_noise: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    evals_result: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    best_score: dict[str, dict[str, float]] = field(default_factory=dict)
    device: str = "cpu"  # where it ran

    def __repr__(self) -> str:
        seconds = ", ".join(f"{what} {s:.3g} s" for what, s in self.seconds.items())
        sets = f", judged on {', '.join(self.evals_result)}" if self.evals_result else ""
        return f"<bitgrove.TrainInfo {len(self.rounds_per_tree)} trees, {seconds}{sets}>"


class Booster:
    """Rows, scores and trees of one training run."""

    def __init__(
        self,
        params: TrainParams,
        train_set: Dataset,
        comm: Comm,
        init_model: Model | PathLike | None = None,
        valid_sets: Sequence[Dataset] = (),
    ) -> None:
        self.given, self.comm, self.info = params, comm, TrainInfo()
        if not isinstance(train_set, Dataset):
            raise DataTypeError(f"train_set must be a Dataset, got {type(train_set).__name__}")
        dataset = agree(comm, params, train_set).without_zero_weights()
        self.dataset = dataset = with_agreed_levels(dataset, comm)
        self.objective = make_objective(params, dataset, comm)
        rules = feature_rules(params, dataset)
        label, group = dataset.narrow_label, dataset.group
        assert label is not None
        weight = self.objective.row_weights(widened(label), dataset.weight)
        placed = replace(params, device=choose_device(params.device, dataset, self.objective))
        self.backend: Backend = make_backend(placed, self.objective.n_outputs)
        self.info.device = self.backend.name
        self.runs, self.n_total = number_rows(comm, dataset.n_rows, dataset.pieces)
        if self.n_total == 0:
            raise DataError("weight: all weights are zero (or below 1.2e-38): nothing to train on")
        self.params = params = with_penalty(params, self.objective, widened(label), weight, comm)
        n_statistics = len(many_levels(dataset, params))
        n_kept = len(kept_codes(dataset, params, self.n_total))
        valid = [other for other in valid_sets if other is not train_set]
        needs = Needs(
            dataset, valid, self.objective.n_outputs, n_statistics, params, comm.size,
            self.backend.tile_bytes, n_kept=n_kept,
        )  # fmt: skip
        self.pool_mb = share_room(self.backend, needs, comm)
        self.targets = make_targets(self.backend, self.objective, label, weight, group, self.runs)
        self.init_model = shared_model(init_model, comm, "init_model")
        if self.init_model is None:
            self.base_score = base_scores(params, self.objective, dataset, weight, comm)
        else:
            check_continues(self.init_model, self.objective, dataset)
            self.base_score = self.init_model.base_score
        self.encoder, self.matrix = self._scored_and_binned()
        check_savable(self._model_of([], None, None))
        self.record = self._begin_record()
        self.trees: list[Tree] = [] if self.init_model is None else list(self.init_model.trees)
        self.n_before: int = len(self.trees) // self.objective.n_outputs  # iterations
        self.guards = Guards(params, self.objective, comm.rank)
        # Whole weights for quantiles of residuals, where leaves are such.
        self.leaf_weights = None
        if self.objective.leaf_level is not None:
            self.leaf_weights = self.backend.upload(integer_weights(weight, comm))
        self._traits = [traits_of(self.objective, k) for k in range(self.objective.n_outputs)]
        self.gradients: Gradients | None = None  # of the last iteration, for callbacks
        rows = TrainingRows(dataset, self.objective, self.backend, self.runs, comm)
        self.draws: RowDraws = make_draws(params, rows)
        self.boosting = make_boosting(self)
        own = rules.of_columns(self.encoder)
        has_statistics = self.encoder is not None and len(self.encoder.statistics) > 0
        searched = split_params(params, self.n_total) if has_statistics else params
        self.grower = Grower(self.backend, self.matrix, searched, comm, self.pool_mb, own)

    def _begin_record(self) -> RecordMaking:
        """Fingerprints of the data; made while the trees grow where the host has nothing to do."""
        known = None if self.init_model is None else self.init_model.digest()
        in_background = self.backend.leaves_host_idle and self.comm.size == 1
        n_threads = resolve_threads(self.params.n_jobs)
        if in_background:  # a quarter is left to the loop: trees wait when its thread does
            n_threads = max(1, n_threads * 3 // 4)
        bins_of = shared_bins(self.dataset, self.params)
        make = partial(record_of, self.dataset, self.runs, self.comm, n_threads, known, bins_of)
        return RecordMaking(make, in_background)

    def start_scores(self, dataset: Dataset) -> Any:
        """(n_outputs, n_rows) on the backend: base scores, init_model's, or the rows' own."""
        if self.init_model is None:
            given = dataset.init_score
            return start_scores(self.backend, self.base_score, dataset.n_rows, given)
        if dataset.init_score is not None:
            raise DataError("init_score: not together with init_model")
        return self.backend.upload(raw_scores(self.init_model, dataset, self.params.n_jobs))

    def _scored_and_binned(self) -> tuple[Encoder | None, BinnedMatrix]:
        """Sets the scores that training starts from; the encoder of init_model stays as it is."""
        dataset, backend, params, comm = self.dataset, self.backend, self.params, self.comm
        model = self.init_model
        if model is None or model.encoder is None:
            self.scores = self.start_scores(dataset)
            first, runs = self._first_gradients, self.runs
            return bin_training_set(dataset, backend, params, comm, runs, first)
        require_device(dataset.device, backend.name)
        dataset.require_values("init_model with categories")
        # The gradients that the statistics of the model are made of, if it knows these rows.
        self.scores = start_scores(backend, self.base_score, dataset.n_rows)
        seen = Seen(self._first_gradients, self.runs, model.params["random_state"], comm)
        columns = known_columns(model.encoder, dataset, seen)
        self.scores = backend.upload(column_scores(model, columns, params.n_jobs))
        known = Known(model.encoder.n_levels, drawn=model.encoder.drawn)
        matrix = _edges_and_bins(columns, backend, params, self.runs, comm, known)
        return model.encoder, matrix

    def _first_gradients(self) -> FirstGradients:
        found = self.backend.gradients(self.objective, self.scores, self.targets)
        hess = None if found.hess is None else self.backend.download(found.hess)
        return FirstGradients(self.backend.download(found.grad), hess)

    def boost(self, iteration: int) -> list[ScoreChange]:
        """One iteration: a tree for each output; those of init_model are counted.

        Returns what the scores went through, in order, for those of validation sets.
        """
        self.gradients = None  # their memory can be used again
        mine = iteration - self.n_before
        dropped = self._apply(self.boosting.drop(self.trees, mine))
        self.seen = self.boosting.seen_scores(self)
        objective = self.objective.at(iteration, self.params.random_state)
        self.gradients = gradients = self.backend.gradients(objective, self.seen, self.targets)
        grown = [
            self._add_tree(output, gradients.output(output), iteration)
            for output in range(self.objective.n_outputs)
        ]
        return dropped + grown + self._apply(self.boosting.settle(self.trees))

    def repeat(self, trees: list[Tree]) -> list[ScoreChange]:
        """One iteration of a checkpoint: its trees are added to the scores as they are."""
        self.trees += trees
        return self._apply([ScoreChange(output, tree) for output, tree in enumerate(trees)])

    def _apply(self, changes: list[ScoreChange]) -> list[ScoreChange]:
        for output, tree, _ in changes:
            self.backend.add_tree(self.scores[output], self.matrix, tree)
        return changes

    def _add_tree(self, output: int, gradients: OutputGradients, iteration: int) -> ScoreChange:
        number, params, backend = len(self.trees), self.params, self.backend
        key = rounding_key(params.random_state, number)
        traits = self._traits[output]
        drawn = self.draws.draw(gradients, iteration, number)
        quantized = quantize(backend, drawn.gradients, params, key, self.runs, self.comm, traits)
        n_columns = self.matrix.mapper.n_features
        allowed = feature_sample(params, number, n_columns)
        seen = TreeSample(drawn.rows, allowed, node_key(params.random_state, number))
        widths = WidthPlan(quantized, self.n_total)
        growth = self.grower.grow(quantized, seen, widths, self.n_total, self._write_down)
        work, level = growth.work, self.objective.output(output).leaf_level
        refits = params.refit_leaves and level is None
        if refits:
            units = leaf_units(gradients, drawn.largest or quantized.largest, growth.n_rows)
            told = work.leaf_sums(gradients.grad, gradients.hess, units)
        grown = Later(self.grower, growth, quantized.hess_scale)
        if refits:
            sums = original_leaf_sums(told, units, self.comm)
        else:
            sums = integer_leaf_sums(grown(), quantized)
        rule = self.leaf_rule(number)
        values, hess = work.leaf_values(sums, rule)
        if level is not None and growth.n_rows:  # a sample may hold no row
            found = self._quantiles(output, work, len(hess), level)
            values = found * rule.learning_rate + 0.0  # a zero leaf is +0, never -0
        elif params.path_smooth > 0.0:
            values = smoothed_leaves(grown(), sums, rule, params.path_smooth)
        if self.grower.rules is not None:
            values = within_bounds(grown(), values, rule.learning_rate)
        values = self.guards.bounded(values, rule.learning_rate)
        tree = finish_tree(grown, values, hess)
        keep = self.boosting.keep(iteration - self.n_before)
        if keep != 1.0:
            backend.fade(self.scores[output], self.seen[output], keep)
        work.add_tree(self.scores[output], tree)
        self.trees.append(tree)
        self.info.rounds_per_tree.append(growth.frontier.n_rounds)
        for width, n_built in zip(LOCAL_WIDTHS, growth.frontier.widths_used, strict=True):
            if n_built:
                self.info.accumulator_widths[str(width)] += n_built
        self.info.zero_rows.append(quantized.zero_rows)
        self.info.rounding_noise.append(quantized.rounding_noise)
        return ScoreChange(output, tree, keep)

    def _write_down(self) -> None:
        """The last tree, of which only the leaf values may be known."""
        if self.trees:
            self.trees[-1].write_down()

    def _quantiles(self, output: int, work: TreeWork, n_leaves: int, level: float) -> F64:
        """Of the residuals of each leaf."""
        keys = self.backend.residual_keys(self.seen[output], self.targets.label_of(output))
        return residual_quantiles(work, keys, self.leaf_weights, n_leaves, level, self.comm)

    def leaf_rule(self, tree: int) -> LeafRule:
        params, rate = self.params, self.params.learning_rate
        iteration = tree // self.objective.n_outputs - self.n_before  # of this training
        if isinstance(rate, tuple):
            rate = rate[iteration]
        rate = self.boosting.rate(rate, iteration)
        return LeafRule(params.reg_alpha, params.leaf_penalty, rate)

    def model(self, best_iteration: int | None) -> Model:
        """The model so far, cut to the best iteration if there is one."""
        self._write_down()
        n_outputs = self.objective.n_outputs
        n_kept = len(self.trees) if best_iteration is None else best_iteration * n_outputs
        n_old = self.n_before * n_outputs
        trees = self.trees[:n_old] + self.boosting.finished(self.trees[n_old:n_kept])
        return self._model_of(trees[:n_kept], best_iteration, self.record.result())

    def _model_of(
        self, trees: Sequence[Tree], best_iteration: int | None, record: TrainingRecord | None
    ) -> Model:
        return Model(
            objective=self.objective.name,
            trees=trees,
            base_score=self.base_score,
            feature_names=self.dataset.feature_names,
            params=model_params(self.given),
            best_iteration=best_iteration,
            encoder=self.encoder,
            record=record,
            info=self.info,
        )


def bin_training_set(
    dataset: Dataset,
    backend: Backend,
    params: TrainParams,
    comm: Comm,
    runs: RowRuns,
    first_gradients: Callable[[], FirstGradients] | None = None,
) -> tuple[Encoder | None, BinnedMatrix]:
    """Finds edges and bins the rows; kept on the Dataset, so that a second training reuses it.

    Not so for a shard, whose edges belong to the rows of all ranks, which may be others next time;
    nor for categories of many levels, which need first_gradients.
    """
    if shared_bins(dataset, params) is not None:
        if comm.size > 1:
            raise DataError("reference: a shard of several ranks cannot have one")
        return _bin_like_reference(dataset, backend, params)
    require_device(dataset.device, backend.name)
    key = (backend.name, params.max_bin, params.bin_sample_rows, params.random_state,
           params.max_cat_levels)  # fmt: skip
    if comm.size == 1 and key in dataset.binned:
        found: tuple[Encoder | None, BinnedMatrix] = dataset.binned[key]
        return found
    rows = dataset.in_bins(params, runs, comm)
    encoder, columns = fit_encoder(rows, params, first_gradients, runs, comm)
    known = Known(edges=rows.edges)
    if encoder is not None:
        known = Known(encoder.n_levels, rows.edges, encoder.drawn)
    matrix = _edges_and_bins(columns, backend, params, runs, comm, known)
    if comm.size == 1 and (encoder is None or not encoder.statistics):
        dataset.binned[key] = (encoder, matrix)
    return encoder, matrix


def _edges_and_bins(
    columns: Sequence[Any],
    backend: Backend,
    params: TrainParams,
    runs: RowRuns,
    comm: Comm,
    known: Known,
) -> BinnedMatrix:
    columns = backend.send_columns(columns)
    mapper = fit_edges(columns, backend.find_edges, params, runs, comm, known)
    matrix: BinnedMatrix = backend.bin_columns(columns, mapper)
    del columns
    give_back_memory()  # of the values that were sent
    missing = comm.allreduce_max(matrix.missing)
    matrix.prepare(matrix.mapper.with_missing(missing), alone=comm.size == 1)
    return matrix


def _bin_like_reference(
    dataset: Dataset, backend: Backend, params: TrainParams
) -> tuple[Encoder | None, BinnedMatrix]:
    """Bins the rows with the edges of the Dataset that they share them with."""
    origin, comm = shared_bins(dataset, params), SoloComm()
    assert origin is not None
    runs, _ = number_rows(comm, origin.n_rows, None)
    encoder, like = bin_training_set(origin, backend, params, comm, runs)
    require_device(dataset.device, backend.name)
    columns = dataset.encoded(encoder or Encoder(dataset.n_features), like.mapper, params.n_jobs)
    matrix = backend.bin_columns(columns, like.mapper)
    matrix.prepare(like.mapper.with_missing(matrix.missing), alone=True)
    return encoder, matrix
