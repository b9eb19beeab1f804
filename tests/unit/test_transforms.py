"""Transforms of the response: exact maps, moments and quantiles, and the choice among them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, yeojohnson

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP, StudentTGP
from biasgp.data import STRESSES, simulate
from biasgp.kernels import SquaredExponential
from biasgp.models.transform_choice import (
    LEAST_WEIGHT,
    PRICE_OF_A_TRANSFORM,
    Verdict,
    choose_transform,
    judged_rows,
    weighted,
)
from biasgp.response import Identity, Log, ScaledResponse, Scaling, YeoJohnson

LEVELS = [0.025, 0.25, 0.5, 0.75, 0.975]
every_estimator = pytest.mark.parametrize(
    "Estimator", [GaussianGP, ConstantBiasGP, RandomBiasGP, StudentTGP, SparseBiasGP]
)
readings = st.lists(st.floats(0.01, 100.0), min_size=4, max_size=12, unique=True).map(np.array)
maps = st.one_of(
    st.just(Identity()),
    st.builds(Log, st.floats(0.0, 5.0)),
    st.builds(YeoJohnson, st.floats(-3.0, 3.0), st.floats(0.5, 4.0), st.floats(-0.9, 2.9)),
    # The powers where the formula changes.
    st.builds(YeoJohnson, st.just(1.0), st.just(2.0), st.sampled_from([0.0, 1e-9, 1.0, 2.0, 2.0 - 1e-9])),
)


@given(transform=maps, y=readings)
def test_there_and_back(transform, y):
    assert_allclose(transform.backward(transform.forward(y)), y, rtol=1e-6, atol=1e-8)


@given(transform=maps, y=readings)
def test_order_is_kept(transform, y):
    assert np.all(np.diff(transform.forward(np.sort(y))) >= 0)


@given(transform=maps, y=readings)
def test_log_slope_is_the_derivatives_logarithm(transform, y):
    h = 1e-5 * y
    numeric = (transform.forward(y + h) - transform.forward(y - h)) / (2.0 * h)
    assert_allclose(np.exp(transform.log_slope(y)), numeric, rtol=1e-4, atol=1e-9)


@given(power=st.floats(-0.9, 2.9), y=readings)
def test_yeo_johnson_is_scipys(power, y):
    signed = y * np.where(np.arange(len(y)) % 2, 1.0, -1.0)
    assert_allclose(YeoJohnson(0.0, 1.0, power).forward(signed), yeojohnson(signed, power), rtol=1e-6, atol=1e-9)


# Beyond the readings.

continued = st.one_of(
    st.builds(Log, st.floats(0.0, 5.0), st.floats(0.1, 10.0)),
    st.builds(YeoJohnson, st.floats(-3.0, 3.0), st.floats(0.5, 4.0), st.floats(0.0, 2.0)),
)


@given(transform=continued, y=readings)
def test_a_transform_holds_as_far_as_the_readings_support_it(transform, y):
    supported = transform.supported_by(y)
    near = np.linspace(y.min(), y.max() + 2.0 * np.ptp(y), 50)
    assert_array_equal(supported.forward(near), transform.forward(near))
    assert_array_equal(supported.log_slope(near), transform.log_slope(near))
    assert_allclose(supported.backward(transform.forward(near)), near, rtol=1e-6, atol=1e-8)


@given(transform=continued, y=readings, far=st.floats(2.5, 1e6))
def test_beyond_that_it_goes_on_as_its_tangent(transform, y, far):
    supported, size = transform.supported_by(y), np.ptp(y)
    ends = y.max() + size * np.array([2.0, far, 2.0 * far])
    t = supported.forward(ends)
    slope = np.exp(supported.log_slope(ends))
    assert_allclose(slope, slope[0], rtol=1e-12)
    assert_allclose(np.diff(t), slope[0] * np.diff(ends), rtol=1e-6)
    assert_allclose(supported.backward(t), ends, rtol=1e-6)
    # What is asked of the inverse grows in proportion, so it is bounded wherever the model is.
    steps = np.diff(supported.backward(t[0] + np.array([0.0, 10.0, 20.0])))
    assert_allclose(steps[1], steps[0], rtol=1e-9)


@pytest.mark.parametrize("transform", [Log(0.0, 2.0), YeoJohnson(1.0, 0.7, 0.0), YeoJohnson(1.0, 0.7, 2.0)])
def test_densities_stay_proper_where_the_transform_is_continued(transform):
    scaling = Scaling(0.1, 0.8, False, transform.supported_by(np.array([0.5, 1.0, 3.0])))
    # A wide distribution, most of which lies beyond the ends; its tails go on for long but thin out.
    q = scaling.backward(norm.ppf(np.linspace(1e-9, 1.0 - 1e-9, 400_001)) * 3.0)
    density = np.exp(norm.logpdf(scaling.forward(q), scale=3.0) + scaling.log_slope(q))
    assert np.trapezoid(density, q) == pytest.approx(1.0, abs=1e-4)


def test_outliers_do_not_widen_what_is_supported(lognormal):
    X, y, *_ = lognormal
    model = SparseBiasGP(response="log").fit(X, np.where(np.arange(len(y)) == 7, 1e9, y))
    assert model.outlier_mask_[7]
    assert model.response_.high < 3.1 * np.delete(y, 7).max()


def tiny_set(seed):
    """Between 3 and 12 readings of nothing in particular: even, skewed, or with a heavy tail."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 13)), int(rng.integers(1, 3))
    draw = (
        lambda: rng.uniform(-0.8, 0.9, n),
        lambda: np.exp(rng.standard_normal(n)),
        lambda: rng.standard_t(1.5, n),
        lambda: np.exp(3.0 * rng.standard_normal(n)),
    )[seed % 4]
    return rng.uniform(size=(n, d)), draw(), rng.uniform(-1.0, 2.0, (30, d))


