"""Times are inputs: of pandas, polars, NumPy and Python, in every estimator and wherever its results are asked for."""

from __future__ import annotations

import datetime as dt
import json
import re
import zipfile
from functools import partial
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from quick import QuickScaleMixtureGP
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, ScaleMixtureGP, SparseBiasGP, StudentTGP
from biasgp.kernels import Linear, Matern32, Periodic, SquaredExponential
from biasgp.persistence import ModelFileError, load_model, save_model

pytestmark = pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
ESTIMATORS = [QuickScaleMixtureGP, GaussianGP, ConstantBiasGP, RandomBiasGP, SparseBiasGP, StudentTGP]
every_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS)

N = 40
RNG = np.random.default_rng(0)
SECONDS = np.concatenate([[0.0], np.sort(RNG.uniform(0.0, 4 * 86400.0, N - 1)).round(3)])
TIMES = np.datetime64("2024-03-29T00:00:00", "ms") + (1000.0 * SECONDS).round().astype("m8[ms]")
"""Over the night in which Europe's clocks are put forward, 31 March 2024 at 01:00 UTC."""
WARMTH = 18.0 + RNG.standard_normal(N)
Y = np.sin(2.0 * np.pi * SECONDS / 86400.0) + 0.1 * WARMTH + 0.05 * RNG.standard_normal(N)
Y[7] += 5.0
NUMBERS = pd.DataFrame({"time": SECONDS, "warmth": WARMTH})
FRAME = pd.DataFrame({"time": TIMES, "warmth": WARMTH})
BERLIN = FRAME.assign(time=FRAME["time"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"))
KERNEL = Matern32(length_scale=("6h", 3.0), ard=True)


def python_times(zone=None):
    return [t.astype("M8[us]").item().replace(tzinfo=dt.UTC).astimezone(zone or dt.UTC) for t in TIMES]


TABLES = {
    "pandas": FRAME,
    "pandas-ns": FRAME.astype({"time": "datetime64[ns]"}),
    "pandas-zone": BERLIN,
    "pandas-arrow": BERLIN.astype({"time": "timestamp[us, tz=Europe/Berlin][pyarrow]"}),
    "pandas-objects": FRAME.assign(time=pd.Series(list(FRAME["time"]), dtype=object)),
    "pandas-zoned-objects": FRAME.assign(time=pd.Series(python_times(ZoneInfo("Asia/Tokyo")), dtype=object)),
    "polars": pl.DataFrame({"time": TIMES, "warmth": WARMTH}),
    "polars-zone": pl.DataFrame({"time": python_times(), "warmth": WARMTH}).with_columns(
        pl.col("time").dt.convert_time_zone("America/New_York")
    ),
    "array": np.array(list(zip(python_times(), WARMTH, strict=True)), dtype=object),
    "list": [[time, warmth] for time, warmth in zip(TIMES, WARMTH, strict=True)],
}


@pytest.fixture(scope="module")
def by_numbers():
    return GaussianGP(Matern32(length_scale=(21600.0, 3.0), ard=True)).fit(NUMBERS, Y)


@pytest.mark.parametrize("kind", TABLES)
def test_every_form_of_the_same_times_is_the_same_fit_as_on_seconds(kind, by_numbers):
    model = GaussianGP(KERNEL).fit(TABLES[kind], Y)
    mean, std = model.predict(TABLES[kind], return_std=True)
    expected, expected_std = by_numbers.predict(NUMBERS, return_std=True)
    assert_allclose(mean, expected, rtol=1e-12)
    assert_allclose(std, expected_std, rtol=1e-12)
    assert model.kernel_ == by_numbers.kernel_
    (column,) = model.time_columns_
    assert (column.index, column.origin) == (0, np.datetime64("2024-03-29"))
    assert column.clock == ("zoned" if "zone" in kind or kind in ("pandas-arrow", "array") else "naive")


@every_estimator
def test_every_result_of_every_estimator_is_that_on_seconds(Estimator):
    model, plain = Estimator(KERNEL).fit(BERLIN, Y), Estimator(KERNEL.in_seconds([True, True])).fit(NUMBERS, Y)
    new, new_numbers = BERLIN.iloc[::5], NUMBERS.iloc[::5]
    assert "length_scale=('" in repr(model.kernel_)
    assert "'" not in repr(plain.kernel_)
    assert_array_equal(model.predict(new), plain.predict(new_numbers))
    assert_array_equal(model.sample_y(new, 3), plain.sample_y(new_numbers, 3))
    assert_array_equal(model.predict_quantiles(new, [0.1, 0.9]), plain.predict_quantiles(new_numbers, [0.1, 0.9]))
    for name in ("log_predictive_density", "outlier_probability"):
        if hasattr(model, name):
            assert_array_equal(getattr(model, name)(new, Y[::5]), getattr(plain, name)(new_numbers, Y[::5]))
    assert plain.time_columns_ == ()


@pytest.mark.parametrize("unit", ["D", "s", "ms", "ns"])
def test_a_matrix_of_times_and_a_series_to_frame(unit):
    X = (np.datetime64("2024-01-01") + np.arange(N)).astype(f"M8[{unit}]")[:, None]
    days = 86400.0 * np.arange(N)[:, None]
    expected = GaussianGP().fit(days, Y).predict(days + 3600.0)
    model = GaussianGP().fit(X, Y)
    assert_array_equal(model.predict(X.astype("M8[s]") + np.timedelta64(1, "h")), expected)
    assert_array_equal(model.predict(pd.Series(X[:, 0]).to_frame().to_numpy() + np.timedelta64(1, "h")), expected)
    masked = np.ma.masked_array(X, mask=np.arange(N)[:, None] == 3)
    with pytest.raises(ValueError, match="column 0, contains NaT at row 3"):
        GaussianGP().fit(masked, Y)


def test_dates_of_polars_and_python():
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=j) for j in range(N)]
    frames = [pl.DataFrame({"day": days}), pd.DataFrame({"day": days})]
    assert frames[0]["day"].dtype == pl.Date
    expected = GaussianGP().fit(86400.0 * np.arange(N)[:, None], Y).predict(86400.0 * np.arange(N)[:, None])
    for frame in frames:
        assert_array_equal(GaussianGP().fit(frame, Y).predict(frame), expected)


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_durations_are_seconds_whatever_their_unit(unit):
    elapsed = (1000.0 * SECONDS).round().astype("m8[ms]").astype("m8[ns]")
    expected = GaussianGP().fit(SECONDS[:, None].round(), Y).predict(SECONDS[:, None].round())
    rounded = (SECONDS.round() * 1e9).astype("m8[ns]").astype(f"m8[{unit}]")[:, None]
    model = GaussianGP().fit(pd.DataFrame(rounded), Y)
    assert model.time_columns_[0].clock == "elapsed"
    assert_allclose(model.predict(pd.DataFrame(rounded.astype("m8[ns]"))), expected)
    with pytest.raises(ValueError, match="column 0, held durations in fit and holds times without a time zone here"):
        model.predict(np.datetime64("2024-01-01", "ns") + elapsed[:, None])


