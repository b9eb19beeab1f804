"""Student-t noise by Monte Carlo: yᵢ = f(xᵢ) + eᵢ, eᵢ ~ N(0, σ²Uᵢ), Uᵢ ~ Inv-χ²(ν, 1), which is σ·t_ν.

Every unknown is drawn from the posterior, nothing is approximated. One iteration (`mixture_steps`):

1. (θ, σ²) given U, with f integrated out: y ~ N(0, C(θ) + σ²diag U). Hamiltonian Monte Carlo on the exact gradient.
2. e given all of that: Gaussian.
3. (σ², ν) given e, with U integrated out: e ~ σ·t_ν, independent. Slice sampling; no matrix is touched.
4. U given e, σ², ν: Uᵢ ~ (ν + eᵢ²/σ²)/χ²_{ν+1}.

Steps 3 and 4 are one draw of (σ², ν, U) given e. So σ² is moved twice: once with U going along and f not there, once
with e fixed and U not there. Each is quick where the other is slow. (GPstuff has a redundant scale for that.)

Known variances of readings belong to a Gaussian error beside e: they are added to C's diagonal in 1 and 2, and 3 and 4
know nothing of them.

The priors have no unit (`coordinates`): σ is half-Cauchy in units of y's robust standard deviation; log ν is uniform.

The posterior has a second mode where ν and σ are large, the plain GP. The chains start from the constant bias fit,
which is on the right side of it, and apart from one another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.dense import FACTORISATIONS
from biasgp.covariance.threads import blas_threads_for
from biasgp.models import constant_bias
from biasgp.models.draws import DrawsPosterior, diagnose
from biasgp.models.mixture_steps import Chain, Rng, Target, draw_mixing, given
from biasgp.models.problem import FitResult, Problem
from biasgp.models.samplers import Metric, StepSize, curvature_metric
from biasgp.models.t_noise import StudentT, beyond
from biasgp.optimize import Report
from biasgp.watch import did, expect, stage

START_NU, START_WIDTH = 2.0, 3.0
"""Chains start about this ν, and with logarithms no further than this from the middle of their prior."""
APART = 1.5
"""Standard deviations of the starts, in units of the posterior's own."""
KEPT = 100
"""Predictions average over about this many draws, evenly spaced."""
ITERATIONS = "iterations"
"""Kind of work."""
RELEARN = (0.2, 0.5)
"""Shares of the tuning after which the metric is learnt from the draws since the last time."""

Progress = Callable[[int, int], None]
"""Called with the iterations done and to do."""


