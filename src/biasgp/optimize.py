"""(value, gradient) → multistart L-BFGS → a frozen report: what converged, and what sits on a bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize as scipy_minimize

from biasgp._typing import Array, Mask

Objective = Callable[[Array], tuple[float, Array]]

# Objectives are log-likelihoods of some hundreds of nats: a relative change of 1e-9 is far below what data can tell.
VALUE_TOLERANCE = 1e-9
GRADIENT_TOLERANCE = 1e-4
SCREEN_ITERATIONS = 6


@dataclass(frozen=True)
class Report:
    """Where a search ended. `x` is best seen; the masks say which entries sit on a bound."""

    x: Array
    value: float
    converged: bool
    message: str
    n_iter: int
    n_evaluations: int
    at_lower: Mask
    at_upper: Mask


def minimize(objective: Objective, x0: Array, bounds: Array, max_iter: int) -> Report:
    """One run of L-BFGS-B."""
    low, high = bounds[:, 0], bounds[:, 1]
    result = scipy_minimize(
        objective,
        np.clip(x0, low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_iter, "ftol": VALUE_TOLERANCE, "gtol": GRADIENT_TOLERANCE, "maxcor": 20},
    )
    slack = 1e-6
    free = high > low
    return Report(
        x=np.asarray(result.x),
        value=float(result.fun),
        converged=bool(result.success) or _stalled_at_optimum(result, bounds),
        message=str(result.message),
        n_iter=int(result.nit),
        n_evaluations=int(result.nfev),
        at_lower=free & (result.x <= low + slack),
        at_upper=free & (result.x >= high - slack),
    )


def _stalled_at_optimum(result: object, bounds: Array) -> bool:
    """A line search can fail for want of precision where the gradient is already as good as zero."""
    x, gradient = np.asarray(result.x), np.asarray(result.jac)  # type: ignore[attr-defined]
    projected = x - np.clip(x - gradient, bounds[:, 0], bounds[:, 1])
    return bool(np.abs(projected).max(initial=0.0) <= 1e-5 * (1.0 + abs(float(result.fun))))  # type: ignore[attr-defined]


def multistart(objective: Objective, starts: Sequence[Array], bounds: Array, max_iter: int) -> Report:
    """A few iterations from each start, then the best one to its end."""
    if len(starts) == 1:
        return minimize(objective, starts[0], bounds, max_iter)
    screened = [minimize(objective, start, bounds, SCREEN_ITERATIONS) for start in starts]
    best = min(screened, key=lambda report: report.value)
    spent = sum(report.n_evaluations for report in screened)
    return resume(objective, replace(best, n_evaluations=spent), bounds, max_iter)


def resume(objective: Objective, found: Report, bounds: Array, max_iter: int) -> Report:
    """Go on from where another search ended; evaluations are counted on."""
    report = minimize(objective, found.x, bounds, max_iter)
    return replace(report, n_evaluations=report.n_evaluations + found.n_evaluations)
