"""f given the readings nearest to each point: prediction, and what each reading is without itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.covariance.blocks import BLOCK, Block, Blocks, MakePool, on_threads
from biasgp.covariance.conditionals import condition
from biasgp.covariance.neighbours import Index, Nearness, first_where
from biasgp.covariance.posterior import DensePosterior, PartialPosterior
from biasgp.kernels import Kernel
from biasgp.watch import ledger

PREDICTIONS = "predictions"
"""Kind of work, in points; its size is the number of neighbours."""


@dataclass(frozen=True)
class _NeighbourPolicy:
    """How many readings predictions are made from, and how many points at a time."""

    trial_points: int = 128  # at which the number of neighbours is chosen
    beside: int = 6  # half way to which of its neighbours a trial point lies from a reading
    sizes: tuple[int, ...] = (1, 2, 4, 8)  # multiples of the number of neighbours that are tried
    enough: float = 1.0005  # factor of the variance of f that the largest number reaches, within which fewer will do
    left_out: int = 40  # neighbours of a reading that is left out, at most: its noise is most of what is uncertain
    spare: float = 1.5  # candidates for those neighbours, as a multiple: some may not be usable
    joint: int = 3000  # readings that a joint covariance is conditioned on, at most: 72 MB
    chunk: int = 8 * BLOCK  # points predicted at a time: memory does not grow with their number
    measured: int = 100  # points from which on the time that they take is representative


POLICY = _NeighbourPolicy()


@dataclass(frozen=True)
class VecchiaPosterior:
    """Mean and variance of f at a point from the `neighbours` readings nearest to it; `residual` is y − δ.

    `kept` says which readings of the fit these are, where some were dropped.
    """

    kernel: Kernel
    X: Array
    residual: Array
    noise: Array
    neighbours: int
    jitter: float = 0.0
    kept: Mask | None = None

    @classmethod
    def of(
        cls, kernel: Kernel, X: Array, noise: Array, residual: Array, m: int, jitter: float = 0.0
    ) -> VecchiaPosterior:
        """Condition on y − δ, with at least m neighbours and more where noise makes more of use."""
        few = cls(kernel, X, residual, noise, m, jitter)
        if len(X) <= m + 1:
            return replace(few, neighbours=len(X))
        # Not at readings, where less is uncertain than where predictions are asked for.
        rows = np.random.default_rng(0).permutation(len(X))[: POLICY.trial_points]
        beside = few._nearness.nearest(X[rows], min(POLICY.beside, len(X)))[:, -1]
        points = 0.5 * (X[rows] + X[beside])
        few.mean_and_variance(points[:1])  # builds the tree and compiles: the next ones measure what a point costs
        sizes = [size * m for size in POLICY.sizes if size == 1 or size * m < len(X)]
        spread = [float(few._with_neighbours(size).mean_and_variance(points)[1].mean()) for size in sizes]
        enough = next(size for size, value in zip(sizes, spread, strict=True) if value <= POLICY.enough * spread[-1])
        ledger().settle(PREDICTIONS, enough)
        return few._with_neighbours(enough)

    def _with_neighbours(self, neighbours: int) -> VecchiaPosterior:
        """The same with more or fewer neighbours; what was built for the search is shared."""
        other = replace(self, neighbours=neighbours)
        vars(other)["_nearness"] = self._nearness
        return other

    @cached_property
    def _nearness(self) -> Nearness:
        return Nearness.of(self.kernel, self.X)

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def mean(self, X: Array) -> Array:
        return self.mean_and_variance(X)[0]

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        mean, variance = np.empty(len(X)), np.empty(len(X))
        noise = self.noise + self.jitter
        ledger().mark()
        for start in range(0, len(X), POLICY.chunk):
            rows = slice(start, start + POLICY.chunk)
            points, near = X[rows], self._nearness.nearest(X[rows], self.neighbours)
            parts = [slice(first, first + BLOCK) for first in range(0, len(near), BLOCK)]
            blocks = Blocks([_block_of(self.X, points[part], near[part]) for part in parts])
            pieces, _ = blocks.evaluate(_conditional_mean, (self.kernel,), noise, self.residual)
            mean[rows], variance[rows] = (np.concatenate(part) for part in zip(*pieces, strict=True))
            if len(near) >= POLICY.measured:
                ledger().did(PREDICTIONS, len(near), self.neighbours)
        return mean, variance

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given the nearest others; NaN for those that were dropped."""
        if self.kept is not None:
            return PartialPosterior(replace(self, kept=None), self.kept).leave_one_out()
        everyone = np.ones(len(self.X), dtype=bool)
        around = NeighbourSurroundings(self.kernel, self.X, min(self.neighbours, POLICY.left_out))
        return around.leave_one_out(self.kernel, self.residual, self.noise + self.jitter, everyone)

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and the full Cov f, given all readings that are among the neighbours of any row of X."""
        near = self._nearness.nearest(X, self.neighbours)
        size = near.shape[1]
        while (rows := np.unique(near[:, :size]))[rows >= 0].size > POLICY.joint and size > 1:
            size = (size + 1) // 2
        rows = rows[rows >= 0]
        joint = DensePosterior.of(self.kernel, self.X[rows], self.noise[rows] + self.jitter, self.residual[rows])
        return joint.mean_and_covariance(X)


class NeighbourSurroundings:
    """The readings around each reading, for predictions of each without itself."""

    def __init__(self, kernel: Kernel, X: Array, m: int, *, make_pool: MakePool = on_threads) -> None:
        self.m = max(1, min(m, len(X) - 1))
        self.nearness = Nearness.of(kernel, X)
        near = self.nearness.nearest_others(min(int(POLICY.spare * self.m), len(X) - 1))
        self.nearest = near[:, 0]
        self.blocks = Blocks.of(X, self.nearness.coordinates(X), np.arange(len(X)), near, make_pool)

    def leave_one_out(self, kernel: Kernel, y: Array, noise: Array, usable: Mask) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given the nearest usable others."""
        mean, variance = np.empty(len(y)), np.empty(len(y))
        parts, _ = self.blocks.evaluate(_mean_from_usable, (kernel, self.m), noise, y, usable)
        for rows, part in zip(self.blocks.rows(), parts, strict=True):
            mean[rows], variance[rows] = part
        return mean, variance


