"""What the user asked for, and the data and settings that follow from it.

Owns Study (the options of `python -m lab EXPERIMENT`) and Bench, which loads each dataset once,
derives the settings every system is given and keeps the last binned form.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bitgrove import DataError
from lab.datasets import table
from lab.datasets.entry import Entry, Wanted, resplit
from lab.datasets.specs import Spec
from lab.datasets.task import Task
from lab.systems.base import Prepared, Settings, System

USUAL: dict[str, Any] = {"bits": (2, 3, 4, 5), "trees": 500, "seeds": 5}
QUICK: dict[str, Any] = {"rows": 3000, "bits": (2, 4), "trees": 10, "seeds": 2, "leaves": 15}


@dataclass(frozen=True)
class Study:
    """The options; None means the paper's value."""

    out: Path
    wanted: Wanted = field(default_factory=Wanted)  # rows
    datasets: tuple[str, ...] = ()
    specs: tuple[Spec, ...] = ()
    bits: tuple[int, ...] = USUAL["bits"]
    trees: int = USUAL["trees"]
    seeds: int = USUAL["seeds"]
    leaves: int | None = None
    min_child_weight: float | None = None
    peers: tuple[str, ...] | None = None  # libraries to compare with; None: all installed
    peer_seeds: int | None = None  # seeds of the other libraries; None: as many as ours
    threads: int = 1  # of one run
    jobs: int = 1  # runs at the same time
    device: str = "cpu"
    seconds: float | None = None  # no run starts after so many

    def names(self, default: tuple[str, ...] = table.PAPER) -> list[str]:
        """The datasets to run on: those asked for, else those of `default` that can be had."""
        if self.datasets or self.specs:
            return [*self.datasets, *(spec.name for spec in self.specs)]
        found = table.available(default, self.wanted.folder)
        if not found:
            sources = "; ".join(table.known(name).source() for name in default)
            raise DataError(f"{self.wanted.folder}: none of the usual datasets is here. {sources}")
        return found

    def entry(self, name: str) -> Entry:
        own = (spec for spec in self.specs if spec.name == name)
        return next(own, None) or table.known(name)


class Bench:
    """Datasets and their binned forms, one at a time."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._task: tuple[str, Task] | None = None
        self._prepared: tuple[tuple[str, str], Prepared] | None = None
        self._resplit: tuple[tuple[str, str, int], Prepared] | None = None

    def task(self, name: str) -> Task:
        if self._task is None or self._task[0] != name:
            self._task = self._prepared = self._resplit = None  # both at once would not fit
            self._task = (name, self.study.entry(name).load(self.study.wanted))
        return self._task[1]

    def prepared(self, system: System, name: str) -> Prepared:
        """The training rows in the system's own binned form, the last one of which is kept."""
        key, task = (name, system.binned_form), self.task(name)
        if self._prepared is None or self._prepared[0] != key:
            self._prepared = None
            self._prepared = (key, system.prepare(task, self.settings(name)))
        return self._prepared[1]

    def resplit(
        self, system: System, name: str, seed: int, max_rows: int | None = None
    ) -> Prepared:
        """The same as prepared, on a random split of its own; the last one is kept."""
        key, task = (name, system.binned_form, seed), self.task(name)
        if self._resplit is None or self._resplit[0] != key:
            self._resplit = None
            task = resplit(task, seed, max_rows)
            self._resplit = (key, system.prepare(task, self.settings(name)))
        return self._resplit[1]

    def settings(self, name: str) -> Settings:
        """The dataset's own hyperparameters, but for what the user asked for."""
        study = self.study
        chosen: dict[str, Any] = study.entry(name).hyperparameters(self.task(name))
        if study.leaves is not None:
            chosen["num_leaves"] = study.leaves
        if study.min_child_weight is not None:
            chosen["min_child_weight"] = study.min_child_weight
        return Settings(n_trees=study.trees, n_threads=study.threads, device=study.device, **chosen)

    def fingerprint(self, name: str, timed: bool) -> str:
        """Changes with everything a result on this dataset depends on, but for the system."""
        task, settings = self.task(name), asdict(self.settings(name))
        if not timed:  # a model does not depend on where it was trained
            del settings["n_threads"], settings["device"]
        source = "generated" if task.note == "generated" else "files"
        facts = [name, source, task.shape, settings]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
