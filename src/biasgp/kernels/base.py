"""What a kernel is, and how kernels are joined.

A kernel gives its matrix (`kernel(X, Z)`), its diagonal and its vector–Jacobian product: `vjp(X)` returns C and a
function that turns any N×N matrix W into the gradient of Σᵢⱼ WᵢⱼCᵢⱼ, so that an N×N×p array never exists. Sums and
products compose under it.

Kernels are immutable. A parameter left at None takes its start from the data when the kernel is bound to them; a given
one is where the search starts, and `fix` keeps it there.

Length-scales and periods have the unit of their columns. For columns of times they are durations: "6h", "1d 12h", or a
timedelta of the standard library, pandas or NumPy. A plain number stands for seconds. Fitted ones are floats, in
seconds, that are shown as durations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from biasgp._typing import Array
from biasgp.kernels.state_space import StateSpace, multiplied, stacked

Pullback = Callable[[Array], Array]
"""From weights W to the gradient of ΣW∘C in theta."""
Column = int | str


class Kernel(ABC):
    """A covariance function with positive parameters, searched on the log scale.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import Kernel, Linear, Matern32
    >>> kernel = Matern32() + Linear()
    >>> isinstance(kernel, Kernel), kernel.bind(np.arange(5.0)[:, None]).parameter_names
    (True, ['left.variance', 'left.length_scale', 'right.variance'])
    """

    @abstractmethod
    def bind(self, X: Array, names: Sequence[str] | None = None, unit: float = 1.0) -> Self:
        """This kernel made ready for X: columns as indices, every parameter with a value.

        A variance that was given is divided by `unit`, the square of the unit that the model measures y in.
        """

    def in_seconds(self, times: Sequence[bool], names: Sequence[str] | None = None) -> Self:
        """This kernel with durations as seconds; `times` says of each column of X whether it holds times."""
        return self

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        """The kernels that it is made of."""
        return (self,)

    def in_units(self, units: Sequence[float], names: Sequence[str] | None = None) -> Self:
        """This kernel, with durations as seconds, for X whose columns have been divided by `units`."""
        return self

    @property
    def category_columns(self) -> tuple[Column, ...]:
        """Columns that hold labels: those that `Same` names."""
        return ()

    def beside_categories(self, categories: Collection[int], names: Sequence[str] | None, width: int) -> Self:
        """This kernel for X with columns of labels, which only `Same` may see: all columns are then all others."""
        return self

    def with_variances(self, *, each: bool) -> Self:
        """This kernel with one variance for all labels, or one for each, where `Same` leaves it open."""
        return self

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

    def batched_vjp(self, P: Array) -> tuple[Array, Pullback]:
        """`vjp` within each of the B sets of points P (B, n, d) at once: C is (B, n, n), and so is W.

        Nearest neighbours need many small matrices; a kernel that does not override this makes them one by one.
        """
        parts = [self.vjp(points) for points in P]

        def pullback(W: Array) -> Array:
            return np.asarray(sum(pull(weights) for (_, pull), weights in zip(parts, W, strict=True)))

        return np.stack([C for C, _ in parts]), pullback

    def usual_length_scales(self, X: Array) -> Array:
        """Logarithm of the length-scale that inputs X suggest, for each entry of θ; NaN where it is no length-scale."""
        return np.full(len(self.theta), np.nan)

    def inverse_square_lengths(self, X: Array) -> Array:
        """How much the square of a difference in each column counts in this kernel's distance; 0 where it does not."""
        return np.zeros(X.shape[1])

    def embedding(self, X: Array) -> Array:
        """Further coordinates, beside the columns themselves, in which near points are correlated; shape (n, k)."""
        return np.empty((len(X), 0))

    def state_space(self, width: int) -> StateSpace | None:
        """The form that makes the exact GP cost O(N) where one of `width` inputs is time; None where there is none."""
        return None

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


