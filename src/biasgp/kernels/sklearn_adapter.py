"""An adapter for scikit-learn's kernels. They build an N×N×p gradient, so prefer ours where speed matters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from biasgp._typing import Array
from biasgp.kernels.base import Column, Kernel, Pullback


@dataclass(frozen=True)
class SklearnKernel(Kernel):
    """A scikit-learn kernel behind our protocol; parameters and bounds are its own.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from biasgp.kernels import Linear, SklearnKernel
    >>> kernel = SklearnKernel(RBF(length_scale=1.0)) + Linear(variance=1.0, center=(0.0,))
    >>> kernel(np.array([[0.0], [1.0]])).round(3).tolist()
    [[1.0, 0.607], [0.607, 2.0]]
    """

    kernel: Any

    def bind(self, X: Array, names: Sequence[str] | None = None, unit: float = 1.0) -> Self:
        return self

    def beside_categories(self, categories: Collection[int], names: Sequence[str] | None, width: int) -> Self:
        raise ValueError("A scikit-learn kernel works on all columns, labels too; beside Same use biasgp.kernels.")

    @property
    def theta(self) -> Array:
        return np.asarray(self.kernel.theta, dtype=float)

    def with_theta(self, theta: Array) -> Self:
        return type(self)(self.kernel.clone_with_theta(theta))

    def bounds(self, X: Array, response_variance: float = 1.0) -> Array:
        return np.asarray(self.kernel.bounds, dtype=float).reshape(-1, 2)

    @property
    def parameter_names(self) -> list[str]:
        return [
            h.name if h.n_elements == 1 else f"{h.name}[{j}]"
            for h in self.kernel.hyperparameters
            if not h.fixed
            for j in range(h.n_elements)
        ]

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return np.asarray(self.kernel(X, Z), dtype=float)

    def diag(self, X: Array) -> Array:
        return np.asarray(self.kernel.diag(X), dtype=float)

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        C, gradient = self.kernel(X, eval_gradient=True)
        return C, lambda W: np.einsum("ij,ijp->p", W, gradient)

    def scaled(self, factor: float) -> Kernel:
        return type(self)(factor * self.kernel)

    def stretched(self, factor: float) -> Self:
        return self

    def on(self, *columns: Column) -> Self:
        raise ValueError("A scikit-learn kernel works on all columns; use one of biasgp.kernels to choose columns.")

    def fix(self, *names: str) -> Self:
        raise ValueError("Fix a scikit-learn kernel's parameters by its own bounds='fixed'.")