@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
@every_estimator
@pytest.mark.parametrize("response", ["log", "yeo-johnson", "auto"])
def test_predictions_from_few_readings_are_bounded_by_their_range(Estimator, response):
    for seed in range(12):
        X, y, at = tiny_set(seed)
        model = Estimator(response=response).fit(X, y)
        mean, std = model.predict(np.vstack([X, at]), return_std=True, include_noise=True)
        quantiles = model.predict_quantiles(at, [0.025, 0.975])
        assert np.abs(mean - np.median(y)).max() < 10.0 * np.ptp(y), seed
        assert std.max() < 20.0 * np.ptp(y), seed
        assert np.abs(quantiles - np.median(y)).max() < 20.0 * np.ptp(y), seed
        assert np.abs(model.sample_y(at, 20) - np.median(y)).max() < 100.0 * np.ptp(y), seed


@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
@pytest.mark.parametrize("n", [6, 19])
def test_few_readings_are_too_few_to_choose_a_transform(n):
    y = np.exp(2.0 * np.random.default_rng(0).standard_normal(n))
    assert isinstance(GaussianGP(response="auto").fit(np.arange(float(n))[:, None], y).response_, Identity)


def test_yeo_johnson_makes_skewed_readings_symmetric(rng):
    y = np.exp(rng.standard_normal(2000))
    z = YeoJohnson.of(y).forward(y)
    low, middle, high = np.quantile(z, [0.1, 0.5, 0.9])
    # (that of y itself is 3.6; powers below 0 would come closer, but have no inverse everywhere)
    assert (high - middle) / (middle - low) == pytest.approx(1.0, abs=0.3)
    assert YeoJohnson.of(rng.standard_normal(2000)).power == pytest.approx(1.0, abs=0.2)


def test_a_few_outliers_do_not_set_the_power(rng):
    y = rng.standard_normal(1000)
    dirty = np.where(np.arange(1000) < 30, 50.0, y)
    assert YeoJohnson.of(dirty).power == pytest.approx(YeoJohnson.of(y).power, abs=0.2)


