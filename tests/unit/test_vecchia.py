"""The nearest-neighbour covariance: neighbours, blocks, density, gradient, factor, predictions."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from biasgp.covariance import blocks, conditionals
from biasgp.covariance.blocks import Blocks
from biasgp.covariance.neighbours import Nearness, first_where
from biasgp.covariance.vecchia import Vecchia
from biasgp.covariance.vecchia_posterior import NeighbourSurroundings, VecchiaPosterior
from biasgp.kernels import (
    Constant,
    Exponential,
    Linear,
    Matern32,
    Matern52,
    Periodic,
    SquaredExponential,
    as_kernel,
)
from biasgp.messages import CovarianceError
from biasgp.models.strategy import OneEngine

KERNELS = {
    "squared exponential": SquaredExponential(ard=True),
    "exponential": Exponential(),
    "Matérn 3/2": Matern32(ard=True),
    "Matérn 5/2": Matern52().on(1),
    "sum": Matern32(ard=True) + Linear(ard=True) * Constant(),
    "periodic": Periodic(period=0.7, ard=True) + Linear(),
    "periodic product": Periodic(period=0.7) * Exponential(),
    "scikit-learn's": RBF(0.5),
}
every_kernel = pytest.mark.parametrize("name", KERNELS)


def data(n: int = 120, d: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.uniform(size=(n, d)), rng.standard_normal(n), 0.1 + rng.uniform(0.0, 0.3, n)


def bound(name: str, X: np.ndarray):
    return as_kernel(KERNELS[name]).bind(X)


@every_kernel
def test_batches_of_small_matrices_are_the_kernels_own(name):
    X, *_ = data(24)
    kernel, P = bound(name, X), X.reshape(4, 6, 2)
    C, pullback = kernel.batched_vjp(P)
    np.testing.assert_allclose(C, [kernel(points) for points in P], atol=1e-12)
    W = np.random.default_rng(0).standard_normal(C.shape)
    W = W + W.transpose(0, 2, 1)
    expected = sum(kernel.vjp(points)[1](weights) for points, weights in zip(P, W, strict=True))
    np.testing.assert_allclose(pullback(W), expected, rtol=1e-8, atol=1e-9)


@every_kernel
def test_gradient_is_that_of_the_value(name):
    X, y, noise = data()
    kernel = bound(name, X)
    vecchia = Vecchia(kernel, X, 8)
    _, by_theta, by_noise = vecchia.covariance(kernel, noise).negative_log_density(y, each_noise=True)

    def value(theta, noise=noise):
        return vecchia.covariance(kernel.with_theta(theta), noise).negative_log_density(y)[0]

    step, theta = 1e-5, kernel.theta
    for i, unit in enumerate(np.eye(len(theta))):
        numerical = (value(theta + step * unit) - value(theta - step * unit)) / (2.0 * step)
        assert by_theta[i] == pytest.approx(numerical, rel=1e-5, abs=1e-5)
    for i in (0, 57):
        unit = step * np.eye(len(y))[i]
        numerical = (value(theta, noise + unit) - value(theta, noise - unit)) / (2.0 * step)
        assert by_noise[i] == pytest.approx(numerical, rel=1e-4, abs=1e-4)
    total = vecchia.covariance(kernel, noise).negative_log_density(y)[2]
    assert total == pytest.approx([by_noise.sum()])


@pytest.mark.parametrize("name", ["squared exponential", "exponential", "Matérn 3/2", "Matérn 5/2"])
def test_without_numba_the_result_is_the_same(name, monkeypatch):
    assert conditionals._compiled() is not None  # else both sides would be the same code
    X, y, noise = data()
    kernel = bound(name, X)
    vecchia = Vecchia(kernel, X, 9)

    def results():
        found = vecchia.covariance(kernel, noise).negative_log_density(y, each_noise=True)
        return [*found, vecchia.covariance(kernel, noise).R.toarray()]

    fast = results()
    monkeypatch.setattr(conditionals, "_compiled", lambda: None)
    for a, b in zip(fast, results(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


COMPILED = """
import numpy as np
from biasgp.covariance.vecchia import Vecchia
from biasgp.kernels import Matern32

