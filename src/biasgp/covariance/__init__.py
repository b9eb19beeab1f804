"""The algebra of K = C(θ) + noise: factor, solve, log-determinant, inverse, gradient."""

from biasgp.covariance.dense import DenseCovariance, DenseFactor

__all__ = ["DenseCovariance", "DenseFactor"]
