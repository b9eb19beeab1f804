"""(value, gradient) → multistart quasi-Newton → a frozen report: what converged, and what sits on a bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize as scipy_minimize

from biasgp._typing import Array, Mask
from biasgp.watch import out_of_time, tell

Objective = Callable[[Array], tuple[float, Array]]

# Objectives are log-likelihoods of some hundreds of nats: these changes are far below what data can tell.
VALUE_TOLERANCE = 1e-9
GRADIENT_TOLERANCE = 1e-4
DECREASE_TOLERANCE = 1e-6
LOOKS = (6,)
"""Iterations after which starts are compared."""
FAR_BEHIND = 20.0
"""Nats behind the best start at which another is not worth going on with."""
FEW_UNKNOWNS = 60
"""Up to this many, the curvature is kept as a whole matrix and handed on from search to search."""
LONGEST_STEP = 2.0
"""Of any unknown, which are logarithms."""
SUFFICIENT, SHORTEST_STEP, MIN_CURVATURE = 1e-4, 1e-7, 0.2
OPTIMISM_FACTOR = 2.0
"""How many times what a search still promises could be gained, at the most."""
PATIENCE = 8
"""A search that is to beat another is judged every so many iterations."""
ON_BOUND = 1e-6
AS_GOOD_AS_ZERO = 1e-5
"""Share of the value: a line search can fail for want of precision where the gradient is smaller than this."""

OUT_OF_TIME = "the time was up"


@dataclass(frozen=True)
class Report:
    """Where a search ended. `x` is best seen; the masks say which entries sit on a bound.

    `curvature` is the estimate of the Hessian that the search ended with, for another search to begin with; by it,
    `promise` is how much lower the value would still go. `gradient` is that at x.
    """

    x: Array
    value: float
    converged: bool
    message: str
    n_iter: int
    n_evaluations: int
    at_lower: Mask
    at_upper: Mask
    curvature: Array | None = None
    promise: float = np.inf
    gradient: Array | None = None


def minimize(
    objective: Objective,
    x0: Array,
    bounds: Array,
    max_iter: int,
    curvature: Array | None = None,
    enough: float = DECREASE_TOLERANCE,
) -> Report:
    """The minimum near x0 within bounds; `curvature` is a guess of the Hessian there.

    The search ends where, by the curvature, less than `enough` is to be gained (but for many unknowns).
    """
    if len(x0) > FEW_UNKNOWNS:
        return _limited_memory(objective, x0, bounds, max_iter)
    return _Descent(objective, x0, bounds, curvature, enough).run(max_iter)


def go_on(
    objective: Objective, found: Report, bounds: Array, max_iter: int, enough: float = DECREASE_TOLERANCE
) -> Report:
    """More iterations on the objective of a search, from where that ended; evaluations are counted on."""
    if found.gradient is None:
        return resume(objective, found, bounds, max_iter)
    descent = _Descent(objective, found.x, bounds, found.curvature, enough, (found.value, found.gradient))
    return _counted_on(descent.run(max_iter), found)


class _Descent:
    """BFGS with the whole matrix, projected on the bounds.

    An evaluation costs O(N³) and there are few unknowns, so what counts is how many evaluations it takes: a search
    that begins with the curvature of a similar one needs half as many as L-BFGS, which begins with none.
    """

    def __init__(
        self,
        objective: Objective,
        x0: Array,
        bounds: Array,
        curvature: Array | None,
        enough: float,
        known: tuple[float, Array] | None = None,
    ) -> None:
        self.objective, self.enough = objective, enough
        self.low, self.high = bounds[:, 0], bounds[:, 1]
        self.x = np.clip(x0, self.low, self.high)
        self.value, self.gradient = objective(self.x) if known is None else known
        self.B = curvature
        self.n_iter, self.n_evaluations = 0, int(known is None)

    def run(self, max_iter: int) -> Report:
        message = ""
        while not message and self.n_iter < max_iter:
            tell(f"step {self.n_iter}, objective {self.value:.6g}")
            message = OUT_OF_TIME if out_of_time() else self._iterate()
        free = self.high > self.low
        return Report(
            x=self.x,
            value=self.value,
            converged=message not in ("", _STUCK, OUT_OF_TIME)
            or self._projected_gradient() <= AS_GOOD_AS_ZERO * (1 + abs(self.value)),
            message=message or "the limit of iterations was reached",
            n_iter=self.n_iter,
            n_evaluations=self.n_evaluations,
            at_lower=free & (self.x <= self.low + ON_BOUND),
            at_upper=free & (self.x >= self.high - ON_BOUND),
            curvature=self.B,
            promise=np.inf if self.B is None else -0.5 * float(self.gradient @ self._newton()),
            gradient=self.gradient,
        )

    def _iterate(self) -> str:
        """One step; says why the search is over, if it is."""
        if self._projected_gradient() <= GRADIENT_TOLERANCE:
            return "the gradient vanished"
        guessed = self.B is None
        direction = self._direction()
        gain = -0.5 * float(self.gradient @ direction)
        if not guessed and gain <= 0.0:  # uphill: a curvature that is not positive definite
            return self._begin_again()
        if not guessed and gain <= self.enough:
            return "nothing is to be gained"
        before = self.value
        self.n_iter += 1
        if not self._step(direction, guessed):
            if guessed or self._projected_gradient() <= AS_GOOD_AS_ZERO * (1 + abs(self.value)):
                return _STUCK
            # The gradient is not nothing, so it is the curvature that is wrong.
            return self._begin_again()
        return "the value settled" if before - self.value <= VALUE_TOLERANCE * max(1.0, abs(before)) else ""

    def _begin_again(self) -> str:
        """With no curvature; the search is not over."""
        self.B = None
        return ""

    def _projected_gradient(self) -> float:
        return _projected(self.x, self.gradient, self.low, self.high)

    def _direction(self) -> Array:
        direction = self._newton()
        return direction * min(1.0, LONGEST_STEP / float(np.abs(direction).max(initial=1e-300)))

    def _newton(self) -> Array:
        """Newton's step, with the estimated curvature, in the unknowns that are not pressed against a bound."""
        free = np.where(self.gradient > 0, self.x > self.low, self.x < self.high) & (self.high > self.low)
        if self.B is None:
            self.B = np.eye(len(self.x)) * (float(np.linalg.norm(self.gradient[free])) or 1.0)
        direction = np.zeros_like(self.x)
        try:
            direction[free] = -np.linalg.solve(self.B[free][:, free], self.gradient[free])
        except np.linalg.LinAlgError:  # an objective of extreme size: begin with no curvature again
            self.B = None
            return self._newton()
        return direction

    def _step(self, direction: Array, guessed: bool) -> bool:
        """Go as far along the direction as pays, and learn the curvature from it; False if nothing does."""
        length = 1.0
        while length > SHORTEST_STEP:
            x = _within(self.x + length * direction, self.low, self.high)
            move = x - self.x
            slope = float(self.gradient @ move)
            value, gradient = self.objective(x)
            self.n_evaluations += 1
            excess = value - self.value - slope
            if slope < 0.0 and value <= self.value + SUFFICIENT * slope:
                self._learn(move, gradient - self.gradient, guessed)
                self.x, self.value, self.gradient = x, value, gradient
                return True
            # The minimum of the parabola through both values and the slope, within reason.
            length *= min(max(-slope / (2.0 * excess), 0.1), 0.5) if excess > 0.0 else 0.1
        return False

    def _learn(self, move: Array, change: Array, guessed: bool) -> None:
        """BFGS update, damped where the objective is not convex along the move."""
        assert self.B is not None
        along = float(move @ change)
        if guessed and along > 0.0:
            self.B = np.eye(len(move)) * float(change @ change) / along
        pull = self.B @ move
        expected = float(move @ pull)
        if along < MIN_CURVATURE * expected:
            weight = (1.0 - MIN_CURVATURE) * expected / (expected - along)
            change = weight * change + (1.0 - weight) * pull
        self.B = self.B - pull[:, None] * (pull / expected) + change[:, None] * (change / float(move @ change))


