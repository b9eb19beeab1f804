"""Fits as tables, readings cleaned in one line, models on disk: what somebody does first."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import biasgp
from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP, StudentTGP
from biasgp.estimators import frames
from biasgp.estimators.frames import Given
from biasgp.kernels import Matern32, Same
from biasgp.persistence import ModelFileError, save_model

pytestmark = pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
COLUMNS = ["reading", "truth", "std", "bias", "probability", "kind", "episode"]


def days(n: int) -> pd.DatetimeIndex:
    return pd.date_range("2026-06-01", periods=n, freq="1h", name="when")


@pytest.fixture(scope="module")
def faulty() -> pd.DataFrame:
    """A slow wave, read each hour: one spike, and a shift that lasts for 24 readings."""
    rng = np.random.default_rng(3)
    t = np.arange(150.0)
    y = np.sin(t / 12.0) + 0.05 * rng.standard_normal(150)
    y[20] += 4.0
    y[70:94] += 2.0
    return pd.DataFrame({"time": days(150), "no": y}, index=days(150))


@pytest.fixture(scope="module")
def fitted(faulty) -> SparseBiasGP:
    return SparseBiasGP(Matern32()).fit(faulty[["time"]], faulty["no"])


def test_a_table_has_what_the_fit_says_of_each_reading(fitted, faulty):
    frame = fitted.to_frame()
    assert list(frame.columns) == COLUMNS
    mean, std = fitted.predict(faulty[["time"]], return_std=True)
    assert_array_equal(frame["reading"], faulty["no"])
    assert_allclose(frame["truth"], mean, rtol=1e-12)
    assert_allclose(frame["std"], std, rtol=1e-8)
    assert_array_equal(frame["bias"], fitted.bias_)
    assert_array_equal(frame["probability"], fitted.outlier_probability_)
    assert frame["kind"].iloc[20] == "spike"
    assert frame["kind"].iloc[0] == "none"
    assert frame.index.equals(faulty.index)


def test_the_episode_of_a_reading_is_an_index_of_episodes(fitted):
    frame = fitted.to_frame().reset_index()
    for i, episode in enumerate(fitted.episodes_):
        inside = frame[frame["episode"] == i]
        assert tuple(inside.index) == episode.rows
        assert set(inside["kind"]) == {episode.kind}
    assert (frame["episode"] == -1).sum() == 150 - sum(len(each.rows) for each in fitted.episodes_)
    assert len(fitted.episodes_) == 1


def test_what_came_as_polars_goes_as_polars(fitted, faulty):
    X = pl.DataFrame({"time": faulty["time"].to_numpy()})
    frame = SparseBiasGP(Matern32()).fit(X, pl.Series("no", faulty["no"].to_numpy())).to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == COLUMNS
    assert frame.schema["kind"] == pl.String
    assert frame.schema["episode"] == pl.Int64
    assert_allclose(frame["truth"].to_numpy(), fitted.to_frame()["truth"], rtol=1e-6)


@pytest.mark.parametrize("Estimator", [GaussianGP, ConstantBiasGP, RandomBiasGP, StudentTGP])
def test_estimators_without_probabilities_or_biases_say_so(Estimator, one_d):
    model = Estimator().fit(one_d.X, one_d.y)
    frame = model.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert_array_equal(frame["truth"], model.predict(one_d.X))
    flagged = getattr(model, "outlier_mask_", np.zeros(60, dtype=bool))
    assert_array_equal(frame["kind"] == "spike", flagged)
    assert_array_equal(frame["kind"] == "none", ~flagged)
    assert_array_equal(frame["bias"], getattr(model, "bias_", np.zeros(60)))
    assert frame["probability"].isna().all() == (not hasattr(model, "outlier_probability_"))
    assert (frame["episode"] == -1).all()


def test_the_truth_of_several_sensors_is_what_they_share():
    rng = np.random.default_rng(0)
    t = np.tile(np.linspace(0.0, 6.0, 30), 2)
    X = pd.DataFrame({"time": t, "sensor": ["a"] * 30 + ["b"] * 30})
    y = np.sin(t) + 0.05 * rng.standard_normal(60) + np.where(X["sensor"] == "b", 0.3, 0.0)
    kernel = Matern32().on("time") + Same("sensor") * Matern32().on("time")
    model = SparseBiasGP(kernel, order=None).fit(X, y)
    assert_allclose(model.to_frame()["truth"], model.predict(X), rtol=1e-10)


def test_a_table_of_arrays_without_pandas_names_it(one_d, monkeypatch):
    model = GaussianGP().fit(one_d.X, one_d.y)
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="came as arrays needs pandas: pip install pandas"):
        model.to_frame()
    polars = GaussianGP().fit(pl.DataFrame({"x": one_d.X[:, 0]}), one_d.y)
    with pytest.raises(ImportError, match="came as a polars frame needs polars"):
        polars.to_frame()


def test_a_table_wants_a_fit():
    with pytest.raises(NotFittedError):
        SparseBiasGP().to_frame()


def test_models_of_earlier_versions_have_no_table(one_d):
    model = GaussianGP().fit(one_d.X, one_d.y)
    del model._given
    with pytest.raises(ValueError, match="does not hold its readings"):
        model.to_frame()


def test_cleaned_readings_are_readings_less_their_bias(faulty, fitted):
    cleaned = biasgp.clean(faulty[["time"]], faulty["no"], estimator=SparseBiasGP(Matern32()))
    assert isinstance(cleaned, pd.Series)
    assert cleaned.name == "no"
    assert cleaned.index.equals(faulty.index)
    assert_array_equal(cleaned, faulty["no"] - fitted.bias_)
    truth = np.sin(np.arange(150.0) / 12.0)
    assert np.abs(cleaned - truth).max() < 0.5 < 2.0 < np.abs(faulty["no"] - truth).max()


@pytest.mark.parametrize(
    "of", [pd.Series, lambda x: pd.Index(x), pl.Series, np.asarray, list], ids=["pd", "index", "pl", "array", "list"]
)
def test_a_single_input_need_not_be_a_table(of, one_d):
    quick = ConstantBiasGP()
    expected = biasgp.clean(one_d.X, one_d.y, estimator=quick)
    assert isinstance(expected, np.ndarray)
    assert_array_equal(biasgp.clean(of(one_d.X[:, 0]), one_d.y, estimator=quick), expected)


def test_a_polars_series_comes_back_as_one(one_d):
    cleaned = biasgp.clean(pl.DataFrame({"x": one_d.X[:, 0]}), pl.Series("no", one_d.y), estimator=ConstantBiasGP())
    assert isinstance(cleaned, pl.Series)
    assert cleaned.name == "no"


def test_cleaning_leaves_the_estimator_as_it_was_and_wants_one_with_a_bias(one_d):
    estimator = ConstantBiasGP()
    biasgp.clean(one_d.X, one_d.y, estimator=estimator)
    assert not hasattr(estimator, "bias_")
    with pytest.raises(ValueError, match="GaussianGP estimates no bias"):
        biasgp.clean(one_d.X, one_d.y, estimator=GaussianGP())
    with pytest.raises(ValueError, match="y contains NaN at row 3"):
        biasgp.clean(one_d.X, np.where(np.arange(60) == 3, np.nan, one_d.y))


def test_a_saved_model_comes_back_with_its_table(fitted, tmp_path):
    biasgp.save(fitted, tmp_path / "model.skops")
    frame, before = biasgp.load(tmp_path / "model.skops").to_frame(), fitted.to_frame()
    pd.testing.assert_frame_equal(frame, before.reset_index(drop=True))
    assert fitted.to_frame().index.equals(before.index)  # saving takes nothing from the model


def test_only_fitted_models_are_saved(one_d, tmp_path):
    with pytest.raises(NotFittedError):
        biasgp.save(GaussianGP(), tmp_path / "model.skops")
    with pytest.raises(TypeError, match="got a Pipeline"):
        biasgp.save(make_pipeline(GaussianGP()).fit(one_d.X, one_d.y), tmp_path / "model.skops")
    with pytest.raises(TypeError, match="got a str"):
        biasgp.save("model.skops", GaussianGP().fit(one_d.X, one_d.y))
    assert not (tmp_path / "model.skops").exists()


def test_without_skops_the_extra_is_named(one_d, tmp_path, monkeypatch):
    model = GaussianGP().fit(one_d.X, one_d.y)
    biasgp.save(model, tmp_path / "model.skops")
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for ask in (lambda: biasgp.save(model, tmp_path / "other"), lambda: biasgp.load(tmp_path / "model.skops")):
        with pytest.raises(ImportError, match=r"pip install 'biasgp\[save\]'"):
            ask()


@pytest.mark.parametrize(
    "forged",
    [{"y": np.zeros((2, 2))}, {"known": np.ones(3)}, {"library": "os"}, {"y": np.zeros(2, dtype=int)}],
    ids=["shape", "length", "library", "type"],
)
def test_forged_readings_are_refused(forged, one_d, tmp_path):
    model = GaussianGP().fit(one_d.X, one_d.y, np.full(60, 0.1))
    assert isinstance(model._given, Given)
    model._given = replace(model._given, **forged)
    save_model(tmp_path / "model.skops", model)
    with pytest.raises(ModelFileError, match="do not belong together"):
        biasgp.load(tmp_path / "model.skops")


def test_the_names_are_lazy():
    code = "import biasgp, sys; print(*{m.split('.')[0] for m in sys.modules}); print(*dir(biasgp))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded, names = (set(line.split()) for line in shown.splitlines())
    assert not loaded & {"numpy", "sklearn", "skops", "pandas", "matplotlib"}
    assert {"save", "load", "clean"} <= names