@dataclass(frozen=True)
class _Pair(Kernel):
    """Two kernels joined; their parameters follow one another."""

    left: Kernel
    right: Kernel

    def bind(self, X: Array, names: Sequence[str] | None = None, unit: float = 1.0) -> Self:
        return replace(self, left=self.left.bind(X, names, unit), right=self.right.bind(X, names, unit))

    def in_seconds(self, times: Sequence[bool], names: Sequence[str] | None = None) -> Self:
        return replace(self, left=self.left.in_seconds(times, names), right=self.right.in_seconds(times, names))

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        return (*self.left.leaves, *self.right.leaves)

    def in_units(self, units: Sequence[float], names: Sequence[str] | None = None) -> Self:
        return replace(self, left=self.left.in_units(units, names), right=self.right.in_units(units, names))

    @property
    def category_columns(self) -> tuple[Column, ...]:
        return tuple(dict.fromkeys((*self.left.category_columns, *self.right.category_columns)))

    def beside_categories(self, categories: Collection[int], names: Sequence[str] | None, width: int) -> Self:
        left, right = (each.beside_categories(categories, names, width) for each in (self.left, self.right))
        return replace(self, left=left, right=right)

    def with_variances(self, *, each: bool) -> Self:
        left, right = (part.with_variances(each=each) for part in (self.left, self.right))
        return replace(self, left=left, right=right)

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

    def usual_length_scales(self, X: Array) -> Array:
        return np.concatenate([self.left.usual_length_scales(X), self.right.usual_length_scales(X)])

    def inverse_square_lengths(self, X: Array) -> Array:
        return self.left.inverse_square_lengths(X) + self.right.inverse_square_lengths(X)

    def embedding(self, X: Array) -> Array:
        return np.hstack([self.left.embedding(X), self.right.embedding(X)])

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        return self._joined(self.left.vjp(X), self.right.vjp(X))

    def batched_vjp(self, P: Array) -> tuple[Array, Pullback]:
        return self._joined(self.left.batched_vjp(P), self.right.batched_vjp(P))

    @staticmethod
    @abstractmethod
    def _joined(left: tuple[Array, Pullback], right: tuple[Array, Pullback]) -> tuple[Array, Pullback]:
        """The matrix of both, and its pullback, from those of each."""

    def stretched(self, factor: float) -> Self:
        return replace(self, left=self.left.stretched(factor), right=self.right.stretched(factor))

    def on(self, *columns: Column) -> Self:
        return replace(self, left=self.left.on(*columns), right=self.right.on(*columns))

    def fix(self, *names: str) -> Self:
        raise ValueError("Fix the parameters of each kernel before joining them.")


@dataclass(frozen=True)
class Sum(_Pair):
    """k₁ + k₂.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import Constant, Exponential, Sum
    >>> kernel = Sum(Exponential(length_scale=1.0, variance=2.0), Constant(variance=3.0))
    >>> kernel(np.array([[0.0], [1.0]])).round(3).tolist()
    [[5.0, 3.736], [3.736, 5.0]]
    >>> kernel == kernel.left + kernel.right
    True
    """

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        C = self.left(X, Z)
        C += self.right(X, Z)
        return C

    def diag(self, X: Array) -> Array:
        return self.left.diag(X) + self.right.diag(X)

    @staticmethod
    def _joined(left: tuple[Array, Pullback], right: tuple[Array, Pullback]) -> tuple[Array, Pullback]:
        (A, pull_a), (B, pull_b) = left, right
        return A + B, lambda W: np.concatenate([pull_a(W), pull_b(W)])

    def state_space(self, width: int) -> StateSpace | None:
        return stacked(self.left.state_space(width), self.right.state_space(width))

    def scaled(self, factor: float) -> Kernel:
        return Sum(self.left.scaled(factor), self.right.scaled(factor))

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


@dataclass(frozen=True)
class Product(_Pair):
    """k₁ · k₂. Only their variances' product can be learnt, so one of the two is held at its value (1 if none).

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import Constant, Exponential, Product
    >>> kernel = Product(Exponential(length_scale=1.0, variance=2.0), Constant(variance=3.0))
    >>> kernel(np.array([[0.0], [1.0]])).round(3).tolist()
    [[6.0, 2.207], [2.207, 6.0]]
    >>> kernel == kernel.left * kernel.right
    True
    """

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

    @staticmethod
    def _joined(left: tuple[Array, Pullback], right: tuple[Array, Pullback]) -> tuple[Array, Pullback]:
        (A, pull_a), (B, pull_b) = left, right
        return A * B, lambda W: np.concatenate([pull_a(W * B), pull_b(W * A)])

    def state_space(self, width: int) -> StateSpace | None:
        return multiplied(self.left.state_space(width), self.right.state_space(width))

    def scaled(self, factor: float) -> Kernel:
        return Product(self.left.scaled(factor), self.right)

    def __repr__(self) -> str:
        return " * ".join(f"({k!r})" if isinstance(k, Sum) else repr(k) for k in (self.left, self.right))


def as_kernel(kernel: object) -> Kernel:
    """A kernel of ours as it is, one of scikit-learn's behind an adapter; anything else is refused.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from biasgp.kernels import Matern32, as_kernel
    >>> as_kernel(Matern32()), as_kernel(RBF())
    (Matern32(), SklearnKernel(kernel=RBF(length_scale=1)))
    """
    from biasgp.kernels.sklearn_adapter import SklearnKernel

    if isinstance(kernel, Kernel):
        return kernel
    if hasattr(kernel, "hyperparameters") and hasattr(kernel, "clone_with_theta"):
        return SklearnKernel(kernel)
    raise TypeError(
        f"kernel must be one of biasgp.kernels or of sklearn.gaussian_process.kernels, got {type(kernel).__name__}."
    )
