"""The exact covariance against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from biasgp import CovarianceError
from biasgp.covariance.dense import factorise, semidefinite_root
from biasgp.covariance.dense_engine import DenseEngine, Inverse
from biasgp.kernels import Exponential, SquaredExponential

SIZES = (1, 2, 63, 64, 65, 130)


def problem(n: int, seed: int = 0, d: int = 2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, d))
    noise = rng.uniform(0.1, 0.4, n)
    kernel = Exponential(ard=True, length_scale=(1.0,) * d).bind(X)
    return kernel, X, noise, rng.standard_normal(n)


@pytest.mark.parametrize("n", SIZES)
def test_factor_agrees_with_numpy(n, rng):
    kernel, X, noise, b = problem(n)
    K = kernel(X) + np.diag(noise)
    factor = factorise(kernel(X), noise)
    L = np.linalg.cholesky(K)
    B = rng.standard_normal((n, 3))
    assert factor.jitter == 0.0
    assert factor.logdet == pytest.approx(np.linalg.slogdet(K)[1], abs=1e-10)
    assert_allclose(factor.solve(b), np.linalg.solve(K, b), rtol=1e-9)
    assert_allclose(factor.solve(B), np.linalg.solve(K, B), rtol=1e-9, atol=1e-12)
    assert_allclose(factor.half_solve(B), np.linalg.solve(L, B), rtol=1e-9, atol=1e-12)
    assert_allclose(semidefinite_root(kernel(X), noise), L, rtol=1e-10, atol=1e-12)


def test_a_root_of_what_rounding_made_indefinite(rng):
    v = rng.standard_normal((6, 2))
    C = v @ v.T
    C.flat[::7] -= 1e-2
    assert np.linalg.eigvalsh(C)[0] < -9e-3
    with pytest.raises(CovarianceError):
        factorise(C, np.zeros(6))
    root = semidefinite_root(C, np.zeros(6))
    assert_allclose(root @ root.T, v @ v.T, atol=2e-2)
    with pytest.raises(CovarianceError):
        semidefinite_root(np.array([[-1.0, np.nan], [np.nan, 1.0]]), np.zeros(2))


def test_factorise_leaves_its_argument_alone():
    kernel, X, noise, _ = problem(5)
    C = kernel(X)
    before = C.copy()
    factorise(C, noise)
    assert_array_equal(C, before)


@pytest.mark.parametrize(("defect", "jitter"), [(1e-11, 1e-10), (1e-9, 1e-8), (1e-7, 1e-6), (1e-5, 1e-4)])
def test_a_singular_matrix_gets_the_least_jitter_that_works(defect, jitter):
    # Smallest eigenvalue −defect, mean diagonal 1: the jitter must beat the defect, and no lesser one does.
    values = np.array([-defect, 0.5, 1.0, 2.5 + defect])
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    A = (basis * values) @ basis.T
    A = 0.5 * (A + A.T)
    factor = factorise(A, np.zeros(4))
    assert factor.jitter == pytest.approx(jitter * A.diagonal().mean())
    L = np.tril(factor.lower)
    assert_allclose(L @ L.T, A + factor.jitter * np.eye(4), atol=1e-13)


def test_jitter_is_a_share_of_the_diagonal():
    ones = np.ones((6, 6))
    small, large = factorise(1e-8 * ones, np.zeros(6)), factorise(1e8 * ones, np.zeros(6))
    assert small.jitter > 0.0
    assert large.jitter == pytest.approx(1e16 * small.jitter)


def test_one_reading_of_large_noise_does_not_raise_the_jitter_of_all():
    C = SquaredExponential(length_scale=10.0, variance=1.0)(np.linspace(0.0, 1.0, 30)[:, None])
    noise = np.where(np.arange(30) == 4, 1e16, 0.0)
    assert 0.0 < factorise(C, noise).jitter < 1e-5


def test_an_indefinite_matrix_is_an_error_that_says_what_to_do():
    with pytest.raises(CovarianceError, match=r"not positive definite.*less smooth kernel"):
        factorise(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros(2))


def test_covariance_reports_its_jitter_and_counts_it_in():
    X = np.zeros((5, 1))
    K = DenseEngine(X).covariance(SquaredExponential(length_scale=1.0).bind(X), np.zeros(5))
    assert K.jitter > 0.0
    v = np.arange(5.0)
    assert_allclose(K.matvec(v), (np.ones((5, 5)) + K.jitter * np.eye(5)) @ v, rtol=1e-14)


@pytest.mark.parametrize("n", SIZES)
def test_inverse_is_exactly_symmetric_and_right(n):
    kernel, X, noise, b = problem(n)
    K = DenseEngine(X).covariance(kernel, noise)
    full = kernel(X) + np.diag(noise)
    by_factor = K.solve(b)
    Q = K.inverse()
    assert_array_equal(Q, Q.T)
    assert_allclose(Q @ full, np.eye(n), atol=1e-11)
    assert K.inverse() is Q
    assert_allclose(K.solve(b), by_factor, rtol=1e-9, atol=1e-12)
    assert K.logdet == pytest.approx(np.linalg.slogdet(full)[1], abs=1e-10)


@pytest.mark.parametrize("n", SIZES)
def test_an_inverse_leaves_the_factor_alone_unless_it_may_overwrite_it(n):
    kernel, X, noise, _ = problem(n)
    factor = factorise(kernel(X), noise)
    before, half = factor.lower.copy(), factor.half_inverse()
    Q = factor.inverse()
    assert_array_equal(factor.lower, before)
    assert_array_equal(Q, Q.T)
    assert_array_equal(half, np.tril(half))
    assert_allclose(half.T @ half, Q, rtol=1e-9, atol=1e-12)
    assert_array_equal(factor.inverse(overwrite=True), Q)


@given(seed=st.integers(0, 2**20), n=st.integers(1, 12), d=st.integers(1, 3))
def test_gradient_equals_central_differences(seed, n, d):
    kernel, X, noise, r = problem(n, seed, d)

    def value(theta, noise):
        K = kernel.with_theta(theta)(X) + np.diag(noise)
        return 0.5 * np.linalg.slogdet(K)[1] + 0.5 * r @ np.linalg.solve(K, r)

    def differences(function, x, h=1e-5):
        return np.array([(function(x + e) - function(x - e)) / (2 * h) for e in h * np.eye(len(x))])

    K = DenseEngine(X).covariance(kernel, noise)
    by_theta, by_noise = K.gradient(K.solve(r))
    assert_allclose(by_theta, differences(lambda t: value(t, noise), kernel.theta), rtol=1e-5, atol=1e-6)
    assert_allclose(by_noise, differences(lambda v: value(kernel.theta, v), noise), rtol=1e-5, atol=1e-6)


def test_gradient_leaves_alpha_alone_and_uses_the_inverse_up():
    kernel, X, noise, r = problem(6)
    K = DenseEngine(X).covariance(kernel, noise)
    alpha = K.solve(r)
    before = alpha.copy()
    K.gradient(alpha)
    assert_array_equal(alpha, before)
    with pytest.raises(RuntimeError, match="used up by gradient"):
        K.inverse()
    with pytest.raises(RuntimeError, match="used up by gradient"):
        K.solve(r)


def test_matvec_is_multiplication_by_the_whole_matrix(rng):
    kernel, X, noise, v = problem(9)
    K = DenseEngine(X).covariance(kernel, noise)
    assert_allclose(K.matvec(v), (kernel(X) + np.diag(noise)) @ v, rtol=1e-12)


# From none free to all: up to half goes through a block of K, beyond it through one of the inverse.
@pytest.mark.parametrize("n_free", [0, 1, 5, 6, 7, 11, 12])
def test_clamped_solve_agrees_with_a_direct_solve(n_free, rng):
    n = 12
    kernel, X, noise, y = problem(n)
    full = kernel(X) + np.diag(noise)
    free = np.zeros(n, dtype=bool)
    free[rng.permutation(n)[:n_free]] = True
    clamped = rng.standard_normal(n)
    expected = clamped.copy()
    if n_free:
        pull = y[free] - full[np.ix_(free, ~free)] @ clamped[~free]
        expected[free] = np.linalg.solve(full[np.ix_(free, free)], pull)
    alpha, delta = DenseEngine(X).covariance(kernel, noise).clamped_solve(y, clamped, free)
    assert_allclose(alpha, expected, rtol=1e-9, atol=1e-11)
    assert_allclose(delta, y - full @ expected, rtol=1e-9, atol=1e-11)
    assert_array_equal(delta[free], 0.0)


def test_clamped_solve_works_after_the_inverse_was_taken(rng):
    kernel, X, noise, y = problem(10)
    free = np.arange(10) < 3
    clamped = rng.standard_normal(10)
    K = DenseEngine(X).covariance(kernel, noise)
    expected = K.clamped_solve(y, clamped, free)
    K.inverse()
    for got, want in zip(K.clamped_solve(y, clamped, free), expected, strict=True):
        assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_a_covariance_that_is_singular_to_working_precision_gets_jitter():
    # Its Cholesky factor exists, by the grace of rounding.
    C = np.full((60, 60), 1e12)
    factor = factorise(C, np.full(60, 1e-3))
    assert factor.jitter > 0.0
    # Entries of very different size are no reason.
    assert factorise(np.diag(np.logspace(-30.0, 30.0, 10)), np.zeros(10)).jitter == 0.0


def test_a_covariance_that_is_no_number_has_no_factor():
    with pytest.raises(CovarianceError):
        factorise(np.full((3, 3), np.nan), np.ones(3))


def inverse_of(K: np.ndarray) -> Inverse:
    return Inverse(K, np.linalg.inv(K), float(np.linalg.slogdet(K)[1]))


@pytest.mark.parametrize("columns", [0, 1, 3, 20])
def test_an_inverse_follows_columns_that_the_covariance_gains_or_loses(columns, rng):
    kernel, X, noise, _ = problem(40)
    K, U = kernel(X) + np.diag(noise), 2.0 * rng.standard_normal((40, columns))
    wider = inverse_of(K + U @ U.T)
    pairs = [(inverse_of(K).with_columns(wider.C, U), wider), (wider.without_columns(K, U), inverse_of(K))]
    for found, expected in pairs:
        assert_array_equal(found.C, expected.C)
        assert_allclose(found.Q, expected.Q, atol=1e-9)
        assert found.logdet == pytest.approx(expected.logdet, abs=1e-8)


def test_rows_that_are_not_in_an_inverse_stay_out():
    kernel, X, noise, _ = problem(12)
    K, U, inside = kernel(X) + np.diag(noise), np.ones((12, 1)), np.arange(2, 12)
    part = inverse_of(K[2:, 2:])
    Q = np.zeros((12, 12))
    Q[2:, 2:] = part.Q
    found, expected = Inverse(K, Q, part.logdet).with_columns(K + 1.0, U), inverse_of(K[2:, 2:] + 1.0)
    assert_allclose(found.Q[np.ix_(inside, inside)], expected.Q, atol=1e-10)
    assert not found.Q[:2].any() and found.logdet == pytest.approx(expected.logdet, abs=1e-10)


def test_a_difference_that_would_be_all_rounding_is_not_taken():
    kernel, X, noise, _ = problem(30)
    K, U = kernel(X) + np.diag(noise), 1e3 * np.ones((30, 1))
    assert inverse_of(K + U @ U.T).without_columns(K, U) is None


def test_what_is_known_of_a_residual_is_not_worked_out_again():
    kernel, X, noise, y = problem(30)
    K = kernel(X) + np.diag(noise)
    plain = DenseEngine(X).covariance(kernel, noise).negative_log_density(y)
    known = DenseEngine(X).covariance(kernel, noise).negative_log_density(y, np.linalg.solve(K, y))
    assert known.value == pytest.approx(plain.value, abs=1e-10)
    assert_allclose(known.by_theta, plain.by_theta, atol=1e-10)
