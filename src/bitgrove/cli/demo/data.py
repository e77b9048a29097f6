"""A synthetic table with the character of the HIGGS set, for the demonstration.

Receives a number of rows and a seed; returns float32 features with labels; nothing is downloaded.
Rows come in blocks of a fixed size, each with its own PCG64 stream keyed by (seed, block), so a
call is a pure function of its arguments and a shorter call is a prefix of a longer one. The
relation between features and labels does not depend on the seed: train on one seed and test on
another.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

HIGGS_FEATURES: tuple[str, ...] = (
    "lepton_pt", "lepton_eta", "lepton_phi", "missing_pt", "missing_phi",
    *(f"jet{jet}_{part}" for jet in (1, 2, 3, 4) for part in ("pt", "eta", "phi", "btag")),
    "m_jj", "m_jjj", "m_lv", "m_jlv", "m_bb", "m_wbb", "m_wwbb",
)  # fmt: skip

_BLOCK = 1 << 14  # small enough that a block's temporaries stay in cache
_BTAGS = np.array([0.0, 1.087, 2.173])


def make_higgs_like(n_rows: int, seed: int = 0) -> tuple[Float32, Float32]:
    """A binary problem shaped like the HIGGS set: X float32 (n_rows, 28), y float32 0/1.

    21 low-level columns (one lepton, missing momentum, four jets ordered by
    momentum with a three-valued b-tag) are drawn; the 7 mass columns are the
    invariant masses of sums of their four-vectors. Names: HIGGS_FEATURES. The
    label is drawn from a probability that depends on masses, angles and tags,
    noisy enough that a well tuned model ends at a test AUC of about 0.84.
    """
    features = np.empty((n_rows, 28), np.float32)
    label = np.empty(n_rows, np.float32)
    for rows, rng in blocks(n_rows, seed):
        block, signal = _higgs_block(rng)
        features[rows] = block[: rows.stop - rows.start]
        label[rows] = signal[: rows.stop - rows.start]
    return features, label


def blocks(
    n_rows: int, seed: int, block: int = _BLOCK
) -> Iterator[tuple[slice, np.random.Generator]]:
    """Yield (rows of the block, generator of the block)."""
    if n_rows < 1:
        raise ValueError(f"the number of rows or queries must be at least 1, got {n_rows}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    for index, start in enumerate(range(0, n_rows, block)):
        rng = np.random.Generator(np.random.PCG64([seed, index]))
        yield slice(start, min(start + block, n_rows)), rng


def _higgs_block(rng: np.random.Generator) -> tuple[Float64, NDArray[np.bool_]]:
    """One block of events: (features (_BLOCK, 28), label)."""
    # float64 throughout: rounding to float32 at the end hides last-bit
    # differences between one machine's sin or exp and another's.
    hardness = 0.25 * rng.standard_normal(_BLOCK)
    lepton_pt = np.exp(hardness + 0.5 * rng.standard_normal(_BLOCK) - 0.15)
    missing_pt = np.exp(hardness + 0.55 * rng.standard_normal(_BLOCK) - 0.2)
    spread = rng.standard_normal((4, _BLOCK))
    jet_pt = np.sort(np.exp(hardness + 0.45 * spread - 0.12), axis=0)[::-1]
    eta = np.clip(rng.standard_normal((5, _BLOCK)), -2.5, 2.5)
    phi = rng.uniform(-np.pi, np.pi, (6, _BLOCK))
    # Harder jets carry a b-tag more often.
    tag_odds = rng.random((4, _BLOCK)) + 0.08 * (jet_pt - 1)
    tags = _BTAGS[np.searchsorted([0.5, 0.78], tag_odds)]

    missing = _four_vector(missing_pt, np.zeros(_BLOCK), phi[5])
    lepton = _four_vector(lepton_pt, eta[4], phi[4])
    jets = [_four_vector(jet_pt[jet], eta[jet], phi[jet]) for jet in range(4)]
    w_boson = lepton + missing
    b_pair = jets[0] + jets[1]
    masses = [
        _mass(jets[2] + jets[3]) / 1.5,
        _mass(jets[1] + jets[2] + jets[3]) / 3.0,
        _mass(w_boson) / 1.9,
        _mass(w_boson + jets[0]) / 4.0,
        _mass(b_pair) / 2.8,
        _mass(b_pair + w_boson) / 6.0,
        _mass(b_pair + w_boson + jets[2] + jets[3]) / 9.0,
    ]
    columns = [lepton_pt, eta[4], phi[4], missing_pt, phi[5]]
    for jet in range(4):
        columns += [jet_pt[jet], eta[jet], phi[jet], tags[jet]]
    logit = _higgs_logit(masses, tags, lepton_pt, missing_pt, phi, eta)
    signal = rng.random(_BLOCK) < 1 / (1 + np.exp(-logit))
    return np.column_stack(columns + masses), signal


def _higgs_logit(
    masses: list[Float64], tags: Float64, lepton_pt: Float64, missing_pt: Float64,
    phi: Float64, eta: Float64,
) -> Float64:  # fmt: skip
    """Log-odds of signal: resonances in the masses, plus effects that only interactions show."""
    m_jj, m_jjj, m_lv, m_jlv, m_bb, m_wbb, m_wwbb = masses
    resonance = (
        1.5 * np.exp(-(((m_bb - 0.9) / 0.3) ** 2))
        + 1.0 * np.exp(-(((m_jj - 0.8) / 0.4) ** 2))
        + 0.8 * np.exp(-(((m_lv - 0.9) / 0.35) ** 2))
        - 1.2 * np.tanh(1.5 * (m_wwbb - 1))
        - 0.8 * np.tanh(2 * (m_wbb - m_jlv))
    )
    tagged = 0.3 * (tags[0] + tags[1] - tags[2] - tags[3]) * (m_bb < 1.3)
    balance = np.sin(3 * np.log((m_jjj + 0.1) / (m_jlv + 0.1)))
    transverse = np.cos(phi[4] - phi[5]) * np.tanh(lepton_pt * missing_pt)
    opening = np.cos(phi[0] - phi[1]) * np.tanh(eta[0] * eta[1])
    hidden = 0.9 * balance + 0.7 * transverse + 0.7 * opening
    logit: Float64 = 1.4 * (resonance + tagged + hidden - 1.65)
    return logit


def _four_vector(pt: Float64, eta: Float64, phi: Float64) -> Float64:
    """Massless (E, px, py, pz) from transverse momentum, pseudorapidity and azimuth."""
    return np.stack([pt * np.cosh(eta), pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)])


def _mass(vector: Float64) -> Float64:
    squared = vector[0] ** 2 - vector[1] ** 2 - vector[2] ** 2 - vector[3] ** 2
    mass: Float64 = np.sqrt(np.maximum(squared, 0.0))
    return mass
