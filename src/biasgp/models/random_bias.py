"""Random bias, RAB (the paper's Section 2.2): δᵢ ~ N(μ, τᵢ²), so y ~ N(μ1, C + diag τ̃²), τ̃ᵢ² = τᵢ² + σ².

RL₂ = −log N(y; μ1, C + diag τ̃²) + λ₁μ² + Σ (λ₂ log τ̃ᵢ² + λ₃/τ̃ᵢ²): an inverse-gamma prior on each τ̃ᵢ².

The paper fits (λ₂, λ₃) to the point estimates τ̃², on which they collapse. But the inverse-gamma mixture is a
Student-t (ν = 2λ₂, scale² = λ₃/λ₂), and minimising RL₂ over τ̃² is a step of variational inference for it: with
q(τ̃ᵢ²) inverse-gamma of shape A = λ₂ + ½ and mean precision 1/τ̃ᵢ²,

    −log p(y | θ, λ₂, λ₃) ≤ RL₂ + N·[A log A − A − log Γ(A) + log Γ(λ₂) − λ₂ log λ₃].

So RL₂ plus this bracket bounds the Student-t's marginal likelihood, and minimising the sum over everything, λ₂ and λ₃
included, is what `tuning="ml"` does. (The last two terms are the paper's 𝓡₂ for λ₂ + 1, with the N that it lacks.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, psi

from biasgp._typing import Array, Mask
from biasgp.covariance.protocol import Covariance, Engine
from biasgp.models import constant_bias
from biasgp.models.constant_bias import PAPER
from biasgp.models.problem import FitResult, Layout, Problem
from biasgp.models.strategy import EXACT, NOISE_RANGE, Strategy, covariance_bounds
from biasgp.optimize import OUT_OF_TIME, Report, minimize, on_bounds
from biasgp.watch import ledger, out_of_time, stage, tell


@dataclass(frozen=True)
class _RandomBiasPolicy:
    """Bounds of the variances and λs, in the units of the scaled response, and how long the search by turns goes on."""

    start_nu: float = 3.0  # degrees of freedom of the Student-t whose expected variances are the start
    shape_range: tuple[float, float] = (0.25, 200.0)  # of λ₂ = ν/2: from hardly any moments to almost Gaussian
    scale_range: tuple[float, float] = (1e-8, 1e4)  # of λ₃: a scale² within and beyond NOISE_RANGE
    highest_variance: float = 1e3  # of τ̃², in units of the largest y²
    theta_iterations: int = 3  # in each round of expectation maximisation
    lambda_iterations: int = 30  # likewise
    settled: float = 1e-6  # nats per reading: a round that gains less is the last


POLICY = _RandomBiasPolicy()
PAPER_START = (1.0, 2.5, 0.5)
"""(λ₁, λ₂, λ₃) that the paper's alternation starts from: a bias, and a Student-t of ν = 5, of y's own size."""
ROUNDS, TYPICAL_ROUNDS = "rounds", 20
"""Kind of work, and how much of it a fit usually takes."""

Lambdas = tuple[float, float | None, float | None]
"""(λ₁, λ₂, λ₃); those that are None are to be found."""


@dataclass(frozen=True, kw_only=True)
class RandomBiasFit(FitResult):
    """A fitted random bias model; `lambdas` are (λ₁, λ₂, λ₃), λ₁ infinite where μ is held at 0."""

    mean_bias: float
    bias: Array
    outliers: Mask
    bias_variance: Array
    lambdas: tuple[float, float, float]
    optimality: float
    objective: float


class _RandomBiasLikelihood:
    """RL₂ with μ profiled out, plus the bracket above, and the gradient in (θ, log τ̃², log λ₂, log λ₃)."""

    def __init__(self, engine: Engine, problem: Problem, lambda_mean: float) -> None:
        self.engine, self.problem, self.lambda_mean = engine, problem, lambda_mean
        self.layout = Layout(theta=len(problem.kernel.theta), variances=len(problem), shape=1, scale=1)

    def covariance(self, x: Array) -> Covariance:
        """K = C(θ) + diag(τ̃² + known)."""
        kernel = self.problem.kernel.with_theta(x[self.layout["theta"]])
        return self.engine.covariance(kernel, self.layout.values(x, "variances") + self.problem.known)

    def level(self, K: Covariance) -> float:
        """μ that minimises RL₂."""
        if not np.isfinite(self.lambda_mean):
            return 0.0
        Q1 = K.solve(np.ones(len(self.problem)))
        return float(Q1 @ self.problem.y / (Q1.sum() + 2.0 * self.lambda_mean))

    def penalty(self, mu: float, x: Array) -> float:
        """RL₂ less the density, plus the bracket above."""
        variances, shape, scale = self.split(x)
        A = shape + 0.5
        bracket = A * np.log(A) - A - gammaln(A) + gammaln(shape)
        prior = (shape * np.log(variances / scale) + scale / variances).sum() + len(self.problem) * bracket
        return float(prior) + (self.lambda_mean * mu**2 if mu else 0.0)

    def split(self, x: Array) -> tuple[Array, float, float]:
        """τ̃², λ₂, λ₃."""
        return self.layout.values(x, "variances"), self.layout.value(x, "shape"), self.layout.value(x, "scale")

    def bounds(self, shape: float | None = None, scale: float | None = None) -> Array:
        """Bounds of (θ, log τ̃², log λ₂, log λ₃); a λ that is given stays there."""
        y, pairs = self.problem.y, ((shape, POLICY.shape_range), (scale, POLICY.scale_range))
        ranges = [usual if given is None else (given, given) for given, usual in pairs]
        highest = POLICY.highest_variance * max(1.0, float(np.var(y)), float(np.abs(y).max()) ** 2)
        each = np.log(np.tile([NOISE_RANGE[0], highest], (len(y), 1)))
        return np.vstack([covariance_bounds(self.problem)[:-1], each, np.log(ranges)])

    def __call__(self, x: Array) -> tuple[float, Array]:
        variances, shape, scale = self.split(x)
        n, A, K = len(self.problem), shape + 0.5, self.covariance(x)
        mu = self.level(K)
        found = K.negative_log_density(self.problem.y - mu, each_noise=True)
        by_shape = shape * (np.log(variances / scale).sum() + n * (np.log(A) - psi(A) + psi(shape)))
        by_scale = (scale / variances).sum() - n * shape
        by_variances = variances * found.by_noise + shape - scale / variances
        gradient = np.concatenate([found.by_theta, by_variances, [by_shape, by_scale]])
        return found.value + self.penalty(mu, x), gradient

    def minimise_by_turns(self, x: Array, bounds: Array, max_iter: int) -> Report:
        """Steps for (τ̃², λ₂, λ₃) and a few for θ in turn: each lowers the objective."""
        problem, theta = self.problem, self.layout["theta"]
        x = np.clip(x, bounds[:, 0], bounds[:, 1])
        value, curvature, message, spent = np.inf, None, "the limit of iterations was reached", 0
        stage("variances of all readings")
        ledger().expect(ROUNDS, TYPICAL_ROUNDS)
        for n_iter in range(1, max_iter + 1):
            x = self._variances_step(x, bounds)
            mu = self.level(self.covariance(x))

            def by_theta(new: Array, mu: float = mu, x: Array = x) -> tuple[float, Array]:
                K = self.covariance(np.concatenate([new, x[theta.stop :]]))
                found = K.negative_log_density(problem.y - mu)
                return found.value, found.by_theta

            step = minimize(by_theta, x[theta], bounds[theta], POLICY.theta_iterations, curvature)
            x, curvature = np.concatenate([step.x, x[theta.stop :]]), step.curvature
            spent += step.n_evaluations
            before, value = value, step.value + self.penalty(mu, x)
            tell(f"round {n_iter}, objective {value:.6g}")
            ledger().did(ROUNDS, 1.0)
            if before - value <= POLICY.settled * len(problem) or out_of_time():
                message = OUT_OF_TIME if out_of_time() else "the value settled"
                break
        ledger().expect(ROUNDS, 0.0)
        settled = message == "the value settled"
        return Report(x, value, settled, message, n_iter, spent, *on_bounds(x, bounds))

    def _variances_step(self, x: Array, bounds: Array) -> Array:
        """(λ₂, λ₃) and τ̃² = (λ₃ + ½E e²)/(λ₂ + ½), which minimise the bound given the moments of e = δ + ε."""
        layout, K = self.layout, self.covariance(x)
        variances = layout.values(x, "variances")
        residual = self.problem.y - self.level(K)
        e2 = variances**2 * (K.solve(residual) ** 2 - K.inverse_diagonal()) + variances
        half = 0.5 * np.maximum(e2, 0.0)
        n = len(half)

        def profiled(logs: Array) -> tuple[float, Array]:
            shape, scale = np.exp(logs)
            logs_of = np.log(scale + half)
            value = (shape + 0.5) * logs_of.sum() + n * (gammaln(shape) - gammaln(shape + 0.5) - shape * logs[1])
            by_shape = shape * (logs_of.sum() + n * (psi(shape) - psi(shape + 0.5) - logs[1]))
            by_scale = (shape + 0.5) * (scale / (scale + half)).sum() - n * shape
            return float(value), np.array([by_shape, by_scale])

        lambdas = slice(layout["shape"].start, layout["scale"].stop)
        logs = minimize(profiled, x[lambdas], bounds[lambdas], POLICY.lambda_iterations).x
        shape, scale = np.exp(logs)
        new = np.concatenate([x[layout["theta"]], np.log((scale + half) / (shape + 0.5)), logs])
        return np.asarray(np.clip(new, bounds[:, 0], bounds[:, 1]))


def fit(
    problem: Problem, max_iter: int, strategy: Strategy = EXACT, *, lambdas: tuple[float, float, float] | None = None
) -> RandomBiasFit:
    """Minimise RL₂ for given (λ₁, λ₂, λ₃), or its bound over (λ₂, λ₃) too; from where the constant bias model ends."""
    # A bias common to all readings cannot be told from the level of f, so μ is not searched for.
    given: Lambdas = (np.inf, None, None) if lambdas is None else lambdas
    return _minimise(problem, *_start(problem, max_iter, strategy), max_iter, given, strategy)


def _start(problem: Problem, max_iter: int, strategy: Strategy) -> tuple[Engine, Array]:
    """Parameters at the constant bias fit, each τ̃² as a Student-t would have it there; and the engine."""
    cob = constant_bias.fit(problem, max_iter, strategy)
    residual = problem.y - cob.posterior.mean(problem.X)
    shape = 0.5 * POLICY.start_nu
    scale = shape * cob.noise_variance
    variances = (scale + 0.5 * residual**2) / (shape + 0.5)
    x = np.concatenate([cob.kernel.theta, np.log(variances), np.log([shape, scale])])
    return strategy.engine(cob.kernel, problem.X), x


def _minimise(
    problem: Problem, engine: Engine, x: Array, max_iter: int, lambdas: Lambdas, strategy: Strategy = EXACT
) -> RandomBiasFit:
    """From x, for the given λs; those that are None are found as well."""
    objective = _RandomBiasLikelihood(engine, problem, lambdas[0])
    bounds = objective.bounds(*lambdas[1:])
    if strategy.exact:
        report = minimize(objective, x, bounds, max_iter)
    else:  # with many readings, a quasi-Newton method in all N + p + 2 unknowns would need many more evaluations
        report = objective.minimise_by_turns(x, bounds, max_iter)
    variances, shape, scale = objective.split(report.x)
    K = objective.covariance(report.x)
    mu = objective.level(K)
    residual = problem.y - mu
    # Most readings share one small variance, the noise; what goes beyond it is the bias's.
    usual = float(np.median(variances))
    bias = mu + np.maximum(variances - usual, 0.0) * K.solve(residual)
    gradient = objective(report.x)[1]
    moved = report.x - np.clip(report.x - gradient, bounds[:, 0], bounds[:, 1])
    return RandomBiasFit(
        kernel=problem.kernel.with_theta(report.x[objective.layout["theta"]]),
        noise_variance=usual,
        posterior=K.posterior(residual),
        report=report,
        mean_bias=mu,
        bias=bias,
        outliers=problem.outliers(bias, usual),
        bias_variance=variances,
        lambdas=(objective.lambda_mean, shape, scale),
        optimality=float(np.abs(moved).max()),
        objective=report.value,
    )


def alternate(problem: Problem, max_iter: int) -> RandomBiasFit:
    """The paper's Section 2.3 to the letter: minimise RL₂ for (λ₁, λ₂, λ₃), then RL₂ + 𝓡₂ over them, until they settle.

    The second step has no minimum inside: μ → 0 sends λ₁ = 1/(2μ²) to infinity, and without the factor N that the
    paper's 𝓡₂ lacks, λ₂ runs off. So each λ is searched within a factor of its last value, and the fit that one
    runs away from is returned.
    """
    lambdas = PAPER_START
    engine, x = _start(problem, max_iter, EXACT)
    for _ in range(PAPER.max_alternations):
        found = _minimise(problem, engine, x, max_iter, lambdas)
        chosen = _least_by_the_papers_rule(found.mean_bias, found.bias_variance, lambdas)
        moves = np.abs(np.log(np.array(chosen) / lambdas))
        farthest = int(moves.argmax())
        if moves[farthest] > PAPER.at_the_end * np.log(PAPER.factor):
            path = f"from {lambdas[farthest]:.3g} to {chosen[farthest]:.3g} and on"
            return replace(found, runaway=f"λ{'₁₂₃'[farthest]} ({path})")
        if moves[farthest] < PAPER.settled:
            return found
        lambdas, x = chosen, found.report.x
    return replace(found, runaway=f"the λs (still moving after {PAPER.max_alternations} alternations)")


def _least_by_the_papers_rule(
    mu: float, variances: Array, lambdas: tuple[float, float, float]
) -> tuple[float, float, float]:
    """The λs of least λ₁μ² + Σ(λ₂ log τ̃² + λ₃/τ̃²) + 𝓡₂, each within a factor of the present one."""
    factors = np.geomspace(1.0 / PAPER.factor, PAPER.factor, PAPER.candidates)
    firsts, seconds = lambdas[0] * factors, 1.0 + (lambdas[1] - 1.0) * factors
    # λ₃ = (λ₂ − 1)/Σ τ̃⁻² in closed form.
    precision = float((1.0 / variances).sum())
    thirds = np.clip((seconds - 1.0) / precision, lambdas[2] / PAPER.factor, lambdas[2] * PAPER.factor)
    costs = seconds * np.log(variances).sum() + thirds * precision
    costs += gammaln(seconds - 1.0) - (seconds - 1.0) * np.log(thirds)
    best = int(np.argmin(costs))
    first = firsts[int(np.argmin(firsts * mu**2 - 0.5 * np.log(firsts)))]
    return float(first), float(seconds[best]), float(thirds[best])