def test_microseconds_are_kept_far_from_1970():
    start = np.datetime64("2999-01-01T00:00:00.5", "us")
    micro = RNG.permutation(N)
    X = (start + micro.astype("m8[us]"))[:, None]
    model = GaussianGP(Matern32(length_scale="5us")).fit(X, Y)
    expected = GaussianGP(Matern32(length_scale=5.0)).fit(micro[:, None], Y)
    assert_allclose(model.predict(X), expected.predict(micro[:, None]), atol=1e-4)
    assert re.search(r"length_scale='[\d.]+[un]s'", repr(model.kernel_))


def test_an_hour_that_comes_twice_is_two_hours_with_a_zone_only():
    zone = ZoneInfo("Europe/Berlin")
    # The clocks are put back on 27 October 2024 at 03:00.
    wall = [dt.datetime(2024, 10, 27, 2, 30, tzinfo=zone, fold=fold) for fold in (0, 1)]
    frame = pd.DataFrame({"time": pd.Series([wall[0] + dt.timedelta(0), *wall, wall[0]], dtype=object)})
    y = [1.0, 1.1, 3.0, 0.9]
    kernel = SquaredExponential(length_scale="10min").fix("length_scale")
    model = GaussianGP(kernel).fit(frame, y)
    assert_array_equal(model._posterior.X[:, 0], [0.0, 0.0, 3600.0, 0.0])
    utc = pd.DataFrame({"time": pd.to_datetime(["2024-10-27 00:30Z", "2024-10-27 01:30Z"])})
    assert_array_equal(model.predict(utc), model.predict(frame.iloc[[1, 2]]))


