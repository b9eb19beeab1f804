"""Constant bias, COB (the paper's Section 2.1): y = f(x) + δ + ε with an L1 penalty on δ.

δ is profiled out exactly (`box_qp`), so the outer problem has the plain GP's few unknowns, and by the envelope
theorem the plain GP's gradient with y − δ for y.

With λ = k/σ the profiled loss of a residual is Huber's, so the model is Huber's least favourable density on a GP.
That density has a normaliser, which lets k be chosen by maximum likelihood. The paper's own rule for λ has no minimum;
see `alternate`.

Outliers that all lie above f drag it upwards, by about 0.17 σ where they are a tenth of the readings. So the penalty is
made cheaper on the side with more outliers, by the ratio at which their pull is balanced by that of the clean readings
(`_Penalty.balanced`): k⁺ upwards, k⁻ downwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from biasgp._typing import Array, Mask
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.covariance.protocol import Covariance, Engine
from biasgp.covariance.threads import blas_threads_for
from biasgp.kernels import Kernel
from biasgp.models import gaussian
from biasgp.models.box_qp import Box, BoxSolution
from biasgp.models.problem import LOG_2PI, FitResult, Layout, Problem
from biasgp.models.strategy import EXACT, Found, Strategy, covariance_bounds, covariance_starts, search, stages
from biasgp.optimize import POLICY as SEARCH
from biasgp.optimize import Report, go_on, minimize, multistart, resume


@dataclass(frozen=True)
class _ConstantBiasPolicy:
    """How (θ, σ², k) are searched for. Lengths are in standard deviations: of the noise for k, of y for the fence."""

    k_start: float = 0.7
    k_range: tuple[float, float] = (0.1, 3.0)
    fence: float = 10.0
    """Readings beyond weigh no more than one there: an L1 penalty bounds what an outlier does to f, but not what its
    size does to σ."""
    far_out: float = 3.0  # noise standard deviations beyond which residuals count as outliers of their side,
    max_share: float = 0.45  # up to this share of the readings
    first_iterations: int = 12  # with k free on few of the readings, before the sides are balanced on all of them
    restart_growth: float = 2.0  # of the readings since the start of the search, beyond which it is restarted
    rough_looks: tuple[int, ...] = (2, 4)  # iterations after which the starts of a rough fit are compared
    rough_enough: float = 0.3  # gain, in nats, that ends a rough fit
    rough_side: float = 0.25  # of the one-sided rough fit: the factor of k on the side that the residuals lean to


@dataclass(frozen=True)
class _PaperTuning:
    """The paper's alternation. Its second step has no minimum, so each λ is searched within a factor of the last."""

    factor: float = 10.0
    candidates: int = 201  # within that factor, either way
    at_the_end: float = 0.999  # share of the log of that factor from which a λ has run to the end of its candidates
    settled: float = 0.05  # change of log λ that ends the alternation
    max_alternations: int = 20


POLICY, PAPER = _ConstantBiasPolicy(), _PaperTuning()
MIN_SIDE = 1e-6
"""Least k of a side, as a number above 0 that a root is bracketed by."""


@dataclass(frozen=True, kw_only=True)
class ConstantBiasFit(FitResult):
    """A fitted constant bias model. k is that of each side, downwards first (NaN where λ itself was given)."""

    bias: Array
    outliers: Mask
    box: Box
    k: tuple[float, float]
    optimality: float
    objective: float


