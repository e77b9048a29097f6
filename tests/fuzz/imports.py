"""Model files of other libraries: mutants are refused, or become models that are sound.

Owns the mutator, which knows the three formats: LightGBM's lines of numbers, XGBoost's document as
JSON and as UBJSON. The corpus holds files that the libraries wrote, and ours with and without note.
"""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bitgrove.errors import BitgroveError, ModelFormatError
from bitgrove.model.exchange import FORMATS, Outgoing
from bitgrove.model.exchange.documents import read_ubjson, write_ubjson
from bitgrove.model.exchange.formats import read_model
from bitgrove.model.model import Model
from bitgrove.model.predict import predict_scores
from tests.fuzz.model_files import check_model
from tests.fuzz.mutations import FLOATS, WORDS, change_bytes, change_json, change_number, chosen
from tests.fuzz.promises import read_within

CORPUS = Path(__file__).with_name("corpus") / "imports"


@cache
def seeds() -> list[bytes]:
    return [path.read_bytes() for path in sorted(CORPUS.iterdir())]


def mutant(rng: np.random.Generator, data: bytes) -> bytes:
    n_changes = int(rng.integers(1, 4))
    if rng.random() < 0.3:  # what no longer is of the format
        for _ in range(n_changes):
            data = change_bytes(rng, data)
        return data
    if data.startswith(b"tree"):
        return _changed_lines(rng, data, n_changes)
    is_json = data[1:2] not in (b"L", b"i", b"l")  # a length follows where UBJSON has a key
    document = json.loads(data) if is_json else read_ubjson(data)
    for _ in range(n_changes):
        _change_document(rng, document)
    if not is_json:
        try:
            return write_ubjson(document)
        except (struct.error, KeyError):  # a value that is never written
            return change_bytes(rng, data)
    return json.dumps(document, separators=(",", ":"), default=_listed).encode()


def _listed(array: Any) -> Any:
    return array.tolist()


def _changed_lines(rng: np.random.Generator, data: bytes, n_changes: int) -> bytes:
    """Words of a line's list go, come or become others; lines go or come twice."""
    lines = data.split(b"\n")
    for _ in range(n_changes):
        at, kind = int(rng.integers(len(lines))), int(rng.integers(8))
        name, sign, listed = lines[at].partition(b"=")
        words = listed.split(b" ")
        word = int(rng.integers(len(words)))
        if kind == 0:
            lines.insert(int(rng.integers(len(lines))), lines[at])
        elif kind == 1 and len(lines) > 1:
            del lines[at]
        elif kind == 2:
            words.insert(word, chosen(rng, words))
        elif kind == 3:
            del words[word]
        elif kind <= 5 and words[word].lstrip(b"-").isdigit():
            words[word] = b"%d" % (int(words[word][:18]) + int(rng.integers(-2, 3)))
        else:
            words[word] = chosen(rng, WORDS)
        if kind >= 2:
            lines[at] = name + sign + b" ".join(words)
    return b"\n".join(lines)


def _change_document(rng: np.random.Generator, document: Any) -> None:
    """Half of the changes go into a tree: most of a file's checks are about them."""
    try:
        trees = document["learner"]["gradient_booster"]["model"]["trees"]
        inside = chosen(rng, trees) if rng.random() < 0.5 else document
        arrays = [v for v in inside.values() if isinstance(v, np.ndarray) and v.dtype.kind in "iuf"]
    except (LookupError, TypeError, AttributeError, ValueError):
        inside, arrays = document, []
    if arrays and rng.random() < 0.7:
        change_number(rng, chosen(rng, arrays))
    elif isinstance(inside, (dict, list)):
        change_json(rng, inside)


def check(data: bytes, rng: np.random.Generator) -> bool:
    """Whether the file was accepted; AssertionError where a promise is broken."""
    model = read_within(lambda: read_model(data), ModelFormatError, len(data), rng)
    if model is None:
        return False
    bytes_of_it = model.to_bytes()
    assert Model.from_bytes(bytes_of_it).to_bytes() == bytes_of_it
    check_model(model, rng)
    _check_again(data, model, rng)
    return True


def _check_again(data: bytes, model: Model, rng: np.random.Generator) -> None:
    """Written in the format that it came in and read again, it gives the same scores."""
    one = next(one for one in FORMATS.values() if one.can_read and one.recognises(data))
    try:
        written = one.write(Outgoing(model))
    except BitgroveError:
        return  # what the format cannot say of a model of ours
    again = read_model(written)
    if any(m.encoder is not None and m.encoder.statistics for m in (model, again)):
        return  # sets of levels that became columns may come back as other columns
    rows = rng.choice([*FLOATS, 1.0, 2.5, 3.0], size=(20, model.n_columns))
    with np.errstate(all="ignore"):
        rows = rows.astype(np.float32).astype(np.float64)  # others may go another way
        one_way, other = (
            predict_scores(m.forest, rows, m.base_score, m.n_iterations, 1) for m in (model, again)
        )
    largest = sum(np.abs(tree.leaf_value).max() for tree in model.trees)
    bound = 1e-6 * (largest + np.abs(model.base_score).max())  # leaves may become float32
    assert (np.abs(one_way - other) <= bound).all(), "written again, it predicts otherwise"
