"""C(θ): covariance functions, one file per family. A kernel owns all that the engines of `covariance/` need of it."""

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
