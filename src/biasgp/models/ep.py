"""Fractional expectation propagation for y ~ Student-t about f ~ N(0, C), at given parameters.

Each reading's t stands in as a Gaussian site exp(νᵢf − ½τᵢf²) whose τᵢ may be negative: an outlier widens the
posterior. At a fixed point the marginals of q = N(0, C)·∏ sites agree with the tilted distributions, cavity × t^η.

Parallel updates with extrapolation and a step that adapts come first; started well they settle in some ten sweeps.
Where they do not, a double loop takes over (Heskes and Zoeter; Opper and Winther): with the marginals that the cavities
are taken from held, log Z is convex in the sites, so descent with a line search cannot fail; then those marginals are
renewed, as far as the cavities stay proper.

Gaussians, one per reading, are arrays of their natural parameters: a row of shifts νᵢ and a row of precisions τᵢ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.signed import SignedFactor
from biasgp.models.t_noise import StudentT, Tilted


@dataclass(frozen=True)
class EPPolicy:
    """When EP has converged, and how far it goes to get there.

    It has converged when no mean is further than `tolerance` standard deviations, and no variance further than that
    share of itself, from the tilted one. A sweep is one evaluation of q.
    """

    tolerance: float = 1e-5
    hopeless: float = -np.inf  # log Z below which it need not converge
    patience: int = 600  # sweeps of the double loop
    max_sweeps: int = 60  # of parallel updates
    first_sweeps: int = 5  # before log Z is compared with `hopeless`
    memory: int = 5  # sweeps that are extrapolated from
    min_step: float = 0.02  # parallel updates with a smaller step give way to the double loop
    overshoot: float = 2.0  # growth of the mismatch in a step that was too long; on the way it may rise a little
    step_growth: float = 1.5  # of the step after one that was not; it is halved after one that was
    max_inner: int = 8  # descent steps in each round of the double loop
    inner_tolerance: float = 0.3  # of these, in units of `tolerance`
    max_backtracks: int = 12  # halvings of a step
    decrease: float = 0.1  # share of the linear decrease that a step must achieve (Armijo)
    min_cavity_precision: float = 1e-3  # in units of the prior's: else negative sites have all but undone the cavity


ROUNDING = 1e-12
"""Relative error of log Z, which a decrease smaller than that cannot be told from."""
RIDGE, TINY = 1e-10, 1e-300
"""What keeps the extrapolation's Gram matrix regular: relative to its diagonal, and where that is 0."""


def _log_partition(gaussians: Array) -> float:
    """Σ log ∫ exp(shift·f − ½ precision·f²) df, up to N·½log 2π."""
    shift, precision = gaussians
    return 0.5 * float((shift**2 / precision - np.log(precision)).sum())


def _natural(mean: Array, variance: Array) -> Array:
    return np.stack([mean / variance, 1.0 / variance])


@dataclass(frozen=True)
class EPState:
    """q at some sites, the tilted distributions of its cavities, and what EP takes log Z to be there.

    `inner` is log Z without its last term, which is constant while the cavities' marginals are held: it is convex.
    """

    sites: Array
    factor: SignedFactor
    b: Array
    mean: Array
    variance: Array
    tilted: Tilted
    log_evidence: float
    inner: float
    mismatch: float

    @property
    def marginals(self) -> Array:
        return _natural(self.mean, self.variance)

    @property
    def weights(self) -> Array:
        return self.tilted.weight

    @property
    def gap(self) -> Array:
        """From q's marginals to the Gaussians with the tilted moments: the direction in which the sites move.

        It is downhill for `inner`: natural parameters rise with moments, and the gradient is a difference of moments.
        """
        return _natural(self.tilted.mean, self.tilted.variance) - self.marginals

    def slope(self, change: Array) -> float:
        """Derivative of `inner` along a change of the sites: q's moments minus the tilted ones, contracted with it."""
        second = self.variance + self.mean**2 - self.tilted.variance - self.tilted.mean**2
        return float((self.mean - self.tilted.mean) @ change[0] - 0.5 * second @ change[1])

    def gradient(self) -> tuple[Array, Array]:
        """Gradient of −log Z: W to be contracted with ∂C, and that in (log σ², log ν)."""
        by_noise = -np.array([self.tilted.by_log_scale2.sum(), self.tilted.by_log_nu.sum()])
        return 0.5 * (self.factor.inverse() - np.outer(self.b, self.b)), by_noise


