"""Sums of gradients over the leaves and splits of a tree, and the callback that records them.

Owns TreeSums (from any tree and the leaf of each row) and LeafRecorder, which sees each iteration's
trees and original gradients through the Booster and keeps gamma and average hessian of every leaf:
the quantities of the paper's figures 7 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.distributed.comm import Comm, SoloComm
from bitgrove.model.tree import Tree
from bitgrove.theory.bounds import gamma
from bitgrove.training.starting import start_scores

if TYPE_CHECKING:
    from bitgrove.callbacks import TrainingState
    from bitgrove.training.booster import Booster

F64 = NDArray[np.float64]


class Sums(NamedTuple):
    """Sums over the rows of each node; rows are their numbers."""

    rows: F64
    grad: F64
    abs_grad: F64
    hess: F64


@dataclass(frozen=True, eq=False)
class TreeSums:
    """Sums over each leaf, and over the two children of each split."""

    leaf: Sums
    left: Sums
    right: Sums

    @property
    def gamma(self) -> F64:
        """Of each leaf that was split; 0 where no row has a gradient."""
        both = self.left.abs_grad + self.right.abs_grad
        found = gamma(self.left.grad, self.right.grad, both)
        return np.where(both > 0.0, found, 0.0)

    @property
    def mean_hess(self) -> F64:
        """Average hessian of each final leaf that has rows."""
        filled = self.leaf.rows > 0
        return np.asarray(self.leaf.hess[filled] / self.leaf.rows[filled])


def child_sums(tree: Tree, leaf_sums: F64) -> tuple[F64, F64]:
    """Sums of the left and right child of each split, (n_columns, n_splits), from the leaves'."""
    shape = (len(leaf_sums), tree.n_splits)
    left, right = np.zeros(shape), np.zeros(shape)
    for split in range(tree.n_splits - 1, -1, -1):  # children come after their parent
        for child, sums in ((tree.left[split], left), (tree.right[split], right)):
            both = left[:, child] + right[:, child] if child >= 0 else leaf_sums[:, ~child]
            sums[:, split] = both
    return left, right


def sum_leaves(n_leaves: int, leaf: NDArray[np.int64], columns: Sequence[F64], comm: Comm) -> F64:
    """(n_columns, n_leaves) sums over the rows of all ranks."""
    local = [np.bincount(leaf, weights=column, minlength=n_leaves) for column in columns]
    everyone = comm.allgather(np.stack(local))
    return np.asarray(np.sum(everyone, axis=0))


def tree_sums(
    tree: Tree, leaf: NDArray[np.int64], grad: F64, hess: F64 | None, comm: Comm | None = None
) -> TreeSums:
    """Sums of a tree whose rows fall into the given leaves; hess None: each is one."""
    ones = np.ones(len(leaf))
    columns = Sums(ones, grad, np.abs(grad), ones if hess is None else hess)
    sums = sum_leaves(tree.n_leaves, leaf, columns, comm or SoloComm())
    return TreeSums(Sums(*sums), *(Sums(*side) for side in child_sums(tree, sums)))


class LeafRecorder:
    """A callback that records gamma and average hessian of all leaves of all trees.

    gammas[i] holds one value per split of tree i, mean_hess[i] one per leaf. It costs about one
    prediction of the training rows per tree. Iterations repeated from a checkpoint leave no record.
    """

    def __init__(self) -> None:
        self.gammas: list[F64] = []
        self.mean_hess: list[F64] = []

    def __call__(self, state: TrainingState) -> None:
        if state.iteration == 1:  # the same callback may see several trainings
            self.gammas, self.mean_hess = [], []
        if state.repeated:  # nothing was grown, so there are no gradients to look at
            return
        booster = state.booster
        assert booster is not None, "train() gives every callback its Booster"
        for sums in iteration_sums(booster, state.iteration - 1):
            self.gammas.append(sums.gamma)
            self.mean_hess.append(sums.mean_hess)


def iteration_sums(booster: Booster, iteration: int) -> list[TreeSums]:
    """The sums of the trees that the booster grew last, one per output, over the sampled rows."""
    backend, n_outputs = booster.backend, booster.objective.n_outputs
    gradients = booster.gradients
    assert gradients is not None
    sample = booster.draws.sample(iteration)
    rows = None
    if sample is not None:
        rows = backend.download(backend.select_rows(booster.runs, sample))
    found = []
    for output, tree in enumerate(booster.trees[-n_outputs:]):
        leaf = leaf_of_rows(booster, tree)
        part = gradients.output(output)
        grad = backend.download(part.grad).astype(np.float64)
        hess = None if part.hess is None else backend.download(part.hess).astype(np.float64)
        if rows is not None:
            leaf, grad, hess = leaf[rows], grad[rows], None if hess is None else hess[rows]
        found.append(tree_sums(tree, leaf, grad, hess, booster.comm))
    return found


def leaf_of_rows(booster: Booster, tree: Tree) -> NDArray[np.int64]:
    """The leaf each training row falls into: a tree whose values are its leaves' numbers."""
    numbered = replace(tree, leaf_value=np.arange(tree.n_leaves, dtype=np.float64))
    scores = start_scores(booster.backend, np.zeros(1), booster.dataset.n_rows)
    booster.backend.add_tree(scores[0], booster.matrix, numbered)
    return np.asarray(booster.backend.download(scores[0])).astype(np.int64)
