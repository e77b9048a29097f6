"""Tables of strangers at the command line: exit code 0, or 2 and one line; no fault of ours."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from pathlib import Path

import numpy as np

from bitgrove.cli.main import main

_SEEDS = [  # the delimiter is the first character that is no letter
    b"a,b,c,y\n" + b"".join(b"%d,%d.5,x%d,%d\n" % (i, i % 7, i % 3, i % 2) for i in range(30)),
    b"a;b;y\n1;2;0\n;3;1\n4;;0\n5;6;1\n7;8;0\n9;9;1\n",
    b'a,"b b","y"\n"1","2.5",1\n"3","4",0\n,,1\n',
    b"a\ty\n1\t0\n2\t1\n3\t0\n",
]
_PIECES = [b",", b"\n", b'"', b"\r\n", b"\0", b"nan", b"inf", b"-", b"1e999", b"\xff\xfe", b"\xc3",
           b";", b"\x1b[2J", b"y", b"a,a", b"\xef\xbb\xbf", b"NULL", b"true", b"9" * 400, b" ",
           b"\t", b"7", b"7"]  # fmt: skip
_OBJECTIVES = ["binary", "regression", "multiclass", "poisson", "lambdarank"]


def one(rng: np.random.Generator) -> bool:
    """Whether a model came of it."""
    data = bytearray(_SEEDS[int(rng.integers(len(_SEEDS)))])
    delimiter = chr(data[1]) if rng.random() < 0.8 else str(rng.choice([";", ",", "\t", "|", ""]))
    for _ in range(int(rng.integers(0, 5))):
        at, piece = int(rng.integers(len(data) + 1)), _PIECES[int(rng.integers(len(_PIECES)))]
        kind = int(rng.integers(3))
        if kind == 0:
            data[at:at] = piece
        elif kind == 1:
            data[at : at + len(piece)] = piece
        else:
            del data[at : at + int(rng.integers(1, 30))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        path.write_bytes(bytes(data))
        words = ["train", "--data", str(path), "--label", "y", "--model", f"{folder}/model",
                 "--objective", str(rng.choice(_OBJECTIVES)), "--n_estimators", "2",
                 "--n_jobs", "1", "--min_child_samples", "1", "--delimiter", delimiter]  # fmt: skip
        if words[8] == "lambdarank" or rng.random() < 0.05:
            words += ["--group", "a"]
        return _run(words, folder)


def _run(words: list[str], folder: str) -> bool:
    out, err = io.StringIO(), io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        warnings.simplefilter("ignore")
        code = main(words)
    said = err.getvalue()
    assert code in (0, 2), said
    if code == 0:
        model = Path(folder) / "model"
        assert model.exists()
        return True
    assert said.startswith("bitgrove: error: ") and said.count("\n") == 1, said
    assert said.rstrip("\n").isprintable(), said
    assert not (Path(folder) / "model").exists()
    return False
