"""Constant bias, COB (the paper's Section 2.1): y = f(x) + δ + ε with an L1 penalty on δ.

δ is profiled out exactly (`box_qp`), so the outer problem has the plain GP's few unknowns, and by the envelope
theorem the plain GP's gradient with y − δ for y.

With λ = k/σ the profiled loss of a residual is Huber's, so the model is Huber's least favourable density on a GP.
That density has a normaliser, which lets k be chosen by maximum likelihood. The paper's own rule for λ has no minimum;
see `alternate`.

Outliers that all lie above f drag it upwards, by about 0.17 σ where they are a tenth of the readings. So the penalty is
made cheaper on the side with more outliers, by the ratio at which their pull is balanced by that of the clean readings
(`balance`): k⁺ upwards, k⁻ downwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from biasgp._typing import Array
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.covariance.protocol import Covariance, Engine
from biasgp.covariance.threads import blas_threads_for
from biasgp.models import gaussian
from biasgp.models.box_qp import Box, BoxSolution, solve
from biasgp.models.problem import LOG_2PI, FitResult, Layout, Problem
from biasgp.models.strategy import EXACT, Found, Strategy, covariance_bounds, covariance_starts, search, stages
from biasgp.optimize import POLICY, Report, go_on, minimize, multistart, resume

K_START, K_RANGE = 0.7, (0.1, 3.0)
STEEP = 0.25
"""Side of the lopsided rough fit: the penalty of a bias in the direction that the residuals lean to."""
FENCE = 10.0
"""Readings beyond this many robust standard deviations of y weigh no more than one there in the choice of (θ, σ², k):
an L1 penalty bounds what an outlier does to f, but not what its size does to σ."""
FIRST_ITERATIONS = 12
"""With k free on few of the readings, before the sides are balanced on all of them."""
FEW_IS_TOO_FEW = 2
"""With more than so many times the readings that the search began on, its start is tried once more."""
ROUGH_LOOKS, ROUGHLY = (2, 4), 0.3
"""Of a rough fit: iterations after which its starts are compared, and the gain that is not worth another one."""
FAR_OUT, MAX_SHARE = 3.0, 0.45
"""Residuals beyond this many noise standard deviations count as outliers of their side, up to this share."""
LAMBDA_STEP, MAX_ALTERNATIONS = 10.0, 20


@dataclass(frozen=True, kw_only=True)
class ConstantBiasFit(FitResult):
    """A fitted constant bias model. k is that of each side, downwards first (NaN where λ itself was given)."""

    bias: Array
    box: Box
    k: tuple[float, float]
    optimality: float
    objective: float


Sides = tuple[float, float]
"""What k is multiplied by downwards and upwards."""


def huber_normaliser(k_down: float, k_up: float) -> tuple[float, float]:
    """log(Z/√(2π)) and its slope in the logarithm of both k; Z = ∫ exp(−Huber loss) over a residual in units of σ."""
    k = np.array([k_down, k_up])
    tails = np.exp(-0.5 * k**2) / k
    Z = np.sqrt(2.0 * np.pi) * (ndtr(k_up) - ndtr(-k_down)) + tails.sum()
    return float(np.log(Z) - 0.5 * LOG_2PI), float(-tails.sum() / Z)


def balance(k: float, up: float, down: float) -> Sides:
    """Factors of k at which outliers, of which there are the shares `up` and `down`, do not shift f.

    With a share ε of outliers above, (1 − ε)·E clip(noise, −k, k⁺) + ε·k⁺ = 0, and E(noise − k)₊ = φ(k) − k(1 − Φ(k)).
    """
    share = abs(up - down)
    if share == 0.0:
        return 1.0, 1.0

    def beyond(c: float) -> float:
        return float(np.exp(-0.5 * c**2) / np.sqrt(2.0 * np.pi) - c * ndtr(-c))

    factor = brentq(lambda c: beyond(c) - share * c / (1.0 - share) - beyond(k), 1e-6, k) / k
    return (1.0, factor) if up > down else (factor, 1.0)


def balanced_sides(k: float, found: BoxSolution, noise: Array) -> Sides:
    """`balance`, with the shares of the readings that are too far from f to be noise."""
    residual = (found.delta + noise * found.alpha) / np.sqrt(noise)
    up, down = float(np.mean(residual > FAR_OUT)), float(np.mean(residual < -FAR_OUT))
    return balance(k, min(up, MAX_SHARE), min(down, MAX_SHARE))


def penalties(k: float, noise: Array, lam: float | None, sides: Sides) -> Box:
    """What a unit of bias costs: λ where it is given, else k/σ times its side."""
    if lam is not None:
        return Box(np.full(len(noise), lam), np.full(len(noise), lam))
    each = k / np.sqrt(noise)
    return Box(sides[0] * each, sides[1] * each)


class ConstantBiasLikelihood:
    """min over δ of RL₁, and its gradient in (θ, log σ², log k): λ = k/σ times its side. With `lam`, λ is that.

    Keeps which α were held between calls: the inner problem starts where the last one ended.
    """

    def __init__(self, engine: Engine, problem: Problem, lam: float | None = None, sides: Sides = (1.0, 1.0)) -> None:
        self.engine, self.problem, self.lam, self.sides = engine, problem, lam, sides
        self.layout = Layout(theta=len(problem.kernel.theta), noise=1, k=1)
        self.held = np.zeros(len(problem))

    def profile(self, x: Array) -> tuple[Covariance, Box, BoxSolution]:
        """The covariance at x, the penalties, and the δ that minimises RL₁ there."""
        noise = self.layout.value(x, "noise") + self.problem.known
        K = self.engine.covariance(self.problem.kernel.with_theta(x[self.layout["theta"]]), noise)
        box = penalties(self.layout.value(x, "k"), noise, self.lam, self.sides)
        solution = solve(K, self.problem.y, box, self.held)
        self.held = np.sign(solution.delta)
        return K, box, solution

    def moved_to(self, engine: Engine, problem: Problem) -> ConstantBiasLikelihood:
        """The same penalties for other readings, or for these in another engine, which start where these ended."""
        other = ConstantBiasLikelihood(engine, problem, self.lam, self.sides)
        if len(problem) == len(self.problem):
            other.held = self.held
        return other

    def rebalance(self, x: Array) -> None:
        """Set the sides from the readings that are too far from f, at x, to be noise."""
        K, _, found = self.profile(x)
        self.sides = balanced_sides(self.layout.value(x, "k"), found, K.noise)

    def __call__(self, x: Array) -> tuple[float, Array]:
        K, box, found = self.profile(x)
        n, k, cost = len(self.problem), self.layout.value(x, "k"), box.cost(found.delta)
        total = float(cost.sum())
        density = K.negative_log_density(self.problem.y - found.delta)
        value, by_variance, by_k = density.value + total, float(density.by_noise.sum()), 0.0
        if self.lam is None:
            normaliser, slope = huber_normaliser(k * self.sides[0], k * self.sides[1])
            value += n * normaliser
            by_k = n * slope + total
            by_variance -= 0.5 * float((cost / K.noise).sum())  # λ itself falls as σ rises
        variance = self.layout.value(x, "noise")
        return value, np.concatenate([density.by_theta, [variance * by_variance, by_k]])


def fit(
    problem: Problem, max_iter: int, strategy: Strategy = EXACT, *, k: float | None = None, lam: float | None = None
) -> ConstantBiasFit:
    """Minimise RL₁ over (δ, θ, σ²), and over k too unless k or λ is given."""
    few, tuned = problem[strategy.first_rows(problem)], k is None and lam is None
    bounds_held, bounds_free = _bounds(problem, k, lam)
    starts = [np.append(start, bounds_held[-1, 0]) for start in covariance_starts(problem.kernel)]
    if tuned:
        latest, report = _fit_free_k(few, starts, bounds_held, bounds_free, max_iter)
    else:
        latest = _objective(few, lam)
        report = search(lambda engine, part: _on(engine, part, lam), few, starts, bounds_held, max_iter)
    found = Found(report, len(few))

    def build(engine: Engine, whole: Problem) -> ConstantBiasLikelihood:
        nonlocal latest
        grows = len(whole) > len(latest.problem)
        latest = latest.moved_to(engine, whole.clipped(FENCE))
        if tuned and grows:
            latest.rebalance(found.report.x)
        return latest

    bounds = bounds_free if tuned else bounds_held
    engine, report = strategy.complete(build, problem, found, bounds, max_iter, sample=False)
    return at(latest.moved_to(engine, problem), report)


def _fit_free_k(
    problem: Problem, starts: list[Array], held: Array, free: Array, max_iter: int
) -> tuple[ConstantBiasLikelihood, Report]:
    """The exact search over k too, and the objective that it ended on.

    With k free from the start, an early step of large σ sends k to where nothing is an outlier, for good.
    """
    rows, *more = stages(problem.X, problem.y)
    n_few, n_stone, stone = len(rows), 0, None
    with blas_threads_for(len(rows)):
        few = _objective(problem[rows])
        report = multistart(few, starts, held, min(FIRST_ITERATIONS, max_iter))
        few.rebalance(report.x)
        report = resume(few, report, free, min(FIRST_ITERATIONS, max_iter))
    for part in more or [rows]:
        with blas_threads_for(len(part)):
            objective = _objective(problem[part])
            objective.rebalance(report.x)
            report = resume(objective, report, free, max_iter, len(part) / len(rows))
            if more and (report.at_upper[-1] or len(part) > FEW_IS_TOO_FEW * n_few):
                # Few readings can be too few to follow f, or to tell outliers from noise: once more with these.
                rival = _objective(problem[part])
                if stone is None:
                    stone, n_stone = _stepping_stone(rival, starts, held, max_iter, report), len(part)
                fresh = _follow(rival, stone, len(part) / n_stone, free, max_iter, report.value)
                stone = replace(stone, n_evaluations=0)  # counted from now on
                n_evaluations = report.n_evaluations + fresh.n_evaluations
                if fresh.value < report.value:
                    objective, report = rival, fresh
                report = replace(report, n_evaluations=n_evaluations)
        rows = part
    return objective, report


def _stepping_stone(
    objective: ConstantBiasLikelihood, starts: list[Array], fixed: Array, max_iter: int, found: Report
) -> Report:
    """Where the usual starts lead with k held. Cut short where that promises no more than what was found has."""
    nothing_stood_out = bool(found.at_upper[-1])
    stone = multistart(objective, starts if nothing_stood_out else starts[:1], fixed, 0)
    as_held, _ = objective(np.clip(found.x, fixed[:, 0], fixed[:, 1]))
    if not nothing_stood_out and stone.value - stone.promise > as_held:
        return stone
    return go_on(objective, stone, fixed, min(FIRST_ITERATIONS, max_iter))


def _follow(
    objective: ConstantBiasLikelihood, stone: Report, growth: float, free: Array, max_iter: int, to_beat: float
) -> Report:
    """Free k, and go on from a stepping stone for as long as it may still end below `to_beat`."""
    objective.rebalance(stone.x)
    begun = resume(objective, stone, free, min(POLICY.patience, max_iter), growth)
    if begun.n_iter < POLICY.patience:
        return begun
    report = go_on(objective, begun, free, max_iter - begun.n_iter, to_beat=to_beat)
    return replace(report, n_iter=begun.n_iter + report.n_iter)


def rough_fits(problem: Problem, max_iter: int) -> Iterator[ConstantBiasFit]:
    """Three fits of few iterations: with k as it starts, from there with k by maximum likelihood, and a lopsided one.

    The second shows outliers best; the first is more like a plain GP; the third bears most of them on one side.
    """
    objective = _objective(problem)
    held, free = _bounds(problem, None, None)
    starts = [np.append(start, held[-1, 0]) for start in covariance_starts(problem.kernel)]
    first = multistart(objective, starts, held, max_iter, ROUGH_LOOKS, ROUGHLY)
    plain = at(objective.moved_to(objective.engine, problem), first)
    yield plain
    objective.rebalance(first.x)
    second = resume(objective, first, free, max_iter, enough=ROUGHLY)
    yield at(objective.moved_to(objective.engine, problem), second)
    residual = problem.y - plain.posterior.mean(problem.X)
    objective.sides = (1.0, STEEP) if np.mean((residual - residual.mean()) ** 3) > 0 else (STEEP, 1.0)
    third = resume(objective, first, free, max_iter, enough=ROUGHLY)
    yield at(objective.moved_to(objective.engine, problem), third)


def _on(engine: Engine, problem: Problem, lam: float | None) -> ConstantBiasLikelihood:
    """The objective to search with, in which no reading is further out than the fence."""
    return ConstantBiasLikelihood(engine, problem.clipped(FENCE), lam)


def _objective(problem: Problem, lam: float | None = None) -> ConstantBiasLikelihood:
    """The exact one."""
    return _on(DenseEngine(problem.X), problem, lam)


def _bounds(problem: Problem, k: float | None, lam: float | None) -> tuple[Array, Array]:
    """Bounds with k held at its start, and with k free."""
    covariance = covariance_bounds(problem.clipped(FENCE))
    if lam is not None:  # λσ is k: keep it where it means something
        covariance[-1, 0] = min(2.0 * np.log(K_RANGE[0] / lam), covariance[-1, 1])
    start = np.full((1, 2), np.log(K_START if k is None else k))
    return np.vstack([covariance, start]), np.vstack([covariance, np.log([K_RANGE])])


def at(likelihood: ConstantBiasLikelihood, report: Report) -> ConstantBiasFit:
    """The model at the parameters where a search ended."""
    K, box, found = likelihood.profile(report.x)
    layout, sides, tuned = likelihood.layout, likelihood.sides, likelihood.lam is None
    k = layout.value(report.x, "k")
    return ConstantBiasFit(
        kernel=likelihood.problem.kernel.with_theta(report.x[layout["theta"]]),
        noise_variance=layout.value(report.x, "noise"),
        posterior=K.posterior(likelihood.problem.y - found.delta),
        report=report,
        runaway="" if tuned else _runaway(found.delta, report),
        bias=found.delta,
        box=box,
        k=(k * sides[0], k * sides[1]) if tuned else (np.nan, np.nan),
        optimality=found.optimality,
        objective=report.value,
    )


def _runaway(delta: Array, report: Report) -> str:
    """With λ fixed RL₁ has no interior minimum for a smooth kernel: σ falls, and δ absorbs what it leaves."""
    if not report.at_lower[-2]:
        return ""
    sigma, biased = np.exp(0.5 * report.x[-2]), float(np.mean(delta != 0))
    return f"σ (to its floor of {sigma:.2g} robust standard deviations of y; {biased:.0%} of the readings got a bias)"


def fit_unregularised(problem: Problem, max_iter: int) -> ConstantBiasFit:
    """λ = 0: descend the likelihood in (θ, σ², δ) together from the plain GP with no bias, as far as max_iter goes.

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
    delta, nothing = report.x[layout["bias"]], np.zeros(n)
    return ConstantBiasFit(
        kernel=problem.kernel.with_theta(report.x[layout["theta"]]),
        noise_variance=layout.value(report.x, "noise"),
        posterior=covariance(report.x).posterior(problem.y - delta),
        report=report,
        runaway="the bias: without a penalty the likelihood has no minimum, and f is over-smooth",
        bias=delta,
        box=Box(nothing, nothing),
        k=(np.nan, np.nan),
        optimality=float(np.abs(objective(report.x)[1]).max()),
        objective=report.value,
    )