def test_log_needs_no_shift_for_positive_readings_and_finds_one_for_others(rng):
    assert Log.of(np.array([1e-6, 1.0, 2.0])).shift == 0.0
    y = rng.standard_normal(50)
    shifted = Log.of(y)
    assert y.min() + shifted.shift > 0
    assert np.isfinite(shifted.forward(y)).all()


@pytest.mark.parametrize("unit", [1e-90, 1.0, 1e90])
def test_readings_that_do_not_exist_for_the_log_stay_finite(unit):
    transform = Log(0.0, unit).supported_by(unit * np.array([1.0, 2.0]))
    for y in (-unit, 0.0):
        assert np.isfinite(transform.forward(np.array([y]))).all()
        assert np.isfinite(transform.log_slope(np.array([y]))).all()
    assert np.isfinite(transform.backward(np.array([-1e5, -800.0, 800.0, 1e5]))).all()


@given(mean=st.floats(-2.0, 2.0), variance=st.floats(1e-6, 1.0))
def test_moments_under_the_log_are_the_lognormals(mean, variance):
    scaling = Scaling(0.5, 0.8, False, Log(0.0))
    m, v = 0.5 + 0.8 * mean, 0.64 * variance
    got_mean, got_std = scaling.moments(np.array([mean]), np.array([variance]))
    assert got_mean[0] == pytest.approx(np.exp(m + 0.5 * v), rel=1e-8)
    assert got_std[0] == pytest.approx(np.exp(m + 0.5 * v) * np.sqrt(np.expm1(v)), rel=1e-6)


