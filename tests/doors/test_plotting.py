"""Plots: what is drawn, the labels, and the messages when there is nothing to draw."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

import bitgrove  # noqa: E402
from bitgrove.cli.demo import DemoRow  # noqa: E402
from bitgrove.errors import DataError  # noqa: E402
from bitgrove.plotting import (  # noqa: E402
    plot_bits,
    plot_importance,
    plot_metric,
    plot_split_value_histogram,
    plot_split_values,
    plot_tree,
)

RESULTS = {
    "train": {"auc": [0.7, 0.8, 0.85], "logloss": [0.6, 0.5, 0.4]},
    "valid": {"auc": [0.69, 0.75, 0.74], "logloss": [0.61, 0.55, 0.56]},
}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def fake_model(importance=(3.0, 0.0, 7.0)):
    return SimpleNamespace(
        info=SimpleNamespace(evals_result=RESULTS),
        best_iteration=2,
        feature_names=["a", "b", "c"],
        feature_importance=lambda kind: np.array(importance),
    )


def row(bits, auc=0.8, seconds=1.0):
    return DemoRow(bits, seconds, auc, 8.0, {"16": 1}, "0" * 64)


def line_labels(ax):
    return [line.get_label() for line in ax.get_lines()]


def test_metric_draws_one_line_per_set():
    ax = plot_metric(RESULTS)
    assert line_labels(ax) == ["train", "valid"]
    np.testing.assert_array_equal(ax.get_lines()[1].get_ydata(), RESULTS["valid"]["auc"])
    np.testing.assert_array_equal(ax.get_lines()[1].get_xdata(), [1, 2, 3])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("iteration", "auc")


def test_metric_chosen_by_name_on_given_axes():
    _, mine = plt.subplots()
    ax = plot_metric(RESULTS, "logloss", ax=mine)
    assert ax is mine
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), RESULTS["train"]["logloss"])


def test_metric_of_model_and_estimator_marks_best_iteration():
    for source in (fake_model(), SimpleNamespace(model_=fake_model())):
        ax = plot_metric(source)
        assert line_labels(ax)[-1] == "best iteration (2)"
        assert ax.get_lines()[-1].get_xdata()[0] == 2


def test_metric_unknown_or_unrecorded():
    with pytest.raises(DataError, match=r"'rmse' was not recorded; there is auc, logloss"):
        plot_metric(RESULTS, "rmse")
    with pytest.raises(DataError, match="validation data"):
        plot_metric({})
    with pytest.raises(DataError, match="model file does not keep it"):
        plot_metric(SimpleNamespace(info=None, best_iteration=None))


def test_importance_is_sorted_and_leaves_out_zeros():
    ax = plot_importance(fake_model())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["c", "a"]
    assert [bar.get_width() for bar in ax.patches] == [7.0, 3.0]
    assert ax.get_xlabel() == "total gain"
    assert "2 of 3" in ax.get_title()
    assert ax.yaxis_inverted()


def test_importance_limits_and_refuses_empty():
    assert len(plot_importance(fake_model(), "split", max_features=1).patches) == 1
    with pytest.raises(DataError, match="no split"):
        plot_importance(fake_model((0.0, 0.0, 0.0)))


def test_bits_draws_both_panels_with_reference():
    rows = [row(None, 0.84, 3.0), row(4, 0.839, 2.0), row(2, 0.83, 1.0)]
    figure = plot_bits(rows)
    accuracy, seconds = figure.axes
    np.testing.assert_array_equal(accuracy.get_lines()[0].get_xdata(), [2, 4])
    np.testing.assert_array_equal(accuracy.get_lines()[0].get_ydata(), [0.83, 0.839])
    np.testing.assert_array_equal(seconds.get_lines()[0].get_ydata(), [1.0, 2.0])
    for ax, value in ((accuracy, 0.84), (seconds, 3.0)):
        assert line_labels(ax) == ["quantized", "full precision"]
        assert ax.get_lines()[1].get_ydata()[0] == value
        assert ax.get_xlabel() == "gradient bits"
    low, high = accuracy.get_ylim()
    assert high - low >= 0.02  # noise in the fourth digit must not fill the panel
    assert seconds.get_ylim()[0] == 0


def test_bits_into_given_figure_without_reference(tmp_path):
    mine = Figure()
    assert plot_bits([row(3)], figure=mine) is mine
    assert line_labels(mine.axes[0]) == ["quantized"]
    mine.savefig(tmp_path / "bits.png")
    assert (tmp_path / "bits.png").read_bytes().startswith(b"\x89PNG")
    assert not plt.get_fignums()


def test_bits_needs_a_quantized_run():
    with pytest.raises(DataError, match="no run has gradient bits"):
        plot_bits([row(None)])


def test_missing_matplotlib_names_the_extra():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from bitgrove.plotting import plot_metric\n"
        "try:\n    plot_metric({'valid': {'auc': [0.5]}})\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "plotting needs matplotlib: pip install bitgrove[plot]"


@pytest.fixture(scope="module")
def grown():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    params = {"objective": "regression", "n_estimators": 2, "num_leaves": 6}
    names = ["$a$", "b" * 60]
    data = bitgrove.Dataset(X, X[:, 0] + np.sign(X[:, 1]), feature_names=names)
    return bitgrove.train(params, data)


def test_a_tree_shows_every_node(grown, tmp_path):
    ax = plot_tree(grown, 1)
    tree = grown.trees[1]
    boxes = [text.get_text() for text in ax.texts if "rows" in text.get_text()]
    assert len(boxes) == tree.n_splits + tree.n_leaves
    for value, rows in zip(tree.leaf_value, tree.leaf_rows, strict=True):
        assert f"{value:.3g}\n{rows} rows" in boxes
    assert len(ax.get_lines()) == len(boxes) - 1
    ax.figure.savefig(tmp_path / "tree.png")  # names are text, not formulas
    few = plot_tree(grown, max_depth=2, ax=ax.figure.add_subplot())
    assert sum("rows" in text.get_text() for text in few.texts) == 3
    with pytest.raises(DataError, match="tree_index=2: the model has 2 trees"):
        plot_tree(grown, 2)
    plt.close("all")


def test_a_tree_without_splits(grown):
    leaf = grown[:0]
    with pytest.raises(DataError, match="0 trees"):
        plot_tree(leaf)


def test_thresholds_of_a_feature(grown):
    ax = plot_split_values(grown, "$a$", bins=4)
    counts, _ = grown.get_split_value_histogram(0, 4)
    assert [bar.get_height() for bar in ax.patches] == counts.tolist()
    with pytest.raises(DataError, match="features are"):
        plot_split_value_histogram(grown, "c")
    plt.close("all")


def test_importance_by_cover(grown):
    ax = plot_importance(grown, "cover")
    assert max(bar.get_width() for bar in ax.patches) == grown.feature_importance("cover").max()
    plt.close("all")
