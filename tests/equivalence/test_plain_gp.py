"""The plain GP is scikit-learn's at the same parameters, and what every model becomes in its limit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP
from biasgp.covariance.posterior import DensePosterior
from biasgp.data import Scenario, simulate
from biasgp.kernels import Constant, Exponential, Linear, Matern32, Matern52, Periodic, SquaredExponential
from biasgp.models.strategy import EXACT


def stationary(kernel, kind, **options):
    return sk.ConstantKernel(kernel.variance) * kind(np.array(kernel.length_scale), **options)


KERNELS = {
    "default": (None, lambda k: stationary(k, sk.RBF)),
    "exponential": (Exponential(), lambda k: stationary(k, sk.Matern, nu=0.5)),
    "matern32": (Matern32(ard=True), lambda k: stationary(k, sk.Matern, nu=1.5)),
    "matern52": (Matern52(), lambda k: stationary(k, sk.Matern, nu=2.5)),
    "periodic": (
        Periodic(period=5.0).fix("period"),
        lambda k: sk.ConstantKernel(k.variance) * sk.ExpSineSquared(k.length_scale, k.period),
    ),
    "sum": (
        SquaredExponential() + Linear(center=(0.0,)) + Constant(),
        lambda k: (
            stationary(k.left.left, sk.RBF)
            + sk.ConstantKernel(k.left.right.variance) * sk.DotProduct(0.0, sigma_0_bounds="fixed")
            + sk.ConstantKernel(k.right.variance)
        ),
    ),
}


@pytest.mark.parametrize(("kernel", "translate"), KERNELS.values(), ids=KERNELS.keys())
def test_equals_scikit_learns_at_the_same_parameters(kernel, translate, one_d):
    ours = GaussianGP(kernel).fit(one_d.X, one_d.y)
    center = np.median(one_d.y)
    theirs = GaussianProcessRegressor(translate(ours.kernel_), alpha=ours.noise_variance_, optimizer=None)
    theirs.fit(one_d.X, one_d.y - center)
    mean, std = ours.predict(one_d.X_test, return_std=True)
    covariance = ours.predict(one_d.X_test, return_cov=True)[1]
    expected_mean, expected_std = theirs.predict(one_d.X_test, return_std=True)
    assert_allclose(mean, expected_mean + center, atol=1e-8)
    assert_allclose(ours.predict(one_d.X_test), mean, atol=1e-12)
    assert_allclose(std, expected_std, atol=1e-8)
    assert_allclose(covariance, theirs.predict(one_d.X_test, return_cov=True)[1], atol=1e-8)
    assert ours.log_marginal_likelihood_ == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-8)


def test_equals_scikit_learns_with_several_inputs_and_known_noise(rng):
    data = simulate("friedman", 2, n=50, n_test=20)
    known = rng.uniform(0.1, 2.0, 50)
    ours = GaussianGP().fit(data.X, data.y, noise_variance=known)
    theirs = GaussianProcessRegressor(
        stationary(ours.kernel_, sk.RBF), alpha=ours.noise_variance_ + known, optimizer=None
    ).fit(data.X, data.y - np.median(data.y))
    mean, std = ours.predict(data.X_test, return_std=True)
    expected_mean, expected_std = theirs.predict(data.X_test, return_std=True)
    assert_allclose(mean, expected_mean + np.median(data.y), rtol=1e-8)
    assert_allclose(std, expected_std, rtol=1e-7, atol=1e-8)
    assert ours.log_marginal_likelihood_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-8)


def test_finds_parameters_no_worse_than_scikit_learns_search(one_d):
    kernel = sk.ConstantKernel() * sk.RBF() + sk.WhiteKernel()
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=3, random_state=0)
    theirs.fit(one_d.X, one_d.y - np.median(one_d.y))
    ours = GaussianGP().fit(one_d.X, one_d.y)
    assert ours.log_marginal_likelihood_ >= theirs.log_marginal_likelihood_value_ - 1e-3


def test_a_scikit_learn_kernel_gives_the_fit_of_ours(one_d):
    ours = GaussianGP(SquaredExponential()).fit(one_d.X, one_d.y)
    theirs = GaussianGP(sk.ConstantKernel() * sk.RBF()).fit(one_d.X, one_d.y)
    assert theirs.log_marginal_likelihood_ == pytest.approx(ours.log_marginal_likelihood_, abs=1e-4)
    assert_allclose(theirs.predict(one_d.X_test), ours.predict(one_d.X_test), atol=1e-2)


def test_leave_one_out_equals_refits_without_the_reading(rng):
    X, y, noise = rng.uniform(0, 5, (15, 2)), rng.standard_normal(15), rng.uniform(0.1, 0.5, 15)
    kernel = Matern52().bind(X)
    mean, variance = EXACT.surroundings(kernel, X).leave_one_out(kernel, y, noise, np.ones(15, dtype=bool))
    for i in range(15):
        rest = np.arange(15) != i
        refit = DensePosterior.of(kernel, X[rest], noise[rest], y[rest]).mean_and_variance(X[[i]])
        assert (mean[i], variance[i]) == pytest.approx(np.ravel(refit), abs=1e-9)


@pytest.mark.parametrize("penalty", [{"k": 30.0}, {"lam": 1e4}], ids=["k", "lam"])
def test_constant_bias_with_a_large_penalty_is_the_plain_gp(penalty, one_d):
    plain = GaussianGP().fit(one_d.X, one_d.y)
    cob = ConstantBiasGP(**penalty).fit(one_d.X, one_d.y)
    assert_array_equal(cob.bias_, 0.0)
    assert not cob.outlier_mask_.any()
    for got, want in zip(
        cob.predict(one_d.X_test, return_std=True), plain.predict(one_d.X_test, return_std=True), strict=True
    ):
        assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    assert cob.noise_variance_ == pytest.approx(plain.noise_variance_, rel=1e-6)
    assert cob.objective_ == pytest.approx(-plain.log_marginal_likelihood_, abs=1e-6)


def random_bias_of_shape(shape, plain, data):
    """RAB whose prior puts every variance at the plain GP's noise, the more so the larger the shape."""
    unit = 1.4826 * np.median(np.abs(data.y - np.median(data.y)))
    lambdas = (np.inf, shape, shape * plain.noise_variance_ / unit**2)
    return RandomBiasGP(lambdas=lambdas).fit(data.X, data.y)


