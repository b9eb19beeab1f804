"""C(θ): covariance functions, one file per family. A kernel owns all that the engines of `covariance/` need of it.

>>> import numpy as np
>>> from biasgp.kernels import Column, Matern32, Pullback
>>> X = np.array([[0.0], [1.0]])
>>> column: Column = 0
>>> kernel = Matern32(length_scale=1.0, variance=1.0).on(column).bind(X)
>>> gradient: Pullback = kernel.vjp(X)[1]
>>> gradient(np.ones((2, 2))).round(3).tolist()
[2.967, 1.062]
"""

from biasgp.kernels.base import Column, Kernel, Product, Pullback, Sum, as_kernel
from biasgp.kernels.category import Same
from biasgp.kernels.language import parse
from biasgp.kernels.linear import Constant, Linear
from biasgp.kernels.periodic import Periodic
from biasgp.kernels.sklearn_adapter import SklearnKernel
from biasgp.kernels.stationary import Exponential, Matern32, Matern52, SquaredExponential, Stationary

__all__ = [
    "Column",
    "Constant",
    "Exponential",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "Periodic",
    "Product",
    "Pullback",
    "Same",
    "SklearnKernel",
    "SquaredExponential",
    "Stationary",
    "Sum",
    "as_kernel",
    "parse",
]
