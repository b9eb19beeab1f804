"""Fractional expectation propagation for y ~ Student-t about f ~ N(0, C), at given parameters.

Each reading's t stands in as a Gaussian site exp(νᵢf − ½τᵢf²) whose τᵢ may be negative: an outlier widens the
posterior. At a fixed point the marginals of q = N(0, C)·∏ sites agree with the tilted distributions, cavity × t^η.

Parallel updates with extrapolation and a step that adapts come first; started well they settle in some ten sweeps.
Where they do not, a double loop takes over (Heskes and Zoeter; Opper and Winther): with the marginals that the cavities
are taken from held, log Z is convex in the sites, so descent with a line search cannot fail; then those marginals are
renewed, as far as the cavities stay proper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.signed import SignedFactor
from biasgp.models.t_noise import StudentT
from biasgp.models.tilted import Tilted, tilt

MAX_SWEEPS, MIN_STEP, FIRST_SWEEPS, MEMORY = 60, 0.02, 5, 5
MAX_INNER, MAX_BACKTRACKS = 8, 12


@dataclass(frozen=True)
class Natural:
    """Gaussians in natural parameters: exp(shift·f − ½ precision·f²), one per reading."""

    shift: Array
    precision: Array

    @classmethod
    def of(cls, vector: Array) -> Natural:
        """From its two parts end to end."""
        return cls(*np.split(vector, 2))

    @property
    def vector(self) -> Array:
        return np.concatenate([self.shift, self.precision])

    def toward(self, other: Natural, step: float) -> Natural:
        return Natural(
            self.shift + step * (other.shift - self.shift),
            self.precision + step * (other.precision - self.precision),
        )

    def plus(self, other: Natural, times: float) -> Natural:
        return Natural(self.shift + times * other.shift, self.precision + times * other.precision)

    def log_partition(self) -> float:
        """Σ log ∫ exp(shift·f − ½ precision·f²) df, but for N·½log 2π."""
        return 0.5 * float((self.shift**2 / self.precision - np.log(self.precision)).sum())


@dataclass(frozen=True)
class EPState:
    """q at some sites, the tilted distributions of its cavities, and what EP takes log Z to be there.

    `inner` is log Z without its last term, which is constant while the cavities' marginals are held: it is convex.
    """

    sites: Natural
    factor: SignedFactor
    b: Array
    mean: Array
    variance: Array
    tilted: Tilted
    log_evidence: float
    inner: float
    mismatch: float

    @property
    def marginals(self) -> Natural:
        return Natural(self.mean / self.variance, 1.0 / self.variance)

    @property
    def gap(self) -> Natural:
        """From q's marginals to the Gaussians with the tilted moments. Along it the sites go.

        It is downhill for `inner`: natural parameters rise with moments, and the gradient is a difference of moments.
        """
        matched = Natural(self.tilted.mean / self.tilted.variance, 1.0 / self.tilted.variance)
        return matched.plus(self.marginals, -1.0)

    def slope(self, change: Natural) -> float:
        """Derivative of `inner` along a change of the sites: q's moments minus the tilted ones, contracted with it."""
        second = self.variance + self.mean**2 - self.tilted.variance - self.tilted.mean**2
        return float((self.mean - self.tilted.mean) @ change.shift - 0.5 * second @ change.precision)


@dataclass(frozen=True)
class EPResult:
    """Where EP ended, after how many evaluations, and whether at a fixed point."""

    state: EPState
    converged: bool
    n_sweeps: int


def weighted_sites(y: Array, mean: Array, t: StudentT) -> Natural:
    """Gaussians of the precision that the t has at these residuals: never negative, so a safe start."""
    precision = (t.nu + 1.0) / (t.nu * t.scale2 + (y - mean) ** 2)
    return Natural(precision * y, precision)


class Anderson:
    """Extrapolates a fixed-point iteration x ← x + g(x) from its last few steps (Anderson 1965).

    A secant method: it also finds fixed points that the plain iteration circles or leaves.
    """

    def __init__(self) -> None:
        self.points: list[Array] = []
        self.moves: list[Array] = []

    def clear(self) -> None:
        self.points, self.moves = [], []

    def propose(self, x: Array, move: Array, unit: Array, step: float) -> Array:
        """The next point; `unit` makes the entries of moves comparable."""
        self.points, self.moves = [*self.points[-MEMORY:], x], [*self.moves[-MEMORY:], move]
        plain = x + step * move
        if len(self.points) < 3:
            return plain
        dX, dG = np.diff(self.points, axis=0), np.diff(self.moves, axis=0)
        scaled = dG * unit
        gram = scaled @ scaled.T
        gram.flat[:: len(gram) + 1] *= 1.0 + 1e-10
        gram.flat[:: len(gram) + 1] += 1e-300
        weights = np.linalg.solve(gram, scaled @ (move * unit))
        return np.asarray(plain - weights @ (dX + step * dG))


@dataclass(frozen=True)
class EPPolicy:
    """When EP has converged, the log Z below which it need not, and how many sweeps the double loop gets.

    It has converged when no mean is further than `tolerance` standard deviations, and no variance further than that
    share of itself, from the tilted one.
    """

    tolerance: float = 1e-5
    hopeless: float = -np.inf
    patience: int = 600


