"""Going on from a checkpoint: is it one of this training, and do all ranks have it?

Receives what the user gave as resume_from and a Booster that has grown nothing yet; returns the
trees of the finished iterations. Sampling, rounding and scores depend on the number of the tree and
on the trees before it only, so that training goes on as if it had never stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bitgrove.errors import DataError, ParameterError, everywhere
from bitgrove.machine.files import PathLike
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.params import model_params
from bitgrove.training.starting import shared_model

if TYPE_CHECKING:
    from bitgrove.training.booster import Booster


def shared_checkpoint(resume_from: Model | PathLike | None, booster: Booster) -> list[list[Tree]]:
    """The checkpoint's trees by iteration, on all ranks those of rank 0; none without one."""
    checkpoint = shared_model(resume_from, booster.comm, "resume_from")
    if checkpoint is None:
        return []
    booster.boosting.check_resume()
    _check_fits(checkpoint, booster)
    n_outputs = checkpoint.n_outputs
    return [checkpoint.trees[i : i + n_outputs] for i in range(0, len(checkpoint.trees), n_outputs)]


def _check_fits(checkpoint: Model, booster: Booster) -> None:
    wanted = model_params(booster.given)
    for name in wanted.keys() - {"n_estimators"}:
        if checkpoint.params.get(name) != wanted[name]:
            raise ParameterError(
                f"{name}={wanted[name]!r}: the checkpoint was trained with "
                f"{checkpoint.params.get(name)!r}; resuming needs the same parameters"
            )
    n_done, n_wanted = checkpoint.n_iterations, booster.params.n_estimators
    if n_done > n_wanted:
        raise ParameterError(f"n_estimators={n_wanted}: the checkpoint already has {n_done}")
    if checkpoint.feature_names != booster.dataset.feature_names:
        raise DataError("resume_from: the checkpoint has other features than the training set")
    if checkpoint.record is not None:
        for part in checkpoint.record.differences(booster.record.result()):
            raise everywhere(
                DataError,
                f"resume_from: the checkpoint was trained on other {part.replace('_', ' ')}; "
                "resuming needs the same data",
            )
    if not np.array_equal(checkpoint.base_score, booster.base_score):
        raise DataError("resume_from: the checkpoint belongs to other rows, labels or weights")
