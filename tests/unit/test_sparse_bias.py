"""SparseBiasGP: what the estimator says of readings, and how it behaves."""

from __future__ import annotations

import warnings
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from biasgp import BiasGPWarning, GaussianGP, SparseBiasGP
from biasgp.data import STRESSES, Scenario, simulate, two_sided
from biasgp.metrics import mse, precision, recall
from biasgp.models.sparse.kinds import PRIOR


@pytest.fixture(scope="module")
def scenario_8():
    data = simulate("1d", 8, n=150, n_test=100, random_state=2)
    return data, SparseBiasGP().fit(data.X, data.y)


def test_the_trace_tells_the_path_and_ends_with_the_fit(one_d):
    model = SparseBiasGP().fit(one_d.X, one_d.y)
    assert model.trace_[0].stage == "constant bias"
    assert model.trace_[-1].stage == "final"
    assert [step.stage for step in model.trace_].count("final") == 1
    assert {"no outlier", "longer lengths"} & {step.stage for step in model.trace_}
    assert model.trace_[-1].n_groups == len(model.groups_)


def test_attributes_are_of_one_accord(scenario_8):
    data, model = scenario_8
    assert_array_equal(model.outlier_mask_, model.outlier_probability_ > 0.5)
    assert_array_equal(model.outlier_mask_, data.is_outlier)
    assert np.all((model.outlier_probability_ >= 0) & (model.outlier_probability_ <= 1))
    assert_allclose(model.bias_[data.is_outlier], 5.0, atol=1.0)
    assert_allclose(model.bias_[~data.is_outlier], 0.0, atol=0.1)
    assert np.all(model.bias_std_ >= 0)
    assert 0.15 < sum(group.share for group in model.groups_) < 0.3
    assert not model.replaced_
    assert model.trustworthy_
    assert model.diagnosis_ == ()


def test_the_standard_error_of_a_bias_is_about_its_error():
    data = simulate("1d", 8, n=200, random_state=3)
    out = data.is_outlier
    model = SparseBiasGP().fit(data.X, data.y)
    # Of the bias of 5, noise of 5/12 is left in y: δ cannot be told from it.
    error = (model.bias_[out] - 5.0) / np.hypot(model.bias_std_[out], 0.01)
    assert np.mean(np.abs(error) < 2.0) > 0.85


def test_the_seed_of_the_sampler_hardly_matters():
    data = simulate("1d", 1, n=100, n_test=40, random_state=3)
    a, b = (SparseBiasGP(random_state=seed).fit(data.X, data.y) for seed in (0, 1))
    assert_allclose(a.outlier_probability_, b.outlier_probability_, atol=0.2)
    assert_allclose(a.predict(data.X_test), b.predict(data.X_test), atol=0.1)


def outputs(model, X):
    mean, std = model.predict(X, return_std=True)
    names = ("bias_", "bias_std_", "outlier_probability_", "outlier_mask_", "noise_variance_", "log_evidence_")
    return {"mean": mean, "std": std, "theta": model.kernel_.theta} | {name: getattr(model, name) for name in names}


@pytest.mark.parametrize("n", [60, 150])
def test_the_same_input_gives_the_same_bits(n):
    data = simulate("1d", 1, n=n, n_test=30, random_state=1)
    first = outputs(SparseBiasGP().fit(data.X, data.y), data.X_test)
    again = SparseBiasGP().fit(data.X[::2], data.y[::2]).fit(data.X.copy(), data.y.copy())
    for name, value in outputs(again, data.X_test).items():
        assert_array_equal(value, first[name], err_msg=name)


@cache
def base_for_equivariance():
    data = simulate("1d", 1, n=120, n_test=30, random_state=1)
    return data, outputs(SparseBiasGP().fit(data.X, data.y), data.X_test)


