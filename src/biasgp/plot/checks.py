"""Whether a model is to be believed: residuals, coverage of intervals, chains of a sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from biasgp._typing import Array
from biasgp.estimators.validation import check_query, check_readings
from biasgp.palette import AMBER, BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY
from biasgp.plot.canvas import axes_for

LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
"""Of the intervals whose coverage is drawn."""
CHAINS = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, INK, GREY)


@dataclass(kw_only=True, eq=False)
class ResidualDisplay:
    """Standardised residuals of the readings that are not outliers, over the estimated truth: noise has no pattern.

    Attributes
    ----------
    truth, residual : ndarray
        f as it is predicted, in y's unit (its median under a response transform), and the distance of the readings from
        it in standard deviations of a reading.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn last.

    Examples
    --------
    >>> from biasgp import SparseBiasGP
    >>> from biasgp.data import simulate
    >>> from biasgp.plot import ResidualDisplay
    >>> data = simulate("1d", 8)
    >>> model = SparseBiasGP().fit(data.X, data.y)
    >>> display = ResidualDisplay.from_estimator(model)
    >>> len(display.residual) == int((~model.outlier_mask_).sum())
    True
    """

    truth: Array
    residual: Array

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike | None = None, y: ArrayLike | None = None, *, ax: Any = None
    ) -> Self:
        """Residuals of held-out readings y at X; without them, of each reading of the fit left out."""
        truth, residual = _residuals(estimator, X, y)
        return cls(truth=truth, residual=residual).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones."""
        (self.ax_,) = axes_for(ax)
        self.figure_ = self.ax_.figure
        self.ax_.axhline(0.0, color=GREY, lw=1)
        for height in (-2.0, 2.0):
            self.ax_.axhline(height, color=BLUE, ls=":", lw=1)
        self.ax_.plot(self.truth, self.residual, ".", color=GREY, ms=5)
        self.ax_.set(xlabel="estimated truth", ylabel="residual (standard deviations)")
        return self


@dataclass(kw_only=True, eq=False)
class CalibrationDisplay:
    """How many readings that are not outliers lie in intervals that should hold a given share of them.

    Attributes
    ----------
    levels, coverage : ndarray
        What central intervals of the next reading should hold, and what they hold.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn last.

    Examples
    --------
    >>> from biasgp import SparseBiasGP
    >>> from biasgp.data import simulate
    >>> from biasgp.plot import CalibrationDisplay
    >>> data = simulate("1d", 8)
    >>> display = CalibrationDisplay.from_estimator(SparseBiasGP().fit(data.X, data.y))
    >>> bool(abs(display.coverage - display.levels).max() < 0.1)
    True
    """

    levels: Array
    coverage: Array

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike | None = None, y: ArrayLike | None = None, *, ax: Any = None
    ) -> Self:
        """Coverage of held-out readings y at X; without them, of each reading of the fit left out."""
        size = np.abs(_residuals(estimator, X, y)[1])
        held = np.array([np.mean(size <= ndtri(0.5 + 0.5 * level)) for level in LEVELS])
        return cls(levels=LEVELS, coverage=held).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones."""
        (self.ax_,) = axes_for(ax)
        self.figure_ = self.ax_.figure
        self.ax_.plot([0.0, 100.0], [0.0, 100.0], color=GREY, ls=":", label="as it should be")
        self.ax_.plot(100.0 * self.levels, 100.0 * self.coverage, "o-", color=BLUE, ms=4, label="found")
        self.ax_.set(xlabel="interval should hold (%)", ylabel="it holds (%)", xlim=(0, 102), ylim=(0, 102))
        self.ax_.legend()
        return self


@dataclass(kw_only=True, eq=False)
class TraceDisplay:
    """The chains of a sampler, one axes per parameter: chains that have mixed lie over one another and do not wander.

    Attributes
    ----------
    draws : dict of str to ndarray of shape (chains, draws)
        The draws of each parameter.
    r_hat : dict of str to float
        Split-R̂ of each; near 1 where the chains agree.
    axes_ : list of matplotlib Axes
        Where each parameter was drawn last.
    ax_, figure_ : matplotlib Axes and Figure
        The first of these, and their figure.

    Examples
    --------
    >>> from biasgp import ScaleMixtureGP
    >>> from biasgp.data import simulate
    >>> from biasgp.plot import TraceDisplay
    >>> data = simulate("1d", 1, n=40)
    >>> model = ScaleMixtureGP(draws=20, tune=20, chains=2).fit(data.X, data.y)
    >>> display = TraceDisplay.from_estimator(model, ["scale2", "degrees_of_freedom"])
    >>> [axis.get_ylabel() for axis in display.axes_]
    ['scale2', 'degrees_of_freedom']
    """

    draws: dict[str, Array]
    r_hat: dict[str, float]

    @classmethod
    def from_estimator(cls, estimator: Any, parameters: Sequence[str] | None = None, *, ax: Any = None) -> Self:
        """Draw the chains of a fitted ScaleMixtureGP: of all its parameters, or of those that are named."""
        check_is_fitted(estimator)
        if not hasattr(estimator, "draws_"):
            raise ValueError(f"{type(estimator).__name__} has no chains to draw. Use ScaleMixtureGP.")
        names = list(estimator.draws_) if parameters is None else list(parameters)
        unknown = [name for name in names if name not in estimator.draws_]
        if unknown or not names:
            known = ", ".join(map(repr, estimator.draws_))
            raise ValueError(f"parameters must be some of {known}, got {parameters!r}.")
        draws = {name: estimator.draws_[name] for name in names}
        return cls(draws=draws, r_hat={name: estimator.r_hat_[name] for name in names}).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on the given axes, as many as there are parameters, or on new ones."""
        self.axes_ = axes_for(ax, len(self.draws))
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        for axis, (name, chains) in zip(self.axes_, self.draws.items(), strict=True):
            for i, chain in enumerate(chains):
                axis.plot(np.arange(1, len(chain) + 1), chain, color=CHAINS[i % len(CHAINS)], lw=0.8)
            axis.set(ylabel=name, title=f"R̂ = {self.r_hat[name]:.3f}")
        self.axes_[-1].set(xlabel="draw")
        return self


def _residuals(estimator: Any, X: ArrayLike | None, y: ArrayLike | None) -> tuple[Array, Array]:
    """Estimated truth and standardised residual of each reading that is not flagged."""
    check_is_fitted(estimator)
    if (X is None) != (y is None):
        raise ValueError("Give X and y of held-out readings, or neither of them.")
    scaling = estimator._scaling
    if X is None:
        truth = estimator._quantiles(estimator._training_inputs(), np.array([0.5]), include_noise=False)[:, 0]
        residual = estimator._standardised_residuals()
    else:
        readings = check_readings(y, X)
        mean, variance = estimator._latent(check_query(estimator, X, shared=False), include_noise=True)
        truth, residual = scaling.backward(mean), (scaling.forward(readings) - mean) / np.sqrt(variance)
        if hasattr(estimator, "outlier_probability"):
            residual[estimator.outlier_probability(X, y) > 0.5] = np.nan
    known = np.isfinite(residual)
    if not known.any():
        raise ValueError("No reading is left that is not flagged: there are no residuals to draw.")
    return truth[known], residual[known]
