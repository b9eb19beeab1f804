"""δ for given covariance: the lasso inside the constant bias model, through its dual.

For fixed (θ, σ²) the regularised likelihood RL₁ is a lasso in δ with Gram matrix Q = K⁻¹. Its dual is the box QP
min ½αᵀKα − yᵀα subject to −λ⁻ ≤ α ≤ λ⁺, and δ = y − Kα, where λ⁺ and λ⁻ are the costs of a unit of bias upwards and
downwards (the paper's λ is both). The solution is where α is within its box, and on its upper (lower) side wherever
δ is positive (negative).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from biasgp._typing import Array, Mask
from biasgp.covariance.protocol import Covariance

TOLERANCE = 1e-9
"""The solution is one when no index is further than this from its condition (see `Box.violation`)."""
MAX_STEPS, SMALLEST_STEP = 30, 1e-8
"""Newton steps, and the share of one below which it makes no progress that rounding leaves."""


@dataclass(frozen=True)
class BoxSolution:
    """α, δ (exactly zero where α is free), and the distance to the optimality conditions."""

    alpha: Array
    delta: Array
    optimality: float
    n_steps: int


@dataclass(frozen=True)
class Box:
    """Bounds of α: −down ≤ α ≤ up."""

    down: Array
    up: Array

    def side(self, held: Array) -> Array:
        """The bound that each index is held at: up where held is positive, −down where it is negative."""
        return np.where(held > 0, self.up, np.where(held < 0, -self.down, 0.0))

    def cost(self, delta: Array) -> Array:
        """The penalty of each bias."""
        return np.where(delta > 0, self.up * delta, -self.down * delta)

    def violation(self, alpha: Array, delta: Array, noise: Array, free: Mask) -> float:
        """The worst violation of the optimality conditions, without unit: 0 at the solution.

        A free index may not have α outside its box; a held one may not have a δ whose sign is not α's.
        """
        outside = np.maximum(alpha / self.up, -alpha / self.down) - 1.0
        excess = np.where(free, outside, -np.sign(alpha) * delta / np.sqrt(noise))
        return max(0.0, float(excess.max()))

    def solve(self, K: Covariance, y: Array, held: Array) -> BoxSolution:
        """Newton's method on the primal, ½αᵀCα + Σ Huber(y − Cα), which is convex and piecewise quadratic.

        A full step solves the optimality conditions for a guess of which α are `held` at which bound (their signs; 0
        where free): a primal–dual active set method, done after one step from the right guess and after a few from a
        near one. From the second on, a step that overshoots is cut to the minimum along it, so that it cannot cycle.
        """
        noise = K.noise + K.jitter
        alpha = f = np.zeros_like(y)
        for n_steps in range(1, MAX_STEPS + 1):
            free = held == 0
            target, delta = K.clamped_solve(y, self.side(held), free)
            optimality = self.violation(target, delta, noise, free)
            if optimality <= TOLERANCE:
                break
            move, f_move = target - alpha, y - delta - noise * target - f

            def slope(
                t: float, alpha: Array = alpha, f: Array = f, move: Array = move, f_move: Array = f_move
            ) -> float:
                pull = np.minimum(np.maximum((y - f - t * f_move) / noise, -self.down), self.up)
                return float((alpha + t * move - pull) @ f_move)

            step = 1.0
            if n_steps > 1 and slope(1.0) > 0.0:  # the minimum of a convex function lies before the end
                step = 0.0 if slope(0.0) >= 0.0 else float(brentq(slope, 0.0, 1.0))
            if step < SMALLEST_STEP:
                break
            alpha, f = alpha + step * move, f + step * f_move
            residual = (y - f) / noise
            held = np.where(residual > self.up, 1.0, np.where(residual < -self.down, -1.0, 0.0))
        return BoxSolution(target, delta, optimality, n_steps)