rng = np.random.default_rng(0)
X, noise = rng.uniform(size=(3000, 2)), np.full(3000, 0.01)
y = np.sin(7.0 * X[:, 0]) + 0.1 * rng.standard_normal(3000)
kernel = Matern32(length_scale=0.2).bind(X)
value, by_theta, by_noise = Vecchia(kernel, X, 8).covariance(kernel, noise).negative_log_density(y, each_noise=True)
print(value.hex(), by_theta.tobytes().hex(), by_noise.tobytes().hex())
"""


def test_just_compiled_and_from_the_cache_is_the_same_to_the_bit(tmp_path):
    """Workers of a cluster that have compiled, and those that have come later, must agree."""
    pytest.importorskip("numba")
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", COMPILED]
    first, second = (subprocess.run(command, env=env, capture_output=True, check=True).stdout for _ in range(2))
    assert list(tmp_path.rglob("*.nbc"))
    assert first == second


def test_the_factor_is_that_of_the_density():
    X, y, noise = data()
    kernel = Matern32().bind(X)
    vecchia = Vecchia(kernel, X, 10)
    K = vecchia.covariance(kernel, noise)
    Q = K.R.toarray().T @ K.R.toarray()
    np.testing.assert_allclose(K.solve(y), Q @ y)
    np.testing.assert_allclose(K.inverse_diagonal(), Q.diagonal())
    value = vecchia.covariance(kernel, noise).negative_log_density(y)[0]
    assert value == pytest.approx(0.5 * (len(y) * np.log(2 * np.pi) - np.linalg.slogdet(Q)[1] + y @ Q @ y))
    around = OneEngine(lambda kernel, X: vecchia).surroundings(kernel, X)
    mean, variance = around.leave_one_out(kernel, y, noise, np.ones(len(y), dtype=bool))
    i = 7
    others = np.arange(len(y)) != i
    # A Gaussian with precision Q: the mean of one given the rest is −Q₍ᵢ,₋ᵢ₎y₋ᵢ/Qᵢᵢ.
    assert mean[i] == pytest.approx(-Q[i, others] @ y[others] / Q[i, i])
    assert variance[i] + noise[i] == pytest.approx(1.0 / Q[i, i])


def test_blocks_threads_and_row_order_do_not_matter(monkeypatch):
    X, y, noise = data(6000)
    kernel = Matern32(length_scale=0.3).bind(X)
    vecchia = Vecchia(kernel, X, 10)
    assert len(vecchia.blocks.blocks) > 2
    value, by_theta, by_noise = vecchia.covariance(kernel, noise).negative_log_density(y, each_noise=True)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert vecchia.covariance(kernel, noise).negative_log_density(y)[0] == value
    shuffled = np.random.default_rng(0).permutation(len(y))
    K = Vecchia(kernel, X[shuffled], 10).covariance(kernel, noise[shuffled])
    again = K.negative_log_density(y[shuffled], each_noise=True)
    assert again[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(again[1], by_theta, rtol=1e-8)
    np.testing.assert_allclose(again[2], by_noise[shuffled], rtol=1e-6, atol=1e-9)


def test_a_share_of_the_terms_estimates_the_sum():
    X, y, noise = data(3000)
    kernel = Matern32(length_scale=0.3).bind(X)
    whole = Vecchia(kernel, X, 10).covariance(kernel, noise).negative_log_density(y)[0]
    some = Vecchia(kernel, X, 10, share=0.3)
    assert some.covariance(kernel, noise).negative_log_density(y)[0] == pytest.approx(whole, rel=0.1)
    with pytest.raises(RuntimeError, match="share"):
        some.covariance(kernel, noise).solve(y)


@pytest.mark.parametrize(("n", "d"), [(300, 2), (3000, 2), (2500, 4)])
def test_predecessors_are_the_nearest_before(n, d):
    X, *_ = data(n, d)
    nearness, m = Nearness.of(Exponential(length_scale=1.0).bind(X), X), 7
    order, found = nearness.predecessors(m)
    assert sorted(order) == list(range(n))
    for i in (0, 1, 5, n // 2, n - 1):
        before = order[:i]
        expected = before[np.argsort(np.linalg.norm(X[before] - X[order[i]], axis=1))[:m]]
        assert found[i, : len(expected)].tolist() == expected.tolist()
        assert (found[i, len(expected) :] == -1).all()
    some, near = nearness.predecessors(m, 0.1)
    assert len(some) == n // 10
    place = np.argsort(order)[some]
    assert (np.diff(place) > 0).all()
    np.testing.assert_array_equal(near, found[place])


def test_streams_go_in_their_own_order():
    X = np.array([[3.0], [1.0], [2.0]])
    order, found = Nearness.of(Exponential(length_scale=1.0).bind(X), X).predecessors(2)
    assert order.tolist() == [1, 2, 0]
    assert found.tolist() == [[-1, -1], [1, -1], [2, 1]]


def test_first_where_keeps_the_order():
    near = np.array([[4, 2, 9, 1], [5, 6, 7, 8]])
    keep = np.array([[True, False, True, True], [False, False, False, True]])
    assert first_where(near, keep, 2).tolist() == [[4, 9], [8, -1]]


def test_equal_points_do_not_slow_the_search_down():
    X = np.zeros((50_000, 2))
    X[::2, 0] = 1.0
    nearness = Nearness.of(Exponential(length_scale=1.0).bind(X), X)
    found = nearness.nearest(X[:2000], 5)
    assert (X[found, 0] == X[:2000, :1]).all()
    others = nearness.nearest_others(5)
    assert (X[others, 0] == X[:, :1]).all()
    assert (others != np.arange(len(X))[:, None]).all()


def test_nearness_of_kernels():
    X, *_ = data(50, 3)
    X[:, 2] = 1.0
    kernel = Matern32(length_scale=(0.1, 2.0, 1.0), ard=True).bind(X)
    nearness = Nearness.of(kernel, X)
    coordinates = nearness.coordinates(X)
    assert coordinates.shape == (50, 2)  # the third input never varies
    expected = np.linalg.norm((X[0] - X[1]) / [0.1, 2.0, 1.0])
    assert np.linalg.norm(coordinates[0] - coordinates[1]) == pytest.approx(expected)
    assert not nearness.differs_from(Nearness.of(kernel.stretched(3.0), X), 1.1)
    other = Matern32(length_scale=(0.1, 1.0, 1.0), ard=True).bind(X)
    assert nearness.differs_from(Nearness.of(other, X), 1.5)
    assert Nearness.of(Constant().bind(X), X).coordinates(X).shape == (50, 2)
    assert Nearness.of(Periodic(period=0.5).on(0).bind(X), X).coordinates(X).shape == (50, 2)
    assert Nearness.of(kernel, np.ones((5, 3))).coordinates(np.ones((5, 3))).shape == (5, 1)


def test_kriging_from_all_readings_is_the_posterior():
    X, y, noise = data(80)
    points = np.vstack([X[:3], np.random.default_rng(1).uniform(size=(20, 2))])
    kernel = Matern52().bind(X)
    mean, variance = VecchiaPosterior(kernel, X, y, noise, 200).mean_and_variance(points)
    K, cross = kernel(X) + np.diag(noise), kernel(points, X)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(K, y), atol=1e-9)
    np.testing.assert_allclose(
        variance, kernel.diag(points) - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T)), atol=1e-9
    )


def test_leaving_readings_out_uses_only_the_usable_others():
    X, y, noise = data(200)
    kernel = Matern32(length_scale=0.3).bind(X)
    around = NeighbourSurroundings(kernel, X, 10)
    usable = np.random.default_rng(2).uniform(size=200) > 0.2
    mean, variance = around.leave_one_out(kernel, y, noise, usable)
    i = 11
    gaps = np.linalg.norm(X - X[i], axis=1)
    order = np.argsort(gaps)[1:16]
    rows = order[usable[order]][:10]
    K, cross = kernel(X[rows]) + np.diag(noise[rows]), kernel(X[[i]], X[rows])[0]
    assert mean[i] == pytest.approx(cross @ np.linalg.solve(K, y[rows]))
    assert variance[i] == pytest.approx(kernel.diag(X[:1])[0] - cross @ np.linalg.solve(K, cross))


def test_jitter_is_added_where_it_takes_some_and_reported():
    X = np.repeat(np.linspace(0.0, 1.0, 10), 3)[:, None]
    kernel = SquaredExponential(length_scale=5.0).bind(X)
    K = Vecchia(kernel, X, 12).covariance(kernel, np.zeros(len(X)))
    K.solve(np.ones(len(X)))
    assert 0.0 < K.jitter < 1e-3


def test_a_hopeless_covariance_is_an_error():
    X, y, _ = data(30)
    kernel = SquaredExponential(length_scale=1.0).bind(X)
    with pytest.raises(CovarianceError, match="neighbouring"):
        Vecchia(kernel, X, 5).covariance(kernel, np.full(30, -5.0)).negative_log_density(y)


def test_blocks_hold_what_their_targets_need(monkeypatch):
    X, *_ = data(100)
    neighbours = np.full((100, 3), -1, dtype=np.int32)
    neighbours[5] = [1, 2, -1]
    monkeypatch.setattr(blocks, "BLOCK", 30)
    found = Blocks.of(X, X, np.arange(100), neighbours)
    assert sum(len(block.targets) for block in found) == 100
    for block in found:
        np.testing.assert_array_equal(block.X, X[block.members])
    (holder,) = (block for block in found if 5 in block.members[block.targets])
    (row,) = np.flatnonzero(holder.members[holder.targets] == 5)
    assert holder.members[holder.neighbours[row, :2]].tolist() == [1, 2]
    assert found.pool(lambda block, a, b: a + b, (1,), ((i,) for i in range(4))) == [1, 2, 3, 4]
