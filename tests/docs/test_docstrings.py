"""The reference: every public name has a page and words, and the examples in them run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from types import ModuleType
from typing import Any

import pytest
from pages import DOCS

MODULES = ["bitgrove", "bitgrove.callbacks", "bitgrove.dask", "bitgrove.distributed",
           "bitgrove.plotting", "bitgrove.theory"]  # fmt: skip
REFERENCE = "\n".join(page.read_text() for page in sorted((DOCS / "api").glob("*.md")))


def public_names(module: ModuleType) -> dict[str, Any]:
    """What a module offers: its `__all__`, or else what it defines itself."""
    listed = getattr(module, "__all__", None)
    names = listed or [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__
    ]
    return {name: getattr(module, name) for name in names if not name.startswith("__")}


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


# Helpers of a module without __all__, and a type that stands for a shape of records.
INTERNAL = {"deciding", "scores_by_name", "Callback", "BitsRow"}


def test_every_public_name_has_its_place(module: ModuleType) -> None:
    shown = set(re.findall(r"^\.\. auto\w+:: (\S+)$", REFERENCE, flags=re.MULTILINE))
    for name in public_names(module).keys() - INTERNAL:
        ways = {f"{module.__name__}.{name}", f"bitgrove.{name}"}
        assert shown & ways, f"docs/api shows nowhere {module.__name__}.{name}"


def test_every_public_name_has_words(module: ModuleType) -> None:
    for name, thing in public_names(module).items():
        assert inspect.getdoc(thing), name
        if not inspect.isclass(thing):
            continue
        for attribute, value in vars(thing).items():
            if inspect.isfunction(value) and not attribute.startswith("_"):
                assert inspect.getdoc(getattr(thing, attribute)), f"{name}.{attribute}"


def test_examples(module: ModuleType) -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name, thing in public_names(module).items():
        for example in finder.find(thing, name, module=False, globs=dict(vars(module))):
            heard: list[str] = []
            doctest.DocTestRunner().run(example, out=heard.append)
            assert not heard, "".join(heard)
