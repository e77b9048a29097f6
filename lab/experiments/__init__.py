"""All experiments, each registered once, here. An experiment is a class in a file of this room."""

from __future__ import annotations

from lab.experiments.accuracy import Accuracy
from lab.experiments.auto_bits import AutoBits
from lab.experiments.bounds import Bounds
from lab.experiments.fig4 import Fig4
from lab.experiments.full_size import FullSize
from lab.experiments.paired.defaults import Defaults
from lab.experiments.paired.ranking_bits import RankingBits
from lab.experiments.table2 import Table2
from lab.experiments.tails import Tails
from lab.experiments.timing import Fig6, Table3
from lab.experiments.training_facts import Fig5, Fig7, Fig8
from lab.experiments.zeros import Zeros
from lab.full_size.peers import FullPeers
from lab.full_size.row_sweep import RowSweep
from lab.roundings.sparse_rounding import SparseRounding
from lab.roundings.split_refit import SplitRefit
from lab.running.experiment import Experiment

_ALL: tuple[type[Experiment], ...] = (
    Table2, FullSize, FullPeers, RowSweep, Table3, Fig4, Fig5, Fig6, Fig7, Fig8, Bounds, Tails,
    Zeros, AutoBits, SparseRounding, SplitRefit, Accuracy, Defaults, RankingBits,
)  # fmt: skip
EXPERIMENTS: dict[str, Experiment] = {kind.name: kind() for kind in _ALL}