def test_predictions_and_readings_may_be_in_several_zones_and_units():
    model = GaussianGP(KERNEL).fit(BERLIN, Y)
    expected = model.predict(BERLIN)
    for kind in ("pandas-arrow", "pandas-zoned-objects", "polars-zone"):
        assert_array_equal(model.predict(TABLES[kind]), expected)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_the_frame_of_the_user_is_left_as_it_was(frame):
    X = frame({"time": TIMES, "warmth": WARMTH})
    GaussianGP(KERNEL).fit(X, Y).predict(X)
    assert_array_equal(X["time"].to_numpy(), TIMES)


class TestKernels:
    def test_the_fitted_durations_are_shown_and_can_be_passed_back(self):
        kernel = Matern32(length_scale=dt.timedelta(hours=6)).on("time") + Periodic(period="24h").on("time") * Linear()
        shown = repr(GaussianGP(kernel).fit(FRAME, Y).kernel_)
        assert re.match(r"Matern32\(.*length_scale='[\d.]+(d|h|min)'\) \+ Periodic\(.*period='[\d.]+(d|h)'\) \*", shown)
        again = eval(shown)
        assert repr(again.in_seconds([True, False], ["time", "warmth"])) == shown

    def test_a_fitted_kernel_starts_another_fit(self):
        fitted = GaussianGP(KERNEL).fit(FRAME, Y).kernel_
        assert isinstance(fitted.length_scale[0], float)
        assert repr(GaussianGP(fitted).fit(BERLIN, Y).kernel_).count("'") == 2

    def test_a_number_is_in_seconds(self):
        kernel = Matern32(length_scale=21600).on("time").fix("length_scale")
        assert "length_scale='6h'" in repr(GaussianGP(kernel).fit(FRAME, Y).kernel_)

    def test_one_length_scale_for_times_and_numbers_is_a_number(self):
        assert "'" not in repr(GaussianGP(Matern32()).fit(FRAME, Y).kernel_)

    @pytest.mark.parametrize("kernel", [Matern32(length_scale="6h"), Matern32(length_scale="6h", ard=True)])
    def test_a_duration_on_a_column_without_times_is_refused(self, kernel):
        with pytest.raises(
            ValueError, match="length_scale is the duration '6h', but column 'warmth' of X holds no time"
        ):
            GaussianGP(kernel).fit(FRAME, Y)
        with pytest.raises(ValueError, match="'6h', but column 0 of X holds no times"):
            GaussianGP(kernel.on(0)).fit(NUMBERS.to_numpy(), Y)

    def test_the_period_too(self):
        with pytest.raises(ValueError, match="Periodic: period is the duration '1d', but column 'warmth'"):
            GaussianGP(Matern32() + Periodic(period=np.timedelta64(1, "D")).on("warmth")).fit(FRAME, Y)

    def test_kernels_of_scikit_learn_work_in_seconds(self):
        kernel = RBF([21600.0, 3.0], (1e-2, 1e9))
        expected = GaussianGP(kernel).fit(NUMBERS, Y).predict(NUMBERS)
        assert_array_equal(GaussianGP(kernel).fit(FRAME, Y).predict(FRAME), expected)


