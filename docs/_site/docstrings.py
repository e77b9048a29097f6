"""What of a docstring the site shows: the parameters of an estimator once, not for Dask again."""

from __future__ import annotations

from typing import Any


def _without_parameters(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    if what == "class" and name.startswith("bitgrove.dask.") and "Parameters" in lines:
        del lines[lines.index("Parameters") :]


def _short_signature(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Estimators have some seventy keywords, which the table below them explains."""
    if what == "class" and name.rpartition(".")[2].startswith("BitGrove"):
        return "(**parameters)", ""
    return None


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _without_parameters, priority=400)  # before numpydoc
    app.connect("autodoc-process-signature", _short_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
