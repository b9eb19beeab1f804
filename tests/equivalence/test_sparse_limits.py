"""What the sparse bias model becomes in its limits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from biasgp import GaussianGP, SparseBiasGP
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.data import Scenario, simulate
from biasgp.kernels import Exponential, Matern52, SquaredExponential
from biasgp.models import gaussian
from biasgp.models.problem import Problem
from biasgp.models.sparse.average import LabelAverage
from biasgp.models.sparse.kinds import PRIOR, Slab
from biasgp.models.sparse.labels import Support
from biasgp.models.sparse.recipe import RECIPE
from biasgp.models.sparse.search import Candidate, LabelledLikelihood, Search

SLAB = Slab((0.5,), 9.0)
KERNELS = {"se": None, "matern": Matern52(ard=True), "exp": Exponential()}


@pytest.fixture(scope="module")
def clean():
    return simulate("1d", Scenario(0.0, 3.0, 0.3), n=120, n_test=60, random_state=5)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_without_outliers_it_is_the_plain_gp(kernel, clean):
    plain, sparse = (Estimator(kernel).fit(clean.X, clean.y) for Estimator in (GaussianGP, SparseBiasGP))
    assert not sparse.outlier_mask_.any()
    # Readings in doubt are averaged over: less than the noise of 0.3 is left of that.
    assert_allclose(sparse.bias_, 0.0, atol=0.3)
    assert sparse.noise_variance_ == pytest.approx(plain.noise_variance_, rel=0.1)
    for got, want in zip(
        sparse.predict(clean.X_test, return_std=True), plain.predict(clean.X_test, return_std=True), strict=True
    ):
        assert_allclose(got, want, atol=0.05)


def test_a_vanishing_share_of_outliers_is_the_plain_gp(monkeypatch, one_d):
    # Beta(1, ∞): no reading is an outlier, however far off it is.
    monkeypatch.setitem(vars(PRIOR), "clean", 1e200)
    monkeypatch.setitem(vars(RECIPE.over_parameters), "up_to", 0)
    alike = SparseBiasGP(length_scale_prior=None, noise_model="constant")
    plain, sparse = (model.fit(one_d.X, one_d.y) for model in (GaussianGP(), alike))
    assert_array_equal(sparse.outlier_mask_, False)
    assert_allclose(sparse.outlier_probability_, 0.0, atol=1e-12)
    assert_array_equal(sparse.bias_, 0.0)
    assert sparse.noise_variance_ == pytest.approx(plain.noise_variance_, rel=1e-2)
    for got, want in zip(
        sparse.predict(one_d.X_test, return_std=True), plain.predict(one_d.X_test, return_std=True), strict=True
    ):
        assert_allclose(got, want, atol=0.01)


def test_labels_of_no_outlier_have_the_plain_gps_likelihood_and_gradient(clean):
    kernel, known = SquaredExponential(ard=True).bind(clean.X), np.zeros(len(clean.y))
    no_labels = np.zeros(len(clean.y), dtype=np.intp)
    x = np.append(kernel.theta, np.log(0.1))
    value, gradient = LabelledLikelihood(Problem(clean.X, clean.y, kernel, known), SLAB, no_labels)(np.append(x, 0.0))
    expected, expected_gradient = gaussian.Likelihood(DenseEngine(clean.X), Problem(clean.X, clean.y, kernel, known))(x)
    assert value == pytest.approx(expected, rel=1e-10)
    assert_allclose(gradient, np.append(expected_gradient, 0.0), rtol=1e-7, atol=1e-9)


def support_with_known_labels(data, slab):
    kernel = SquaredExponential(ard=True).bind(data.X)
    search = Search(Problem(data.X, data.y, kernel, np.zeros(len(data.y))))
    start = Candidate(np.append(kernel.theta, np.log(0.1)), slab, data.is_outlier.astype(np.intp))
    return search, search.support(start)


def plain_gp_without(data, search, noise=0.1):
    """α and K⁻¹ of the plain GP on the readings that are no outliers, with zeros for the others."""
    inside = ~data.is_outlier
    K_inverse = np.zeros((len(data.y), len(data.y)))
    K = search.kernel(data.X[inside]) + noise * np.eye(inside.sum())
    K_inverse[np.ix_(inside, inside)] = np.linalg.inv(K)
    return K_inverse @ data.y, K_inverse


@pytest.mark.parametrize(
    ("slab", "tolerance"),
    [(Slab((1e9,), 9.0), 1e-6), (Slab((1.0,), 9.0, replaced=True, means=(0.0,)), 1e-9)],
    ids=["a slab without bounds", "replaced"],
)
def test_outliers_that_tell_nothing_of_f_are_as_good_as_left_out(slab, tolerance, one_d):
    search, support = support_with_known_labels(one_d, slab)
    moments = LabelAverage(sweeps=2, burn_in=0, sampled_up_to=-1.0)(support, np.random.default_rng(0))
    alpha, K_inverse = plain_gp_without(one_d, search)
    assert_allclose(moments.alpha, alpha, atol=tolerance)
    assert_allclose(moments.precision, K_inverse, atol=tolerance)


def test_a_slab_without_spread_corrects_every_outlier_by_the_same_bias(one_d):
    slab = Slab((1e-10,), 1e8)
    _, support = support_with_known_labels(one_d, slab)
    moments = LabelAverage(sweeps=1, burn_in=0)(support, np.random.default_rng(0))
    bias = moments.bias[one_d.is_outlier]
    assert np.ptp(bias) < 1e-6
    # Generalised least squares for a common offset.
    K, out = np.linalg.inv(support.Q), one_d.is_outlier.astype(float)
    offset = (out @ np.linalg.solve(K, one_d.y)) / (out @ np.linalg.solve(K, out))
    assert_allclose(bias, offset, rtol=1e-5)


def test_known_noise_adds_to_the_noise_of_clean_readings(one_d):
    known = np.linspace(0.01, 0.5, len(one_d.y))
    kernel = SquaredExponential(ard=True).bind(one_d.X)
    no_labels = np.zeros(len(known), dtype=np.intp)
    start = Candidate(np.append(kernel.theta, np.log(0.2)), SLAB, no_labels)
    support = Search(Problem(one_d.X, one_d.y, kernel, known)).support(start)
    expected = Support(kernel(one_d.X), one_d.y, 0.2 + known, SLAB, no_labels)
    assert_allclose(support.Q, expected.Q, atol=1e-12)


def test_the_fit_to_the_readings_without_what_it_flagged_is_the_same(clean):
    dirty = clean.y.copy()
    dirty[[3, 30, 60, 90]] += 50.0
    sparse = SparseBiasGP().fit(clean.X, dirty)
    assert_array_equal(np.flatnonzero(sparse.outlier_mask_), [3, 30, 60, 90])
    kept = ~sparse.outlier_mask_
    oracle = GaussianGP().fit(clean.X[kept], clean.y[kept])
    assert_allclose(sparse.predict(clean.X_test), oracle.predict(clean.X_test), atol=0.05)