@given(center=st.floats(-3.0, 3.0), scale=st.floats(0.1, 10.0), mean=st.floats(-3.0, 3.0), std=st.floats(0.01, 3.0))
def test_moments_without_a_transform_are_linear(center, scale, mean, std):
    got = Scaling(center, scale, False).moments(np.array([mean]), np.array([std**2]))
    assert_allclose(np.ravel(got), [center + scale * mean, scale * std], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("transform", [Log(0.0), YeoJohnson(1.0, 2.0, 0.3)], ids=["log", "yeo-johnson"])
def test_joint_moments_have_the_stds_of_each(transform):
    scaling = Scaling(0.2, 0.7, False, transform)
    mean, root = np.array([0.1, -0.4, 1.0]), np.array([[1.0, 0.0, 0.0], [0.5, 0.6, 0.0], [0.1, 0.2, 0.4]])
    covariance = root @ root.T
    means, joint = scaling.joint_moments(mean, covariance)
    expected_mean, expected_std = scaling.moments(mean, covariance.diagonal())
    assert_allclose(means, expected_mean)
    assert_allclose(np.sqrt(joint.diagonal()), expected_std)
    assert np.linalg.eigvalsh(joint).min() > 0


@given(transform=maps, y=readings)
def test_density_in_readings_is_that_in_model_units_with_the_jacobian(transform, y):
    scaling = Scaling(0.3, 1.7, False, transform)
    h = 1e-5 * y
    numeric = (scaling.forward(y + h) - scaling.forward(y - h)) / (2.0 * h)
    assert_allclose(np.exp(scaling.log_slope(y)), numeric, rtol=1e-4, atol=1e-9)
    assert ScaledResponse(y, scaling).log_jacobian == pytest.approx(scaling.log_slope(y).sum())


@pytest.mark.parametrize("transform", [Identity(), Log(0.0), YeoJohnson(1.0, 2.0, 0.3)])
def test_a_bias_is_what_it_has_added_to_the_reading(transform):
    y = np.array([1.0, 2.0, 5.0])
    response = ScaledResponse(y, Scaling(0.2, 0.7, False, transform))
    of_z = np.array([0.0, 0.5, -0.3])
    bias = response.bias(of_z)
    assert bias[0] == 0.0
    assert_allclose(response.scaling.forward(y - bias), response.z - of_z, atol=1e-9)
    assert np.all(response.bias_std(of_z, np.array([0.0, 0.1, 0.1])) >= 0)


# On the estimators.


@pytest.fixture(scope="module")
def lognormal():
    """Positive readings whose logarithm is a smooth function and noise."""
    data = simulate("1d", 1, n=80, n_test=400, random_state=3)
    rng = np.random.default_rng(0)
    y, y_test = (np.exp(f + 0.2 * rng.standard_normal(len(f))) for f in (data.f, data.f_test))
    return data.X, y, data.X_test, y_test, np.exp(data.f_test)


@every_estimator
def test_the_log_response_is_the_fit_to_the_logarithm(Estimator, lognormal):
    X, y, X_test, y_test, _ = lognormal
    under_log = Estimator(response="log").fit(X, y)
    by_hand = Estimator().fit(X, np.log(y))
    m, s = by_hand.predict(X_test, return_std=True, include_noise=True)
    mean, std = under_log.predict(X_test, return_std=True, include_noise=True)
    assert_allclose(mean, np.exp(m + 0.5 * s**2), rtol=1e-6)
    assert_allclose(std, mean * np.sqrt(np.expm1(s**2)), rtol=1e-5)
    assert_allclose(under_log.predict(X_test), under_log.predict(X_test, return_std=True)[0])
    density = by_hand.log_predictive_density(X_test, np.log(y_test)) - np.log(y_test)
    found = under_log.log_predictive_density(X_test, y_test)
    # Outliers of a kind that was not seen may have any size by y's own scale, which is another.
    by_scale = 1.0 if Estimator is SparseBiasGP else 0.0
    assert_allclose(np.exp(found), np.exp(density), rtol=1e-6, atol=1e-6 + 0.02 * by_scale)
    quantiles = under_log.predict_quantiles(X_test, LEVELS, include_noise=True)
    assert_allclose(quantiles, np.exp(by_hand.predict_quantiles(X_test, LEVELS, include_noise=True)), rtol=1e-6)


# Skewed noise deserves a warning where nothing is done about it.
@pytest.mark.filterwarnings("ignore::biasgp.UntrustworthyFitWarning")
@every_estimator
@pytest.mark.parametrize("response", ["identity", "log", "yeo-johnson"])
def test_quantiles_are_the_map_of_the_normals(Estimator, response, lognormal):
    X, y, X_test, _, _ = lognormal
    model = Estimator(response=response).fit(X, y)
    quantiles = model.predict_quantiles(X_test, LEVELS)
    assert quantiles.shape == (len(X_test), len(LEVELS))
    assert np.all(np.diff(quantiles, axis=1) > 0)
    # In the transform's units they are a normal's: its center, and steps in proportion to the normal's.
    t = model.response_.forward(quantiles)
    steps = norm.ppf(LEVELS)
    assert_allclose((t - t[:, [2]]) * steps[-1], (t[:, [-1]] - t[:, [2]]) * steps, atol=1e-7)
    if response == "identity" and Estimator is not StudentTGP:
        mean, std = model.predict(X_test, return_std=True)
        assert_allclose(quantiles, mean[:, None] + std[:, None] * steps, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("Estimator", [GaussianGP, SparseBiasGP])
@pytest.mark.parametrize("response", ["log", "yeo-johnson"])
def test_intervals_cover_lognormal_readings(Estimator, response, lognormal):
    X, y, X_test, y_test, _ = lognormal
    low, high = Estimator(response=response).fit(X, y).predict_quantiles(X_test, [0.05, 0.95], include_noise=True).T
    assert np.mean((y_test >= low) & (y_test <= high)) == pytest.approx(0.9, abs=0.06)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, [0.5, 1.5], np.nan, [[0.5]]])
def test_levels_of_quantiles_are_between_0_and_1(q, lognormal):
    X, y, X_test, _, _ = lognormal
    with pytest.raises(ValueError, match="q must be numbers between 0 and 1"):
        GaussianGP().fit(X, y).predict_quantiles(X_test, q)


