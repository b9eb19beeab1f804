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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from biasgp._typing import Array
from biasgp.covariance import DenseCovariance
from biasgp.covariance.threads import blas_threads_for
from biasgp.kernels import Kernel
from biasgp.models import gaussian
from biasgp.models.box_qp import Box, BoxSolution, solve
from biasgp.models.gaussian import LOG_2PI
from biasgp.models.posterior import Posterior
from biasgp.models.search import EVERYTHING, Rows, covariance_bounds, covariance_starts, search, stages
from biasgp.optimize import PATIENCE, Report, follow, go_on, minimize, multistart, resume, screen

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


@dataclass(frozen=True)
class ConstantBiasFit:
    """A fitted constant bias model. k is that of each side, downwards first (NaN where λ itself was given).

    `runaway` says what ran away under a fixed λ or the paper's tuning, and is empty where nothing did.
    """

    kernel: Kernel
    noise_variance: float
    posterior: Posterior
    bias: Array
    box: Box
    k: tuple[float, float]
    optimality: float
    objective: float
    report: Report
    runaway: str = ""


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


class RegularisedLikelihood:
    """min over δ of RL₁, and its gradient in (θ, log σ², log k): λ = k/σ times its side. With `lam`, λ is that.

    Keeps which α were held between calls: the inner problem starts where the last one ended.
    """

    def __init__(
        self, X: Array, y: Array, kernel: Kernel, known: Array, lam: float | None = None, sides: Sides = (1.0, 1.0)
    ) -> None:
        self.X, self.y, self.kernel, self.known, self.lam, self.sides = X, y, kernel, known, lam, sides
        self.held = np.zeros(len(y))

    def profile(self, x: Array) -> tuple[DenseCovariance, Box, BoxSolution]:
        """The covariance at x, the penalties, and the δ that minimises RL₁ there."""
        noise = np.exp(x[-2]) + self.known
        K = DenseCovariance(self.kernel.with_theta(x[:-2]), self.X, noise)
        box = penalties(float(np.exp(x[-1])), noise, self.lam, self.sides)
        solution = solve(K, self.y, box, self.held)
        self.held = np.sign(solution.delta)
        return K, box, solution

    def rebalance(self, x: Array) -> None:
        """Set the sides from the readings that are too far from f, at x, to be noise."""
        K, _, found = self.profile(x)
        self.sides = balanced_sides(float(np.exp(x[-1])), found, K.noise)

    def __call__(self, x: Array) -> tuple[float, Array]:
        K, box, found = self.profile(x)
        n, variance, cost = len(self.y), np.exp(x[-2]), box.cost(found.delta)
        value = 0.5 * (n * LOG_2PI + K.logdet + (self.y - found.delta) @ found.alpha) + cost.sum()
        by_theta, by_noise = K.gradient(found.alpha)
        by_k = 0.0
        if self.lam is None:
            normaliser, by_k = huber_normaliser(*(np.exp(x[-1]) * self.sides[i] for i in range(2)))
            value += n * normaliser
            by_k = n * by_k + cost.sum()
            by_noise = by_noise - 0.5 * cost / K.noise  # λ itself falls as σ rises
        return float(value), np.concatenate([by_theta, [variance * by_noise.sum(), by_k]])


def fit(
    X: Array, y: Array, kernel: Kernel, known: Array, max_iter: int, *, k: float | None = None, lam: float | None = None
) -> ConstantBiasFit:
    """Minimise RL₁ over (δ, θ, σ²), and over k too unless k or λ is given."""
    build = _builder(X, y, kernel, known, lam)
    fixed, free = _bounds(X, y, kernel, k, lam)
    starts = [np.append(start, fixed[-1, 0]) for start in covariance_starts(kernel)]
    if k is not None or lam is not None:
        return at(X, y, kernel, known, search(build, X, y, starts, fixed, max_iter), lam)
    # With k free from the start, an early step of large σ sends k to where nothing is an outlier, for good.
    rows, *more = stages(X, y)
    n_few, n_stone, stone = len(rows), 0, None
    with blas_threads_for(len(rows)):
        few = build(rows)
        report = multistart(few, starts, fixed, min(FIRST_ITERATIONS, max_iter))
        few.rebalance(report.x)
        report = resume(few, report, free, min(FIRST_ITERATIONS, max_iter))
    for part in more or [rows]:
        with blas_threads_for(len(part)):
            objective = build(part)
            objective.rebalance(report.x)
            report = resume(objective, report, free, max_iter, len(part) / len(rows))
            if more and (report.at_upper[-1] or len(part) > FEW_IS_TOO_FEW * n_few):
                # Few readings can be too few to follow f, or to tell outliers from noise: once more with these.
                rival = build(part)
                if stone is None:
                    stone, n_stone = _stepping_stone(rival, starts, fixed, max_iter, report), len(part)
                fresh = _follow(rival, stone, len(part) / n_stone, free, max_iter, report.value)
                stone = replace(stone, n_evaluations=0)  # counted from now on
                n_evaluations = report.n_evaluations + fresh.n_evaluations
                if fresh.value < report.value:
                    objective, report = rival, fresh
                report = replace(report, n_evaluations=n_evaluations)
        rows = part
    return at(X, y, kernel, known, report, None, objective.sides, objective.held)


