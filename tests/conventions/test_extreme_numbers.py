"""Numbers of any type and size: the ordinary answer, or an error that names the row. Never a warning of NumPy's."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from quick import QuickScaleMixtureGP
from sklearn.gaussian_process.kernels import RBF

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, RobustConjugateGP, SparseBiasGP, StudentTGP
from biasgp.kernels import Linear, Matern32, SquaredExponential

# Only our own warnings are no error: one of NumPy's is.
pytestmark = pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")

ESTIMATORS = {kind.__name__: kind for kind in (GaussianGP, ConstantBiasGP, RandomBiasGP, SparseBiasGP, StudentTGP)}
ESTIMATORS |= {kind.__name__: kind for kind in (QuickScaleMixtureGP, RobustConjugateGP)}
BY_NEIGHBOURS = {
    f"{kind.__name__} by neighbours": lambda *args, kind=kind, **options: kind(
        *args, approximation="vecchia", **options
    )
    for kind in (GaussianGP, ConstantBiasGP, RandomBiasGP, SparseBiasGP)
}
every_estimator = pytest.mark.parametrize("make", list(ESTIMATORS.values()), ids=list(ESTIMATORS))
every_form = pytest.mark.parametrize(
    "make", [*ESTIMATORS.values(), *BY_NEIGHBOURS.values()], ids=[*ESTIMATORS, *BY_NEIGHBOURS]
)

X = np.linspace(0.0, 1.0, 20)[:, None]
Y = np.round(np.sin(6.0 * X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(20), 3)


def assert_sound(model, at, lowest=0.0):
    """Predictions are finite, and no standard deviation is 0."""
    mean, std = model.predict(at, return_std=True, include_noise=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > lowest).all()
    return mean, std


# Types.

TYPES = {
    "float16": lambda v: v.astype(np.float16),
    "float32": lambda v: v.astype(np.float32),
    "longdouble": lambda v: v.astype(np.longdouble),
    "int8": lambda v: v.astype(np.int8),
    "bool": lambda v: v > 0,
    "object": lambda v: v.astype(object),
    "Decimal": lambda v: np.array([Decimal(repr(x)) for x in v.ravel().tolist()], dtype=object).reshape(v.shape),
    "big int": lambda v: np.array([int(x) * 10**30 for x in v.ravel()], dtype=object).reshape(v.shape),
    "list": lambda v: v.tolist(),
}


@pytest.mark.parametrize("kind", list(TYPES))
def test_numbers_of_any_type_are_doubles(kind):
    def as_doubles(values):
        return np.array([float(x) for x in np.ravel(values)]).reshape(np.shape(values))

    y, at, known = (TYPES[kind](v) for v in (100.0 * Y, 100.0 * X, 100.0 * X[:, 0]))
    found = GaussianGP().fit(at, y, noise_variance=known)
    expected = GaussianGP().fit(as_doubles(at), as_doubles(y), noise_variance=as_doubles(known))
    assert_allclose(found.predict(at), expected.predict(as_doubles(at)))
    assert_allclose(found.log_predictive_density(at, y), expected.log_predictive_density(as_doubles(at), as_doubles(y)))


@pytest.mark.parametrize("kind", ["Float32", "Float64", "Int8", "boolean", "float64[pyarrow]"])
def test_nullable_types_of_pandas_are_doubles(kind):
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    series = pd.Series(np.arange(20) % 2, dtype=kind)
    assert_allclose(GaussianGP().fit(X, series).predict(X), GaussianGP().fit(X, np.arange(20) % 2).predict(X))


@every_estimator
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_infinities_of_any_type_are_named(make, kind):
    spoilt = Y.astype(kind)
    spoilt[3] = np.inf
    with pytest.raises(ValueError, match="y contains infinity at row 3"):
        make().fit(X, spoilt)
    at = X.astype(kind)
    at[4] = -np.inf
    with pytest.raises(ValueError, match="X, column 0, contains infinity at row 4"):
        make().fit(at, Y)
    with pytest.raises(ValueError, match=r"noise_variance must be finite.*row 3 is inf"):
        make().fit(X, Y, noise_variance=spoilt**2)


def test_infinities_where_readings_are_scored_are_named():
    model = SparseBiasGP().fit(X, Y)
    for ask in (model.log_predictive_density, model.outlier_probability):
        with pytest.raises(ValueError, match="y contains infinity at row 1"):
            ask(X[:2], np.array([1.0, np.inf], dtype=np.float16))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([10**400, *range(19)], "y contains infinity at row 0"),
        (np.ma.masked_array(Y, np.arange(20) == 7), "y contains NaN at row 7"),
        (Y + 1j, "y must be real numbers, got complex128"),
        (pd.date_range("2024-01-01", periods=20), r"y must be real numbers, got datetime64\[.*\]"),
        (np.longdouble(10.0) ** 400 * Y, "y contains infinity at row 0"),
        (1e150 * Y, r"y contains .*e\+148 at row 0.*larger unit"),
    ],
    ids=["big int", "masked", "complex", "dates", "longdouble", "1e150"],
)
def test_what_is_no_double_is_refused_by_its_name(bad, message):
    if isinstance(bad, np.ndarray) and bad.dtype == np.longdouble and np.finfo(np.longdouble).max < 1e308:
        pytest.skip("long doubles are doubles here")
    with pytest.raises(ValueError, match=message):
        GaussianGP().fit(X, bad)
    with pytest.raises(ValueError, match=message):
        GaussianGP().fit(X, Y).log_predictive_density(X, bad)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[10**400], *([k] for k in range(19))], "X, column 0, contains infinity at row 0|too large"),
        (np.ma.masked_array(X, np.arange(20)[:, None] == 7), "X, column 0, contains NaN at row 7"),
    ],
    ids=["big int", "masked"],
)
def test_inputs_that_are_no_doubles_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        GaussianGP().fit(bad, Y)


# Places.


@every_form
@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern32(), RBF()], ids=["se", "matern", "sklearn"])
def test_one_place_of_several_inputs_under_one_length_scale(make, kernel):
    model = make(kernel).fit(np.ones((8, 3)), Y[:8])
    assert_sound(model, np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 1.0]]))


@every_form
def test_a_prior_of_nothing(make):
    """A linear f of a column that does not vary is 0 wherever it has been seen, beyond all doubt."""
    model = make(Linear()).fit(np.ones((8, 1)), Y[:8])
    assert_sound(model, np.ones((2, 1)))
    assert np.isfinite(model.sample_y(np.ones((2, 1)), 3)).all()


# Sizes.


@every_form
@pytest.mark.parametrize("size", [1e16, 1e31, 1e200])
def test_readings_of_very_large_variance_say_nothing(make, size):
    """All of them: the prior is left. One of them: it might as well not be there."""
    # (A noise that is learnt from nothing may be as large as its bounds allow: ten times y's standard deviation.)
    _, std = assert_sound(make().fit(X, Y, noise_variance=size), X, lowest=0.3)
    assert std.max() < 20.0
    one = np.where(np.arange(20) == 7, size, 0.0)
    mean, _ = assert_sound(make(Matern32()).fit(X, Y, noise_variance=one), X)
    others = np.arange(20) != 7
    assert np.abs(mean - Y)[others].max() < 0.6


@pytest.mark.parametrize("size", [0.0, 1e3, 1e16, 1e30])
def test_nearest_neighbours_and_the_exact_model_agree_on_large_variances(size):
    exact, near = (
        GaussianGP(Matern32(), approximation=form, neighbors=19).fit(X, Y, noise_variance=size).predict(X, True)
        for form in ("exact", "vecchia")
    )
    assert_allclose(near, exact, rtol=1e-4, atol=1e-6)


@every_form
@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_small_and_large_units_of_y_give_the_ordinary_answer(make, size):
    at = X[::3] + 0.01
    mean, std = make(Matern32()).fit(X, Y).predict(at, return_std=True)
    assert_allclose(
        np.array(make(Matern32()).fit(X, size * Y).predict(at, return_std=True)) / size,
        [mean, std],
        rtol=1e-2,
        atol=1e-3,
    )


@every_estimator
@pytest.mark.parametrize("size", [1e-155, 1e-200, 1e-300])
def test_readings_whose_squares_underflow_are_refused_with_a_way_out(make, size):
    with pytest.raises(ValueError, match=r"y varies by .* only.*multiply it by .e"):
        make().fit(X, size * Y)


@every_form
@pytest.mark.parametrize("size", [1e20, -1e50])
def test_a_reading_of_any_size_is_survived(make, size):
    assert_sound(make().fit(X, np.where(np.arange(20) == 7, size, Y)), X)


@every_estimator
def test_a_reading_too_far_from_the_others_is_named(make):
    with pytest.raises(ValueError, match=r"y, row 7: 1e.80 is .* times as far from the median"):
        make().fit(X, np.where(np.arange(20) == 7, 1e80, Y))


@every_estimator
@pytest.mark.parametrize("level", [0.0, 1e-300, 1e-120, 1e99])
def test_one_value_of_any_size_is_predicted(make, level):
    assert_allclose(make().fit(X, np.full(20, level)).predict(X), np.full(20, level), atol=1e-6 * level)


@pytest.mark.parametrize("step", [1.0, 8.0, 1e3, 1e9])
def test_a_logarithm_keeps_the_last_digits(step):
    """Of readings about 1e15 that differ by little, which log y itself would lose."""
    y = 1e15 + np.round(step * 3.0 * np.sin(6.0 * X[:, 0]))
    linear, log = (GaussianGP(Matern32(), response=r).fit(X, y).predict(X) for r in ("identity", "log"))
    assert_allclose(log - 1e15, linear - 1e15, atol=0.1 * step + 2.0)
