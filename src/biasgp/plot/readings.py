"""Readings, what is true of them, and what is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from biasgp._typing import Array, Mask
from biasgp.palette import AMBER, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY
from biasgp.plot.canvas import BAND_95, Abscissa, axes_for, label_times

EPISODES = {
    "stuck": (PURPLE, "-"),
    "shift": (AMBER, "--"),
    "step": (SKY, "-."),
    "ramp": (GREEN, ":"),
    "erratic": (ORANGE, (0, (8, 3))),
}
"""Colour and line of the edge of each kind of episode: told apart in grey, too."""


@dataclass(kw_only=True, eq=False)
class FitDisplay:
    """Readings, flagged ones and episodes, and f with its 95 % band.

    Attributes
    ----------
    x, y : ndarray of shape (n_samples,)
        The readings, in their order; x are times where the input holds times, hours where it holds durations.
    flagged : ndarray of bool
        Which of them are outliers.
    curve_x, curve, low, high : ndarray
        Median of f and the ends of its central 95 % interval: on a grid over the only input; at the readings where
        there are several inputs.
    episodes : list of (str, x, x)
        Kind, start and end of each episode.
    label : str
        The name of the input.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn last.

    Examples
    --------
    >>> from biasgp import SparseBiasGP
    >>> from biasgp.data import simulate
    >>> from biasgp.plot import FitDisplay
    >>> data = simulate("1d", 8)
    >>> display = FitDisplay.from_estimator(SparseBiasGP().fit(data.X, data.y))
    >>> display.figure_.savefig("fit.png")
    """

    x: NDArray[Any]
    y: Array
    flagged: Mask
    curve_x: NDArray[Any]
    curve: Array
    low: Array
    high: Array
    episodes: list[tuple[str, Any, Any]] = field(default_factory=list)
    label: str = "x"

    @classmethod
    def from_estimator(cls, estimator: Any, column: int | str | None = None, *, ax: Any = None) -> Self:
        """Draw a fitted estimator over its only input, or over the one that `column` names by index or name."""
        check_is_fitted(estimator)
        given, abscissa = estimator._as_given(), Abscissa.of(estimator, column)
        x = abscissa.shown(estimator._training_inputs()[:, abscissa.column])
        at, interval = abscissa.curve()
        display = cls(
            x=x,
            y=given.y,
            flagged=getattr(estimator, "outlier_mask_", np.zeros(len(x), dtype=bool)),
            curve_x=abscissa.shown(at),
            low=interval[:, 0],
            curve=interval[:, 1],
            high=interval[:, 2],
            episodes=[
                (each.kind, x[list(each.rows)].min(), x[list(each.rows)].max())
                for each in getattr(estimator, "episodes_", ())
            ],
            label=abscissa.label,
        )
        return display.plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones."""
        (self.ax_,) = axes_for(ax)
        self.figure_ = self.ax_.figure
        named: set[str] = set()
        for kind, start, stop in self.episodes:
            colour, line = EPISODES.get(kind, (GREY, "-"))
            label = None if kind in named else kind
            self.ax_.axvspan(start, stop, facecolor=colour, alpha=0.25, lw=0, label=label)
            for edge in (start, stop):
                self.ax_.axvline(edge, color=colour, ls=line, lw=0.8)
            named.add(kind)
        self.ax_.fill_between(self.curve_x, self.low, self.high, color=BLUE, alpha=0.22, lw=0, label="95 % band of f")
        good = ~self.flagged
        self.ax_.plot(self.x[good], self.y[good], ".", color=GREY, ms=4, label="readings")
        self.ax_.plot(self.curve_x, self.curve, color=BLUE, lw=1.5, label="estimated truth")
        if self.flagged.any():
            self.ax_.plot(self.x[~good], self.y[~good], "x", color=ORANGE, ms=6, label="flagged")
        self.ax_.set(xlabel=self.label, ylabel="reading")
        label_times(self.ax_, self.x)
        # Above the axes: on them it would hide flagged readings, which are far out.
        self.ax_.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, fontsize="small")
        return self


@dataclass(kw_only=True, eq=False)
class OutlierDisplay:
    """The estimated bias of each flagged reading with its 95 % interval.

    Attributes
    ----------
    x, bias : ndarray of shape (n_flagged,)
        Where the flagged readings are, and by how much they are off.
    half_width : ndarray of shape (n_flagged,)
        Half of the central 95 % interval of the bias; 0 where the model has no standard deviation of it.
    label : str
        The name of the input.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn last.

    Examples
    --------
    >>> from biasgp import SparseBiasGP
    >>> from biasgp.data import simulate
    >>> from biasgp.plot import OutlierDisplay
    >>> data = simulate("1d", 8)
    >>> display = OutlierDisplay.from_estimator(SparseBiasGP().fit(data.X, data.y))
    >>> len(display.bias) == int(data.is_outlier.sum())
    True
    """

    x: NDArray[Any]
    bias: Array
    half_width: Array
    label: str = "x"

    @classmethod
    def from_estimator(cls, estimator: Any, column: int | str | None = None, *, ax: Any = None) -> Self:
        """Draw the biases of a fitted estimator over its only input, or over the one that `column` names."""
        check_is_fitted(estimator)
        if not hasattr(estimator, "bias_"):
            raise ValueError(f"{type(estimator).__name__} looks for no outliers. Use SparseBiasGP, say.")
        abscissa, out = Abscissa.of(estimator, column), estimator.outlier_mask_
        x = abscissa.shown(estimator._training_inputs()[:, abscissa.column])
        std = getattr(estimator, "bias_std_", np.zeros(len(x)))
        half = ndtri(BAND_95[-1]) * std[out]
        return cls(x=x[out], bias=estimator.bias_[out], half_width=half, label=abscissa.label).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones."""
        (self.ax_,) = axes_for(ax)
        self.figure_ = self.ax_.figure
        self.ax_.axhline(0.0, color=GREY, lw=1)
        self.ax_.errorbar(self.x, self.bias, self.half_width, fmt="x", color=ORANGE, ms=6, lw=1)
        self.ax_.set(xlabel=self.label, ylabel="bias of flagged readings")
        label_times(self.ax_, self.x)
        return self
