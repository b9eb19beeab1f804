"""The exact engine for time against the dense one, and where numbers are at their worst."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp.covariance import markov_passes
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.covariance.markov import PIECE, MarkovEngine, TimeSurroundings
from biasgp.kernels import Constant, Exponential, Kernel, Linear, Matern32, Matern52, Periodic, SquaredExponential

KERNELS = {
    "exponential": Exponential(),
    "matern32": Matern32(),
    "matern52": Matern52(),
    "sum": Matern32() + Exponential(length_scale=0.3) + Constant(),
    "product": Matern32() * Exponential(),
    "trend": Matern52() + Linear(),
    "temperature": Matern32().on(0) + Linear().on(1),
    "quasi-periodic": Matern32() * Periodic(period=2.0),
}
N = 200


def readings(*, even: bool, n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs in no order, some of them twice, readings, and noise that differs."""
    rng = np.random.default_rng(0)
    times = 0.25 * rng.permutation(n) if even else rng.uniform(0.0, 0.25 * n, n)
    times[5] = times[6] = times[7]
    y = np.sin(times) + 0.3 * rng.normal(size=n)
    return np.column_stack([times, rng.normal(size=n)]), y, rng.uniform(0.05, 0.2, n)


def both(kernel: Kernel, X: np.ndarray, noise: np.ndarray):
    X = X if "columns" in repr(kernel) else X[:, :1]
    bound = kernel.bind(X)
    tolerance = 1e-8 if bound.state_space(X.shape[1]).accuracy == 0.0 else 1e-6
    return X, MarkovEngine(bound, X).covariance(bound, noise), DenseEngine(X).covariance(bound, noise), tolerance


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
class TestAgainstDense:
    def test_density_and_gradient(self, kernel: Kernel, even: bool) -> None:
        X, y, noise = readings(even=even)
        _, ours, dense, tolerance = both(kernel, X, noise)
        found, expected = (K.negative_log_density(y, each_noise=True) for K in (ours, dense))
        assert found.value == pytest.approx(expected.value, abs=tolerance)
        np.testing.assert_allclose(found.by_noise, expected.by_noise, atol=tolerance)
        np.testing.assert_allclose(found.by_theta, expected.by_theta, atol=tolerance)
        summed = ours.negative_log_density(y)
        np.testing.assert_allclose(summed.by_noise, [found.by_noise.sum()], rtol=1e-12)

    def test_gradient_by_differences(self, kernel: Kernel, even: bool) -> None:
        X, y, noise = readings(even=even)
        X, ours, _, _ = both(kernel, X, noise)
        bound = ours.kernel

        def value(theta: np.ndarray) -> float:
            moved = bound.with_theta(theta)
            return MarkovEngine(moved, X).covariance(moved, noise).negative_log_density(y).value

        steps = 1e-4 * np.eye(len(bound.theta))
        near, far = ([value(bound.theta + k * step) - value(bound.theta - k * step) for step in steps] for k in (1, 2))
        numerical = (8.0 * np.array(near) - np.array(far)) / 12e-4
        np.testing.assert_allclose(ours.negative_log_density(y).by_theta, numerical, atol=1e-6, rtol=1e-6)

    def test_inverse(self, kernel: Kernel, even: bool) -> None:
        X, y, noise = readings(even=even)
        _, ours, dense, tolerance = both(kernel, X, noise)
        B = np.column_stack([y, np.roll(y, 3)])
        np.testing.assert_allclose(ours.solve(B), dense.solve(B), atol=tolerance)
        np.testing.assert_allclose(ours.inverse_diagonal(), dense.inverse_diagonal(), atol=tolerance)

    def test_clamped_solve(self, kernel: Kernel, even: bool) -> None:
        X, y, noise = readings(even=even)
        _, ours, dense, tolerance = both(kernel, X, noise)
        rng = np.random.default_rng(1)
        free, alpha = rng.uniform(size=N) < 0.7, rng.normal(size=N)
        for mine, theirs in zip(*(K.clamped_solve(y, alpha, free) for K in (ours, dense)), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=10.0 * tolerance)

    def test_posterior_between_and_beyond_readings(self, kernel: Kernel, even: bool) -> None:
        X, y, noise = readings(even=even)
        X, ours, dense, tolerance = both(kernel, X, noise)
        rng = np.random.default_rng(2)
        at = np.column_stack([rng.uniform(-10.0, 70.0, 40), rng.normal(size=40)])[:, : X.shape[1]]
        at[:3], at[4] = X[4:7], at[3]
        mine, theirs = (K.posterior(y) for K in (ours, dense))
        for method in ("mean_and_variance", "mean_and_covariance"):
            for a, b in zip(getattr(mine, method)(at), getattr(theirs, method)(at), strict=True):
                np.testing.assert_allclose(a, b, atol=tolerance)
        for a, b in zip(mine.leave_one_out(), theirs.leave_one_out(), strict=True):
            np.testing.assert_allclose(a, b, atol=tolerance)


