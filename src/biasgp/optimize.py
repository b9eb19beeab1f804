"""(value, gradient) → multistart quasi-Newton → a frozen report: what converged, and what sits on a bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize as scipy_minimize

from biasgp._typing import Array, Mask
from biasgp.watch import out_of_time, tell

Objective = Callable[[Array], tuple[float, Array]]

OUT_OF_TIME = "the time was up"
_STUCK = "no step pays"


@dataclass(frozen=True)
class _OptimizerPolicy:
    """Tolerances and limits of a search. Objectives are log-likelihoods of some hundreds of nats, of log parameters."""

    value: float = 1e-9  # relative change of the value at which it has settled
    gradient: float = 1e-4  # largest entry of the projected gradient, in nats, that counts as zero
    decrease: float = 1e-6  # predicted decrease, in nats, that is not worth a step: far below what data can tell
    flat: float = 1e-5  # gradient, as a share of the value, at which rounding can make a line search fail
    on_bound: float = 1e-6  # distance from a bound up to which an unknown sits on it
    looks: tuple[int, ...] = (6,)  # iterations after which starts are compared
    far_behind: float = 20.0  # nats behind the best start at which another is dropped
    optimism: float = 2.0  # the largest multiple of the predicted decrease that a search is taken to gain
    patience: int = 8  # iterations between two looks at a search that has to beat another
    dense_up_to: int = 60  # unknowns up to which the curvature is a whole matrix, handed on from search to search
    memory: int = 20  # pairs that L-BFGS-B keeps where there are more
    longest_step: float = 2.0  # of any unknown: a factor of e² in a parameter
    sufficient_decrease: float = 1e-4  # Armijo's constant (Nocedal and Wright, Section 3.1)
    shrinkage: tuple[float, float] = (0.1, 0.5)  # least and largest factor by which the line search shortens a step
    shortest_step: float = 1e-7  # share of the full step at which the line search gives up
    damping: float = 0.2  # Powell's, of the BFGS update (Nocedal and Wright, Section 18.3)


POLICY = _OptimizerPolicy()


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

    def first(self, p: int) -> Report:
        """The same of the first p unknowns alone."""
        curvature = None if self.curvature is None else self.curvature[:p, :p]
        low, high = self.at_lower[:p], self.at_upper[:p]
        return replace(self, x=self.x[:p], at_lower=low, at_upper=high, curvature=curvature, gradient=None)


def minimize(
    objective: Objective,
    x0: Array,
    bounds: Array,
    max_iter: int,
    curvature: Array | None = None,
    enough: float = POLICY.decrease,
) -> Report:
    """The minimum near x0 within bounds; `curvature` is a guess of the Hessian there.

    The search ends where, by the curvature, less than `enough` is to be gained (but for many unknowns).
    """
    x = _clip(x0, bounds)
    if len(x) > POLICY.dense_up_to:
        return _limited_memory(objective, x, bounds, max_iter)
    return _Descent(objective, bounds, x, objective(x), curvature, enough).run(max_iter)


def multistart(
    objective: Objective,
    starts: Sequence[Array],
    bounds: Array,
    max_iter: int,
    looks: Sequence[int] = POLICY.looks,
    enough: float = POLICY.decrease,
) -> Report:
    """A few iterations from each start, then `max_iter` (0: none) on from the best; evaluations of all are counted.

    `looks` are the iterations before the starts are compared; at each but the last, those far behind are dropped.
    """
    n_evaluations, reports = 0, []
    for start in starts:
        x = _clip(start, bounds)
        if len(x) > POLICY.dense_up_to:
            reports.append(_limited_memory(objective, x, bounds, looks[0]))
        else:
            reports.append(_Descent(objective, bounds, x, objective(x), None, POLICY.decrease).run(looks[0]))
    for iterations in looks[1:]:
        n_evaluations += sum(report.n_evaluations for report in reports)
        limit = min(report.value for report in reports) + POLICY.far_behind
        near = [replace(report, n_evaluations=0) for report in reports if report.value <= limit]
        reports = [go_on(objective, report, bounds, iterations) for report in near]
    n_evaluations += sum(report.n_evaluations for report in reports)
    best = replace(min(reports, key=lambda report: report.value), n_evaluations=n_evaluations)
    return go_on(objective, best, bounds, max_iter, enough) if max_iter else best


def go_on(
    objective: Objective,
    found: Report,
    bounds: Array,
    max_iter: int,
    enough: float = POLICY.decrease,
    to_beat: float = np.inf,
) -> Report:
    """More iterations on the objective of a search, from where that ended; evaluations are counted on.

    They end early where the search is no longer expected to end below `to_beat`.
    """
    done, patience = 0, max_iter if to_beat == np.inf else POLICY.patience
    while done < max_iter and found.value - POLICY.optimism * found.promise < to_beat:
        iterations = min(patience, max_iter - done)
        if found.gradient is None:
            found = resume(objective, found, bounds, iterations)
        else:
            known = found.value, found.gradient
            descent = _Descent(objective, bounds, found.x, known, found.curvature, enough)
            found = descent.run(iterations, found.n_evaluations)
        done += found.n_iter
        if found.n_iter < iterations:
            break
    return replace(found, n_iter=done)


def resume(
    objective: Objective,
    found: Report,
    bounds: Array,
    max_iter: int,
    growth: float = 1.0,
    enough: float = POLICY.decrease,
) -> Report:
    """Minimise another objective from where a search ended, perhaps one with `growth` times fewer data.

    Evaluations are counted on.
    """
    curvature = None if found.curvature is None else growth * found.curvature
    report = minimize(objective, found.x, bounds, max_iter, curvature, enough)
    return replace(report, n_evaluations=report.n_evaluations + found.n_evaluations)


class _Descent:
    """BFGS with the whole matrix, projected on the bounds.

    An evaluation costs O(N³) and there are few unknowns, so what counts is how many evaluations it takes: a search
    that begins with the curvature of a similar one needs half as many as L-BFGS, which begins with none.
    """

    def __init__(
        self,
        objective: Objective,
        bounds: Array,
        x: Array,
        known: tuple[float, Array],
        curvature: Array | None,
        enough: float,
    ) -> None:
        self.objective, self.bounds, self.x, self.B, self.enough = objective, bounds, x, curvature, enough
        self.value, self.gradient = known
        self.n_iter = 0

    def run(self, max_iter: int, n_evaluations: int = 1) -> Report:
        """At most so many iterations; evaluations are counted on from those that it took to know the start."""
        self.n_evaluations, message = n_evaluations, ""
        while not message and self.n_iter < max_iter:
            tell(f"step {self.n_iter}, objective {self.value:.6g}")
            message = OUT_OF_TIME if out_of_time() else self._iterate()
        at_lower, at_upper = on_bounds(self.x, self.bounds)
        return Report(
            x=self.x,
            value=self.value,
            converged=message not in ("", _STUCK, OUT_OF_TIME)
            or _is_flat(self.x, self.value, self.gradient, self.bounds),
            message=message or "the limit of iterations was reached",
            n_iter=self.n_iter,
            n_evaluations=self.n_evaluations,
            at_lower=at_lower,
            at_upper=at_upper,
            curvature=self.B,
            promise=np.inf if self.B is None else -0.5 * float(self.gradient @ self._newton()),
            gradient=self.gradient,
        )

    def _iterate(self) -> str:
        """One step; says why the search is over, if it is."""
        if _projected(self.x, self.gradient, self.bounds) <= POLICY.gradient:
            return "the gradient vanished"
        guessed = self.B is None
        direction = self._newton()
        direction *= min(1.0, POLICY.longest_step / float(np.abs(direction).max(initial=np.finfo(float).tiny)))
        gain = -0.5 * float(self.gradient @ direction)
        if not guessed and gain <= 0.0:  # uphill: a curvature that is not positive definite
            self.B = None
            return ""
        if not guessed and gain <= self.enough:
            return "nothing is to be gained"
        before = self.value
        self.n_iter += 1
        if not self._step(direction, guessed):
            if guessed or _is_flat(self.x, self.value, self.gradient, self.bounds):
                return _STUCK
            self.B = None  # the gradient is not zero, so it is the curvature that is wrong
            return ""
        return "the value settled" if before - self.value <= POLICY.value * max(1.0, abs(before)) else ""

    def _newton(self) -> Array:
        """Newton's step, with the estimated curvature, in the unknowns that are not pressed against a bound."""
        low, high = self.bounds.T
        free = np.where(self.gradient > 0, self.x > low, self.x < high) & (high > low)
        if self.B is None:
            self.B = np.eye(len(self.x)) * (float(np.linalg.norm(self.gradient[free])) or 1.0)
        direction = np.zeros_like(self.x)
        try:
            if free.all():
                return np.asarray(-np.linalg.solve(self.B, self.gradient))
            direction[free] = -np.linalg.solve(self.B[free][:, free], self.gradient[free])
        except np.linalg.LinAlgError:  # an objective of extreme size: begin with no curvature again
            self.B = None
            return self._newton()
        return direction

    def _step(self, direction: Array, guessed: bool) -> bool:
        """Go as far along the direction as pays, and learn the curvature from it; False if nothing does."""
        least, largest = POLICY.shrinkage
        length = 1.0
        while length > POLICY.shortest_step:
            x = _clip(self.x + length * direction, self.bounds)
            move = x - self.x
            slope = float(self.gradient @ move)
            value, gradient = self.objective(x)
            self.n_evaluations += 1
            excess = value - self.value - slope
            if slope < 0.0 and value <= self.value + POLICY.sufficient_decrease * slope:
                self._learn(move, gradient - self.gradient, guessed)
                self.x, self.value, self.gradient = x, value, gradient
                return True
            # The minimum of the parabola through both values and the slope, within reason.
            length *= min(max(-slope / (2.0 * excess), least), largest) if excess > 0.0 else least
        return False

    def _learn(self, move: Array, change: Array, guessed: bool) -> None:
        """BFGS update, damped where the objective is not convex along the move."""
        assert self.B is not None
        along = float(move @ change)
        if guessed and along > 0.0:
            self.B = np.eye(len(move)) * float(change @ change) / along
        pull = self.B @ move
        expected = float(move @ pull)
        if along < POLICY.damping * expected:
            weight = (1.0 - POLICY.damping) * expected / (expected - along)
            change = weight * change + (1.0 - weight) * pull
        self.B = self.B - pull[:, None] * (pull / expected) + change[:, None] * (change / float(move @ change))


