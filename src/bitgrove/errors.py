"""The errors and warnings a user can meet.

Each also is the built-in error that scikit-learn users expect: `except ValueError` keeps working.
A call with several faults raises one error that names all of them (Problems, raise_all).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class BitgroveError(Exception):
    """Base of all errors raised on purpose by this library.

    everywhere: every rank of a distributed training raises it by itself, nobody has to be told.
    """

    everywhere = False


class ParameterError(BitgroveError, ValueError):
    """A parameter is unknown, out of range, or contradicts another one."""


class UnknownParameterError(ParameterError, TypeError):
    """An estimator has no argument of this name."""


class DataError(BitgroveError, ValueError):
    """The data cannot be used: shape, values, weights, groups or columns."""


class DataTypeError(BitgroveError, TypeError):
    """The data is of a kind that cannot be read as numbers."""


class ModelFormatError(BitgroveError, ValueError):
    """A model file is damaged, of another version, or not a model file."""


class TrainingError(BitgroveError, RuntimeError):
    """Training cannot go on; for example the gradients overflowed."""


class RankFailure(TrainingError):
    """Another rank of a distributed training failed or fell silent; `rank` is its number."""

    everywhere = True  # the rank that found it has told the others

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(rank, reason)  # both in args: exceptions travel between processes
        self.rank, self.reason = rank, reason

    def __str__(self) -> str:
        return f"rank {self.rank}: {self.reason}"


class DeviceMemoryError(TrainingError, MemoryError):
    """The GPU has not enough memory for this data."""


class HostMemoryError(TrainingError, MemoryError):
    """This machine, or the share of it that this process may use, has not enough memory."""


class BitgroveWarning(UserWarning):
    """A training that goes on, but whose model may not be what was wanted."""


def everywhere(kind: type[BitgroveError], message: str) -> BitgroveError:
    """An error that every rank finds by itself, from what all of them know."""
    error = kind(message)
    error.everywhere = True
    return error


def raise_all(problems: Sequence[Exception]) -> None:
    """Raises nothing, the one problem, or one error that lists all of them."""
    if not problems:
        return
    if len(problems) == 1:
        raise problems[0]
    lines = "".join(f"\n- {problem}" for problem in problems)
    error = _shared_kind(problems)(f"{len(problems)} problems:{lines}")
    error.everywhere = all(getattr(problem, "everywhere", False) for problem in problems)
    raise error


def _shared_kind(problems: Sequence[Exception]) -> type[BitgroveError]:
    """The narrowest kind that all are of, else that of the first of our own."""
    for kind in (UnknownParameterError, ParameterError, DataTypeError, DataError):
        if all(isinstance(problem, kind) for problem in problems):
            return kind
    first = next((p for p in problems if isinstance(p, BitgroveError)), None)
    return ParameterError if isinstance(first, ParameterError) else DataError


class Problems:
    """Collects what is wrong with a call, so that the user hears of all of it at once."""

    def __init__(self) -> None:
        self.found: list[Exception] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """A wrong value in this block is kept; the block ends."""
        try:
            yield
        except (ValueError, TypeError) as error:
            self.found.append(error)

    def report(self) -> None:
        raise_all(self.found)
