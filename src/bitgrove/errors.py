"""The errors and warnings a user can meet.

Each also is the built-in error that scikit-learn users expect: `except ValueError` keeps working.
"""


class BitgroveError(Exception):
    """Base of all errors raised on purpose by this library.

    everywhere: every rank of a distributed training raises it by itself, nobody has to be told.
    """

    everywhere = False


class ParameterError(BitgroveError, ValueError):
    """A parameter is unknown, out of range, or contradicts another one."""


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


class BitgroveWarning(UserWarning):
    """A training that goes on, but whose model may not be what was wanted."""


def everywhere(kind: type[BitgroveError], message: str) -> BitgroveError:
    """An error that every rank finds by itself, from what all of them know."""
    error = kind(message)
    error.everywhere = True
    return error
