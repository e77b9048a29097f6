"""The estimators on Dask collections: `pip install bitgrove[dask]`.

    from bitgrove.dask import BitGroveClassifier

They are the estimators of bitgrove.estimators with `fit` on Dask arrays, data frames and series, on
the workers of a Client, and lazy predictions. The model has the bytes of a fit on the concatenated
partitions. Owns the conventions; how a cluster trains is in bitgrove.distributed.dask.training.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from bitgrove import estimators
from bitgrove.data.dataset import Dataset
from bitgrove.data.given_rows import Rows, same_rows
from bitgrove.data.tables import column_names, default_names
from bitgrove.errors import DataError, DataTypeError, ParameterError
from bitgrove.estimators.answers import Classes, Labels, weigh_classes
from bitgrove.estimators.fitted import is_prediction
from bitgrove.model.model import load
from bitgrove.params import Parameter

try:
    import dask
    import dask.array as da
    from distributed import Client, get_client
except ModuleNotFoundError as error:
    raise ImportError(f"bitgrove.dask needs Dask: pip install 'bitgrove[dask]' ({error})") from None

from bitgrove.distributed.dask.data import Part, is_collection, load_parts, whole_rows
from bitgrove.distributed.dask.rows import (
    check_queries,
    count_classes,
    facts_of,
    learn_classes,
    to_dataset,
)
from bitgrove.distributed.dask.training import Job, train_on_workers

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BitGroveClassifier", "BitGroveRanker", "BitGroveRegressor"]

Array = npt.NDArray[Any]


_CLIENT = Parameter(
    "client", "object", None,
    "The Dask client to train with; None: the current one.", "Estimators",
)  # fmt: skip


class _DaskEstimator(estimators.Estimator):
    """What the Dask estimators share; `_local` is the estimator they are the Dask form of."""

    own_parameters = (*estimators.Estimator.own_parameters, _CLIENT)
    _local: type[estimators.Estimator]
    client: Client | None

    @property
    def client_(self) -> Client:
        """The client that fit uses: the parameter, or the current one."""
        if self.client is not None:
            return self.client
        try:
            return get_client()
        except ValueError:
            raise ParameterError(
                "client=None: there is no current Dask client; make a dask.distributed.Client"
            ) from None

    def to_local(self) -> Any:
        """The ordinary estimator with the same parameters and, once fitted, the same model."""
        params = {k: v for k, v in self.get_params(deep=False).items() if k != "client"}
        local = self._local(**params)
        local.__dict__.update({k: v for k, v in vars(self).items() if k.endswith("_")})
        return local

    def __sklearn_clone__(self) -> Any:
        params = self.get_params(deep=False)
        client = params.pop("client")  # shared, not copied
        return type(self)(client=client, **{k: clone(v, safe=False) for k, v in params.items()})

    def __getstate__(self) -> dict[str, Any]:
        """Without the client, which belongs to this process."""
        return {**super().__getstate__(), "client": None}

    def _fit(
        self, rows: Rows, valid: Sequence[Rows], how: dict[str, Any], more: Mapping[str, Any]
    ) -> Self:
        client = self.client_
        if client.asynchronous:
            raise ParameterError("client: fit needs a Client that is not asynchronous")
        given = self._checked(more)  # errors before the data are computed
        for name in ("init_model", "resume_from"):
            if isinstance(how[name], (str, os.PathLike)):
                how[name] = load(how[name])  # the client's file, not a worker's
        if self.validation_fraction is not None or self.warm_start:
            raise ParameterError("validation_fraction and warm_start: not supported on Dask")
        names = self._learn_columns(rows.X, rows.names)
        with_classes = isinstance(self, BitGroveClassifier) and _n_columns(rows.y) == 1
        others = [other for other in valid if not same_rows(other, rows)]
        tables = [_collections("", rows), *(_collections("eval_", other) for other in others)]
        parts = load_parts(client, tables, partial(facts_of, with_classes))
        if not parts[0]:
            raise DataError("X has 0 sample(s) while a minimum of 1 is required.")
        for table in parts:
            check_queries(table)
        prepared = self._learn_values(rows.y, parts[0])
        local = self.to_local()
        vars(local).pop("model_", None)  # of an earlier fit: not to be sent around
        params = self._params(given, has_valid=bool(valid))
        job = Job(params, names, partial(to_dataset, local, names), prepared, how,
                  _places(valid, others))  # fmt: skip
        self._keep(train_on_workers(client, job, parts))
        return self

    def _learn_columns(self, X: Any, given: Sequence[str] | None) -> list[str]:
        """Checks and keeps number and names of the features, as for a table in memory."""
        if not is_collection(X) or X.ndim != 2:
            raise DataTypeError(
                "X must be a Dask array of two dimensions or a Dask DataFrame, "
                f"got {type(X).__name__}"
            )
        n_features = X.shape[1]
        if hasattr(X, "columns"):
            validate_data(self, X._meta, skip_check_array=True)
        else:
            validate_data(self, np.zeros((1, n_features)))
        return list(given or column_names(X) or default_names(n_features))

    def _learn_values(self, y: Any, parts: Sequence[Part]) -> Callable[[Dataset], Dataset]:
        """Learns the classes of all partitions, where there are classes.

        Returns what becomes of a shard of the training data."""
        return _as_it_is

    def _lazily(
        self, method: str, X: Any, dtype: Any, how: dict[str, Any], n_columns: int | None = None
    ) -> da.Array:
        """The method's result on each partition, as a Dask array; nothing is computed yet."""
        local = self.to_local()
        if local.n_jobs is None:  # Dask runs as many partitions at once as there are cores
            local.set_params(n_jobs=1)
        dtype, n_columns = self._shape_of(how, dtype, n_columns)
        tail = () if n_columns is None else (n_columns,)
        given: dict[str, Any] = {"local": dask.delayed(local, traverse=False), "method": method}
        given["how"] = how
        given["meta"] = given["empty"] = np.empty((0, *tail), dtype=dtype)
        if hasattr(X, "columns"):
            return X.map_partitions(_predict_block, **given)
        X = whole_rows(X)
        shape = {"chunks": (X.chunks[0], tail)} if tail else {"drop_axis": 1}
        return X.map_blocks(_predict_block, dtype=dtype, **given, **shape)

    def _shape_of(self, how: dict[str, Any], dtype: Any, n_columns: int | None) -> tuple[Any, Any]:
        """Type and columns of a prediction; Model.predict says what the keywords ask for."""
        if how.get("pred_interactions"):
            raise ParameterError(
                "pred_interactions=True: not of Dask collections; call to_local() and give a table"
            )
        model = self.model_
        nothing = np.full((1, model.n_features), np.nan)  # fits numbers and categories
        asked = model.predict(nothing, n_jobs=1, **how)
        if how.get("raw_score") or not is_prediction(how):
            return asked.dtype, asked.shape[1] if asked.ndim == 2 else None
        return dtype, n_columns


