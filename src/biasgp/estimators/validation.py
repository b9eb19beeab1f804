"""What users pass in, checked: every refusal names the column, row or parameter, and says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from biasgp._typing import Array
from biasgp.estimators.categories import Categories
from biasgp.estimators.times import CLOCKS, TimeColumn, in_seconds
from biasgp.kernels import as_kernel
from biasgp.response import SMALLEST, is_constant, robust_spread

MIN_READINGS = 3
LARGEST = 1e100
"""Squares of larger numbers overflow."""
FARTHEST = 1e60
"""Robust standard deviations from the median beyond which the square of a reading's variance would overflow."""
SMALLEST_RANGE = 1e-100
"""A column that varies by less has squares, and slopes of y over it, that are no floating-point numbers."""


def check_training(estimator: Any, X: Any, y: Any, noise_variance: Any) -> tuple[Array, Array, Array]:
    """X, y and the known variances as float arrays; sets n_features_in_, feature_names_in_, time_columns_ and
    category_columns_."""
    numbers = None if y is None else _numbers(y, "y")
    if numbers is not None:
        _refuse_unless_finite(numbers.ravel(), "y")
    labelled = () if estimator.kernel is None else as_kernel(estimator.kernel).category_columns
    X, categories = Categories.of(_unmasked(X), labelled, getattr(estimator, "reference", None))
    X, times = in_seconds(X)
    X_array, y_array = _validated(estimator, X, numbers, y_numeric=True, ensure_min_samples=MIN_READINGS)
    estimator.time_columns_, estimator.category_columns_ = times, categories.columns
    _check_finite(X_array, column_names(estimator), times)
    ranges = np.ptp(X_array, axis=0)
    for j in np.flatnonzero((ranges > 0.0) & (ranges < SMALLEST_RANGE)).tolist():  # a constant column is allowed
        column = _column(j, column_names(estimator))
        raise ValueError(f"X, {column}, varies by {ranges[j]:g} only, too little to compute with. Use a smaller unit.")
    _check_spread(y_array)
    return X_array, np.asarray(y_array), _check_noise_variance(noise_variance, len(y_array))


def _check_spread(y: Array) -> None:
    """Refuse y that varies too little, or a reading that lies too far from the others, to be computed with."""
    spread = robust_spread(y)
    if is_constant(y):
        return
    if spread < SMALLEST:
        raise ValueError(
            f"y varies by {spread:.1g} only, and the square of that is too small to be computed with. Give y in a "
            f"smaller unit: multiply it by {1.0 / max(spread, 1e-300):.0e}."
        )
    with np.errstate(over="ignore"):  # infinitely far is too far
        distance = np.abs(y - np.median(y)) / spread
    row = int(distance.argmax())
    if distance[row] > FARTHEST:
        raise ValueError(
            f"y, row {row}: {y[row]:g} is {distance[row]:.0e} times as far from the median as most readings. Drop the "
            "row or correct it."
        )


def _validated(estimator: Any, *arrays: Any, **options: Any) -> Any:
    """What scikit-learn makes of X (and y), with its refusals in our words. What is not finite is let through."""
    X = arrays[0]
    try:
        # What is too large for a double becomes infinite, and that is refused by its name.
        with np.errstate(over="ignore"):
            return validate_data(estimator, *arrays, dtype=np.float64, ensure_all_finite=False, **options)
    except OverflowError:  # a whole number that no double holds
        doubles = np.vectorize(_number, otypes=[np.float64])(np.asarray(X, dtype=object))
        return _validated(estimator, doubles, *arrays[1:], **options)
    except (TypeError, ValueError) as error:
        raise _naming_the_text(error, X) from error


