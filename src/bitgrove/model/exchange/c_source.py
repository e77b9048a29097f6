"""C source: one file without dependencies, for embedding.

The forest is constant arrays and a short walk. Scores are sums of float64 in the order of the trees
and links are our own functions: the same bits, if the compiler fuses no additions into
multiplications (-ffp-contract=off).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bitgrove.data.levels import TEXT
from bitgrove.errors import ParameterError
from bitgrove.model.exchange.formats import Format, register
from bitgrove.model.exchange.outgoing import Outgoing
from bitgrove.version import __version__

_MISSING_LEFT, _SUBSET, _UNSEEN_LEFT = 1, 2, 4  # bits of a node's kind


@register
class CSource(Format):
    name = "c"
    extensions = (".c",)
    can_read = False

    def write(self, model: Outgoing) -> bytes:
        link = _LINKS.get(model.link.kernel)
        if link is None:
            raise ParameterError(f"c: the link {type(model.link).__name__} cannot be written")
        slope = f"static const double slope = {_number(model.link.slope)};\n"
        parts = [_head(model), _forest(model), _levels(model), _WALK, _EXP, slope, link]
        return "\n".join(parts).encode("ascii")


def _head(model: Outgoing) -> str:
    own = model.model
    names = "\n".join(f"   {f}: {_comment(name)}" for f, name in enumerate(own.feature_names))
    what = "scores, before any link" if model.raw_score else "what Model.predict says"
    return f"""/* A {own.objective} model of bitgrove {__version__}: {len(model.trees)} trees.

   void bitgrove_scores(const double *row, double *scores)        the sums of leaves
   void bitgrove_predict(const double *row, double *predictions)  {what}
   int bitgrove_level(int feature, const char *text)              the number of a level

   row has BITGROVE_N_FEATURES values, the results BITGROVE_N_OUTPUTS. A missing value is NaN; a
   category is the number of its level, -1 if it is unknown. -ffp-contract=off keeps the bits of
   predictions; those of scores are the same anyway. Several models in one program:
   -D'BITGROVE_NAME(x)=price_##x' calls the functions price_scores and so on. Features:

{names}
*/

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef BITGROVE_NAME
#define BITGROVE_NAME(name) bitgrove_##name
#endif
#define BITGROVE_N_FEATURES {own.n_features}
#define BITGROVE_N_OUTPUTS {model.n_outputs}
"""


def _comment(text: str) -> str:
    """A name as a C string, in which no comment can end."""
    return _string(text).replace("*", "\\052").replace("/", "\\057")


def _string(text: str) -> str:
    safe = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:;()<>=+*/"
    return '"' + "".join(chr(b) if b in safe else f"\\{b:03o}" for b in text.encode()) + '"'


def _number(value: float) -> str:
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def _array(kind: str, name: str, values: Sequence[Any] | Iterable[str]) -> str:
    words = [word if isinstance(word, str) else str(word) for word in values] or ["0"]
    lines = [", ".join(words[i : i + 12]) for i in range(0, len(words), 12)]
    return f"static const {kind} {name}[{len(words)}] = {{\n  " + ",\n  ".join(lines) + "};\n"


def _forest(model: Outgoing) -> str:
    parts: dict[str, list[Any]] = {
        name: [] for name in ("feature", "threshold", "kind", "left", "right", "leaf", "root")
    }
    words: list[str] = []
    first, first_leaf = 0, 0
    for tree in model.trees:
        subsets = model.subsets(tree)
        threshold, kind = list(map(_number, tree.threshold.tolist())), tree.default_left.tolist()
        for i, subset in subsets.items():
            threshold[i] = str(len(words))
            sides = _MISSING_LEFT * subset.missing_left + _UNSEEN_LEFT * subset.unseen_left
            kind[i] = _SUBSET + sides
            words += _words(subset.left)
        parts["root"].append(first if tree.n_splits else ~first_leaf)
        parts["feature"] += model.features(tree).tolist()
        parts["threshold"] += threshold
        parts["kind"] += kind
        for side in ("left", "right"):
            child = getattr(tree, side).astype(np.int64)
            parts[side] += np.where(child >= 0, child + first, child - first_leaf).tolist()
        parts["leaf"] += map(_number, tree.leaf_value.tolist())
        first, first_leaf = first + tree.n_splits, first_leaf + tree.n_leaves
    counts = f"#define N_TREES {len(model.trees)}\n"
    kinds = {"threshold": "double", "leaf": "double", "kind": "unsigned char"}
    arrays = [_array(kinds.get(name, "int32_t"), name, values) for name, values in parts.items()]
    base = _array("double", "base_score", map(_number, model.base_score.tolist()))
    return "\n".join([counts, *arrays, _array("uint32_t", "left_levels", words), base])


def _words(left: Any) -> list[str]:
    """A bit for each level, in 32-bit words."""
    bits = np.zeros((len(left) // 32 + 1) * 32, dtype=np.bool_)
    bits[: len(left)] = left
    return [f"{word}u" for word in np.packbits(bits, bitorder="little").view("<u4").tolist()]


def _levels(model: Outgoing) -> str:
    """The cells of all categories, end to end, and the text of those that are text."""
    starts: list[int] = []
    cells: list[int] = []
    texts: list[str] = []
    for f in range(model.model.n_features):
        starts.append(len(cells))
        if f in model.levels:
            cells += model.cells[f].tolist()
            values = model.levels[f].values.tolist()
            named = model.levels[f].kind == TEXT
            texts += [_string(v) if named and "\0" not in v else "0" for v in values]
    is_category = [int(f in model.levels) for f in range(model.model.n_features)]
    return "\n".join([
        _array("unsigned char", "is_category", is_category),
        _array("int32_t", "first_level", [*starts, len(cells)]),
        _array("int32_t", "cell", cells),
        _array("char *const", "level_text", texts),
    ])  # fmt: skip


_WALK = """\
/* The level that a cell stands for: -1 if there is none, -2 if the value is missing. */
static int code_of(int feature_number, double value) {
  int low = first_level[feature_number], high = first_level[feature_number + 1];
  const int start = low, end = high;
  if (value != value) return -2;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (cell[middle] < value) low = middle + 1; else high = middle;
  }
  return low < end && cell[low] == value ? low - start : -1;
}