def _as_it_is(dataset: Dataset) -> Dataset:
    return dataset


def _n_columns(y: Any) -> int:
    return int(y.shape[1]) if getattr(y, "ndim", 1) == 2 else 1


def _predict_block(block: Any, local: Any, method: str, how: dict[str, Any], empty: Array) -> Array:
    if block.shape[0] == 0:
        return empty
    return np.asarray(getattr(local, method)(block, **how), dtype=empty.dtype)


def _places(valid: Sequence[Rows], others: Sequence[Rows]) -> list[int]:
    """Which table each eval set is; 0 is the training data."""
    ids = [id(other) for other in others]
    return [ids.index(id(rows)) + 1 if id(rows) in ids else 0 for rows in valid]


def _collections(prefix: str, rows: Rows) -> dict[str, Any]:
    """A table's collections under the names that errors and workers know them by."""
    given = {"X": rows.X, "y": rows.y, "sample_weight": rows.weight, "init_score": rows.init_score}
    if rows.queries is not None:
        if (rows.queries.group is None) == (rows.queries.qid is None):
            raise DataError(
                "give either group (rows per query, by partition) or qid (a query id per row)"
            )
        given |= {"group": rows.queries.group, "qid": rows.queries.qid}
    for name, collection in given.items():
        if collection is not None and not is_collection(collection):
            raise DataTypeError(
                f"{prefix}{name}: must be a Dask array, DataFrame or Series, "
                f"got {type(collection).__name__}"
            )
    return given