def _unmasked(values: Any) -> Any:
    """NaN (or NaT) where an array is masked."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "Mm":
        return np.where(np.ma.getmaskarray(values), np.array("NaT", values.dtype), values.data)
    return np.ma.filled(values if values.dtype.kind == "O" else values.astype(np.float64), np.nan)


def _numbers(values: Any, what: str) -> Array:
    """Doubles, before anything is computed with them: squares of shorter numbers overflow early."""
    array = np.asarray(_unmasked(values))
    if array.dtype.kind in "OUS":
        flat = array.astype(object).ravel()
        row = _first_text(flat)
        if row is not None:
            raise ValueError(f"{what}, row {row}: {flat[row]!r} is not a number. Drop the row or correct it.")
        return np.array([_number(value) for value in flat]).reshape(array.shape)
    if array.dtype.kind not in "biuf":
        # (The first words are those that scikit-learn's checks look for.)
        reason = "Complex data not supported: " if array.dtype.kind == "c" else ""
        raise ValueError(f"{reason}{what} must be real numbers, got {array.dtype}.")
    with np.errstate(over="ignore"):  # of long doubles: infinity is refused by its name
        return array.astype(np.float64)


def _number(value: Any) -> float:
    """A double; infinite where the number is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def check_query(estimator: Any, X: Any, *, shared: bool = True) -> Array:
    """X to predict at, with the columns of fit; with `shared`, for f, which has no labels."""
    fitted = getattr(estimator, "time_columns_", ())  # models of earlier versions have none
    X = Categories(getattr(estimator, "category_columns_", ())).coded(_unmasked(X), shared=shared)
    X, times = in_seconds(X, fitted)
    array = np.asarray(_validated(estimator, X, reset=False))
    _refuse_other_clocks(fitted, times, column_names(estimator))
    _check_finite(array, column_names(estimator), times)
    return array


def _refuse_other_clocks(
    fitted: Sequence[TimeColumn], found: Sequence[TimeColumn], names: Sequence[str] | None
) -> None:
    """Refuse a column that holds times of another kind than in fit, or none."""
    before, now = ({time.index: time.clock for time in columns} for columns in (fitted, found))
    for j in sorted(before.keys() | now.keys()):
        if before.get(j) != now.get(j):
            held, holds = (CLOCKS.get(clocks.get(j, ""), "no times") for clocks in (before, now))
            column = j if names is None else repr(names[j])
            raise ValueError(f"X, column {column}, held {held} in fit and holds {holds} here. Pass the same kind.")


def check_readings(y: Any, X: Any) -> Array:
    """Readings to score, one per row of X."""
    readings = _numbers(y, "y")
    _refuse_unless_finite(readings.ravel(), "y")
    n = len(X)
    if readings.shape != (n,):
        raise ValueError(f"y must have one value per row of X, shape ({n},); got shape {readings.shape}.")
    return readings


@dataclass(frozen=True)
class InputColumns:
    """The columns of X in fit: how many, which of them hold times, and their names if they had any."""

    width: int
    times: tuple[TimeColumn, ...] = ()
    names: tuple[str, ...] | None = None

    @property
    def plain(self) -> bool:
        """Whether there is one column, of numbers."""
        return self.width == 1 and not self.times

    def check(self, X: Any) -> Array:
        """New rows of X as doubles: a table, or values of the only column."""
        X = _unmasked(X)
        if hasattr(X, "columns"):
            names = [str(name) for name in X.columns]
            if self.names is not None and names != list(self.names):
                raise ValueError(f"X has the columns {', '.join(names)}, and fit had {', '.join(self.names)}.")
        else:
            values = np.asarray(X) if not isinstance(X, date) else np.array(X, dtype=object)
            X = values.reshape(-1, 1) if values.ndim < 2 and self.width == 1 else np.atleast_2d(values)
        values, found = in_seconds(X, self.times)
        array = _numbers(values, "X")
        if array.ndim != 2 or array.shape[1] != self.width:
            raise ValueError(f"X must have {self.width} column(s), as in fit, got shape {array.shape}.")
        _refuse_other_clocks(self.times, found, self.names)
        _check_finite(array, self.names, self.times)
        return array

    @staticmethod
    def check_coming(y: Any, noise_variance: Any, n: int) -> tuple[Array, Array]:
        """Readings that come after a fit, NaN where one is missing, and their known variances."""
        readings = np.atleast_1d(_numbers(y, "y"))
        if readings.shape != (n,):
            raise ValueError(f"y must have one value per time, shape ({n},); got shape {readings.shape}.")
        _refuse_unless_finite(np.where(readings == readings, readings, 0.0), "y")
        return readings, _check_noise_variance(noise_variance, n)