class TestRefusals:
    @pytest.mark.parametrize("kind", ["pandas", "pandas-zone", "pandas-objects", "polars", "polars-zone", "list"])
    def test_missing_times_are_named(self, kind):
        bad = TABLES[kind]
        if isinstance(bad, list):
            bad = [[None if row in (3, 5) else time, warmth] for row, (time, warmth) in enumerate(bad)]
        elif isinstance(bad, pl.DataFrame):
            bad = bad.with_columns(time=pl.when(~pl.int_range(N).is_in([3, 5])).then(pl.col("time")))
        else:
            bad = bad.assign(time=bad["time"].where(~np.isin(np.arange(N), [3, 5])))
        name = 0 if kind == "list" else "'time'"
        with pytest.raises(ValueError, match=rf"X, column {name}, contains NaT at row 3 \(and 1 more rows\)\. Drop"):
            GaussianGP().fit(bad, Y)
        with pytest.raises(ValueError, match=f"X, column {name}, contains NaT at row 3"):
            GaussianGP().fit(TABLES[kind], Y).predict(bad)

    @pytest.mark.parametrize(
        ("fitted", "asked", "message"),
        [
            (FRAME, BERLIN, "'time', held times without a time zone in fit and holds times with a time zone here"),
            (BERLIN, FRAME, "'time', held times with a time zone in fit and holds times without a time zone here"),
            (FRAME, NUMBERS, "'time', held times without a time zone in fit and holds no times here"),
            (NUMBERS, FRAME, "'time', held no times in fit and holds times without a time zone here"),
            (FRAME, FRAME.assign(warmth=TIMES), "'warmth', held no times in fit"),
        ],
        ids=["zone", "no-zone", "numbers", "times", "other-column"],
    )
    def test_predict_wants_the_times_of_fit(self, fitted, asked, message):
        model = GaussianGP().fit(fitted, Y)
        with pytest.raises(ValueError, match=f"X, column {message}"):
            model.predict(asked)

    def test_columns_in_another_order_are_refused_as_such(self):
        with pytest.raises(ValueError, match="same order as they were in fit"):
            GaussianGP().fit(FRAME, Y).predict(FRAME[["warmth", "time"]])

    def test_zones_are_not_mixed_in_a_column(self):
        times = [*python_times()[:-1], dt.datetime(2024, 4, 2)]
        with pytest.raises(
            ValueError, match=f"'time', has a time with a time zone at row 0 and one without at row {N - 1}"
        ):
            GaussianGP().fit(FRAME.assign(time=pd.Series(times, dtype=object)), Y)

    @pytest.mark.parametrize("other", ["noon", 12.5])
    def test_other_values_among_times_are_named(self, other):
        times = [*python_times()[:4], other, *python_times()[5:]]
        with pytest.raises(ValueError, match=f"X, column 'time', row 4: {other!r} is not a time"):
            GaussianGP().fit(FRAME.assign(time=pd.Series(times, dtype=object)), Y)

    def test_text_is_refused_in_any_case(self):
        with pytest.raises(ValueError, match=r"X, column 'time', row 0: '2024-03-29.* is not a number"):
            GaussianGP().fit(FRAME.assign(time=FRAME["time"].astype(str)), Y)
        with pytest.raises(ValueError, match="X, column 'site', row 0: 'north' is not a number"):
            GaussianGP().fit(FRAME.assign(site="north"), Y)

    @pytest.mark.parametrize("X", [TIMES, FRAME["time"]])
    def test_one_dimension_is_not_enough(self, X):
        with pytest.raises(ValueError, match=r"Expected (2D|a 2-dim)"):
            GaussianGP().fit(X, Y)


