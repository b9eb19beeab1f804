"""Student-t noise: y = f(x) + ε, ε ~ σ·t_ν; by fractional EP (`ep`), or by Laplace's approximation (`laplace_t`).

The likelihood of (θ, σ², ν) has a second mode where ν is large and σ takes in the outliers: the plain GP. The search
starts from the constant bias fit, which is on the right side of it.

Known variances of readings are added to C's diagonal: the t's error is then about f plus a Gaussian error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import shapiro

from biasgp._typing import Array
from biasgp.covariance.posterior import DensePosterior
from biasgp.covariance.signed import SignedFactor
from biasgp.covariance.threads import blas_threads_for
from biasgp.kernels import Kernel, Pullback
from biasgp.models import constant_bias, laplace_t
from biasgp.models.ep import EPPolicy, EPResult, Expectation, Natural, weighted_sites
from biasgp.models.problem import FitResult, Problem
from biasgp.models.strategy import covariance_bounds
from biasgp.models.t_noise import StudentT, beyond
from biasgp.optimize import Report, minimize

NU_START, NU_RANGE = 2.0, (1.0, 1e3)
FALLBACK_FRACTION = 0.5
"""EP that does not converge is tried again with this fraction, which is more stable."""
BY_NU = 0.05
"""Curvature of −log Z in log ν that a reading adds, roughly, for ν of a few."""
UNREACHABLE = 1e3
"""Where the approximation does not exist the objective is this much above the best seen."""
MAX_FAILURES = 6
HOPELESS = 50.0
"""This many nats below the best seen, EP need not converge: a line search will turn back anyway."""
NEAR_GAUSSIAN, DENIED = 30.0, 1e-4
"""A t of more degrees of freedom than the first is as good as Gaussian; residuals whose normality has a p-value below
the second deny it."""
ENOUGH_TO_TELL = 5000
"""Among more residuals a departure too small to matter would show."""
SEARCH_TOLERANCE, FINAL_TOLERANCE = 3e-3, 1e-6
"""Of EP. log Z is stationary in the sites, so it is far more accurate than they are while a search goes on."""
SEARCH_SWEEPS = 60
"""Of the double loop, while a search goes on."""
ENOUGH = 1e-4
"""Gain in log Z that is not worth another evaluation: parameters are then within a seventieth of their standard
errors."""


@dataclass(frozen=True)
class SitePosterior(DensePosterior):
    """f given Gaussian sites, some of negative precision: `signed` has what `factor` has for a plain GP's posterior."""

    signed: SignedFactor

    def explained(self, cross: Array) -> Array:
        taken, returned = self.signed.explain(cross.T)
        variance = np.einsum("ij,ij->j", taken, taken)
        return np.asarray(variance if returned is None else variance - np.einsum("ij,ij->j", returned, returned))

    def inverse(self) -> Array:
        return self.signed.inverse()

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and the full Cov f; needs room for len(X)² numbers."""
        cross = self.kernel(X, self.X)
        explained, returned = self.signed.explain(cross.T)
        covariance = self.kernel(X) - explained.T @ explained
        if returned is not None:
            covariance += returned.T @ returned
        return cross @ self.alpha, covariance

    def __getstate__(self) -> dict[str, Any]:
        """Without `factor`, which is the signed one's first, and what the kernel and the precisions make again."""
        kept = {name: getattr(self.signed, name) for name in ("precision", "first", "G", "second")}
        known = self.signed.C.diagonal() - self.kernel.diag(self.X)
        return {"kernel": self.kernel, "X": self.X, "alpha": self.alpha, "signed": kept, "known": known}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Whole again. Predictions rest on the factors alone, which are what they were to the bit."""
        signed, kernel, X = state["signed"], state["kernel"], state["X"]
        if isinstance(signed, dict):  # else of a model file of format 1, which has everything
            C = kernel(X)
            C.flat[:: len(C) + 1] += state["known"]
            signed = SignedFactor(C, **signed)
        vars(self).update(kernel=kernel, X=X, alpha=state["alpha"], factor=signed.first, signed=signed)


@dataclass(frozen=True)
class Marginals:
    """Of the readings: mean and variance of f (and known error), and E (ν + 1)/(ν + (y − f)²/σ²)."""

    mean: Array
    variance: Array
    weight: Array


@dataclass(frozen=True, kw_only=True)
class StudentTFit(FitResult):
    """A fitted Student-t model. `inference` is what the result rests on, and `fraction` EP's (1 under Laplace);
    `trouble` says what went wrong on the way there, and is empty where nothing did. `noise_variance` is that of a
    reading that is not an outlier.
    """

    scale2: float
    nu: float
    marginals: Marginals
    log_likelihood: float
    inference: str
    fraction: float
    n_sweeps: int
    trouble: str = ""


class TooManyFailures(Exception):
    """The approximation keeps failing along a search."""


class Evidence:
    """−log Z and its gradient in (θ, log σ², log ν). Subclasses approximate it.

    Keeps its last solution between calls: the inner problem starts where the last one ended.
    """

    def __init__(self, problem: Problem, mean: Array) -> None:
        self.problem, self.y, self.mean = problem, problem.y, mean
        self.best, self.best_x, self.failures, self.n_sweeps = np.inf, np.empty(0), 0, 0

    def split(self, x: Array) -> tuple[Kernel, StudentT]:
        """The kernel and the noise at x."""
        return self.problem.kernel.with_theta(x[:-2]), StudentT(float(np.exp(x[-2])), float(np.exp(x[-1])))

    def covariance(self, kernel: Kernel) -> tuple[Array, Pullback]:
        """C with the known variances on its diagonal, and its pullback."""
        C, pullback = kernel.vjp(self.problem.X)
        if np.any(self.problem.known > 0.0):
            C = C + np.diag(self.problem.known)
        return C, pullback

    def __call__(self, x: Array) -> tuple[float, Array]:
        kernel, t = self.split(x)
        C, pullback = self.covariance(kernel)
        found = self.value_and_slopes(C, t)
        if found is None:
            self.failures += 1
            if self.failures > MAX_FAILURES:
                raise TooManyFailures
            return (self.best if np.isfinite(self.best) else 0.0) + UNREACHABLE, np.zeros_like(x)
        value, W, by_likelihood = found
        if value < self.best:
            self.best, self.best_x = value, x.copy()
        return value, np.concatenate([pullback(W), by_likelihood])

    def value_and_slopes(self, C: Array, t: StudentT) -> tuple[float, Array, Array] | None:
        """−log Z, W to contract with ∂C, and the gradient in (log σ², log ν); None where it does not exist."""
        raise NotImplementedError

    def at(self, report: Report) -> StudentTFit | None:
        """The model where a search ended; None where the approximation does not hold there."""
        raise NotImplementedError

    def broken_down(self) -> StudentTFit | None:
        """What is left of a search that met too many failures."""
        return None


class EPEvidence(Evidence):
    """By fractional EP."""

    def __init__(self, problem: Problem, mean: Array, fraction: float) -> None:
        super().__init__(problem, mean)
        self.fraction = fraction
        self.sites: Natural | None = None

    def solve(self, C: Array, t: StudentT, tolerance: float = SEARCH_TOLERANCE) -> EPResult | None:
        """EP from the last sites; where they will not do, from weighted ones about the last mean."""
        starts = [weighted_sites(self.y, self.mean, t)]
        if self.sites is not None:
            starts.insert(0, self.sites)
        final = tolerance < SEARCH_TOLERANCE
        policy = EPPolicy(tolerance) if final else EPPolicy(tolerance, -self.best - HOPELESS, SEARCH_SWEEPS)
        run = Expectation(C, self.y, t, self.fraction, policy)
        outcome = run.run(starts)
        self.n_sweeps += run.n_sweeps
        if outcome is not None and outcome.converged:
            self.sites, self.mean = outcome.state.sites, outcome.state.mean
        return outcome

    def value_and_slopes(self, C: Array, t: StudentT) -> tuple[float, Array, Array] | None:
        outcome = self.solve(C, t)
        if outcome is None or not (outcome.converged or outcome.state.log_evidence < -self.best - HOPELESS):
            return None
        state = outcome.state
        by_likelihood = -np.array([state.tilted.by_log_scale2.sum(), state.tilted.by_log_nu.sum()])
        return -state.log_evidence, 0.5 * (state.factor.inverse() - np.outer(state.b, state.b)), by_likelihood

    def at(self, report: Report) -> StudentTFit | None:
        kernel, t = self.split(report.x)
        outcome = self.solve(self.covariance(kernel)[0], t, FINAL_TOLERANCE)
        if outcome is None or not outcome.converged:
            return None
        state = outcome.state
        return StudentTFit(
            kernel=kernel,
            noise_variance=t.core_variance,
            scale2=t.scale2,
            nu=t.nu,
            posterior=SitePosterior(kernel, self.problem.X, state.b, state.factor.first, state.factor),
            marginals=Marginals(state.mean, state.variance, state.tilted.weight),
            log_likelihood=state.log_evidence,
            inference="ep",
            fraction=self.fraction,
            n_sweeps=self.n_sweeps,
            report=report,
        )


class LaplaceEvidence(Evidence):
    """By Laplace's approximation."""

    def solve(self, C: Array, t: StudentT) -> laplace_t.Mode | None:
        """The mode, from the last one."""
        mode = laplace_t.find_mode(C, self.y, t, self.mean)
        if mode is None or not mode.converged:
            return None
        self.n_sweeps += mode.n_steps
        self.mean = mode.f
        return mode

    def broken_down(self) -> StudentTFit | None:
        """The best so far. Where a mode is about to vanish its curvature is nothing, and Laplace's evidence without
        bound: a search that is drawn there cannot converge, but is hardly worse for it.
        """
        nowhere = np.zeros(len(self.best_x), dtype=bool)
        found = self.at(Report(self.best_x, self.best, False, "breakdown", 0, 0, nowhere, nowhere))
        return None if found is None else replace(found, trouble="Laplace's approximation breaks down near its optimum")

    def value_and_slopes(self, C: Array, t: StudentT) -> tuple[float, Array, Array] | None:
        mode = self.solve(C, t)
        return None if mode is None else (-laplace_t.evidence(mode), *laplace_t.gradient(mode, self.y, t))

    def at(self, report: Report) -> StudentTFit | None:
        kernel, t = self.split(report.x)
        mode = self.solve(self.covariance(kernel)[0], t)
        return None if mode is None else self._fit_of(mode, kernel, t, report)

    def by_weights(self, x: Array) -> StudentTFit:
        """At x, by the curvature of the t's weights, where the t's own has no inverse."""
        kernel, t = self.split(x)
        mode = laplace_t.reweighted(self.covariance(kernel)[0], self.y, t, self.mean)
        nowhere = np.zeros(len(x), dtype=bool)
        report = Report(x, -laplace_t.evidence(mode), False, "breakdown", 0, 0, nowhere, nowhere)
        trouble = "Laplace's approximation does not exist for these readings, and their weights' curvature stands in"
        return replace(self._fit_of(mode, kernel, t, report), trouble=trouble)

    def _fit_of(self, mode: laplace_t.Mode, kernel: Kernel, t: StudentT, report: Report) -> StudentTFit:
        variance = mode.factor.marginal_variances()
        return StudentTFit(
            kernel=kernel,
            noise_variance=t.core_variance,
            scale2=t.scale2,
            nu=t.nu,
            posterior=SitePosterior(kernel, self.problem.X, mode.b, mode.factor.first, mode.factor),
            marginals=Marginals(mode.f, variance, (t.nu + 1.0) / (t.nu + (self.y - mode.f) ** 2 / t.scale2)),
            log_likelihood=laplace_t.evidence(mode),
            inference="laplace",
            fraction=1.0,
            n_sweeps=self.n_sweeps,
            report=report,
        )