def test_random_bias_of_a_growing_shape_tends_to_the_plain_gp(one_d):
    plain = GaussianGP().fit(one_d.X, one_d.y)
    gaps = []
    for shape in (1e1, 1e2, 1e3):
        rab = random_bias_of_shape(shape, plain, one_d)
        gaps.append(np.abs(rab.predict(one_d.X_test) - plain.predict(one_d.X_test)).max())
    assert gaps[0] > 3 * gaps[1] > 9 * gaps[2]
    assert gaps[2] < 0.01


@pytest.mark.parametrize("shape", [1e4, 1e5])
def test_random_bias_of_a_huge_shape_is_the_plain_gp(shape, one_d):
    plain = GaussianGP().fit(one_d.X, one_d.y)
    rab = random_bias_of_shape(shape, plain, one_d)
    assert_allclose(rab.bias_variance_, plain.noise_variance_, rtol=0.01)
    assert_allclose(rab.predict(one_d.X_test), plain.predict(one_d.X_test), atol=0.01)


def test_random_bias_with_its_own_lambdas_given_back_is_the_same_fit(one_d):
    learnt = RandomBiasGP().fit(one_d.X, one_d.y)
    given = RandomBiasGP(lambdas=learnt.lambdas_).fit(one_d.X, one_d.y)
    assert_allclose(given.predict(one_d.X_test), learnt.predict(one_d.X_test), atol=0.02)
    assert given.lambdas_ == learnt.lambdas_


def test_constant_bias_with_its_own_k_given_back_is_the_same_fit():
    # Outliers on both sides, so that the k of each side is about the same.
    data = simulate("1d", Scenario(0.0, 0.0, 0.3), n=80, n_test=30, random_state=2)
    y = data.y + np.where(np.arange(80) % 10 == 0, 3.0, 0.0) - np.where(np.arange(80) % 10 == 5, 3.0, 0.0)
    learnt = ConstantBiasGP().fit(data.X, y)
    given = ConstantBiasGP(k=float(np.mean(learnt.k_))).fit(data.X, y)
    assert given.k_[0] == given.k_[1] == pytest.approx(np.mean(learnt.k_))
    assert_allclose(given.predict(data.X_test), learnt.predict(data.X_test), atol=0.1)
    assert given.noise_variance_ == pytest.approx(learnt.noise_variance_, rel=0.2)
    # k by maximum likelihood is at least as likely as any one k.
    assert learnt.objective_ <= given.objective_ + 1e-6


@pytest.mark.parametrize("tuning", [{}, {"k": 0.7}, {"lam": 3.0}], ids=["ml", "k", "lam"])
@pytest.mark.filterwarnings("ignore::biasgp.RunawayTuningWarning")
def test_lambda_and_bias_meet_the_optimality_conditions_in_the_users_unit(tuning, one_d):
    y = 1000.0 * one_d.y
    tuning = {name: value / 1000.0 if name == "lam" else value for name, value in tuning.items()}
    cob = ConstantBiasGP(**tuning).fit(one_d.X, y)
    K = cob.kernel_(one_d.X) + cob.noise_variance_ * np.eye(len(y))
    alpha = np.linalg.solve(K, y - np.median(y) - cob.bias_)
    down, up = cob.lam_
    slack = 1e-6 * up.max()
    assert cob.optimality_ < 1e-8
    assert np.all((alpha <= up + slack) & (alpha >= -down - slack))
    assert_allclose(alpha[cob.bias_ > 0], up[cob.bias_ > 0], rtol=1e-6)
    assert_allclose(alpha[cob.bias_ < 0], -down[cob.bias_ < 0], rtol=1e-6)
    if not tuning or "k" in tuning:
        assert_allclose(down, cob.k_[0] / np.sqrt(cob.noise_variance_))
        assert_allclose(up, cob.k_[1] / np.sqrt(cob.noise_variance_))
    else:
        assert_allclose(down, tuning["lam"])
        assert np.isnan(cob.k_).all()


def test_random_bias_is_a_plain_gp_with_its_own_variances(one_d):
    rab = RandomBiasGP().fit(one_d.X, one_d.y)
    K = rab.kernel_(one_d.X) + np.diag(rab.bias_variance_)
    alpha = np.linalg.solve(K, one_d.y - np.median(one_d.y) - rab.mean_bias_)
    expected = np.median(one_d.y) + rab.kernel_(one_d.X_test, one_d.X) @ alpha
    assert_allclose(rab.predict(one_d.X_test), expected, rtol=1e-8, atol=1e-8)
    # E[δ | y] = μ + τ²α, where τ² is what a reading's variance has beyond the noise.
    tau2 = np.maximum(rab.bias_variance_ - rab.noise_variance_, 0.0)
    assert_allclose(rab.bias_, rab.mean_bias_ + tau2 * alpha, rtol=1e-7, atol=1e-9)
