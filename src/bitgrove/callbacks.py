"""What happens between iterations: early stopping, logging, recording, checkpoints, progress.

A callback is any callable that takes a TrainingState after each iteration and may return True to
stop training. One that also has close() is told when training ends.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any

from bitgrove.errors import ParameterError

if TYPE_CHECKING:
    from tqdm import tqdm

    from bitgrove.training.booster import Booster


@dataclass(frozen=True)
class Evaluation:
    """One metric of one set after an iteration."""

    data: str
    metric: str
    value: float
    higher_is_better: bool
    is_training: bool = False  # of the training set: it decides about nothing


@dataclass
class TrainingState:
    """What a callback sees after an iteration; iterations count from 1."""

    iteration: int
    n_estimators: int
    evaluations: list[Evaluation]
    best_iteration: int | None = None
    best_score: dict[str, dict[str, float]] = field(default_factory=dict)
    first_iteration: int = 1  # of this training; more after an init_model
    repeated: bool = False  # the iteration comes from a checkpoint, nothing was grown
    booster: Booster | None = None  # rows, scores, gradients and trees so far: read only


Callback = Callable[[TrainingState], Any]


def scores_by_name(evaluations: list[Evaluation]) -> dict[str, dict[str, float]]:
    """scores[data][metric]."""
    scores: dict[str, dict[str, float]] = {}
    for e in evaluations:
        scores.setdefault(e.data, {})[e.metric] = e.value
    return scores


def deciding(evaluations: list[Evaluation]) -> list[Evaluation]:
    """Those of validation sets, which can tell when to stop."""
    return [e for e in evaluations if not e.is_training]


def _check_count(what: str, value: object) -> None:
    if not isinstance(value, Integral) or value < 1:
        raise ParameterError(f"{what} must be an integer of at least 1, got {value!r}")


class _EarlyStopping:
    """Stops when a metric of a validation set has not improved for `rounds` iterations."""

    def __init__(self, rounds: int, first_metric_only: bool, min_delta: float = 0.0) -> None:
        _check_count("early stopping rounds", rounds)
        if not isinstance(min_delta, (int, float)) or not min_delta >= 0:
            raise ParameterError(f"min_delta must be a number of at least 0, got {min_delta!r}")
        self.rounds, self.first_metric_only = rounds, first_metric_only
        self.min_delta = float(min_delta)
        self._best: dict[tuple[str, str], tuple[float, int, list[Evaluation]]] = {}

    def __call__(self, state: TrainingState) -> bool:
        watched = deciding(state.evaluations)
        if not watched:
            raise ParameterError("early stopping needs a validation set (not the training set)")
        if state.iteration == state.first_iteration:  # a callback may see several trainings
            self._best = {}
        if self.first_metric_only:
            watched = [e for e in watched if e.metric == watched[0].metric]
        stop = False
        for e in watched:
            signed = e.value if e.higher_is_better else -e.value
            best = self._best.get((e.data, e.metric))
            if best is None or signed > best[0] + self.min_delta:
                self._best[e.data, e.metric] = (signed, state.iteration, state.evaluations)
            elif state.iteration - best[1] >= self.rounds:
                stop = True
                self._keep(state, (e.data, e.metric))
                break
        if not stop:
            self._keep(state, (watched[0].data, watched[0].metric))
        return stop

    def _keep(self, state: TrainingState, key: tuple[str, str]) -> None:
        _, state.best_iteration, evaluations = self._best[key]
        state.best_score = scores_by_name(evaluations)


def early_stopping(
    rounds: int | None = None,
    first_metric_only: bool = False,
    *,
    stopping_rounds: int | None = None,
    min_delta: float = 0.0,
    verbose: bool = True,
) -> Callback:
    """Stop after `rounds` iterations without improvement; the best iteration is kept.

    Parameters
    ----------
    rounds : int
        `stopping_rounds` is LightGBM's name of it.
    first_metric_only : bool
        Whether the first metric alone decides, of every validation set.
    min_delta : float
        An improvement is more than this.
    verbose : bool
        Understood, but nothing is printed.

    Examples
    --------
    >>> import numpy as np
    >>> import bitgrove as bg
    >>> X = np.arange(3000.0).reshape(1000, 3) % 41
    >>> y = X[:, 0] + np.arange(1000) % 7
    >>> train_set, valid_set = bg.Dataset(X[:700], y[:700]), bg.Dataset(X[700:], y[700:])
    >>> params, stop = {"objective": "regression"}, bg.early_stopping(5)
    >>> model = bg.train(params, train_set, 500, valid_sets=valid_set, callbacks=[stop])
    >>> model.n_iterations == model.best_iteration < 500
    True
    """
    if rounds is not None and stopping_rounds is not None:
        raise ParameterError("rounds and stopping_rounds are the same; give one of them")
    wanted: Any = stopping_rounds if rounds is None else rounds
    return _EarlyStopping(wanted, first_metric_only, min_delta)


class _ResetParameter:
    """A schedule; train() makes it a parameter of the training."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters

    def __call__(self, state: TrainingState) -> None:
        """Nothing is left to do: the parameter knows all iterations."""


