"""Columns of labels: every kind of frame, what is refused, and what a model with several sensors promises."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP, StudentTGP
from biasgp.covariance.posterior import AveragedPosterior
from biasgp.data.faults import FaultScenario, TogetherScenario
from biasgp.estimators.categories import CategoryColumn
from biasgp.kernels import Constant, Matern32, Same
from biasgp.models.sparse.recipe import RECIPE
from biasgp.persistence import ModelFileError, load_model, save_model

N = 40
KERNEL = Matern32().on("time") + Same("sensor") * Matern32().on("time")
BY_INDEX = Matern32() + Same(1) * Matern32()
SCENARIO = TogetherScenario(FaultScenario(kind="none", n=N, length_scale=12.0), stays=True)
SMALL = replace(SCENARIO, record=replace(SCENARIO.record, n=30))
"""Few enough for a search that begins on all readings: which part it begins on depends on the order of labels."""


@pytest.fixture(scope="module")
def data():
    return SCENARIO.draw(random_state=1)


@pytest.fixture(scope="module")
def frame(data):
    return pd.DataFrame({"time": data.t, "sensor": data.sensor.astype(object)})


@pytest.fixture(scope="module")
def plain(data, frame):
    return GaussianGP(KERNEL).fit(frame, data.y)


@pytest.fixture(scope="module")
def sparse(data, frame):
    return SparseBiasGP(KERNEL).fit(frame, data.y)


FRAMES = {
    "text": lambda X: X,
    "pandas strings": lambda X: X.astype({"sensor": "string"}),
    "categorical": lambda X: X.astype({"sensor": "category"}),
    "categories in another order": lambda X: X.assign(sensor=pd.Categorical(X.sensor, ["C", "A", "B", "unused"])),
    "polars": pl.from_pandas,
    "polars categorical": lambda X: pl.from_pandas(X).with_columns(pl.col("sensor").cast(pl.Categorical)),
    "padded": lambda X: X.assign(sensor=" " + X.sensor + " "),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_labels_of_any_kind_give_the_same_fit(make, data, frame, plain):
    X = make(frame)
    model = GaussianGP(KERNEL).fit(X, data.y)
    assert_array_equal(model.predict(X), plain.predict(frame))
    assert model.category_columns_ == (CategoryColumn(1, ("A", "B", "C")),)
    assert_array_equal(model.log_predictive_density(X, data.y), plain.log_predictive_density(frame, data.y))


@pytest.mark.parametrize(
    "labels",
    [
        np.repeat([4, 7, 9], N),
        np.repeat([4.0, 7.0, 9.0], N),
        np.repeat(["4", "7", "9"], N),
        np.repeat([True, False], 60),
    ],
    ids=["integers", "floats", "digits", "truth values"],
)
def test_numbers_can_be_labels(labels, data, frame, plain):
    X = np.array(list(zip(data.t, labels, strict=True)), dtype=object)
    model = GaussianGP(BY_INDEX).fit(X, data.y)
    if len(set(labels.tolist())) == 3:
        assert_allclose(model.predict(X), plain.predict(frame), atol=1e-10)
        assert model.category_columns_[0].labels == ("4", "7", "9")
    else:
        assert model.category_columns_[0].labels == ("False", "True")


def test_an_array_of_floats_is_not_written_to(data):
    X = np.column_stack([data.t, np.repeat([4.0, 7.0, 9.0], N)])
    before = X.copy()
    model = GaussianGP(BY_INDEX).fit(X, data.y)
    assert_array_equal(model.predict(X), model.predict(X.astype(object)))
    assert_array_equal(X, before)


def test_f_is_what_all_sensors_share(data, frame, sparse):
    grid = pd.DataFrame({"time": np.tile(np.linspace(1.0, N, 7), 4), "sensor": np.repeat(["A", "B", "new", None], 7)})
    mean, std = sparse.predict(grid, return_std=True)
    for values in (
        mean,
        std,
        sparse.predict_quantiles(grid, [0.1])[:, 0],
        np.diag(sparse.predict(grid, return_cov=True)[1]),
    ):
        assert_array_equal(values.reshape(4, 7), np.tile(values[:7], (4, 1)))
    assert np.sqrt(np.mean((sparse.predict(frame) - data.f) ** 2)) < 0.5 * SCENARIO.record.noise
    draws = sparse.sample_y(grid[:14], 3)
    assert_allclose(draws[:7], draws[7:], atol=1e-3)


def test_a_reading_has_the_error_of_its_sensor(data, frame, sparse):
    end = data.t == N
    reading = data.y[end & (data.sensor == data.drifting)]
    of = {label: frame[end][:1].assign(sensor=label) for label in ("A", "B", "C", "new")}
    probability = {label: sparse.outlier_probability(X, reading)[0] for label, X in of.items()}
    density = {label: sparse.log_predictive_density(X, reading)[0] for label, X in of.items()}
    others = sorted({"A", "B", "C"} - {data.drifting})
    assert probability[data.drifting] < 0.05
    assert all(probability[label] > 0.5 for label in others)
    assert density[data.drifting] > density["new"] > max(density[label] for label in others)


def test_the_bias_is_the_joint_posterior_of_what_is_not_shared(data, frame, monkeypatch):
    """b = y − f − ε, whatever it is made of: its mean, averaged over labels, and its variance by linear algebra."""
    monkeypatch.setitem(vars(RECIPE.over_parameters), "up_to", 0)
    y = data.y.copy()
    y[[7, 55, 90]] += [8.0, 9.0, 7.0]
    model = SparseBiasGP(KERNEL).fit(frame, y)
    posterior, scale = model._posterior, model._scaling.scale
    assert isinstance(posterior, AveragedPosterior)
    X, alpha, P, noise = posterior.X, posterior.alpha, posterior.precision, model._scaled_noise_variance
    shared = posterior.kernel.left(X)
    mean = model._scaling.forward(y) - shared @ alpha - noise * alpha
    assert_allclose(model.bias_, scale * mean, atol=1e-6)
    assert_array_equal(np.flatnonzero(model.outlier_mask_), [7, 55, 90])
    f_variance = shared.diagonal() - np.einsum("ij,jk,ik->i", shared, P, shared)
    variance = f_variance + noise - noise**2 * P.diagonal() - 2.0 * noise * (shared @ P).diagonal()
    clean = model.outlier_probability_ < 1e-6
    assert clean.mean() > 0.9
    assert_allclose(model.bias_std_[clean], scale * np.sqrt(variance)[clean], atol=1e-5)
    assert (model.bias_std_ < scale * (np.sqrt(f_variance) + np.sqrt(noise)) + 1e-9).all()
    off = (y - model.bias_ - data.f)[data.sensor == data.drifting]
    assert np.sqrt(np.mean(off**2)) < 1.1 * SCENARIO.record.noise


@pytest.mark.parametrize("kind", [ConstantBiasGP, RandomBiasGP, StudentTGP])
def test_biases_of_every_model_include_it(kind, data, frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(KERNEL).fit(frame, data.y)
    drifting = data.sensor == data.drifting
    assert np.corrcoef(model.bias_[drifting], data.bias[drifting])[0, 1] > 0.95
    assert np.sqrt(np.mean((data.y - model.bias_ - data.f)[drifting] ** 2)) < 1.3 * SCENARIO.record.noise


def test_neighbours_give_about_the_same(data, frame, sparse):
    model = SparseBiasGP(KERNEL, approximation="vecchia", neighbors=30).fit(frame, data.y)
    assert_allclose(model.predict(frame), sparse.predict(frame), atol=0.4 * SCENARIO.record.noise)
    assert np.median(np.abs(model.bias_ - sparse.bias_)) < 0.1 * SCENARIO.record.noise
    assert np.median(np.abs(model.bias_std_ - sparse.bias_std_)) < 0.1 * SCENARIO.record.noise


def test_sensors_without_errors_are_one_sensor(data, frame):
    same = Same("sensor", variance=1e-12).fix("variance")
    together = GaussianGP(Matern32() + same * Matern32(length_scale=9.0).fix("length_scale")).fit(frame, data.y)
    pooled = GaussianGP(Matern32()).fit(frame[["time"]], data.y)
    assert_allclose(together.predict(frame), pooled.predict(frame[["time"]]), atol=1e-4)
    assert together.noise_variance_ == pytest.approx(pooled.noise_variance_, rel=1e-3)


def test_the_sensor_that_drifts_has_a_variance_of_its_own(data, plain, sparse):
    for model in (plain, sparse):
        variances = model.kernel_.right.left.variance
        assert len(variances) == 3
        assert np.argmax(variances) == "ABC".index(data.drifting)
        assert np.sort(variances)[1] < 0.02 * max(variances)


@pytest.mark.parametrize("seed", [0, 3])
def test_sensors_that_all_drift_have_one_variance_and_f_is_uncertain(seed):
    """With a variance each, the sensor with the smallest one would be taken for the truth."""
    data = replace(SCENARIO, record=replace(SCENARIO.record, n=60), size=0.0).draw(random_state=seed)
    t, rng = data.t[:60], np.random.default_rng(100 + seed)
    C = Matern32(variance=0.25, length_scale=20.0).bind(t[:, None])(t[:, None])
    own = rng.multivariate_normal(np.zeros(60), C, 3).ravel()
    X = pd.DataFrame({"time": data.t, "sensor": data.sensor})
    model = GaussianGP(KERNEL).fit(X, data.y + own)
    assert isinstance(model.kernel_.right.left.variance, float)
    mean, std = model.predict(X[:60], return_std=True)
    assert np.mean(np.abs(mean - data.f[:60]) < 1.96 * std) > 0.8


@pytest.mark.parametrize("kind", [GaussianGP, SparseBiasGP])
def test_names_and_the_order_of_rows_make_no_difference(kind):
    data = SMALL.draw(random_state=1)
    frame = pd.DataFrame({"time": data.t, "sensor": data.sensor})
    model = kind(KERNEL).fit(frame, data.y)
    order = np.random.default_rng(0).permutation(len(frame))
    renamed = frame.assign(sensor=frame["sensor"].map({"A": "zeta", "B": "alpha", "C": "mid"})).iloc[order]
    other = kind(KERNEL).fit(renamed, data.y[order])
    scale = SCENARIO.record.noise
    assert_allclose(other.predict(renamed), model.predict(frame)[order], atol=1e-2 * scale)
    if kind is SparseBiasGP:
        assert_allclose(other.bias_, model.bias_[order], atol=2e-2 * scale)


def test_it_can_be_cloned_and_put_in_a_pipeline(data, frame):
    model = SparseBiasGP(KERNEL, reference="A")
    assert clone(model).get_params() == model.get_params()
    pipeline = make_pipeline(FunctionTransformer(), GaussianGP(KERNEL)).fit(frame, data.y)
    assert_array_equal(pipeline.predict(frame), GaussianGP(KERNEL).fit(frame, data.y).predict(frame))


def test_times_and_labels_go_together(data, frame):
    X = frame.assign(time=pd.Timestamp("2026-01-01") + pd.to_timedelta(frame["time"], unit="h"))
    kernel = Matern32(length_scale="6h") + Same("sensor") * Matern32(length_scale="1d")
    model = GaussianGP(kernel).fit(X, data.y)
    assert "h'" in repr(model.kernel_)
    assert [column.index for column in model.time_columns_] == [0]
    assert np.sqrt(np.mean((model.predict(X) - data.f) ** 2)) < 0.5 * SCENARIO.record.noise


def test_model_files_keep_labels(tmp_path, data, frame):
    model = SparseBiasGP(KERNEL, reference="B", order="time").fit(frame, data.y)
    save_model(tmp_path / "m.skops", model)
    loaded = load_model(tmp_path / "m.skops")
    assert loaded.category_columns_ == (CategoryColumn(1, ("A", "B", "C"), "B"),)
    assert repr(loaded.kernel_) == repr(model.kernel_)
    assert_array_equal(loaded.predict(frame), model.predict(frame))
    assert_array_equal(loaded.outlier_probability(frame, data.y), model.outlier_probability(frame, data.y))


@pytest.mark.parametrize(
    "forged",
    [
        (),
        (CategoryColumn(0, ("A", "B", "C")),),
        (CategoryColumn(7, ("A", "B", "C")),),
        (CategoryColumn(1, ("A", "A", "C")),),
        (CategoryColumn(1, ("A", 3, "C")),),
        (CategoryColumn(1, ()),),
        (CategoryColumn(1, ["A", "B", "C"]),),
        (CategoryColumn(1, ("A", "B", "C"), "D"),),
        "sensor",
    ],
)
def test_forged_labels_are_refused(tmp_path, data, frame, plain, forged):
    model = GaussianGP(KERNEL)
    vars(model).update(vars(plain), category_columns_=forged)
    save_model(tmp_path / "m.skops", model)
    with pytest.raises(ModelFileError, match=r"damaged or forged|cannot be loaded"):
        load_model(tmp_path / "m.skops")


def missing(value):
    return lambda X: X.assign(sensor=[*X["sensor"][:50], value, *X["sensor"][51:]])


@pytest.mark.parametrize(
    ("kernel", "change", "complaint"),
    [
        (KERNEL, missing(None), "column 'sensor', has no label at row 50"),
        (KERNEL, missing(np.nan), "column 'sensor', has no label at row 50"),
        (KERNEL, missing(""), "column 'sensor', has no label at row 50"),
        (KERNEL, lambda X: X.assign(sensor=None), r"row 0 \(and 119 more rows\)"),
        (KERNEL, lambda X: X.rename(columns={"sensor": "station"}), "Same.'sensor'. .* X has 'time', 'station'"),
        (BY_INDEX, lambda X: X[["time"]], r"Same\(1\) asks for a column that is not there: X has 1 columns"),
        (KERNEL, lambda X: X.to_numpy(), "X has no column names"),
        (KERNEL, lambda X: X.assign(note="text"), "column 'note', row 0: 'text' is not a number"),
        (Matern32(), lambda X: X, "column 'sensor', row 0: 'A' is not a number"),
        (Matern32().on("time", "sensor") + Same("sensor"), lambda X: X, "taken for labels by Same"),
        (Same("sensor") * Matern32(), lambda X: X, "nothing in common"),
        (Same("sensor"), lambda X: X, "nothing in common"),
        (Constant() + Same("sensor"), lambda X: X[["sensor"]], "nothing but columns of labels"),
    ],
)
def test_what_cannot_be_fitted_is_refused_by_name(kernel, change, complaint, data, frame):
    with pytest.raises(ValueError, match=complaint):
        GaussianGP(kernel).fit(change(frame), data.y)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"reference": "D"}, "reference='D' is no label in X: there is 'A', 'B', 'C'"),
        ({"kernel": Matern32().on("time"), "reference": "A"}, "no kernel says which column that is: use Same"),
        ({"order": "sensor"}, "order='sensor' is a column of labels"),
        ({"approximation": "vecchia", "neighbors": 4}, "neighbors=4 is too few for 3 labels"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(options, complaint, data, frame):
    with pytest.raises(ValueError, match=complaint):
        SparseBiasGP(**{"kernel": KERNEL} | options).fit(frame, data.y)


def test_a_reference_of_two_columns_is_refused(data, frame):
    X = frame.assign(site=np.where(frame["sensor"] == "A", "A", "other"))
    kernel = Matern32() + Same("sensor") + Same("site")
    with pytest.raises(ValueError, match="label of the columns 'sensor' and 'site'"):
        SparseBiasGP(kernel, reference="A").fit(X, data.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SparseBiasGP(kernel, reference="B").fit(X, data.y)
    assert [column.reference for column in model.category_columns_] == ["B", None]


def test_queries_are_checked(data, frame, plain):
    with pytest.raises(ValueError, match="has no label at row 3"):
        plain.log_predictive_density(frame.assign(sensor=[*"ABC", None, *["A"] * 116]), data.y)
    with pytest.raises(ValueError, match="feature names"):
        plain.predict(frame[["time"]])
    with pytest.raises(ValueError, match="features"):
        GaussianGP(BY_INDEX).fit(frame.to_numpy(), data.y).predict(frame[["time"]].to_numpy())
