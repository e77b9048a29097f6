"""python tests/soak/cycles.py [--seconds S] [--seed N]: train, save, load, predict, ... at random.

One process takes random steps on the cases of tests/cases.py until the time is over. Every result
has a digest: that of a model is the committed one, and whatever else a step returns is the same
each time. Memory is flat if the median of the last quarter of the looks at it is not above that of
the second quarter by more than GROWTH; the first quarter fills caches.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import hashlib
import json
import random
import resource
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import bitgrove as bg

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "streams"))
from stream_cases import NAMES as STREAMED
from stream_cases import train as train_streamed

from cases import CASES, Case

TESTS = Path(__file__).parents[1]
GROWTH = 1.02, 4 << 20  # a share, and bytes
_LOOK_EVERY = 10  # steps
_GOLDEN: dict[str, str] = json.loads((TESTS / "golden" / "digests.json").read_text())


class Soak:
    """The models so far, and what each step must return."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.cases: dict[str, Case] = {}
        self.models: dict[str, bg.Model] = {}
        self.expected: dict[str, str] = {f"model {name}": d for name, d in _GOLDEN.items()}

    def check(self, what: str, found: str) -> None:
        if self.expected.setdefault(what, found) != found:
            raise AssertionError(f"{what}: {found}, and before {self.expected[what]}")

    def step(self) -> str:
        """A random one; its name."""
        name = self.rng.choice(sorted(CASES))
        if name not in self.models:
            self.cases[name] = CASES[name]()
            self.models[name] = self.cases[name].train()
            self.check(f"model {name}", self.models[name].digest())
            return "train"
        verb = self.rng.choice(sorted(STEPS))
        STEPS[verb](self, name)
        return verb

    def train(self, name: str) -> None:
        model = self.cases[name].train(n_jobs=self.rng.choice([1, 2]))
        self.check(f"model {name}", model.digest())
        self.models[name] = model

    def ranks(self, name: str) -> None:
        for model in self.cases[name].train_on_shards(2, n_jobs=1):
            self.check(f"model {name}", model.digest())

    def save(self, name: str) -> None:
        path = self.folder / f"{sorted(CASES).index(name)}.bitgrove"
        self.models[name].save(path)
        self.models[name] = bg.load(path)
        self.check(f"model {name}", self.models[name].digest())

    def predict(self, name: str) -> None:
        model, case = self.models[name], self.cases[name]
        how = self.rng.choice([{}, {"raw_score": True}, {"pred_leaf": True}])
        found = model.predict(case.X, n_jobs=self.rng.choice([1, 2]), **how)
        self.check(f"predict {how} {name}", _digest(found))

    def explain(self, name: str) -> None:
        model, case = self.models[name], self.cases[name]
        self.check(f"contributions {name}", _digest(model.predict_contrib(case.X[:20])))
        self.check(f"importance {name}", _digest(model.feature_importance()))

    def export(self, name: str) -> None:
        """Formats say what they cannot hold; that is an answer, too, and always the same."""
        ending = self.rng.choice(["txt", "json", "onnx"])
        path = self.folder / f"model.{ending}"
        try:
            self.models[name].export(path)
            if ending != "onnx":
                found = bg.import_model(path)
                found.predict(self.cases[name].X[:5])
            said = "written"
        except (bg.BitgroveError, ImportError) as error:
            said = f"{type(error).__name__}: {error}"
        self.check(f"export {ending} {name}", said)

    def stream(self, name: str) -> None:
        name = self.rng.choice(STREAMED)
        self.cases.setdefault(name, CASES[name]())
        self.check(f"model {name}", train_streamed(self.cases[name]).digest())

    def bins(self, name: str) -> None:
        """A Dataset of bins, by way of its file."""
        case = self.cases[name]
        path = self.folder / "rows.bins"
        params = {k: v for k, v in case.params.items() if k in ("max_bin", "bin_sample_rows")}
        dataset = bg.Dataset(case.X, case.y, weight=case.weight, group=case.group, **case.kinds)
        try:
            dataset.save(path, params)
            said = _digest(bg.train(case.params, bg.open_dataset(path)).predict(case.X[:50]))
        except bg.BitgroveError as error:
            said = f"{type(error).__name__}: {error}".replace(str(self.folder), "")
        self.check(f"bins {name}", said)

    def fail(self, name: str) -> None:
        """Errors leave nothing behind."""
        case = self.cases[name]
        try:
            bg.train(case.params, bg.Dataset(case.X, np.full(len(case.y), np.nan)))
        except bg.DataError:
            return
        raise AssertionError(f"{name}: labels that are no numbers were accepted")


STEPS: dict[str, Callable[[Soak, str], None]] = {
    step.__name__: step
    for step in (Soak.train, Soak.ranks, Soak.save, Soak.predict, Soak.explain, Soak.export,
                 Soak.stream, Soak.bins, Soak.fail)
}  # fmt: skip


def _digest(values: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def resident() -> int:
    """Bytes of this process, without what was freed and only kept for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def has_grown(looks: Sequence[int]) -> bool:
    """Whether memory is not flat, by the rule above."""
    quarter = len(looks) // 4
    before = statistics.median(looks[quarter : 2 * quarter])
    after = statistics.median(looks[-quarter:])
    return bool(after > GROWTH[0] * before + GROWTH[1])


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args(words)
    print(f"seed {given.seed}", flush=True)
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    looks: list[int] = []
    with TemporaryDirectory() as folder:
        soak = Soak(Path(folder), random.Random(given.seed))
        until = time.monotonic() + given.seconds
        while time.monotonic() < until or len(looks) < 8:
            counts[soak.step()] += 1
            if counts.total() % _LOOK_EVERY == 0:
                looks.append(resident())
    quarters = [f"{statistics.median(q) / 2**20:.1f}" for q in np.array_split(looks, 4)]
    print(f"{counts.total()} steps: {dict(sorted(counts.items()))}")
    print(f"{len(soak.expected)} results, each the same every time")
    print(f"MB resident, medians of the quarters: {', '.join(quarters)}")
    if has_grown(looks):
        print("memory has grown")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
