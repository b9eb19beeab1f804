"""C(θ): covariance functions.

A kernel gives its matrix (`kernel(X, Z)`), its diagonal and its vector–Jacobian product: `vjp(X)`
returns C and a function that turns any N×N matrix W into the gradient of Σᵢⱼ WᵢⱼCᵢⱼ, so that an
N×N×p array never exists. Sums and products compose under it.

Kernels are immutable. A parameter left at None takes its start from the data when the kernel is bound
to them; a given one is where the search starts, and `fix` keeps it there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

import numpy as np
from scipy.spatial.distance import cdist

from biasgp._typing import Array
from biasgp.inputs import column_scales, neighbour_gap, resolve_columns

Pullback = Callable[[Array], Array]
Column = int | str

# The exponential kernel's slope has no limit at distance 0. What a pair this close (in length-scales) adds to a
# gradient is smaller still, so the slope stops growing here.
SAME_POINT = 1e-6
VARIANCE_RANGE = (1e-6, 1e4)
"""Bounds of a kernel's variance, in units of the (robustly scaled) response's variance."""


class Kernel(ABC):
    """A covariance function with positive parameters, searched on the log scale."""

    @abstractmethod
    def bind(self, X: Array, names: Sequence[str] | None = None, unit: float = 1.0) -> Self:
        """This kernel made ready for X: columns as indices, every parameter with a value.

        A variance that was given is divided by `unit`, the square of the unit that the model measures y in.
        """

    @property
    @abstractmethod
    def theta(self) -> Array:
        """Logarithms of all parameters of a bound kernel."""

    @abstractmethod
    def with_theta(self, theta: Array) -> Self:
        """The same kernel at other parameters."""

    @abstractmethod
    def bounds(self, X: Array, response_variance: float = 1.0) -> Array:
        """Lower and upper bound of each entry of theta, from the data; shape (p, 2)."""

    @property
    @abstractmethod
    def parameter_names(self) -> list[str]:
        """A name for each entry of theta."""

    @abstractmethod
    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """Covariances between the rows of X and those of Z (of X when left out)."""

    @abstractmethod
    def diag(self, X: Array) -> Array:
        """The diagonal of `self(X)`."""

    @abstractmethod
    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        """C = self(X), and W ↦ ∂(Σᵢⱼ WᵢⱼCᵢⱼ)/∂theta for symmetric W. Neither may be written to."""

    @abstractmethod
    def scaled(self, factor: float) -> Kernel:
        """This covariance times a positive factor."""

    def with_scale_held(self) -> Self | None:
        """A bound kernel whose overall variance is no longer free, or None if that is not one parameter."""
        return None

    @abstractmethod
    def stretched(self, factor: float) -> Self:
        """A bound kernel with the length-scales that are not fixed multiplied by a factor."""

    @abstractmethod
    def on(self, *columns: Column) -> Self:
        """This kernel on the named (or numbered) columns alone."""

    @abstractmethod
    def fix(self, *names: str) -> Self:
        """Keep parameters at the value given, e.g. `Periodic(period=24).fix("period")`."""

    def __add__(self, other: object) -> Kernel:
        return Sum(self, as_kernel(other))

    def __mul__(self, other: object) -> Kernel:
        return Product(self, as_kernel(other))


@dataclass(frozen=True, kw_only=True)
class Leaf(Kernel):
    """What single kernels share: a variance, columns, and parameters that are held."""

    variance: float | None = None
    columns: tuple[Column, ...] | None = None
    held: frozenset[str] = frozenset()

    @property
    def _parameters(self) -> tuple[str, ...]:
        return ("variance",)

    def __post_init__(self) -> None:
        for name in self._parameters:
            value = getattr(self, name)
            if value is not None and not (np.all(np.isfinite(value)) and np.all(np.asarray(value) > 0)):
                raise ValueError(f"{type(self).__name__}: {name} must be positive and finite, got {value!r}.")

    def _columns_of(self, X: Array) -> Array:
        return X if self.columns is None else X[:, cast("tuple[int, ...]", self.columns)]

    def _values(self, name: str) -> tuple[float, ...]:
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{type(self).__name__}.{name} has no value yet: bind the kernel to data first.")
        return tuple(value) if isinstance(value, tuple) else (value,)

    def _start(self, columns: Array, unit: float) -> dict[str, Any]:
        """Values from the data for the parameters that are None, as (replace) keywords."""
        return {"variance": 1.0 if self.variance is None else self.variance / unit}

    def _limits(self, name: str, columns: Array, response_variance: float) -> tuple[Array, Array]:
        """Lower and upper bound of one parameter."""
        low, high = VARIANCE_RANGE
        return np.array([low]), np.array([high * max(1.0, response_variance)])

    def bind(self, X: Array, names: Sequence[str] | None = None, unit: float = 1.0) -> Self:
        columns = None if self.columns is None else resolve_columns(self.columns, X.shape[1], names)
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
        return replace(self, variance=factor * self._values("variance")[0])

    def with_scale_held(self) -> Self | None:
        return self.fix("variance") if len(self._values("variance")) == 1 else None

    def stretched(self, factor: float) -> Self:
        return self

    def on(self, *columns: Column) -> Self:
        if not columns:
            raise ValueError("on() needs at least one column name or index.")
        return replace(self, columns=tuple(columns))

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
        shown = [
            f"{f.name}={_short(getattr(self, f.name))}"
            for f in fields(self)
            if f.name != "held" and getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return "(" + ", ".join(_short(v) for v in value) + ")"
    return repr(value)


@dataclass(frozen=True, kw_only=True, repr=False)
class Constant(Leaf):
    """k(x, z) = variance: an unknown level."""

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return np.full((len(X), len(X if Z is None else Z)), self._values("variance")[0])

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self._values("variance")[0])

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        C = self(X)
        return C, lambda W: np.array([C[0, 0] * W.sum()])


@dataclass(frozen=True, kw_only=True, repr=False)
class Linear(Leaf):
    """k(x, z) = Σⱼ varianceⱼ (xⱼ − centerⱼ)(zⱼ − centerⱼ); one variance, or one an input with `ard=True`."""

    variance: float | tuple[float, ...] | None = None  # type: ignore[assignment]
    ard: bool = False
    center: tuple[float, ...] | None = None

    def _start(self, columns: Array, unit: float) -> dict[str, Any]:
        spread = column_scales(columns)
        slopes = 1.0 / (len(spread) * spread**2)
        given = None if self.variance is None else np.divide(self.variance, unit)
        variance: Any = _per_input(given, slopes, self.ard, "variance")
        center = columns.mean(axis=0) if self.center is None else np.broadcast_to(self.center, spread.shape)
        return {"variance": variance, "center": tuple(center.tolist())}

    def _limits(self, name: str, columns: Array, response_variance: float) -> tuple[Array, Array]:
        low, high = super()._limits(name, columns, response_variance)
        unit = 1.0 / column_scales(columns) ** 2
        return (low * unit, high * unit) if self.ard else (low * unit.min(), high * unit.max())

    def _features(self, X: Array) -> Array:
        return np.asarray(self._columns_of(X) - np.array(self.center))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        A = self._features(X)
        B = A if Z is None else self._features(Z)
        return np.asarray((A * self._values("variance")) @ B.T)

    def diag(self, X: Array) -> Array:
        return np.asarray((self._features(X) ** 2 * self._values("variance")).sum(axis=1))

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        A = self._features(X)
        variance = np.array(self._values("variance"))

        def pullback(W: Array) -> Array:
            each = ((W @ A) * A).sum(axis=0)
            return np.asarray(variance * (each if self.ard else each.sum()))

        return self(X), pullback

    def scaled(self, factor: float) -> Kernel:
        scaled = tuple(factor * v for v in self._values("variance"))
        return replace(self, variance=scaled if self.ard else scaled[0])


@dataclass(frozen=True, kw_only=True, repr=False)
class Stationary(Leaf):
    """variance · profile(D²), D² = Σⱼ ((xⱼ − zⱼ)/length_scaleⱼ)²; one length-scale, or one an input with `ard=True`."""

    length_scale: float | tuple[float, ...] | None = None
    variance: float | None = None
    ard: bool = False

    @property
    def _parameters(self) -> tuple[str, ...]:
        return ("variance", "length_scale")

    @staticmethod
    def _profile(D2: Array) -> tuple[Array, Array]:
        """The correlation and −2·its derivative in D²; may overwrite D2."""
        raise NotImplementedError

    def _start(self, columns: Array, unit: float) -> dict[str, Any]:
        scales = column_scales(columns) * np.sqrt(columns.shape[1])
        return super()._start(columns, unit) | {
            "length_scale": _per_input(self.length_scale, scales, self.ard, "length_scale")
        }

    def _limits(self, name: str, columns: Array, response_variance: float) -> tuple[Array, Array]:
        if name != "length_scale":
            return super()._limits(name, columns, response_variance)
        # A length-scale far below the spacing of the points would explain any outlier as signal.
        ranges = np.ptp(columns, axis=0)
        ranges = np.where(ranges > 0, ranges, column_scales(columns))
        if self.ard:
            return 0.5 * columns.shape[1] * neighbour_gap(columns), 100.0 * ranges
        return 0.5 * neighbour_gap(columns, jointly=True), np.array([100.0 * np.linalg.norm(ranges)])

    def _features(self, X: Array) -> Array:
        """What distances are taken between, before division by the length-scales."""
        return self._columns_of(X)

    def _scaled_features(self, X: Array) -> Array:
        return np.asarray(self._features(X) / self._values("length_scale"))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        A = self._scaled_features(X)
        C = self._profile(cdist(A, A if Z is None else self._scaled_features(Z), "sqeuclidean"))[0]
        C *= self._values("variance")[0]
        return C

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self._values("variance")[0])

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        A = self._scaled_features(X)
        variance = self._values("variance")[0]
        C, slope = self._profile(cdist(A, A, "sqeuclidean"))
        shared = slope is C  # the squared exponential's slope is itself: scaled already
        if not shared:
            np.fill_diagonal(slope, 0.0)  # no distance, and the exponential kernel's is large there
        C *= variance
        A = A - A.mean(axis=0)  # the contraction below cancels less about the centre

        def pullback(W: Array) -> Array:
            G = W * slope
            if not shared:
                G *= variance
            return np.concatenate([[np.vdot(W, C)], self._length_gradient(A, G, G @ A)])

        return C, pullback

    def _length_gradient(self, A: Array, G: Array, GA: Array) -> Array:
        """Σᵢⱼ Gᵢⱼ (aᵢ − aⱼ)², a column of A at a time: all inputs from the one product GA."""
        each = 2.0 * (G.sum(axis=1) @ A**2 - (A * GA).sum(axis=0))
        return each if self.ard else np.array([each.sum()])

    def stretched(self, factor: float) -> Self:
        if "length_scale" in self.held:
            return self
        new = tuple(factor * v for v in self._values("length_scale"))
        return replace(self, length_scale=new if self.ard else new[0])


class SquaredExponential(Stationary):
    """exp(−D²/2): infinitely smooth."""

    @staticmethod
    def _profile(D2: Array) -> tuple[Array, Array]:
        D2 *= -0.5
        k = np.exp(D2, out=D2)
        return k, k


class Exponential(Stationary):
    """exp(−D): continuous, nowhere smooth; the paper's choice for sensors."""

    @staticmethod
    def _profile(D2: Array) -> tuple[Array, Array]:
        D = np.sqrt(D2, out=D2)
        k = np.negative(D)
        np.exp(k, out=k)
        np.maximum(D, SAME_POINT, out=D)
        return k, np.divide(k, D, out=D)


