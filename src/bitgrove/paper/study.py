"""What the user asked for, and the data and settings that follow from it.

Owns Study (the options of `bitgrove paper`) and Bench, which loads each dataset once, derives the
settings every system is given and keeps the last binned form.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bitgrove.errors import DataError, ParameterError
from bitgrove.paper.datasets import DATASETS, PaperDataset, available, load, row_share
from bitgrove.paper.specs import Spec, load_spec
from bitgrove.paper.systems import Prepared, Settings, System
from bitgrove.paper.task import Task

PAPER: dict[str, Any] = {
    "max_rows": None, "bits": (2, 3, 4, 5), "trees": 500, "seeds": 5, "leaves": None,
}  # fmt: skip
QUICK: dict[str, Any] = {"max_rows": 3000, "bits": (2, 4), "trees": 10, "seeds": 2, "leaves": 15}


@dataclass(frozen=True)
class Study:
    """The options; None means the paper's value."""

    out: Path
    data_dir: Path | None = None
    scale: float | None = None
    max_rows: int | None = None
    datasets: tuple[str, ...] = ()
    specs: tuple[Spec, ...] = ()
    bits: tuple[int, ...] = PAPER["bits"]
    trees: int = PAPER["trees"]
    seeds: int = PAPER["seeds"]
    leaves: int | None = None
    min_child_weight: float | None = None
    systems: tuple[str, ...] | None = None  # libraries to compare with; None: all installed
    peer_seeds: int | None = None  # seeds of the other libraries; None: as many as ours
    threads: int = 1  # of one run
    jobs: int = 1  # runs at the same time
    device: str = "cpu"

    def names(self, default: tuple[str, ...] = tuple(DATASETS)) -> list[str]:
        """The datasets to run on: those asked for, else those of `default` that can be had."""
        if self.datasets or self.specs:
            return [*self.datasets, *(spec.name for spec in self.specs)]
        found = [name for name in available(self.data_dir) if name in default]
        if not found:
            wanted = "; ".join(f"{DATASETS[n].title}: {DATASETS[n].where}" for n in default)
            raise DataError(f"{self.data_dir}: none of the paper's datasets is here. {wanted}")
        return found

    def wants(self, library: str) -> bool:
        return self.systems is None or library in self.systems

    def objective(self, name: str) -> str:
        spec = self.spec(name)
        return spec.objective if spec is not None else known(name).objective

    def spec(self, name: str) -> Spec | None:
        return next((spec for spec in self.specs if spec.name == name), None)


def known(name: str) -> PaperDataset:
    """One of the paper's datasets; ParameterError otherwise."""
    if name not in DATASETS:
        raise ParameterError(
            f"dataset {name!r}: must be one of {', '.join(DATASETS)}; "
            "another table needs a spec file (--spec)"
        )
    return DATASETS[name]


class Bench:
    """Datasets and their binned forms, one at a time."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._task: tuple[str, Task] | None = None
        self._prepared: tuple[tuple[str, str], Prepared] | None = None

    def task(self, name: str) -> Task:
        if self._task is None or self._task[0] != name:
            self._task = self._prepared = None  # both at once would not fit
            self._task = (name, self._load(name))
        return self._task[1]

    def _load(self, name: str) -> Task:
        study = self.study
        if (spec := study.spec(name)) is not None:
            return load_spec(spec, study.data_dir, study.scale, study.max_rows)
        return load(name, study.data_dir, study.scale, study.max_rows)

    def prepared(self, system: System, name: str) -> Prepared:
        """The training rows in the system's own binned form, the last one of which is kept."""
        key, task = (name, system.binned_form), self.task(name)
        if self._prepared is None or self._prepared[0] != key:
            self._prepared = None
            self._prepared = (key, system.prepare(task, self.settings(name)))
        return self._prepared[1]

    def settings(self, name: str) -> Settings:
        """The paper's hyperparameters; fewer rows lower the least hessian of a leaf alike."""
        study, spec = self.study, self.study.spec(name)
        if spec is not None:
            chosen: dict[str, Any] = dict(spec.parameters)
        else:
            paper = known(name)
            share = row_share(name, self.task(name))
            chosen = {
                "learning_rate": paper.learning_rate,
                "num_leaves": paper.num_leaves,
                "min_child_weight": max(paper.min_child_weight * share, 1.0),
            }
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
