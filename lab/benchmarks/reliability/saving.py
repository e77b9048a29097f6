"""Saving over an old model: killed at a random moment, or without room. Is the file still one?"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from lab.benchmarks.reliability.files import rows
from lab.benchmarks.reliability.libraries import Library
from lab.benchmarks.reliability.trials import Attempt, attempt, begun

_QUOTA = 20_000  # bytes of a file
_LONGEST = 0.1  # seconds until the kill


def _make(library: Library, path: Path, n_trees: int) -> None:
    X, y = rows()
    fitted = library.estimator("Classifier", n_estimators=n_trees).fit(X, y)
    library.save(library.model_of(fitted), str(path))


def _save_on_and_on(library: Library, source: Path, path: Path) -> None:
    model = library.load(str(source))
    begun()
    while True:
        library.save(model, str(path))


def _save_without_room(library: Library, source: Path, path: Path) -> None:
    model = library.load(str(source))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_QUOTA, _QUOTA))
    library.save(model, str(path))


def _is_whole(library: Library, path: Path, expected: list[bytes]) -> bool:
    """As it was, or as it should be; files that differ in a date or so are loaded."""
    data = path.read_bytes()
    if data in expected:
        return True
    size_like = any(abs(len(data) - len(other)) < 64 for other in expected)
    return size_like and attempt(lambda: bool(library.load(str(path)))).kind == "done"


def run(library: Library, n_kills: int) -> dict[str, Any]:
    ending, rng = library.formats[-1 if library.package == "xgboost" else 0], random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        old, new, path = (Path(name) / f"{what}{ending}" for what in ("old", "new", "model"))
        for made, n_trees in ((old, 5), (new, 400)):
            found = attempt(lambda made=made, n=n_trees: _make(library, made, n), 300.0)  # type: ignore[misc]
            assert found.kind == "done", found
        whole = [old.read_bytes(), new.read_bytes()]
        n_whole = 0
        for _ in range(n_kills):
            shutil.copy(old, path)
            saving = Attempt(lambda: _save_on_and_on(library, new, path))
            assert saving.wait_until_begun(60.0)
            time.sleep(rng.uniform(0.0, _LONGEST))
            os.kill(saving.pid, signal.SIGKILL)
            saving.answer()
            n_whole += _is_whole(library, path, whole)
        shutil.copy(old, path)
        full = attempt(lambda: _save_without_room(library, new, path))
        return {
            "kills": n_kills, "whole": n_whole, "bytes": len(whole[1]),
            "full": "refused" if full.kind == "refused" else full.kind.replace("done", "silent"),
            "full said": str(full.value),
            "full whole": _is_whole(library, path, whole[:1]),
        }  # fmt: skip
