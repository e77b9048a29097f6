"""The generator of demonstration data, and the demonstration itself at a small size."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import bitgrove
from bitgrove.cli.demo import BITS, DemoRow, render, run_demo
from bitgrove.cli.demo.data import HIGGS_FEATURES, make_higgs_like


def test_higgs_like_has_the_shape_of_higgs():
    X, y = make_higgs_like(20_000, 0)
    assert X.shape == (20_000, 28)
    assert len(HIGGS_FEATURES) == len(set(HIGGS_FEATURES)) == 28
    assert set(np.unique(y)) == {0.0, 1.0}
    assert 0.5 < y.mean() < 0.6
    column = {name: X[:, i] for i, name in enumerate(HIGGS_FEATURES)}
    assert all(len(np.unique(column[f"jet{jet}_btag"])) == 3 for jet in (1, 2, 3, 4))
    momenta = column["lepton_pt"]
    assert np.mean(momenta) > 1.1 * np.median(momenta)  # skewed to the right
    assert (column["jet1_pt"] >= column["jet4_pt"]).all()
    # A derived column is what its name says: the mass of jets 1 and 2, in units of 2.8.
    eta, phi = column["jet1_eta"] - column["jet2_eta"], column["jet1_phi"] - column["jet2_phi"]
    squared = 2 * column["jet1_pt"] * column["jet2_pt"] * (np.cosh(eta) - np.cos(phi))
    np.testing.assert_allclose(column["m_bb"], np.sqrt(squared) / 2.8, rtol=1e-3, atol=1e-3)


def test_higgs_like_can_be_learned_but_not_perfectly():
    X, y = make_higgs_like(40_000, 0)
    other = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X[:30_000], y[:30_000])
    auc = roc_auc_score(y[30_000:], other.predict_proba(X[30_000:])[:, 1])
    assert 0.80 < auc < 0.85


def test_table_has_one_line_per_precision():
    rows = [
        DemoRow(None, 2.5, 0.84123, 7.25, {"64": 4}, "ab" * 32),
        DemoRow(2, 1.25, 0.83, 7.0, {"8": 1, "16": 299, "32": 0}, "cd" * 32),
    ]
    header, full, two = render(rows).splitlines()
    assert header.split()[:2] == ["bits", "seconds"]
    assert full.split() == ["full", "2.50", "0.84123", "7.2", "abababababab", "64-bit", "100%"]
    assert two.endswith("cdcdcdcdcdcd  8-bit <1%, 16-bit 100%")


def test_demo_writes_what_it_says(tmp_path, capsys):
    rows = run_demo(tmp_path / "out", n_train=4000, n_test=1000, n_estimators=5, progress=False)
    assert [row.bits for row in rows] == list(BITS)
    assert all(0.65 < row.auc < 0.9 for row in rows)
    assert len({row.digest for row in rows}) == len(rows)
    assert all(row.rounds_per_tree >= 1 and row.seconds > 0 for row in rows)
    output = capsys.readouterr()
    assert render(rows) in output.out
    assert "with 2-bit gradients" in output.err
    model_path = tmp_path / "out" / "model.bitgrove"
    assert str(model_path) in output.out
    assert (tmp_path / "out" / "bits.png").read_bytes().startswith(b"\x89PNG")
    report = tmp_path / "out" / "report.html"
    assert report.absolute().as_uri() in output.out
    assert b'"kind":"thresholds"' in report.read_bytes()
    kept = next(row for row in rows if row.bits == 4)
    assert bitgrove.load(model_path).digest() == kept.digest
    assert bitgrove.load(model_path).feature_names == list(HIGGS_FEATURES)