def fit(
    problem: Problem, max_iter: int, *, inference: str = "ep", nu: float | None = None, fraction: float = 0.9
) -> StudentTFit:
    """Maximise the approximate evidence over (θ, σ²), and ν unless it is given; from where the constant bias fit ends.

    EP that fails is tried with a smaller fraction, and after that Laplace's approximation is returned.
    """
    cob = constant_bias.fit(problem, max_iter)
    mean = cob.posterior.mean(problem.X)
    # Under known variances σ² may be nothing at the start, and from there its gradient is nothing too.
    scale2 = max(cob.noise_variance, 0.3 * float(np.median(problem.known)))
    x = np.concatenate([cob.kernel.theta, np.log([scale2, NU_START if nu is None else nu])])
    bounds = np.vstack([covariance_bounds(problem), np.log([NU_RANGE if nu is None else (nu, nu)])])
    curvature = _curvature(cob.report, len(problem))
    fractions = sorted({fraction, min(fraction, FALLBACK_FRACTION)}, reverse=True) if inference == "ep" else []
    with blas_threads_for(len(problem)):
        for tried in fractions:
            found = _search(EPEvidence(problem, mean, tried), x, bounds, max_iter, curvature)
            if found is not None:
                return found
        # Laplace's evidence is not smooth enough for another model's curvature to help.
        laplace = LaplaceEvidence(problem, mean)
        found = _search(laplace, x, bounds, max_iter, None) or laplace.by_weights(x)
    if fractions:
        tried_all = " nor with ".join(f"{tried:g}" for tried in fractions)
        failed = f"EP did not converge, {'neither ' if len(fractions) > 1 else ''}with fraction {tried_all}"
        return replace(found, trouble="; ".join(filter(None, [failed, found.trouble])))
    return found