class Matern32(Stationary):
    """(1 + r) exp(−r), r = √3 D: once differentiable."""

    @staticmethod
    def _profile(D2: Array) -> tuple[Array, Array]:
        D2 *= 3.0
        r = np.sqrt(D2, out=D2)
        k = np.exp(-r)
        slope = 3.0 * k
        r += 1.0
        k *= r
        return k, slope


class Matern52(Stationary):
    """(1 + r + r²/3) exp(−r), r = √5 D: twice differentiable."""

    @staticmethod
    def _profile(D2: Array) -> tuple[Array, Array]:
        D2 *= 5.0
        r = np.sqrt(D2)
        slope = np.exp(-r)
        D2 /= 3.0
        r += 1.0
        D2 += r
        D2 *= slope
        slope *= r
        slope *= 5.0 / 3.0
        return D2, slope


@dataclass(frozen=True, kw_only=True, repr=False)
class Periodic(SquaredExponential):
    """exp(−2 Σⱼ sin²(π(xⱼ − zⱼ)/period)/length_scaleⱼ²): repeats itself every `period`.

    The squared exponential of each input laid on a circle, which is how it is computed.
    """

    period: float | None = None

    @property
    def _parameters(self) -> tuple[str, ...]:
        return ("variance", "length_scale", "period")

    def _start(self, columns: Array, unit: float) -> dict[str, Any]:
        period = self.period if self.period is not None else float(np.ptp(columns, axis=0).max() / 4 or 1.0)
        scales = np.full(columns.shape[1], np.sqrt(columns.shape[1]))
        length_scale = _per_input(self.length_scale, scales, self.ard, "length_scale")
        return Leaf._start(self, columns, unit) | {"length_scale": length_scale, "period": period}

    def _limits(self, name: str, columns: Array, response_variance: float) -> tuple[Array, Array]:
        if name == "length_scale":
            size = len(self._values(name))
            return np.full(size, 0.05), np.full(size, 100.0)
        if name == "period":
            widest = float(np.ptp(columns, axis=0).max()) or 1.0
            return np.array([2.0 * neighbour_gap(columns).min()]), np.array([2.0 * widest])
        return super()._limits(name, columns, response_variance)

    def _features(self, X: Array) -> Array:
        angle = 2.0 * np.pi / self._values("period")[0] * self._columns_of(X)
        return np.hstack([np.cos(angle), np.sin(angle)])

    def _scaled_features(self, X: Array) -> Array:
        lengths = self._values("length_scale")
        return np.asarray(self._features(X) / (lengths if len(lengths) == 1 else lengths * 2))

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        C, base = super().vjp(X)
        A, d = self._scaled_features(X), self._columns_of(X).shape[1]
        angle = 2.0 * np.pi / self._values("period")[0] * self._columns_of(X)
        cos, sin = A[:, :d], A[:, d:]

        def pullback(W: Array) -> Array:
            G = W * C
            # ∂D²/∂log period = −2 (a − b)(sin a cos b − cos a sin b), a and b the two angles.
            turn = 2.0 * ((angle * sin) * (G @ cos) - (angle * cos) * (G @ sin)).sum()
            return np.append(base(W), turn)

        return C, pullback

    def _length_gradient(self, A: Array, G: Array, GA: Array) -> Array:
        each = 2.0 * (G.sum(axis=1) @ A**2 - (A * GA).sum(axis=0))
        d = A.shape[1] // 2
        each = each[:d] + each[d:]
        return each if self.ard else np.array([each.sum()])


