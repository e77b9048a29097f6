"""How long a fit on Dask waits after a failure: for those that answer, not for the silent one."""

from __future__ import annotations

from concurrent.futures import CancelledError
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("distributed")

from bitgrove.distributed.dask import training
from bitgrove.errors import DataError, RankFailure, TrainingError

ADDRESSES = ["a", "b", "c"]


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Rank:
    """A future that ends with an error after some seconds; None: never."""

    def __init__(self, clock: Clock, error: Any, after: float | None) -> None:
        self._clock, self._error, self._after = clock, error, after

    @property
    def status(self) -> str:
        return "pending" if self._after is None or self._clock.now < self._after else "error"

    def exception(self) -> Any:
        return self._error


def ended(monkeypatch: pytest.MonkeyPatch, *ranks: tuple[Any, float | None]) -> tuple[Any, float]:
    clock = Clock()
    monkeypatch.setattr(training, "time", clock)
    monkeypatch.setattr(training, "_workers", lambda _: {key: {} for key in ADDRESSES})
    futures: Any = [Rank(clock, *rank) for rank in ranks]
    return training._ended(SimpleNamespace(), futures, ADDRESSES), clock.now  # type: ignore[arg-type]


SILENCE = RankFailure(2, "no word from it for 6 s")


def test_a_silent_rank_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, waited = ended(monkeypatch, (SILENCE, 0.0), (SILENCE, 0.3), (None, None))
    assert errors == {0: SILENCE, 1: SILENCE}
    assert waited < 1.5


def test_a_rank_that_is_about_to_say_why_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cause = DataError("a bad partition")
    errors, waited = ended(monkeypatch, (SILENCE, 0.0), (SILENCE, 0.0), (cause, 0.7))
    assert errors[2] is cause and waited < 1.0


def test_ranks_that_nobody_blames_have_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, waited = ended(monkeypatch, (SILENCE, 0.0), (SILENCE, 3.0), (None, None))
    assert errors == {0: SILENCE, 1: SILENCE} and 3.0 <= waited < 5.0
    errors, waited = ended(monkeypatch, (SILENCE, 0.0), (None, None), (None, None))
    assert errors == {0: SILENCE} and 5.0 <= waited < 6.0


@pytest.mark.parametrize(
    ("status", "said"),
    [("running", "the training was cancelled"), ("connecting", "the connection to the scheduler")],
)
def test_a_scheduler_that_is_gone_is_named(
    status: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> None:
        raise CancelledError

    monkeypatch.setattr(training, "wait", lost)
    client: Any = SimpleNamespace(status=status)
    ranks: Any = [SimpleNamespace(status="cancelled")]
    with pytest.raises(TrainingError, match=said):
        training._watch(client, ranks, ADDRESSES, 6.0)