@pytest.mark.parametrize("even", [True, False])
def test_a_reading_with_infinite_noise_is_not_there(even: bool) -> None:
    X, y, noise = readings(even=even)
    there = np.random.default_rng(4).uniform(size=N) < 0.8
    X = X[:, :1]
    kernel = Matern52().bind(X)
    ours = MarkovEngine(kernel, X).covariance(kernel, np.where(there, noise, np.inf))
    fewer = DenseEngine(X[there]).covariance(kernel, noise[there])
    posterior = DenseEngine(X[there]).covariance(kernel, noise[there]).posterior(y[there])
    found, expected = ours.negative_log_density(y, each_noise=True), fewer.negative_log_density(y[there])
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_allclose(found.by_theta, expected.by_theta, rtol=1e-9)
    np.testing.assert_array_equal(found.by_noise[~there], 0.0)
    mean, variance = ours.leave_one_out(y)
    at_missing = posterior.mean_and_variance(X[~there])
    np.testing.assert_allclose((mean[~there], variance[~there]), at_missing, atol=1e-10)
    np.testing.assert_allclose(mean[there], posterior.leave_one_out()[0], atol=1e-10)


def test_pieces_of_the_record_make_no_difference() -> None:
    """A record with more different gaps than are kept in a table is taken a piece at a time."""
    X, y, noise = readings(even=True, n=3 * PIECE)
    jitter = 1e-9 * np.random.default_rng(0).uniform(size=X.shape)
    bound = Matern32(length_scale=2.0).bind(X[:, :1])
    table, pieces = (MarkovEngine(bound, inputs[:, :1]) for inputs in (X, X + jitter))
    assert len(table.timeline.pieces) == 1 and len(pieces.timeline.pieces) > 2
    one, many = (engine.covariance(bound, noise).negative_log_density(y) for engine in (table, pieces))
    np.testing.assert_allclose(many.value, one.value, rtol=1e-7)
    np.testing.assert_allclose(many.by_theta, one.by_theta, rtol=1e-5)


@pytest.mark.parametrize("kernel", [Exponential(), Matern32(), Matern52()], ids=["exponential", "matern32", "matern52"])
@pytest.mark.parametrize("length_scale", [1e-8, 1e-3, 1e4, 1e8])
@pytest.mark.parametrize("noise", [1e-6, 1e4])
def test_length_scales_far_from_the_spacing(kernel: Kernel, length_scale: float, noise: float) -> None:
    """Against quadruple precision of the same recursions in their plainest form."""
    times = np.cumsum(np.random.default_rng(0).choice([0.0, 1e-9, 1.0], 300))
    y = np.sin(times / 30.0)
    bound = kernel.bind(times[:, None]).with_theta(np.log([1.0, length_scale]))
    found = MarkovEngine(bound, times[:, None]).covariance(bound, np.full(300, noise)).negative_log_density(y)
    expected = _in_extended_precision(bound, times, y, noise)
    assert found.value == pytest.approx(expected, rel=1e-9, abs=1e-7)
    assert np.isfinite(found.by_theta).all()


def _in_extended_precision(kernel: Kernel, times: np.ndarray, y: np.ndarray, noise: float) -> float:
    form = kernel.state_space(1)
    A, Q = (np.asarray(moves, dtype=np.longdouble) for moves in form.move(np.diff(times, prepend=times[0])))
    mean, P, value = np.zeros(form.size, np.longdouble), np.asarray(form.prior, np.longdouble), np.longdouble(0.0)
    for a, q, reading in zip(A, Q, y, strict=True):
        mean, P = a @ mean, a @ P @ a.T + q
        F, residual = P[0, 0] + noise, reading - mean[0]
        value += (np.log(2.0 * np.pi * F) + residual**2 / F) / 2.0
        mean, P = mean + P[:, 0] * residual / F, P - np.outer(P[:, 0], P[0]) / F
    return float(value)


@pytest.mark.parametrize("gap", [0.0, 1e-12])
def test_many_readings_at_nearly_one_time(gap: float) -> None:
    """They are one reading: the mean of all, with their noise divided by their number."""
    n = 20_000
    y = 3.0 + np.random.default_rng(0).normal(size=n)
    X = (gap * np.arange(n))[:, None]
    bound = Matern52().bind(np.arange(3.0)[:, None]).with_theta(np.log([4.0, 1.0]))
    mean, variance = MarkovEngine(bound, X).covariance(bound, np.ones(n)).posterior(y).mean_and_variance(X[:1])
    shrunk = 4.0 * n / (4.0 * n + 1.0)
    np.testing.assert_allclose(mean, shrunk * y.mean(), rtol=1e-9)
    np.testing.assert_allclose(variance, shrunk / n, rtol=1e-8)


def test_nearest_in_time() -> None:
    X = np.array([3.0, 0.0, 10.0, 1.0, 3.0])[:, None]
    around = TimeSurroundings(Matern32().bind(X), X)
    np.testing.assert_array_equal(around.nearest, [4, 3, 4, 1, 0])


def test_interpreted_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, noise = readings(even=False)
    bound = (Matern32() + Constant()).bind(X[:, :1])

    def everything() -> list[np.ndarray]:
        markov_passes._passes.cache_clear()
        K = MarkovEngine(bound, X[:, :1]).covariance(bound, noise)
        density, posterior = K.negative_log_density(y), K.posterior(y)
        clamped = K.clamped_solve(y, y, np.arange(N) % 3 > 0)
        return [np.array(density.value), density.by_theta, *clamped, *posterior.mean_and_covariance(X[:5, :1])]

    compiled = everything()
    monkeypatch.setattr(markov_passes, "COMPILED", False)
    try:
        for one, other in zip(everything(), compiled, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)
    finally:
        markov_passes._passes.cache_clear()


def test_a_kernel_that_is_no_state_is_refused() -> None:
    X = np.arange(5.0)[:, None]
    with pytest.raises(ValueError, match="take Matern52"):
        MarkovEngine(SquaredExponential().bind(X), X)