def _stepping_stone(
    objective: RegularisedLikelihood, starts: list[Array], fixed: Array, max_iter: int, found: Report
) -> Report:
    """Where the usual starts lead with k held. Cut short where that promises no more than what was found has."""
    nothing_stood_out = bool(found.at_upper[-1])
    stone = screen(objective, starts if nothing_stood_out else starts[:1], fixed)
    as_held, _ = objective(np.clip(found.x, fixed[:, 0], fixed[:, 1]))
    if not nothing_stood_out and stone.value - stone.promise > as_held:
        return stone
    return go_on(objective, stone, fixed, min(FIRST_ITERATIONS, max_iter))


def _follow(
    objective: RegularisedLikelihood, stone: Report, growth: float, free: Array, max_iter: int, to_beat: float
) -> Report:
    """Free k, and go on from a stepping stone for as long as it may still end below `to_beat`."""
    objective.rebalance(stone.x)
    begun = resume(objective, stone, free, min(PATIENCE, max_iter), growth)
    if begun.n_iter < PATIENCE:
        return begun
    report = follow(objective, begun, free, max_iter - begun.n_iter, to_beat)
    return replace(report, n_iter=begun.n_iter + report.n_iter)


def rough_fits(X: Array, y: Array, kernel: Kernel, known: Array, max_iter: int) -> Iterator[ConstantBiasFit]:
    """Three fits of few iterations: with k as it starts, from there with k by maximum likelihood, and a lopsided one.

    The second shows outliers best; the first is more like a plain GP; the third bears most of them on one side.
    """
    objective = _builder(X, y, kernel, known, None)(EVERYTHING)
    fixed, free = _bounds(X, y, kernel, None, None)
    starts = [np.append(start, fixed[-1, 0]) for start in covariance_starts(kernel)]
    first = multistart(objective, starts, fixed, max_iter, ROUGH_LOOKS, ROUGHLY)
    plain = at(X, y, kernel, known, first, None, held=objective.held)
    yield plain
    objective.rebalance(first.x)
    second = resume(objective, first, free, max_iter, enough=ROUGHLY)
    yield at(X, y, kernel, known, second, None, objective.sides, objective.held)
    residual = y - plain.posterior.mean(X)
    objective.sides = (1.0, STEEP) if np.mean((residual - residual.mean()) ** 3) > 0 else (STEEP, 1.0)
    third = resume(objective, first, free, max_iter, enough=ROUGHLY)
    yield at(X, y, kernel, known, third, None, objective.sides, objective.held)


def _builder(
    X: Array, y: Array, kernel: Kernel, known: Array, lam: float | None
) -> Callable[[Rows], RegularisedLikelihood]:
    fenced = np.clip(y, -FENCE, FENCE)
    return lambda rows: RegularisedLikelihood(X[rows], fenced[rows], kernel, known[rows], lam)


def _bounds(X: Array, y: Array, kernel: Kernel, k: float | None, lam: float | None) -> tuple[Array, Array]:
    """Bounds with k held at its start, and with k free."""
    covariance = covariance_bounds(kernel, X, np.clip(y, -FENCE, FENCE))
    if lam is not None:  # λσ is k: keep it where it means something
        covariance[-1, 0] = min(2.0 * np.log(K_RANGE[0] / lam), covariance[-1, 1])
    start = np.full((1, 2), np.log(K_START if k is None else k))
    return np.vstack([covariance, start]), np.vstack([covariance, np.log([K_RANGE])])