def column_names(estimator: Any) -> list[str] | None:
    """Names of the columns seen in fit, if they had any."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _check_finite(X: Array, names: Sequence[str] | None, times: Sequence[TimeColumn]) -> None:
    """Refuse NaN, infinity and numbers too large to square, naming the column and its first bad row."""
    for j in np.flatnonzero(~(np.abs(X) <= LARGEST).all(axis=0)).tolist():
        missing = "NaT" if any(time.index == j for time in times) else "NaN"
        _refuse_unless_finite(X[:, j], f"X, {_column(j, names)},", missing)


def _column(j: int, names: Sequence[str] | None) -> str:
    return f"column {names[j]!r}" if names is not None else f"column {j}"


def _refuse_unless_finite(values: Array, what: str, missing: str = "NaN") -> None:
    """Refuse NaN, infinity and numbers too large to square, naming the first bad row."""
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if len(bad) == 0:
        return
    kind = missing if np.isnan(values[bad[0]]) else "infinity" if np.isinf(values[bad[0]]) else f"{values[bad[0]]:g}"
    more = f" (and {len(bad) - 1} more rows)" if len(bad) > 1 else ""
    advice = "Drop these rows or fill them in first."
    if np.isfinite(values[bad[0]]):
        advice = f"Numbers beyond {LARGEST:g} cannot be computed with: drop these rows, or use a larger unit."
    raise ValueError(f"{what} contains {kind} at row {bad[0]}{more}. {advice}")


def _naming_the_text(error: Exception, X: Any) -> Exception:
    """The same refusal, with the place of the text or date that is not a number, if that was it."""
    if not any(word in str(error) for word in ("convert", "promote", "argument must be a string")):
        return error
    names = [str(c) for c in X.columns] if hasattr(X, "columns") else None
    table = np.asarray(X, dtype=object)
    for j in range(table.shape[1] if table.ndim == 2 else 0):
        row = _first_text(table[:, j])
        if row is not None:
            column = repr(names[j]) if names else str(j)
            message = f"X, column {column}, row {row}: {table[row, j]!r} is not a number. Drop the column or encode it."
            return type(error)(f"{message} ({error})") if isinstance(error, TypeError) else ValueError(message)
    return error


def _first_text(column: Any) -> int | None:
    for i, value in enumerate(column):
        try:
            _number(value)
        except (TypeError, ValueError):
            return i
    return None


def _check_noise_variance(noise_variance: ArrayLike | None, n: int) -> Array:
    """A known variance for each of n readings; zeros when none is given."""
    if noise_variance is None:
        return np.zeros(n)
    known = _numbers(noise_variance, "noise_variance")
    if known.ndim == 0:
        known = np.full(n, float(known))
    if known.shape != (n,):
        raise ValueError(f"noise_variance must have one value per reading, shape ({n},); got shape {known.shape}.")
    bad = np.flatnonzero(~((known >= 0.0) & (known <= LARGEST**2)))
    if len(bad):
        raise ValueError(
            f"noise_variance must be finite, at most {LARGEST**2:g}, and not negative; row {bad[0]} is {known[bad[0]]}."
        )
    return known


def check_positive_integer(name: str, value: object) -> int:
    """A whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1, got {value!r}.")
    return int(value)


