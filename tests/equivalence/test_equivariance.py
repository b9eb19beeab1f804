"""Units, order and repetition: what must move with the data, and what must not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP
from biasgp.data import simulate
from biasgp.kernels import Exponential, Linear, SquaredExponential

ESTIMATORS = [GaussianGP, ConstantBiasGP, RandomBiasGP]
every_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS)


def outputs(fitted, X):
    """All that a fit says, as arrays."""
    mean, std = fitted.predict(X, return_std=True)
    names = [name for name in vars(fitted) if name.endswith("_") and name not in ("kernel_", "n_features_in_")]
    return {"mean": mean, "std": std, "theta": fitted.kernel_.theta} | {n: getattr(fitted, n) for n in names}


# 60 readings are searched as a whole; from 100 on the search starts on a subset.
@pytest.fixture(scope="module", params=[60, 120])
def data(request):
    return simulate("1d", 1, n=request.param, n_test=30, random_state=1)


@every_estimator
@pytest.mark.parametrize("a", [1e-12, -3.0, 1e12])
def test_outputs_move_with_the_unit_of_y(Estimator, a, data):
    b, n = 5.0 * a, len(data.y)
    base = Estimator().fit(data.X, data.y)
    moved = Estimator().fit(data.X, a * data.y + b)
    (mean, std), (mean_a, std_a) = (m.predict(data.X_test, return_std=True) for m in (base, moved))
    assert_allclose((mean_a - b) / a, mean, rtol=1e-6, atol=1e-6)
    assert_allclose(std_a / abs(a), std, rtol=1e-6)
    assert moved.noise_variance_ / a**2 == pytest.approx(base.noise_variance_, rel=1e-6)
    assert moved.kernel_.variance / a**2 == pytest.approx(base.kernel_.variance, rel=1e-5)
    assert_allclose(moved.kernel_.length_scale, base.kernel_.length_scale, rtol=1e-5)
    log_unit = n * np.log(abs(a))
    if Estimator is GaussianGP:
        assert moved.log_marginal_likelihood_ + log_unit == pytest.approx(base.log_marginal_likelihood_, abs=1e-6)
        return
    assert moved.objective_ - log_unit == pytest.approx(base.objective_, abs=1e-6)
    assert_allclose(moved.bias_ / a, base.bias_, atol=1e-6)
    assert_array_equal(moved.outlier_mask_, base.outlier_mask_)
    if Estimator is ConstantBiasGP:
        assert_allclose(moved.k_, base.k_ if a > 0 else base.k_[::-1], rtol=1e-5)
        lam = [side * abs(a) for side in moved.lam_]
        assert_allclose(lam if a > 0 else lam[::-1], base.lam_, rtol=1e-5)
    else:
        assert_allclose(moved.bias_variance_ / a**2, base.bias_variance_, rtol=1e-4)
        assert moved.mean_bias_ / a == pytest.approx(base.mean_bias_, abs=1e-6)
        assert_allclose(moved.lambdas_, base.lambdas_, rtol=1e-4)


@pytest.mark.parametrize("a", [1e-12, 1e12])
@pytest.mark.filterwarnings("ignore::biasgp.RunawayTuningWarning")
def test_a_given_lambda_is_per_unit_of_y(a, data):
    base = ConstantBiasGP(lam=4.0).fit(data.X, data.y)
    moved = ConstantBiasGP(lam=4.0 / a).fit(data.X, a * data.y)
    assert_allclose(moved.bias_ / a, base.bias_, atol=1e-6)
    assert_allclose(moved.predict(data.X_test) / a, base.predict(data.X_test), atol=1e-6)


@every_estimator
def test_known_noise_moves_with_the_unit_of_y(Estimator, data):
    known = np.linspace(0.01, 1.0, len(data.y))
    base = Estimator().fit(data.X, data.y, noise_variance=known)
    moved = Estimator().fit(data.X, 1e6 * data.y, noise_variance=1e12 * known)
    assert_allclose(moved.predict(data.X_test) / 1e6, base.predict(data.X_test), atol=1e-6)
    assert moved.noise_variance_ / 1e12 == pytest.approx(base.noise_variance_, rel=1e-6)


@every_estimator
@pytest.mark.parametrize("kernel", [None, Exponential(), SquaredExponential() + Linear()], ids=["se", "exp", "sum"])
def test_predictions_do_not_depend_on_the_unit_or_origin_of_x(Estimator, kernel, data):
    base = Estimator(kernel).fit(data.X, data.y)
    moved = Estimator(kernel).fit(1e6 * data.X + 1e6, data.y)
    assert_allclose(moved.predict(1e6 * data.X_test + 1e6), base.predict(data.X_test), atol=1e-4)


@every_estimator
def test_permuting_rows_permutes_the_outputs(Estimator, data):
    order = np.random.default_rng(5).permutation(len(data.y))
    base = Estimator().fit(data.X, data.y)
    moved = Estimator().fit(data.X[order], data.y[order])
    for got, want in zip(
        moved.predict(data.X_test, return_std=True), base.predict(data.X_test, return_std=True), strict=True
    ):
        assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert moved.noise_variance_ == pytest.approx(base.noise_variance_, rel=1e-5)
    if Estimator is not GaussianGP:
        assert_allclose(moved.bias_, base.bias_[order], atol=1e-5)
        assert_array_equal(moved.outlier_mask_, base.outlier_mask_[order])


@every_estimator
def test_permuting_columns_permutes_the_length_scales(Estimator):
    data = simulate("friedman", 2, n=50, n_test=20)
    order = [3, 1, 4, 0, 2, 9, 8, 7, 6, 5]
    base = Estimator().fit(data.X, data.y)
    moved = Estimator().fit(data.X[:, order], data.y)
    assert_allclose(moved.predict(data.X_test[:, order]), base.predict(data.X_test), rtol=1e-3)
    lengths = np.array(base.kernel_.length_scale)[order]
    # Those of the inputs that do not matter are not determined.
    matters = lengths < 10.0
    assert_allclose(np.array(moved.kernel_.length_scale)[matters], lengths[matters], rtol=1e-2)


@every_estimator
def test_the_same_input_gives_the_same_result_bit_for_bit(Estimator, data):
    expected = outputs(Estimator().fit(data.X, data.y), data.X_test)
    second = Estimator().fit(data.X.copy(), data.y.copy())
    refitted = Estimator().fit(data.X[::2], data.y[::2]).fit(data.X, data.y)
    for fitted in (second, refitted):
        got = outputs(fitted, data.X_test)
        assert got.keys() == expected.keys()
        for name, value in expected.items():
            assert_array_equal(np.asarray(got[name]), np.asarray(value), err_msg=name)


@every_estimator
def test_memory_layout_does_not_matter(Estimator):
    data = simulate("friedman", 1, n=40, n_test=5)
    a = Estimator().fit(data.X, data.y).predict(data.X_test)
    b = Estimator().fit(np.asfortranarray(data.X), data.y).predict(np.asfortranarray(data.X_test))
    assert_allclose(b, a, rtol=1e-5)


@every_estimator
def test_fit_leaves_the_data_alone(Estimator, data):
    X, y, known = data.X.copy(), data.y.copy(), np.full(len(data.y), 0.1)
    for array in (X, y, known):
        array.setflags(write=False)
    Estimator().fit(X, y, noise_variance=known).predict(X)
    assert_array_equal(X, data.X)
    assert_array_equal(y, data.y)
