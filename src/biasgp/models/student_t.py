"""Student-t noise: y = f(x) + ε, ε ~ σ·t_ν; by fractional EP (`ep`), or by Laplace's approximation (`laplace_t`).

Known variances of readings are added to C's diagonal: the t's error is then about f plus a Gaussian error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.posterior import DensePosterior
from biasgp.covariance.signed import SignedFactor
from biasgp.covariance.threads import blas_threads_for
from biasgp.kernels import Kernel, Pullback
from biasgp.models.ep import EPPolicy, EPState, ExpectationPropagation
from biasgp.models.laplace_t import Mode
from biasgp.models.problem import OUTLIER_SIZE, Problem
from biasgp.models.strategy import covariance_bounds
from biasgp.models.t_noise import START_NU, Normality, StudentT, StudentTNoiseFit, exceedance, robust_start
from biasgp.optimize import Report, minimize


@dataclass(frozen=True)
class _EvidencePolicy:
    """How the approximate evidence is evaluated while a search goes on, and where it ends."""

    search_tolerance: float = 3e-3  # of EP: log Z is stationary in the sites, so far more accurate than they are
    search_sweeps: int = 60  # of EP's double loop
    hopeless: float = 50.0  # nats below the best seen at which EP need not converge: a line search will turn back
    final_tolerance: float = 1e-6  # of EP where the search ended
    failure_penalty: float = 1e3  # nats above the best seen, where the approximation does not exist
    max_failures: int = 6
    enough: float = 1e-4  # gain in log Z, in nats, that ends the search: within 1/70 of the parameters' standard errors


POLICY = _EvidencePolicy()
NU_RANGE = (1.0, 1e3)
"""Of the search. Below 1 the t has no mean; from some hundreds on it is Gaussian to all that data can tell."""
FRACTION, FALLBACK_FRACTION = 0.9, 0.5
"""Of EP unless another is given (1 is plain EP), and the more stable one with which EP that does not converge is tried
again."""
CURVATURE_BY_NU = 0.05
"""Curvature of −log Z in log ν that a reading adds, roughly, for ν of a few."""


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


@dataclass(frozen=True, kw_only=True)
class StudentTFit(StudentTNoiseFit):
    """A fitted Student-t model. `inference` is what the result rests on, and `fraction` EP's (1 under Laplace);
    `trouble` says what went wrong on the way there, and is empty where nothing did.
    """

    log_likelihood: float
    inference: str
    fraction: float
    n_sweeps: int
    trouble: str = ""


class _TooManyFailuresError(Exception):
    """The approximation keeps failing along a search."""


class _Evidence:
    """−log Z and its gradient in (θ, log σ², log ν). Subclasses approximate it.

    Keeps its last solution between calls: the inner problem starts where the last one ended.
    """

    inference = ""
    fraction = 1.0

    def __init__(self, problem: Problem, mean: Array, policy: _EvidencePolicy = POLICY) -> None:
        self.problem, self.y, self.mean, self.policy = problem, problem.y, mean, policy
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
        found = self.solve(C, t)
        if found is None:
            self.failures += 1
            if self.failures > self.policy.max_failures:
                raise _TooManyFailuresError
            return (self.best if np.isfinite(self.best) else 0.0) + self.policy.failure_penalty, np.zeros_like(x)
        value = -found.log_evidence
        if value < self.best:
            self.best, self.best_x = value, x.copy()
        W, by_noise = found.gradient()
        return value, np.concatenate([pullback(W), by_noise])

    def solve(self, C: Array, t: StudentT, *, final: bool = False) -> EPState | Mode | None:
        """The approximation at these parameters, from the last one; None where it does not exist."""
        raise NotImplementedError

    def at(self, report: Report) -> StudentTFit | None:
        """The model where a search ended; None where the approximation does not hold there."""
        kernel, t = self.split(report.x)
        found = self.solve(self.covariance(kernel)[0], t, final=True)
        return None if found is None else self._fit_of(found, kernel, t, report)

    def _fit_of(self, found: EPState | Mode, kernel: Kernel, t: StudentT, report: Report) -> StudentTFit:
        probability, bias = exceedance(self.y - found.mean, np.sqrt(found.variance), OUTLIER_SIZE * t.quartile_std)
        return StudentTFit(
            kernel=kernel,
            noise_variance=t.core_variance,
            scale2=t.scale2,
            nu=t.nu,
            posterior=SitePosterior(kernel, self.problem.X, found.b, found.factor.first, found.factor),
            weights=found.weights,
            outlier_probability=probability,
            bias=bias,
            hidden_outliers=Normality().contradiction(self.y - found.mean, t.nu),
            log_likelihood=found.log_evidence,
            inference=self.inference,
            fraction=self.fraction,
            n_sweeps=self.n_sweeps,
            report=report,
        )

    def broken_down(self) -> StudentTFit | None:
        """What is left of a search that met too many failures."""
        return None


class _EPEvidence(_Evidence):
    """By fractional EP."""

    inference = "ep"

    def __init__(self, problem: Problem, mean: Array, fraction: float, policy: _EvidencePolicy = POLICY) -> None:
        super().__init__(problem, mean, policy)
        self.fraction = fraction
        self.sites: Array | None = None

    def solve(self, C: Array, t: StudentT, *, final: bool = False) -> EPState | None:
        """EP from the last sites; where these fail, from weighted ones about the last mean."""
        starts = [t.sites(self.y, self.mean)]
        if self.sites is not None:
            starts.insert(0, self.sites)
        policy = EPPolicy(self.policy.final_tolerance)
        if not final:
            hopeless = -self.best - self.policy.hopeless
            policy = EPPolicy(self.policy.search_tolerance, hopeless, self.policy.search_sweeps)
        run = ExpectationPropagation(C, self.y, t, self.fraction, policy)
        state = run.run(starts)
        self.n_sweeps += run.n_sweeps
        if state is not None and state.mismatch <= policy.tolerance:
            self.sites, self.mean = state.sites, state.mean
            return state
        return state if state is not None and state.log_evidence < policy.hopeless else None


class _LaplaceEvidence(_Evidence):
    """By Laplace's approximation."""

    inference = "laplace"

    def solve(self, C: Array, t: StudentT, *, final: bool = False) -> Mode | None:
        mode = Mode.climb(C, self.y, t, self.mean)
        if mode is None or not mode.converged:
            return None
        self.n_sweeps += mode.n_steps
        self.mean = mode.mean
        return mode

    def broken_down(self) -> StudentTFit | None:
        """The best so far. Where a mode is about to vanish its curvature tends to 0 and Laplace's evidence to infinity:
        a search that is drawn there cannot converge, but its best point is hardly worse for it.
        """
        found = self.at(_no_search(self.best_x, self.best))
        return None if found is None else replace(found, trouble="Laplace's approximation breaks down near its optimum")

    def by_weights(self, x: Array) -> StudentTFit:
        """At x, by the curvature of the t's weights, where the t's own has no inverse."""
        kernel, t = self.split(x)
        mode = Mode.reweighted(self.covariance(kernel)[0], self.y, t, self.mean)
        trouble = "Laplace's approximation does not exist for these readings, and their weights' curvature stands in"
        return replace(self._fit_of(mode, kernel, t, _no_search(x, -mode.log_evidence)), trouble=trouble)


