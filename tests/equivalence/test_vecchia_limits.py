"""With all other readings as neighbours, nearest neighbours are no approximation."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.covariance.posterior import DensePosterior
from biasgp.covariance.vecchia import Vecchia
from biasgp.covariance.vecchia_posterior import VecchiaPosterior
from biasgp.data import simulate
from biasgp.kernels import Matern32, SquaredExponential
from biasgp.models import constant_bias, gaussian, random_bias
from biasgp.models.problem import Problem
from biasgp.response import Scaling

KERNELS = [Matern32(ard=True), SquaredExponential()]


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = simulate("1d", 5, n=90, n_test=20, random_state=2)
    rng = np.random.default_rng(0)
    second = rng.uniform(size=(110, 1))
    data_X = np.hstack([data.X, second[:90]])
    return data_X, Scaling.of(data.y).forward(data.y), np.hstack([data.X_test, second[90:]])


@pytest.mark.parametrize("kernel", KERNELS)
def test_likelihood_gradient_and_posterior(table, kernel):
    X, y, X_test = table
    kernel, known = kernel.bind(X), np.linspace(0.0, 0.1, len(y))
    x = np.append(kernel.theta, np.log(0.1))
    vecchia = Vecchia(kernel, X, len(y) - 1)
    value, gradient = gaussian.Likelihood(DenseEngine(X), Problem(X, y, kernel, known))(x)
    found = gaussian.Likelihood(vecchia, Problem(X, y, kernel, known))(x)
    assert found[0] == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(found[1], gradient, atol=1e-8)
    exact = DensePosterior.of(kernel, X, 0.1 + known, y)
    near = VecchiaPosterior.of(kernel, X, 0.1 + known, y, len(y))
    for a, b in zip(exact.mean_and_variance(X_test), near.mean_and_variance(X_test), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-8)
    for a, b in zip(exact.mean_and_covariance(X_test), near.mean_and_covariance(X_test), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("lam", [None, 3.0])
def test_constant_bias_at_the_same_parameters(table, kernel, lam):
    X, y, _ = table
    kernel, known = kernel.bind(X), np.zeros(len(y))
    x = np.concatenate([kernel.theta, np.log([0.1, 0.8])])
    problem = Problem(X, y, kernel, known)
    dense, sparse = (
        constant_bias._ConstantBiasLikelihood(engine, problem, constant_bias._Penalty(lam, 1.0, 0.7))
        for engine in (DenseEngine(X), Vecchia(kernel, X, len(y) - 1))
    )
    (value, gradient), found = dense(x), sparse(x)
    assert found[0] == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(found[1], gradient, atol=1e-7)
    exact, near = (each.profile(x, each.engine.covariance(*each.split(x)))[1] for each in (dense, sparse))
    np.testing.assert_allclose(near.delta, exact.delta, atol=1e-8)
    assert near.optimality <= 1e-9
    dense.rebalance(x)
    sparse.rebalance(x)
    assert (sparse.penalty.down, sparse.penalty.up) == pytest.approx((dense.penalty.down, dense.penalty.up))


@pytest.mark.parametrize("lambda_mean", [1.0, np.inf])
def test_random_bias_at_the_same_parameters(table, lambda_mean):
    X, y, _ = table
    kernel, known = Matern32().bind(X), np.full(len(y), 0.01)
    x = np.concatenate([kernel.theta, np.linspace(-3.0, 0.0, len(y)), np.log([1.5, 0.2])])
    problem = Problem(X, y, kernel, known)
    dense, sparse = (
        random_bias._RandomBiasLikelihood(engine, problem, lambda_mean)
        for engine in (DenseEngine(X), Vecchia(kernel, X, len(y) - 1))
    )
    (value, gradient), found = dense(x), sparse(x)
    assert found[0] == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(found[1], gradient, atol=1e-8)


@pytest.mark.parametrize("Estimator", [GaussianGP, ConstantBiasGP, RandomBiasGP])
def test_whole_fits_end_at_the_same_place(table, Estimator):
    X, y, X_test = table
    options = {"k": 1.0} if Estimator is ConstantBiasGP else {}  # the balance of its sides is not a smooth choice
    exact, near = (
        Estimator(Matern32(), approximation=approximation, neighbors=len(y) - 1, **options).fit(X, y)
        for approximation in ("exact", "vecchia")
    )
    # Two searches from different starts stop where nothing is to be gained: at the same height, not the same digits.
    np.testing.assert_allclose(near.predict(X_test), exact.predict(X_test), atol=0.05)
    if Estimator is GaussianGP:
        assert near.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, abs=0.01)
    else:
        assert exact.objective_ - 0.5 < near.objective_ < exact.objective_ + 0.02


def test_random_bias_by_turns_ends_where_the_joint_search_does(table):
    X, y, _ = table
    kernel = Matern32().bind(X)
    problem = Problem(X, y, kernel, np.zeros(len(y)))
    exact = random_bias.fit(problem, 200)
    sparse = random_bias._RandomBiasLikelihood(Vecchia(kernel, X, len(y) - 1), problem, np.inf)
    bounds = sparse.bounds()
    start = exact.report.x + 0.3 * np.random.default_rng(0).standard_normal(len(exact.report.x))
    report = sparse.minimise_by_turns(start, bounds, 200)
    assert report.converged
    assert exact.objective - 0.5 < report.value < exact.objective + 0.02