@pytest.mark.parametrize("response", ["log", "yeo-johnson"])
def test_samples_have_the_quantiles(response, lognormal):
    X, y, X_test, _, _ = lognormal
    model = GaussianGP(response=response).fit(X, y)
    samples = model.sample_y(X_test[:3], 4000)
    expected = model.predict_quantiles(X_test[:3], [0.25, 0.5, 0.75])
    assert_allclose(np.quantile(samples, [0.25, 0.5, 0.75], axis=1).T, expected, rtol=0.02)
    assert_allclose(samples.mean(axis=1), model.predict(X_test[:3]), rtol=0.02)


@pytest.mark.parametrize("response", ["log", "yeo-johnson"])
def test_covariance_and_std_agree(response, lognormal):
    X, y, X_test, _, _ = lognormal
    model = GaussianGP(response=response).fit(X, y)
    mean, std = model.predict(X_test[:20], return_std=True)
    same_mean, covariance = model.predict(X_test[:20], return_cov=True)
    assert_allclose(same_mean, mean, rtol=1e-6)
    assert_allclose(np.sqrt(covariance.diagonal()), std, rtol=1e-4)


@pytest.mark.parametrize("response", ["log", "yeo-johnson"])
def test_mean_std_and_bias_are_in_the_users_units(response, lognormal):
    X, y, X_test, _, f_test = lognormal
    dirty = y.copy()
    dirty[[5, 20, 40]] *= 8.0
    model = SparseBiasGP(response=response).fit(X, dirty)
    mean, std = model.predict(X_test, return_std=True, include_noise=True)
    assert np.median(np.abs(mean - f_test) / f_test) < 0.1
    assert np.median(std / f_test) == pytest.approx(0.2, abs=0.1)
    assert model.outlier_mask_[[5, 20, 40]].all()
    assert_allclose(model.bias_[[5, 20, 40]], (dirty - y)[[5, 20, 40]], rtol=0.25)
    assert np.all(model.bias_std_[[5, 20, 40]] < 0.5 * model.bias_[[5, 20, 40]])


@pytest.mark.parametrize(("response", "a", "b"), [("log", 1e6, 0.0), ("yeo-johnson", 1e6, 3e6), ("yeo-johnson", -2, 1)])
def test_transformed_fits_move_with_the_unit_of_y(response, a, b, lognormal):
    X, y, X_test, _, _ = lognormal
    base, moved = (SparseBiasGP(response=response).fit(X, v) for v in (y, a * y + b))
    (mean, std), (mean_a, std_a) = (m.predict(X_test, return_std=True) for m in (base, moved))
    assert_allclose((mean_a - b) / a, mean, rtol=1e-3)
    assert_allclose(std_a / abs(a), std, rtol=1e-2)


def test_known_noise_is_in_the_users_units(lognormal):
    X, y, X_test, _, _ = lognormal
    known = (0.3 * y) ** 2
    under_log = GaussianGP(response="log").fit(X, y, noise_variance=known)
    by_hand = GaussianGP().fit(X, np.log(y), noise_variance=np.full(len(y), 0.09))
    assert_allclose(under_log.predict_quantiles(X_test, 0.5)[:, 0], np.exp(by_hand.predict(X_test)), rtol=1e-5)


@every_estimator
@pytest.mark.parametrize("value", ["sqrt", None, 3, "Log"])
def test_unknown_responses_are_refused_with_the_known_ones(Estimator, value, lognormal):
    X, y, *_ = lognormal
    with pytest.raises(ValueError, match="response must be one of 'identity', 'log', 'yeo-johnson', 'auto'"):
        Estimator(response=value).fit(X, y)


# The choice.


def test_auto_sees_that_true_peaks_are_skewed():
    data = STRESSES["true peaks"](np.random.default_rng(0))
    model = SparseBiasGP(response="auto").fit(data.X, data.y)
    assert isinstance(model.response_, Log | YeoJohnson)
    assert model.outlier_mask_.mean() <= 0.03


