"""python -m tests.fuzz.guided TARGET [--seconds S] [FILE]: inputs that reach new code are kept.

libFuzzer through atheris: it sees which lines of the readers an input runs, and in a core that was
built for it (guided.sh) which branches of the C++. Mutants come from the target's own mutator, some
are changed byte by byte besides. A file that breaks a promise is kept as build/fuzz/found-*; FILE
tries one again.
"""

from __future__ import annotations

import argparse
import contextlib
import struct
import sys
import zlib
from pathlib import Path

import atheris
import numpy as np

with atheris.instrument_imports(include=["bitgrove"]):
    from tests.fuzz.targets import READERS

_ROOM = Path("build/fuzz")
_MOST_BYTES = 20_000  # of an input
_NOT_OF_THE_FORMAT = (ValueError, LookupError, TypeError, OverflowError, struct.error)
_RAW = 0.1  # of the mutants are changed as bytes alone


def _random(data: bytes) -> np.random.Generator:
    """What else a case needs follows from its bytes."""
    return np.random.default_rng(zlib.crc32(data))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("target", choices=[*READERS])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("file", nargs="?", type=Path)
    args = parser.parse_args()
    reader = READERS[args.target]
    if args.file is not None:
        data = args.file.read_bytes()
        print("accepted" if reader.check(data, _random(data)) else "refused")
        return

    def try_one(data: bytes) -> None:
        reader.check(data, _random(data))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        if rng.random() >= _RAW:
            with contextlib.suppress(*_NOT_OF_THE_FORMAT):
                data = reader.mutant(rng, data)
        if rng.random() < _RAW:
            data = atheris.Mutate(data, min(most, len(data) + 20))
        return data[:most]

    corpus = _ROOM / args.target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(reader.seeds()):
        (corpus / f"seed-{number:03}").write_bytes(data)
    words = [f"-max_total_time={args.seconds}", f"-max_len={_MOST_BYTES}", "-timeout=60",
             "-rss_limit_mb=4000", f"-artifact_prefix={_ROOM}/found-", "-print_final_stats=1",
             str(corpus)]  # fmt: skip
    atheris.Setup([sys.argv[0], *words], try_one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