@pytest.mark.parametrize("a", [1e-12, -3.0, 1e12])
def test_outputs_move_with_the_unit_and_origin_of_y(a):
    data, base = base_for_equivariance()
    b = 5.0 * a
    moved = outputs(SparseBiasGP().fit(data.X, a * data.y + b), data.X_test)
    assert_allclose((moved["mean"] - b) / a, base["mean"], atol=1e-6)
    assert_allclose(moved["bias_"] / a, base["bias_"], atol=1e-6)
    for name in ("std", "bias_std_"):
        assert_allclose(moved[name] / abs(a), base[name], atol=1e-6)
    assert moved["noise_variance_"] / a**2 == pytest.approx(base["noise_variance_"], rel=1e-6)
    assert_allclose(moved["outlier_probability_"], base["outlier_probability_"], atol=1e-6)
    unit = len(data.y) * np.log(abs(a))
    assert moved["log_evidence_"] + unit == pytest.approx(base["log_evidence_"], abs=1e-5)


def fits_in_two_orders(scenario):
    data = simulate("1d", scenario, n=120, n_test=30, random_state=1)
    order = np.random.default_rng(5).permutation(len(data.y))
    base, moved = (
        outputs(SparseBiasGP().fit(data.X[rows], data.y[rows]), data.X_test) for rows in (slice(None), order)
    )
    for name in ("bias_", "bias_std_", "outlier_probability_", "outlier_mask_"):
        base[name] = base[name][order]
    return base, moved