class _Anderson:
    """Extrapolates a fixed-point iteration x ← x + g(x) from its last few steps (Anderson 1965).

    A secant method: it also finds fixed points that the plain iteration circles or leaves.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.points: list[Array] = []
        self.moves: list[Array] = []

    def propose(self, x: Array, move: Array, unit: Array, step: float) -> Array:
        """The next point; `unit` makes the entries of moves comparable."""
        self.points, self.moves = [*self.points[-self.memory :], x], [*self.moves[-self.memory :], move]
        plain = x + step * move
        if len(self.points) <= 2:  # one difference: no line to follow
            return plain
        dX, dG = np.diff(self.points, axis=0), np.diff(self.moves, axis=0)
        scaled = dG * unit
        gram = scaled @ scaled.T
        gram.flat[:: len(gram) + 1] *= 1.0 + RIDGE
        gram.flat[:: len(gram) + 1] += TINY
        weights = np.linalg.solve(gram, scaled @ (move * unit))
        return np.asarray(plain - weights @ (dX + step * dG))


class ExpectationPropagation:
    """EP for one data set, covariance and t."""

    def __init__(self, C: Array, y: Array, t: StudentT, fraction: float, policy: EPPolicy = EPPolicy()) -> None:  # noqa: B008
        self.C, self.y, self.t, self.fraction, self.policy = C, y, t, fraction, policy
        self.n_sweeps = 0

    def run(self, starts: Sequence[Array]) -> EPState | None:
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
                return state
            best = state if best is None or state.mismatch < best.mismatch else best
        return None if best is None else self._double_loop(best)

    def state(self, sites: Array, held: Array | None = None) -> EPState | None:
        """q at the sites; cavities from its own marginals, or from those that are held. None where one is improper."""
        self.n_sweeps += 1
        shift, precision = sites
        factor = SignedFactor.factorise(self.C, precision) if np.all(np.isfinite(sites)) else None
        if factor is None:
            return None
        variance = factor.marginal_variances()
        if not np.all(variance > 0.0):
            return None
        b, mean = factor.solve(shift)
        marginals = _natural(mean, variance) if held is None else held
        cavity = marginals - self.fraction * sites
        if not np.all(cavity[1] * self.C.diagonal() > self.policy.min_cavity_precision):
            return None
        tilted = self.t.tilt(self.y, cavity[0] / cavity[1], 1.0 / cavity[1], self.fraction)
        inner = -0.5 * factor.logdet + 0.5 * float(mean @ shift)
        inner += (float(tilted.log_normaliser.sum()) + _log_partition(cavity)) / self.fraction
        log_evidence = inner - _log_partition(marginals) / self.fraction
        if not np.isfinite(log_evidence):
            return None
        off = np.maximum(np.abs(tilted.mean - mean) / np.sqrt(variance), np.abs(tilted.variance / variance - 1.0))
        return EPState(sites, factor, b, mean, variance, tilted, log_evidence, inner, float(off.max()))

    def _parallel(self, state: EPState) -> EPState:
        """Updates of all sites at once, with Anderson's extrapolation; a damped plain one where that goes wrong."""
        policy = self.policy
        best, step, memory = state, 1.0, _Anderson(policy.memory)
        for sweep in range(policy.max_sweeps):
            if state.mismatch <= policy.tolerance or step < policy.min_step:
                break
            if sweep >= policy.first_sweeps and state.log_evidence < policy.hopeless:
                break
            unit = np.sqrt(np.concatenate([state.variance, state.variance**2]))
            proposal = memory.propose(state.sites.ravel(), state.gap.ravel() / self.fraction, unit, step)
            trial = self.state(proposal.reshape(2, -1))
            if trial is None or trial.mismatch > policy.overshoot * state.mismatch:
                step, memory = 0.5 * step, _Anderson(policy.memory)
            else:
                step, state = min(1.0, policy.step_growth * step), trial
            best = state if state.mismatch < best.mismatch else best
        return best

    def _double_loop(self, state: EPState) -> EPState:
        sites, held, last = state.sites, state.marginals, self.n_sweeps + self.policy.patience
        while self.n_sweeps < last:
            inner = self._descend(sites, held)
            if inner is None:
                return state
            # Renewing the marginals may leave a cavity improper; go as far towards them as can be.
            for step in 0.5 ** np.arange(self.policy.max_backtracks):
                renewed = held + step * (inner.marginals - held)
                if self.state(inner.sites, renewed) is not None:
                    break
            else:
                return state
            sites, held = inner.sites, renewed
            state = self.state(sites) or state
            if state.mismatch <= self.policy.tolerance:
                break
        return state

    def _descend(self, sites: Array, held: Array) -> EPState | None:
        """Minimise log Z over the sites with the cavities' marginals held: a convex problem."""
        state, step = self.state(sites, held), 1.0 / (1.0 + self.fraction)
        for _ in range(self.policy.max_inner):
            if state is None or state.mismatch <= self.policy.inner_tolerance * self.policy.tolerance:
                break
            trial, step = self._line_search(state, held, step)
            if trial is None:
                break
            state, step = trial, min(1.0, self.policy.step_growth * step)
        return state

    def _line_search(self, state: EPState, held: Array, step: float) -> tuple[EPState | None, float]:
        change = state.gap
        slope, rounding = state.slope(change), ROUNDING * abs(state.inner)
        for _ in range(self.policy.max_backtracks):
            trial = self.state(state.sites + step * change, held)
            if trial is not None and trial.inner <= state.inner + self.policy.decrease * step * slope + rounding:
                return trial, step
            step *= 0.5
        return None, step
