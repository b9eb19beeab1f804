"""The way out where no labelling of the readings is credible: outliers that are the peaks of the signal."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import biasgp
from biasgp import NoLabelsWarning, SparseBiasGP
from biasgp.kernels import Exponential, Matern32, SquaredExponential
from biasgp.models.diagnosis import are_peaks
from biasgp.models.sparse.kinds import Slab


def skewed(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Readings of a rough signal that is normal on the log scale, with its noise: high where it is high anyway."""
    rng = np.random.default_rng(seed)
    x = np.arange(n, dtype=float)[:, None]
    g = np.linalg.cholesky(Exponential(length_scale=6.0, variance=1.0)(x) + 1e-9 * np.eye(n)) @ rng.standard_normal(n)
    return x, np.exp(1.2 * g + 0.3 * rng.standard_normal(n))


@pytest.fixture(scope="module")
def fitted() -> SparseBiasGP:
    """To be left as it is."""
    with pytest.warns(NoLabelsWarning, match="rather its peaks"):
        return SparseBiasGP(Matern32(), order=None).fit(*skewed())


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_outliers_on_the_tops_are_peaks(rng, sign):
    level = rng.standard_normal(300)
    side = np.where(rng.random(300) < 1.0 / (1.0 + np.exp(3.0 - 2.0 * sign * level)), sign, 0.0)
    alone = np.zeros(int((side != 0.0).sum()), dtype=bool)
    assert are_peaks(side, level, alone)
    # The other way round, they are the readings of a sensor that saturates.
    assert not are_peaks(-side, level, alone)
    # Those that lie beside one another count as one.
    assert not are_peaks(side, level, np.arange(len(alone)) > 2)


def test_outliers_anywhere_are_no_peaks():
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        side = np.where(rng.random(200) < 0.15, rng.choice([-1.0, 1.0], 200), 0.0)
        found.append(are_peaks(side, rng.standard_normal(200), np.zeros(int((side != 0.0).sum()), dtype=bool)))
    assert not any(found)


def test_without_outliers_there_are_no_peaks():
    assert not are_peaks(np.zeros(50), np.arange(50.0), np.zeros(0, dtype=bool))


def test_peaks_of_the_signal_are_not_flagged(fitted):
    assert not fitted.outlier_mask_.any()
    assert "no-labels" in {finding.code for finding in fitted.diagnosis_}
    assert not fitted.trustworthy_


def test_readings_that_are_said_to_be_bad_stay_outliers_and_a_refit_keeps_to_it(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", biasgp.UntrustworthyFitWarning)
        model = SparseBiasGP(Matern32(), order=None).fit(*skewed())
        verdict = model.verdict_.copy()
        verdict[[20, 21]] = 1.0
        model.refit(verdict)
    assert np.flatnonzero(model.outlier_mask_).tolist() == [20, 21]
    assert model.diagnosis_[0].code == "no-labels"
    assert model.notes_ == tuple(note for note in model.notes_ if note.code != "contradicted-verdict")


def test_under_a_transform_the_same_readings_have_labels():
    model = SparseBiasGP(Matern32(), order=None, response="log").fit(*skewed())
    assert all(finding.code != "no-labels" for finding in model.diagnosis_)


def test_outliers_of_a_smooth_signal_are_found_as_before(rng):
    X = np.linspace(0.0, 10.0, 200)[:, None]
    out = rng.random(200) < 0.15
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200) + 3.0 * out
    model = SparseBiasGP(SquaredExponential(), order=None).fit(X, y)
    np.testing.assert_array_equal(model.outlier_mask_, out)


def test_a_value_that_occurs_often_is_no_replacement_where_f_has_it():
    # As at a limit of the instrument: the density of a replaced value may not be the higher one only for being narrow.
    slab = Slab.of_replaced(np.full(20, -0.7), 9.0, 0.09)
    at_f = slab.log_joint(np.array([-0.7]), np.full((1, 2), -0.6), np.full((1, 2), 0.1), np.array([0.9, 0.1]))
    far_from_f = slab.log_joint(np.array([-0.7]), np.full((1, 2), 2.0), np.full((1, 2), 0.1), np.array([0.9, 0.1]))
    assert at_f[0, 0] > at_f[0, 1]
    assert far_from_f[0, 0] < far_from_f[0, 1]
