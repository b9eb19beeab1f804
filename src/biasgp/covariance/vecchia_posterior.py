"""f given the readings nearest to each point: what every model ends in where there are many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from biasgp._typing import Array, Mask
from biasgp.covariance.kriging import PREDICTIONS, NeighbourSurroundings, krige, tree_of
from biasgp.covariance.nearness import Nearness
from biasgp.covariance.neighbours import nearest
from biasgp.covariance.posterior import DensePosterior, spread_out
from biasgp.kernels import Kernel
from biasgp.watch import settle

TRIAL_POINTS, BESIDE = 128, 6
ENOUGH = 1.0005
"""As many neighbours are used as bring the variance of f to within this factor of what MOST times as many would."""
MOST = 8
LEFT_OUT_NEIGHBOURS = 40
"""Of a reading that is left out, at most: its own noise is most of what is uncertain of it."""
JOINT_READINGS = 3000
"""A joint covariance is conditioned on no more readings than this."""


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
        rows = np.random.default_rng(0).permutation(len(X))[:TRIAL_POINTS]
        beside = nearest(few._tree, few._nearness.coordinates(X[rows]), min(BESIDE, len(X)))[:, -1]
        points = 0.5 * (X[rows] + X[beside])
        few.mean_and_variance(points[:1])  # builds the tree and compiles: the next ones measure what a point costs
        sizes = [size * few.neighbours for size in (1, 2, 4, MOST) if size == 1 or size * few.neighbours < len(X)]
        spread = [float(replace_neighbours(few, size).mean_and_variance(points)[1].mean()) for size in sizes]
        enough = next(size for size, value in zip(sizes, spread, strict=True) if value <= ENOUGH * spread[-1])
        settle(PREDICTIONS, enough)
        return replace_neighbours(few, enough)

    @cached_property
    def _nearness(self) -> Nearness:
        return Nearness.of(self.kernel, self.X)

    @cached_property
    def _tree(self) -> cKDTree:
        return tree_of(self._nearness, self.X)

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def mean(self, X: Array) -> Array:
        """E f at the rows of X."""
        return self.mean_and_variance(X)[0]

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        """E f and Var f at the rows of X, a chunk at a time."""
        return krige(
            self.kernel, self._nearness, self._tree, self.X, self.residual, self.noise + self.jitter, X, self.neighbours
        )

    def leave_one_out(self) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given the nearest others; NaN for those that were dropped."""
        everyone = np.ones(len(self.X), dtype=bool)
        around = NeighbourSurroundings(self.kernel, self.X, min(self.neighbours, LEFT_OUT_NEIGHBOURS))
        found = around.leave_one_out(self.kernel, self.residual, self.noise + self.jitter, everyone)
        return found if self.kept is None else spread_out(found, self.kept)

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and the full Cov f, given all readings that are among the neighbours of any row of X."""
        near = nearest(self._tree, self._nearness.coordinates(X), self.neighbours)
        size = near.shape[1]
        while (rows := np.unique(near[:, :size]))[rows >= 0].size > JOINT_READINGS and size > 1:
            size = (size + 1) // 2
        rows = rows[rows >= 0]
        joint = DensePosterior.of(self.kernel, self.X[rows], self.noise[rows] + self.jitter, self.residual[rows])
        return joint.mean_and_covariance(X)


def replace_neighbours(posterior: VecchiaPosterior, neighbours: int) -> VecchiaPosterior:
    """The same with more or fewer neighbours; what was built for the search is shared."""
    other = replace(posterior, neighbours=neighbours)
    vars(other).update({name: value for name, value in vars(posterior).items() if name.startswith("_")})
    return other