def alternate(problem: Problem, max_iter: int) -> ConstantBiasFit:
    """The paper's Section 2.3 to the letter: minimise RL₁ for a λ, then λ|δ|₁ + log λ over λ, until λ settles.

    That sum has no minimum: it falls for ever as λ → 0. (The Laplace prior's normaliser is −N log(λ/2); the paper has
    its sign wrong and misses the N. Corrected, the alternation runs the other way: δ → 0 raises λ = N/|δ|₁, which
    shrinks δ again.) So λ is looked for within a factor of the last, and the fit it runs away from is returned.
    """
    lam = 1.0  # the reciprocal of y's robust standard deviation
    for _ in range(MAX_ALTERNATIONS):
        found = fit(problem, max_iter, lam=lam)
        if found.runaway:
            return found
        candidates = lam * np.geomspace(1.0 / LAMBDA_STEP, LAMBDA_STEP, 101)
        chosen = int(np.argmin(candidates * np.abs(found.bias).sum() + np.log(candidates)))
        if chosen in (0, len(candidates) - 1):
            end = "0" if chosen == 0 else "infinity"
            return replace(found, runaway=f"λ (towards {end} from {lam:.3g} per robust standard deviation of y)")
        if abs(np.log(candidates[chosen] / lam)) < 0.05:
            return found
        lam = float(candidates[chosen])
    return replace(found, runaway=f"λ (still moving after {MAX_ALTERNATIONS} alternations)")
