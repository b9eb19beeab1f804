"""Readings at one place that are wrong together, and those that are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import norm

from biasgp import GaussianGP, SparseBiasGP, load, save
from biasgp.kernels import SquaredExponential
from biasgp.models.problem import Problem
from biasgp.models.sparse.crowds import POLICY, _crowds, _log_evidence, _structure
from biasgp.models.sparse.kinds import PRIOR

N_WRONG = 12


def truth(X: np.ndarray) -> np.ndarray:
    return np.sin(4.0 * X[:, 0]) + 2.0 * (X[:, 1] - 0.4) ** 2 + X[:, 2]


def wrong_together(n: int = 110, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Readings of three inputs, the first of which were made at about one place, with a value of their own."""
    rng = np.random.default_rng(seed)
    X, wrong = rng.uniform(size=(n, 3)), np.arange(n) < N_WRONG
    X[wrong] = 0.5 + 0.01 * rng.uniform(-1.0, 1.0, (N_WRONG, 3))
    y = truth(X) + 0.05 * rng.standard_normal(n)
    y[wrong] = -3.0 + 0.05 * rng.standard_normal(N_WRONG)
    return X, y, wrong


@pytest.fixture(scope="module")
def fitted() -> SparseBiasGP:
    X, y, _ = wrong_together()
    return SparseBiasGP().fit(X, y)


def test_they_are_flagged_and_the_others_tell_what_f_is(fitted):
    X, y, wrong = wrong_together()
    np.testing.assert_array_equal(fitted.outlier_mask_, wrong)
    at = np.random.default_rng(1).uniform(size=(200, 3))
    error, best = (np.abs(m.predict(at) - truth(at)).mean() for m in (fitted, GaussianGP().fit(X[~wrong], y[~wrong])))
    assert error < 1.1 * best
    np.testing.assert_allclose(fitted.bias_[wrong], y[wrong] - truth(X[wrong]), atol=0.2)
    assert fitted.trustworthy_ and fitted.episodes_ == ()


def test_both_explanations_are_named_and_each_reading_says_what_it_is_one_of(fitted):
    (note,) = (note for note in fitted.notes_ if note.code == "crowd")
    assert note.rows == tuple(range(N_WRONG)) and "different there" in note.evidence and "verdict=" in str(note)
    assert fitted.to_frame()["kind"].tolist() == ["crowd"] * N_WRONG + ["none"] * (110 - N_WRONG)
    why = fitted.explain(3)
    assert why.kind == "crowd" and why.log_odds > POLICY.sure and why.witnesses == ()
    assert "agree with one another only" in str(why)
    assert fitted.explain(50).kind == "none" and fitted.explain(50).log_odds < 0.0


def test_a_new_reading_of_theirs_is_an_outlier(fitted):
    X, y, _ = wrong_together()
    assert fitted.outlier_probability(X[:1], y[:1])[0] > 0.99
    assert fitted.outlier_probability(X[:1], truth(X[:1]))[0] < 0.1


def test_a_verdict_on_one_of_them_decides():
    X, y, wrong = wrong_together()
    good, elsewhere = np.full(len(y), np.nan), np.full(len(y), np.nan)
    good[3], elsewhere[50] = 0.0, 1.0
    assert not SparseBiasGP().fit(X, y, verdict=good).outlier_mask_[wrong].any()
    model = SparseBiasGP().fit(X, y).refit(elsewhere)
    np.testing.assert_array_equal(np.flatnonzero(model.outlier_mask_), [*range(N_WRONG), 50])
    assert [note.code for note in model.notes_].count("crowd") == 1
    assert not model.refit(good).outlier_mask_[wrong].any()
    assert "crowd" not in {note.code for note in model.notes_}


def test_a_model_file_keeps_them(fitted, tmp_path):
    X, y, wrong = wrong_together()
    save(fitted, tmp_path / "model.skops")
    model = load(tmp_path / "model.skops")
    np.testing.assert_array_equal(model.predict(X), fitted.predict(X))
    assert model.explain(3).kind == "crowd"
    verdict = np.full(len(y), np.nan)
    verdict[60] = 0.0
    np.testing.assert_array_equal(model.refit(verdict).outlier_mask_, wrong)


