"""Bad input gives a right answer, or an error that says what to do."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from quick import QuickScaleMixtureGP
from sklearn.exceptions import NotFittedError

from biasgp import (
    ConstantBiasGP,
    ConstantResponseWarning,
    ConvergenceWarning,
    GaussianGP,
    JitterWarning,
    RandomBiasGP,
    RobustConjugateGP,
    RunawayTuningWarning,
    SparseBiasGP,
    StudentTGP,
)
from biasgp.data import Scenario, simulate, toy
from biasgp.kernels import Exponential, SquaredExponential
from biasgp.models.sparse.recipe import RECIPE

# Warnings of these on data without rhyme or reason are no error.
CAUTIOUS = [
    pytest.param(Estimator, marks=pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning"))
    for Estimator in (QuickScaleMixtureGP, SparseBiasGP, StudentTGP)
]
ESTIMATORS = [GaussianGP, ConstantBiasGP, RandomBiasGP, RobustConjugateGP, *CAUTIOUS]
every_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS)
every_robust = pytest.mark.parametrize("Estimator", [ConstantBiasGP, RandomBiasGP])
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}

X = np.random.default_rng(0).uniform(0, 5, (20, 2))
Y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(20)


@pytest.fixture(scope="module")
def clean():
    return simulate("1d", Scenario(0.0, 3.0, 0.3), n=60, n_test=40, random_state=2)


def assert_finite(model, X):
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert np.isfinite(model.noise_variance_)
    return mean


def spoilt(array, index, value):
    copy = np.array(array, dtype=float)
    copy[index] = value
    return copy


@every_estimator
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
class TestNotFinite:
    def test_in_x_names_the_column_and_its_first_row(self, Estimator, value, word):
        bad = spoilt(X, ([7, 11], 1), value)
        with pytest.raises(ValueError, match=rf"column 1, contains {word} at row 7 \(and 1 more rows\)\. Drop"):
            Estimator().fit(bad, Y)
        with pytest.raises(ValueError, match=f"column 1, contains {word} at row 7"):
            Estimator().fit(X, Y).predict(bad)

    @pytest.mark.parametrize("kind", FRAMES)
    def test_in_a_frame_names_the_column(self, Estimator, value, word, kind):
        bad = spoilt(X, (3, 1), value)
        with pytest.raises(ValueError, match=f"column 'height', contains {word} at row 3"):
            Estimator().fit(FRAMES[kind]({"time": bad[:, 0], "height": bad[:, 1]}), Y)
        model = Estimator().fit(FRAMES[kind]({"time": X[:, 0], "height": X[:, 1]}), Y)
        with pytest.raises(ValueError, match=f"column 'height', contains {word} at row 3"):
            model.predict(FRAMES[kind]({"time": bad[:, 0], "height": bad[:, 1]}))

    def test_in_y_names_the_row(self, Estimator, value, word):
        with pytest.raises(ValueError, match=f"y contains {word} at row 5"):
            Estimator().fit(X, spoilt(Y, 5, value))


def test_missing_values_of_nullable_columns_are_named():
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.array([1, None] * 10, dtype="Int64")})
    with pytest.raises(ValueError, match=r"column 'b', contains NaN at row 1 \(and 9 more rows\)"):
        GaussianGP().fit(frame, Y)


@every_estimator
@pytest.mark.parametrize("level", [0.0, 3.7, -1e12, 1e-12])
def test_a_constant_response_warns_and_is_predicted(Estimator, level):
    with pytest.warns(ConstantResponseWarning, match=re.escape(f"All readings are {level:g}")):
        model = Estimator().fit(X, np.full(20, level))
    assert_allclose(assert_finite(model, X + 1.0), level, rtol=1e-9)


# With one more unknown a sampler's draws are others, if from the same posterior.
@pytest.mark.parametrize("Estimator", [GaussianGP, ConstantBiasGP, RandomBiasGP, *CAUTIOUS[1:]])
def test_a_constant_column_changes_nothing(Estimator, one_d, monkeypatch):
    monkeypatch.setitem(vars(RECIPE.over_parameters), "up_to", 0)
    wide = np.column_stack([one_d.X, np.full(60, 4.0)])
    wide_test = np.column_stack([one_d.X_test, np.full(40, 4.0)])
    expected = Estimator().fit(one_d.X, one_d.y).predict(one_d.X_test)
    assert_allclose(Estimator().fit(wide, one_d.y).predict(wide_test), expected, atol=0.01)


@every_estimator
def test_columns_that_are_all_constant_predict_the_level(Estimator):
    y = 5.0 + 0.1 * np.random.default_rng(0).standard_normal(20)
    assert_allclose(assert_finite(Estimator().fit(np.ones((20, 2)), y), np.ones((3, 2))), 5.0, atol=0.1)


@every_estimator
@pytest.mark.parametrize("kernel", [None, Exponential()], ids=["se", "exp"])
def test_identical_rows_with_different_y_are_noise(Estimator, kernel):
    x = np.repeat(np.linspace(0, 5, 12), 4)[:, None]
    y = np.sin(x[:, 0]) + 0.2 * np.random.default_rng(0).standard_normal(48)
    model = Estimator(kernel).fit(x, y)
    assert np.abs(assert_finite(model, x) - np.sin(x[:, 0])).max() < 0.3
    assert model.noise_variance_ == pytest.approx(0.04, rel=0.7)


@every_estimator
@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_readings_say_how_many_are_needed(Estimator, n):
    with pytest.raises(ValueError, match=rf"{n} sample\(s\).*minimum of 3 is required"):
        Estimator().fit(X[:n], Y[:n])


@every_estimator
def test_three_readings_are_enough(Estimator):
    model = Estimator().fit(X[:3], [1.0, 2.0, 4.0])
    assert np.all(np.abs(assert_finite(model, X)) < 20)


@every_estimator
def test_more_columns_than_rows(Estimator):
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((8, 30))
    y = rng.standard_normal(8)
    mean = assert_finite(Estimator().fit(wide, y), rng.standard_normal((5, 30)))
    assert np.all((mean > y.min() - 1) & (mean < y.max() + 1))


@every_estimator
@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_extreme_sizes_of_y_and_x_give_the_ordinary_answer(Estimator, size, one_d):
    expected = Estimator().fit(one_d.X, one_d.y).predict(one_d.X_test)
    by_y = Estimator().fit(one_d.X, size * one_d.y).predict(one_d.X_test)
    by_x = Estimator().fit(size * one_d.X, one_d.y).predict(size * one_d.X_test)
    assert_allclose(by_y / size, expected, atol=1e-5)
    assert_allclose(by_x, expected, atol=1e-5)


@every_robust
@pytest.mark.parametrize("size", [1e12, -1e12])
@pytest.mark.parametrize("seed", [2, 3, 6])
def test_one_outlier_of_any_size_leaves_the_robust_fits_about_where_they_were(Estimator, size, seed):
    noise = 0.3
    data = simulate("1d", Scenario(0.0, 3.0, noise), n=60, n_test=40, random_state=seed)
    model = Estimator().fit(data.X, spoilt(data.y, 17, size))
    before = Estimator().fit(data.X, data.y)
    assert model.outlier_mask_[17]
    assert model.bias_[17] == pytest.approx(size, rel=1e-6)
    assert model.noise_variance_ < 0.5
    mean = assert_finite(model, data.X_test)
    assert np.sqrt(np.mean((mean - before.predict(data.X_test)) ** 2)) < noise


def test_one_outlier_of_1e12_leaves_the_plain_gp_finite(clean):
    assert_finite(GaussianGP().fit(clean.X, spoilt(clean.y, 17, 1e12)), clean.X_test)


@every_estimator
@pytest.mark.parametrize("kind", ["cauchy", "two-sided", "one-sided"])
def test_every_reading_an_outlier(Estimator, kind, clean):
    rng = np.random.default_rng(3)
    shift = {
        "cauchy": 3.0 * rng.standard_cauchy(60),
        "two-sided": 1000.0 * rng.choice([-1.0, 1.0], 60),
        "one-sided": np.full(60, 1000.0),
    }[kind]
    y = clean.f + shift
    mean = assert_finite(Estimator().fit(clean.X, y), clean.X_test)
    assert np.all((mean >= y.min() - 1) & (mean <= y.max() + 1))


@every_estimator
@pytest.mark.parametrize("kind", [*FRAMES, "array"])
def test_a_text_column_is_named_with_its_row(Estimator, kind):
    text = ["1.5"] * 6 + ["north"] + ["2"] * 13
    if kind == "array":
        bad, name = np.array([[v, t] for v, t in zip(X[:, 0].tolist(), text, strict=True)], dtype=object), "1"
    else:
        bad, name = FRAMES[kind]({"time": X[:, 0], "site": text}), "'site'"
    with pytest.raises(ValueError, match=rf"X, column {name}, row 6: 'north' is not a number\. Drop the column"):
        Estimator().fit(bad, Y)


def test_text_where_predictions_are_asked_for_is_named():
    model = GaussianGP().fit(pd.DataFrame({"time": X[:, 0], "site": X[:, 1]}), Y)
    with pytest.raises(ValueError, match="column 'site', row 0: 'south'"):
        model.predict(pd.DataFrame({"time": X[:, 0], "site": ["south"] * 20}))


@pytest.mark.parametrize("wrap", [list, np.array, pd.Series, lambda y: np.array(y, dtype=object)])
def test_text_in_y_is_named_with_its_row(wrap):
    with pytest.raises(ValueError, match="y, row 4: 'n/a' is not a number"):
        GaussianGP().fit(X, wrap(["1.0", "2.0", "1.5", "3.0", "n/a", *["1.0"] * 15]))


@every_estimator
@pytest.mark.parametrize(
    ("bad_X", "bad_y", "message"),
    [
        (X[:, 0], Y, r"Expected 2D array.*reshape"),
        (X.reshape(5, 2, 4), Y[:5], "dim 3"),
        (X, np.column_stack([Y, Y]), "1d array"),
        (X, Y[:-1], "inconsistent numbers of samples"),
        (X[:, :0], Y, r"0 feature\(s\)"),
        (X, None, "requires y"),
        (1j * X, Y, "Complex data not supported"),
    ],
    ids=["x-1d", "x-3d", "y-2d", "lengths", "no-columns", "no-y", "complex"],
)
def test_wrong_shapes_are_refused(Estimator, bad_X, bad_y, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        Estimator().fit(bad_X, bad_y)


def test_sparse_inputs_are_refused_with_a_way_out():
    with pytest.raises(TypeError, match=r"toarray"):
        GaussianGP().fit(scipy.sparse.csr_array(X), Y)


@every_estimator
def test_prediction_wants_the_columns_of_fit(Estimator):
    with pytest.raises(ValueError, match=r"3 features.*expecting 2"):
        Estimator().fit(X, Y).predict(np.ones((4, 3)))


@every_estimator
def test_predict_and_sample_before_fit(Estimator):
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        Estimator().predict(X)
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        Estimator().sample_y(X)


@every_estimator
def test_std_and_covariance_are_not_given_together(Estimator):
    with pytest.raises(ValueError, match="return_std or return_cov, not both"):
        Estimator().fit(X, Y).predict(X, return_std=True, return_cov=True)


@every_estimator
@pytest.mark.parametrize("value", [0, -3, 1.5, "many", True, None])
def test_max_iter_is_a_whole_number_from_1(Estimator, value):
    with pytest.raises(ValueError, match="max_iter must be a whole number from 1"):
        Estimator(max_iter=value).fit(X, Y)


@every_estimator
@pytest.mark.parametrize("value", ["rbf", SquaredExponential, 3])
def test_kernel_is_a_kernel(Estimator, value):
    with pytest.raises(TypeError, match=r"kernel must be one of biasgp\.kernels"):
        Estimator(value).fit(X, Y)


@every_robust
@pytest.mark.parametrize("value", ["cv", None, 3])
def test_unknown_tunings_are_refused_with_the_known_ones(Estimator, value):
    with pytest.raises(ValueError, match="tuning must be one of 'ml', 'paper'"):
        Estimator(tuning=value).fit(X, Y)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "1", True])
def test_lam_is_a_number_from_0(value):
    with pytest.raises(ValueError, match="lam must be a finite number at least 0"):
        ConstantBiasGP(lam=value).fit(X, Y)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "1"])
def test_k_is_a_number_above_0(value):
    with pytest.raises(ValueError, match="k must be a finite number above 0"):
        ConstantBiasGP(k=value).fit(X, Y)


def test_lam_and_k_are_not_given_together():
    with pytest.raises(ValueError, match="lam or k, not both"):
        ConstantBiasGP(lam=1.0, k=1.0).fit(X, Y)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.0, "lambdas must be three numbers"),
        ((1.0, 2.0), "lambdas must be three numbers"),
        ((-1.0, 2.0, 3.0), r"lambdas\[0\] must be"),
        ((np.nan, 2.0, 3.0), r"lambdas\[0\] must be"),
        ((1.0, 0.0, 3.0), r"lambdas\[1\] must be"),
        ((1.0, 2.0, "3"), r"lambdas\[2\] must be"),
        ((1.0, 2.0, np.inf), r"lambdas\[2\] must be"),
    ],
)
def test_lambdas_are_three_numbers(value, message):
    with pytest.raises(ValueError, match=message):
        RandomBiasGP(lambdas=value).fit(X, Y)


@every_estimator
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], r"one value per reading, shape \(20,\); got shape \(2,\)"),
        (np.ones((20, 1)), r"one value per reading, shape \(20,\)"),
        (spoilt(np.ones(20), 4, -2.0), "not negative; row 4 is -2"),
        (spoilt(np.ones(20), 4, np.nan), "finite.*row 4 is nan"),
        (spoilt(np.ones(20), 4, np.inf), "finite.*row 4 is inf"),
        (["high"] * 20, "high"),
    ],
    ids=["short", "2d", "negative", "nan", "inf", "text"],
)
def test_noise_variance_is_checked(Estimator, value, message):
    with pytest.raises(ValueError, match=f"noise_variance.*{message}"):
        Estimator().fit(X, Y, noise_variance=value)


def test_a_search_cut_short_says_so():
    with pytest.warns(ConvergenceWarning, match=r"stopped before it converged, after 1 iter.*Raise max_iter"):
        GaussianGP(max_iter=1).fit(X, Y)


def test_jitter_is_reported_with_a_way_out():
    # Next to such a variance the noise is lost in rounding, and the rows are all but the same.
    kernel = SquaredExponential(variance=1e18, length_scale=1e4).fix("variance", "length_scale")
    with pytest.warns(JitterWarning, match="less smooth kernel"):
        GaussianGP(kernel).fit(X, Y)


@pytest.mark.parametrize("data", ["1d", "toy"])
def test_the_papers_tuning_of_the_constant_bias_says_what_ran_away(data, one_d):
    data = one_d if data == "1d" else toy(n=80)
    with pytest.warns(RunawayTuningWarning, match=r"ran away: (σ|λ) \(.*use tuning='ml'"):
        model = ConstantBiasGP(tuning="paper").fit(data.X, data.y)
    assert_finite(model, data.X_test)


@pytest.mark.parametrize("data", ["1d", "toy"])
def test_the_papers_tuning_of_the_random_bias_says_what_ran_away(data, one_d):
    data = one_d if data == "1d" else toy(n=80)
    with pytest.warns(RunawayTuningWarning, match=r"ran away: (λ[₁₂₃] \(from|the λs).*use tuning='ml'"):
        model = RandomBiasGP(tuning="paper").fit(data.X, data.y)
    assert_finite(model, data.X_test)


def test_a_small_fixed_lambda_warns_that_sigma_ran_away(one_d):
    with pytest.warns(RunawayTuningWarning, match=r"σ \(to its floor.*of the readings got a bias"):
        ConstantBiasGP(lam=1.0).fit(one_d.X, one_d.y)


def test_without_a_penalty_the_fit_is_over_smooth_and_warns():
    data = toy(n=150)
    grid = data.X_test

    def roughness(model):
        return np.abs(np.diff(model.predict(grid))).sum()

    with pytest.warns(RunawayTuningWarning, match="the bias: without a penalty.*over-smooth"):
        bare = ConstantBiasGP(Exponential(), lam=0).fit(data.X, data.y)
    tuned = ConstantBiasGP(Exponential()).fit(data.X, data.y)
    assert roughness(bare) < 0.5 * roughness(tuned)
    # δ has taken over the pattern: it carries most of what y does.
    assert np.corrcoef(bare.bias_, data.y)[0, 1] > 0.8
    assert np.all(bare.bias_ != 0.0)
