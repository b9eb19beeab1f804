"""What the scale mixture must agree with: the plain GP where ν is large, EP, and itself in other units."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from biasgp import GaussianGP, ScaleMixtureGP, StudentTGP
from biasgp.data import Scenario, simulate
from biasgp.kernels import SquaredExponential
from biasgp.models import gaussian, mixture_steps, scale_mixture
from biasgp.models.problem import Problem
from biasgp.samplers import Metric

LARGE = 1e6


@pytest.mark.parametrize("known", [0.0, 0.05])
def test_large_nu_is_the_plain_gp_at_the_same_parameters(one_d, known):
    z = (one_d.y - np.median(one_d.y)) / one_d.y.std()
    variances = np.full(len(z), known)
    plain = gaussian.fit(Problem(one_d.X, z, SquaredExponential(ard=True).bind(one_d.X), variances), 200)
    held = np.append(plain.kernel.theta, np.log(plain.noise_variance))
    # σ² must be free for the sampler; as good as held.
    almost = np.array([0.0, 0.0, 1e-7])
    box = mixture_steps._Coordinates(held - almost, held + almost, held, np.zeros(3, dtype=bool))
    data = mixture_steps.Target(Problem(one_d.X, z, plain.kernel, variances), box, (LARGE, LARGE))
    rng = np.random.default_rng(0)
    at = data.at(np.zeros(1), np.ones(len(z)))
    chain = mixture_steps.Chain(at, np.log(LARGE), np.zeros(len(z)), rng)
    plan = scale_mixture.Plan(draws=8, tune=2, chains=1)
    found = scale_mixture._sample(data, [chain], Metric(np.eye(1)), plan)
    for ours, theirs in zip(
        found.posterior.mean_and_variance(one_d.X_test), plain.posterior.mean_and_variance(one_d.X_test), strict=True
    ):
        assert_allclose(ours, theirs, atol=2e-3)
    assert_allclose(found.weights, 1.0, atol=1e-3)
    assert found.noise_variance == pytest.approx(plain.noise_variance, rel=1e-5)


def test_large_nu_is_sampled_about_the_plain_gp():
    data = simulate("1d", Scenario(0.0, 3.0, 0.3), n=60, n_test=50, random_state=2)
    plain = GaussianGP().fit(data.X, data.y)
    model = ScaleMixtureGP(nu=LARGE, draws=200, tune=80).fit(data.X, data.y)
    mean, std = plain.predict(data.X_test, return_std=True)
    ours, our_std = model.predict(data.X_test, return_std=True)
    assert np.abs(ours - mean).max() < 0.5 * std.max()
    assert_allclose(our_std.mean(), std.mean(), rtol=0.2)
    assert_allclose(model.noise_variance_, plain.noise_variance_, rtol=0.1)
    assert_allclose(model.weights_, 1.0, atol=1e-3)


def test_expectation_propagation_is_close():
    """About where EP's search ends: elsewhere the evidence may have a higher mode that the chains do find."""
    data = simulate("1d", 8, n=100, n_test=50, random_state=4)
    kernel = SquaredExponential(variance=1.7, length_scale=0.8).fix("variance", "length_scale")
    ep = StudentTGP(kernel, nu=2.0).fit(data.X, data.y)
    model = ScaleMixtureGP(kernel, nu=2.0, draws=100, tune=80).fit(data.X, data.y)
    mean, std = ep.predict(data.X_test, return_std=True)
    assert np.abs(model.predict(data.X_test) - mean).max() < std.max()
    assert_allclose(model.noise_variance_, ep.noise_variance_, rtol=0.15)
    assert_allclose(model.weights_, ep.weights_, atol=0.25)
    assert np.abs(model.outlier_probability_ - ep.outlier_probability_).mean() < 0.05


@pytest.mark.filterwarnings("ignore::biasgp.MixingWarning")
def test_units_of_the_readings_and_inputs_do_not_matter():
    data = simulate("1d", 8, n=60, n_test=50, random_state=4)
    model = ScaleMixtureGP(draws=10, tune=10, chains=2).fit(data.X, data.y)
    other = ScaleMixtureGP(draws=10, tune=10, chains=2).fit(100.0 * data.X, 1024.0 * data.y)
    assert_allclose(other.predict(100.0 * data.X_test), 1024.0 * model.predict(data.X_test), rtol=1e-5)
    assert_allclose(other.draws_["scale2"], 1024.0**2 * model.draws_["scale2"], rtol=1e-5)
    assert_allclose(other.draws_["variance"], 1024.0**2 * model.draws_["variance"], rtol=1e-5)
    assert_allclose(other.draws_["length_scale[0]"], 100.0 * model.draws_["length_scale[0]"], rtol=1e-5)
    density = model.log_predictive_density(data.X_test, data.y_test)
    assert_allclose(
        other.log_predictive_density(100.0 * data.X_test, 1024.0 * data.y_test) + np.log(1024.0), density, atol=1e-5
    )
