"""Generated readings, most of them unkind: ties, constants, extreme units, odd types, outliers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

MOST_READINGS, MOST_COLUMNS = 60, 20
UNITS = (1e-155, 1e-90, 1e-12, 1e-3, 1e3, 1e12, 1e90, 1e150)
"""Factors of X or y; the largest is to be refused."""
OFFSETS = (1e6, -1e6, 1e15)
"""Levels, in units of the spread."""


@dataclass(frozen=True)
class Dataset:
    """Readings as a user would pass them, known variances or None, and how they were made, in words."""

    X: Any
    y: Any
    noise_variance: Any
    words: str


def draw(rng: np.random.Generator) -> Dataset:
    """A data set of up to 60 readings in up to 20 columns."""
    n, d = _size(rng)
    shape, level = _one_of(rng, INPUTS), _one_of(rng, RESPONSES)
    with np.errstate(over="ignore"):
        X, in_x = _in_odd_units(rng, INPUTS[shape](rng, n, d))
        y, in_y = _in_odd_units(rng, RESPONSES[level](rng, X if shape == "ordered" else INPUTS["uniform"](rng, n, d)))
        noise, in_noise = _known_variances(rng, y)
        X, of_x = _as_passed(rng, X)
        y, of_y = _as_passed(rng, y)
    words = f"N={n} d={d} X: {shape}{in_x}{of_x}; y: {level}{in_y}{of_y}{in_noise}"
    return Dataset(X, y, noise, words)


def _size(rng: np.random.Generator) -> tuple[int, int]:
    low, high = ((1, 3), (3, 8), (8, 25), (25, MOST_READINGS + 1))[rng.choice(4, p=[0.03, 0.27, 0.4, 0.3])]
    columns = ((1, 2), (2, 4), (4, MOST_COLUMNS + 1))[rng.choice(3, p=[0.5, 0.35, 0.15])]
    return int(rng.integers(low, high)), int(rng.integers(*columns))


def _one_of(rng: np.random.Generator, table: dict[str, Any]) -> str:
    return list(table)[rng.integers(len(table))]


def _uniform(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.uniform(0.0, 5.0, (n, d))


def _with_a_constant_column(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    X = _uniform(rng, n, d)
    X[:, rng.integers(d)] = rng.choice([0.0, 1.0, -7.3])
    return X


def _with_a_far_row(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    X = _uniform(rng, n, d)
    X[rng.integers(n)] *= 10.0 ** rng.integers(2, 9)
    return X


def _collinear(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.uniform(0.0, 5.0, (n, 1)) * rng.choice([-2.0, 1.0, 3.0], d)


def _ordered(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.sort(_uniform(rng, n, d), axis=0)


INPUTS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "uniform": _uniform,
    "ordered": _ordered,
    "grid": lambda rng, n, d: np.repeat(np.linspace(0.0, 1.0, n)[:, None], d, axis=1),
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "tied": lambda rng, n, d: np.round(_uniform(rng, n, d)),
    "rows repeated": lambda rng, n, d: _uniform(rng, n, d)[rng.integers(0, max(1, n // 3), n)],
    "rows almost repeated": lambda rng, n, d: (
        _uniform(rng, n, d)[rng.integers(0, max(1, n // 2), n)] + 1e-12 * rng.standard_normal((n, d))
    ),
    "all rows equal": lambda rng, n, d: np.tile(rng.uniform(0.0, 5.0, d), (n, 1)),
    "a constant column": _with_a_constant_column,
    "zeros and ones": lambda rng, n, d: rng.integers(0, 2, (n, d)).astype(float),
    "mostly zero": lambda rng, n, d: _uniform(rng, n, d) * (rng.random((n, d)) < 0.15),
    "geometric": lambda rng, n, d: 10.0 ** rng.uniform(-6.0, 6.0, (n, d)),
    "two far clusters": lambda rng, n, d: rng.standard_normal((n, d)) + 1e6 * rng.integers(0, 2, (n, 1)),
    "a far row": _with_a_far_row,
    "collinear": _collinear,
    "columns of unlike size": lambda rng, n, d: rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-9.0, 9.0, d),
    "seconds since 1970": lambda rng, n, d: 1.7e9 + np.cumsum(rng.exponential(3600.0, (n, d)), axis=0),
}


def _signal(X: np.ndarray) -> np.ndarray:
    return np.sin(2.0 * X[:, 0]) + 0.3 * X.sum(axis=1) / X.shape[1]


def _noisy(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    return _signal(X) + 0.2 * rng.standard_normal(len(X))


def _shifted(rng: np.random.Generator, X: np.ndarray, share: float, size: float) -> np.ndarray:
    return _noisy(rng, X) + size * (rng.random(len(X)) < share)


def _one_differs(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    y = np.full(len(X), rng.choice([0.0, 1.0, -40.0]))
    y[rng.integers(len(y))] += 10.0 ** rng.integers(-9, 4)
    return y


RESPONSES: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "noisy": _noisy,
    "no noise": lambda rng, X: _signal(X),
    "noise alone": lambda rng, X: rng.standard_normal(len(X)),
    "constant": lambda rng, X: np.full(len(X), rng.choice([0.0, 1.0, -3.7])),
    "one differs": _one_differs,
    "nearly constant": lambda rng, X: 1.0 + 1e-13 * rng.standard_normal(len(X)),
    "outliers": lambda rng, X: _shifted(rng, X, 0.15, 5.0),
    "huge outliers": lambda rng, X: _shifted(rng, X, 0.1, rng.choice([1e4, -1e8, 1e12])),
    "half outliers": lambda rng, X: _shifted(rng, X, 0.5, 4.0),
    "heavy tails": lambda rng, X: _signal(X) + rng.standard_cauchy(len(X)),
    "quantised": lambda rng, X: np.round(_noisy(rng, X)),
    "two values": lambda rng, X: rng.integers(0, 2, len(X)).astype(float),
    "counts": lambda rng, X: rng.poisson(np.exp(np.clip(_signal(X), -3.0, 3.0))).astype(float),
    "monotone": lambda rng, X: np.sort(rng.standard_normal(len(X)))[np.argsort(np.argsort(X[:, 0]))],
    "straight line": lambda rng, X: 2.0 * X[:, 0] - 1.0,
    "step": lambda rng, X: np.where(X[:, 0] > np.median(X[:, 0]), 3.0, -1.0),
    "alternating": lambda rng, X: (-1.0) ** np.arange(len(X)),
    "skewed": lambda rng, X: np.exp(1.5 * _noisy(rng, X)),
    "very skewed": lambda rng, X: 10.0 ** rng.uniform(-8.0, 8.0, len(X)),
    "two humps": lambda rng, X: rng.choice([-5.0, 5.0], len(X)) + 0.1 * rng.standard_normal(len(X)),
    "mostly zero": lambda rng, X: _noisy(rng, X) * (rng.random(len(X)) < 0.2),
}


def _in_odd_units(rng: np.random.Generator, values: np.ndarray) -> tuple[np.ndarray, str]:
    """Mostly as they are; else at another level, or in another unit."""
    kind = rng.choice(["as they are", "offset", "unit", "both"], p=[0.6, 0.15, 0.2, 0.05])
    words = ""
    if kind in ("offset", "both"):
        offset = float(rng.choice(OFFSETS))
        values, words = values + offset, f" {offset:+g}"
    if kind in ("unit", "both"):
        unit = float(rng.choice(UNITS))
        values, words = values * unit, f"{words} x{unit:g}"
    return values, words


def _known_variances(rng: np.random.Generator, y: np.ndarray) -> tuple[Any, str]:
    """Mostly none; else one or one for each reading, from nothing to far more than y varies."""
    if rng.random() < 0.7:
        return None, ""
    # Squares of very large or small units are no floating-point numbers.
    square = float(np.clip(np.var(np.clip(y, -1e100, 1e100)), 1e-250, 1e200)) or 1.0
    size = float(rng.choice([0.0, 1e-20, 1e-6, 0.1, 1.0, 1e6, 1e16])) * square
    if rng.random() < 0.4:
        return size, f"; noise_variance {size:g}"
    each = size * rng.choice([0.0, 1.0, 10.0], len(y))
    return each, f"; noise_variance up to {each.max():g}"


def _as_passed(rng: np.random.Generator, values: np.ndarray) -> tuple[Any, str]:
    """Mostly an array of doubles; else another type, or another container."""
    kind = str(rng.choice(["double", *FORMS], p=[0.65, *[0.35 / len(FORMS)] * len(FORMS)]))
    return (values, "") if kind == "double" else (FORMS[kind](values), f" as {kind}")


def _narrow(dtype: type) -> Callable[[np.ndarray], np.ndarray]:
    limit = float(np.finfo(dtype).max)
    return lambda values: np.clip(values, -limit, limit).astype(dtype)


def _whole(values: np.ndarray) -> np.ndarray:
    return np.clip(np.round(values), -(2.0**62), 2.0**62).astype(np.int64)


def _read_only(values: np.ndarray) -> np.ndarray:
    copy = values.copy()
    copy.flags.writeable = False
    return copy


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "float32": _narrow(np.float32),
    "float16": _narrow(np.float16),
    "integers": _whole,
    "truth values": lambda values: values > np.median(values),
    "lists": lambda values: values.tolist(),
    "a frame": lambda values: (
        pd.Series(values, name="y")
        if values.ndim == 1
        else pd.DataFrame(values, columns=[f"c{j}" for j in range(values.shape[1])])
    ),
    "every second row": lambda values: np.repeat(values, 2, axis=0)[::2],
    "read-only": _read_only,
}
