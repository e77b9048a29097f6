"""Rows as users give them to fit: a table with its target, weights and queries, and eval sets.

Receives the arguments of fit; returns one Rows for the training and one for each eval set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bitgrove.data.given_values import as_stored, is_missing
from bitgrove.errors import DataError, DataTypeError, ParameterError, UnknownParameterError
from bitgrove.params.peers import check_foreign

# What fit() and Dataset may be given under another name, as in XGBoost.
_SPELLINGS = {
    "data": "X",
    "sample_weight_eval_set": "eval_sample_weight",
    "base_margin": "init_score",
    "base_margin_eval_set": "eval_init_score",
    "xgb_model": "init_model",
}


class Queries(NamedTuple):
    """Which rows belong together: `group` holds the rows of each query, `qid` an id per row.

    prefix: of these arguments, in fit.
    """

    group: Any = None
    qid: Any = None
    prefix: str = ""

    def sizes(self, y: Any) -> Any:
        """Rows per query of the target y."""
        if (self.group is None) == (self.qid is None):
            group, qid = f"{self.prefix}group", f"{self.prefix}qid"
            which = "neither was given" if self.group is None else "not both"
            raise DataError(
                f"give either {group} (rows per query) or {qid} (a query id per row): {which}"
            )
        if self.qid is None:
            return self.group
        from sklearn.utils import check_consistent_length, column_or_1d

        check_consistent_length(y, self.qid)
        ids = column_or_1d(as_stored(self.qid))
        # NaN is no other NaN: each row would be a query of its own.
        nameless = [*map(is_missing, ids)] if ids.dtype.kind == "O" else ids != ids
        if np.any(nameless):
            raise DataError(f"{self.prefix}qid has no value in row {int(np.argmax(nameless))}")
        starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        if len(set(ids[starts].tolist())) < len(starts):
            raise DataError("the rows of a query must be adjacent: sort X, y and qid by qid")
        return np.diff(np.append(starts, len(ids)))


class Rows(NamedTuple):
    """One table with its target, as given to fit or as a member of `eval_set`.

    queries: None where rows do not belong to queries. names: of the features, where given.
    init_score: scores that training starts from, where given. categories: the columns that fit was
    told to be such; None: what the estimator says.
    """

    X: Any
    y: Any
    weight: Any = None
    queries: Queries | None = None
    names: Sequence[str] | None = None
    init_score: Any = None
    categories: Any = None


def same_rows(these: Rows, others: Rows) -> bool:
    """Whether an eval set is the training data itself: the same objects, not equal copies.

    Of weights, scores and queries the same objects, too, or none: then they are the training's.
    """
    mine, theirs = these.queries or Queries(), others.queries or Queries()
    return (
        these.X is others.X
        and these.y is others.y
        and _same_or_none(these.weight, others.weight)
        and _same_or_none(these.init_score, others.init_score)
        and _same_or_none(mine.group, theirs.group)
        and _same_or_none(mine.qid, theirs.qid)
    )


def _same_or_none(this: Any, other: Any) -> bool:
    return this is None or this is other


def pairs_of(eval_set: Any) -> list[tuple[Any, Any]]:
    """`eval_set` as a list of (X, y)."""
    if eval_set is None:
        return []
    is_one = isinstance(eval_set, tuple) and not isinstance((*eval_set, ())[0], tuple)
    pairs = [eval_set] if is_one else list(eval_set)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise DataError("eval_set must be a pair (X, y) or a list of such pairs")
    return [(X, y) for X, y in pairs]


def with_each(pairs: list[tuple[Any, Any]], **extras: Any) -> list[tuple[Any, ...]]:
    """Each pair with its member of every extra; a single pair may have its extra unwrapped."""
    columns: list[Sequence[Any]] = []
    for name, extra in extras.items():
        given = [None] * len(pairs) if extra is None else extra
        if len(pairs) == 1 and not _holds_one_array(given):
            given = [given]
        if len(given) != len(pairs):
            raise DataError(f"{name} has {len(given)} members for {len(pairs)} pairs in eval_set")
        columns.append(given)
    return list(zip(pairs, *columns, strict=True))


def _holds_one_array(given: Any) -> bool:
    is_list = isinstance(given, (list, tuple)) and len(given) == 1
    return is_list and (given[0] is None or np.ndim(given[0]) > 0)


def either(value: Any, name: str, more: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """An argument by its own name or another library's, and what is left."""
    others = [other for other, main in _SPELLINGS.items() if main == name and other in more]
    if others and value is not None:
        raise ParameterError(f"{name!r} and {others[0]!r} are the same argument; give one of them")
    left = {other: given for other, given in more.items() if other not in others}
    return more[others[0]] if others else value, left


def table_and_scores(X: Any, init_score: Any, more: Mapping[str, Any]) -> tuple[Any, Any]:
    """Both by our names or another library's; its other arguments may only say the usual."""
    X, more = either(X, "X", more)
    init_score, more = either(init_score, "init_score", more)
    if more.pop("params", None):
        raise UnknownParameterError("Dataset: params, such as max_bin, are given to train()")
    more.pop("nthread", None)
    check_foreign("Dataset", more)
    if X is None:
        raise DataError("Dataset: X, the table, was not given")
    if isinstance(X, (str, Path)):
        raise DataTypeError(
            f"Dataset: X={str(X)!r} is a path; Dataset.from_parquet and open_dataset read files"
        )
    return X, init_score
