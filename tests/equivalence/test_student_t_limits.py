"""What the Student-t model must agree with: the plain GP where ν is large, and itself in other units and orders."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from biasgp import GaussianGP
from biasgp.data import simulate
from biasgp.estimators.student_t import StudentTGP
from biasgp.kernels import SquaredExponential
from biasgp.models import gaussian, student_t
from biasgp.models.problem import Problem
from biasgp.optimize import Report

LARGE = 1e6
inferences = pytest.mark.parametrize("inference", ["ep", "laplace"])


def report_at(x):
    nowhere = np.zeros(len(x), dtype=bool)
    return Report(np.asarray(x), 0.0, True, "", 1, 1, nowhere, nowhere)


@inferences
@pytest.mark.parametrize("known", [0.0, 0.05])
def test_large_nu_is_the_plain_gp_at_the_same_parameters(one_d, inference, known):
    z = (one_d.y - np.median(one_d.y)) / one_d.y.std()
    variances = np.full(len(z), known)
    plain = gaussian.fit(Problem(one_d.X, z, SquaredExponential(ard=True).bind(one_d.X), variances), 200)
    arguments = (Problem(one_d.X, z, plain.kernel, variances), np.zeros_like(z))
    evidence = student_t._EPEvidence(*arguments, 0.9) if inference == "ep" else student_t._LaplaceEvidence(*arguments)
    found = evidence.at(report_at(np.append(plain.report.x, np.log(LARGE))))
    assert_allclose(found.log_likelihood, -plain.report.value, atol=1e-3)
    for ours, theirs in zip(
        found.posterior.mean_and_variance(one_d.X_test), plain.posterior.mean_and_variance(one_d.X_test), strict=True
    ):
        assert_allclose(ours, theirs, atol=1e-4)
    assert_allclose(found.weights, 1.0, atol=1e-3)


@inferences
def test_large_nu_is_fitted_as_the_plain_gp(one_d, inference):
    plain = GaussianGP().fit(one_d.X, one_d.y)
    model = StudentTGP(nu=LARGE, inference=inference).fit(one_d.X, one_d.y)
    assert_allclose(model.log_marginal_likelihood_, plain.log_marginal_likelihood_, atol=1e-3)
    assert_allclose(model.noise_variance_, plain.noise_variance_, rtol=0.01)
    for ours, theirs in zip(
        model.predict(one_d.X_test, return_std=True), plain.predict(one_d.X_test, return_std=True), strict=True
    ):
        assert_allclose(ours, theirs, atol=0.01)


@inferences
def test_units_and_order_of_the_readings_do_not_matter(inference):
    data = simulate("1d", 8, n=100, n_test=50, random_state=4)
    order = np.random.default_rng(0).permutation(len(data.y))
    model = StudentTGP(inference=inference).fit(data.X, data.y)
    other = StudentTGP(inference=inference).fit(data.X[order], 1000.0 * data.y[order] + 5e4)
    assert_allclose(other.predict(data.X_test), 1000.0 * model.predict(data.X_test) + 5e4, rtol=1e-4)
    assert_allclose(other.noise_variance_, 1e6 * model.noise_variance_, rtol=0.01)
    assert_allclose(other.weights_, model.weights_[order], atol=0.01)
    unit = np.log(1000.0)
    assert_allclose(other.log_marginal_likelihood_ + len(order) * unit, model.log_marginal_likelihood_, atol=1e-3)
    density = model.log_predictive_density(data.X_test, data.y_test)
    assert_allclose(other.log_predictive_density(data.X_test, 1000.0 * data.y_test + 5e4) + unit, density, atol=0.01)


def test_fractions_agree_where_the_posterior_is_nearly_gaussian(one_d):
    fits = [StudentTGP(nu=30.0, fraction=fraction).fit(one_d.X, one_d.y) for fraction in (1.0, 0.9, 0.3)]
    for fit in fits[1:]:
        assert_allclose(fit.log_marginal_likelihood_, fits[0].log_marginal_likelihood_, atol=0.05)
        assert_allclose(fit.predict(one_d.X_test), fits[0].predict(one_d.X_test), atol=0.02)
