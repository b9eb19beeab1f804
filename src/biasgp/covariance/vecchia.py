"""A nearest-neighbour (Vecchia) approximation of the density of y: each reading given the m nearest before it.

log p(y) ≈ Σᵢ log p(yᵢ | y at i's neighbours): a sum over readings. Each term costs m³, and the sum over some drawn at
random is an unbiased estimate of the whole. With B the weights and V the variances of those conditionals,
K⁻¹ ≈ (I − B)ᵀV⁻¹(I − B) = RᵀR with R sparse. With all N − 1 others as neighbours it is the exact density.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from biasgp._typing import Array, Mask
from biasgp.covariance.blocks import MakePool, Pool, Threads, make_blocks
from biasgp.covariance.local import condition, density, with_jitter
from biasgp.covariance.nearness import Nearness
from biasgp.covariance.neighbours import Rows, ordering, predecessors, spread_ties
from biasgp.covariance.protocol import Density
from biasgp.covariance.vecchia_posterior import VecchiaPosterior
from biasgp.kernels import Kernel

CG_TOLERANCE, CG_ITERATIONS = 1e-12, 500
"""Of the conjugate gradients in `clamped_solve`: a relative residual, and steps."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class SparseFactor:
    """K⁻¹ ≈ RᵀR with R sparse, one row per reading."""

    R: sparse.csr_array
    logdet: float
    jitter: float = 0.0

    def solve(self, b: Array) -> Array:
        """K⁻¹b."""
        return np.asarray(self.R.T @ (self.R @ b))

    def inverse_diagonal(self) -> Array:
        """The diagonal of K⁻¹."""
        return np.asarray(self.R.multiply(self.R).sum(axis=0)).ravel()


class VecchiaCovariance:
    """K at fixed parameters, by its sparse inverse factor, which is made when it is first needed."""

    def __init__(self, engine: Vecchia, kernel: Kernel, noise: Array) -> None:
        self.engine, self.kernel, self.noise = engine, kernel, noise
        self.jitter = 0.0
        self._delta = np.zeros_like(noise)

    @cached_property
    def factor(self) -> SparseFactor:
        """K⁻¹ ≈ RᵀR."""
        factor = self.engine.factor(self.kernel, self.noise)
        self.jitter = factor.jitter
        return factor

    @cached_property
    def _diagonal(self) -> Array:
        return self.factor.inverse_diagonal()

    def solve(self, b: Array) -> Array:
        """K⁻¹b."""
        return self.factor.solve(b)

    def inverse_diagonal(self) -> Array:
        """The diagonal of K⁻¹."""
        return self._diagonal

    def posterior(self, residual: Array) -> VecchiaPosterior:
        """f given y − δ = residual."""
        engine = self.engine
        return VecchiaPosterior.of(self.kernel, engine.X, self.noise, residual, engine.m, self.jitter)

    def negative_log_density(self, residual: Array, *, each_noise: bool = False) -> Density:
        """−log N(residual; 0, K) and its gradient, without the factor."""
        return self.engine.negative_log_density(self.kernel, residual, self.noise, each_noise=each_noise)

    def clamped_solve(self, y: Array, alpha: Array, free: Mask) -> tuple[Array, Array]:
        """Keep α where it is not free; where it is, choose it so that (Kα)ᵢ = yᵢ. Returns α and y − Kα.

        On the held rows Q δ = Qy − α. That block of Q is the inverse of a covariance given the free readings, which pin
        f down: its eigenvalues are close together, and conjugate gradients need few steps.
        """
        held = np.flatnonzero(~free)
        delta = np.zeros_like(y)
        if len(held):
            delta[held] = self._solve_block(held, self.solve(y)[held] - alpha[held])
        self._delta = delta
        return np.where(free, self.solve(y - delta), alpha), delta

    def _solve_block(self, held: Rows, target: Array) -> Array:
        whole = np.zeros_like(self.noise)

        def multiply(v: Array) -> Array:
            whole[held] = np.ravel(v)
            return np.asarray(self.solve(whole)[held])

        shape = (len(held), len(held))
        Q = LinearOperator(shape, matvec=multiply, dtype=np.float64)
        M = LinearOperator(shape, matvec=lambda v: np.ravel(v) / self._diagonal[held], dtype=np.float64)
        start = self._delta[held]
        return np.asarray(cg(Q, target, start, rtol=CG_TOLERANCE, maxiter=CG_ITERATIONS, M=M)[0])


