"""All experiments by name."""

from __future__ import annotations

from bitgrove.paper.accuracy import TABLE2
from bitgrove.paper.auto_bits import AUTO
from bitgrove.paper.cells import Experiment
from bitgrove.paper.gain_bounds import BOUNDS
from bitgrove.paper.scaling import FIG4
from bitgrove.paper.tails import TAILS
from bitgrove.paper.timing import FIG6, TABLE3
from bitgrove.paper.training_facts import FIG5, FIG7, FIG8
from bitgrove.paper.zero_rows import ZEROS

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (TABLE2, TABLE3, FIG4, FIG5, FIG6, FIG7, FIG8, BOUNDS, TAILS, ZEROS, AUTO)
}
