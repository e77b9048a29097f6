"""What the record of a training costs, beside binning and beside the trees.

One line per shape and type; seconds are the least of the repeats. The exit status is 1 if the
fingerprint of the same values depends on their type.

    python -m lab bench calls fingerprint --shapes 1000000x28 --trees 100
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.benchmarks.calls import parser
from lab.benchmarks.calls.binning import make_table, time_training
from lab.reporting import machine, markdown_table

STEPS = ("fingerprint", "bin", "train")


def main(words: Sequence[str]) -> int:
    words_of = parser("fingerprint")
    words_of.add_argument("--shapes", nargs="*", default=["1000000x28"], metavar="ROWSxFEATURES")
    words_of.add_argument("--device", default="cpu")
    words_of.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    words_of.add_argument("--trees", type=int, default=100)
    options = words_of.parse_args(words)
    print(f"machine: {machine(options.device)}\n", flush=True)
    lines, same = [], True
    for shape in options.shapes:
        table, found = make_table(shape, "C", np.float32), set()
        for dtype in (np.float32, np.float64):
            X = table.astype(dtype)
            y = (X[:, 0] + X[:, -1] > 0).astype(float)
            runs = [
                time_training(X, y, options.device, options.trees) for _ in range(options.repeats)
            ]
            found |= {model.record.rows for _, model in runs}
            seconds = [min(model.info.seconds[step] for _, model in runs) for step in STEPS]
            share = seconds[0] / sum(seconds)
            cells = [f"{value:.3f}" for value in seconds]
            lines.append([shape, np.dtype(dtype).name, *cells, f"{share:.1%}"])
        same &= len(found) == 1
    header = ["table", "type", *STEPS, "share"]
    print(markdown_table(header, lines) + "\nsame: " + ("yes" if same else "NO"))
    return int(not same)
