"""Every registered objective, on every backend that needs no GPU, by one body.

A new objective without its kernel, or whose kernel has other bits, fails here by itself; the same
body runs on a GPU in tests/cuda/test_registry_cuda.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

import bitgrove as bg
from bitgrove import _core
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.distributed import SoloComm, run_threads
from bitgrove.distributed.comm import Comm
from bitgrove.errors import TrainingError
from bitgrove.objectives import OBJECTIVES, SYNONYMS, Objective, Regression, register
from bitgrove.objectives.metrics import judged_by, make_metric
from bitgrove.params import resolve
from kernel_cases import SIMD, cpu
from objective_cases import (
    check_gradients,
    evaluations,
    few_rows,
    known_case,
    make_case,
    make_objective,
    scores_with,
    train_on,
)

F64 = NDArray[np.float64]
NAMES = list(OBJECTIVES)


@pytest.mark.parametrize("simd", SIMD)
@pytest.mark.parametrize("n_threads", [1, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_core_has_the_bits_of_the_oracle(
    name: str, weighted: bool, n_threads: int, simd: int
) -> None:
    check_gradients(cpu(n_threads, simd), *known_case(name, weighted))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_bounds_of_the_oracle(name: str, weighted: bool) -> None:
    case, found = known_case(name, weighted)
    objective = case.objective
    assert found.grad.shape == (objective.n_outputs, len(case.label))
    assert (found.hess is None) == (objective.unit_hessian and not weighted)
    tops = {s: found.magnitudes[f"{s}_top"].copy().view(np.float32) for s in ("grad", "hess")}
    np.testing.assert_array_equal(tops["grad"], np.abs(found.grad).max(axis=1))
    # The typical gradient is near the geometric mean: its logarithm is 8 steps per power of two.
    for grad, facts in zip(found.grad, found.magnitudes, strict=True):
        not_zero = np.abs(grad[grad != 0])
        assert facts["grad_rows"] == len(not_zero)
        if not np.isfinite(not_zero).all():
            continue
        typical = facts["grad_logs"] / len(not_zero) / 8 - 127
        assert abs(typical - np.log2(np.maximum(not_zero, 2.0**-127)).mean()) < 0.2
    if found.hess is not None:
        assert (found.hess >= 0).all()
        np.testing.assert_array_equal(tops["hess"], found.hess.max(axis=1))


@pytest.mark.parametrize("n_rows", [0, 1, 7])
@pytest.mark.parametrize("name", NAMES)
def test_few_rows(name: str, n_rows: int) -> None:
    """A shard may be empty."""
    check_gradients(cpu(2), *few_rows(name, n_rows))


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_above_all_numbers(bad: float) -> None:
    for backend in (ReferenceBackend(), cpu()):
        assert scores_with(bad).gradients(backend).magnitudes["grad_top"][0] >= 0x7F800000


@pytest.mark.parametrize("name", NAMES)
def test_training_gives_one_model(name: str) -> None:
    expected = train_on("reference", name)
    for n_jobs in (1, 2):
        found = train_on("cpu", name, n_jobs=n_jobs)
        assert found.digest() == expected.digest()
        assert evaluations(found) == evaluations(expected)
    assert list(evaluations(expected)) == [OBJECTIVES[name].default_metric or "rmse"]
    assert bg.Model.from_bytes(expected.to_bytes()).n_classes == expected.n_classes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_base_scores_do_not_depend_on_ranks(name: str, weighted: bool) -> None:
    case = make_case(make_objective(name), weighted, n_rows=100)

    def work(comm: Comm) -> list[float]:
        rows = np.array_split(np.arange(100), comm.size)[comm.rank]
        weight = None if case.weight is None else case.weight[rows]
        return case.objective.base_scores(case.label[rows], weight, comm).tolist()

    solo = work(SoloComm())
    assert len(solo) == case.objective.n_outputs and np.isfinite(solo).all()
    for size in (2, 3):
        assert run_threads(size, work) == [solo] * size


@pytest.mark.parametrize("name", NAMES)
def test_what_an_objective_says_of_itself_fits_together(name: str) -> None:
    kind, objective = OBJECTIVES[name], make_objective(name)
    assert kind.allows_outputs(objective.n_outputs)
    assert objective.is_classifier == bool(objective.n_classes)
    assert kind.default_metric is None or name in judged_by(make_metric(kind.default_metric))
    assert set(kind.parameters()) <= set(vars(resolve()))
    predictions = objective.link.predictions(np.zeros((3, objective.n_outputs)))
    assert predictions.shape == ((3,) if objective.n_outputs == 1 else (3, objective.n_outputs))
    for spelling in kind.synonyms:
        assert resolve({"objective": spelling}).objective == name


def test_every_listed_kernel_belongs_to_an_objective() -> None:
    """The list that g++ and NVRTC read, and the classes, name the same losses."""
    kinds = [kind for kind in OBJECTIVES.values() if kind.family != "given"]
    expected = {kind.kernel: kind.family for kind in kinds}
    assert _core.loss_families() == expected


@dataclass(frozen=True)
class Quartic(Objective):
    """A new loss, of which only the class was written."""

    name = "quartic"
    synonyms = ("l4",)
    family = "elementwise"
    kernel = "quartic"
    default_metric = "rmse"
    predicts = "value"

    def derivatives(self, scores: F64, label: F64, tables: tuple[()]) -> tuple[F64, F64]:
        gap = scores - label
        return gap * gap * gap, 3.0 * gap * gap + 1e-3


@dataclass(frozen=True)
class Doubled(Regression):
    """Its kernel has other bits than its class."""

    name = "doubled"
    synonyms = ()

    def derivatives(self, scores: F64, label: F64, tables: tuple[()]) -> tuple[F64, F64]:
        return 2.0 * (scores - label), np.ones_like(scores)


@pytest.fixture
def quartic() -> Iterator[str]:
    register(Quartic)
    yield Quartic.name
    del OBJECTIVES[Quartic.name], SYNONYMS["l4"]


def test_a_class_alone_trains_on_the_reference(quartic: str) -> None:
    model = train_on("reference", quartic, metric=["rmse", "mae"])
    assert model.objective == quartic and list(evaluations(model)) == ["rmse", "mae"]
    assert resolve({"objective": "l4"}).objective == quartic
    with pytest.raises(bg.ParameterError, match=r"sigmoid=.* no meaning for objective='quartic'"):
        resolve({"objective": quartic, "sigmoid": 2.0})


def test_an_objective_without_its_kernel_fails_clearly(quartic: str) -> None:
    message = "objective 'quartic' has no kernel: .*no elementwise loss 'quartic'.*known: logistic"
    with pytest.raises(TrainingError, match=message):
        train_on("cpu", quartic)


def test_other_bits_are_noticed() -> None:
    case = make_case(Doubled(), weighted=True, n_rows=50)
    with pytest.raises(AssertionError):
        check_gradients(cpu(), case, case.gradients(ReferenceBackend()))


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="'binary' is taken"):
        register(OBJECTIVES["binary"])
