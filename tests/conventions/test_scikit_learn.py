"""What scikit-learn and its users expect of an estimator."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from quick import QuickScaleMixtureGP
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, RobustConjugateGP, SparseBiasGP, StudentTGP
from biasgp.data import simulate
from biasgp.kernels import Exponential, Linear, Matern52, SquaredExponential

PLAIN = [GaussianGP, ConstantBiasGP, RandomBiasGP, RobustConjugateGP]
ESTIMATORS = [*PLAIN, QuickScaleMixtureGP, SparseBiasGP, StudentTGP]
# The last three may say of a few dozen readings that they cannot tell.
CAUTIOUS = pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
every_estimator = pytest.mark.parametrize(
    "Estimator", [*PLAIN, *(pytest.param(Estimator, marks=CAUTIOUS) for Estimator in ESTIMATORS[len(PLAIN) :])]
)
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


# The checks fit data that deserve our warnings: constant responses, noise-free toys.
@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
@parametrize_with_checks([Estimator() for Estimator in ESTIMATORS])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    data = simulate("friedman", 1, n=40, n_test=10)
    return {"time": data.X[:, 3], "x": data.X[:, 0], "z": data.X[:, 4]}, data.y


@every_estimator
def test_clone_keeps_the_parameters_and_gives_the_same_fit(Estimator, one_d):
    original = Estimator(Matern52(), max_iter=77)
    twin = clone(original.fit(one_d.X, one_d.y))
    assert twin.get_params() == original.get_params()
    with pytest.raises(NotFittedError):
        twin.predict(one_d.X_test)
    assert_array_equal(twin.fit(one_d.X, one_d.y).predict(one_d.X_test), original.predict(one_d.X_test))


@every_estimator
def test_works_at_the_end_of_a_pipeline(Estimator, one_d):
    piped = make_pipeline(StandardScaler(), Estimator()).fit(one_d.X, one_d.y)
    mean, std = piped.predict(one_d.X_test, return_std=True)
    alone, alone_std = Estimator().fit(one_d.X, one_d.y).predict(one_d.X_test, return_std=True)
    assert_allclose(mean, alone, atol=1e-4)
    assert_allclose(std, alone_std, atol=1e-4)


@every_estimator
def test_cross_val_predict(Estimator, one_d):
    predicted = cross_val_predict(Estimator(), one_d.X, one_d.y, cv=3)
    inside = ~one_d.is_outlier
    assert predicted.shape == one_d.y.shape
    assert np.mean((predicted - one_d.f)[inside] ** 2) < np.var(one_d.f)


def test_grid_search_over_kernels_and_penalties(one_d):
    grid = {"kernel": [SquaredExponential(), Linear()], "k": [0.5, 20.0]}
    search = GridSearchCV(ConstantBiasGP(), grid, cv=3, scoring="neg_median_absolute_error")
    search.fit(one_d.X, one_d.y)
    assert isinstance(search.best_params_["kernel"], SquaredExponential)
    assert search.predict(one_d.X_test).shape == one_d.f_test.shape


@every_estimator
@pytest.mark.parametrize("kind", FRAMES)
def test_frames_bring_their_column_names(Estimator, kind, table):
    columns, y = table
    frame = FRAMES[kind](columns)
    model = Estimator(SquaredExponential(ard=True)).fit(frame, y)
    assert list(model.feature_names_in_) == ["time", "x", "z"]
    assert model.n_features_in_ == 3
    array = np.column_stack(list(columns.values()))
    unnamed = Estimator(SquaredExponential(ard=True)).fit(array, y)
    assert_allclose(model.predict(frame), unnamed.predict(array), rtol=1e-6)


@pytest.mark.parametrize("kind", FRAMES)
def test_a_kernel_on_a_named_column_is_that_on_its_index(kind, table):
    columns, y = table
    frame = FRAMES[kind](columns)
    array = np.column_stack(list(columns.values()))
    named = GaussianGP(SquaredExponential().on("time") + Linear().on("z", "x")).fit(frame, y)
    numbered = GaussianGP(SquaredExponential().on(0) + Linear().on(2, 1)).fit(array, y)
    assert_allclose(named.predict(frame), numbered.predict(array), rtol=1e-6)


def test_columns_that_the_kernel_does_not_use_do_not_matter(table):
    columns, y = table
    frame = pd.DataFrame(columns)
    model = GaussianGP(SquaredExponential().on("time")).fit(frame, y)
    assert_array_equal(model.predict(frame.assign(x=99.0)), model.predict(frame))


def test_a_frame_with_other_columns_is_refused(table):
    columns, y = table
    frame = pd.DataFrame(columns)
    model = GaussianGP().fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["x", "time", "z"]])
    with pytest.raises(ValueError, match="'tmie', but X has 'time', 'x', 'z'"):
        GaussianGP(SquaredExponential().on("tmie")).fit(frame, y)


def test_y_may_be_a_series_or_a_list(table):
    columns, y = table
    X = np.column_stack(list(columns.values()))
    expected = GaussianGP().fit(X, y).predict(X)
    for other in (pd.Series(y), pl.Series(y), y.tolist()):
        assert_array_equal(GaussianGP().fit(X, other).predict(X), expected)


@every_estimator
def test_html_repr_shows_the_estimator_and_its_kernel(Estimator, one_d):
    model = Estimator(Exponential())
    for html in (model._repr_html_(), model.fit(one_d.X, one_d.y)._repr_html_()):
        assert Estimator.__name__ in html
        assert "Exponential()" in html


@every_estimator
def test_repr_shows_what_was_changed(Estimator):
    assert repr(Estimator()) == f"{Estimator.__name__}()"
    assert repr(Estimator(Exponential(), max_iter=5)) == f"{Estimator.__name__}(kernel=Exponential(), max_iter=5)"


@every_estimator
@pytest.mark.parametrize("kernel", [None, SquaredExponential() * Linear(), sk.RBF()], ids=["none", "product", "sk"])
def test_pickled_models_predict_the_same(Estimator, kernel, one_d):
    model = Estimator(kernel).fit(one_d.X, one_d.y)
    twin = pickle.loads(pickle.dumps(model))
    for got, want in zip(
        twin.predict(one_d.X_test, return_std=True), model.predict(one_d.X_test, return_std=True), strict=True
    ):
        assert_array_equal(got, want)


@every_estimator
@pytest.mark.parametrize("kernel", [Exponential(), sk.RBF() + sk.ConstantKernel()], ids=["ours", "sk"])
def test_fit_never_changes_an_init_parameter(Estimator, kernel, one_d):
    model = Estimator(kernel)
    before = copy.deepcopy(model.get_params())
    shown = repr(kernel)
    model.fit(one_d.X, one_d.y)
    after = model.get_params()
    assert model.kernel is kernel
    assert repr(kernel) == shown
    assert after.keys() == before.keys()
    assert all(after[name] == before[name] for name in before)


@every_estimator
def test_score_is_r_squared(Estimator, one_d):
    model = Estimator().fit(one_d.X, one_d.y)
    residual = one_d.y_test - model.predict(one_d.X_test)
    expected = 1 - residual @ residual / np.sum((one_d.y_test - one_d.y_test.mean()) ** 2)
    assert model.score(one_d.X_test, one_d.y_test) == pytest.approx(expected)


@every_estimator
def test_nothing_is_printed(Estimator, one_d, capfd):
    model = Estimator().fit(one_d.X, one_d.y)
    model.predict(one_d.X_test, return_std=True)
    model.sample_y(one_d.X_test)
    assert capfd.readouterr() == ("", "")
