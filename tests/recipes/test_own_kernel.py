"""The recipe "a kernel of your own" of CONTRIBUTING.md, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp import SparseBiasGP
from biasgp._typing import Array, Mask
from biasgp.kernels import Linear, Stationary


class RationalQuadratic(Stationary):
    """1/(1 + D²/2): a mixture of squared exponentials."""

    @staticmethod
    def profile(D2: Array) -> tuple[Array, Array]:
        k = 1.0 / (1.0 + 0.5 * D2)
        return k, k**2


@pytest.fixture
def readings() -> tuple[Array, Array, Mask]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (120, 2))
    out = rng.uniform(size=120) < 0.1
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(120) + 2.0 * out, out


def test_its_gradients_are_the_numerical_ones_whole_and_in_batches(readings):
    X = readings[0][:12]
    kernel = (RationalQuadratic(ard=True) + Linear()).bind(X)
    W = np.random.default_rng(1).standard_normal((12, 12))
    W += W.T
    C, pullback = kernel.vjp(X)
    batched, batched_pullback = kernel.batched_vjp(X[None])
    np.testing.assert_allclose(batched[0], C, atol=1e-12)
    np.testing.assert_allclose(batched_pullback(W[None]), pullback(W), atol=1e-10)
    for gradient, unit in zip(pullback(W), 1e-6 * np.eye(len(kernel.theta)), strict=True):
        up, down = (kernel.with_theta(kernel.theta + step)(X) for step in (unit, -unit))
        assert gradient == pytest.approx((W * (up - down)).sum() / 2e-6, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("approximation", ["exact", "vecchia"])
def test_it_fits_with_every_engine(readings, approximation):
    X, y, out = readings
    model = SparseBiasGP(RationalQuadratic(), approximation=approximation).fit(X, y)
    np.testing.assert_array_equal(model.outlier_mask_, out)
    assert isinstance(model.kernel_, RationalQuadratic)