@dataclass(frozen=True)
class _Penalty:
    """What a unit of bias costs: λ where it is given, else k/σ times the factor of its side."""

    lam: float | None = None
    down: float = 1.0
    up: float = 1.0

    @classmethod
    def balanced(cls, k: float, down: float, up: float) -> _Penalty:
        """With the factors at which outliers, of which there are the shares `down` and `up`, do not shift f.

        With a share ε of outliers above, (1 − ε)·E clip(noise, −k, k⁺) + ε·k⁺ = 0, and
        E(noise − k)₊ = φ(k) − k(1 − Φ(k)).
        """
        share = abs(up - down)
        if share == 0.0:
            return cls()

        def beyond(c: float) -> float:
            return float(np.exp(-0.5 * c**2) / np.sqrt(2.0 * np.pi) - c * ndtr(-c))

        factor = brentq(lambda c: beyond(c) - share * c / (1.0 - share) - beyond(k), MIN_SIDE, k) / k
        return cls(up=factor) if up > down else cls(down=factor)

    def box(self, k: float, noise: Array) -> Box:
        """The cost of each reading's bias."""
        if self.lam is not None:
            return Box(np.full(len(noise), self.lam), np.full(len(noise), self.lam))
        each = k / np.sqrt(noise)
        return Box(self.down * each, self.up * each)

    def normaliser(self, k: float) -> tuple[float, float]:
        """log(Z/√(2π)) and its slope in log k; Z = ∫ exp(−Huber loss) over a residual in units of σ."""
        sides = k * np.array([self.down, self.up])
        tails = np.exp(-0.5 * sides**2) / sides
        Z = np.sqrt(2.0 * np.pi) * (ndtr(sides[1]) - ndtr(-sides[0])) + tails.sum()
        return float(np.log(Z) - 0.5 * LOG_2PI), float(-tails.sum() / Z)


EVEN = _Penalty()
"""The same on both sides."""


class _ConstantBiasLikelihood:
    """min over δ of RL₁, and its gradient in (θ, log σ², log k).

    Keeps which α were held between calls: the inner problem starts where the last one ended.
    """

    def __init__(self, engine: Engine, problem: Problem, penalty: _Penalty = EVEN) -> None:
        self.engine, self.problem, self.penalty = engine, problem, penalty
        self.layout = Layout(theta=len(problem.kernel.theta), noise=1, k=1)
        self.held = np.zeros(len(problem))

    def split(self, x: Array) -> tuple[Kernel, Array]:
        """The kernel and each reading's noise variance at x."""
        kernel = self.problem.kernel.with_theta(x[self.layout["theta"]])
        return kernel, self.layout.value(x, "noise") + self.problem.known

    def profile(self, x: Array, K: Covariance) -> tuple[Box, BoxSolution]:
        """The penalties at x, and the δ that minimises RL₁ there."""
        box = self.penalty.box(self.layout.value(x, "k"), K.noise)
        solution = box.solve(K, self.problem.y, self.held)
        self.held = np.sign(solution.delta)
        return box, solution

    def moved_to(self, engine: Engine, problem: Problem) -> _ConstantBiasLikelihood:
        """The same penalty for other readings, or for these in another engine, which start where these ended."""
        other = _ConstantBiasLikelihood(engine, problem, self.penalty)
        if len(problem) == len(self.problem):
            other.held = self.held
        return other

    def residual(self, x: Array) -> tuple[Array, Array]:
        """y − f at x, and the variance of each reading's noise."""
        K = self.engine.covariance(*self.split(x))
        _, found = self.profile(x, K)
        return found.delta + (K.noise + K.jitter) * found.alpha, K.noise

    def rough(self, report: Report) -> RoughFit:
        """What is known where a search ended, before there is a model."""
        p = self.layout["k"].start
        return RoughFit(report.x[:p], self.residual(report.x)[0], report.first(p).curvature)

    def rebalance(self, x: Array) -> None:
        """Balance the sides by the shares of readings that are too far from f, at x, to be noise."""
        residual, noise = self.residual(x)
        residual = residual / np.sqrt(noise)
        shares = (float(np.mean(side * residual > POLICY.far_out)) for side in (-1.0, 1.0))
        k = self.layout.value(x, "k")
        self.penalty = _Penalty.balanced(k, *(min(share, POLICY.max_share) for share in shares))

    def __call__(self, x: Array) -> tuple[float, Array]:
        K = self.engine.covariance(*self.split(x))
        box, found = self.profile(x, K)
        cost = box.cost(found.delta)
        total, variance = float(cost.sum()), self.layout.value(x, "noise")
        density = K.negative_log_density(self.problem.y - found.delta)
        value, by_variance, by_k = density.value + total, float(density.by_noise.sum()), 0.0
        if self.penalty.lam is None:
            normaliser, slope = self.penalty.normaliser(self.layout.value(x, "k"))
            value += len(self.problem) * normaliser
            by_k = len(self.problem) * slope + total
            by_variance -= 0.5 * float((cost / K.noise).sum())  # λ itself falls as σ rises
        return value, np.concatenate([density.by_theta, [variance * by_variance, by_k]])

    def model(self, report: Report) -> ConstantBiasFit:
        """The model at the parameters where a search ended."""
        x, problem, penalty = report.x, self.problem, self.penalty
        kernel, noise = self.split(x)
        K = self.engine.covariance(kernel, noise)
        box, found = self.profile(x, K)
        variance, k = self.layout.value(x, "noise"), self.layout.value(x, "k")
        runaway = ""
        if penalty.lam is not None and report.at_lower[-2]:
            # With λ fixed RL₁ has no interior minimum for a smooth kernel: σ falls, and δ absorbs what it leaves.
            floor, biased = f"{np.sqrt(variance):.2g} robust standard deviations of y", np.mean(found.delta != 0)
            runaway = f"σ (to its floor of {floor}; {biased:.0%} of the readings got a bias)"
        return ConstantBiasFit(
            kernel=kernel,
            noise_variance=variance,
            posterior=K.posterior(problem.y - found.delta),
            report=report,
            runaway=runaway,
            bias=found.delta,
            outliers=problem.outliers(found.delta, variance),
            box=box,
            k=(k * penalty.down, k * penalty.up) if penalty.lam is None else (np.nan, np.nan),
            optimality=found.optimality,
            objective=report.value,
        )


