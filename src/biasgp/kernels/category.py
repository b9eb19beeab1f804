"""A kernel on a category: which sensor a reading is from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from biasgp._typing import Array
from biasgp.kernels.base import Column, Pullback
from biasgp.kernels.leaf import Leaf, short


@dataclass(frozen=True, init=False, repr=False)
class Same(Leaf):
    """k(x, z) = variance where x and z have the same label in a column, else 0.

    As a factor it makes a kernel one of each label's own: `Matern32().on("time") + Same("sensor") *
    Matern32().on("time")` is a signal that all sensors share, and a slow error of each. To the estimators, what is
    shared is f, and the rest is a bias.

    In the frame that an estimator is fitted to, the column holds text, a categorical, or other labels. In arrays that
    are passed to the kernel itself it holds codes 0, 1, …; a negative code stands for no label, and has covariance 0
    with everything.

    Parameters
    ----------
    column : str or int
        The column of the labels, by name or by index.
    variance : float or tuple of float, optional
        One number, or one per label in the order of the sorted labels.
    each : bool, optional
        Whether each label has a variance of its own, so that a few labels may differ from the others more than those
        differ among themselves. Left out, estimators choose by evidence where there are three labels or more: of two
        that disagree the readings cannot tell which one is wrong. The kernel itself has one variance then, unless
        several are given.

    Examples
    --------
    >>> from biasgp.kernels import Matern32, Same
    >>> Matern32().on("time") + Same("sensor") * Matern32().on("time")
    Matern32(columns=('time',)) + Same('sensor') * Matern32(columns=('time',))
    >>> Same(0, variance=2.0)([[0.0], [1.0]], [[1.0], [0.0], [2.0]])
    array([[0., 2., 0.],
           [2., 0., 0.]])
    """

    variance: float | tuple[float, ...] | None = None  # type: ignore[assignment]
    each: bool | None = None

    def __init__(
        self,
        column: Column | None = None,
        *,
        variance: float | tuple[float, ...] | None = None,
        each: bool | None = None,
        columns: tuple[Column, ...] | None = None,
        **more: Any,
    ) -> None:
        chosen = columns if column is None else (column,)
        if chosen is None or len(chosen) != 1 or isinstance(chosen[0], bool) or not isinstance(chosen[0], int | str):
            raise ValueError(f"Same needs the column that holds the labels, by name or index; got {column!r}.")
        if isinstance(variance, list | np.ndarray):
            variance = tuple(np.asarray(variance, dtype=float).tolist())
        values = {"variance": variance, "each": each, "columns": chosen, "held": frozenset(), "times": (), **more}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    @property
    def category_columns(self) -> tuple[Column, ...]:
        return self.columns or ()

    def beside_categories(self, categories: Collection[int], names: Sequence[str] | None, width: int) -> Self:
        return self

    def with_variances(self, *, each: bool) -> Self:
        return self if self.each is not None or isinstance(self.variance, tuple) else replace(self, each=each)

    def on(self, *columns: Column) -> Self:
        raise ValueError(f"{self!r} has its column. Choose the columns of the other kernels before joining them to it.")

    def _start(self, columns: Array, unit: float) -> dict[str, Any]:
        n = int(columns.max(initial=-1.0)) + 1
        each = isinstance(self.variance, tuple) if self.each is None else self.each
        if not each and isinstance(self.variance, tuple):
            raise ValueError(f"Same: {len(self.variance)} variances were given, but each=False asks for one.")
        if not each or n == 0:
            return super()._start(columns, unit)
        given = self.variance if isinstance(self.variance, tuple) else (self.variance,) * n
        if len(given) != n:
            raise ValueError(f"Same: {len(given)} variances were given for {n} labels.")
        starts = (Leaf._start(replace(self, variance=value), columns, unit)["variance"] for value in given)
        return {"variance": tuple(starts)}

    def _own(self, codes: Array) -> Array:
        """The variance of each code; that of one that was not in the fit is the mean."""
        variance = np.array(self._values("variance"))
        if len(variance) == 1:
            return np.where(codes >= 0.0, variance[0], 0.0)
        return np.asarray(np.append(variance, [variance.mean(), 0.0])[self._index(codes)])

    def _index(self, codes: Array) -> Any:
        """Which variance each code has; the last but one where the code is new, the last where it is none."""
        n = len(self._values("variance"))
        whole = codes == np.floor(codes)
        return np.where(codes < 0.0, n + 1, np.where(whole & (codes < n), codes, n)).astype(np.intp)

    def _codes(self, X: Array) -> Array:
        return np.asarray(self._columns_of(np.asarray(X, dtype=float))[..., 0])

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        a = self._codes(X)
        b = a if Z is None else self._codes(Z)
        return np.where(a[:, None] == b, self._own(a)[:, None], 0.0)

    def diag(self, X: Array) -> Array:
        return self._own(self._codes(X))

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        return self.batched_vjp(X)

    def batched_vjp(self, P: Array) -> tuple[Array, Pullback]:
        codes, n = self._codes(P), len(self._values("variance"))
        C = np.where(codes[..., :, None] == codes[..., None, :], self._own(codes)[..., :, None], 0.0)

        def pullback(W: Array) -> Array:
            if n == 1:
                return np.array([np.vdot(W, C)])
            by_point = (W * C).sum(axis=-1)
            totals = np.bincount(self._index(codes).ravel(), by_point.ravel(), minlength=n)
            return np.asarray(totals[:n], dtype=float)

        return C, pullback

    def __repr__(self) -> str:
        more = {"variance": self.variance, "each": self.each}
        parts = [repr((self.columns or ("",))[0])]
        parts += [f"{name}={short(value)}" for name, value in more.items() if value is not None]
        return f"Same({', '.join(parts)})"
