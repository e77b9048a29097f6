"""From the rules that a user wrote about features to those of the columns that trees see.

Receives the parameters and a training set; returns ColumnRules of features, then those of columns.
Raises one ParameterError that names everything that does not fit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.constraints.rules import GainRules, SplitRules, TreeRules
from bitgrove.data.binning import BinMapper
from bitgrove.data.dataset import Dataset
from bitgrove.data.encoder import Encoder
from bitgrove.errors import BitgroveError, ParameterError, Problems, everywhere
from bitgrove.kernels.plans import Records
from bitgrove.params import TrainParams

F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
NO_INTERACTIONS = "no_interactions"
# What gains of sets count beside statistics: the best of the sets of a hundred levels gains by
# chance tens of times what a cut of a number does. A power of two: trees get the whole gain back.
SETS_COUNT = 1 / 64


class ColumnRules(NamedTuple):
    """Rules of one training; arrays have a value for each feature, then for each column."""

    direction: NDArray[np.int8]
    contribution: F64
    groups: U8  # (n_groups, n_columns)
    intermediate: bool
    path_smooth: float
    extra_trees: bool
    features_per_node: float
    sets_beside: frozenset[int] = frozenset()  # columns of sets that count SETS_COUNT

    def of_columns(self, encoder: Encoder | None) -> ColumnRules | None:
        """A category that became several columns gives its rules to all of them.

        None: there are no rules.
        """
        made = self
        if encoder is not None:
            contribution = self.contribution[encoder.sources]
            contribution[list(encoder.kept)] *= SETS_COUNT
            made = self._replace(
                direction=self.direction[encoder.sources],
                contribution=contribution,
                groups=np.ascontiguousarray(self.groups[:, encoder.sources]),
                sets_beside=encoder.kept,
            )
        return made if made.splits is not None or made.limits_features else None

    @property
    def splits(self) -> SplitRules | None:
        """None: splits gain what they always do, of the features that a node may look at."""
        change_gains = self.direction.any() or (self.contribution != 1.0).any()
        if not (change_gains or self.path_smooth > 0.0 or self.extra_trees):
            return None
        return SplitRules(self.direction, self.contribution, self.path_smooth, self.extra_trees)

    def give_back(self, splits: Records) -> None:
        """Splits of a tree gain what they do, not what they counted when they were chosen."""
        splits["gain"][np.isin(splits["feature"], list(self.sets_beside))] /= SETS_COUNT

    @property
    def limits_features(self) -> bool:
        """Whether nodes have features of their own."""
        return len(self.groups) > 0 or self.features_per_node < 1.0

    def of_tree(self, gain: GainRules, allowed: U8, mapper: BinMapper) -> TreeRules:
        return TreeRules(
            gain,
            self.path_smooth,
            self.features_per_node,
            self.intermediate,
            self.direction,
            allowed,
            mapper.has_missing,
            mapper.missing_bin,
            self.groups,
        )


def feature_rules(params: TrainParams, dataset: Dataset) -> ColumnRules:
    """The rules of a training, of the features of its table."""
    problems, names = Problems(), dataset.feature_names
    direction, contribution = np.zeros(len(names), dtype=np.int8), np.ones(len(names))
    groups = np.zeros((0, len(names)), dtype=np.uint8)
    with problems.collect():
        direction = directions(params, names, dataset.levels)
    with problems.collect():
        if params.interaction_constraints is not None:
            groups = _groups(params.interaction_constraints, names)
    with problems.collect():
        if params.feature_contri is not None:
            _check_length("feature_contri", params.feature_contri, len(names))
            contribution = np.array(params.feature_contri, dtype=np.float64)
    problems.report()
    return ColumnRules(
        direction,
        contribution,
        groups,
        params.monotone_constraints_method == "intermediate",
        params.path_smooth,
        params.extra_trees,
        params.colsample_bynode,
    )


def directions(
    params: TrainParams, names: Sequence[str], categories: Collection[int]
) -> NDArray[np.int8]:
    """Of every feature: 1, -1 or 0."""
    given, found = params.monotone_constraints, np.zeros(len(names), dtype=np.int8)
    if given is None:
        return found
    name = "monotone_constraints"
    if any(isinstance(item, tuple) for item in given):
        numbers = {feature: number for number, feature in enumerate(names)}
        for feature, value in given:  # type: ignore[misc]
            found[_number(name, feature, numbers)] = value
    else:
        _check_length(name, given, len(names))
        found[:] = given
    for f in sorted(categories):
        if found[f] != 0:
            raise _error(
                f"{name}: column {names[f]!r} is a category, whose levels have no order; "
                "leave it at 0"
            )
    return found


def _groups(given: str | tuple[tuple[int | str, ...], ...], names: Sequence[str]) -> U8:
    """A row of flags for each group; features that none names are one more group."""
    n_features = len(names)
    if given == NO_INTERACTIONS:
        return np.eye(n_features, dtype=np.uint8)
    numbers = {feature: number for number, feature in enumerate(names)}
    groups = np.zeros((len(given), n_features), dtype=np.uint8)
    for row, group in zip(groups, given, strict=True):
        row[[_number("interaction_constraints", feature, numbers) for feature in group]] = 1
    others = 1 - groups.max(axis=0)
    return np.concatenate([groups, others[None].astype(np.uint8)]) if others.any() else groups


def _number(parameter: str, feature: int | str, numbers: Mapping[str, int]) -> int:
    """A feature's number, from its name or number."""
    if isinstance(feature, str):
        if feature not in numbers:
            raise _error(f"{parameter}: there is no column {feature!r}")
        return numbers[feature]
    if not 0 <= feature < len(numbers):
        raise _error(
            f"{parameter}: there is no column {feature}; there are {len(numbers)}, from 0 on"
        )
    return feature


def _error(text: str) -> BitgroveError:
    """Of what all ranks know."""
    return everywhere(ParameterError, text)


def _check_length(name: str, given: Sequence[object], n_features: int) -> None:
    if len(given) != n_features:
        raise _error(f"{name}: {len(given)} values for {n_features} columns")
