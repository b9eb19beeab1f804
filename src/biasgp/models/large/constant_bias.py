"""Constant bias on many readings: the same inner problem, with K⁻¹ = RᵀR sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from biasgp._typing import Array, Mask
from biasgp.covariance.threads import blas_threads_for
from biasgp.covariance.vecchia import SparseFactor, Vecchia
from biasgp.kernels import Kernel
from biasgp.models import constant_bias
from biasgp.models.box_qp import Box, BoxSolution, solve
from biasgp.models.constant_bias import FENCE, Sides, balanced_sides, huber_normaliser, penalties
from biasgp.models.large.posterior import VecchiaPosterior
from biasgp.models.large.search import Scheme, patches, with_all_terms
from biasgp.optimize import Report

INNER_TOLERANCE = 1e-12
INNER_ITERATIONS = 500


@dataclass(frozen=True)
class LargeConstantBiasFit:
    """As `constant_bias.ConstantBiasFit`."""

    kernel: Kernel
    noise_variance: float
    posterior: VecchiaPosterior
    bias: Array
    box: Box
    k: tuple[float, float]
    optimality: float
    objective: float
    report: Report
    runaway: str = ""


class SparseCovariance:
    """What `box_qp.solve` asks of a covariance, from its sparse inverse factor."""

    def __init__(self, factor: SparseFactor, noise: Array) -> None:
        self.factor, self.noise, self.jitter = factor, noise, factor.jitter
        self.diagonal = factor.inverse_diagonal()
        self.delta = np.zeros_like(noise)

    def clamped_solve(self, y: Array, alpha: Array, free: Mask) -> tuple[Array, Array]:
        """Keep α where it is not free; where it is, choose it so that (Kα)ᵢ = yᵢ. Returns α and y − Kα.

        On the held rows Q δ = Qy − α. That block of Q is the inverse of a covariance given the free readings, which pin
        f down: its eigenvalues are close together, and conjugate gradients need few steps.
        """
        held = np.flatnonzero(~free)
        delta = np.zeros_like(y)
        if len(held):
            target = self.factor.solve(y)[held] - alpha[held]
            delta[held] = self._solve_block(held, target)
        self.delta = delta
        return np.where(free, self.factor.solve(y - delta), alpha), delta

    def _solve_block(self, held: Any, target: Array) -> Array:
        whole = np.zeros_like(self.noise)

        def multiply(v: Array) -> Array:
            whole[held] = np.ravel(v)
            return np.asarray(self.factor.solve(whole)[held])

        shape = (len(held), len(held))
        Q = LinearOperator(shape, matvec=multiply, dtype=np.float64)
        M = LinearOperator(shape, matvec=lambda v: np.ravel(v) / self.diagonal[held], dtype=np.float64)
        start = self.delta[held]
        return np.asarray(cg(Q, target, start, rtol=INNER_TOLERANCE, maxiter=INNER_ITERATIONS, M=M)[0])


class RegularisedLikelihood:
    """`constant_bias.RegularisedLikelihood` by nearest neighbours."""

    def __init__(
        self, vecchia: Vecchia, y: Array, kernel: Kernel, known: Array, lam: float | None, sides: Sides = (1.0, 1.0)
    ) -> None:
        self.vecchia, self.y, self.kernel, self.known, self.lam, self.sides = vecchia, y, kernel, known, lam, sides
        self.held = np.zeros(len(y))

    def profile(self, x: Array) -> tuple[SparseCovariance, Box, BoxSolution]:
        """The covariance at x, the penalties, and the δ that minimises RL₁ there."""
        noise = np.exp(x[-2]) + self.known
        K = SparseCovariance(self.vecchia.factor(self.kernel.with_theta(x[:-2]), noise), noise)
        box = penalties(float(np.exp(x[-1])), noise, self.lam, self.sides)
        solution = solve(cast(Any, K), self.y, box, self.held)
        self.held = np.sign(solution.delta)
        return K, box, solution

    def rebalance(self, x: Array) -> None:
        """Set the sides from the readings that are too far from f, at x, to be noise."""
        K, _, found = self.profile(x)
        self.sides = balanced_sides(float(np.exp(x[-1])), found, K.noise)

    def __call__(self, x: Array) -> tuple[float, Array]:
        K, box, found = self.profile(x)
        n, variance, cost = len(self.y), np.exp(x[-2]), box.cost(found.delta)
        value, by_theta, by_noise = self.vecchia.negative_log_density(
            self.kernel.with_theta(x[:-2]), self.y - found.delta, K.noise
        )
        value, slope, by_k = value + float(cost.sum()), float(by_noise[0]), 0.0
        if self.lam is None:
            normaliser, by_k = huber_normaliser(*(np.exp(x[-1]) * self.sides[i] for i in range(2)))
            value += n * normaliser
            by_k = n * by_k + float(cost.sum())
            slope -= 0.5 * float((cost / K.noise).sum())  # λ itself falls as σ rises
        return value, np.concatenate([by_theta, [variance * slope, by_k]])


def fit(
    X: Array,
    y: Array,
    kernel: Kernel,
    known: Array,
    max_iter: int,
    scheme: Scheme,
    *,
    k: float | None = None,
    lam: float | None = None,
) -> LargeConstantBiasFit:
    """Minimise RL₁ over (δ, θ, σ²), and over k too unless k or λ is given; from where the exact model on few ends."""
    rows = patches(kernel, X)
    with blas_threads_for(len(rows)):
        few = constant_bias.fit(X[rows], y[rows], kernel, known[rows], max_iter, k=k, lam=lam)
    fixed, free = constant_bias._bounds(X, y, kernel, k, lam)
    tuned = k is None and lam is None
    sides = (few.k[0] / float(np.exp(few.report.x[-1])), few.k[1] / float(np.exp(few.report.x[-1])))
    objectives: list[RegularisedLikelihood] = []

    def build(vecchia: Vecchia) -> RegularisedLikelihood:
        objective = RegularisedLikelihood(vecchia, np.clip(y, -FENCE, FENCE), kernel, known, lam)
        if objectives:
            objective.sides, objective.held = objectives[-1].sides, objectives[-1].held
        elif tuned:
            objective.sides = sides
            objective.rebalance(few.report.x)
        objectives.append(objective)
        return objective

    bounds = free if tuned else fixed
    vecchia, report = with_all_terms(build, kernel, X, few.report, len(rows), bounds, max_iter, scheme)
    last = objectives[-1]
    likelihood = RegularisedLikelihood(vecchia, y, kernel, known, lam, last.sides)
    likelihood.held = last.held
    return _at(X, likelihood, report, scheme)


def _at(X: Array, likelihood: RegularisedLikelihood, report: Report, scheme: Scheme) -> LargeConstantBiasFit:
    """The model at the parameters where a search ended."""
    K, box, found = likelihood.profile(report.x)
    kernel, k, tuned = likelihood.kernel.with_theta(report.x[:-2]), float(np.exp(report.x[-1])), likelihood.lam is None
    residual = likelihood.y - found.delta
    return LargeConstantBiasFit(
        kernel=kernel,
        noise_variance=float(np.exp(report.x[-2])),
        posterior=VecchiaPosterior.of(kernel, X, K.noise, residual, scheme.neighbours, K.jitter),
        bias=found.delta,
        box=box,
        k=(k * likelihood.sides[0], k * likelihood.sides[1]) if tuned else (np.nan, np.nan),
        optimality=found.optimality,
        objective=report.value,
        report=report,
        runaway="" if tuned else constant_bias._runaway(found.delta, report),
    )
