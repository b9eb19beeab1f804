"""The conditional densities of a block of readings, compiled for the common kernels; contract as in `conditionals.py`.

Row j of an upper triangle holds the covariances of point j with those after it, so that every inner loop runs along
memory. The target comes last: the last pivot of the Cholesky factor is its conditional standard deviation.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from biasgp.covariance.compiling import compiled
from biasgp.kernels.stationary import SAME_POINT

SQUARED_EXPONENTIAL, EXPONENTIAL, MATERN32, MATERN52 = range(4)
# Sums may be taken in vector order. Not NaN-free: a failed factorisation must show.
_FAST = {"reassoc", "contract", "nsz"}
Sites = tuple[Any, Any, Any, Any, int, float]
"""Points in units of the length-scales, and their noise; targets and their neighbours (−1: none) among them; the family
and the variance of the kernel."""
_compile = partial(compiled, fastmath=_FAST)
# Always inside their callers: a process that has just compiled a separate function and one that has read it from
# numba's cache use differently optimised copies of it, whose sums differ in the last bit.
_compile_inside = partial(compiled, fastmath=_FAST, forceinline=True)


@_compile_inside
def _covariances(P: Any, n: int, family: int, variance: float, K: Any, S: Any) -> None:
    """Upper triangles (without diagonals) of the covariance of the points in the columns of P, and of its slope."""
    d = P.shape[0]
    for j in range(n - 1):
        for k in range(j + 1, n):
            K[j, k] = 0.0
        for i in range(d):
            own = P[i, j]
            for k in range(j + 1, n):
                gap = P[i, k] - own
                K[j, k] += gap * gap
        if family == SQUARED_EXPONENTIAL:
            for k in range(j + 1, n):
                K[j, k] = variance * math.exp(-0.5 * K[j, k])
                S[j, k] = K[j, k]
        elif family == EXPONENTIAL:
            for k in range(j + 1, n):
                D = math.sqrt(K[j, k])
                K[j, k] = variance * math.exp(-D)
                S[j, k] = K[j, k] / max(D, SAME_POINT)
        elif family == MATERN32:
            for k in range(j + 1, n):
                r = math.sqrt(3.0 * K[j, k])
                e = variance * math.exp(-r)
                K[j, k] = (1.0 + r) * e
                S[j, k] = 3.0 * e
        else:
            for k in range(j + 1, n):
                r = math.sqrt(5.0 * K[j, k])
                e = variance * math.exp(-r)
                K[j, k] = (1.0 + r + r * r / 3.0) * e
                S[j, k] = (5.0 / 3.0) * (1.0 + r) * e


@_compile_inside
def _cholesky(U: Any, n: int) -> bool:
    """UᵀU in place of the upper triangle of a matrix; False where it is not positive definite.

    Four rows are finished before they are taken off the rest, which is then read and written once.
    """
    for j in range(0, n, 4):
        stop = min(j + 4, n)
        for p in range(j, stop):
            for q in range(j, p):
                factor = U[q, p]
                for k in range(p, n):
                    U[p, k] -= factor * U[q, k]
            pivot = U[p, p]
            if not pivot > 0.0:
                return False
            root = math.sqrt(pivot)
            U[p, p] = root
            for k in range(p + 1, n):
                U[p, k] /= root
        for i in range(stop, n):
            a, b, c, d = U[j, i], U[j + 1, i], U[j + 2, i], U[j + 3, i]
            for k in range(i, n):
                U[i, k] -= a * U[j, k] + b * U[j + 1, k] + c * U[j + 2, k] + d * U[j + 3, k]
    return True


@_compile_inside
def _gather(A: Any, target: int, neighbours: Any, P: Any) -> int:
    """Coordinates of the neighbours, then of the target, into the columns of P; how many neighbours there are."""
    n = 0
    while n < neighbours.shape[0] and neighbours[n] >= 0:
        n += 1
    for i in range(P.shape[0]):
        for k in range(n):
            P[i, k] = A[neighbours[k], i]
        P[i, n] = A[target, i]
    return n


@_compile_inside
def _factorise(sites: Sites, near: Any, n: int, own_noise: float, K: Any, U: Any) -> bool:
    """Cholesky factor of the covariance of n neighbours and their target, with their noise, into U."""
    _, noise, _, _, _, variance = sites
    for j in range(n + 1):
        U[j, j] = variance + (noise[near[j]] if j < n else own_noise)
        for k in range(j + 1, n + 1):
            U[j, k] = K[j, k]
    return _cholesky(U, n + 1)


@_compile_inside
def _back_solve(U: Any, n: int, x: Any) -> None:
    """U⁻¹x in place."""
    for j in range(n - 1, -1, -1):
        total = x[j]
        for k in range(j + 1, n):
            total -= U[j, k] * x[k]
        x[j] = total / U[j, j]


@_compile
def density(sites: Sites, y: Any, entries: Any) -> tuple[bool, Any]:
    """Σ ½(log v + r²/v) over the targets, then its gradient in log variance, each log length-scale and (summed) noise.

    `entries`, where it has rows, gets the gradient in the noise of each neighbour and, last, of the target.
    """
    A, noise, targets, neighbours, family, variance = sites
    m, d = neighbours.shape[1], A.shape[1]
    K, S, U = np.empty((m + 1, m + 1)), np.empty((m + 1, m + 1)), np.empty((m + 1, m + 1))
    P, b, w, z, u = np.empty((d, m + 1)), np.empty(m + 1), np.empty(m + 1), np.empty(m + 1), np.empty(m + 1)
    out = np.zeros(d + 3)
    for t in range(len(targets)):
        own, near = targets[t], neighbours[t]
        n = _gather(A, own, near, P)
        _covariances(P, n + 1, family, variance, K, S)
        if not _factorise(sites, near, n, noise[own], K, U):
            return False, out
        for k in range(n):
            z[k] = y[near[k]]
        z[n] = y[own]
        for k in range(n + 1):
            z[k] /= U[k, k]
            for i in range(k + 1, n + 1):
                z[i] -= U[k, i] * z[k]
        for k in range(n):
            b[k], w[k] = U[k, n], z[k]
        _back_solve(U, n, b)
        _back_solve(U, n, w)
        root, last = U[n, n], z[n]
        out[0] += math.log(root) + 0.5 * last * last
        # dv = uᵀ dK u and dr = −wᵀ dK u with u = (−b, 1) and w = (K⁻¹y, 0): a contraction with W = by_v·uuᵀ − by_r·wuᵀ.
        by_v, by_r = 0.5 * (1.0 - last * last) / (root * root), last / root
        for k in range(n):
            u[k] = -b[k]
        u[n], w[n] = 1.0, 0.0
        total = 0.0
        for j in range(n):
            first, second = 2.0 * by_v * u[j] - by_r * w[j], by_r * u[j]
            for k in range(j + 1, n + 1):
                weight = first * u[k] - second * w[k]
                total += weight * K[j, k]
                S[j, k] *= weight
            for i in range(d):
                here, share = P[i, j], 0.0
                for k in range(j + 1, n + 1):
                    gap = P[i, k] - here
                    share += S[j, k] * gap * gap
                out[2 + i] += share
        diagonal = 0.0
        for j in range(n + 1):
            weight = by_v * u[j] * u[j] - by_r * w[j] * u[j]
            diagonal += weight
            if len(entries) > 0:
                entries[t, m if j == n else j] = weight
        out[1] += total + variance * diagonal
        out[d + 2] += diagonal
    return True, out


@_compile
def condition(sites: Sites, own: Any, weights: Any, v: Any) -> bool:
    """Weights of the neighbours in E(target | neighbours), and its variance with noise own[t]."""
    A, _, targets, neighbours, family, variance = sites
    m, d = neighbours.shape[1], A.shape[1]
    K, S, U = np.empty((m + 1, m + 1)), np.empty((m + 1, m + 1)), np.empty((m + 1, m + 1))
    P, b = np.empty((d, m + 1)), np.empty(m + 1)
    for t in range(len(targets)):
        near = neighbours[t]
        n = _gather(A, targets[t], near, P)
        _covariances(P, n + 1, family, variance, K, S)
        if not _factorise(sites, near, n, own[t], K, U):
            return False
        for k in range(n):
            b[k] = U[k, n]
        _back_solve(U, n, b)
        for k in range(m):
            weights[t, k] = b[k] if k < n else 0.0
        v[t] = U[n, n] * U[n, n]
    return True
