"""Callbacks: when training stops, what is kept, recorded, printed and closed."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from signal import SIGINT, getsignal, raise_signal
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.callbacks import Evaluation, TrainingState
from bitgrove.errors import ParameterError
from cases import signal, table

X = table(500, 5, 30, missing=0.05)
Y = signal(X, 30)
LABEL = (Y > 0.3).astype(float)
OVERFIT: dict[str, Any] = {
    "objective": "binary", "n_estimators": 60, "learning_rate": 0.5, "num_leaves": 15,
    "min_child_samples": 3, "n_jobs": 1, "random_state": 1,
}  # fmt: skip


def part(first: int, last: int) -> bg.Dataset:
    return bg.Dataset(X[first:last], LABEL[first:last])


def evals(model: bg.Model) -> dict[str, dict[str, list[float]]]:
    assert model.info is not None
    return model.info.evals_result


def stop_at(values: list[float], rounds: int) -> tuple[int, int]:
    """(best iteration, last iteration) for a metric that should fall; counted from 1."""
    best = 0
    for i, value in enumerate(values):
        if value < values[best]:
            best = i
        elif i - best >= rounds:
            return best + 1, i + 1
    return best + 1, len(values)


@pytest.fixture(scope="module")
def whole() -> bg.Model:
    """All 60 iterations on two validation sets with two metrics, without stopping."""
    params = {**OVERFIT, "eval_metric": ["logloss", "auc"]}
    return bg.train(params, part(0, 300), valid_sets=[part(300, 400), part(400, 500)])


@pytest.mark.parametrize("rounds", [1, 3, 7, 100])
@pytest.mark.parametrize("how", ["parameter", "callback"])
def test_early_stopping_keeps_the_best_iteration(rounds: int, how: str, whole: bg.Model) -> None:
    best, last = stop_at(evals(whole)["valid_0"]["logloss"], rounds)
    params = dict(OVERFIT)
    callbacks = []
    if how == "parameter":
        params["early_stopping_rounds"] = rounds
    else:
        callbacks.append(bg.early_stopping(rounds))
    model = bg.train(params, part(0, 300), valid_sets=part(300, 400), callbacks=callbacks)
    recorded = evals(model)["valid_0"]["logloss"]
    assert recorded == evals(whole)["valid_0"]["logloss"][:last]
    assert (model.best_iteration, model.n_iterations) == (best, best)
    assert model.info is not None
    assert model.info.best_score == {"valid_0": {"logloss": min(recorded)}}
    expected = whole.predict(X, num_iteration=best)
    np.testing.assert_array_equal(model.predict(X), expected)
    assert rounds == 100 or last < 60


def test_callbacks_can_be_pickled(tmp_path: Path, capsys: Any) -> None:
    """As estimators that are sent to other processes hold them."""
    seen: dict[str, Any] = {}
    made = [bg.log_evaluation(1), bg.record_evaluation(seen), bg.early_stopping(3)]
    made += [bg.checkpoint(tmp_path / "c", 1), bg.progress_bar(), bg.stop_on_interrupt()]
    callbacks = pickle.loads(pickle.dumps(made))
    params = {**OVERFIT, "n_estimators": 2}
    model = bg.train(params, part(0, 300), valid_sets=part(300, 400), callbacks=callbacks)
    assert callbacks[1].result == evals(model) and seen == {}
    assert "valid_0 logloss" in capsys.readouterr().err
    assert bg.load(tmp_path / "c").n_iterations == 2


def test_no_metric(whole: bg.Model) -> None:
    params = {**OVERFIT, "eval_metric": "None"}
    model = bg.train(params, part(0, 300), valid_sets=part(300, 400))
    assert evals(model) == {}
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    assert bg.Model.from_bytes(model.to_bytes()).params["eval_metric"] == ["None"]


def test_metrics_that_should_rise(whole: bg.Model) -> None:
    falling = [-v for v in evals(whole)["valid_0"]["auc"]]
    best, last = stop_at(falling, 4)
    params = {**OVERFIT, "eval_metric": "auc", "early_stopping_rounds": 4}
    model = bg.train(params, part(0, 300), valid_sets=part(300, 400))
    assert model.best_iteration == best
    assert len(evals(model)["valid_0"]["auc"]) == last
    assert 1 < best < last


def states(*series: tuple[str, str, list[float]]) -> list[TrainingState]:
    """The states of a training whose metrics (all falling) are these."""
    n = len(series[0][2])
    return [
        TrainingState(i + 1, n, [Evaluation(d, m, v[i], False) for d, m, v in series])
        for i in range(n)
    ]


def run(callback: Any, series: list[tuple[str, str, list[float]]]) -> tuple[int | None, int]:
    """(best iteration, last iteration)."""
    state = TrainingState(0, 0, [])
    for state in states(*series):
        if callback(state):
            break
    return state.best_iteration, state.iteration


A = ("one", "a", [5.0, 4, 3, 2, 1, 0])
B = ("one", "b", [5.0, 3, 4, 5, 6, 7])
OTHER = ("two", "a", [5.0, 6, 7, 8, 9, 9])


def test_any_metric_of_any_set_can_stop() -> None:
    assert run(bg.early_stopping(2), [A, B]) == (2, 4)
    assert run(bg.early_stopping(2), [A, OTHER]) == (1, 3)
    assert run(bg.early_stopping(2), [A]) == (6, 6)
    assert run(bg.early_stopping(9), [B, A]) == (2, 6)  # never stopped: the first metric's best


def test_first_metric_only() -> None:
    assert run(bg.early_stopping(2, first_metric_only=True), [A, B]) == (6, 6)
    assert run(bg.early_stopping(2, first_metric_only=True), [B, A]) == (2, 4)
    # The first metric still counts on every set.
    assert run(bg.early_stopping(2, first_metric_only=True), [A, B, OTHER]) == (1, 3)


def test_equal_values_are_no_improvement() -> None:
    flat = ("one", "a", [1.0] * 6)
    assert run(bg.early_stopping(3), [flat]) == (1, 4)


def test_a_callback_can_be_used_again() -> None:
    """A second training starts anew: the best of the first must not stop it."""
    callback = bg.early_stopping(2)
    assert run(callback, [("one", "a", [1.0, 2, 3, 4, 5, 6])]) == (1, 3)
    assert run(callback, [("one", "a", [9.0, 8, 7, 6, 5, 4])]) == (6, 6)
    recorded: dict[str, dict[str, list[float]]] = {}
    record = bg.record_evaluation(recorded)
    run(record, [A])
    run(record, [B])
    assert recorded == {"one": {"b": B[2]}}


def test_several_sets_and_metrics_in_training(whole: bg.Model) -> None:
    rounds = 5
    series = [
        (data, name, [-v if name == "auc" else v for v in values])
        for data, metrics in evals(whole).items()
        for name, values in metrics.items()
    ]
    for first_only in (False, True):
        watched = [s for s in series if not first_only or s[1] == "logloss"]
        stops = [
            (stop_at(v, rounds)[1], order, stop_at(v, rounds)[0])
            for order, (_, _, v) in enumerate(watched)
        ]
        last, _, best = min(stops)
        params = {**OVERFIT, "eval_metric": ["logloss", "auc"], "early_stopping_rounds": rounds}
        params["first_metric_only"] = first_only
        model = bg.train(params, part(0, 300), valid_sets=[part(300, 400), part(400, 500)])
        assert (model.best_iteration, len(evals(model)["valid_1"]["auc"])) == (best, last)
        assert model.info is not None
        assert model.info.best_score["valid_1"]["auc"] == evals(whole)["valid_1"]["auc"][best - 1]


def test_the_training_set_never_stops() -> None:
    train_set = part(0, 300)
    valid = part(300, 400)
    params = {**OVERFIT, "early_stopping_rounds": 4}
    expected = bg.train(params, train_set, valid_sets=valid)
    # Whatever it is called. Placed first, it would decide if it counted.
    model = bg.train(params, train_set, valid_sets=[train_set, valid], valid_names=["x", "v"])
    assert list(evals(model)) == ["x", "v"]
    assert model.to_bytes() == expected.to_bytes()
    training = evals(model)["x"]["logloss"]
    assert training == sorted(training, reverse=True) and len(set(training)) == len(training)
    unnamed = bg.train(params, train_set, valid_sets=[train_set, valid])
    assert evals(unnamed) == {"training": evals(model)["x"], "valid_1": evals(model)["v"]}
    with pytest.raises(ValueError, match="names must differ"):
        bg.train(params, train_set, valid_sets=[train_set, train_set, valid])


def test_early_stopping_of_an_estimator() -> None:
    y = np.where(LABEL > 0, "yes", "no")
    params = {k: v for k, v in OVERFIT.items() if k != "objective"}
    plain = bg.BitGroveClassifier(**params).fit(X[:300], y[:300], eval_set=(X[300:400], y[300:400]))
    best, last = stop_at(plain.evals_result_["valid_0"]["logloss"], 4)
    model = bg.BitGroveClassifier(**params, early_stopping_rounds=4)
    model.fit(X[:300], y[:300], eval_set=(X[300:400], y[300:400]))
    assert (model.best_iteration_, model.n_iter_) == (best, best)
    assert len(model.evals_result_["valid_0"]["logloss"]) == last
    expected = plain.model_.predict(X, num_iteration=best)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], expected)


def test_record_evaluation_equals_the_info() -> None:
    recorded: dict[str, dict[str, list[float]]] = {"old": {}}
    params = {**OVERFIT, "n_estimators": 4, "eval_metric": ["auc", "error"]}
    names = ["early", "late"]
    model = bg.train(
        params, part(0, 300), valid_sets=[part(300, 400), part(400, 500)], valid_names=names,
        callbacks=[bg.record_evaluation(recorded)],
    )  # fmt: skip
    assert recorded == evals(model)
    assert {k: [*v] for k, v in recorded.items()} == {n: ["auc", "error"] for n in names}
    assert all(len(values) == 4 for metrics in recorded.values() for values in metrics.values())


def test_log_evaluation_prints_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    params = {**OVERFIT, "n_estimators": 5}
    model = bg.train(
        params, part(0, 300), valid_sets=part(300, 400), callbacks=[bg.log_evaluation(2)]
    )
    out, err = capsys.readouterr()
    value = evals(model)["valid_0"]["logloss"][1]
    assert out == ""
    assert [line.split()[0] for line in err.splitlines()] == ["[2]", "[4]"]
    assert err.splitlines()[0] == f"[2]  valid_0 logloss: {value:.6g}"
    bg.train({**params, "verbosity": 1}, part(0, 300), valid_sets=part(300, 400))
    *lines, summary = capsys.readouterr().err.splitlines()
    assert len(lines) == 5 and summary.startswith("300 rows, <bitgrove.Model binary: 5 iterations")
    bg.train(params, part(0, 300), valid_sets=part(300, 400))
    bg.train(params, part(0, 300), valid_sets=part(300, 400), callbacks=[bg.log_evaluation(0)])
    assert capsys.readouterr() == ("", "")
    bg.train({**params, "verbosity": 1}, part(0, 300))  # nothing to evaluate
    assert capsys.readouterr().err.startswith("300 rows, <bitgrove.Model")
    bg.train({**params, "verbose": 2}, part(0, 300), valid_sets=part(300, 400))
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    params = {**OVERFIT, "n_estimators": 3}
    bg.train({**params, "progress": True}, part(0, 300), valid_sets=part(300, 400))
    err = capsys.readouterr().err
    assert "3/3" in err and "valid_0 logloss" in err
    bg.train(params, part(0, 300), callbacks=[bg.progress_bar()])
    assert "3/3" in capsys.readouterr().err


class Watcher:
    """Counts the iterations it sees and raises, or stops, at one of them."""

    def __init__(self, at: int, error: BaseException | None = None) -> None:
        self.at, self.error, self.seen, self.closed = at, error, 0, 0

    def __call__(self, state: TrainingState) -> bool:
        self.seen += 1
        assert state.iteration == self.seen
        if self.seen == self.at and self.error is not None:
            raise self.error
        return self.seen == self.at

    def close(self) -> None:
        self.closed += 1


def test_a_callback_can_stop_training() -> None:
    first, second = Watcher(4), Watcher(9)
    model = bg.train(OVERFIT, part(0, 300), callbacks=[first, second])
    assert (first.seen, second.seen, model.n_iterations) == (4, 4, 4)
    assert (first.closed, second.closed) == (1, 1)
    assert model.best_iteration is None


@pytest.mark.parametrize("error", [RuntimeError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_an_error_in_a_callback_goes_through(error: BaseException) -> None:
    """It is the same error, all callbacks are closed, and the data can be used again."""
    before = threading.active_count()
    failing, watching = Watcher(3, error), Watcher(1000)
    train_set, valid = part(0, 300), part(300, 400)
    with pytest.raises(type(error)) as caught:
        bg.train(OVERFIT, train_set, valid_sets=valid, callbacks=[watching, failing])
    assert caught.value is error
    assert (failing.closed, watching.closed) == (1, 1)
    assert (failing.seen, watching.seen) == (3, 3)
    assert threading.active_count() == before
    again = bg.train(OVERFIT, train_set, valid_sets=valid)
    assert again.digest() == bg.train(OVERFIT, part(0, 300)).digest()


def test_an_error_in_a_callback_of_an_estimator() -> None:
    params = {k: v for k, v in OVERFIT.items() if k != "objective"}
    model = bg.BitGroveClassifier(**params)
    failing = Watcher(2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, LABEL, callbacks=[failing])
    assert failing.closed == 1
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(X)


def presses(*iterations: int) -> Any:
    """A callback that presses Ctrl-C at these iterations."""

    def press(state: TrainingState) -> None:
        if state.iteration in iterations:
            raise_signal(SIGINT)

    return press


def test_ctrl_c_keeps_the_trees_so_far() -> None:
    before, keep = getsignal(SIGINT), bg.stop_on_interrupt()
    whole = bg.train(OVERFIT, part(0, 300))
    for pressed in (2, 5):  # the same callback serves two trainings
        model = bg.train(OVERFIT, part(0, 300), callbacks=[presses(pressed), keep])
        assert model.n_iterations == pressed
        assert np.array_equal(model.predict(X), whole.predict(X, num_iteration=pressed))
        assert getsignal(SIGINT) is before
    with pytest.raises(KeyboardInterrupt):  # no tree is there yet
        bg.train(OVERFIT, part(0, 300), callbacks=[presses(1), keep])
    assert getsignal(SIGINT) is before


def test_ctrl_c_twice_raises() -> None:
    before = getsignal(SIGINT)
    twice = [bg.stop_on_interrupt(), presses(3), presses(3)]
    with pytest.raises(KeyboardInterrupt):
        bg.train(OVERFIT, part(0, 300), callbacks=twice)
    assert getsignal(SIGINT) is before


def test_ctrl_c_is_heard_in_the_main_thread_only() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            bg.train(OVERFIT, part(0, 300), callbacks=[bg.stop_on_interrupt()])
        except ParameterError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])


def test_ctrl_c_keeps_the_trees_of_an_estimator() -> None:
    params = {k: v for k, v in OVERFIT.items() if k != "objective"}
    model = bg.BitGroveClassifier(**params)
    model.fit(X, LABEL, callbacks=[bg.stop_on_interrupt(), presses(3)])
    assert model.model_.n_iterations == 4 and model.predict(X).shape == (500,)
