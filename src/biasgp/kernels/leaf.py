"""What single kernels share: a variance, chosen columns, and parameters that are fixed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, cast

import numpy as np

from biasgp._typing import Array
from biasgp.kernels.base import Column, Kernel
from biasgp.kernels.durations import as_text, is_duration, shown, to_seconds

_VARIANCE_RANGE = (1e-6, 1e4)
"""Bounds of a kernel's variance, in units of the (robustly scaled) response's variance."""
_FIXED_RANGE = (1e-30, 1e30)
"""In the same unit, where it is fixed: further out it cannot have been meant."""
_START_RANGE = (1e-8, 1e8)
"""In the same unit, limits of a variance that is given to start from. With the lowest noise, 1e-6, the covariance then
has 14 digits, which is what doubles hold."""
_DOUBLES = float(np.finfo(float).tiny), float(np.finfo(float).max)


@dataclass(frozen=True, kw_only=True)
class Leaf(Kernel):
    """A kernel that is not made of others: a variance, the columns that it sees, and parameters that are fixed."""

    variance: float | None = None
    columns: tuple[Column, ...] | None = None
    held: frozenset[str] = frozenset()
    times: tuple[bool, ...] = field(default=(), compare=False)
    """Which of its columns hold times, once that is known: their durations are shown as such."""

    @property
    def _parameters(self) -> tuple[str, ...]:
        return ("variance",)

    @property
    def _durations(self) -> tuple[str, ...]:
        """Parameters that are durations where the columns are times."""
        return ()

    def __post_init__(self) -> None:
        for name in self._parameters:
            given = numbers = getattr(self, name)
            if given is None:
                continue
            if is_duration(given):
                if name not in self._durations:
                    raise ValueError(f"{type(self).__name__}: {name} must be a number, not a duration; got {given!r}.")
                try:
                    text = as_text(given)
                    numbers = to_seconds(text)
                except ValueError as error:
                    raise ValueError(f"{type(self).__name__}: {name}: {error}") from None
                object.__setattr__(self, name, text)
            each = numbers if isinstance(numbers, tuple) else np.ravel(numbers)
            if not all(0.0 < number < np.inf for number in each):
                raise ValueError(f"{type(self).__name__}: {name} must be positive and finite, got {given!r}.")

    def _columns_of(self, X: Array) -> Array:
        """The chosen columns of points (..., d)."""
        return X if self.columns is None else X[..., cast("tuple[int, ...]", self.columns)]

    def _only_column(self, width: int) -> int | None:
        """The column that it sees, of `width`; None where there are several."""
        seen = range(width) if self.columns is None else cast("tuple[int, ...]", self.columns)
        return seen[0] if len(seen) == 1 else None

    def _to_columns(self, values: Array, width: int) -> Array:
        """Values of the chosen columns among all `width` columns, with zeros for the others."""
        spread = np.zeros(width)
        spread[slice(None) if self.columns is None else list(cast("tuple[int, ...]", self.columns))] = values
        return spread

    def _values(self, name: str) -> tuple[float, ...]:
        value = getattr(self, name)
        if value is None or is_duration(value):
            raise ValueError(f"{type(self).__name__}.{name} has no value yet: bind the kernel to data first.")
        return tuple(value) if isinstance(value, tuple) else (value,)

    def _start(self, columns: Array, unit: float) -> dict[str, Any]:
        """Values from the data for the parameters that are None, as (replace) keywords."""
        if self.variance is None:
            return {"variance": 1.0}
        relative, (low, high) = self.variance / unit, _START_RANGE
        if "variance" in self.held:
            if _FIXED_RANGE[0] <= relative <= _FIXED_RANGE[1]:
                return {"variance": relative}
            raise ValueError(
                f"{type(self).__name__}: the variance is fixed at {self.variance:g}, which is {relative:.0e} times "
                "that of y. Give it in y's unit squared, or do not fix it."
            )
        return {"variance": min(max(relative, low), high)}

    @staticmethod
    def _per_input(given: Any, start: Array, ard: bool, name: str) -> Any:
        """One value per input (a tuple) under ARD, else one number; the user's where given."""
        if not ard:
            if given is not None and np.size(given) != 1:
                raise ValueError(f"{name} has {np.size(given)} values, but one is shared by all inputs; pass ard=True.")
            return float(np.exp(np.log(start).mean())) if given is None else float(np.ravel(given)[0])
        if given is None:
            return tuple(start.tolist())
        if np.size(given) not in (1, len(start)):
            raise ValueError(f"{name} has {np.size(given)} values for {len(start)} input columns.")
        return tuple(np.broadcast_to(np.ravel(given), start.shape).astype(float).tolist())

    def _limits(self, name: str, columns: Array, response_variance: float) -> tuple[Array, Array]:
        """Lower and upper bound of one parameter."""
        low, high = _VARIANCE_RANGE
        return np.array([low]), np.array([high * max(1.0, response_variance)])

    def beside_categories(self, categories: Collection[int], names: Sequence[str] | None, width: int) -> Self:
        if self.columns is None:
            others = tuple(j for j in range(width) if j not in categories)
            if not others:
                raise ValueError("X has nothing but columns of labels: it needs one of numbers or times beside them.")
            return replace(self, columns=others)
        for column in self.columns:
            if _resolve(column, width, names) in categories:
                raise ValueError(
                    f"{type(self).__name__} needs numbers, but column {column!r} of X is taken for labels by Same. "
                    "Leave it out of on()."
                )
        return self

    def in_seconds(self, times: Sequence[bool], names: Sequence[str] | None = None) -> Self:
        every = range(len(times))
        columns = every if self.columns is None else [_resolve(c, len(times), names) for c in self.columns]
        for name in self._durations:
            value = getattr(self, name)
            given = value if isinstance(value, tuple) and len(value) > 1 else [value] * len(columns)
            for each, column in zip(given, columns, strict=False):  # their numbers are compared in bind
                if is_duration(each) and not times[column]:
                    raise ValueError(
                        f"{type(self).__name__}: {name} is the duration {short(each)}, but column "
                        f"{column if names is None else repr(names[column])} of X holds no times. Give it a number: "
                        "one value per column with ard=True, or one kernel per column with on()."
                    )
        seconds = {name: to_seconds(getattr(self, name)) for name in self._durations}
        return replace(self, times=tuple(times[column] for column in columns), **seconds)

    def in_units(self, units: Sequence[float], names: Sequence[str] | None = None) -> Self:
        own = self._units_of(units, names)
        changed = {name: self._divided(name, own) for name in self._durations if getattr(self, name) is not None}
        return replace(self, times=(), **changed)

    def _units_of(self, units: Sequence[float], names: Sequence[str] | None) -> Array:
        """Those of the columns that it sees."""
        every = range(len(units))
        columns = every if self.columns is None else [_resolve(c, len(units), names) for c in self.columns]
        return np.array([units[column] for column in columns])

    def _divided(self, name: str, units: Array) -> Any:
        """A parameter in units of the columns."""
        value = getattr(self, name)
        if isinstance(value, tuple) and len(value) > 1:
            return tuple((np.array(value) / units).tolist()) if len(value) == len(units) else value  # refused in bind
        if np.ptp(units) > 0.0:
            raise ValueError(
                f"{type(self).__name__}: {name} is one number for columns of different units. Give one value per "
                "column with ard=True, or one kernel per column."
            )
        return (value[0] / float(units[0]),) if isinstance(value, tuple) else value / float(units[0])

    def bind(self, X: Array, names: Sequence[str] | None = None, unit: float = 1.0) -> Self:
        if any(is_duration(getattr(self, name)) for name in self._durations):
            self.in_seconds([False] * X.shape[1], names)  # which refuses them
        columns = None if self.columns is None else tuple(_resolve(c, X.shape[1], names) for c in self.columns)
        chosen = X if columns is None else X[:, columns]
        return replace(self, columns=columns, **self._start(chosen, unit))

    @property
    def theta(self) -> Array:
        return np.asarray(np.log([v for name in self._parameters for v in self._values(name)]))

    def with_theta(self, theta: Array) -> Self:
        values = np.exp(theta).tolist()
        new: dict[str, Any] = {}
        for name in self._parameters:
            old = getattr(self, name)
            size = len(old) if isinstance(old, tuple) else 1
            new[name] = tuple(values[:size]) if isinstance(old, tuple) else values[0]
            values = values[size:]
        return replace(self, **new)

    def bounds(self, X: Array, response_variance: float = 1.0) -> Array:
        rows = []
        for name in self._parameters:
            value = np.array(self._values(name))
            low, high = (
                (value, value) if name in self.held else self._limits(name, self._columns_of(X), response_variance)
            )
            # A start given by the user is never out of bounds.
            rows.append(np.column_stack([np.minimum(low, value), np.maximum(high, value)]))
        return np.asarray(np.log(np.vstack(rows)))

    @property
    def parameter_names(self) -> list[str]:
        names = []
        for name in self._parameters:
            value = getattr(self, name)
            names += [f"{name}[{j}]" for j in range(len(value))] if isinstance(value, tuple) else [name]
        return names

    def scaled(self, factor: float) -> Kernel:
        # The square of a slope of 1e-84 over 1e90 is not a positive double; the nearest one is taken.
        scaled = tuple(min(max(factor * v, _DOUBLES[0]), _DOUBLES[1]) for v in self._values("variance"))
        return replace(self, variance=scaled if isinstance(self.variance, tuple) else scaled[0])

    def with_scale_held(self) -> Self | None:
        return self.fix("variance") if len(self._values("variance")) == 1 else None

    def stretched(self, factor: float) -> Self:
        return self

    def on(self, *columns: Column) -> Self:
        if not columns:
            raise ValueError("on() needs at least one column name or index.")
        return replace(self, columns=tuple(columns), times=())

    def fix(self, *names: str) -> Self:
        for name in names:
            if name not in self._parameters:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(self._parameters)}."
                )
            if getattr(self, name) is None:
                raise ValueError(f"{type(self).__name__}: give {name} a value before fixing it.")
        return replace(self, held=self.held | set(names))

    def __repr__(self) -> str:
        parts = [
            f"{f.name}={short(self._shown(f.name))}"
            for f in fields(self)
            if f.name not in ("held", "times") and getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _shown(self, name: str) -> Any:
        """A parameter's value; as durations where it is one of columns of times."""
        value = getattr(self, name)
        if name not in self._durations or not any(self.times):
            return value
        if isinstance(value, tuple):
            return tuple(shown(v) if time else v for v, time in zip(value, self.times, strict=False))
        return shown(value) if all(self.times) else value


def short(value: Any) -> str:
    """A parameter's value in a representation: numbers to four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return "(" + ", ".join(short(v) for v in value) + (",)" if len(value) == 1 else ")")
    return repr(value)


def _resolve(column: Column, width: int, names: Sequence[str] | None) -> int:
    """A column's index from 0, by its name or by an index that may be negative."""
    if isinstance(column, str):
        if names is None:
            raise ValueError(f"The kernel asks for column {column!r}, but X has no column names; use an index.")
        if column not in names:
            raise ValueError(f"The kernel asks for column {column!r}, but X has {', '.join(map(repr, names))}.")
        return list(names).index(column)
    if not -width <= column < width:
        raise ValueError(f"The kernel asks for column {column}, but X has {width} columns (0 to {width - 1}).")
    return int(column) % width