class Expectation:
    """EP for one data set, covariance and t."""

    def __init__(self, C: Array, y: Array, t: StudentT, fraction: float, policy: EPPolicy = EPPolicy()) -> None:  # noqa: B008
        self.C, self.y, self.t, self.fraction, self.policy = C, y, t, fraction, policy
        self.n_sweeps = 0

    def run(self, starts: Sequence[Natural]) -> EPResult | None:
        """Parallel EP from each start until one converges, else the double loop from the best; None where q never is.

        A state whose log Z stays below `hopeless` is returned as it is: a search will not go there.
        """
        best: EPState | None = None
        for sites in starts:
            state = self.state(sites)
            if state is None:
                continue
            state = self._parallel(state)
            if state.mismatch <= self.policy.tolerance or state.log_evidence < self.policy.hopeless:
                return EPResult(state, state.mismatch <= self.policy.tolerance, self.n_sweeps)
            best = state if best is None or state.mismatch < best.mismatch else best
        if best is None:
            return None
        best = self._double_loop(best)
        return EPResult(best, best.mismatch <= self.policy.tolerance, self.n_sweeps)

    def state(self, sites: Natural, held: Natural | None = None) -> EPState | None:
        """q at the sites; cavities from its own marginals, or from those that are held. None where one is improper."""
        self.n_sweeps += 1
        if not (np.all(np.isfinite(sites.shift)) and np.all(np.isfinite(sites.precision))):
            return None
        factor = SignedFactor.factorise(self.C, sites.precision)
        if factor is None:
            return None
        variance = factor.marginal_variances()
        if not np.all(variance > 0.0):
            return None
        b, mean = factor.solve(sites.shift)
        own = Natural(mean / variance, 1.0 / variance)
        cavity = (own if held is None else held).plus(sites, -self.fraction)
        # A cavity wider than the prior by far is one that other sites' negative precisions have all but undone.
        if not np.all(cavity.precision * self.C.diagonal() > 1e-3):
            return None
        tilted = tilt(
            self.y,
            cavity.shift / cavity.precision,
            1.0 / cavity.precision,
            self.t.scale2,
            self.t.nu,
            self.fraction,
        )
        inner = -0.5 * factor.logdet + 0.5 * float(mean @ sites.shift)
        inner += (float(tilted.log_normaliser.sum()) + cavity.log_partition()) / self.fraction
        log_evidence = inner - (own if held is None else held).log_partition() / self.fraction
        off = np.maximum(np.abs(tilted.mean - mean) / np.sqrt(variance), np.abs(tilted.variance / variance - 1.0))
        if not np.isfinite(log_evidence):
            return None
        return EPState(sites, factor, b, mean, variance, tilted, log_evidence, inner, float(off.max()))

    def _parallel(self, state: EPState) -> EPState:
        """Updates of all sites at once, with Anderson's extrapolation; a damped plain one where that goes wrong."""
        best, step, memory = state, 1.0, Anderson()
        for sweep in range(MAX_SWEEPS):
            if state.mismatch <= self.policy.tolerance or step < MIN_STEP:
                break
            if sweep >= FIRST_SWEEPS and state.log_evidence < self.policy.hopeless:
                break
            unit = np.sqrt(np.concatenate([state.variance, state.variance**2]))
            proposal = memory.propose(state.sites.vector, state.gap.vector / self.fraction, unit, step)
            trial = self.state(Natural.of(proposal))
            # A mismatch may rise for a sweep or two on the way; one that doubles is a step too far.
            if trial is None or trial.mismatch > 2.0 * state.mismatch:
                step *= 0.5
                memory.clear()
            else:
                step = min(1.0, 1.5 * step)
                state = trial
            best = state if state.mismatch < best.mismatch else best
        return best

    def _double_loop(self, state: EPState) -> EPState:
        sites, held, last = state.sites, state.marginals, self.n_sweeps + self.policy.patience
        while self.n_sweeps < last:
            inner = self._descend(sites, held)
            if inner is None:
                return state
            # Renewing the marginals may leave a cavity improper; go as far towards them as can be.
            for step in 0.5 ** np.arange(MAX_BACKTRACKS):
                held_next = held.toward(inner.marginals, step)
                if self.state(inner.sites, held_next) is not None:
                    break
            else:
                return state
            sites, held = inner.sites, held_next
            renewed = self.state(sites)
            if renewed is not None:
                state = renewed
                if state.mismatch <= self.policy.tolerance:
                    break
        return state

    def _descend(self, sites: Natural, held: Natural) -> EPState | None:
        """Minimise log Z over the sites with the cavities' marginals held: a convex problem."""
        state, step = self.state(sites, held), 1.0 / (1.0 + self.fraction)
        for _ in range(MAX_INNER):
            if state is None or state.mismatch <= 0.3 * self.policy.tolerance:
                break
            trial, step = self._line_search(state, held, step)
            if trial is None:
                break
            state, step = trial, min(1.0, 1.5 * step)
        return state

    def _line_search(self, state: EPState, held: Natural, step: float) -> tuple[EPState | None, float]:
        change = state.gap
        slope, rounding = state.slope(change), 1e-12 * abs(state.inner)
        for _ in range(MAX_BACKTRACKS):
            trial = self.state(state.sites.plus(change, step), held)
            if trial is not None and trial.inner <= state.inner + 0.1 * step * slope + rounding:
                return trial, step
            step *= 0.5
        return None, step