def _mean_from_usable(
    block: Block, kernel: Kernel, m: int, noise: Array, y: Array, usable: Mask
) -> tuple[Array, Array]:
    """`_conditional_mean` from the first m neighbours of each target that are usable."""
    keep = (block.neighbours >= 0) & usable[np.maximum(block.neighbours, 0)]
    return _conditional_mean(replace(block, neighbours=first_where(block.neighbours, keep, m)), kernel, noise, y)


def _conditional_mean(block: Block, kernel: Kernel, noise: Array, y: Array) -> tuple[Array, Array]:
    """Mean and variance of f at each target, given y at its neighbours."""
    # A little noise of the target's own keeps its pivot away from 0; it comes off again. It is at most f's own
    # variance: what is left of that after more was added to it and taken off would be rounding error.
    prior = float(kernel.diag(block.X[block.targets]).mean())
    own = min(float(noise.mean()), prior or np.inf) if len(noise) else 1.0
    padded = np.append(noise, np.zeros(len(block.X) - len(noise)))
    weights, v = condition(block, kernel, padded, np.full(len(block.targets), own))
    values = np.append(y, np.zeros(1))[block.neighbours]  # −1, no neighbour, is the zero at the end
    return np.einsum("tk,tk->t", weights, values), np.maximum(v - own, 0.0)


def _block_of(X: Array, points: Array, near: Index) -> Block:
    """Points that are not readings, and the readings near them; the points' own rows come last."""
    distinct, place = np.unique(near, return_inverse=True)
    missing = int(distinct[0] == -1)
    members = distinct[missing:].astype(np.intp)
    targets = np.arange(len(members), len(members) + len(points), dtype=np.int32)
    neighbours = (place.reshape(near.shape) - missing).astype(np.int32)
    return Block(members, np.vstack([X[members], points]), targets, neighbours)
