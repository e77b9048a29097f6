"""Whole trees on any backend: the core's loop, the loop of base.py and the reference agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bitgrove.backends.base import GrownTree, PackedRows, Rounding, TreeInputs, TreeWork
from bitgrove.constraints.rules import GainRules
from bitgrove.data.row_ids import RowRun
from bitgrove.data.sampling import Sample
from bitgrove.model.tree import Tree
from bitgrove.training.histograms import WidthPlan
from bitgrove.training.quantize import QuantizedGradients, row_half_bits
from bitgrove.training.refit import finish_tree
from verb_cases import REFERENCE, Alone, Table, random_table

# Of growing a tree: a device may begin by itself; the backend's loop, or that of all backends.
WAYS = ("begun", "by the backend's loop", "by the loop of base.py")


@dataclass(frozen=True)
class Problem:
    """One tree to grow."""

    limits: tuple[int, int] = (3, 6)
    n_rows: int = 3000
    n_features: int = 9
    sample: Sample | None = None
    zero_share: float = 0.0
    separate_zeros: bool = False
    n_slots: int = 40
    num_leaves: int = 25
    max_depth: int = -1
    min_child_samples: float = 5.0
    alpha: float = 0.75
    constant_hess: bool = False
    allowed_share: float = 1.0
    twins: bool = False  # every split of one half of the rows has its like, of equal gain

    def table(self) -> Table:
        table = random_table(20, self.n_rows, self.n_features)
        if self.twins:
            half = self.n_rows // 2
            for column in table.columns:
                column[half:] = column[:half]
            table.columns[-1][:] = np.arange(self.n_rows) >= half
        return table

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """They follow two of the features, so that trees have something to find."""
        rng = np.random.default_rng(21)
        columns = [np.nan_to_num(c, nan=3.0) % 7 for c in self.table().columns[:2]]
        if self.twins:  # whole numbers, which rounding leaves alone
            half = (sum(columns) % (2 * self.limits[0] + 1) - self.limits[0])[: self.n_rows // 2]
            return np.concatenate([half, -half]).astype(np.float32), None
        grad = rng.normal(size=self.n_rows) + columns[0] - columns[-1]
        hess = rng.random(self.n_rows)
        zero = rng.random(self.n_rows) < self.zero_share
        grad[zero], hess[zero] = 0.0, 0.0
        return grad.astype(np.float32), None if self.constant_hess else hess.astype(np.float32)

    def allowed(self) -> NDArray[np.uint8]:
        chosen = np.random.default_rng(22).random(self.n_features) < self.allowed_share
        return chosen.astype(np.uint8)


PROBLEMS = {
    "3 bits": Problem(),
    "2 bits": Problem((1, 2), num_leaves=31),
    "16-bit rows": Problem((32767, 900)),
    "full precision": Problem((2**23 - 1, 2**24 - 2)),
    "constant hessian": Problem((3, 1), constant_hess=True),
    "sampled": Problem(sample=Sample(99, int(0.4 * 2**64))),
    "zero rows": Problem(zero_share=0.7, separate_zeros=True),
    "zero rows of a sample": Problem(
        sample=Sample(99, 2**63), zero_share=0.5, separate_zeros=True, n_slots=5
    ),
    "two slots": Problem(n_slots=2),
    "slots run out on the way": Problem((1, 2), n_slots=32, alpha=1.0),
    "twins": Problem((3, 1), constant_hess=True, twins=True),
    "one node at a time": Problem(alpha=0.01),
    "depth 3": Problem(max_depth=3),
    "one split": Problem(num_leaves=2),
    "no split": Problem(min_child_samples=1e6),
    "one feature": Problem(n_features=1),
    "70 features, some allowed": Problem(n_features=70, allowed_share=0.3),
    "many rows": Problem(n_rows=20_000, num_leaves=12),
}


class Growing:
    """A tree of a problem on one backend, ready to grow."""

    def __init__(self, backend: Any, problem: Problem) -> None:
        self.backend, self.problem = backend, problem
        table, (grad, hess) = problem.table(), problem.gradients()
        self.matrix = table.on(backend)
        runs = [RowRun(0, 100, 5000), RowRun(100, problem.n_rows, 0)]
        self.gradients = [backend.upload(values) for values in (grad, hess)]
        packed = backend.quantize(*self.gradients, self._rounding(grad, hess), runs)
        selected = backend.download(backend.select_rows(runs, problem.sample))
        self.rows = backend.upload(selected.copy())  # a backend may use its list again
        quantized = self._quantized(packed)
        widths = WidthPlan(quantized, problem.n_rows)
        half_bits = max(32, widths.total_width(problem.n_rows))
        pool = backend.new_pool(self.matrix, problem.n_slots, half_bits)
        rules = GainRules(0.01, 0.02, 1.0, 0.0, 0.0)
        inputs = TreeInputs(packed, self.rows, problem.allowed(), rules, problem.separate_zeros)
        self.work: TreeWork = backend.start_tree(pool, inputs)
        self.frontier = self._frontier(widths)

    def _rounding(self, grad: Any, hess: Any) -> Rounding:
        limits = self.problem.limits
        tops = [1.0 if v is None else float(np.abs(v).max()) for v in (grad, hess)]
        inverse = [limit / top for limit, top in zip(limits, tops, strict=True)]
        return Rounding(*inverse, *limits, row_half_bits(*limits), 4321, True)

    def _quantized(self, packed: PackedRows) -> QuantizedGradients:
        sums = [int(packed.totals[name][0]) for name in ("abs_grad", "hess", "zero_rows")]
        return QuantizedGradients(packed, 0.01, 0.02, *self.problem.limits, *sums)

    def _frontier(self, widths: WidthPlan) -> Any:
        problem, root = self.problem, self.work.root
        frontier = self.backend.frontier(
            n_slots=problem.n_slots,
            num_leaves=problem.num_leaves,
            max_depth=problem.max_depth,
            min_child_samples=problem.min_child_samples,
            min_child_hess=0.1,
            widths=widths.limits,
        )
        counts = (root.n_active, root.n_zero)
        frontier.start(grad=root.grad, hess=root.hess, all_rows=counts, local_rows=counts)
        return frontier

    def finish(self) -> dict[str, Any]:
        mapper = self.matrix.mapper
        cuts = (mapper.edge_values, mapper.edge_offset, mapper.has_missing)
        fields: dict[str, Any] = self.frontier.finish(*cuts, 0.02)
        self.work.set_leaves(*self.frontier.leaves())
        return fields

    def grow(self, how: str = "begun") -> dict[str, Any]:
        """The fields of the tree; how: one of WAYS."""
        loop = TreeWork.grow if how == "by the loop of base.py" else type(self.work).grow
        if how == "begun":
            self.work.begin(self.frontier, self.problem.alpha)
        loop(self.work, self.frontier, self.problem.alpha, self.matrix.mapper.missing_bin, None)
        return self.finish()

    def leaves(self) -> list[bytes]:
        """The rows of each leaf, whatever their order."""
        rows = self.backend.download(self.rows)
        ranges = zip(*self.frontier.leaves(), strict=True)
        return [np.sort(rows[begin:end]).tobytes() for begin, end in ranges]

    def scores(self, fields: dict[str, Any]) -> bytes:
        """After the tree was added to scores, with values of its own for each leaf."""
        rng = np.random.default_rng(23)
        scores = self.backend.upload(rng.normal(size=self.problem.n_rows))
        self.work.add_tree(scores, finished(fields, rng.normal(size=len(fields["leaf_rows"]))))
        raw: bytes = self.backend.download(scores).tobytes()
        return raw

    def leaf_sums(self) -> bytes:
        return self.work.leaf_sums(*self.gradients, (2.0**30, 2.0**32)).read().tobytes()


def finished(fields: dict[str, Any], values: NDArray[np.float64]) -> Tree:
    return finish_tree(lambda: GrownTree(**fields), values, np.zeros(len(values)))


def described(growing: Growing, fields: dict[str, Any]) -> dict[str, Any]:
    """All that must be the same, as bytes."""
    tree = {name: np.asarray(v).tobytes() for name, v in fields.items()}
    rest = {"scores": growing.scores(fields), "sums": growing.leaf_sums()}
    return {**tree, **rest, "leaves": growing.leaves(), "root": growing.work.root[:2]}


class GrowthVerbs:
    @pytest.mark.parametrize("name", list(PROBLEMS))
    def test_whole_trees(self, backend: Any, name: str) -> None:
        problem = PROBLEMS[name]
        growing = Growing(REFERENCE, problem)
        fields = growing.grow()
        expected = described(growing, fields)
        n_rounds = growing.frontier.n_rounds
        for how in WAYS:
            growing = Growing(backend, problem)
            found = growing.grow(how)
            assert growing.frontier.n_rounds <= n_rounds
            assert described(growing, found) == expected
        n_leaves = len(fields["leaf_rows"])
        assert (n_leaves > 1) == (problem.min_child_samples < 1e6)

    @pytest.mark.parametrize("name", ["3 bits", "full precision", "two slots", "zero rows"])
    def test_every_plan_of_a_frontier(self, backend: Any, name: str) -> None:
        """search(plan) in one call, and by an exchange in three steps, find the same splits."""
        if backend.frontier is REFERENCE.frontier:
            pytest.skip("its plans are not the core's")
        one, steps = Growing(backend, PROBLEMS[name]), Growing(backend, PROBLEMS[name])
        bins = (0, int(one.matrix.mapper.bin_offset[-1]))
        n_plans = n_subtracted = 0
        divisions = None
        while divisions is None or len(divisions):
            while (plan := one.frontier.next_search()) is not None:
                found = one.work.search(plan)
                assert steps.work.search(plan, Alone(bins)).tobytes() == found.tobytes()
                one.frontier.record(found)
                n_plans, n_subtracted = n_plans + 1, n_subtracted + len(plan.subtractions)
            divisions = one.frontier.next_batch(0.75, one.matrix.mapper.missing_bin)
            left = one.work.divide(divisions)
            assert steps.work.divide(divisions).tobytes() == left.tobytes()
            one.frontier.divide(left, left)
        assert n_plans > 3 and n_subtracted > 0
