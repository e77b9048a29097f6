"""What of a docstring the site shows: the parameters of an estimator once, not for Dask again."""

from __future__ import annotations

from typing import Any


def _without_parameters(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    if what == "class" and name.startswith("bitgrove.dask.") and "Parameters" in lines:
        del lines[lines.index("Parameters") :]


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _without_parameters, priority=400)  # before numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