def test_permuting_rows_permutes_the_outputs():
    base, moved = fits_in_two_orders(scenario=8)
    # Nobody is in doubt here, so that nothing is left to chance.
    assert np.all(np.abs(base["outlier_probability_"] - 0.5) > 0.49)
    for name, value in moved.items():
        assert_allclose(value, base[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_permuting_rows_with_some_in_doubt_permutes_the_outputs_but_for_chance():
    base, moved = fits_in_two_orders(scenario=1)
    assert_allclose(moved["outlier_probability_"], base["outlier_probability_"], atol=0.1)
    assert_allclose(moved["bias_"], base["bias_"], atol=0.5)
    for name in ("mean", "std"):
        assert_allclose(moved[name], base[name], atol=0.1)
    assert_allclose(moved["noise_variance_"], base["noise_variance_"], rtol=1e-5)


# A recorded table: means over three replicates, and what a plain GP without the true outliers has.

TABLE = {
    ("1d", 1): (0.26579, 0.990, 1.0),
    ("1d", 8): (0.17682, 1.0, 1.0),
    ("friedman", 1): (0.29286, 1.0, 1.0),
    ("friedman", 8): (0.21857, 1.0, 1.0),
}
recorded = pytest.mark.parametrize(("dataset", "scenario"), TABLE.keys())


class Score(NamedTuple):
    mse: float
    precision: float
    recall: float
    oracle: float
    warnings: int


@cache
def score(dataset, scenario, replicate):
    seed = [0, ("1d", "friedman").index(dataset), scenario, replicate]
    data = simulate(dataset, scenario, random_state=np.random.default_rng(seed))
    inside = ~data.is_outlier
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BiasGPWarning)
        model = SparseBiasGP().fit(data.X, data.y)
    oracle = GaussianGP().fit(data.X[inside], data.y[inside])
    return Score(
        mse(data.y_test, model.predict(data.X_test)),
        precision(data.is_outlier, model.outlier_mask_),
        recall(data.is_outlier, model.outlier_mask_),
        mse(data.y_test, oracle.predict(data.X_test)),
        len(caught),
    )


def mean_score(dataset, scenario):
    return Score(*np.mean([score(dataset, scenario, replicate) for replicate in range(3)], axis=0))


@recorded
def test_recorded_table(dataset, scenario):
    expected_mse, expected_precision, expected_recall = TABLE[dataset, scenario]
    found = mean_score(dataset, scenario)
    assert found.mse == pytest.approx(expected_mse, rel=0.01)
    assert found.precision == pytest.approx(expected_precision, abs=0.015)
    assert found.recall == pytest.approx(expected_recall, abs=0.015)


@recorded
def test_as_good_as_being_told_which_readings_lie(dataset, scenario):
    for replicate in range(3):
        found = score(dataset, scenario, replicate)
        assert found.mse <= 1.05 * found.oracle
        assert found.warnings == 0


# What the readings may hold.


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_without_outliers_nothing_is_flagged_and_the_fit_is_the_plain_gps(seed):
    data = STRESSES["no outliers"](np.random.default_rng(seed))
    model, plain = (Estimator().fit(data.X, data.y) for Estimator in (SparseBiasGP, GaussianGP))
    assert model.outlier_mask_.mean() <= 0.005
    assert mse(data.y_test, model.predict(data.X_test)) <= 1.01 * mse(data.y_test, plain.predict(data.X_test))
    for got, want in zip(
        model.predict(data.X_test, return_std=True), plain.predict(data.X_test, return_std=True), strict=True
    ):
        assert_allclose(got, want, atol=0.1)


@pytest.mark.parametrize("seed", [0, 1])
def test_forty_per_cent_of_outliers_are_found(seed):
    data = STRESSES["40 % outliers"](np.random.default_rng(seed))
    model = SparseBiasGP().fit(data.X, data.y)
    inside = ~data.is_outlier
    oracle = GaussianGP().fit(data.X[inside], data.y[inside])
    assert recall(data.is_outlier, model.outlier_mask_) >= 0.97
    assert precision(data.is_outlier, model.outlier_mask_) >= 0.97
    assert mse(data.y_test, model.predict(data.X_test)) <= 1.05 * mse(data.y_test, oracle.predict(data.X_test))


@pytest.mark.parametrize("seed", [0, 1])
def test_outliers_on_both_sides_are_two_groups(seed):
    data = two_sided("1d", 8, random_state=seed)
    model = SparseBiasGP().fit(data.X, data.y)
    assert_array_equal(model.outlier_mask_, data.is_outlier)
    assert len(model.groups_) == 2
    assert sorted(np.sign(group.mean) for group in model.groups_) == [-1.0, 1.0]
    assert not model.replaced_
    up = data.is_outlier & (data.y > data.f)
    assert_allclose(model.bias_[up], 5.0, atol=2.0)
    assert_allclose(model.bias_[data.is_outlier & ~up], -5.0, atol=2.0)


def stuck_sensor(seed, value):
    """A wide-ranging f, and a tenth of the readings replaced by about one value that it often passes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (150, 1))
    f = 10.0 * np.sin(2.0 * X[:, 0])
    stuck = rng.random(150) < 0.1
    y = np.where(stuck, value + 0.05 * rng.standard_normal(150), f + 0.3 * rng.standard_normal(150))
    return X, y, f, stuck


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("value", [0.0, 12.0])
def test_replaced_readings_are_told_from_shifted_ones(seed, value):
    X, y, f, stuck = stuck_sensor(seed, value)
    model = SparseBiasGP().fit(X, y)
    assert model.replaced_
    assert model.trace_[-1].replaced
    # Where f passes the value by itself, nobody can tell.
    apart = np.abs(f - value) > 1.5
    assert_array_equal(model.outlier_mask_[apart], stuck[apart])
    assert_allclose(model.bias_[stuck & apart], (y - f)[stuck & apart], atol=1.0)
    assert np.sqrt(mse(f, model.predict(X))) < 0.3


@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
@pytest.mark.parametrize("size", [1e4, 1e8, 1e10, 1e12, -1e12])
@pytest.mark.parametrize("seed", [2, 3, 6])
def test_one_outlier_of_any_size_leaves_the_fit_where_it_was(size, seed):
    noise = 0.3
    data = simulate("1d", Scenario(0.0, 3.0, noise), n=60, n_test=40, random_state=seed)
    before = SparseBiasGP().fit(data.X, data.y)
    dirty = data.y.copy()
    dirty[17] = size
    model = SparseBiasGP().fit(data.X, dirty)
    assert_array_equal(np.flatnonzero(model.outlier_mask_), [17])
    assert model.bias_[17] == pytest.approx(size, rel=1e-3)
    assert model.noise_variance_ < 0.2
    assert np.sqrt(mse(before.predict(data.X_test), model.predict(data.X_test))) < noise


def test_a_tall_peak_of_a_signal_that_is_flat_elsewhere_is_followed():
    # Most readings are of the flat part: their spread is a hundredth of the peak's height.
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (200, 1))
    f = np.exp(-0.5 * ((X[:, 0] - 5.0) / 0.5) ** 2)
    model = SparseBiasGP().fit(X, f + 0.01 * rng.standard_normal(200))
    assert np.all(np.abs(model.bias_[model.outlier_probability_ < 0.01]) < 0.1)
    assert model.outlier_mask_.mean() < 0.02
    assert model.trustworthy_
    assert np.sqrt(mse(f, model.predict(X))) < 0.01


# New readings.


def fitted_to_skewed(response):
    data = simulate("1d", 8, n=80, n_test=6, random_state=1)
    return SparseBiasGP(response=response).fit(data.X, np.exp(0.5 * data.y)), data


def grid_of_readings(model, x):
    """Readings from far below to far above all that the model expects, denser where it expects them."""
    levels = model.predict_quantiles(x, [1e-4, 0.5, 1.0 - 1e-4], include_noise=True)[0]
    wide = np.geomspace(1e-4, 1e6, 4001)
    return np.unique(np.concatenate([levels[1] - wide, np.linspace(levels[0], levels[2], 1001), levels[1] + wide]))


@pytest.mark.parametrize("response", ["identity", "log", "yeo-johnson"])
def test_density_of_the_next_reading_integrates_to_one(response):
    model, data = fitted_to_skewed(response)
    for x in data.X_test[:, None]:
        grid = grid_of_readings(model, x)
        if response == "log":
            grid = grid[grid > 0.0]
        density = np.exp(model.log_predictive_density(np.repeat(x, len(grid), axis=0), grid))
        # Of what was not seen, half may have any size by y's own scale: more than the grid has, and below zero too.
        assert 1.0 - PRIOR.unseen(len(data.y)).share < np.trapezoid(density, grid) < 1.0 + 1e-3


def test_new_readings_are_scored(scenario_8):
    data, model = scenario_8
    assert np.mean(model.outlier_probability(data.X_test, data.y_test) < 0.05) > 0.95
    assert np.all(model.outlier_probability(data.X_test, data.f_test + 5.0) > 0.95)
    between = model.outlier_probability(data.X_test, data.f_test + 2.5)
    assert np.all(between > model.outlier_probability(data.X_test, data.f_test))


def test_readings_on_the_side_of_no_outlier_are_not_the_slabs(scenario_8):
    # 5 below is as unlikely for the slab at +5 as for noise: the density says so.
    data, model = scenario_8
    above = model.log_predictive_density(data.X_test, data.f_test + 5.0)
    below = model.log_predictive_density(data.X_test, data.f_test - 5.0)
    assert np.all(above > below + 5.0)


def test_density_admits_outliers_where_the_plain_one_does_not(scenario_8):
    data, model = scenario_8
    mean, std = model.predict(data.X_test, return_std=True, include_noise=True)
    plain = -0.5 * ((data.f_test + 5.0 - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
    assert np.all(model.log_predictive_density(data.X_test, data.f_test + 5.0) > plain + 5.0)
    near = -0.5 * ((data.f_test - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
    share = sum(group.share for group in model.groups_)
    density = model.log_predictive_density(data.X_test, data.f_test)
    assert_allclose(density, near + np.log1p(-share), atol=0.01)


def test_probability_is_that_share_of_the_density(scenario_8):
    data, model = scenario_8
    y = np.linspace(-3.0, 9.0, len(data.X_test))
    mean, std = model.predict(data.X_test, return_std=True, include_noise=True)
    unseen = PRIOR.unseen(len(data.X)).share
    share = unseen + (1.0 - unseen) * sum(group.share for group in model.groups_)
    clean = (1.0 - share) * np.exp(-0.5 * ((y - mean) / std) ** 2) / (std * np.sqrt(2.0 * np.pi))
    density = np.exp(model.log_predictive_density(data.X_test, y))
    assert_allclose(model.outlier_probability(data.X_test, y), 1.0 - clean / density, atol=1e-9)


def test_a_response_of_another_length_is_refused(scenario_8):
    data, model = scenario_8
    with pytest.raises(ValueError, match="y"):
        model.outlier_probability(data.X_test, data.y_test[:-1])


@pytest.mark.parametrize("seed", [14, [0, 1, 7, 74]])
def test_outliers_that_half_of_the_readings_hide_are_found_with_all(seed):
    # On 150 of these readings in ten inputs, noise explains almost as much as 23 % of outliers do.
    data = simulate("friedman", 7, random_state=np.random.default_rng(seed))
    model = SparseBiasGP().fit(data.X, data.y)
    assert recall(data.is_outlier, model.outlier_mask_) > 0.95
    assert precision(data.is_outlier, model.outlier_mask_) > 0.95
