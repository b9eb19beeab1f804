"""State-space forms of kernels: the kernel again, its moves, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp.kernels import (
    Constant,
    Exponential,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    Periodic,
    Same,
    SquaredExponential,
)
from biasgp.kernels.state_space import PERIODIC_ACCURACY

TIME = {
    "exponential": Exponential(),
    "matern32": Matern32(variance=2.0),
    "matern52": Matern52(length_scale=3.0),
    "ard": Matern32(ard=True),
    "constant": Constant(),
    "linear": Linear(),
    "sum": Matern32() + Exponential(length_scale=0.3) + Constant(),
    "product": Matern32() * Matern52(length_scale=4.0),
    "trend times roughness": Linear() * Exponential(),
    "periodic": Periodic(period=3.0),
    "quasi-periodic": Matern32() * Periodic(period=2.0, length_scale=0.7) + Linear(),
}
BESIDE = {
    "temperature": Matern32().on(0) + Linear().on(1),
    "several slopes": Matern52().on(0) + Linear(ard=True) + Constant(),
}
ALL = [(name, kernel, 1) for name, kernel in TIME.items()] + [(name, kernel, 2) for name, kernel in BESIDE.items()]


def points(width: int, n: int = 9) -> np.ndarray:
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.uniform(0.0, 10.0, n), rng.normal(size=n)])[:, :width]
    X[1] = X[0]
    return X


@pytest.mark.parametrize("kernel, width", [each[1:] for each in ALL], ids=[each[0] for each in ALL])
def test_the_form_is_the_kernel(kernel: Kernel, width: int) -> None:
    X = points(width)
    bound = kernel.bind(X)
    form = bound.state_space(width)
    C, h = np.empty((len(X), len(X))), form.observe(X)
    for i, j in np.ndindex(C.shape):
        late, early = (i, j) if X[i, 0] >= X[j, 0] else (j, i)
        A, Q = (moves[0] for moves in form.move(X[late, :1] - X[early, :1]))
        C[i, j] = h[late] @ A @ form.prior @ h[early]
        np.testing.assert_allclose(A @ form.prior @ A.T + Q, form.prior, atol=1e-13)
        assert np.linalg.eigvalsh(Q).min() > -1e-15
    np.testing.assert_allclose(C, bound(X), atol=1e-12 + 3.0 * form.accuracy)


@pytest.mark.parametrize("kernel, width", [each[1:] for each in ALL], ids=[each[0] for each in ALL])
def test_the_gradient_is_that_of_the_moves(kernel: Kernel, width: int) -> None:
    X, gaps = points(width), np.array([0.0, 0.01, 0.5, 3.0])
    bound = kernel.bind(X)
    form, rng = bound.state_space(width), np.random.default_rng(0)
    by_A, by_Q, by_P = (rng.normal(size=(k, form.size, form.size)) for k in (4, 4, 1))
    by_Q, by_P = by_Q + by_Q.swapaxes(1, 2), (by_P + by_P.swapaxes(1, 2))[0]

    def total(theta: np.ndarray) -> float:
        other = bound.with_theta(theta).state_space(width)
        assert other.size == form.size
        A, Q = other.move(gaps)
        return float(np.vdot(by_A, A) + np.vdot(by_Q, Q) + np.vdot(by_P, other.prior))

    # dA = τ dF A: weights of A are weights τ W Aᵀ of F.
    by_F = np.einsum("t,tij,tkj->ik", gaps, by_A, form.move(gaps)[0])
    steps = 1e-6 * np.eye(len(bound.theta))
    numerical = [(total(bound.theta + step) - total(bound.theta - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(form.pull(gaps, by_F, by_Q, by_P), numerical, atol=1e-6)


@pytest.mark.parametrize("order, kernel", list(enumerate((Exponential(), Matern32(), Matern52()))))
def test_short_gaps_keep_their_digits(order: int, kernel: Kernel) -> None:
    """Q₁₁ over a gap of 1e-6 length-scales is 1e-6 to the power of 1, 3 or 5: far below the rounding of P − APAᵀ."""
    bound = kernel.bind(points(1)).with_theta(np.zeros(2))
    r = 1e-6 * np.sqrt(2 * order + 1)
    expected = (2.0 * r, 4.0 * r**3 / 3.0, 16.0 / 3.0 * r**5 / 20.0)[order]
    (Q,) = bound.state_space(1).move(np.array([1e-6]))[1]
    assert Q[0, 0] == pytest.approx(expected, rel=1e-5)


def test_long_gaps_forget_everything() -> None:
    form = Matern52().bind(points(1)).state_space(1)
    for gap in (1e4, 1e300, np.inf):
        A, Q = form.move(np.array([gap]))
        np.testing.assert_allclose(A[0], 0.0, atol=1e-290)
        np.testing.assert_allclose(Q[0], form.prior, rtol=1e-14, atol=1e-15)


def test_series_and_finite_sum_of_the_moments_agree() -> None:
    """Where one takes over from the other, the noise of a gap has no jump."""
    form = Matern52(length_scale=1.0, variance=1.0).bind(points(1)).state_space(1)
    edge = 1.0 / np.sqrt(5.0)  # 2r = 2
    _, Q = form.move(np.array([edge * (1.0 - 1e-12), edge * (1.0 + 1e-12)]))
    np.testing.assert_allclose(Q[0], Q[1], rtol=1e-10)


@pytest.mark.parametrize("length_scale", [0.05, 0.1, 0.2, 0.5, 2.0, 50.0])
def test_as_many_cosines_as_the_accuracy_needs(length_scale: float) -> None:
    X = np.linspace(0.0, 5.0, 40)[:, None]
    bound = Periodic(period=2.0, length_scale=length_scale).bind(X)
    form = bound.state_space(1)
    row = [form.observe(X[:1])[0] @ A @ form.prior @ form.observe(X[:1])[0] for A in form.move(X[:, 0])[0]]
    assert form.accuracy == PERIODIC_ACCURACY or length_scale < 0.2
    np.testing.assert_allclose(row, bound(X)[0], atol=3.0 * form.accuracy)


@pytest.mark.parametrize(
    "kernel, width",
    [
        (SquaredExponential(), 1),
        (Matern32(), 2),
        (Matern32().on(0) + Matern32().on(1), 2),
        (Matern32().on(0) * Exponential().on(1), 2),
        (Matern32() + SquaredExponential(), 1),
        (Matern32().on(0) * Same(1), 2),
    ],
)
def test_others_have_none(kernel: Kernel, width: int) -> None:
    X = np.abs(np.round(points(width)))
    assert kernel.bind(X).state_space(width) is None