@dataclass(frozen=True)
class Plan:
    """How much to sample: iterations to keep and to tune with before, of each of several chains."""

    draws: int
    tune: int
    chains: int

    @property
    def stride(self) -> int:
        """Every how many iterations the whole state is kept for predictions."""
        return max(1, self.draws * self.chains // KEPT)


class Trace:
    """What is left of the iterations: the parameters of all, averages over all, and enough of a few to predict from."""

    def __init__(self, data: Target, plan: Plan, size: float) -> None:
        self.data, self.plan, self.size = data, plan, size
        self.x: list[Array] = []
        self.log_nu: list[Array] = []
        self.kept: list[tuple[Array, Array, Array]] = []
        self.sums, self.jitter = np.zeros((3, len(data.problem.y))), 0.0

    @property
    def averages(self) -> Array:
        """Of each reading, over the draws: probability of an outlier, its bias, weight."""
        return self.sums / (len(self.x) * self.plan.chains)

    def record(self, chains: list[Chain]) -> None:
        """Take down an iteration of all chains."""
        for chain in chains:
            at, nu = chain.at, exp(chain.log_nu)
            limit = self.size * StudentT(at.scale2, nu).quartile_std
            mean, variance = at.error_moments
            self.sums[:2] += beyond(mean, np.sqrt(variance), limit)
            self.sums[2] += (nu + 1.0) / (nu + chain.e**2 / at.scale2)
            self.jitter = max(self.jitter, at.jitter)
            if len(self.x) % self.plan.stride == 0:
                self.kept.append((at.full[:-1], at.errors + self.data.problem.known, at.alpha))
        self.x.append(np.stack([chain.at.full for chain in chains]))
        self.log_nu.append(np.array([chain.log_nu for chain in chains]))


@dataclass(frozen=True, kw_only=True)
class ScaleMixtureFit(FitResult):
    """Draws from the posterior and what they say.

    `draws` has the parameters that are not held by name, in model units, one row per chain; the averages are over all.
    `noise_variance` is that of a reading that is not an outlier.
    """

    posterior: DrawsPosterior
    scale2: float
    nu: float
    scales2: Array
    nus: Array
    draws: dict[str, Array]
    r_hat: dict[str, float]
    effective_sample_size: dict[str, float]
    outlier_probability: Array
    bias: Array
    weights: Array
    interrupted: bool


def fit(
    problem: Problem,
    max_iter: int,
    plan: Plan,
    seed: np.random.SeedSequence,
    *,
    nu: float | None = None,
    size: float = 2.5,
    progress: Progress | None = None,
    keep_on_interrupt: bool = False,
) -> ScaleMixtureFit:
    """Sample from the posterior of everything; ν is held where it is given.

    A reading counts as an outlier where its error is beyond `size` standard deviations of most errors. With
    `keep_on_interrupt`, a KeyboardInterrupt after the tuning ends the sampling and not the fit.
    """
    data = Target.of(problem, nu)
    rngs = [np.random.default_rng(child) for child in seed.spawn(plan.chains)]
    with blas_threads_for(len(problem)):
        chains, metric = start(data, rngs, max_iter)
        trace = Trace(data, plan, size)
        interrupted = False
        try:
            sample(data, chains, metric, plan, trace, progress)
        except KeyboardInterrupt:
            if not (keep_on_interrupt and trace.x):
                raise
            interrupted = True
    return _summary(trace, interrupted)


def start(data: Target, rngs: list[Rng], max_iter: int) -> tuple[list[Chain], Metric]:
    """A chain for each generator, about the constant bias fit, further apart than the posterior is wide."""
    cob = constant_bias.fit(data.problem, max_iter)
    # Under known variances σ² may be nothing there.
    scale2 = max(cob.noise_variance, 0.3 * float(np.median(data.problem.known)))
    x = np.append(cob.kernel.theta, np.log(scale2))
    center = data.coordinates.center
    u = data.coordinates.outside(np.clip(x, center - START_WIDTH, center + START_WIDTH))
    e = data.problem.y - cob.posterior.mean(data.problem.X)
    expected = (START_NU + e**2 / scale2) / (START_NU + 1.0)
    metric = curvature_metric(lambda at: given(data, at, expected).gradient, u)
    nus = np.clip(START_NU * np.geomspace(0.5, 5.0, len(rngs)), *data.nu_range)
    chains = []
    for rng, nu in zip(rngs, nus.tolist(), strict=True):
        where = u + APART * (metric.root @ rng.standard_normal(len(u)))
        chains.append(Chain(given(data, where, draw_mixing(e, scale2, nu, rng)), log(nu), e, rng))
    return chains, metric


def sample(
    data: Target, chains: list[Chain], metric: Metric, plan: Plan, trace: Trace, progress: Progress | None
) -> None:
    """Run all chains side by side, one iteration of each in turn; they tune a metric and a step together."""
    step, seen = StepSize(0.5), []
    relearn = {max(1, int(share * plan.tune)) for share in RELEARN}
    stage("sampling")
    expect(FACTORISATIONS, 0.0)
    expect(ITERATIONS, plan.tune + plan.draws)
    for iteration in range(plan.tune + plan.draws):
        tuning = iteration < plan.tune
        for chain in chains:
            acceptance = chain.advance(data, metric, step.current if tuning else step.settled)
            if tuning:
                step.learn(acceptance)
                seen.append((chain.at.x, chain.at.gradient))
        if tuning and iteration + 1 in relearn:
            metric, seen = metric.learnt(*(np.stack(part) for part in zip(*seen, strict=True))), []
            step.restart(step.settled)
        if not tuning:
            trace.record(chains)
        did(ITERATIONS, 1.0)
        if progress is not None:
            progress(iteration + 1, plan.tune + plan.draws)
    expect(ITERATIONS, 0.0)


def _summary(trace: Trace, interrupted: bool) -> ScaleMixtureFit:
    data = trace.data
    x, log_nu = np.stack(trace.x, axis=1), np.stack(trace.log_nu, axis=1)
    scales2, nus = np.exp(x[..., -1]), np.exp(log_nu)
    cores = [StudentT(*pair).core_variance for pair in zip(scales2.flat, nus.flat, strict=True)]
    names = [*data.problem.kernel.parameter_names, "scale2"]
    draws = {name: np.exp(x[..., j]) for j, name in enumerate(names) if data.coordinates.free[j]}
    if data.nu_range[0] < data.nu_range[1]:
        draws["degrees_of_freedom"] = nus
    r_hat, ess = diagnose(draws)
    kernel = data.problem.kernel.with_theta(x[..., :-1].mean(axis=(0, 1)))
    thetas, noises, alphas = (np.stack(part) for part in zip(*trace.kept, strict=True))
    keep = slice(None, None, trace.plan.stride)
    probability, bias, weights = trace.averages
    nowhere = np.zeros(x.shape[-1], dtype=bool)
    return ScaleMixtureFit(
        kernel=kernel,
        noise_variance=float(np.mean(cores)),
        scale2=float(scales2.mean()),
        nu=float(np.exp(np.median(log_nu))),
        posterior=DrawsPosterior(kernel, data.problem.X, data.problem.y, thetas, noises, alphas, trace.jitter),
        # In the order of `kept`: all chains of an iteration, then those of the next.
        scales2=scales2[:, keep].T.ravel(),
        nus=nus[:, keep].T.ravel(),
        draws=draws,
        r_hat=r_hat,
        effective_sample_size=ess,
        outlier_probability=probability,
        bias=bias,
        weights=weights,
        interrupted=interrupted,
        report=Report(x.mean(axis=(0, 1)), np.nan, True, "", x.shape[1], x.shape[1], nowhere, nowhere),
    )