def test_units_and_the_order_of_the_rows_do_not_matter(fitted):
    X, y, wrong = wrong_together()
    rows = np.random.default_rng(2).permutation(len(y))
    other = SparseBiasGP().fit(X[rows] * [1.0, 60.0, 1e-3], 3.0 - 7.0 * y[rows])
    np.testing.assert_array_equal(other.outlier_mask_, wrong[rows])
    np.testing.assert_allclose(other.predict(X * [1.0, 60.0, 1e-3]), 3.0 - 7.0 * fitted.predict(X), atol=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_an_optimum_that_was_approached_is_the_signal(seed):
    """A narrow dip, far below all else, that more and more readings are made in."""
    rng = np.random.default_rng(seed)
    near = 0.4 + np.exp(rng.uniform(np.log(0.003), np.log(0.2), (30, 1))) * rng.standard_normal((30, 4))
    X = np.vstack([rng.uniform(size=(60, 4)), near])
    y = 0.3 * X.sum(axis=1) - 8.0 * np.exp(-30.0 * ((X - 0.4) ** 2).sum(axis=1)) + 0.02 * rng.standard_normal(90)
    model = SparseBiasGP().fit(X, y)
    assert model.outlier_mask_[60:].mean() < 0.2 and "crowd" not in {note.code for note in model.notes_}


def test_repeated_measurements_that_agree_with_the_others_are_good():
    X, y, wrong = wrong_together()
    y[wrong] = (truth(X) + 0.05 * np.random.default_rng(3).standard_normal(len(y)))[wrong]
    assert not SparseBiasGP().fit(X, y).outlier_mask_[wrong].any()


def crowds_of(X: np.ndarray, **more) -> list[list[int]]:
    problem = Problem(X, np.arange(float(len(X))), SquaredExponential().bind(X), np.zeros(len(X)), **more)
    return [rows.tolist() for rows in _crowds(problem)]


def test_where_readings_are_in_order_on_a_grid_or_repeated_there_is_no_crowd():
    hours = np.arange(60.0)[:, None]
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)
    for X in (hours, grid, np.repeat(grid, 3, axis=0), np.zeros((40, 2)), hours[:4]):
        assert crowds_of(X) == []


@pytest.mark.parametrize("columns", [1, 2, 3, 6])
def test_what_chance_brings_together_is_seldom_a_crowd(columns):
    found = [crowds_of(np.random.default_rng(seed).uniform(size=(150, columns))) for seed in range(20)]
    assert sum(map(bool, found)) <= 3  # of 20; each costs a fit, and has no evidence


def test_crowds_are_those_of_the_inputs_that_vary_the_largest_first():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(size=(80, 3)), np.ones(80)])
    X[:12, :3] = X[70, :3] + 1e-3 * rng.uniform(size=(12, 3))
    X[20:34, :3] = X[60, :3] + 1e-3 * rng.uniform(size=(14, 3))
    large, small = crowds_of(X)  # another reading may happen to be near
    assert {*range(20, 34), 60} <= set(large) and {*range(12), 70} <= set(small) and len(large) + len(small) < 31
    verdict = np.full(80, np.nan)
    verdict[22] = 0.0
    assert crowds_of(X, verdict=verdict) == [small]
    assert crowds_of(X, censored=np.zeros(80)) == []


@pytest.mark.parametrize("n", [5, 40])
def test_the_evidence_of_a_level_of_their_own_is_the_integral(n):
    y = -2.0 + 0.1 * np.random.default_rng(n).standard_normal(n)

    def density(level: float, log_std: float) -> float:
        likelihood = norm.logpdf(y, level, np.exp(log_std)).sum() - expected
        return float(np.exp(likelihood + norm.logpdf(level, 0.0, PRIOR.mean_std)) / POLICY.spreads)

    expected = _log_evidence(y)
    integral, _ = dblquad(density, -6.0, 2.0, -2.6, -1.4)
    assert np.log(integral) == pytest.approx(0.0, abs=0.3)


def test_values_that_vary_smoothly_have_structure_and_noise_has_none():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(25, 3))
    assert _structure(X, ((X - 0.5) ** 2).sum(axis=1) + 0.01 * rng.standard_normal(25)) > 2.0 * POLICY.structured
    assert _structure(X, rng.standard_normal(25)) < POLICY.structured
    assert _structure(X, np.ones(25)) == 0.0 == _structure(np.ones((25, 2)), rng.standard_normal(25))
