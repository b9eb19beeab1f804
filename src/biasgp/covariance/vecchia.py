"""A nearest-neighbour (Vecchia) approximation of the density of y: each reading given the m nearest before it.

log p(y) ≈ Σᵢ log p(yᵢ | y at i's neighbours): a sum over readings. Each term costs m³, and the sum over some drawn at
random is an unbiased estimate of the whole. With B the weights and V the variances of those conditionals,
K⁻¹ ≈ (I − B)ᵀV⁻¹(I − B) = RᵀR with R sparse. With all N − 1 others as neighbours it is the exact density.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import sparse

from biasgp._typing import Array
from biasgp.covariance.blocks import MakePool, Pool, Threads, make_blocks
from biasgp.covariance.dense import JITTERS
from biasgp.covariance.local import condition, density
from biasgp.covariance.neighbours import Rows, ordering, predecessors, spread_ties
from biasgp.covariance.paired import Nearness
from biasgp.kernels import Kernel
from biasgp.messages import CovarianceError

Result = TypeVar("Result")


@dataclass(frozen=True)
class SparseFactor:
    """K⁻¹ ≈ RᵀR with R sparse, a row a reading."""

    R: sparse.csr_array
    logdet: float
    jitter: float = 0.0

    def solve(self, b: Array) -> Array:
        """K⁻¹b."""
        return np.asarray(self.R.T @ (self.R @ b))

    def inverse_diagonal(self) -> Array:
        """The diagonal of K⁻¹."""
        return np.asarray(self.R.multiply(self.R).sum(axis=0)).ravel()

    def leave_one_out(self, residual: Array) -> tuple[Array, Array]:
        """Residual of each reading from the prediction without it, and that prediction's variance (noise included)."""
        variance = 1.0 / self.inverse_diagonal()
        return self.solve(residual) * variance, variance


class Vecchia:
    """Who is conditioned on whom: fixed while the parameters move.

    With `share` below 1 only that share of the conditionals, drawn at random, is summed (and weighted up).
    """

    def __init__(self, kernel: Kernel, X: Array, m: int, *, share: float = 1.0, make_pool: MakePool = Threads) -> None:
        self.n, self.m = len(X), max(1, min(m, len(X) - 1))
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

    def negative_log_density(
        self, kernel: Kernel, y: Array, noise: Array, *, each_noise: bool = False
    ) -> tuple[float, Array, Array]:
        """−log p(y), and its gradient in theta and in the noise: of each reading, or summed (one number)."""
        parts = self._with_jitter(
            kernel,
            noise,
            lambda raised: self.pool.map(
                density, (kernel, each_noise), ((y[block.members], raised[block.members]) for block in self.blocks)
            ),
        )[0]
        by_noise = np.zeros(self.n if each_noise else 1)
        for block, part in zip(self.blocks, parts, strict=True):
            by_noise[block.members if each_noise else slice(None)] += part.by_noise
        value = sum(part.value for part in parts)
        by_theta = np.sum([part.by_theta for part in parts], axis=0)
        constant = 0.5 * self.n * float(np.log(2.0 * np.pi))
        return self.weight * value + constant, self.weight * by_theta, self.weight * by_noise

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


def with_jitter(kernel: Kernel, X: Array, noise: Array, work: Callable[[Array], Result]) -> tuple[Result, float]:
    """work(noise) with as little added to the noise as it takes, and what that was."""
    scale = float(np.mean(kernel.diag(X[:100])) + np.mean(noise))
    for jitter in JITTERS:
        try:
            return work(noise + jitter * scale), jitter * scale
        except CovarianceError:
            continue
    raise CovarianceError(
        "The covariance of neighbouring readings is not positive definite, even with jitter "
        f"{JITTERS[-1]:g} of its diagonal. Look for inputs of extreme size, or use a less smooth kernel."
    )


def _join(parts: list[Rows], dtype: type[np.int32]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.concatenate(parts).astype(dtype)