def check_choice(name: str, value: object, choices: Sequence[str | None]) -> None:
    """One of a few words."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def check_number(name: str, value: object, *, above: float, inclusive: bool = False) -> float:
    """A finite number above (or at) a bound."""
    sign = "at least" if inclusive else "above"
    ok = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    if not ok or value < above or (value == above and not inclusive):  # type: ignore[operator]
        raise ValueError(f"{name} must be a finite number {sign} {above:g}, got {value!r}.")
    return float(value)  # type: ignore[arg-type]


def check_column(name: str, value: object, width: int, names: Sequence[str] | None) -> int:
    """A column of X, by index or by name."""
    if isinstance(value, str):
        if names is None or value not in names:
            known = "X has no column names; use an index" if names is None else f"X has {', '.join(map(repr, names))}"
            raise ValueError(f"{name}={value!r} is no column: {known}.")
        return list(names).index(value)
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not -width <= value < width:
        raise ValueError(f"{name} must be a column of X, by name or by index from 0 to {width - 1}, got {value!r}.")
    return int(value) % width


def check_verdict(verdict: Any, n: int) -> Array | None:
    """Whether each of n readings is good (0) or bad (1), or open (NaN, or None); None where all are."""
    if verdict is None:
        return None
    said = check_values_of_verdict(verdict, n)
    if (said != 1.0).sum() < MIN_READINGS:
        raise ValueError(
            f"verdict says that {int((said == 1.0).sum())} of {n} readings are bad: at least {MIN_READINGS} others are "
            "needed for a fit."
        )
    return None if np.isnan(said).all() else said


def check_values_of_verdict(verdict: Any, n: int) -> Array:
    """Of each of n readings 0, 1 or NaN."""
    array = np.asarray(_unmasked(verdict))
    if array.dtype == object:
        array = np.array([np.nan if str(value) in ("None", "<NA>") else value for value in array.ravel()])
    said = _numbers(array, "verdict")
    if said.shape != (n,):
        raise ValueError(f"verdict must have one value per reading, shape ({n},); got shape {said.shape}.")
    wrong = np.flatnonzero(~(np.isnan(said) | (said == 0.0) | (said == 1.0)))
    if len(wrong):
        raise ValueError(
            f"verdict, row {wrong[0]}: {said[wrong[0]]:g} is none. It must be 0 (good), 1 (bad) or NaN (open)."
        )
    return said


def check_censored(censored: Any, n: int) -> Array | None:
    """Of n readings: below their limit (−1), measured (0) or above it (+1); None where all were measured."""
    if censored is None:
        return None
    said = _numbers(censored, "censored")
    if said.shape != (n,):
        raise ValueError(f"censored must have one value per reading, shape ({n},); got shape {said.shape}.")
    wrong = np.flatnonzero(~np.isin(said, (-1.0, 0.0, 1.0)))
    if len(wrong):
        raise ValueError(
            f"censored, row {wrong[0]}: {said[wrong[0]]:g} is none. It must be 0 (measured), −1 (the reading lies "
            "below y) or 1 (above y)."
        )
    measured = int((said == 0.0).sum())
    if measured < MIN_READINGS:
        raise ValueError(f"censored leaves {measured} measured readings; a fit needs at least {MIN_READINGS}.")
    return said if measured < n else None


def check_events(events: Any, times: Sequence[TimeColumn], column: int) -> Array:
    """Values of the ordering column at which a sensor was serviced, in the numbers that its times are computed with."""
    of_column = [replace(time, index=0) for time in times if time.index == column]
    array = np.asarray(events)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"events must be a list of values of the ordering column, got shape {array.shape}.")
    values, found = in_seconds(array[:, None], of_column)
    if [time.clock for time in found] != [time.clock for time in of_column]:
        raise ValueError("events must be of the kind of the ordering column: times where it has times, else numbers.")
    numbers = _numbers(values[:, 0], "events")
    _refuse_unless_finite(numbers, "events")
    return np.sort(numbers)