def at(
    X: Array,
    y: Array,
    kernel: Kernel,
    known: Array,
    report: Report,
    lam: float | None,
    sides: Sides = (1.0, 1.0),
    held: Array | None = None,
) -> ConstantBiasFit:
    """The model at the parameters where a search ended; `held` is where its last inner problem did."""
    likelihood = RegularisedLikelihood(X, y, kernel, known, lam, sides)
    if held is not None:
        likelihood.held = held
    K, box, found = likelihood.profile(report.x)
    kernel = kernel.with_theta(report.x[:-2])
    k = float(np.exp(report.x[-1]))
    return ConstantBiasFit(
        kernel=kernel,
        noise_variance=float(np.exp(report.x[-2])),
        posterior=Posterior.of(kernel, X, K.noise, y - found.delta),
        bias=found.delta,
        box=box,
        k=(k * sides[0], k * sides[1]) if lam is None else (np.nan, np.nan),
        optimality=found.optimality,
        objective=report.value,
        report=report,
        runaway="" if lam is None else _runaway(found.delta, report),
    )


def _runaway(delta: Array, report: Report) -> str:
    """With λ fixed RL₁ has no interior minimum for a smooth kernel: σ falls, and δ absorbs what it leaves."""
    if not report.at_lower[-2]:
        return ""
    sigma, biased = np.exp(0.5 * report.x[-2]), float(np.mean(delta != 0))
    return f"σ (to its floor of {sigma:.2g} robust standard deviations of y; {biased:.0%} of the readings got a bias)"


def fit_unregularised(X: Array, y: Array, kernel: Kernel, known: Array, max_iter: int) -> ConstantBiasFit:
    """λ = 0: descend the likelihood in (θ, σ², δ) together from the plain GP with no bias, as far as max_iter goes.

    The likelihood has no minimum; on the way down δ takes over the pattern of f, and f is over-smooth: the paper's
    Figure 1, and the reason for a penalty.
    """
    plain = gaussian.fit(X, y, kernel, known, max_iter)
    p = len(plain.report.x)

    def objective(x: Array) -> tuple[float, Array]:
        variance, residual = np.exp(x[p - 1]), y - x[p:]
        K = DenseCovariance(kernel.with_theta(x[: p - 1]), X, variance + known)
        alpha = K.solve(residual)
        by_theta, by_noise = K.gradient(alpha)
        value = 0.5 * (len(y) * LOG_2PI + K.logdet + residual @ alpha)
        return float(value), np.concatenate([by_theta, [variance * by_noise.sum()], -alpha])

    anywhere = np.tile([-np.inf, np.inf], (len(y), 1))
    bounds = np.vstack([covariance_bounds(kernel, X, y), anywhere])
    report = minimize(objective, np.concatenate([plain.report.x, np.zeros(len(y))]), bounds, max_iter)
    delta, variance, nothing = report.x[p:], float(np.exp(report.x[p - 1])), np.zeros(len(y))
    kernel = kernel.with_theta(report.x[: p - 1])
    return ConstantBiasFit(
        kernel=kernel,
        noise_variance=variance,
        posterior=Posterior.of(kernel, X, variance + known, y - delta),
        bias=delta,
        box=Box(nothing, nothing),
        k=(np.nan, np.nan),
        optimality=float(np.abs(objective(report.x)[1]).max()),
        objective=report.value,
        report=report,
        runaway="the bias: without a penalty the likelihood has no minimum, and f is over-smooth",
    )


def alternate(X: Array, y: Array, kernel: Kernel, known: Array, max_iter: int) -> ConstantBiasFit:
    """The paper's Section 2.3 to the letter: minimise RL₁ for a λ, then λ|δ|₁ + log λ over λ, until λ settles.

    That sum has no minimum: it falls for ever as λ → 0. (The Laplace prior's normaliser is −N log(λ/2); the paper has
    its sign wrong and misses the N. Corrected, the alternation runs the other way: δ → 0 raises λ = N/|δ|₁, which
    shrinks δ again.) So λ is looked for within a factor of the last, and the fit it runs away from is returned.
    """
    lam = 1.0  # the reciprocal of y's robust standard deviation
    for _ in range(MAX_ALTERNATIONS):
        found = fit(X, y, kernel, known, max_iter, lam=lam)
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