class BitGroveClassifier(_DaskEstimator, estimators.BitGroveClassifier):
    """bitgrove.BitGroveClassifier for Dask collections.

    X, y, weights and `eval_set` are Dask arrays, data frames or series with matching partitions.
    """

    _local = estimators.BitGroveClassifier
    own_parameters = (*_local.own_parameters, _CLIENT)

    def predict(self, X: Any, **how: Any) -> Any:
        """The most probable class of each row: a lazy Dask array for a Dask collection."""
        check_is_fitted(self)
        if not is_collection(X):
            return super().predict(X, **how)
        answers = self._answers
        return self._lazily("predict", X, answers.values.dtype, how, answers.n_columns)

    def predict_proba(self, X: Any, **how: Any) -> Any:
        """(n_rows, n_classes) probabilities, in the order of `classes_`; lazy as in predict."""
        check_is_fitted(self)
        if not is_collection(X):
            return super().predict_proba(X, **how)
        return self._lazily("predict_proba", X, np.float64, how, self._answers.n_probabilities)

    def decision_function(self, X: Any) -> Any:
        """Raw scores: (n_rows,), or (n_rows, n_classes) beyond two classes; lazy as in predict."""
        check_is_fitted(self)
        if not is_collection(X):
            return super().decision_function(X)
        return self._lazily("predict", X, np.float64, {"raw_score": True})

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted right; computed at once."""
        (predicted,) = dask.compute(self.predict(X))
        target, weight = dask.compute(y, sample_weight)
        return float(accuracy_score(target, predicted, sample_weight=weight))

    def _learn_values(self, y: Any, parts: Sequence[Part]) -> Callable[[Dataset], Dataset]:
        if _n_columns(y) > 1:
            self._learn(Labels.learn(np.asarray(y._meta)[:0].reshape(0, _n_columns(y))))
            counts = np.zeros(2, dtype=np.int64)
        else:
            self._learn(Classes.learn(learn_classes(parts), None))
            counts = count_classes(parts, self.classes_)
        factors = self._answers.weights(self.class_weight, counts)
        return partial(weigh_classes, factors=factors)


class BitGroveRegressor(_DaskEstimator, estimators.BitGroveRegressor):
    """bitgrove.BitGroveRegressor for Dask collections.

    X, y, weights and `eval_set` are Dask arrays, data frames or series with matching partitions.
    """

    _local = estimators.BitGroveRegressor

    def predict(self, X: Any, **how: Any) -> Any:
        """The predicted value of each row: a lazy Dask array for a Dask collection."""
        check_is_fitted(self)
        if not is_collection(X):
            return super().predict(X, **how)
        n_outputs = self.model_.n_outputs
        return self._lazily("predict", X, np.float64, how, n_outputs if n_outputs > 1 else None)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R²; computed at once."""
        (predicted,) = dask.compute(self.predict(X))
        target, weight = dask.compute(y, sample_weight)
        return float(r2_score(target, predicted, sample_weight=weight))


class BitGroveRanker(_DaskEstimator, estimators.BitGroveRanker):
    """bitgrove.BitGroveRanker for Dask collections.

    `group` holds, in each of its partitions, the sizes of the
    queries in that partition of X; or `qid` a query id for each row. A query lies whole in one
    partition.
    """

    _local = estimators.BitGroveRanker

    def predict(self, X: Any, **how: Any) -> Any:
        """A score for each row: a lazy Dask array for a Dask collection."""
        check_is_fitted(self)
        if not is_collection(X):
            return super().predict(X, **how)
        return self._lazily("predict", X, np.float64, how)

    def score(self, X: Any, y: Any, *, group: Any = None, qid: Any = None) -> float:
        """The mean of `ndcg@10` over the queries; computed at once."""
        X, y, group, qid = dask.compute(X, y, group, qid)
        return super().score(X, y, group=group, qid=qid)