def _limited_memory(objective: Objective, x0: Array, bounds: Array, max_iter: int) -> Report:
    """L-BFGS-B, for many unknowns."""

    def stop_in_time(intermediate_result: object) -> None:
        if out_of_time():
            raise StopIteration

    result = scipy_minimize(
        objective,
        x0,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=stop_in_time,
        options={"maxiter": max_iter, "ftol": POLICY.value, "gtol": POLICY.gradient, "maxcor": POLICY.memory},
    )
    x, value = np.asarray(result.x), float(result.fun)
    at_lower, at_upper = on_bounds(x, bounds)
    return Report(
        x=x,
        value=value,
        converged=bool(result.success) or _is_flat(x, value, result.jac, bounds),
        message=str(result.message),
        n_iter=int(result.nit),
        n_evaluations=int(result.nfev),
        at_lower=at_lower,
        at_upper=at_upper,
    )


def on_bounds(x: Array, bounds: Array) -> tuple[Mask, Mask]:
    """Which unknowns that are free to move sit on their lower bound, and which on their upper one."""
    low, high = bounds.T
    return (low < high) & (x <= low + POLICY.on_bound), (low < high) & (x >= high - POLICY.on_bound)


def _is_flat(x: Array, value: float, gradient: Array, bounds: Array) -> bool:
    return _projected(x, gradient, bounds) <= POLICY.flat * (1.0 + abs(value))


def _projected(x: Array, gradient: Array, bounds: Array) -> float:
    """The gradient's largest entry, but for what presses an unknown against its bound."""
    return float(np.abs(x - _clip(x - gradient, bounds)).max(initial=0.0))


def _clip(x: Array, bounds: Array) -> Array:
    """np.clip, which takes three times as long for few numbers."""
    return np.minimum(np.maximum(x, bounds[:, 0]), bounds[:, 1])
