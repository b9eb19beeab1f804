"""The kernel on a category: values, gradients, parameters of each label, and its limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as sk

from biasgp.covariance.dense_engine import DenseEngine
from biasgp.covariance.neighbours import Nearness
from biasgp.covariance.vecchia import Vecchia
from biasgp.kernels import Constant, Exponential, Linear, Matern32, Periodic, Same, SquaredExponential, as_kernel

KERNELS = {
    "alone": Same(1),
    "one variance": Same(1, each=False),
    "each": Same(1, each=True),
    "offsets": Matern32().on(0) + Same(1),
    "own errors": Matern32().on(0) + Same(1, each=True) * Matern32().on(0),
    "own errors, one variance": Exponential().on(0) + Same(1) * SquaredExponential().on(0),
    "on the right": Linear().on(0) + Periodic().on(0) * Same(1),
    "in a bracket": (Constant() + Same(1)) * Matern32().on(0),
}
every = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


def points(seed: int, n: int = 12, labels: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [rng.uniform(0.0, 5.0, n), np.append(np.arange(labels), rng.integers(-1, labels, n - labels))]
    )


def differences(function, x, step=1e-5):
    return np.array([(function(x + h) - function(x - h)) / (2.0 * step) for h in step * np.eye(len(x))])


@every
@given(seed=st.integers(0, 2**20), labels=st.integers(1, 4))
def test_gradients_equal_central_differences(kernel, seed, labels):
    X, rng = points(seed, 12, labels), np.random.default_rng(seed)
    bound = kernel.bind(X)
    theta = bound.theta + 0.3 * rng.standard_normal(len(bound.theta))
    bound = bound.with_theta(theta)
    W = rng.standard_normal((12, 12))
    W = W + W.T
    C, pullback = bound.vjp(X)
    assert_allclose(C, bound(X), rtol=1e-13, atol=1e-13)
    numeric = differences(lambda t: np.vdot(W, bound.with_theta(t)(X)), theta)
    assert_allclose(pullback(W), numeric, rtol=1e-5, atol=1e-6 * np.abs(W).sum() * max(C.max(), 1.0))


@every
def test_batches_are_the_same_matrices_and_gradients(kernel):
    X = points(1, 30)
    P = X[np.random.default_rng(0).integers(30, size=(5, 8))]
    bound, W = kernel.bind(X), np.random.default_rng(1).standard_normal((5, 8, 8))
    C, pullback = bound.batched_vjp(P)
    parts = [bound.vjp(each) for each in P]
    assert_allclose(C, np.stack([one for one, _ in parts]), atol=1e-14)
    symmetric = W + W.swapaxes(1, 2)
    total = sum(pull(w) for (_, pull), w in zip(parts, symmetric, strict=True))
    assert_allclose(pullback(symmetric), total, rtol=1e-9, atol=1e-10)


@every
def test_it_is_a_covariance(kernel):
    X = points(3, 20)
    bound = kernel.bind(X)
    C = bound(X)
    assert_allclose(C, C.T, atol=1e-14)
    assert np.linalg.eigvalsh(C).min() > -1e-10
    assert_allclose(bound.diag(X), C.diagonal(), rtol=1e-12)
    assert_allclose(bound(X[:7], X), C[:7], atol=1e-14)


def test_values():
    X = np.array([[0.0], [1.0], [0.0], [-1.0], [-1.0]])
    assert_array_equal(Same(0, variance=2.0)(X)[0], [2.0, 0.0, 2.0, 0.0, 0.0])
    assert_array_equal(Same(0, variance=2.0)(X)[3], np.zeros(5))
    kernel = Same(0, variance=(2.0, 3.0))
    assert_array_equal(kernel.diag(X), [2.0, 3.0, 2.0, 0.0, 0.0])
    # A sensor that was not in the fit is like the others in the mean.
    assert_array_equal(kernel.diag(np.array([[2.0], [9.0], [0.5]])), [2.5, 2.5, 2.5])
    assert kernel(np.array([[2.0]]), X).max() == 0.0


def test_labels_share_a_variance_or_have_one_each():
    X = points(0, 20, 3)
    assert Same(1).bind(X).parameter_names == ["variance"]
    assert Same(1, each=True).bind(X).parameter_names == ["variance[0]", "variance[1]", "variance[2]"]
    assert Same(1, variance=4.0).bind(X, unit=2.0).variance == 2.0
    assert Same(1, variance=4.0, each=True).bind(X, unit=2.0).variance == (2.0, 2.0, 2.0)
    assert Same(1, variance=[1.0, 4.0, 2.0]).bind(X, unit=2.0).variance == (0.5, 2.0, 1.0)


def test_a_choice_is_open_until_it_is_made():
    kernel = Matern32().on(0) + Same(1) * Matern32().on(0)
    assert kernel.with_variances(each=True) == Matern32().on(0) + Same(1, each=True) * Matern32().on(0)
    for decided in (Same(1, each=False), Same(1, each=True), Same(1, variance=(1.0, 2.0)), Matern32()):
        assert decided.with_variances(each=True) == decided.with_variances(each=False) == decided


def test_the_scale_of_a_product_is_held():
    X = points(0, 20)
    for joined in (Same(1, each=True) * Matern32().on(0), Matern32().on(0) * Same(1, each=True)):
        bounds = dict(zip(joined.bind(X).parameter_names, joined.bind(X).bounds(X), strict=True))
        free = [name for name, (low, high) in bounds.items() if low < high]
        assert len([name for name in free if "variance[" in name]) == 3
        assert not any(name.endswith(".variance") for name in free)


def test_its_representation_can_be_passed_back():
    for kernel in (
        Same("sensor"),
        Same(0, variance=2.0, each=False),
        Matern32().on("time") + Same("sensor", variance=(1.0, 2.0)) * Matern32().on("time"),
    ):
        assert eval(repr(kernel)) == kernel
    assert repr(Same("a b", each=True)) == "Same('a b', each=True)"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Same(), "needs the column"),
        (lambda: Same(True), "needs the column"),
        (lambda: Same("s", variance=0.0), "variance must be positive"),
        (lambda: Same("s", variance=(1.0, -1.0)), "variance must be positive"),
        (lambda: Same("s", variance="6h"), "not a duration"),
        (lambda: Same("s").on("t"), "has its column"),
        (lambda: (Same("s") * Matern32()).on("t"), "has its column"),
        (lambda: Same(1, variance=(1.0, 2.0)).bind(points(0, 20, 3)), "2 variances were given for 3 labels"),
        (lambda: Same(1, variance=(1.0,) * 3, each=False).bind(points(0, 20, 3)), "each=False asks for one"),
        (lambda: Same("s").bind(points(0)), "no column names"),
    ],
)
def test_what_makes_no_sense_is_refused(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()


def test_other_kernels_stay_away_from_labels():
    names = ["a", "sensor", "b"]
    kernel = (Matern32(ard=True) + Same("sensor") * Matern32().on("b")).beside_categories({1}, names, 3)
    assert kernel.left.columns == (0, 2)
    assert kernel.right.right.columns == ("b",)
    assert kernel.category_columns == ("sensor",)
    with pytest.raises(ValueError, match="'sensor' of X is taken for labels"):
        Matern32().on("a", "sensor").beside_categories({1}, names, 3)
    with pytest.raises(ValueError, match="scikit-learn"):
        as_kernel(sk.RBF()).beside_categories({1}, names, 3)
    with pytest.raises(ValueError, match="nothing but columns of labels"):
        Matern32().beside_categories({0}, ["sensor"], 1)


def test_all_neighbours_are_those_of_the_exact_engine():
    X, rng = points(5, 25), np.random.default_rng(0)
    y, noise = rng.standard_normal(25), np.full(25, 0.1)
    kernel = KERNELS["own errors"].bind(X)
    exact = DenseEngine(X).covariance(kernel, noise).negative_log_density(y)
    near = Vecchia(kernel, X, 24).covariance(kernel, noise).negative_log_density(y)
    assert near.value == pytest.approx(exact.value, rel=1e-9)
    assert_allclose(near.by_theta, exact.by_theta, rtol=1e-6, atol=1e-8)


def test_readings_of_other_sensors_are_neighbours():
    t = np.repeat(np.arange(40.0), 3)
    X = np.column_stack([t, np.tile([0.0, 1.0, 2.0], 40)])
    near = Nearness.of(KERNELS["own errors"].bind(X), X).nearest_others(8)
    assert all(set(X[rows, 1]) == {0.0, 1.0, 2.0} for rows in near[6:-6])
    assert np.abs(t[near] - t[:, None])[6:-6].max() <= 2.0


def test_one_label_is_the_plain_kernel():
    X = np.column_stack([np.linspace(0.0, 5.0, 9), np.zeros(9)])
    kernel = KERNELS["own errors"].bind(X)
    plain = (Matern32().on(0) + Matern32().on(0)).bind(X)
    assert_array_equal(kernel(X), plain(X))
