"""The lasso inside the constant bias model: optimality, and agreement with solvers that are not ours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.linear_model import Lasso

from biasgp.covariance.dense_engine import DenseEngine
from biasgp.kernels import Matern32
from biasgp.models.box_qp import TOLERANCE, Box


def problem(n: int, seed: int, down: float, up: float):
    """Readings of a smooth curve, a fifth of them far off; noise and penalty differ from reading to reading."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, (n, 1))
    kernel = Matern32(length_scale=1.5, variance=1.0).bind(X)
    noise = rng.uniform(0.05, 0.3, n)
    y = np.sin(X[:, 0]) + np.sqrt(noise) * rng.standard_normal(n)
    y[rng.random(n) < 0.2] += rng.choice([-4.0, 4.0])
    box = Box(down / np.sqrt(noise), up / np.sqrt(noise))
    return DenseEngine(X).covariance(kernel, noise), kernel(X) + np.diag(noise), y, box


def violations(K, y, box, alpha, delta):
    """The optimality conditions, each recomputed from scratch."""
    tolerance = 1e-8
    return {
        "delta is y - K alpha": np.abs(y - K @ alpha - delta).max(),
        "alpha within its box": max(0.0, (alpha - box.up).max(), (-box.down - alpha).max()),
        "at the top where delta is positive": np.abs(alpha - box.up)[delta > tolerance].max(initial=0.0),
        "at the bottom where it is negative": np.abs(alpha + box.down)[delta < -tolerance].max(initial=0.0),
    }


ks = st.floats(0.2, 3.0)


@given(n=st.integers(1, 40), seed=st.integers(0, 2**20), down=ks, up=ks)
def test_solution_meets_the_optimality_conditions(n, seed, down, up):
    covariance, K, y, box = problem(n, seed, down, up)
    found = box.solve(covariance, y, np.zeros(n))
    assert found.optimality <= TOLERANCE
    for condition, size in violations(K, y, box, found.alpha, found.delta).items():
        assert size < 1e-7, condition


@given(n=st.integers(1, 25), seed=st.integers(0, 2**20), down=ks, up=ks)
def test_solution_does_not_depend_on_the_first_guess(n, seed, down, up):
    covariance, _, y, box = problem(n, seed, down, up)
    cold = box.solve(covariance, y, np.zeros(n))
    guess = np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], n)
    assert_allclose(box.solve(covariance, y, guess).delta, cold.delta, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("down", "up"), [(0.8, 0.8), (0.3, 2.0)])
def test_dual_agrees_with_l_bfgs_on_the_box_qp(seed, down, up):
    covariance, K, y, box = problem(20, seed, down, up)
    found = box.solve(covariance, y, np.zeros(20))
    direct = minimize(
        lambda a: (0.5 * a @ K @ a - y @ a, K @ a - y),
        np.zeros(20),
        jac=True,
        bounds=np.column_stack([-box.down, box.up]),
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 100_000},
    )
    assert_allclose(found.alpha, direct.x, atol=1e-5)
    assert 0.5 * found.alpha @ K @ found.alpha - y @ found.alpha <= direct.fun + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_primal_agrees_with_scikit_learns_lasso(seed):
    n, lam = 20, 1.7
    covariance, K, y, _ = problem(n, seed, 1.0, 1.0)
    found = Box(np.full(n, lam), np.full(n, lam)).solve(covariance, y, np.zeros(n))
    # ½(y − δ)ᵀQ(y − δ) + λ|δ|₁ is an ordinary lasso once Q = RᵀR whitens it.
    R = np.linalg.inv(np.linalg.cholesky(K))
    lasso = Lasso(alpha=lam / n, fit_intercept=False, tol=1e-12, max_iter=200_000).fit(R, R @ y)
    assert_allclose(found.delta, lasso.coef_, atol=1e-5)
    assert_array_equal(found.delta == 0.0, lasso.coef_ == 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_primal_and_dual_values_agree(seed):
    covariance, K, y, box = problem(30, seed, 0.5, 1.5)
    found = box.solve(covariance, y, np.zeros(30))
    rest = y - found.delta
    primal = 0.5 * rest @ np.linalg.solve(K, rest) + box.cost(found.delta).sum()
    dual = y @ found.alpha - 0.5 * found.alpha @ K @ found.alpha
    assert primal == pytest.approx(dual, rel=1e-9)


def test_the_cheap_side_takes_the_bias():
    covariance, _, y, box = problem(40, 3, 5.0, 0.3)
    found = box.solve(covariance, y, np.zeros(40))
    assert np.sum(found.delta > 0) > np.sum(found.delta < 0)
    assert np.all(box.cost(found.delta) >= 0.0)


def test_a_warm_start_needs_one_step():
    covariance, _, y, box = problem(40, 1, 0.7, 0.7)
    cold = box.solve(covariance, y, np.zeros(40))
    warm = box.solve(covariance, y, np.sign(cold.delta))
    assert cold.n_steps > 1
    assert warm.n_steps == 1
    assert_allclose(warm.delta, cold.delta, atol=1e-9)


def test_a_large_penalty_leaves_no_bias():
    covariance, K, y, box = problem(30, 2, 1e6, 1e6)
    found = box.solve(covariance, y, np.zeros(30))
    assert_array_equal(found.delta, 0.0)
    assert_allclose(found.alpha, np.linalg.solve(K, y), rtol=1e-9)


def test_a_small_penalty_gives_every_reading_a_bias():
    covariance, _, y, _ = problem(30, 2, 1.0, 1.0)
    found = Box(np.full(30, 1e-6), np.full(30, 1e-6)).solve(covariance, y, np.zeros(30))
    assert np.all(found.delta != 0.0)
    assert_allclose(found.delta, y, atol=1e-4)


def test_bias_is_exactly_zero_where_alpha_is_inside_its_box():
    covariance, _, y, box = problem(40, 5, 0.8, 0.8)
    found = box.solve(covariance, y, np.zeros(40))
    inside = (found.alpha < box.up - 1e-6) & (found.alpha > -box.down + 1e-6)
    assert 0 < inside.sum() < 40
    assert_array_equal(found.delta[inside], 0.0)


def test_each_kind_of_violation_is_seen():
    box, noise = Box(np.array([1.0, 1.0]), np.array([1.0, 2.0])), np.array([1.0, 4.0])
    free = np.array([True, False])
    assert box.violation(np.array([0.5, 2.0]), np.array([0.0, 3.0]), noise, free) == 0.0
    assert box.violation(np.array([1.5, 2.0]), np.array([0.0, 3.0]), noise, free) == pytest.approx(0.5)
    assert box.violation(np.array([-1.2, 2.0]), np.array([0.0, 3.0]), noise, free) == pytest.approx(0.2)
    assert box.violation(np.array([0.5, 2.0]), np.array([0.0, -3.0]), noise, free) == pytest.approx(1.5)
