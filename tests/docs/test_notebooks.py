"""The notebooks run from top to bottom, print what they hold, and hold what the site shows.

Their cells are run in this process: what Jupyter adds is only how things are drawn.
`make notebooks` runs them in Jupyter and writes the outputs.
"""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pages import DOCS

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
TELLS_OF_THE_MACHINE = "gpu"  # its devices and its seconds


def kept(cell: dict[str, Any]) -> str:
    """What the cell printed when the notebook was written."""
    streams = [o for o in cell["outputs"] if o["output_type"] == "stream" and o["name"] == "stdout"]
    return "".join(line for stream in streams for line in stream["text"])


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__notebook__"}
    with plt.rc_context({"backend": "agg"}):
        for number, cell in enumerate(code_cells(path), start=1):
            source = "".join(cell["source"])
            with redirect_stdout(StringIO()) as printed:
                exec(compile(source, f"{path.name}, code cell {number}", "exec"), names)
            if path.stem != TELLS_OF_THE_MACHINE:
                assert printed.getvalue() == kept(cell), f"code cell {number}"
        plt.close("all")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_holds_its_outputs(path: Path) -> None:
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs and all(output["output_type"] != "error" for output in outputs)


def test_there_are_five() -> None:
    assert len(NOTEBOOKS) == 5
