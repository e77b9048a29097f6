"""Files of other libraries that nobody vouches for: a model or a ModelFormatError, nothing else."""

from __future__ import annotations

import json
import re
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitgrove.errors import ModelFormatError
from bitgrove.model import exchange
from bitgrove.model.exchange import FORMATS, Outgoing
from bitgrove.model.exchange.documents import read_ubjson, write_ubjson
from bitgrove.model.exchange.formats import read_model
from bitgrove.model.model import Model
from exchange_cases import trained

READ = ("lightgbm", "xgboost", "xgboost_ubj")
N_MUTATIONS = 400  # of each kind of file; ten times as many were tried by hand
NUMBERS = [b"-1", b"0", b"1", b"2147483648", b"-9223372036854775809", b"1e999", b"nan", b"inf", b"",
           b"99999999999999999999999", b"4294967295", b"[]", b"{}", b"null", b"0.5"]  # fmt: skip


@cache
def small(format: str, note: bool) -> bytes:
    """A file of a few trees with categories of text and of numbers; without our own note."""
    model = trained("text").model
    cut = Model(model.objective, model.trees[:3], model.base_score, model.feature_names,
                model.params, model.classes, encoder=model.encoder)  # fmt: skip
    data = FORMATS[format].write(Outgoing(cut))
    if note:
        return data
    if format == "lightgbm":
        lines = [line for line in data.split(b"\n") if not line.startswith(b"bitgrove=")]
        return b"\n".join(line for line in lines if not line.startswith(b"pandas_categorical"))
    read = json.loads if format == "xgboost" else read_ubjson
    document = read(data)
    document["learner"]["attributes"] = {}
    return json.dumps(document).encode() if format == "xgboost" else write_ubjson(document)


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three changes: bytes, numbers, pieces that go, come twice or change places."""
    for _ in range(int(rng.integers(1, 4))):
        kind, at = int(rng.integers(6)), int(rng.integers(max(len(data), 1)))
        end = at + int(rng.geometric(0.02))
        if kind == 0:
            data = data[:at] + bytes([int(rng.integers(256))]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[end:]
        elif kind == 2:
            data = data[:end] + data[at:]
        elif kind == 3:
            data = data[:at]
        else:
            found = [m.span() for m in re.finditer(rb"-?\d[\d.E+-]*", data[at : at + 400])]
            if found:
                a, b = found[int(rng.integers(len(found)))]
                word = NUMBERS[int(rng.integers(len(NUMBERS)))]
                data = data[: at + a] + word + data[at + b :]
    return data


@pytest.mark.parametrize("note", [True, False])
@pytest.mark.parametrize("format", READ)
def test_mutations(format: str, note: bool) -> None:
    data = small(format, note)
    rng = np.random.default_rng(5)
    row = np.zeros((2, 5))
    n_read = 0
    for _ in range(N_MUTATIONS):
        try:
            model = FORMATS[format].read(data) if n_read == 0 else read_model(mutated(data, rng))
        except ModelFormatError:
            continue
        n_read += 1
        if model.encoder is None and model.n_features == 5:
            model.predict(row)
        model.to_bytes()
    assert n_read > 20  # some changes do no harm: the others were refused for a reason


def changed(format: str, change: Any) -> bytes:
    document = json.loads(small("xgboost", False))
    change(document["learner"])
    return json.dumps(document).encode() if format == "xgboost" else write_ubjson(document)


def _trees(learner: Any) -> Any:
    return learner["gradient_booster"]["model"]["trees"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m["learner_model_param"].update(num_feature="1000000000"), "features"),
        (lambda m: m["learner_model_param"].update(num_class="1000000000"), "outputs"),
        (lambda m: m["learner_model_param"].update(base_score="[1E0,1E0]"), "2 base scores"),
        (lambda m: _trees(m)[4]["left_children"].__setitem__(0, 10**6), "child is none"),
        (lambda m: _trees(m)[4]["left_children"].__setitem__(0, 2), "two parents|after its"),
        (lambda m: _trees(m)[4]["split_indices"].__setitem__(0, 77), "feature|malformed"),
        (lambda m: _trees(m)[4]["split_conditions"].pop(), "different lengths"),
        (lambda m: _trees(m)[4]["sum_hessian"].__setitem__(0, float("nan")), "not finite"),
        (lambda m: m["gradient_booster"]["model"]["tree_info"].__setitem__(0, 9), "output 9"),
        (lambda m: m["objective"].update(name="survival:cox"), "survival:cox"),
    ],
)
def test_forged_documents(change: Any, reason: str) -> None:
    with pytest.raises(ModelFormatError, match=reason):
        read_model(changed("xgboost", change))


def test_sizes_that_a_file_only_claims() -> None:
    many = struct.pack(">q", 2**60)
    for body in (b"[$d#L" + many, b"[#L" + many, b"SL" + many, b"{L" + many):
        with pytest.raises(ModelFormatError, match="does not fit"):
            read_ubjson(body)
    with pytest.raises(ModelFormatError, match="no number"):
        read_ubjson(b"[$Z#L" + many)


def test_text_among_numbers_takes_no_room() -> None:
    """A NumPy array of them would have the longest for each: 4 TB here."""
    outputs = [0] * 1_000_000 + ["x" * 1_000_000]
    learner = {
        "gradient_booster": {"name": "gbtree", "model": {"trees": [], "tree_info": outputs}},
        "learner_model_param": {"num_feature": "1", "num_class": "0", "base_score": "0"},
    }
    with pytest.raises(ModelFormatError, match="something else"):
        FORMATS["xgboost"].read(json.dumps({"learner": learner}).encode())


def test_the_size_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(small("lightgbm", True))
    for room in (exchange, exchange.formats):
        monkeypatch.setattr(room, "MAX_BYTES", 1000)
    with pytest.raises(ModelFormatError, match="1001 bytes are over the limit of 1000"):
        exchange.import_model(path)
    model = trained("text").model
    model.save(path)  # our own file may be larger
    assert exchange.import_model(path) == model


def test_depth_is_bounded() -> None:
    with pytest.raises(ModelFormatError, match="deeply"):
        read_ubjson(b"[" * 10_000)
    with pytest.raises(ModelFormatError):
        read_model(b'{"learner":' + b"[" * 1_000_000)


def test_a_set_is_used_once() -> None:
    """Else a short file could ask for the same long set again and again."""
    text = small("lightgbm", False).decode()
    tree = next(t for t in text.split("Tree=")[1:] if re.search("num_cat=[2-9]", t))
    lines = dict(line.split("=", 1) for line in tree.split("\n") if "=" in line)
    kinds = lines["decision_type"].split()
    numbers = [
        "0" if kind == "1" else t for kind, t in zip(kinds, lines["threshold"].split(), strict=True)
    ]
    forged = text.replace(f"threshold={lines['threshold']}", f"threshold={' '.join(numbers)}", 1)
    with pytest.raises(ModelFormatError, match="that of another split"):
        read_model(forged.encode())


@pytest.mark.parametrize("data", [b"", b"tree", b"PK\x03\x04", b"{}", b'{"learner": 1}', b"tree\n"])
def test_other_files(data: bytes) -> None:
    with pytest.raises(ModelFormatError):
        read_model(data)