class TestScikitLearn:
    def test_clone_and_parameters(self):
        model = GaussianGP(KERNEL)
        assert clone(model).get_params()["kernel"] == KERNEL
        expected = model.fit(FRAME, Y).predict(FRAME)
        assert_array_equal(clone(model).fit(FRAME, Y).predict(FRAME), expected)
        assert_array_equal(GaussianGP().set_params(kernel=KERNEL).fit(FRAME, Y).predict(FRAME), expected)

    def test_a_fit_on_numbers_after_one_on_times(self):
        model = GaussianGP().fit(FRAME, Y).fit(NUMBERS, Y)
        assert model.time_columns_ == ()
        assert_array_equal(model.predict(NUMBERS), GaussianGP().fit(NUMBERS, Y).predict(NUMBERS))

    def test_pipeline(self):
        scale = make_column_transformer(
            (StandardScaler(), ["warmth"]), remainder="passthrough", verbose_feature_names_out=False
        ).set_output(transform="pandas")
        model = make_pipeline(scale, GaussianGP(Matern32(length_scale="6h").on("time"))).fit(BERLIN, Y)
        assert model[-1].time_columns_[0].index == 1
        assert_allclose(
            model.predict(BERLIN), GaussianGP(Matern32().on("time")).fit(FRAME, Y).predict(FRAME), atol=1e-3
        )

    @pytest.mark.parametrize("kind", ["pandas", "polars", "array"])
    def test_cross_validation_and_search(self, kind, by_numbers):
        expected = cross_val_predict(GaussianGP(KERNEL.in_seconds([True, True])), NUMBERS, Y, cv=3)
        # Folds start at other readings, and rounding moves the end of the search a little.
        assert_allclose(cross_val_predict(GaussianGP(KERNEL), TABLES[kind], Y, cv=3), expected, atol=1e-4)
        kernels = [KERNEL, Matern32(length_scale=("1d", 3.0), ard=True)]
        search = GridSearchCV(GaussianGP(), {"kernel": kernels}, cv=2).fit(TABLES[kind], Y)
        assert search.best_params_["kernel"] in kernels


class TestModelFiles:
    @pytest.mark.parametrize("Estimator", [*ESTIMATORS[1:], partial(ScaleMixtureGP, draws=12, tune=12, chains=2)])
    @pytest.mark.parametrize("kind", ["pandas-zone", "array"])
    def test_times_and_durations_come_back(self, Estimator, kind, tmp_path):
        kernel = Matern32(length_scale=(dt.timedelta(hours=6), 3.0), ard=True)
        model = Estimator(kernel).fit(TABLES[kind], Y)
        save_model(tmp_path / "model.skops", model)
        loaded = load_model(tmp_path / "model.skops")
        assert loaded.time_columns_ == model.time_columns_
        assert (loaded.kernel, repr(loaded.kernel_)) == (kernel, repr(model.kernel_))
        assert_array_equal(loaded.predict(TABLES[kind]), model.predict(TABLES[kind]))
        with pytest.raises(ValueError, match="holds no times here"):
            loaded.predict(NUMBERS if kind != "array" else NUMBERS.to_numpy())

    @pytest.mark.parametrize("change", [{"index": 2}, {"clock": "cuckoo"}, {"origin_seconds": 2**64}, {"index": True}])
    def test_forged_columns_of_times_are_refused(self, change, tmp_path):
        model = GaussianGP(KERNEL).fit(FRAME, Y)
        for name, value in change.items():
            object.__setattr__(model.time_columns_[0], name, value)
        save_model(tmp_path / "model.skops", model)
        with pytest.raises(ModelFileError, match="parts do not belong together"):
            load_model(tmp_path / "model.skops")

    def test_a_model_without_them_was_written_before_there_were_any(self, tmp_path):
        model = GaussianGP().fit(NUMBERS, Y)
        expected = model.predict(NUMBERS)
        del model.time_columns_
        object.__delattr__(model.kernel_, "times")
        save_model(tmp_path / "model.skops", model)
        with zipfile.ZipFile(tmp_path / "model.skops") as file:
            assert "time_columns_" not in json.dumps(json.loads(file.read("schema.json")))
        loaded = load_model(tmp_path / "model.skops")
        assert_array_equal(loaded.predict(NUMBERS), expected)
        assert "'" not in repr(loaded.kernel_)