def _objective(problem: Problem, penalty: _Penalty = EVEN, engine: Engine | None = None) -> _ConstantBiasLikelihood:
    """The objective to search with, in which no reading is further out than the fence; exact unless told otherwise."""
    return _ConstantBiasLikelihood(engine or DenseEngine(problem.X), problem.clipped(POLICY.fence), penalty)


def fit(
    problem: Problem, max_iter: int, strategy: Strategy = EXACT, *, k: float | None = None, lam: float | None = None
) -> ConstantBiasFit:
    """Minimise RL₁ over (δ, θ, σ²), and over k too unless k or λ is given. λ = 0 is for the exact strategy only."""
    if lam == 0.0:
        return _fit_unregularised(problem, max_iter)
    few, tuned, penalty = problem[strategy.first_rows(problem)], k is None and lam is None, _Penalty(lam)
    starts, held, free = _starts_and_bounds(problem, k, lam)
    if tuned:
        latest, report = _fit_free_k(few, starts, held, free, max_iter)
    else:
        latest = _objective(few, penalty)
        report = search(lambda engine, part: _objective(part, penalty, engine), few, starts, held, max_iter)
    found = Found(report, len(few))

    def build(engine: Engine, whole: Problem) -> _ConstantBiasLikelihood:
        nonlocal latest
        grows = len(whole) > len(latest.problem)
        latest = latest.moved_to(engine, whole.clipped(POLICY.fence))
        if tuned and grows:
            latest.rebalance(found.report.x)
        return latest

    engine, report = strategy.complete(build, problem, found, free if tuned else held, max_iter, sample=False)
    return latest.moved_to(engine, problem).model(report)


def _starts_and_bounds(problem: Problem, k: float | None, lam: float | None) -> tuple[list[Array], Array, Array]:
    """Starts of (θ, log σ², log k), bounds with k held at its start, and with k free."""
    covariance = covariance_bounds(problem.clipped(POLICY.fence))
    if lam is not None:  # λσ is k: keep it where it means something
        covariance[-1, 0] = min(2.0 * np.log(POLICY.k_range[0] / lam), covariance[-1, 1])
    log_k = np.log(POLICY.k_start if k is None else k)
    held, free = (np.vstack([covariance, [ends]]) for ends in ([log_k, log_k], np.log(POLICY.k_range)))
    return [np.append(start, log_k) for start in covariance_starts(problem.kernel)], held, free