class Vecchia:
    """Who is conditioned on whom: fixed while the parameters move.

    With `share` below 1 only that share of the conditionals, drawn at random, is summed (and weighted up).
    """

    def __init__(self, kernel: Kernel, X: Array, m: int, *, share: float = 1.0, make_pool: MakePool = Threads) -> None:
        self.X, self.n, self.m = X, len(X), max(1, min(m, len(X) - 1))
        self.nearness = Nearness.of(kernel, X)
        coordinates = self.nearness.coordinates(X)
        order = ordering(coordinates)
        positions = np.arange(self.n)
        if share < 1.0:
            chosen = np.random.default_rng(1).permutation(self.n)[: max(1, round(share * self.n))]
            positions = np.sort(chosen)
        self.weight = self.n / len(positions)
        before = predecessors(spread_ties(coordinates[order]), self.m, positions)
        neighbours = np.where(before >= 0, order[before], -1).astype(np.int32)
        self.blocks = make_blocks(X, coordinates, order[positions], neighbours)
        self.pool: Pool = make_pool(self.blocks)

    def covariance(self, kernel: Kernel, noise: Array) -> VecchiaCovariance:
        """K at these parameters."""
        return VecchiaCovariance(self, kernel, noise)

    def negative_log_density(self, kernel: Kernel, y: Array, noise: Array, *, each_noise: bool = False) -> Density:
        """−log p(y) with its gradient."""
        parts, _ = self._with_jitter(
            kernel,
            noise,
            lambda raised: self.pool.map(
                density, (kernel, each_noise), ((y[block.members], raised[block.members]) for block in self.blocks)
            ),
        )
        by_noise = np.zeros(self.n if each_noise else 1)
        for block, part in zip(self.blocks, parts, strict=True):
            by_noise[block.members if each_noise else slice(None)] += part.by_noise
        value = self.weight * sum(part.value for part in parts) + 0.5 * self.n * float(np.log(2.0 * np.pi))
        by_theta = np.sum([part.by_theta for part in parts], axis=0)
        return Density(value, self.weight * by_theta, self.weight * by_noise)

    def factor(self, kernel: Kernel, noise: Array) -> SparseFactor:
        """The sparse inverse factor."""
        if self.weight != 1.0:
            raise RuntimeError("A share of the conditionals has no inverse factor.")
        parts, jitter = self._with_jitter(
            kernel,
            noise,
            lambda raised: self.pool.map(
                condition,
                (kernel,),
                ((raised[block.members], raised[block.members[block.targets]]) for block in self.blocks),
            ),
        )
        rows, columns, entries, logdet = [], [], [], 0.0
        for block, (weights, v) in zip(self.blocks, parts, strict=True):
            targets = block.members[block.targets]
            there = block.neighbours >= 0
            root = np.sqrt(v)
            logdet += 2.0 * float(np.log(root).sum())
            rows += [np.repeat(targets, there.sum(axis=1)), targets]
            columns += [block.members[block.neighbours[there]], targets]
            entries += [(-weights / root[:, None])[there], 1.0 / root]
        shape = (self.n, self.n)
        index = (_join(rows, np.int32), _join(columns, np.int32))
        return SparseFactor(sparse.csr_array((np.concatenate(entries), index), shape=shape), logdet, jitter)

    def _with_jitter(self, kernel: Kernel, noise: Array, work: Callable[[Array], Result]) -> tuple[Result, float]:
        """The dense covariance's policy: the least share of the mean diagonal that makes every factorisation work."""
        return with_jitter(kernel, self.blocks[0].X, noise, work)


def _join(parts: list[Rows], dtype: type[np.int32]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.concatenate(parts).astype(dtype)
