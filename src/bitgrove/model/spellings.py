"""Methods of a Model, and keywords of `predict`, under the names that other libraries have."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from bitgrove.errors import ParameterError, UnknownParameterError
from bitgrove.params.peers import check_foreign

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from bitgrove.machine.files import PathLike
    from bitgrove.model.tree import Tree
    from bitgrove.training.booster import TrainInfo


_Method = TypeVar("_Method", bound="Callable[..., Any]")
_KEYWORDS = {
    "output_margin": "raw_score",
    "pred_contribs": "pred_contrib",
    "num_threads": "n_jobs",
    "nthread": "n_jobs",
    "thread_count": "n_jobs",
}
_RANGE = "iteration_range"
_STARTS = ("init_score", "base_margin")
_OURS = {
    "raw_score", "pred_leaf", "pred_contrib", "pred_interactions", "start_iteration",
    "num_iteration", "n_jobs", "device",
}  # fmt: skip


def in_our_words(predict: _Method) -> _Method:
    """A method of predictions that is also called with other libraries' keywords."""

    @functools.wraps(predict)
    def understands(self: Any, X: Any, **how: Any) -> Any:
        if not how.keys() <= _OURS:
            how = _translated(how)
        return predict(self, X, **how)

    return understands  # type: ignore[return-value]


def _translated(how: dict[str, Any]) -> dict[str, Any]:
    for name in _STARTS:
        if how.pop(name, None) is not None:
            raise UnknownParameterError(
                f"predict: {name}: predictions hold no scores of the rows' own; add them to "
                "predict(X, raw_score=True), the scores before the link"
            )
    foreign = how.keys() - _OURS - _KEYWORDS.keys() - {_RANGE}
    check_foreign("predict", {name: how.pop(name) for name in sorted(foreign)})
    given = [(_KEYWORDS.get(name, name), value) for name, value in how.items() if name != _RANGE]
    if how.get(_RANGE) is not None:
        first, last = how[_RANGE]
        given += [("start_iteration", first), ("num_iteration", last - first if last else -1)]
    ours = dict(given)
    if len(ours) < len(given):
        raise ParameterError(f"predict: {', '.join(how)} ask for one thing twice")
    return ours


class OtherNames:
    """What a script for another library calls; each is one line of our own."""

    if TYPE_CHECKING:
        trees: list[Tree]
        feature_names: list[str]
        info: TrainInfo | None
        save: Callable[[PathLike], None]

        @property
        def n_features(self) -> int: ...
        @property
        def n_iterations(self) -> int: ...

        feature_importance: Callable[..., npt.NDArray[np.float64]]

    @property
    def best_score(self) -> dict[str, dict[str, float]]:
        """The metrics of the kept iteration; empty for a loaded model."""
        return {} if self.info is None else self.info.best_score

    def save_model(self, path: PathLike) -> None:
        """`save`."""
        self.save(path)

    def num_trees(self) -> int:
        """The number of trees."""
        return len(self.trees)

    def num_boosted_rounds(self) -> int:
        """`n_iterations`."""
        return self.n_iterations

    current_iteration = num_boosted_rounds

    def num_feature(self) -> int:
        """`n_features`."""
        return self.n_features

    num_features = num_feature

    def feature_name(self) -> list[str]:
        """`feature_names`."""
        return list(self.feature_names)

    def get_score(self, fmap: Any = "", importance_type: str = "weight") -> dict[str, float]:
        """XGBoost's importances by name, without the features that no split uses.

        "weight" is the number of splits; "total_gain" and "total_cover" are the sums of their gain
        and of the rows that they divided, "gain" and "cover" the means.
        """
        splits = self.feature_importance("split")
        kind = "split" if importance_type == "weight" else importance_type.removeprefix("total_")
        found = self.feature_importance(kind)
        if importance_type in ("gain", "cover"):
            found = found / splits.clip(1)
        return {
            name: float(value)
            for name, value, used in zip(self.feature_names, found, splits, strict=True)
            if used
        }
