"""Export, import and convert: how formats are chosen, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.cli.main import main
from bitgrove.model.exchange import FORMATS
from exchange_cases import trained

ENDS = {".txt": "lightgbm", ".json": "xgboost", ".ubj": "xgboost_ubj", ".onnx": "onnx", ".c": "c"}


def fitted() -> bg.BitGroveRegressor:
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    return bg.BitGroveRegressor(n_estimators=3).fit(X, X[:, 0])


@pytest.mark.parametrize(("end", "format"), ENDS.items())
def test_the_end_of_the_name_tells_the_format(end: str, format: str, tmp_path: Path) -> None:
    one, other = tmp_path / f"model{end}", tmp_path / "model.any"
    estimator = fitted()
    estimator.export(one)
    estimator.model_.export(str(other), format=format)
    assert one.read_bytes() == other.read_bytes()
    if FORMATS[format].can_read:
        X = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
        back = bg.import_model(other)
        np.testing.assert_allclose(back.predict(X), estimator.predict(X), rtol=1e-5)


def test_the_name_of_a_library_and_the_end_of_the_path(tmp_path: Path) -> None:
    fitted().export(tmp_path / "a.ubj", "xgboost")
    fitted().export(tmp_path / "a.model", "xgboost")
    assert (tmp_path / "a.ubj").read_bytes()[:2] == b"{L"
    assert (tmp_path / "a.model").read_bytes()[:2] == b'{"'


def test_estimators_from_files_of_others(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    one = bg.BitGroveClassifier(n_estimators=3).fit(X, np.where(X[:, 0] > 0, "up", "down"))
    one.export(tmp_path / "model.txt")
    other = bg.BitGroveClassifier.from_model(tmp_path / "model.txt")
    assert other.predict(X).tolist() == one.predict(X).tolist()


def test_unknown_formats(tmp_path: Path) -> None:
    with pytest.raises(bg.ParameterError, match=r"format='pmml': allowed are 'bitgrove', 'c'"):
        fitted().export(tmp_path / "model.txt", "pmml")
    with pytest.raises(bg.ParameterError, match="does not tell the format"):
        fitted().export(tmp_path / "model.bin")
    assert list(tmp_path.iterdir()) == []


def test_our_own_file_is_a_format_too(tmp_path: Path) -> None:
    model = fitted().model_
    model.export(tmp_path / "model.bitgrove")
    assert (
        bg.import_model(tmp_path / "model.bitgrove")
        == model
        == bg.load(tmp_path / "model.bitgrove")
    )


def test_import_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_bytes(b"tree\nnothing else\n")
    with pytest.raises(bg.ModelFormatError, match=r"model\.txt: lightgbm: "):
        bg.import_model(tmp_path / "model.txt")
    with pytest.raises(FileNotFoundError):
        bg.import_model(tmp_path / "none.txt")


def test_tables_for_exported_models() -> None:
    case = trained("text")
    table = case.model.exported_table(case.X)
    levels = case.model.encoder.levels
    assert [levels[1].values[int(c)] for c in table[:5, 1]] == case.X["city"][:5].tolist()
    assert table[:5, 4].tolist() == case.X["small"][:5].astype(float).tolist()
    strange = case.X[:3].assign(city=["nowhere", None, "bern"])
    cells = case.model.exported_table(strange)[:, 1]
    assert cells[0] == -1 and np.isnan(cells[1]) and cells[2] >= 0
    with pytest.raises(bg.DataError, match="columns"):
        case.model.exported_table(case.X.rename(columns={"a b": "other"}))


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = fitted().model_
    model.save(tmp_path / "model.bitgrove")
    words = [str(tmp_path / name) for name in ("model.bitgrove", "model.txt", "back.bitgrove")]
    assert main(["convert", words[0], words[1]]) == 0
    assert main(["convert", words[1], words[2]]) == 0
    assert bg.load(words[2]) == model
    assert "written to" in capsys.readouterr().out
    assert main(["convert", words[0], str(tmp_path / "m.x"), "--format", "onnx", "--raw"]) == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["model.bitgrove", "model.xyz"], "does not tell the format"),
        (["model.bitgrove", "model.bitgrove"], "is also an input"),
        (["model.bitgrove", "m.txt", "--format", "pmml"], "allowed are"),
        (["nothing.txt", "m.txt"], "No such file"),
    ],
)
def test_convert_refuses(
    words: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    fitted().model_.save("model.bitgrove")
    assert main(["convert", *words]) == 2
    assert reason in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.bitgrove"]
