"""A nearest-neighbour (Vecchia) approximation of the density of y: each reading given the m nearest before it.

log p(y) ≈ Σᵢ log p(yᵢ | y at i's neighbours): a sum over readings. Each term costs m³, and the sum over some drawn at
random is an unbiased estimate of the whole. With B the weights and V the variances of those conditionals,
K⁻¹ ≈ (I − B)ᵀV⁻¹(I − B) = RᵀR with R sparse. With all N − 1 others as neighbours it is the exact density.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from biasgp._typing import Array, Mask
from biasgp.covariance.blocks import Blocks, MakePool, on_threads
from biasgp.covariance.conditionals import condition, density
from biasgp.covariance.neighbours import Nearness, Rows
from biasgp.covariance.protocol import Density
from biasgp.covariance.vecchia_posterior import VecchiaPosterior
from biasgp.kernels import Kernel

_CG_TOLERANCE, _CG_ITERATIONS = 1e-12, 500
"""Of the conjugate gradients in `clamped_solve`: relative residual, near rounding error, and a limit of steps."""


class Vecchia:
    """The engine: which readings each one is conditioned on, fixed while the parameters move.

    With `share` below 1 only that share of the conditionals, drawn at random, is summed (and weighted up).
    """

    def __init__(
        self, kernel: Kernel, X: Array, m: int, *, share: float = 1.0, make_pool: MakePool = on_threads
    ) -> None:
        self.X, self.m = X, max(1, min(m, len(X) - 1))
        self.nearness = Nearness.of(kernel, X)
        rows, neighbours = self.nearness.predecessors(self.m, share)
        self.weight = len(X) / len(rows)
        self.blocks = Blocks.of(X, self.nearness.coordinates(X), rows, neighbours, make_pool)

    def covariance(self, kernel: Kernel, noise: Array) -> _VecchiaCovariance:
        return _VecchiaCovariance(self, kernel, noise)


class _VecchiaCovariance:
    """K at fixed parameters, by its sparse inverse factor R, which is made when it is first needed."""

    def __init__(self, engine: Vecchia, kernel: Kernel, noise: Array) -> None:
        self.engine, self.kernel, self.noise = engine, kernel, noise
        self.jitter = 0.0
        self._delta = np.zeros_like(noise)

    @cached_property
    def R(self) -> sparse.csr_array:
        """K⁻¹ ≈ RᵀR, one row per reading."""
        if self.engine.weight != 1.0:
            raise RuntimeError("A share of the conditionals has no inverse factor.")
        blocks, n = self.engine.blocks, len(self.noise)
        parts, self.jitter = blocks.evaluate(condition, (self.kernel,), self.noise)
        rows, columns, entries = [], [], []
        for block, targets, (weights, v) in zip(blocks, blocks.rows(), parts, strict=True):
            there, root = block.neighbours >= 0, np.sqrt(v)
            rows += [np.repeat(targets, there.sum(axis=1)), targets]
            columns += [block.members[block.neighbours[there]], targets]
            entries += [(-weights / root[:, None])[there], 1.0 / root]
        index = np.concatenate(rows).astype(np.int32), np.concatenate(columns).astype(np.int32)
        return sparse.csr_array((np.concatenate(entries), index), shape=(n, n))

    @cached_property
    def _diagonal(self) -> Array:
        return np.asarray(self.R.multiply(self.R).sum(axis=0)).ravel()

    def solve(self, b: Array) -> Array:
        return np.asarray(self.R.T @ (self.R @ b))

    def inverse_diagonal(self) -> Array:
        return self._diagonal

    def posterior(self, residual: Array) -> VecchiaPosterior:
        engine = self.engine
        return VecchiaPosterior.of(self.kernel, engine.X, self.noise, residual, engine.m, self.jitter)

    def negative_log_density(self, residual: Array, *, each_noise: bool = False) -> Density:
        """−log N(residual; 0, K) and its gradient, without the factor."""
        blocks, weight, n = self.engine.blocks, self.engine.weight, len(residual)
        parts, _ = blocks.evaluate(density, (self.kernel, each_noise), self.noise, residual)
        by_noise = np.zeros(n if each_noise else 1)
        for block, part in zip(blocks, parts, strict=True):
            by_noise[block.members if each_noise else slice(None)] += part.by_noise
        value = weight * sum(part.value for part in parts) + 0.5 * n * float(np.log(2.0 * np.pi))
        by_theta = np.sum([part.by_theta for part in parts], axis=0)
        return Density(value, weight * by_theta, weight * by_noise)

    def clamped_solve(self, y: Array, alpha: Array, free: Mask) -> tuple[Array, Array]:
        """On the held rows Qδ = Qy − α. That block of Q is the inverse of a covariance given the free readings, which
        determine f: its eigenvalues are close together, and conjugate gradients need few steps.
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
        return np.asarray(cg(Q, target, start, rtol=_CG_TOLERANCE, maxiter=_CG_ITERATIONS, M=M)[0])
