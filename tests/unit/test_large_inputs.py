"""Inputs on which nearest neighbours are not obvious: right all the same."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp import GaussianGP, SparseBiasGP
from biasgp.kernels import Constant, Exponential, Matern32, SquaredExponential

SIGMA = 0.1


def truth(X: np.ndarray) -> np.ndarray:
    return np.sin(3.0 * X[:, 0]) + (X[:, 1] if X.shape[1] > 1 else 0.0)


def inputs(name: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    n = 2100
    if name == "duplicates":
        return np.repeat(rng.uniform(size=(n // 4, 2)), 4, axis=0)
    if name == "grid":
        side = np.linspace(0.0, 1.0, 49)
        return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    if name == "two values":
        return np.column_stack([rng.uniform(size=n), rng.integers(0, 2, n)])
    if name == "four places":
        return rng.integers(0, 2, (n, 2)).astype(float)
    if name == "one cluster":
        X = rng.uniform(size=(n, 2))
        X[n // 100 :] = 0.5 + 1e-3 * rng.standard_normal((n - n // 100, 2))
        return X
    if name == "constant column":
        return np.column_stack([rng.uniform(size=n), np.ones(n)])
    return 1.7e9 + 60.0 * np.arange(n)[:, None]


@pytest.mark.parametrize("name", ["grid", "two values", "four places", "constant column"])
def test_odd_inputs(name):
    X = inputs(name)
    y = truth(X) + SIGMA * np.random.default_rng(1).standard_normal(len(X))
    model = GaussianGP(Matern32(ard=name == "two values"), neighbors=10, max_iter=30).fit(X, y)
    mean, std = model.predict(X[::3], return_std=True)
    assert np.sqrt(np.mean((mean - truth(X[::3])) ** 2)) < 0.5 * SIGMA
    assert np.isfinite(std).all()


@pytest.mark.parametrize("name", ["duplicates", "one cluster"])
def test_outliers_among_odd_inputs(name):
    X = inputs(name)
    rng = np.random.default_rng(1)
    outlier = rng.uniform(size=len(X)) < 0.05
    y = truth(X) + SIGMA * rng.standard_normal(len(X)) + 20.0 * SIGMA * outlier
    model = SparseBiasGP(Matern32(), neighbors=10, max_iter=30).fit(X, y)
    error = (model.predict(X) - truth(X))[~outlier]
    assert np.sqrt(np.mean(error**2)) < 0.6 * SIGMA
    assert ((model.outlier_mask_ == outlier).mean()) > 0.985


@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
def test_seconds_since_1970():
    X = inputs("stream")
    y = np.sin(X[:, 0] / 9e3) + SIGMA * np.random.default_rng(0).standard_normal(len(X))
    model = GaussianGP(Exponential(), neighbors=10, max_iter=30).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - np.sin(X[:, 0] / 9e3)) ** 2)) < SIGMA


def test_fewer_readings_than_neighbours():
    X = np.random.default_rng(0).uniform(size=(12, 2))
    y = truth(X)
    near = GaussianGP(Matern32(), approximation="vecchia", neighbors=50).fit(X, y)
    exact = GaussianGP(Matern32(), approximation="exact").fit(X, y)
    assert near.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, abs=1e-3)


@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
@pytest.mark.parametrize("kernel", [SquaredExponential() + Constant(), Matern32() * SquaredExponential()])
def test_kernels_that_are_not_compiled(kernel):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 2))
    y = truth(X) + SIGMA * rng.standard_normal(400)
    model = GaussianGP(kernel, approximation="vecchia", neighbors=8, max_iter=20).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - truth(X)) ** 2)) < SIGMA


@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
def test_a_response_that_does_not_vary():
    X = np.random.default_rng(0).uniform(size=(2100, 1))
    model = GaussianGP(Matern32(), neighbors=5, max_iter=5).fit(X, np.full(2100, 3.0))
    assert model.predict(X[:5]) == pytest.approx(3.0)