def _fit_free_k(
    problem: Problem, starts: list[Array], held: Array, free: Array, max_iter: int
) -> tuple[_ConstantBiasLikelihood, Report]:
    """The exact search over k too, and the objective that it ended on.

    With k free from the start, an early step of large σ sends k to where no reading is an outlier, and it stays there.
    """
    rows, *more = stages(problem)
    n_few, n_held, with_k_held = len(rows), 0, None
    with blas_threads_for(len(rows)):
        few = _objective(problem[rows])
        report = multistart(few, starts, held, min(POLICY.first_iterations, max_iter))
        few.rebalance(report.x)
        report = resume(few, report, free, min(POLICY.first_iterations, max_iter))
    for part in more or [rows]:
        with blas_threads_for(len(part)):
            objective = _objective(problem[part])
            objective.rebalance(report.x)
            report = resume(objective, report, free, max_iter, len(part) / len(rows))
            if more and (report.at_upper[-1] or len(part) > POLICY.restart_growth * n_few):
                # Few readings can be too few to follow f, or to tell outliers from noise: restart with these.
                rival = _objective(problem[part])
                if with_k_held is None:
                    with_k_held, n_held = _with_k_held(rival, starts, held, max_iter, report), len(part)
                fresh = _with_k_freed(rival, with_k_held, len(part) / n_held, free, max_iter, report.value)
                with_k_held = replace(with_k_held, n_evaluations=0)  # counted from now on
                n_evaluations = report.n_evaluations + fresh.n_evaluations
                if fresh.value < report.value:
                    objective, report = rival, fresh
                report = replace(report, n_evaluations=n_evaluations)
        rows = part
    return objective, report


def _with_k_held(
    objective: _ConstantBiasLikelihood, starts: list[Array], held: Array, max_iter: int, found: Report
) -> Report:
    """Where the usual starts lead with k held. Cut short where that promises no more than what was found has."""
    no_outliers = bool(found.at_upper[-1])
    report = multistart(objective, starts if no_outliers else starts[:1], held, 0)
    as_held, _ = objective(np.clip(found.x, held[:, 0], held[:, 1]))
    if not no_outliers and report.value - report.promise > as_held:
        return report
    return go_on(objective, report, held, min(POLICY.first_iterations, max_iter))


def _with_k_freed(
    objective: _ConstantBiasLikelihood, found: Report, growth: float, free: Array, max_iter: int, to_beat: float
) -> Report:
    """Free k, and go on from a search with k held for as long as it may still end below `to_beat`."""
    objective.rebalance(found.x)
    begun = resume(objective, found, free, min(SEARCH.patience, max_iter), growth)
    if begun.n_iter < SEARCH.patience:
        return begun
    report = go_on(objective, begun, free, max_iter - begun.n_iter, to_beat=to_beat)
    return replace(report, n_iter=begun.n_iter + report.n_iter)


@dataclass(frozen=True)
class RoughFit:
    """Where a rough fit ended: (θ, log σ²), and y − f. `curvature` is as in a report."""

    x: Array
    residual: Array
    curvature: Array | None

    @property
    def noise_variance(self) -> float:
        return float(np.exp(self.x[-1]))


def rough_fits(problem: Problem, max_iter: int) -> Iterator[RoughFit]:
    """Three fits of few iterations: with k as it starts, from there with k by maximum likelihood, and a one-sided one.

    The second shows outliers best; the first is more like a plain GP; the third tolerates most of them on one side.
    """
    objective, enough = _objective(problem), POLICY.rough_enough
    starts, held, free = _starts_and_bounds(problem, None, None)
    first = multistart(objective, starts, held, max_iter, POLICY.rough_looks, enough)
    plain = objective.moved_to(objective.engine, problem).rough(first)
    yield plain
    objective.rebalance(first.x)
    second = resume(objective, first, free, max_iter, enough=enough)
    yield objective.moved_to(objective.engine, problem).rough(second)
    above = np.mean((plain.residual - plain.residual.mean()) ** 3) > 0
    objective.penalty = _Penalty(up=POLICY.rough_side) if above else _Penalty(down=POLICY.rough_side)
    third = resume(objective, first, free, max_iter, enough=enough)
    yield objective.moved_to(objective.engine, problem).rough(third)