def _no_search(x: Array, value: float) -> Report:
    """At x, where no search converged."""
    nowhere = np.zeros(len(x), dtype=bool)
    return Report(x, value, False, "breakdown", 0, 0, nowhere, nowhere)


def fit(
    problem: Problem, max_iter: int, *, inference: str = "ep", nu: float | None = None, fraction: float = FRACTION
) -> StudentTFit:
    """Maximise the approximate evidence over (θ, σ²), and ν unless it is given; from where the constant bias fit ends.

    EP that fails is tried with a smaller fraction, and after that Laplace's approximation is returned.
    """
    start, scale2 = robust_start(problem, max_iter)
    mean = start.posterior.mean(problem.X)
    x = np.concatenate([start.kernel.theta, np.log([scale2, START_NU if nu is None else nu])])
    bounds = np.vstack([covariance_bounds(problem), np.log([NU_RANGE if nu is None else (nu, nu)])])
    curvature = _curvature(start.report, len(problem))
    fractions = sorted({fraction, min(fraction, FALLBACK_FRACTION)}, reverse=True) if inference == "ep" else []
    with blas_threads_for(len(problem)):
        for tried in fractions:
            found = _search(_EPEvidence(problem, mean, tried), x, bounds, max_iter, curvature)
            if found is not None:
                return found
        # Laplace's evidence is not smooth enough for another model's curvature to help.
        laplace = _LaplaceEvidence(problem, mean)
        found = _search(laplace, x, bounds, max_iter, None) or laplace.by_weights(x)
    if fractions:
        tried_all = " nor with ".join(f"{tried:g}" for tried in fractions)
        failed = f"EP did not converge, {'neither ' if len(fractions) > 1 else ''}with fraction {tried_all}"
        return replace(found, trouble="; ".join(filter(None, [failed, found.trouble])))
    return found


def _curvature(report: Report, n: int) -> Array | None:
    """A guess of the Hessian: the constant bias search's in (θ, log σ²), and a rough value in log ν."""
    if report.curvature is None:
        return None
    curvature = np.diag(np.full(len(report.x), CURVATURE_BY_NU * n))
    curvature[:-1, :-1] = report.curvature[:-1, :-1]
    return curvature


def _search(evidence: _Evidence, x: Array, bounds: Array, max_iter: int, curvature: Array | None) -> StudentTFit | None:
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
        report = minimize(scaled, x * unit, bounds * unit, max_iter, curvature, evidence.policy.enough)
    except _TooManyFailuresError:
        return evidence.broken_down()
    # A search that stops early without converging is at the edge of where the approximation exists.
    broken = evidence.broken_down() if not report.converged and report.n_iter < max_iter else None
    return broken or evidence.at(replace(report, x=report.x / unit))