def reset_parameter(**schedules: Any) -> Callback:
    """Another value in every iteration: a list of values, or a function of 0, 1, 2, ...

    It is the same as giving the list or function as the parameter. Only `learning_rate` has
    schedules.

    Examples
    --------
    >>> import bitgrove as bg
    >>> data = bg.Dataset([[i] for i in range(100)], label=range(100))
    >>> slower = bg.reset_parameter(learning_rate=lambda i: 0.1 * 0.95**i)
    >>> bg.train({"objective": "regression"}, data, 5, callbacks=[slower]).n_iterations
    5
    """
    others = [name for name in schedules if name not in ("learning_rate", "eta", "shrinkage_rate")]
    if others:
        raise ParameterError(f"reset_parameter({others[0]}=...): only learning_rate has schedules")
    return _ResetParameter(schedules)


@dataclass(eq=False)
class _Log:
    period: int

    def __call__(self, state: TrainingState) -> None:
        if state.evaluations and self.period > 0 and state.iteration % self.period == 0:
            values = "  ".join(f"{e.data} {e.metric}: {e.value:.6g}" for e in state.evaluations)
            print(f"[{state.iteration}]  {values}", file=sys.stderr)


def log_evaluation(period: int = 1, show_stdv: bool = True) -> Callback:
    """Print the metrics of every period-th iteration, to stderr.

    Parameters
    ----------
    period : int
        0 and below: nothing is printed.
    show_stdv : bool
        Understood, for `cv`, which prints nothing.
    """
    if isinstance(period, bool) or not isinstance(period, Integral):
        raise ParameterError(f"period must be an integer, got {period!r}")
    return _Log(int(period))


@dataclass(eq=False)
class _Record:
    result: dict[str, dict[str, list[float]]]

    def __call__(self, state: TrainingState) -> None:
        if state.iteration == state.first_iteration:
            self.result.clear()
        for e in state.evaluations:
            self.result.setdefault(e.data, {}).setdefault(e.metric, []).append(e.value)


def record_evaluation(result: dict[str, dict[str, list[float]]]) -> Callback:
    """Fill `result[data][metric]` with one value per iteration; what it held before goes.

    Examples
    --------
    >>> import bitgrove as bg
    >>> data = bg.Dataset([[i] for i in range(100)], label=range(100))
    >>> seen = {}
    >>> params, record = {"objective": "regression", "metric": "mae"}, bg.record_evaluation(seen)
    >>> model = bg.train(params, data, 3, valid_sets=data, callbacks=[record])
    >>> len(seen["training"]["mae"])
    3
    """
    return _Record(result)