int BITGROVE_NAME(level)(int feature_number, const char *text) {
  int i;
  if (feature_number < 0 || feature_number >= BITGROVE_N_FEATURES) return -1;
  if (!is_category[feature_number]) return -1;
  for (i = first_level[feature_number]; i < first_level[feature_number + 1]; i++)
    if (level_text[i] && strcmp(level_text[i], text) == 0) return cell[i];
  return -1;
}

static int goes_left(int i, const double *row) {
  const double value = row[feature[i]];
  if (kind[i] & 2) {
    const int code = code_of(feature[i], value);
    if (code < 0) return (kind[i] & (code == -2 ? 1 : 4)) != 0;
    return left_levels[(int32_t)threshold[i] + code / 32] >> (code % 32) & 1;
  }
  return value != value ? kind[i] & 1 : value <= threshold[i];
}

void BITGROVE_NAME(scores)(const double *row, double *scores) {
  int tree, i, output;
  for (output = 0; output < BITGROVE_N_OUTPUTS; output++) scores[output] = base_score[output];
  for (tree = 0; tree < N_TREES; tree++) {
    for (i = root[tree]; i >= 0;) i = goes_left(i, row) ? left[i] : right[i];
    scores[tree % BITGROVE_N_OUTPUTS] += leaf[-1 - i];
  }
}
"""

# exact_exp of kernels/shared/math.h.
_EXP = """\
static double exact_exp(double x) {
  static const double terms[13] = {
    1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
    1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0};
  const double shift = 6755399441055744.0;
  double k, r, p = 1.0 / 6227020800.0, power;
  uint64_t bits;
  int i;
  x = x < -708.0 ? -708.0 : x;
  x = x > 709.0 ? 709.0 : x;
  k = x * 1.4426950408889634 + shift;
  k = k - shift;
  r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
  for (i = 0; i < 13; i++) p = p * r + terms[i];
  bits = (uint64_t)((int64_t)k + 1023) << 52;
  memcpy(&power, &bits, sizeof power);
  return p * power;
}
"""

_PREDICT = """\
void BITGROVE_NAME(predict)(const double *row, double *predictions) {
  const int n = BITGROVE_N_OUTPUTS;
  int i;
  double sum = 0.0;
  BITGROVE_NAME(scores)(row, predictions);
  %s
  (void)i, (void)n, (void)sum, (void)slope, (void)exact_exp;
}
"""
_SHARES = """
  for (i = 0; i < n; i++) sum = i ? sum + predictions[i] : predictions[i];
  for (i = 0; i < n; i++) predictions[i] /= sum;"""
_SIGMOIDS = """for (i = 0; i < n; i++)
    predictions[i] = 1.0 / (1.0 + exact_exp(-(slope * predictions[i])));"""

# What a link does, by the name that kernels know it by.
_LINKS: dict[str | None, str] = {
    name: _PREDICT % body
    for name, body in {
        None: "",
        "sigmoid_scores": _SIGMOIDS,
        "exp_scores": "for (i = 0; i < n; i++) predictions[i] = exact_exp(predictions[i]);",
        "sort_scores": """for (i = 1; i < n; i++) {
    int j;
    for (j = i; j > 0 && predictions[j] < predictions[j - 1]; j--) {
      const double other = predictions[j];
      predictions[j] = predictions[j - 1];
      predictions[j - 1] = other;
    }
  }""",
        "softmax_scores": """double most = predictions[0];
  for (i = 1; i < n; i++) most = predictions[i] > most ? predictions[i] : most;
  for (i = 0; i < n; i++) predictions[i] = exact_exp(predictions[i] - most);"""
        + _SHARES,
        "one_vs_all_scores": _SIGMOIDS + _SHARES,
    }.items()
}