def _per_input(given: Any, start: Array, ard: bool, name: str) -> Any:
    """A value an input (a tuple) under ARD, else one number; the user's where given."""
    if not ard:
        if given is not None and np.size(given) != 1:
            raise ValueError(f"{name} has {np.size(given)} values, but one is shared by all inputs; pass ard=True.")
        return float(np.exp(np.log(start).mean())) if given is None else float(np.ravel(given)[0])
    if given is None:
        return tuple(start.tolist())
    if np.size(given) not in (1, len(start)):
        raise ValueError(f"{name} has {np.size(given)} values for {len(start)} input columns.")
    return tuple(np.broadcast_to(np.ravel(given), start.shape).astype(float).tolist())


@dataclass(frozen=True)
class _Pair(Kernel):
    """Two kernels joined; their parameters follow one another."""

    left: Kernel
    right: Kernel

    def bind(self, X: Array, names: Sequence[str] | None = None, unit: float = 1.0) -> Self:
        return replace(self, left=self.left.bind(X, names, unit), right=self.right.bind(X, names, unit))

    @property
    def theta(self) -> Array:
        return np.concatenate([self.left.theta, self.right.theta])

    def with_theta(self, theta: Array) -> Self:
        n = len(self.left.theta)
        return replace(self, left=self.left.with_theta(theta[:n]), right=self.right.with_theta(theta[n:]))

    def bounds(self, X: Array, response_variance: float = 1.0) -> Array:
        return np.vstack([self.left.bounds(X, response_variance), self.right.bounds(X, response_variance)])

    @property
    def parameter_names(self) -> list[str]:
        return [f"left.{n}" for n in self.left.parameter_names] + [f"right.{n}" for n in self.right.parameter_names]

    def stretched(self, factor: float) -> Self:
        return replace(self, left=self.left.stretched(factor), right=self.right.stretched(factor))

    def on(self, *columns: Column) -> Self:
        return replace(self, left=self.left.on(*columns), right=self.right.on(*columns))

    def fix(self, *names: str) -> Self:
        raise ValueError("Fix the parameters of each kernel before joining them.")