class _ProgressBar:
    """Time left and metrics; a widget in notebooks that can show one."""

    def __init__(self, most: int) -> None:
        self._bar: tqdm[Any] | None = None
        self._most = most

    def __call__(self, state: TrainingState) -> None:
        if self._bar is None:
            done = state.first_iteration - 1
            kind = _kind_of_bar()
            self._bar = kind(total=state.n_estimators, initial=done, unit="tree", desc="train")
        if state.evaluations:
            shown = (deciding(state.evaluations) or state.evaluations)[: self._most]
            words = [f"{e.data} {e.metric} {e.value:.5g}" for e in shown]
            if state.best_iteration is not None:
                words.append(f"best {state.best_iteration}")
            self._bar.set_postfix_str(", ".join(words), refresh=False)
        self._bar.update(1)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _kind_of_bar() -> Any:
    """tqdm's, for the terminal or for a notebook; it says so where a notebook cannot show it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of experiments, and of widgets that are not installed
        from tqdm.autonotebook import tqdm

    return tqdm


def progress_bar(most: int = 3) -> Callback:
    """A progress bar with the time left and the metrics of validation sets, the first `most`.

    With early stopping it also names the best iteration so far. In notebooks with ipywidgets it is
    a widget. The parameter `progress=True` shows the same bar.

    Examples
    --------
    >>> import bitgrove as bg
    >>> data = bg.Dataset([[i] for i in range(100)], label=range(100))
    >>> model = bg.train({"objective": "regression"}, data, 5, callbacks=[bg.progress_bar()])
    """
    _check_count("most", most)
    return _ProgressBar(most)


class _StopOnInterrupt:
    """Ctrl-C ends the training after the iteration that is growing; a second one ends it now."""

    def __init__(self) -> None:
        self._before: Any = None
        self._asked = self._listens = False

    def __call__(self, state: TrainingState) -> bool:
        if not self._listens:
            try:
                self._before = signal.signal(signal.SIGINT, self._remember)
            except ValueError:
                raise ParameterError(
                    "stop_on_interrupt: only the main thread of a process hears Ctrl-C"
                ) from None
            self._listens, self._asked = True, False
        return self._asked

    def _remember(self, number: int, frame: Any) -> None:
        self._asked = True
        signal.signal(signal.SIGINT, self._before)

    def close(self) -> None:
        if self._listens:
            signal.signal(signal.SIGINT, self._before)
            self._listens = False


def stop_on_interrupt() -> Callback:
    """Keep the trees so far when Ctrl-C is pressed, instead of raising KeyboardInterrupt.

    From the first tree on, the iteration that is growing is finished and the model so far is
    returned: its trees are the first ones of the whole training. A second Ctrl-C raises at once.
    Only the main thread of a process hears the signal. Over MPI, if one rank stops, all do.

    Examples
    --------
    >>> import signal
    >>> import bitgrove as bg
    >>> data = bg.Dataset([[i] for i in range(100)], label=range(100))
    >>> def press_ctrl_c(state):
    ...     if state.iteration == 3:
    ...         signal.raise_signal(signal.SIGINT)
    >>> callbacks = [bg.stop_on_interrupt(), press_ctrl_c]
    >>> bg.train({"objective": "regression"}, data, 1000, callbacks=callbacks).n_iterations
    4
    """
    return _StopOnInterrupt()


@dataclass(eq=False)
class _Checkpoint:
    path: str | os.PathLike[str]
    every: int

    def __call__(self, state: TrainingState) -> None:
        booster = state.booster
        due = state.iteration % self.every == 0 and not state.repeated
        if due and booster is not None and booster.comm.rank == 0:
            booster.model(None).save(self.path)


def checkpoint(path: str | os.PathLike[str], every: int = 10) -> Callback:
    """Save the model so far to `path` after every so many iterations, for train(resume_from=path).

    The file is replaced at once: whenever training dies, it is a whole checkpoint. With several
    ranks rank 0 writes it.

    Examples
    --------
    >>> import os, tempfile
    >>> import bitgrove as bg
    >>> data = bg.Dataset([[i] for i in range(100)], label=range(100))
    >>> path = os.path.join(tempfile.mkdtemp(), "half_way")
    >>> params = {"objective": "regression", "n_estimators": 8}
    >>> model = bg.train(params, data, callbacks=[bg.checkpoint(path, every=5)])
    >>> bg.train(params, data, resume_from=path) == model
    True
    """
    _check_count("every", every)
    return _Checkpoint(path, every)