_STUCK = "no step pays"


def _limited_memory(objective: Objective, x0: Array, bounds: Array, max_iter: int) -> Report:
    """L-BFGS-B, for many unknowns."""
    low, high = bounds[:, 0], bounds[:, 1]

    def stop_in_time(intermediate_result: object) -> None:
        if out_of_time():
            raise StopIteration

    result = scipy_minimize(
        objective,
        np.clip(x0, low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=stop_in_time,
        options={"maxiter": max_iter, "ftol": VALUE_TOLERANCE, "gtol": GRADIENT_TOLERANCE, "maxcor": 20},
    )
    free, gradient = high > low, _projected(result.x, result.jac, low, high)
    return Report(
        x=np.asarray(result.x),
        value=float(result.fun),
        converged=bool(result.success) or gradient <= AS_GOOD_AS_ZERO * (1.0 + abs(float(result.fun))),
        message=str(result.message),
        n_iter=int(result.nit),
        n_evaluations=int(result.nfev),
        at_lower=free & (result.x <= low + ON_BOUND),
        at_upper=free & (result.x >= high - ON_BOUND),
    )


def _projected(x: Array, gradient: Array, low: Array, high: Array) -> float:
    """The gradient's largest entry, but for what presses an unknown against its bound."""
    return float(np.abs(x - _within(x - gradient, low, high)).max(initial=0.0))


def _within(x: Array, low: Array, high: Array) -> Array:
    """np.clip, which takes three times as long for few numbers."""
    return np.minimum(np.maximum(x, low), high)


def multistart(
    objective: Objective,
    starts: Sequence[Array],
    bounds: Array,
    max_iter: int,
    looks: Sequence[int] = LOOKS,
    enough: float = DECREASE_TOLERANCE,
) -> Report:
    """A few iterations from each start, then the best one to its end."""
    if len(starts) == 1:
        return minimize(objective, starts[0], bounds, max_iter, enough=enough)
    return go_on(objective, screen(objective, starts, bounds, looks), bounds, max_iter, enough)


def screen(objective: Objective, starts: Sequence[Array], bounds: Array, looks: Sequence[int] = LOOKS) -> Report:
    """The best that a few iterations from each start lead to; evaluations are counted over all.

    `looks` are the iterations before the starts are compared; where there are several, those far behind are dropped.
    """
    first, *more = looks
    screened = [minimize(objective, start, bounds, first) for start in starts]
    n_evaluations = sum(report.n_evaluations for report in screened)
    for iterations in more:
        within = min(report.value for report in screened) + FAR_BEHIND
        near = [report for report in screened if report.value <= within]
        screened = [go_on(objective, replace(report, n_evaluations=0), bounds, iterations) for report in near]
        n_evaluations += sum(report.n_evaluations for report in screened)
    best = min(screened, key=lambda report: report.value)
    return replace(best, n_evaluations=n_evaluations)


def follow(
    objective: Objective,
    found: Report,
    bounds: Array,
    max_iter: int,
    to_beat: float,
    enough: float = DECREASE_TOLERANCE,
) -> Report:
    """`go_on`, for as long as the search may still end below a value."""
    done = 0
    while done < max_iter and found.value - OPTIMISM_FACTOR * found.promise < to_beat:
        patience = min(PATIENCE, max_iter - done)
        found = go_on(objective, found, bounds, patience, enough)
        done += found.n_iter
        if found.n_iter < patience:
            break
    return replace(found, n_iter=done)


def resume(
    objective: Objective,
    found: Report,
    bounds: Array,
    max_iter: int,
    growth: float = 1.0,
    enough: float = DECREASE_TOLERANCE,
) -> Report:
    """Go on from where another search ended, perhaps one with `growth` times fewer data; evaluations are counted on."""
    curvature = None if found.curvature is None else growth * found.curvature
    return _counted_on(minimize(objective, found.x, bounds, max_iter, curvature, enough), found)


def _counted_on(report: Report, before: Report) -> Report:
    return replace(report, n_evaluations=report.n_evaluations + before.n_evaluations)