@dataclass(frozen=True)
class Sum(_Pair):
    """k₁ + k₂."""

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        C = self.left(X, Z)
        C += self.right(X, Z)
        return C

    def diag(self, X: Array) -> Array:
        return self.left.diag(X) + self.right.diag(X)

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        A, pull_a = self.left.vjp(X)
        B, pull_b = self.right.vjp(X)
        return A + B, lambda W: np.concatenate([pull_a(W), pull_b(W)])

    def scaled(self, factor: float) -> Kernel:
        return Sum(self.left.scaled(factor), self.right.scaled(factor))

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


@dataclass(frozen=True)
class Product(_Pair):
    """k₁ · k₂. Only their variances' product can be learnt, so one of the two is held at its value (1 if none)."""

    def bind(self, X: Array, names: Sequence[str] | None = None, unit: float = 1.0) -> Self:
        left, right = self.left.bind(X, names, unit), self.right.bind(X, names)
        held = right.with_scale_held()
        if held is not None:
            return replace(self, left=left, right=held)
        return replace(self, left=left.with_scale_held() or left, right=right)

    def with_scale_held(self) -> Self | None:
        left, right = self.left.with_scale_held(), self.right.with_scale_held()
        return None if left is None or right is None else replace(self, left=left, right=right)

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        C = self.left(X, Z)
        C *= self.right(X, Z)
        return C

    def diag(self, X: Array) -> Array:
        return self.left.diag(X) * self.right.diag(X)

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        A, pull_a = self.left.vjp(X)
        B, pull_b = self.right.vjp(X)
        return A * B, lambda W: np.concatenate([pull_a(W * B), pull_b(W * A)])

    def scaled(self, factor: float) -> Kernel:
        return Product(self.left.scaled(factor), self.right)

    def __repr__(self) -> str:
        return " * ".join(f"({k!r})" if isinstance(k, Sum) else repr(k) for k in (self.left, self.right))


def as_kernel(kernel: object) -> Kernel:
    """A kernel of ours as it is; scikit-learn's through an adapter; anything else is refused."""
    if isinstance(kernel, Kernel):
        return kernel
    if hasattr(kernel, "hyperparameters") and hasattr(kernel, "clone_with_theta"):
        from biasgp.sklearn_kernel import SklearnKernel

        return SklearnKernel(kernel)
    raise TypeError(
        f"kernel must be one of biasgp.kernels or of sklearn.gaussian_process.kernels, got {type(kernel).__name__}."
    )
