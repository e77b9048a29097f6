"""One training run: its rows, its scores, and what an iteration does to them.

Owns Booster. Each iteration asks the backend for gradients, quantizes them, grows one tree per
output, sets its leaf values and adds them to the scores. Nothing here depends on which backend or
which Comm it runs on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from bitgrove.backends import Backend, BinnedMatrix, make_backend
from bitgrove.backends.base import Gradients, OutputGradients, make_targets
from bitgrove.data.binning import fit_edges
from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import require_device
from bitgrove.data.row_ids import RowRuns, number_rows
from bitgrove.data.sampling import feature_sample, rounding_key, row_sample, select_rows
from bitgrove.distributed.agreement import agree
from bitgrove.distributed.comm import Comm
from bitgrove.errors import DataError, DataTypeError
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.objectives import make_objective
from bitgrove.params import TrainParams, model_params
from bitgrove.training.grower import Grower
from bitgrove.training.histograms import LOCAL_WIDTHS, HistogramPool, WidthPlan
from bitgrove.training.quantize import counts_magnitudes, quantize
from bitgrove.training.refit import finish_tree, integer_leaf_sums, leaf_values, original_leaf_sums


@dataclass
class TrainInfo:
    """Facts about a training run; none of them is part of the model's bytes.

    best_score: the metrics of the kept iteration (of the last one, without early stopping).
    """

    rounds_per_tree: list[int] = field(default_factory=list)
    accumulator_widths: Counter[str] = field(default_factory=Counter)
    zero_rows: list[int] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    evals_result: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    best_score: dict[str, dict[str, float]] = field(default_factory=dict)


class Booster:
    """Rows, scores and trees of one training run."""

    def __init__(self, params: TrainParams, train_set: Dataset, comm: Comm) -> None:
        self.params, self.comm, self.info = params, comm, TrainInfo()
        if not isinstance(train_set, Dataset):
            raise DataTypeError(f"train_set must be a Dataset, got {type(train_set).__name__}")
        self.dataset = dataset = agree(comm, params, train_set).without_zero_weights()
        self.objective = make_objective(params, dataset, comm)
        label, group = dataset.label, dataset.group
        assert label is not None
        weight = self.objective.row_weights(label, dataset.weight)
        self.backend: Backend = make_backend(params)
        # The smallest of all ranks: with other slots a rank would plan other messages.
        pool_mb = params.histogram_pool_mb or self.backend.pool_mb
        self.pool_mb = -int(comm.allreduce_max(np.array([-pool_mb]))[0])
        self.runs, self.n_total = number_rows(comm, dataset.n_rows, dataset.pieces)
        if self.n_total == 0:
            raise DataError("weight: all weights are zero (or below 1.2e-38): nothing to train on")
        self.matrix = bin_training_set(dataset, self.backend, params, comm, self.runs)
        self.targets = make_targets(self.backend, self.objective, label, weight, group)
        self.base_score = self.objective.base_scores(label, weight, comm)
        self.scores = self.backend.new_scores(self.base_score, dataset.n_rows)
        self.trees: list[Tree] = []
        self.gradients: Gradients | None = None  # of the last iteration, for callbacks
        self.grower: Grower | None = None

    def boost(self, iteration: int) -> list[Tree]:
        """One iteration: a tree for each output."""
        self.gradients = None  # their memory can be used again
        self.gradients = gradients = self.backend.gradients(
            self.objective, self.scores, self.targets, counts_magnitudes(self.params)
        )
        sample = row_sample(self.params, iteration)
        return [
            self._add_tree(output, gradients.output(output), sample)
            for output in range(self.objective.n_outputs)
        ]

    def repeat(self, trees: list[Tree]) -> list[Tree]:
        """One iteration of a checkpoint: its trees are added to the scores as they are."""
        for output, tree in enumerate(trees):
            self.backend.add_tree(self.scores[output], self.matrix, tree, None)
        self.trees += trees
        return trees

    def _add_tree(
        self, output: int, gradients: OutputGradients, sample: tuple[int, int] | None
    ) -> Tree:
        number = len(self.trees)
        params, backend, n_rows = self.params, self.backend, self.dataset.n_rows
        key = rounding_key(params.random_state, number)
        quantized = quantize(backend, gradients, params, key, self.runs, self.comm)
        rows = select_rows(backend, self.runs, sample)
        allowed = feature_sample(params, number, self.dataset.n_features)
        widths = WidthPlan(quantized)
        grown = self._grower_for(widths).grow(quantized, rows, allowed, widths)
        leaves = backend.locate_leaves(rows, grown.leaf_begin, grown.leaf_end, n_rows)
        if params.refit_leaves:
            original = (gradients.grad, gradients.hess)
            sums = original_leaf_sums(backend, grown, quantized, leaves, original, self.comm)
        else:
            sums = integer_leaf_sums(grown, quantized)
        values, leaf_hess = leaf_values(sums, params)
        scores = self.scores[output]
        backend.add_leaf_values(scores, leaves, values)
        # A GPU adds the values while the tree is put together.
        tree = finish_tree(grown, values, leaf_hess)
        if sample is not None:
            left_out = backend.excluded_rows(rows, n_rows)
            backend.add_tree(scores, self.matrix, tree, left_out)
        self.trees.append(tree)
        self.info.rounds_per_tree.append(grown.n_rounds)
        used = zip(LOCAL_WIDTHS, grown.widths_used, strict=True)
        self.info.accumulator_widths.update({str(width): n for width, n in used if n})
        self.info.zero_rows.append(quantized.zero_rows)
        return tree

    def _grower_for(self, widths: WidthPlan) -> Grower:
        """The grower of the last tree if its histograms are wide enough, else a wider one."""
        half_bits = max(32, widths.total_width(self.n_total))
        if self.grower is None or self.grower.pool.half_bits < half_bits:
            p, self.grower = self.params, None  # the narrow pool is freed first
            pool = HistogramPool(self.backend, self.matrix, half_bits, self.pool_mb, p.num_leaves)
            self.grower = Grower(self.backend, self.matrix, pool, p, self.comm)
        return self.grower

    def model(self, best_iteration: int | None) -> Model:
        """The model so far, cut to the best iteration if there is one."""
        n_outputs = self.objective.n_outputs
        n_kept = len(self.trees) if best_iteration is None else best_iteration * n_outputs
        return Model(
            objective=self.objective.name,
            trees=self.trees[:n_kept],
            base_score=self.base_score,
            feature_names=self.dataset.feature_names,
            params=model_params(self.params),
            best_iteration=best_iteration,
            info=self.info,
        )


def bin_training_set(
    dataset: Dataset, backend: Backend, params: TrainParams, comm: Comm, runs: RowRuns
) -> BinnedMatrix:
    """Finds edges and bins the rows; kept on the Dataset, so that a second training reuses it.

    Not so for a shard: its edges belong to the rows of all ranks, which may be others next time.
    """
    require_device(dataset.device, backend.name)
    key = (backend.name, params.max_bin, params.bin_sample_rows, params.random_state)
    if comm.size == 1 and key in dataset.binned:
        return dataset.binned[key]
    mapper = fit_edges(
        dataset.columns,
        params.max_bin,
        params.bin_sample_rows,
        runs,
        comm,
        params.random_state,
    )
    matrix, missing = backend.bin_columns(dataset.columns, mapper)
    backend.prepare_training(matrix, mapper.with_missing(comm.allreduce_max(missing)))
    if comm.size == 1:
        dataset.binned[key] = matrix
    return matrix
