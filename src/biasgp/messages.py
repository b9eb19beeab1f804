"""Typed warnings and errors. Each says what happened and what the user can do about it."""

from __future__ import annotations


class BiasGPWarning(UserWarning):
    """Every warning of this package; filter on it to silence them all."""


class ConvergenceWarning(BiasGPWarning):
    """The optimiser stopped before it converged."""


class JitterWarning(BiasGPWarning):
    """The covariance was not positive definite until its diagonal was raised."""


class ConstantResponseWarning(BiasGPWarning):
    """The response does not vary, so there is nothing to learn from it."""


class RunawayTuningWarning(BiasGPWarning):
    """A tuning parameter or the noise ran to where the model degenerates."""


class CovarianceError(ArithmeticError):
    """The covariance matrix could not be factorised, even with jitter."""