@pytest.mark.parametrize("Estimator", [GaussianGP, SparseBiasGP])
def test_auto_leaves_readings_with_outliers_as_they_are(Estimator):
    data = simulate("1d", 8, n=150, n_test=20, random_state=0)
    model = Estimator(response="auto").fit(data.X, data.y)
    assert isinstance(model.response_, Identity)
    assert_array_equal(model.predict(data.X_test), Estimator().fit(data.X, data.y).predict(data.X_test))


@pytest.mark.parametrize(("response", "kind"), [("identity", Identity), ("log", Log), ("yeo-johnson", YeoJohnson)])
def test_the_transform_asked_for_is_taken(response, kind, lognormal):
    X, y, *_ = lognormal
    assert isinstance(choose_transform(response, X, y, SquaredExponential(), None), kind)


@pytest.mark.parametrize("response", ["log", "yeo-johnson", "auto"])
def test_one_value_everywhere_is_not_transformed(response):
    assert isinstance(choose_transform(response, np.ones((5, 1)), np.ones(5), SquaredExponential(), None), Identity)


def verdicts(densities, flagged=(0.0, 0.0, 0.0)):
    """What a judge may have said of no transform, the logarithm and the power."""
    y = np.exp(np.sin(np.arange(200.0)))
    transforms = (Identity(), Log.of(y), YeoJohnson.of(y))
    return [Verdict(*each) for each in zip(transforms, densities, flagged, strict=True)]


@pytest.mark.parametrize(("flagged", "kind"), [(0.3, YeoJohnson), (0.0, Identity)])
def test_of_transforms_that_predict_alike_auto_takes_the_one_with_fewer_flags(flagged, kind):
    same = np.sin(np.arange(200.0))
    found = weighted(verdicts([same, same - 9.0, same], (flagged, 0.0, 0.0)), 200)
    assert isinstance(found[0].transform, kind)
    assert len(found) == 1


def test_no_transform_is_the_rule_and_a_transform_has_to_be_ahead():
    same = np.sin(np.arange(200.0))
    for gain, kind in ((0.5 * PRICE_OF_A_TRANSFORM, Identity), (2.0 * PRICE_OF_A_TRANSFORM, Log)):
        assert isinstance(weighted(verdicts([same, same + gain / 200, same]), 200)[0].transform, kind)


def test_weights_of_equal_lead_are_those_of_the_evidence():
    # The lead is the same in each stretch, so that resampling changes nothing.
    same = np.sin(np.arange(200.0))
    first, second = weighted(verdicts([same, same + PRICE_OF_A_TRANSFORM / 200 + 1.0 / 200, same - 9.0]), 200)
    assert isinstance(first.transform, Log)
    assert_allclose(first.weight / second.weight, np.e, rtol=1e-6)
    assert_allclose(first.weight + second.weight, 1.0)
    # Among four times as many readings, of which these are a part, the lead is four times as large.
    (first, *_) = weighted(verdicts([same, same + 4.0 / 200, same - 9.0]), 800)
    assert_allclose(first.weight, 1.0)


def test_a_lead_that_comes_from_a_single_stretch_of_readings_settles_nothing():
    same = np.sin(np.arange(400.0))
    better = same.copy()
    better[:40], better[40:] = better[:40] + 2.0, better[40:] - 0.15
    assert np.sum(better - same) > 20.0
    found = weighted(verdicts([same, better, same - 9.0]), 400)
    assert len(found) == 2
    assert min(each.weight for each in found) > LEAST_WEIGHT


def test_the_judge_asks_the_same_readings_whatever_the_order_of_the_rows(rng):
    X, order = rng.uniform(0.0, 100.0, (900, 2)), rng.permutation(900)
    y = np.sin(X[:, 1]) + 0.1 * rng.standard_normal(900)
    rows = judged_rows(X, y)
    assert_array_equal(order[judged_rows(X[order], y[order])], rows)
    assert np.median(np.abs(np.diff(X[rows, 1]))) < 0.5