def _fit_unregularised(problem: Problem, max_iter: int) -> ConstantBiasFit:
    """λ = 0: descend the likelihood in (θ, σ², δ) together from the plain GP with no bias, for max_iter steps.

    The likelihood has no minimum; on the way down δ takes over the pattern of f, and f is over-smooth: the paper's
    Figure 1, and the reason for a penalty.
    """
    plain = gaussian.fit(problem, max_iter)
    n, engine = len(problem), DenseEngine(problem.X)
    layout = Layout(theta=len(problem.kernel.theta), noise=1, bias=n)

    def covariance(x: Array) -> Covariance:
        kernel = problem.kernel.with_theta(x[layout["theta"]])
        return engine.covariance(kernel, layout.value(x, "noise") + problem.known)

    def objective(x: Array) -> tuple[float, Array]:
        residual, K = problem.y - x[layout["bias"]], covariance(x)
        alpha = K.solve(residual)
        found = K.negative_log_density(residual)
        by_noise = layout.value(x, "noise") * found.by_noise.sum()
        return found.value, np.concatenate([found.by_theta, [by_noise], -alpha])

    anywhere = np.tile([-np.inf, np.inf], (n, 1))
    bounds = np.vstack([covariance_bounds(problem), anywhere])
    report = minimize(objective, np.concatenate([plain.report.x, np.zeros(n)]), bounds, max_iter)
    delta, zeros = report.x[layout["bias"]], np.zeros(n)
    return ConstantBiasFit(
        kernel=problem.kernel.with_theta(report.x[layout["theta"]]),
        noise_variance=layout.value(report.x, "noise"),
        posterior=covariance(report.x).posterior(problem.y - delta),
        report=report,
        runaway="the bias: without a penalty the likelihood has no minimum, and f is over-smooth",
        bias=delta,
        outliers=problem.outliers(delta, layout.value(report.x, "noise")),
        box=Box(zeros, zeros),
        k=(np.nan, np.nan),
        optimality=float(np.abs(objective(report.x)[1]).max()),
        objective=report.value,
    )


def alternate(problem: Problem, max_iter: int) -> ConstantBiasFit:
    """The paper's Section 2.3 to the letter: minimise RL₁ for a λ, then λ|δ|₁ + log λ over λ, until λ settles.

    That sum has no minimum: it falls for ever as λ → 0. (The Laplace prior's normaliser is −N log(λ/2); the paper has
    its sign wrong and misses the N. Corrected, the alternation runs the other way: δ → 0 raises λ = N/|δ|₁, which
    shrinks δ again.) So λ is searched within a factor of the last, and the fit it runs away from is returned.
    """
    lam = 1.0  # the reciprocal of y's robust standard deviation
    for _ in range(PAPER.max_alternations):
        found = fit(problem, max_iter, lam=lam)
        if found.runaway:
            return found
        candidates = lam * np.geomspace(1.0 / PAPER.factor, PAPER.factor, PAPER.candidates)
        chosen = int(np.argmin(candidates * np.abs(found.bias).sum() + np.log(candidates)))
        if chosen in (0, len(candidates) - 1):
            end = "0" if chosen == 0 else "infinity"
            return replace(found, runaway=f"λ (towards {end} from {lam:.3g} per robust standard deviation of y)")
        if abs(np.log(candidates[chosen] / lam)) < PAPER.settled:
            return found
        lam = float(candidates[chosen])
    return replace(found, runaway=f"λ (still moving after {PAPER.max_alternations} alternations)")
