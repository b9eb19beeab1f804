"""What users pass in, checked: every refusal names the column, row or parameter, and says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from biasgp._typing import Array
from biasgp.kernels import Kernel, SquaredExponential, as_kernel

MIN_READINGS = 3
LARGEST = 1e100
"""Squares of larger numbers overflow."""


def check_training(estimator: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """X and y as float arrays; sets n_features_in_ and feature_names_in_."""
    _check_response(y)
    try:
        X_array, y_array = validate_data(
            estimator,
            X,
            y,
            dtype=np.float64,
            y_numeric=True,
            ensure_all_finite=False,
            ensure_min_samples=MIN_READINGS,
        )
    except (TypeError, ValueError) as error:
        raise _naming_the_text(error, X) from error
    check_finite(X_array, column_names(estimator))
    return X_array, np.asarray(y_array, dtype=np.float64)


def _check_response(y: Any) -> None:
    """Refuse text, NaN and infinity in y; its shape is scikit-learn's to check."""
    values = np.asarray(y)
    if values.dtype.kind in "OUS" and y is not None:
        values = values.astype(object)
        row = _first_text(values.ravel())
        if row is not None:
            raise ValueError(f"y, row {row}: {values.ravel()[row]!r} is not a number. Drop the row or correct it.")
        values = values.astype(float)
    if values.dtype.kind == "f":
        _refuse_unless_finite(values.ravel(), "y")


def check_query(estimator: Any, X: Any) -> Array:
    """X to predict at, with the columns of fit."""
    try:
        array = validate_data(estimator, X, dtype=np.float64, ensure_all_finite=False, reset=False)
    except (TypeError, ValueError) as error:
        raise _naming_the_text(error, X) from error
    check_finite(array, column_names(estimator))
    return np.asarray(array)


def check_readings(y: Any, X: Any) -> Array:
    """Readings to score, one a row of X."""
    _check_response(y)
    readings = np.asarray(y, dtype=np.float64)
    n = len(X)
    if readings.shape != (n,):
        raise ValueError(f"y must have one value a row of X, shape ({n},); got shape {readings.shape}.")
    return readings


def column_names(estimator: Any) -> list[str] | None:
    """Names of the columns seen in fit, if they had any."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def check_finite(X: Array, names: Sequence[str] | None) -> None:
    """Refuse NaN and infinity, naming the column and its first bad row."""
    for j in np.flatnonzero(~np.isfinite(X).all(axis=0)).tolist():
        column = f"column {names[j]!r}" if names is not None else f"column {j}"
        _refuse_unless_finite(X[:, j], f"X, {column},")


def _refuse_unless_finite(values: Array, what: str) -> None:
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if len(bad) == 0:
        return
    kind = "NaN" if np.isnan(values[bad[0]]) else "infinity" if np.isinf(values[bad[0]]) else f"{values[bad[0]]:g}"
    more = f" (and {len(bad) - 1} more rows)" if len(bad) > 1 else ""
    raise ValueError(f"{what} contains {kind} at row {bad[0]}{more}. Drop these rows or fill them in first.")


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
            float(value)
        except (TypeError, ValueError):
            return i
    return None


def check_noise_variance(noise_variance: ArrayLike | None, n: int) -> Array:
    """A known variance for each of n readings; zeros when none is given."""
    if noise_variance is None:
        return np.zeros(n)
    try:
        known = np.asarray(noise_variance, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"noise_variance must be numbers, one a reading: {error}.") from error
    if known.ndim == 0:
        known = np.full(n, float(known))
    if known.shape != (n,):
        raise ValueError(f"noise_variance must have one value a reading, shape ({n},); got shape {known.shape}.")
    bad = np.flatnonzero(~(np.isfinite(known) & (known >= 0.0)))
    if len(bad):
        raise ValueError(f"noise_variance must be finite and not negative; row {bad[0]} is {known[bad[0]]}.")
    return known


def check_kernel(kernel: object | None) -> Kernel:
    """The user's kernel, or the default: squared exponential with a length-scale an input."""
    return SquaredExponential(ard=True) if kernel is None else as_kernel(kernel)


def check_positive_integer(name: str, value: object) -> int:
    """A whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1, got {value!r}.")
    return int(value)


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
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
