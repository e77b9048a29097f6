"""The parameter table: names, types, bounds, rules between parameters, and the page made of it."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitgrove.errors import ParameterError
from bitgrove.objectives import OBJECTIVES
from bitgrove.objectives.metrics import METRICS
from bitgrove.params import (
    BY_NAME,
    CANONICAL,
    PARAMETERS,
    TrainParams,
    complete_params,
    model_params,
    resolve,
)
from bitgrove.params.parameter import Parameter
from bitgrove.params.reasons import REASONS
from bitgrove.params.reference_page import linked, render_markdown

DOCS_PAGE = Path(__file__).parents[2] / "docs" / "parameters.md"
NUMBERS = [p for p in PARAMETERS if p.type in ("int", "float")]
NEVER_IN_THE_MODEL = {
    "n_jobs", "device", "frontier_alpha", "histogram_pool_mb", "packed", "verbosity", "progress",
    "distributed_timeout",
}  # fmt: skip


def by_name(parameter: Parameter) -> str:
    return parameter.name


def objective_for(parameter: Parameter) -> str:
    return parameter.objectives[0]


def test_names_and_aliases_are_unique() -> None:
    spellings = [name for p in PARAMETERS for name in (p.name, *p.aliases)]
    assert len(spellings) == len(set(spellings))


def test_every_default_passes_its_own_check() -> None:
    resolved = resolve({p.name: p.default for p in PARAMETERS})
    assert resolved == resolve() == resolve({}) == TrainParams()


@pytest.mark.parametrize("parameter", PARAMETERS, ids=by_name)
def test_default_has_the_annotated_type(parameter: Parameter) -> None:
    hint = typing.get_type_hints(TrainParams)[parameter.name]
    kinds = {
        "int": int, "float": float, "bool": bool, "choice": str, "callable": Callable,
        "schedule": float,
    }  # fmt: skip
    kind = kinds.get(parameter.type, tuple)
    members = (hint,) if typing.get_origin(hint) is tuple else typing.get_args(hint) or (hint,)
    assert kind in {typing.get_origin(member) or member for member in members}
    assert (type(None) in members) == parameter.optional
    assert parameter.default is None or type(parameter.default) is kind


def test_resolve_is_idempotent_and_takes_its_own_result() -> None:
    once = resolve({"objective": "l2", "metric": ["mae", "rmse"], "max_depth": None, "n_jobs": -1})
    assert resolve(once) == once
    assert resolve(dataclasses.replace(once, num_leaves=63)).num_leaves == 63
    with pytest.raises(ParameterError, match="num_leaves=1"):
        resolve(dataclasses.replace(once, num_leaves=1))


def test_the_result_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        resolve().num_leaves = 3  # type: ignore[misc]


@pytest.mark.parametrize(("alias", "name"), [(a, n) for a, n in CANONICAL.items() if a != n])
def test_aliases_reach_their_parameter(alias: str, name: str) -> None:
    parameter = BY_NAME[name]
    assert resolve({alias: parameter.default}) == resolve()
    with pytest.raises(ParameterError, match=f"^{name}="):
        resolve({alias: object()})


def test_unknown_name_suggests_the_main_name() -> None:
    with pytest.raises(ParameterError, match="unknown parameter 'num_leafs'; did you mean 'num_le"):
        resolve({"num_leafs": 31})
    with pytest.raises(ParameterError, match="did you mean 'subsample'"):
        resolve({"baging_fraction": 0.5})
    with pytest.raises(ParameterError, match=r"unknown parameter 'zzzzzz'$"):
        resolve({"zzzzzz": 1})
    with pytest.raises(ParameterError, match=r"unknown parameter 7$"):
        resolve({7: 1})  # type: ignore[dict-item]


def test_the_same_parameter_twice() -> None:
    assert resolve({"eta": 0.5, "learning_rate": 0.5}).learning_rate == 0.5
    assert resolve({"max_depth": 0, "objective": "l2", "loss": "mse"}).objective == "regression"
    with pytest.raises(ParameterError, match=r"'eta' and 'learning_rate' are .*: 0.5 and 0.1"):
        resolve({"eta": 0.5, "learning_rate": 0.1})


@pytest.mark.parametrize("parameter", NUMBERS, ids=by_name)
def test_bounds(parameter: Parameter) -> None:
    def accepted(value: float) -> bool:
        number = int(value) if parameter.type == "int" else value
        try:
            given = {**parameter.only_with, parameter.name: number}
            found = resolve({**given, "objective": objective_for(parameter)})
        except ParameterError as error:
            assert parameter.name in str(error)
            assert repr(number) in str(error)
            assert parameter.allowed in str(error)
            return False
        return getattr(found, parameter.name) == parameter.synonyms.get(number, number)

    step = 1 if parameter.type == "int" else 1e-9
    assert accepted(parameter.low) != parameter.low_open
    assert accepted(parameter.low + step)
    assert not accepted(parameter.low - step)
    assert not accepted(parameter.low - 3)
    if parameter.high is None:
        assert accepted(1e300)
    else:
        assert accepted(parameter.high)
        assert not accepted(parameter.high + step)


@pytest.mark.parametrize("parameter", NUMBERS, ids=by_name)
@pytest.mark.parametrize("value", [True, "3", [3], math.nan, math.inf, 3 + 0j, 10**400, {}])
def test_what_is_not_a_number_is_refused(parameter: Parameter, value: object) -> None:
    if value is True and parameter.or_bool:
        assert getattr(resolve({parameter.name: True}), parameter.name) == 1
        return
    with pytest.raises(ParameterError, match=f"^{parameter.name}="):
        resolve({parameter.name: value})


def test_an_integer_parameter_takes_no_float_and_a_float_parameter_takes_integers() -> None:
    rate = resolve({"learning_rate": 1}).learning_rate
    assert rate == 1.0 and type(rate) is float
    for value in (31.0, np.float64(31), 0.0):
        with pytest.raises(ParameterError, match="must be an integer >= "):
            resolve({"max_depth": value})


def test_booleans_are_only_booleans() -> None:
    assert resolve({"progress": np.bool_(True)}).progress is True
    for value in (1, 0, "true", None):
        with pytest.raises(ParameterError, match="must be True or False"):
            resolve({"progress": value})
    with pytest.raises(ParameterError, match="max_depth=False"):
        resolve({"max_depth": False})


@given(st.integers(2, 131072), st.floats(1e-6, 1.0))
def test_numpy_scalars_count_as_their_python_kinds(leaves: int, part: float) -> None:
    found = resolve({"num_leaves": np.int32(leaves), "subsample": np.float64(part)})
    assert found.num_leaves == leaves and type(found.num_leaves) is int
    assert found.subsample == part and type(found.subsample) is float


def test_none_where_it_has_a_meaning() -> None:
    found = resolve({"max_depth": None, "random_state": None, "gradient_bits": None})
    assert (found.max_depth, found.random_state, found.gradient_bits) == (-1, 0, None)
    assert resolve({"objective": None}).objective is None
    with pytest.raises(ParameterError, match="num_leaves=None"):
        resolve({"num_leaves": None})


def test_other_spellings_of_values() -> None:
    assert resolve({"max_depth": 0}).max_depth == -1
    assert resolve({"n_jobs": -1}).n_jobs is None
    assert resolve({"objective": "binary:logistic"}).objective == "binary"
    assert resolve({"objective": np.str_("rank:ndcg")}).objective == "lambdarank"
    for spelling, objective in BY_NAME["objective"].synonyms.items():
        assert resolve({"app": spelling}).objective == objective
        assert objective in OBJECTIVES


def test_unknown_choice_lists_the_choices() -> None:
    with pytest.raises(ParameterError, match="rounding='up': must be one of 'stochastic', 'neare"):
        resolve({"rounding": "up"})
    with pytest.raises(ParameterError, match="device=3"):
        resolve({"device": 3})


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("auc", ("auc",)),
        (["auc", "logloss"], ("auc", "logloss")),
        (("auc", "binary_logloss", "auc"), ("auc", "logloss")),
        ({"logloss", "error", "auc"}, ("auc", "error", "logloss")),  # a set has no order
        ("None", ("None",)),
        (["none"], ("None",)),
    ],
)
def test_metrics(value: object, found: tuple[str, ...]) -> None:
    assert resolve({"metric": value, "objective": "binary"}).eval_metric == found


@pytest.mark.parametrize(
    "value", ["nope", [], "", 3, ["auc", 3], ["auc", "None"], "ndcg@0", "ndcg@", "auc@3", "ndcg@x"]
)
def test_unknown_metrics(value: object) -> None:
    with pytest.raises(ParameterError, match=r"eval_metric=.*must be a name, a function"):
        resolve({"eval_metric": value})


def test_stopping_needs_a_metric() -> None:
    with pytest.raises(ParameterError, match="early_stopping_rounds: needs a metric"):
        resolve({"objective": "binary", "metric": "None", "early_stopping_rounds": 3})


def test_a_metric_must_fit_the_objective() -> None:
    for metric, kind in METRICS.items():
        for objective in OBJECTIVES:
            request = {"objective": objective, "eval_metric": metric}
            if OBJECTIVES[objective].predicts in kind.judges:
                assert resolve(request).eval_metric == (metric,)
            else:
                with pytest.raises(ParameterError, match=f"eval_metric='{metric}' cannot judge"):
                    resolve(request)
    assert resolve({"objective": "lambdarank", "metric": "ndcg@10"}).eval_metric == ("ndcg@10",)


def test_label_gain() -> None:
    for value in ([0, 1, 3], (0.0, 1.0, 3.0), np.array([0, 1, 3])):
        found = resolve({"objective": "lambdarank", "label_gain": value}).label_gain
        assert found == (0.0, 1.0, 3.0)
    for bad in ([], [0, -1], [0, math.nan], ["1"], 3, np.zeros((2, 2))):
        with pytest.raises(ParameterError, match="label_gain="):
            resolve({"label_gain": bad})


@pytest.mark.parametrize(
    ("name", "value", "objective"),
    [
        ("num_class", 3, "binary"),
        ("num_class", 2, "regression"),
        ("scale_pos_weight", 2.0, "multiclass"),
        ("sigmoid", 2.0, "regression"),
        ("label_gain", [0, 1], "binary"),
        ("lambdarank_norm", False, "binary"),
    ],
)
def test_what_the_objective_would_ignore_is_refused(
    name: str, value: object, objective: str
) -> None:
    with pytest.raises(
        ParameterError, match=f"{name}=.*has no meaning for objective='{objective}'"
    ):
        resolve({name: value, "objective": objective})
    fitting = objective_for(BY_NAME[name])
    assert getattr(resolve({name: value, "objective": fitting}), name) is not None


def test_model_params_are_json_and_leave_out_what_cannot_change_the_model() -> None:
    params = resolve(
        {"objective": "lambdarank", "label_gain": [0, 1], "metric": "ndcg", "n_jobs": 2}
    )
    kept = model_params(params)
    assert set(BY_NAME) - set(kept) == NEVER_IN_THE_MODEL
    assert resolve(json.loads(json.dumps(kept, allow_nan=False))) == dataclasses.replace(
        params, n_jobs=None
    )


def test_every_parameter_is_documented_once() -> None:
    page = render_markdown()
    for p in PARAMETERS:
        assert page.count(f'<a id="{p.name}"></a>\n### {p.name}\n') == 1
        section = page.split(f"\n### {p.name}\n")[1].split("\n<a id=")[0]
        assert linked(p.doc) in section and p.allowed in section.replace("`", "'")
        assert f"default: `{p.default!r}`" in section
        assert all(f"`{alias}`" in section for alias in p.aliases)
        assert p.doc.endswith(".")


def test_every_default_has_its_reason() -> None:
    page = render_markdown()
    assert list(REASONS) == list(BY_NAME)
    for name, reason in REASONS.items():
        assert reason.endswith(".") and f"`{BY_NAME[name].default!r}`. {linked(reason)}" in page


def test_the_committed_page_is_current() -> None:
    assert DOCS_PAGE.read_text(encoding="utf-8") == render_markdown()


def test_the_module_prints_the_page() -> None:
    command = [sys.executable, "-m", "bitgrove.params"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    assert printed.stdout == render_markdown()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Quantile", {"objective": "quantile", "quantile_alpha": 0.5}),  # CatBoost's default
        ("Quantile:alpha=0.9", {"objective": "quantile", "quantile_alpha": 0.9}),
        ("quantile:alpha=0.2", {"objective": "quantile", "quantile_alpha": 0.2}),
        ("MultiQuantile:alpha=0.1, 0.9", {"objective": "quantile", "quantile_alpha": [0.1, 0.9]}),
        ("MAPE", {"objective": "mape"}),
        ("Huber:delta=2", {"objective": "huber", "huber_delta": 2}),
        ("Tweedie:variance_power=1.3", {"objective": "tweedie", "tweedie_variance_power": 1.3}),
        ("Expectile:alpha=0.2", {"objective": "expectile", "expectile_alpha": 0.2}),
        ("Expectile", {"objective": "expectile", "expectile_alpha": 0.5}),
        (
            "Focal:focal_alpha=0.3;focal_gamma=1",
            {"objective": "focal", "focal_alpha": 0.3, "focal_gamma": 1},
        ),
    ],
)
def test_an_objective_with_settings_in_its_name(written: str, meant: dict[str, object]) -> None:
    assert resolve({"loss_function": written}) == resolve(meant)


def test_settings_in_a_name_are_checked() -> None:
    with pytest.raises(ParameterError, match="unknown parameter 'beta'; 'quantile' has alpha, "):
        resolve({"objective": "Quantile:beta=0.9"})
    with pytest.raises(ParameterError, match="unknown parameter 'beta', 'gamma'; 'quantile'"):
        resolve({"objective": "Quantile:beta=0.9;alpha=0.9;gamma=1"})
    with pytest.raises(ParameterError, match="unknown parameter 'delta'; 'mape' has none"):
        resolve({"objective": "MAPE:delta=2"})
    with pytest.raises(ParameterError, match="quantile_alpha='much': must be"):
        resolve({"objective": "Quantile:alpha=much"})
    with pytest.raises(ParameterError, match="objective='Lq:q=3': must be one of"):
        resolve({"objective": "Lq:q=3"})
    with pytest.raises(ParameterError, match="'alpha' and 'quantile_alpha' are the same"):
        resolve({"objective": "Quantile:alpha=0.2", "alpha": 0.3})
    with pytest.raises(ParameterError, match="not together with huber_delta"):
        resolve({"objective": "Huber:delta=2", "huber_delta": 3})
    assert resolve({"objective": "Huber:delta=2", "huber_delta": 2.0}).huber_delta == 2.0


def test_metrics_as_catboost_writes_them() -> None:
    names = ["RMSE", "Quantile:alpha=0.9", "Huber:delta=2", "Tweedie:variance_power=1.3", "MAPE"]
    found = resolve({"objective": "regression", "eval_metric": names}).eval_metric
    assert found == ("rmse", "quantile@0.9", "huber@2", "tweedie@1.3", "mape")
    assert resolve({"objective": "binary", "eval_metric": "AUC"}).eval_metric == ("auc",)
    with pytest.raises(ParameterError, match="unknown parameter 'beta'; 'quantile' has alpha"):
        resolve({"objective": "regression", "eval_metric": "Quantile:beta=0.9"})
    with pytest.raises(ParameterError, match="'auc' has none"):
        resolve({"objective": "binary", "eval_metric": "AUC:type=Mu"})
    with pytest.raises(ParameterError, match="eval_metric='Quantile:alpha=2': must be"):
        resolve({"objective": "regression", "eval_metric": "Quantile:alpha=2"})


def test_what_was_resolved_can_be_resolved_again() -> None:
    once = resolve({"num_leaves": 7})
    assert resolve(once) == once
    assert resolve(TrainParams()) == TrainParams()
    with pytest.raises(ParameterError, match="num_leaves=1"):
        resolve(TrainParams(num_leaves=1))


def test_parameters_of_a_model_are_its_own() -> None:
    complete_params({})["quantile_alpha"].append(0.1)
    assert complete_params({})["quantile_alpha"] == [0.9]
