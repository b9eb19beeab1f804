"""The conditional densities of a block of readings: y at each target given y at its neighbours.

Compiled for the common kernels where numba is installed, and in batches of small matrices otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance.blocks import Block
from biasgp.covariance.protocol import Density
from biasgp.kernels import Exponential, Kernel, Matern32, Matern52, SquaredExponential, Stationary
from biasgp.messages import CovarianceError

_FAMILIES: tuple[type[Stationary], ...] = (SquaredExponential, Exponential, Matern32, Matern52)
"""In the order of their numbers in `vecchia_numba`."""
_BATCH_ENTRIES = 2**20
"""Covariances in a batch of small matrices (8 MiB)."""
_NOT_DEFINITE = "A covariance of neighbours is not positive definite."


@cache
def _compiled() -> ModuleType | None:
    """The compiled functions, or None without numba."""
    try:
        from biasgp.covariance import vecchia_numba
    except ImportError:
        return None
    return vecchia_numba


def density(block: Block, kernel: Kernel, each_noise: bool, noise: Array, y: Array) -> Density:
    """Σ ½(log v + r²/v) over the targets' y given that of their neighbours; y and noise are the members'."""
    fast = _compiled()
    if fast is None or not isinstance(kernel, Stationary) or type(kernel) not in _FAMILIES:
        return _density_in_batches(block, kernel, each_noise, noise, y)
    rows = len(block.targets) if each_noise else 0
    entries = np.zeros((rows, block.neighbours.shape[1] + 1))
    fine, sums = fast.density(_sites(block, kernel, noise), y, entries)
    if not fine:
        raise CovarianceError(_NOT_DEFINITE)
    by_length = sums[2:-1] if kernel.ard else [sums[2:-1].sum()]
    by_noise = _to_members(block, entries) if each_noise else sums[-1:]
    return Density(float(sums[0]), np.concatenate([sums[1:2], by_length]), by_noise)


def condition(block: Block, kernel: Kernel, noise: Array, own: Array | None = None) -> tuple[Array, Array]:
    """Weights of the neighbours in E(target | neighbours), 0 where there is none, and its variance.

    That is with the noise `own` of each target, or with the noise that it has as a member.
    """
    own = noise[block.targets] if own is None else own
    weights, v = np.empty(block.neighbours.shape), np.empty(len(block.targets))
    fast = _compiled()
    if fast is None or not isinstance(kernel, Stationary) or type(kernel) not in _FAMILIES:
        for part, where, there in _batches(block):
            diagonal = noise[where]
            diagonal[:, -1] = own[part]
            L = _factor(kernel.batched_vjp(block.X[where])[0], there, diagonal)
            weights[part] = _solve_upper(L[:, :-1, :-1], L[:, -1, :-1])
            v[part] = L[:, -1, -1] ** 2
    elif not fast.condition(_sites(block, kernel, noise), own, weights, v):
        raise CovarianceError(_NOT_DEFINITE)
    return weights, v


def _sites(block: Block, kernel: Stationary, noise: Array) -> tuple[object, ...]:
    """A block and its kernel, as the compiled functions take them."""
    A = np.ascontiguousarray(kernel.scaled_inputs(block.X))
    return A, noise, block.targets, block.neighbours, _FAMILIES.index(type(kernel)), kernel.variance


def _to_members(block: Block, entries: Array) -> Array:
    """Sums over the targets of what each has for its neighbours and, last, for itself."""
    where = np.column_stack([block.neighbours, block.targets])
    kept = where >= 0
    return np.asarray(np.bincount(where[kept], entries[kept], len(block.members)), dtype=np.float64)


def _batches(block: Block) -> Iterator[tuple[slice, NDArray[np.int32], NDArray[np.bool_]]]:
    """Slices of the targets, with the indices of their neighbours and, last, of themselves, and which there are."""
    m = block.neighbours.shape[1]
    step = max(1, _BATCH_ENTRIES // (m + 1) ** 2)
    for start in range(0, len(block.targets), step):
        part = slice(start, start + step)
        where = np.column_stack([block.neighbours[part], block.targets[part]])
        yield part, np.maximum(where, 0), where >= 0


def _factor(C: Array, there: NDArray[np.bool_], diagonal: Array) -> Array:
    """Cholesky factors; a neighbour that is not there is a point apart, with variance 1."""
    K = np.where(there[:, :, None] & there[:, None, :], C, 0.0)
    n = K.shape[1]
    K[:, np.arange(n), np.arange(n)] += np.where(there, diagonal, 1.0)
    try:
        return np.asarray(np.linalg.cholesky(K))
    except np.linalg.LinAlgError as error:
        raise CovarianceError(_NOT_DEFINITE) from error


def _solve_upper(L: Array, b: Array) -> Array:
    """L⁻ᵀb for each of a stack."""
    return np.asarray(np.linalg.solve(L.transpose(0, 2, 1), b[:, :, None])[:, :, 0])


def _density_in_batches(block: Block, kernel: Kernel, each_noise: bool, noise: Array, y: Array) -> Density:
    value, by_theta, by_noise = 0.0, np.zeros(len(kernel.theta)), np.zeros(len(block.members) if each_noise else 1)
    for _, where, there in _batches(block):
        C, pullback = kernel.batched_vjp(block.X[where])
        L = _factor(C, there, noise[where])
        z: Array = np.linalg.solve(L, np.where(there, y[where], 0.0)[:, :, None])[:, :, 0].astype(np.float64)
        root, last = L[:, -1, -1], z[:, -1]
        value += float((np.log(root) + 0.5 * last**2).sum())
        u, w = np.ones_like(z), np.zeros_like(z)
        u[:, :-1] = -_solve_upper(L[:, :-1, :-1], L[:, -1, :-1])
        w[:, :-1] = _solve_upper(L[:, :-1, :-1], z[:, :-1])
        # dv = uᵀ dK u and dr = −wᵀ dK u: see vecchia_numba.density.
        by_v, by_r = 0.5 * (1.0 - last**2) / root**2, last / root
        left = by_v[:, None] * u - by_r[:, None] * w
        W = 0.5 * (left[:, :, None] * u[:, None, :] + u[:, :, None] * left[:, None, :])
        W *= there[:, :, None] & there[:, None, :]
        by_theta += pullback(W)
        diagonal = np.einsum("bii->bi", W)
        by_noise += np.bincount(where.ravel(), diagonal.ravel(), len(by_noise)) if each_noise else diagonal.sum()
    return Density(value, by_theta, by_noise)
