"""Student-t noise by Monte Carlo: yᵢ = f(xᵢ) + eᵢ, eᵢ ~ N(0, σ²Uᵢ), Uᵢ ~ Inv-χ²(ν, 1), which is σ·t_ν.

Every unknown is drawn from the posterior, without approximation. One iteration (`mixture_steps`):

1. (θ, σ²) given U, with f integrated out: y ~ N(0, C(θ) + σ²diag U). Hamiltonian Monte Carlo on the exact gradient.
2. e given all of that: Gaussian.
3. (σ², ν) given e, with U integrated out: e ~ σ·t_ν, independent. Slice sampling; no matrix is touched.
4. U given e, σ², ν: Uᵢ ~ (ν + eᵢ²/σ²)/χ²_{ν+1}.

Steps 3 and 4 are one draw of (σ², ν, U) given e. So σ² is moved twice: once with U going along and f not there, once
with e fixed and U not there. Each is quick where the other is slow. (GPstuff has a redundant scale for that.)

Known variances of readings belong to a Gaussian error beside e: they are added to C's diagonal in 1 and 2, and do not
enter 3 and 4.

The priors have no unit (`mixture_steps`): σ is half-Cauchy in units of y's robust standard deviation; log ν is uniform.

The chains start about the constant bias fit (`robust_start`), apart from one another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from math import exp, log
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.dense import FACTORISATIONS
from biasgp.covariance.draws import DrawsPosterior
from biasgp.covariance.threads import blas_threads_for
from biasgp.models.mixture_steps import Chain, Target
from biasgp.models.problem import OUTLIER_SIZE, Problem
from biasgp.models.t_noise import START_NU, Normality, StudentT, StudentTNoiseFit, exceedance, robust_start
from biasgp.optimize import Report
from biasgp.samplers import Metric, StepSize
from biasgp.watch import ledger, stage

ITERATIONS = "iterations"
"""Kind of work."""
MIN_DRAWS = 4
"""Draws of a chain that split-R̂ needs."""

Progress = Callable[[int, int], None]
"""Called with the iterations done and to do."""


@dataclass(frozen=True)
class Plan:
    """How much to sample: iterations to keep and to tune with before, of each of several chains; and how.

    ν is held where it is given. With `keep_on_interrupt`, a KeyboardInterrupt after the tuning ends the sampling and
    not the fit.
    """

    draws: int
    tune: int
    chains: int
    nu: float | None = None
    keep_on_interrupt: bool = False
    kept: int = 100  # draws, evenly spaced, over which predictions average; about
    start_width: float = 3.0  # from the middle of their prior, within which logarithms of parameters start
    start_spread: float = 1.5  # standard deviations of the starts, in units of the posterior's own
    start_nus: tuple[float, float] = (0.5, 5.0)  # the chains' lowest and highest ν, in units of START_NU
    first_step: float = 0.5  # leapfrog step, in standard deviations
    relearn: tuple[float, ...] = (0.2, 0.5)  # shares of the tuning after which the metric is learnt from recent draws

    @property
    def stride(self) -> int:
        """Every how many iterations the whole state is kept for predictions."""
        return max(1, self.draws * self.chains // self.kept)


class _Trace:
    """What is kept of the iterations: the parameters of all, averages over all, and enough of a few to predict from."""

    def __init__(self, target: Target, plan: Plan) -> None:
        self.target, self.plan = target, plan
        self.x: list[Array] = []
        self.log_nu: list[Array] = []
        self.kept: list[tuple[Array, Array, Array]] = []
        self.sums, self.jitter, self.interrupted = np.zeros((3, len(target.problem))), 0.0, False

    def record(self, chains: list[Chain]) -> None:
        """Record an iteration of all chains."""
        for chain in chains:
            at, t = chain.at, StudentT(chain.at.scale2, exp(chain.log_nu))
            mean, variance = at.error_moments
            self.sums[:2] += exceedance(mean, np.sqrt(variance), OUTLIER_SIZE * t.quartile_std)
            self.sums[2] += t.weight(chain.e)
            self.jitter = max(self.jitter, at.jitter)
            if len(self.x) % self.plan.stride == 0:
                self.kept.append((at.full[:-1], at.errors + self.target.problem.known, at.alpha))
        self.x.append(np.stack([chain.at.full for chain in chains]))
        self.log_nu.append(np.array([chain.log_nu for chain in chains]))


@dataclass(frozen=True, kw_only=True)
class ScaleMixtureFit(StudentTNoiseFit):
    """Draws from the posterior and what they say.

    `draws` has the parameters that are not held by name, in model units, one row per chain; the averages are over all.
    """

    posterior: DrawsPosterior
    scales2: Array
    nus: Array
    draws: dict[str, Array]
    r_hat: dict[str, float]
    effective_sample_size: dict[str, float]
    interrupted: bool


def fit(
    problem: Problem, max_iter: int, plan: Plan, seed: np.random.SeedSequence, progress: Progress | None = None
) -> ScaleMixtureFit:
    """Sample from the posterior of everything, from about where a search of at most `max_iter` iterations ends."""
    target = Target.of(problem, plan.nu)
    rngs = [np.random.default_rng(child) for child in seed.spawn(plan.chains)]
    with blas_threads_for(len(problem)):
        return _sample(target, *_start(target, rngs, plan, max_iter), plan, progress)


def _start(target: Target, rngs: list[np.random.Generator], plan: Plan, max_iter: int) -> tuple[list[Chain], Metric]:
    """A chain for each generator, about the constant bias fit, further apart than the posterior is wide."""
    problem, coordinates = target.problem, target.coordinates
    found, scale2 = robust_start(problem, max_iter)
    x = np.append(found.kernel.theta, np.log(scale2))
    u = coordinates.outside(np.clip(x, coordinates.center - plan.start_width, coordinates.center + plan.start_width))
    e = problem.y - found.posterior.mean(problem.X)
    expected = (START_NU + e**2 / scale2) / (START_NU + 1.0)
    metric = Metric.of_curvature(lambda at: target.at(at, expected).gradient, u)
    nus = np.clip(START_NU * np.geomspace(*plan.start_nus, len(rngs)), *target.nu_range)
    chains = []
    for rng, nu in zip(rngs, nus.tolist(), strict=True):
        where = u + plan.start_spread * (metric.root @ rng.standard_normal(len(u)))
        chains.append(Chain(target.at(where, StudentT(scale2, nu).draw_mixing(e, rng)), log(nu), e, rng))
    return chains, metric


def _sample(
    target: Target, chains: list[Chain], metric: Metric, plan: Plan, progress: Progress | None = None
) -> ScaleMixtureFit:
    """Run all chains side by side, one iteration of each in turn; they tune a metric and a step together."""
    trace, step, seen = _Trace(target, plan), StepSize(plan.first_step), []
    relearn = {max(1, int(share * plan.tune)) for share in plan.relearn}
    total = plan.tune + plan.draws
    stage("sampling")
    ledger().expect(FACTORISATIONS, 0.0)
    ledger().expect(ITERATIONS, total)
    try:
        for iteration in range(total):
            tuning = iteration < plan.tune
            for chain in chains:
                acceptance = chain.advance(target, metric, step.current if tuning else step.settled)
                if tuning:
                    step.learn(acceptance)
                    seen.append((chain.at.x, chain.at.gradient))
            if tuning and iteration + 1 in relearn:
                metric, seen = metric.learnt(*(np.stack(part) for part in zip(*seen, strict=True))), []
                step.restart(step.settled)
            if not tuning:
                trace.record(chains)
            ledger().did(ITERATIONS, 1.0)
            if progress is not None:
                progress(iteration + 1, total)
    except KeyboardInterrupt:
        if not (plan.keep_on_interrupt and trace.x):
            raise
        trace.interrupted = True
    ledger().expect(ITERATIONS, 0.0)
    return _summary(trace)


def _diagnose(draws: dict[str, Array]) -> tuple[dict[str, float], dict[str, float]]:
    """Split-R̂ (of ranks, and of their distance from the middle: the worse) and bulk effective sample size, by name.

    Each array has one row per chain. NaN where there are too few draws to tell.
    """
    array_stats: Any = import_module("arviz_stats.base").array_stats  # takes a second to import

    if any(values.shape[1] < MIN_DRAWS for values in draws.values()):
        return dict.fromkeys(draws, np.nan), dict.fromkeys(draws, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # a chain that never moved has no variance
        r_hat = {name: float(array_stats.rhat(values, method="rank")) for name, values in draws.items()}
        ess = {name: float(array_stats.ess(values, method="bulk")) for name, values in draws.items()}
    return r_hat, ess


def _summary(trace: _Trace) -> ScaleMixtureFit:
    target, problem = trace.target, trace.target.problem
    x, log_nu = np.stack(trace.x, axis=1), np.stack(trace.log_nu, axis=1)
    scales2, nus = np.exp(x[..., -1]), np.exp(log_nu)
    nu = float(np.exp(np.median(log_nu)))
    cores = [StudentT(*pair).core_variance for pair in zip(scales2.flat, nus.flat, strict=True)]
    names = [*problem.kernel.parameter_names, "scale2"]
    draws = {name: np.exp(x[..., j]) for j, name in enumerate(names) if target.coordinates.free[j]}
    nu_is_free = target.nu_range[0] < target.nu_range[1]
    if nu_is_free:
        draws["degrees_of_freedom"] = nus
    r_hat, ess = _diagnose(draws)
    kernel = problem.kernel.with_theta(x[..., :-1].mean(axis=(0, 1)))
    thetas, noises, alphas = (np.stack(part) for part in zip(*trace.kept, strict=True))
    posterior = DrawsPosterior(kernel, problem.X, problem.y, thetas, noises, alphas, trace.jitter)
    keep = slice(None, None, trace.plan.stride)
    probability, bias, weights = trace.sums / log_nu.size
    nowhere = np.zeros(x.shape[-1], dtype=bool)
    return ScaleMixtureFit(
        kernel=kernel,
        noise_variance=float(np.mean(cores)),
        scale2=float(scales2.mean()),
        nu=nu,
        posterior=posterior,
        # In the order of `kept`: all chains of an iteration, then those of the next.
        scales2=scales2[:, keep].T.ravel(),
        nus=nus[:, keep].T.ravel(),
        draws=draws,
        r_hat=r_hat,
        effective_sample_size=ess,
        outlier_probability=probability,
        bias=bias,
        weights=weights,
        hidden_outliers=Normality().contradiction(problem.y - posterior.mean(problem.X), nu) if nu_is_free else "",
        interrupted=trace.interrupted,
        report=Report(x.mean(axis=(0, 1)), np.nan, True, "", x.shape[1], x.shape[1], nowhere, nowhere),
    )
