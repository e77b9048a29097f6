"""`bitgrove demo`: the same training at full precision and at 5, 4, 3 and 2 bits.

This room owns the demonstration: it makes data with data.py, trains through
the public API, prints one table on stdout and writes a model file, a report
and a picture into a folder. Progress goes to stderr.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from bitgrove.cli.demo.data import HIGGS_FEATURES, make_higgs_like
from bitgrove.data.dataset import Dataset
from bitgrove.model.model import Model
from bitgrove.training.train import train

BITS: tuple[int | None, ...] = (None, 5, 4, 3, 2)
_KEPT_BITS = 4  # the library's default: the model that is written to the folder


@dataclass(frozen=True)
class DemoRow:
    """One line of the table; bits is None at full precision."""

    bits: int | None
    seconds: float
    auc: float
    rounds_per_tree: float
    accumulator_widths: dict[str, int]
    digest: str


def run_demo(
    out: str | Path = "bitgrove_demo",
    *,
    n_train: int = 500_000,
    n_test: int = 100_000,
    n_estimators: int = 50,
    progress: bool | None = None,
) -> list[DemoRow]:
    """Train at each precision, print the table, write the model and the picture into `out`."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    progress = sys.stderr.isatty() if progress is None else progress
    params = {
        "objective": "binary", "n_estimators": n_estimators, "num_leaves": 63, "progress": progress,
    }  # fmt: skip
    _say(f"Making {n_train:,} rows to train on and {n_test:,} to test on, 28 features each ...")
    X, y = make_higgs_like(n_train + n_test, seed=7)
    train_set = Dataset(X[:n_train], y[:n_train], feature_names=list(HIGGS_FEATURES))
    # The first tree bins the features. The Dataset keeps the bins, so no run below pays for them.
    train({**params, "n_estimators": 1, "progress": False}, train_set)

    rows = []
    for bits in BITS:
        _say(f"Training {n_estimators} trees {_precision(bits)} ...")
        row, model = _run(params, bits, train_set, X[n_train:], y[n_train:])
        rows.append(row)
        if bits == _KEPT_BITS:
            model.save(folder / "model.bitgrove")
            _say("Writing a report of it ...")
            title = f"Signal or background, in {bits} bits"
            model.report(folder / "report.html", X[n_train:], y[n_train:], title=title)
    print(f"\n{render(rows)}\n")
    _report_files(folder, _draw(rows, folder / "bits.png"))
    return rows


def render(rows: Sequence[DemoRow]) -> str:
    """The table as text, one line per precision."""
    lines = ["bits  seconds  test AUC  rounds/tree  model digest  accumulator widths used"]
    for row in rows:
        lines.append(
            f"{row.bits or 'full':>4}  {row.seconds:7.2f}  {row.auc:8.5f}  "
            f"{row.rounds_per_tree:11.1f}  {row.digest[:12]:<12}  {_shares(row.accumulator_widths)}"
        )
    return "\n".join(lines)


def _run(
    params: dict[str, object],
    bits: int | None,
    train_set: Dataset,
    X_test: NDArray[np.float32],
    y_test: NDArray[np.float32],
) -> tuple[DemoRow, Model]:
    start = time.perf_counter()
    model = train({**params, "gradient_bits": bits}, train_set)
    seconds = time.perf_counter() - start
    assert model.info is not None, "a model that was just trained has its record"
    row = DemoRow(
        bits=bits,
        seconds=seconds,
        auc=float(roc_auc_score(y_test, model.predict(X_test))),
        rounds_per_tree=float(np.mean(model.info.rounds_per_tree)),
        accumulator_widths=dict(model.info.accumulator_widths),
        digest=model.digest(),
    )
    return row, model


def _shares(widths: dict[str, int]) -> str:
    """Part of the histograms summed in each width: '8-bit 12%, 16-bit 88%'."""
    total = sum(widths.values())
    used = sorted((int(width), count) for width, count in widths.items() if count)
    shares = [(width, count / total) for width, count in used]
    return ", ".join(f"{w}-bit {'<1%' if part < 0.01 else f'{part:.0%}'}" for w, part in shares)


def _precision(bits: int | None) -> str:
    return "at full precision" if bits is None else f"with {bits}-bit gradients"


def _draw(rows: Sequence[DemoRow], path: Path) -> Path | None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    from bitgrove.plotting import plot_bits

    plot_bits(rows, figure=Figure(figsize=(9, 3.8))).savefig(path, dpi=150)
    return path


def _report_files(folder: Path, picture: Path | None) -> None:
    model = folder / "model.bitgrove"
    print(f"Model ({_KEPT_BITS} bits)  {model}")
    print(f"Report          {folder / 'report.html'}: open it in a browser, at")
    print(f"                {(folder / 'report.html').absolute().as_uri()}")
    if picture is not None:
        print(f"Picture         {picture}")
    else:
        print("Picture         not drawn: it needs matplotlib (pip install bitgrove[plot])")
    print(
        "\nSeconds are for training alone. Run it again with any number of threads: the digests\n"
        "stay the same.\n"
        "\nNext:\n"
        f"  bitgrove info {model}\n"
        "  bitgrove train --data yours.csv --label y --objective binary --model yours.bitgrove\n"
        f'  python -c "import bitgrove; print(bitgrove.load({str(model)!r}))"'
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
