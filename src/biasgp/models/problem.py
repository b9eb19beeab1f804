"""What every model is given, and what every fit returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array, Mask
from biasgp.covariance.protocol import Posterior
from biasgp.kernels import Kernel
from biasgp.optimize import Report

if TYPE_CHECKING:
    from biasgp.models.varying_noise import Noise

Rows = NDArray[np.intp] | Mask | slice
EVERYTHING = slice(None)
LOG_2PI = float(np.log(2.0 * np.pi))
OUTLIER_SIZE = 2.5
"""A reading counts as an outlier when its estimated bias is more than this many standard deviations of its noise."""


@dataclass(frozen=True)
class LengthScalePrior:
    """Short length-scales are unlikely: below log(usual ℓ) + shift, log ℓ is normal, and above, anything goes.

    The usual length-scale is a column's spread times √d: the typical distance between two points grows as √d, so that f
    of many inputs is as smooth a priori as f of one. It is weak: at the usual length-scale it costs a third of a nat,
    at a hundredth of it 3.5 nats, and three hundred readings outweigh it. Long ones cost nothing: most inputs of many
    do not matter, and their length-scales must be free to say so.
    """

    usual: Array  # logarithms; NaN where an entry of θ is no length-scale
    shift: float = 2.0
    std: float = 2.5
    """Both by benchmarks/shapes.py --only few: with a shift of 3, and with a standard deviation of 1.7, 40 readings of
    ten inputs without outliers have 5 to 11 % more error than a plain GP's, with these 4 % less."""

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """−log p(θ), up to a constant, and its gradient."""
        z = np.fmin((theta - self.usual - self.shift) / self.std, 0.0)
        return 0.5 * float(z @ z), z / self.std


@dataclass(frozen=True)
class Problem:
    """Readings y at the rows of X, the kernel of f bound to them, and what is known of each reading's noise variance.

    y is centred and in units of its robust standard deviation, which is `scale` in the user's unit. `shared` has one
    column per bias that several readings share, scaled by its prior standard deviation: the outer products of the
    columns are part of the covariance of y. `prior` is that of the kernel's parameters, for models that use it.
    `verdict` says of each reading what somebody knows of it: that it is good (0) or bad (1), or nothing (NaN).
    `censored` says which readings were measured (0), and of which it is known only that they lie below y (−1) or above
    it (+1); None where all were. `zero` is what a response of 0 is in the units of y; None where it is transformed.
    Where it is not `labelled`, no reading is an outlier by itself of which that is not said.
    """

    X: Array
    y: Array
    kernel: Kernel
    known: Array
    scale: float = 1.0
    shared: Array | None = None
    prior: LengthScalePrior | None = None
    verdict: Array | None = None
    censored: Array | None = None
    zero: float | None = None
    labelled: bool = True

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Rows) -> Problem:
        """Some of the readings."""
        shared = None if self.shared is None else self.shared[rows]
        verdict = None if self.verdict is None else self.verdict[rows]
        censored = None if self.censored is None else self.censored[rows]
        X, y, known = self.X[rows], self.y[rows], self.known[rows]
        return replace(self, X=X, y=y, known=known, shared=shared, verdict=verdict, censored=censored)

    @property
    def is_censored(self) -> Mask:
        """Which readings are only limits."""
        return np.zeros(len(self), dtype=bool) if self.censored is None else np.asarray(self.censored != 0.0)

    @property
    def fixed(self) -> Array | None:
        """Which labels are not open, as a verdict on each; None where all are."""
        if self.labelled:
            return self.verdict
        return np.zeros(len(self)) if self.verdict is None else np.nan_to_num(self.verdict)

    def held(self, labels: NDArray[np.intp]) -> NDArray[np.intp]:
        """Labels (0: no bias) as they must be; a bad reading without a group is put into the first."""
        fixed = self.fixed
        if fixed is None:
            return labels
        return np.where(fixed == 0.0, 0, np.where((fixed == 1.0) & (labels == 0), 1, labels))

    def covariance(self, theta: Array) -> Array:
        """Of f at the readings, with the biases that they share."""
        C = self.kernel.with_theta(theta)(self.X)
        return C if self.shared is None else C + self.shared @ self.shared.T

    def cost_of(self, theta: Array) -> tuple[float, Array]:
        """−log p(θ), up to a constant, and its gradient; zero where there is no prior."""
        return (0.0, np.zeros(len(theta))) if self.prior is None else self.prior(theta)

    def with_prior(self) -> Problem:
        """The same with a weak prior of the length-scales."""
        return replace(self, prior=LengthScalePrior(self.kernel.usual_length_scales(self.X)))

    def clipped(self, limit: float) -> Problem:
        """The same with no reading further from 0 than a limit."""
        return replace(self, y=np.clip(self.y, -limit, limit))

    def outliers(self, bias: Array, noise_variance: float) -> Mask:
        """Readings whose bias is too large for their noise."""
        return np.asarray(np.abs(bias) > OUTLIER_SIZE * np.sqrt(noise_variance + self.known))


class Layout:
    """Names of the consecutive parts of a parameter vector x; its entries are logarithms of the parameters."""

    def __init__(self, **sizes: int) -> None:
        stops = np.cumsum([*sizes.values()]).tolist()
        self._parts = {name: slice(stop - sizes[name], stop) for name, stop in zip(sizes, stops, strict=True)}

    def __getitem__(self, name: str) -> slice:
        """Where a part is in x."""
        return self._parts[name]

    def values(self, x: Array, name: str) -> Array:
        """The parameters of a part."""
        return np.asarray(np.exp(x[self._parts[name]]))

    def value(self, x: Array, name: str) -> float:
        """The one parameter of a part."""
        return float(self.values(x, name)[0])


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """What a fit of any model has; each model adds its own. `noise_variance` is that of a reading with no bias.

    `runaway` names the parameter that diverged to where the model degenerates; empty where none did. `noise` is the
    variance beyond `noise_variance` of a noise that varies.
    """

    kernel: Kernel
    noise_variance: float
    posterior: Posterior
    report: Report
    runaway: str = ""
    noise: Noise | None = None

    @property
    def evidence(self) -> float:
        """By which fits to the same readings are compared, the prior of a noise that varies included."""
        return -self.report.value + self._noise_prior

    @property
    def _noise_prior(self) -> float:
        return 0.0 if self.noise is None else self.noise.log_prior