def _curvature(report: Report, n: int) -> Array | None:
    """That of the constant bias search in (θ, log σ²), for want of the t's own, and about what it is in log ν."""
    if report.curvature is None:
        return None
    curvature = np.diag(np.full(len(report.x), BY_NU * n))
    curvature[:-1, :-1] = report.curvature[:-1, :-1]
    return curvature


def _search(evidence: Evidence, x: Array, bounds: Array, max_iter: int, curvature: Array | None) -> StudentTFit | None:
    """Minimise from x, and the model there.

    Without a curvature the first step has the gradient's length, which may be far too long. In units in which the
    gradient is the step's square root it has length 1.
    """
    first = evidence(x)
    unit = 1.0 if curvature is not None else np.sqrt(max(1.0, float(np.linalg.norm(first[1]))))

    def scaled(u: Array) -> tuple[float, Array]:
        value, gradient = first if np.array_equal(u, x * unit) else evidence(u / unit)
        return value, gradient / unit

    try:
        report = minimize(scaled, x * unit, bounds * unit, max_iter, curvature, ENOUGH)
    except TooManyFailures:
        return evidence.broken_down()
    # A search that is stuck before its time is at the edge of where the approximation is of use.
    broken = evidence.broken_down() if not report.converged and report.n_iter < max_iter else None
    return broken or evidence.at(replace(report, x=report.x / unit))


def judge(y: Array, found: StudentTFit, size: float) -> tuple[Array, Array]:
    """For each reading P(|y − f| > size·`quartile_std`), and E of y − f where that is so and 0 where it is not."""
    limit = size * StudentT(found.scale2, found.nu).quartile_std
    return beyond(y - found.marginals.mean, np.sqrt(found.marginals.variance), limit)


def hidden_outliers(residuals: Array, nu: float) -> str:
    """What speaks against noise that was found to be Gaussian; empty where nothing does, or where it was not.

    The t is symmetric with one mode. Outliers that are many and on one side fit it worse than one wide Gaussian does.
    """
    if nu < NEAR_GAUSSIAN or np.ptp(residuals) <= 0.0:
        return ""
    # In units of their range: the test takes very small numbers for equal ones, and warns.
    some = (residuals / np.ptp(residuals))[:: -(-len(residuals) // ENOUGH_TO_TELL)]
    p = float(shapiro(some).pvalue)
    if p >= DENIED:
        return ""
    return f"The noise was found to be Gaussian (ν = {nu:.3g}), but the residuals are not (Shapiro–Wilk p = {p:.1g})"
