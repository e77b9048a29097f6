"""C source: compiled as C and C++, it gives the bits of our predictions."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.model.exchange import FORMATS, Outgoing
from exchange_cases import predicted, random_model, random_rows, trained

COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off"]


def compiled(model: bg.Model, folder: Path, *flags: str, **how: Any) -> Any:
    source = folder / "model.c"
    source.write_bytes(FORMATS["c"].write(Outgoing(model, **how)))
    assert COMPILER is not None
    words = [COMPILER, "-O0", *STRICT, *flags, "-shared", "-fPIC", "-o", str(folder / "model.so")]
    subprocess.run([*words, str(source)], check=True)
    return ctypes.CDLL(str(folder / "model.so"))


def rows_of(function: Any, model: bg.Model, table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    table = np.ascontiguousarray(table, dtype=np.float64)
    found = np.empty((len(table), model.n_outputs))
    pointer = ctypes.POINTER(ctypes.c_double)
    for row, out in zip(table, found, strict=True):
        function(row.ctypes.data_as(pointer), out.ctypes.data_as(pointer))
    return found if model.n_outputs > 1 else found[:, 0]


@pytest.mark.parametrize(
    "name", ["early stopping", "several targets", "poisson", "categories", "text", "slope"]
)
def test_the_same_bits(name: str, tmp_path: Path) -> None:
    case = trained(name)
    library, table = compiled(case.model, tmp_path), case.table
    np.testing.assert_array_equal(
        rows_of(library.bitgrove_predict, case.model, table), case.expected(table)
    )
    raw = rows_of(library.bitgrove_scores, case.model, table)
    np.testing.assert_array_equal(raw, case.expected(table, raw_score=True))


@pytest.mark.parametrize("seed", [3, 4])
def test_random_models(seed: int, tmp_path: Path) -> None:
    model = random_model(seed, "multiclass", 3)
    rows = random_rows(model, seed)
    found = rows_of(compiled(model, tmp_path).bitgrove_predict, model, rows)
    np.testing.assert_array_equal(found, predicted(model, rows))


def test_every_link(tmp_path: Path) -> None:
    case = trained("quantiles")
    crossing = bg.Model("quantile", case.model.trees, case.model.base_score,
                        case.model.feature_names, {"non_crossing": True})  # fmt: skip
    found = rows_of(compiled(crossing, tmp_path).bitgrove_predict, crossing, case.X)
    np.testing.assert_array_equal(found, crossing.predict(case.X))
    several = trained("multiclass")
    ova = bg.Model("multiclassova", several.model.trees, several.model.base_score,
                   several.model.feature_names, {"num_class": several.model.n_outputs})  # fmt: skip
    (tmp_path / "ova").mkdir()
    library = compiled(ova, tmp_path / "ova", "-DBITGROVE_NAME(x)=ova_##x")
    np.testing.assert_array_equal(
        rows_of(library.ova_predict, ova, several.X), ova.predict(several.X)
    )


def test_levels_are_found_by_their_text(tmp_path: Path) -> None:
    case = trained("text")
    library = compiled(case.model, tmp_path)
    texts = case.model.encoder.levels[1].values.tolist()
    assert [library.bitgrove_level(1, text.encode()) for text in texts] == list(range(len(texts)))
    assert library.bitgrove_level(1, b"nowhere") == -1
    assert library.bitgrove_level(0, b"bern") == library.bitgrove_level(99, b"bern") == -1


def test_names_stay_names(tmp_path: Path) -> None:
    """A feature or level cannot end a comment or a string."""
    names = ['*/ int evil; /* "', "??/", "\\", "a\nb", "é"]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    data = bg.Dataset(X, X[:, 0], feature_names=names)
    model = bg.train({"objective": "regression", "n_estimators": 2}, data)
    source = FORMATS["c"].write(Outgoing(model))
    assert source.isascii() and b"evil; /*" not in source
    found = rows_of(compiled(model, tmp_path).bitgrove_predict, model, X)
    np.testing.assert_array_equal(found, model.predict(X))
