"""Covariance functions: values, gradients, and what binding to data does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as sk

from biasgp.kernels import (
    Constant,
    Exponential,
    Linear,
    Matern32,
    Matern52,
    Periodic,
    Product,
    SquaredExponential,
    Sum,
    as_kernel,
)

STATIONARY = (SquaredExponential, Exponential, Matern32, Matern52)
SINGLE = {
    "constant": Constant(),
    "linear": Linear(),
    "linear-ard": Linear(ard=True),
    "periodic": Periodic(),
    "periodic-ard": Periodic(ard=True),
    **{kind.__name__: kind() for kind in STATIONARY},
    **{f"{kind.__name__}-ard": kind(ard=True) for kind in STATIONARY},
}
JOINED = {
    "sum": SquaredExponential(ard=True) + Linear(),
    "product": Exponential() * Periodic(),
    "three": (Matern32() + Constant()) * Linear(ard=True),
    "on-columns": SquaredExponential().on(0) + Matern52(ard=True).on(-1, 0),
    "product-on-columns": Periodic().on(0) * SquaredExponential().on(-1),
}
EVERY = SINGLE | JOINED
every_kernel = pytest.mark.parametrize("kernel", EVERY.values(), ids=EVERY.keys())


def inputs(seed: int, n: int = 7, d: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.5, 2.5, (n, d))


def central_differences(function, x, step=1e-5):
    steps = step * np.eye(len(x))
    return np.array([(function(x + h) - function(x - h)) / (2 * step) for h in steps])


@every_kernel
@given(seed=st.integers(0, 2**20), n=st.integers(2, 9), d=st.integers(1, 3), shift=st.floats(-0.7, 0.7))
def test_vjp_equals_central_differences(kernel, seed, n, d, shift):
    rng = np.random.default_rng(seed)
    X = inputs(seed, n, d)
    bound = kernel.bind(X)
    theta = bound.theta + shift + 0.3 * rng.standard_normal(len(bound.theta))
    W = rng.standard_normal((n, n))
    W = W + W.T
    C, pullback = bound.with_theta(theta).vjp(X)
    assert_allclose(C, bound.with_theta(theta)(X), rtol=1e-13, atol=1e-13)
    size = np.abs(W).sum() * np.abs(C).max()
    numeric = central_differences(lambda t: np.vdot(W, bound.with_theta(t)(X)), theta)
    assert_allclose(pullback(W), numeric, rtol=1e-5, atol=1e-7 * size)


@pytest.mark.parametrize("kind", STATIONARY)
def test_gradient_is_finite_and_right_with_repeated_rows(kind):
    X = np.repeat(inputs(3, 4), 2, axis=0)
    kernel = kind(ard=True).bind(X)
    W = np.random.default_rng(1).standard_normal((8, 8))
    W = W + W.T
    numeric = central_differences(lambda t: np.vdot(W, kernel.with_theta(t)(X)), kernel.theta)
    assert_allclose(kernel.vjp(X)[1](W), numeric, rtol=1e-5, atol=1e-6)


@every_kernel
def test_pullback_leaves_its_argument_and_can_be_used_again(kernel):
    X = inputs(5)
    C, pullback = kernel.bind(X).vjp(X)
    W = np.eye(len(X)) + 0.1
    before = W.copy()
    first = pullback(W)
    assert_array_equal(W, before)
    assert_array_equal(pullback(W), first)
    assert_array_equal(C, kernel.bind(X).vjp(X)[0])


@every_kernel
@given(seed=st.integers(0, 2**20), n=st.integers(1, 9), d=st.integers(1, 3))
def test_matrix_is_symmetric_and_positive_semidefinite(kernel, seed, n, d):
    X = inputs(seed, n, d)
    C = kernel.bind(X)(X)
    assert C.shape == (n, n)
    assert_allclose(C, C.T, rtol=1e-13, atol=1e-13)
    assert np.linalg.eigvalsh(C).min() >= -1e-10 * max(1.0, C.max())
    assert_allclose(kernel.bind(X).diag(X), C.diagonal(), rtol=1e-12, atol=1e-13)


@every_kernel
def test_cross_covariance_is_a_block_of_the_joint_matrix(kernel):
    X, Z = inputs(1, 6), inputs(2, 4)
    bound = kernel.bind(X)
    assert_allclose(bound(X, Z), bound(np.vstack([X, Z]))[:6, 6:], rtol=1e-12, atol=1e-13)


@every_kernel
def test_theta_survives_the_round_trip(kernel):
    bound = kernel.bind(inputs(4))
    assert_allclose(bound.with_theta(bound.theta + 0.4).theta, bound.theta + 0.4, rtol=1e-12, atol=1e-12)
    assert len(bound.parameter_names) == len(bound.theta) == len(set(bound.parameter_names))


@every_kernel
def test_start_lies_within_finite_bounds(kernel):
    X = inputs(6, 12)
    bound = kernel.bind(X)
    bounds = bound.bounds(X, 4.0)
    assert bounds.shape == (len(bound.theta), 2)
    assert np.all(np.isfinite(bounds))
    assert np.all(bounds[:, 0] <= bound.theta)
    assert np.all(bound.theta <= bounds[:, 1])


@every_kernel
def test_scaled_multiplies_the_matrix(kernel):
    X = inputs(7)
    bound = kernel.bind(X)
    assert_allclose(bound.scaled(2.5)(X), 2.5 * bound(X), rtol=1e-12, atol=1e-13)


@every_kernel
def test_binding_does_not_change_the_kernel_itself(kernel):
    before = repr(kernel)
    kernel.bind(inputs(8))
    assert repr(kernel) == before


@pytest.mark.parametrize("kind", STATIONARY)
@pytest.mark.parametrize("ard", [False, True])
def test_stretched_is_the_kernel_of_shrunken_inputs(kind, ard):
    X = inputs(9)
    bound = kind(ard=ard).bind(X)
    assert_allclose(bound.stretched(3.0)(X), bound(X / 3.0), rtol=1e-12)


def test_stretched_reaches_both_kernels_of_a_pair_but_not_what_is_fixed():
    X = inputs(9)
    pair = (Matern32(length_scale=2.0).fix("length_scale") + SquaredExponential(length_scale=2.0)).bind(X)
    stretched = pair.stretched(5.0)
    assert stretched.left.length_scale == 2.0
    assert stretched.right.length_scale == pytest.approx(10.0)


def test_kernels_without_a_length_scale_do_not_stretch():
    X = inputs(9)
    bound = (Constant() + Linear()).bind(X)
    assert_array_equal(bound.stretched(3.0).theta, bound.theta)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SquaredExponential(length_scale=0.7), sk.RBF(0.7)),
        (SquaredExponential(length_scale=(0.7, 1.9), ard=True), sk.RBF([0.7, 1.9])),
        (Exponential(length_scale=0.7), sk.Matern(0.7, nu=0.5)),
        (Exponential(length_scale=(0.7, 1.9), ard=True), sk.Matern([0.7, 1.9], nu=0.5)),
        (Matern32(length_scale=0.7), sk.Matern(0.7, nu=1.5)),
        (Matern52(length_scale=(0.7, 1.9), ard=True), sk.Matern([0.7, 1.9], nu=2.5)),
        (Linear(variance=1.0, center=(0.0, 0.0)), sk.DotProduct(sigma_0=0.0, sigma_0_bounds="fixed")),
        (Linear(variance=1.0, center=(0.0, 0.0)) + Constant(variance=1.7**2), sk.DotProduct(sigma_0=1.7)),
        (Constant(variance=0.3), sk.ConstantKernel(0.3)),
    ],
    ids=lambda k: repr(k)[:40],
)
def test_values_equal_scikit_learns(ours, theirs):
    X, Z = inputs(10), inputs(11, 5)
    assert_allclose(ours.bind(X)(X), theirs(X), rtol=1e-12, atol=1e-14)
    assert_allclose(ours.bind(X)(X, Z), theirs(X, Z), rtol=1e-12, atol=1e-14)


def test_periodic_equals_exp_sine_squared_on_one_input():
    X = inputs(12, 8, 1)
    ours = Periodic(length_scale=0.8, period=1.3).bind(X)
    assert_allclose(ours(X), sk.ExpSineSquared(0.8, 1.3)(X), rtol=1e-11, atol=1e-14)


def test_periodic_on_two_inputs_is_a_product_over_them():
    X = inputs(12)
    whole = Periodic(length_scale=(0.8, 1.7), period=1.3, ard=True).bind(X)(X)
    parts = [sk.ExpSineSquared(length, 1.3)(X[:, [j]]) for j, length in enumerate((0.8, 1.7))]
    assert_allclose(whole, parts[0] * parts[1], rtol=1e-11, atol=1e-14)


def test_periodic_repeats_itself():
    X = inputs(13, 6, 1)
    kernel = Periodic(length_scale=0.8, period=1.3).bind(X)
    assert_allclose(kernel(X, X + 3 * 1.3), kernel(X), rtol=1e-11)


def test_sum_and_product_are_those_of_the_matrices():
    X = inputs(14)
    a, b = Matern32().bind(X), Linear().bind(X)
    assert_allclose((a + b)(X), a(X) + b(X))
    assert_allclose((a * b)(X), a(X) * b(X))


def test_on_uses_the_chosen_columns_alone():
    X = inputs(15, 6, 3)
    chosen = SquaredExponential(ard=True).on(2, 0).bind(X)
    assert_allclose(chosen(X), SquaredExponential(ard=True).bind(X[:, [2, 0]])(X[:, [2, 0]]))


def test_on_reaches_both_kernels_of_a_pair():
    X = inputs(15, 6, 3)
    pair = (SquaredExponential() + Linear()).on(1).bind(X)
    alone = (SquaredExponential() + Linear()).bind(X[:, [1]])
    assert_allclose(pair(X), alone(X[:, [1]]))


def test_columns_by_name_and_by_negative_index_are_the_same_column():
    X = inputs(16, 6, 3)
    by_name = Exponential().on("time").bind(X, ["a", "b", "time"])
    by_index = Exponential().on(-1).bind(X)
    assert by_name.columns == by_index.columns == (2,)
    assert_array_equal(by_name(X), by_index(X))


def test_unknown_columns_are_named():
    X = inputs(17)
    with pytest.raises(ValueError, match=r"column 'tmie', but X has 'a', 'time'"):
        Exponential().on("tmie").bind(X, ["a", "time"])
    with pytest.raises(ValueError, match=r"column 'time', but X has no column names; use an index"):
        Exponential().on("time").bind(X)
    with pytest.raises(ValueError, match=r"column 2, but X has 2 columns \(0 to 1\)"):
        Exponential().on(2).bind(X)
    with pytest.raises(ValueError, match=r"column -3, but X has 2 columns"):
        (Linear() * Exponential().on(-3)).bind(X)
    with pytest.raises(ValueError, match="at least one column"):
        Exponential().on()


def test_fixed_parameters_have_equal_bounds_at_their_value():
    X = inputs(18)
    kernel = Periodic(period=1.3, variance=2.0).fix("period", "variance").bind(X)
    bounds = dict(zip(kernel.parameter_names, kernel.bounds(X).tolist(), strict=True))
    assert_allclose(bounds["period"], np.log([1.3, 1.3]))
    assert_allclose(bounds["variance"], np.log([2.0, 2.0]))
    assert bounds["length_scale"][0] < bounds["length_scale"][1]


def test_fix_refuses_wrong_names_parameters_without_a_value_and_pairs():
    with pytest.raises(ValueError, match=r"no parameter 'lengthscale'; it has variance, length_scale"):
        Matern32(length_scale=1.0).fix("lengthscale")
    with pytest.raises(ValueError, match="give period a value before fixing it"):
        Periodic().fix("period")
    with pytest.raises(ValueError, match="before joining"):
        (Matern32() + Linear()).fix("variance")


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, (1.0, -2.0)])
def test_parameters_must_be_positive_and_finite(value):
    with pytest.raises(ValueError, match="length_scale must be positive and finite"):
        SquaredExponential(length_scale=value, ard=True)


def test_number_of_length_scales_must_suit_the_columns():
    with pytest.raises(ValueError, match="3 values for 2 input columns"):
        Matern52(length_scale=(1.0, 2.0, 3.0), ard=True).bind(inputs(19))
    with pytest.raises(ValueError, match="pass ard=True"):
        Matern52(length_scale=(1.0, 2.0)).bind(inputs(19))


def test_one_given_length_scale_is_the_start_of_every_input_under_ard():
    assert Matern52(length_scale=1.5, ard=True).bind(inputs(19)).length_scale == (1.5, 1.5)


def free_variances(kernel):
    X = inputs(20, 9)
    bound = kernel.bind(X)
    bounds = zip(bound.parameter_names, bound.bounds(X), strict=True)
    return [name for name, (low, high) in bounds if high > low and "variance" in name]


@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential() * Periodic(),
        (SquaredExponential() * Periodic()) * Linear(),
        SquaredExponential() * (Periodic() * Linear()),
        (SquaredExponential() * Periodic()) * (Linear() * Constant()),
    ],
    ids=["two", "three-left", "three-right", "four"],
)
def test_a_product_learns_one_variance_only(kernel):
    assert len(free_variances(kernel)) == 1


@pytest.mark.parametrize("swap", [False, True])
def test_a_product_with_a_sum_keeps_the_sums_variances(swap):
    total = SquaredExponential() + Constant()
    kernel = Periodic() * total if swap else total * Periodic()
    assert len(free_variances(kernel)) == 2


@pytest.mark.parametrize("swap", [False, True])
def test_a_product_keeps_the_variance_of_each_input_that_a_linear_kernel_learns(swap):
    linear = Linear(ard=True)
    assert len(free_variances(Periodic() * linear if swap else linear * Periodic())) == 2


@given(spacing=st.floats(1e-3, 1e3))
def test_length_scale_may_not_fall_far_below_the_spacing(spacing):
    X = spacing * np.arange(20.0)[:, None]
    low, high = np.exp(SquaredExponential().bind(X).bounds(X)[1])
    assert 0.1 * spacing <= low <= spacing
    assert high > X.max()


def test_ard_lower_bounds_follow_each_columns_own_spacing():
    X = np.column_stack([np.arange(10.0), 100.0 * np.arange(10.0)[::-1]])
    low = np.exp(Matern32(ard=True).bind(X).bounds(X)[1:, 0])
    assert low[1] == pytest.approx(100.0 * low[0])


def test_a_start_given_by_the_user_is_within_bounds_however_odd():
    X = np.arange(10.0)[:, None]
    kernel = Matern32(length_scale=1e-9, variance=1e7).bind(X)
    bounds = kernel.bounds(X)
    assert_allclose(bounds[0, 1], np.log(1e7))
    assert_allclose(bounds[1, 0], np.log(1e-9))


def test_a_kernel_without_values_says_to_bind_it():
    with pytest.raises(ValueError, match="bind the kernel to data first"):
        _ = SquaredExponential().theta


SKLEARN = sk.ConstantKernel(2.0) * sk.RBF([0.7, 1.9]) + sk.WhiteKernel(0.1, noise_level_bounds="fixed")


def test_adapter_gives_scikit_learns_matrix_diagonal_and_bounds():
    X, Z = inputs(21), inputs(22, 3)
    ours = as_kernel(SKLEARN).bind(X)
    assert_array_equal(ours(X), SKLEARN(X))
    assert_array_equal(ours(X, Z), SKLEARN(X, Z))
    assert_array_equal(ours.diag(X), SKLEARN.diag(X))
    assert_array_equal(ours.bounds(X), SKLEARN.bounds)
    assert len(ours.parameter_names) == len(ours.theta) == 3
    assert_allclose(ours.scaled(3.0)(X), 3.0 * SKLEARN(X))


def test_adapters_gradient_equals_central_differences(rng):
    X = inputs(23)
    kernel = as_kernel(SKLEARN).bind(X)
    W = rng.standard_normal((7, 7))
    W = W + W.T
    numeric = central_differences(lambda t: np.vdot(W, kernel.with_theta(t)(X)), kernel.theta)
    assert_allclose(kernel.vjp(X)[1](W), numeric, rtol=1e-6, atol=1e-7)


def test_a_scikit_learn_kernel_joins_ours():
    X = inputs(24)
    joined = Linear() + sk.RBF(0.7)
    assert isinstance(joined, Sum)
    assert_allclose(joined.bind(X)(X), Linear().bind(X)(X) + sk.RBF(0.7)(X))
    assert isinstance(Linear() * sk.RBF(0.7), Product)


def test_adapter_refuses_what_it_cannot_do():
    kernel = as_kernel(sk.RBF())
    with pytest.raises(ValueError, match="works on all columns"):
        kernel.on(0)
    with pytest.raises(ValueError, match="bounds='fixed'"):
        kernel.fix("length_scale")


@pytest.mark.parametrize("thing", ["rbf", 3.0, None, SquaredExponential, np.eye(2)])
def test_other_objects_are_no_kernels(thing):
    with pytest.raises(TypeError, match=r"biasgp\.kernels or of sklearn\.gaussian_process\.kernels"):
        as_kernel(thing)


def test_adding_a_number_is_refused():
    with pytest.raises(TypeError, match="got int"):
        _ = SquaredExponential() + 1


def test_repr_is_short_and_shows_what_was_set():
    assert repr(SquaredExponential()) == "SquaredExponential()"
    assert repr(Matern32(length_scale=1 / 3, ard=True)) == "Matern32(length_scale=0.3333, ard=True)"
    assert "'time'" in repr(Linear().on("time"))
    assert repr((Constant() + Linear()) * Periodic()) == "(Constant() + Linear()) * Periodic()"
    assert len(repr(SquaredExponential(ard=True).bind(inputs(25)))) < 90


@pytest.mark.parametrize(("unit", "expected"), [(1e-180, 1e8), (0.1, 100.0), (1e180, 1e-8)])
def test_a_variance_to_start_from_is_one_that_can_be_computed_with(unit, expected):
    X = np.arange(5.0)[:, None]
    kernel = Matern32(variance=10.0)
    assert kernel.bind(X, unit=unit).variance == pytest.approx(expected)
    if unit == 0.1:
        assert kernel.fix("variance").bind(X, unit=unit).variance == pytest.approx(100.0)
    else:
        with pytest.raises(ValueError, match="Matern32: the variance is fixed at 10, which is 1e"):
            kernel.fix("variance").bind(X, unit=unit)
