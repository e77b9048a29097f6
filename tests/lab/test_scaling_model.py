"""The model of Figure 4: its arithmetic, on made points and on the measured ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.experiments import scaling_forecast as forecasts
from lab.experiments import scaling_model as model
from lab.experiments.scaling_model import Coefficients, Link, Load, Point

COMPUTE = {True: np.array([1e-9, 5e-9, 3e-9, 8e-9]), False: np.array([2e-9, 6e-9, 4e-9, 9e-9])}
MESSAGE = {2: np.array([0.5, 0.2]), 4: np.array([0.7, 0.2]), None: np.array([9.0, 0.25])}
COMM = np.array([40e-6, 3e-6, 2e-9, 0.5e-9, 0.7, 1.1])
KNOWN = Coefficients(COMPUTE, MESSAGE, COMM)
LINKS = (Link(float("inf"), 20e-6), Link(9e8, 2e-4, True), Link(1.25e8, 2e-4, True))


def made_points(noise: float = 0.0) -> list[Point]:
    """What a machine with the known coefficients would measure."""
    rng, points = np.random.default_rng(0), []
    for shape, rows, features, histograms, rounds in (
        ("wide", 20_000, 2000, 31, 8), ("long", 500_000, 60, 255, 15), ("small", 9_000, 10, 63, 11),
    ):  # fmt: skip
        for ranks in (1, 2, 4):
            load = Load(ranks=ranks, rounds=rounds, collectives=4.0 + 3 * (rounds + 1), bytes=0.0,
                        crowd=max(1.0, ranks / 2), rows=rows, features=features,
                        bins=200 * features, histograms=histograms, built_rows=3.1 * rows,
                        bin_bits=float(np.log2(1 + rows / ranks / 2000)))  # fmt: skip
            for bits in (2, 4, None):
                full = KNOWN.with_bytes(load, bits)
                for link in LINKS:
                    error = 1.0 + noise * rng.standard_normal(2)
                    points.append(Point(shape, bits, full, link,
                                        error[0] * KNOWN.compute_seconds(full, bits),
                                        error[1] * KNOWN.comm_seconds(full, link)))  # fmt: skip
    return points


def test_the_fit_finds_the_coefficients_that_made_the_points() -> None:
    found = model.fit(made_points())
    for kind in (True, False):
        np.testing.assert_allclose(found.compute[kind], COMPUTE[kind], rtol=1e-6)
    for bits in (2, 4, None):
        np.testing.assert_allclose(found.message[bits], MESSAGE[bits], rtol=1e-6)
    np.testing.assert_allclose(found.comm, COMM, rtol=1e-6)
    errors = model.relative_errors(found, made_points())
    assert all(np.abs(values).max() < 1e-9 for values in errors.values())


def test_noise_of_a_tenth_stays_about_a_tenth_on_points_left_out() -> None:
    points = made_points(noise=0.1)
    by_shape = model.left_out_errors(points, lambda point: point.shape)
    assert set(by_shape) == {"wide", "long", "small"}
    for errors in by_shape.values():
        assert 0.01 < np.median(np.abs(errors["comm"])) < 0.2


def test_a_wrong_model_is_seen_in_the_error_of_what_it_has_not_seen() -> None:
    points = [replace(p, comm=2 * p.comm) if p.shape == "wide" else p for p in made_points()]
    errors = model.left_out_errors(points, lambda point: point.shape)["wide"]["comm"]
    np.testing.assert_allclose(errors, -0.5, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(ranks=st.integers(1, 8).map(lambda k: 2**k), bandwidth=st.floats(1e7, 1e11),
       trip=st.floats(1e-6, 1e-2))  # fmt: skip
def test_slower_links_and_more_ranks_never_cost_less(
    ranks: int, bandwidth: float, trip: float
) -> None:
    load = KNOWN.with_bytes(model.spread(made_points()[0].load, ranks, 1e6, 2000), 2)
    seconds = KNOWN.comm_seconds(load, Link(bandwidth, trip))
    assert seconds <= KNOWN.comm_seconds(load, Link(bandwidth / 2, trip))
    assert seconds <= KNOWN.comm_seconds(load, Link(bandwidth, 2 * trip))
    crowded = replace(load, crowd=2.0)
    assert seconds < KNOWN.comm_seconds(crowded, Link(bandwidth, trip))
    more = KNOWN.with_bytes(model.spread(load, 2 * ranks, 1e6, 2000), 2)
    assert KNOWN.compute_seconds(more, 2) > 0.5 * KNOWN.compute_seconds(load, 2)


def test_spreading_a_tree_keeps_its_shape() -> None:
    load = made_points()[0].load
    other = model.spread(load, 16, 32 * load.rows, 2 * load.features)
    assert (other.ranks, other.rows, other.bins) == (16, 32 * load.rows, 2 * load.bins)
    assert other.built_rows == 32 * load.built_rows and other.histograms == load.histograms
    rows_in_a_bin = [2**bits - 1 for bits in (load.bin_bits, other.bin_bits)]
    assert rows_in_a_bin[1] == pytest.approx(2 * rows_in_a_bin[0])  # twice the rows on each rank
    assert other.crowd == 1.0


def test_the_measured_points_are_whole_and_the_model_fits_them() -> None:
    origin, points = model.measured()
    assert "lab bench scaling" in origin
    fitted = [point for point in points if not point.check]
    assert {p.load.ranks for p in fitted} == {1, 2, 4}
    assert {p.bits for p in fitted} == {2, 4, None}
    assert {p.link.bandwidth for p in fitted} == {float("inf"), 7.5e9 / 8, 1e9 / 8}
    for point in fitted:
        if point.load.ranks > 1:  # what spread() takes for granted
            expected = model.spread(point.load, 2, 1, 1).collectives
            assert point.load.collectives == pytest.approx(expected, rel=0.2)
    errors = model.relative_errors(model.fit(fitted), fitted)
    assert np.median(np.abs(errors["comm"])) < 0.2 and np.median(np.abs(errors["compute"])) < 0.2
    assert np.abs(errors["bytes"]).max() < 0.3


@pytest.mark.parametrize("target", forecasts.TARGETS, ids=lambda target: target.title)
def test_forecasts_compute_less_and_float_messages_cost_more(
    target: forecasts.Target,
) -> None:
    _, points = model.measured()
    integers = forecasts.forecast(points, target, 2, forecasts.PAPER_LINK)
    floats = forecasts.forecast(points, target, 2, forecasts.PAPER_LINK, floats=True)
    assert integers[0][1] == 0.0  # one machine has nobody to speak to
    assert integers[4][0] < integers[0][0] / 4
    assert all(few[1] < many[1] for few, many in zip(integers[1:], floats[1:], strict=True))
