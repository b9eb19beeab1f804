"""The two passes over readings in order of time that `markov.py` is made of, compiled where numba is installed.

Forward, the Kalman filter: the state before each reading given those before it. Backward (de Jong's recursion), the
adjoint of the filter: r and N are such that r is the slope of log p(y) in the mean of a state, and ½(rrᵀ − N) that in
its covariance. They give K⁻¹y, the diagonal of K⁻¹, the gradient, and f between the readings, all from one pass.

Why it is stable: covariances are never differences. A reading takes P to (I − Khᵀ)P(I − Khᵀ)ᵀ + R KKᵀ (Joseph's form),
a gap to APAᵀ + Q, and a reading on the way back N to (I − hKᵀ)N(I − Khᵀ) + hhᵀ/F: sums of positive semidefinite
matrices, each computed with an error that is small relative to itself, however small R is beside P. Errors are not
amplified on the way: what a reading forgets of the state it forgets of its error as well.

A reading whose noise R is infinite is not there: it is predicted, and nothing learns from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.compiling import compiled

COMPILED = find_spec("numba") is not None


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled, if numba is installed."""
    # Not NaN-free: what fails must show.
    return compiled(function, fastmath={"contract"}) if COMPILED else function


_KNOWN_TO_THE_COMPILER = 4
"""Numbers of a state up to which the passes are compiled for just that many, which makes them several times as fast."""


class _Passes(NamedTuple):
    """The passes for states of one size."""

    forward: Callable[..., float]
    backward: Callable[..., None]
    collect: Callable[..., None]
    collect_backward: Callable[..., None]
    carry: Callable[..., None]


class Gaps(NamedTuple):
    """Which gap comes before each reading, and the length, A and Q (g, s, s) of every different one."""

    which: Any
    lengths: Array
    A: Array
    Q: Array


def passes(size: int) -> _Passes:
    """The passes for states of `size` numbers."""
    return _passes(size if size <= _KNOWN_TO_THE_COMPILER else 0)


@cache
def _passes(size: int) -> _Passes:
    """The passes, compiled for states of one size; 0: of any."""

    @_compile
    def forward(readings: Any, gaps: Any, state: Any, filtered: Any) -> float:
        """−log p(y) without its constant; m and P before each reading, its residual v and the variance F of that.

        `state`: mean and covariance after the readings before, which are moved on to after these.
        """
        y, R, H = readings
        s = size if size > 0 else H.shape[1]
        which, _, A, Q = gaps
        mean, after = state
        m, P, v, F = filtered
        w, K, B, AP = np.zeros(s), np.zeros(s), np.zeros((s, s)), np.zeros((s, s))
        value = 0.0
        for t in range(len(y)):
            h, before, a, q = H[t], P[t], A[which[t]], Q[which[t]]
            for i in range(s):
                total = 0.0
                for j in range(s):
                    total += a[i, j] * mean[j]
                    part = 0.0
                    for k in range(s):
                        part += a[i, k] * after[k, j]
                    AP[i, j] = part
                m[t, i] = total
            for i in range(s):
                for j in range(i + 1):
                    part = q[i, j]
                    for k in range(s):
                        part += AP[i, k] * a[j, k]
                    before[i, j] = part
                    before[j, i] = part
            expected, spread = 0.0, 0.0
            for i in range(s):
                total = 0.0
                for j in range(s):
                    total += before[i, j] * h[j]
                w[i] = total
                expected += h[i] * m[t, i]
                spread += h[i] * total
            if R[t] == np.inf:
                v[t], F[t] = 0.0, np.inf
                mean[:] = m[t]
                after[:] = before
                continue
            residual, variance = y[t] - expected, spread + R[t]
            v[t], F[t] = residual, variance
            value += 0.5 * (math.log(variance) + residual * residual / variance)
            for i in range(s):
                K[i] = w[i] / variance
                mean[i] = m[t, i] + K[i] * residual
            for i in range(s):
                total = 0.0
                for j in range(s):
                    B[i, j] = before[i, j] - K[i] * w[j]
                    total += B[i, j] * h[j]
                for j in range(i + 1):
                    part = B[i, j] - total * K[j] + R[t] * K[i] * K[j]
                    after[i, j] = part
                    after[j, i] = part
        return value

    @_compile
    def backward(readings: Any, gaps: Any, state: Any, filtered: Any, results: Any) -> None:
        """The adjoint of `forward`, into the arrays of `results`: what is found, slopes and adjoint.

        Found: K⁻¹y and the diagonal of K⁻¹, which may take the place of v and F; and, if they have rows, mean and
        variance of f at each reading given all others. `state`: r and N before the gap to the readings that follow,
        which are moved on to before these. Slopes: those of log p(y) in F and in Q of each gap, if the latter has rows.
        Adjoint: r and N before each reading, if it has rows.
        """
        y, R, H = readings
        s = size if size > 0 else H.shape[1]
        which, tau, A, Q = gaps
        r, N = state
        m, P, v, F = filtered
        found, slopes, adjoint = results
        alpha, precision, mean_without, variance_without = found
        by_F, by_Q = slopes
        all_r, all_N = adjoint
        w, K, n, turned = np.zeros(s), np.zeros(s), np.zeros(s), np.zeros(s)
        B, S = np.zeros((s, s)), np.zeros((s, s))
        for t in range(len(y) - 1, -1, -1):
            h, before, there = H[t], P[t], R[t] != np.inf
            for i in range(s):
                total = 0.0
                for j in range(s):
                    total += before[i, j] * h[j]
                w[i] = total
            if there:
                inverse = 1.0 / F[t]
                own, weight = v[t] * inverse, inverse
                for i in range(s):
                    K[i] = w[i] * inverse
                    own -= K[i] * r[i]
                for i in range(s):
                    total = 0.0
                    for j in range(s):
                        total += N[i, j] * K[j]
                    n[i] = total
                    weight += K[i] * total
                alpha[t], precision[t] = own, weight
                if len(mean_without):
                    mean_without[t], variance_without[t] = y[t] - own / weight, 1.0 / weight - R[t]
                for i in range(s):
                    r[i] += h[i] * own
                    total = 0.0
                    for j in range(s):
                        B[i, j] = N[i, j] - h[i] * n[j]
                        total += B[i, j] * K[j]
                    turned[i] = total
                for i in range(s):
                    for j in range(i + 1):
                        part = B[i, j] - turned[i] * h[j] + h[i] * h[j] * inverse
                        N[i, j] = part
                        N[j, i] = part
            else:
                alpha[t], precision[t] = 0.0, 0.0
                if len(mean_without):
                    expected, spread = 0.0, 0.0
                    for i in range(s):
                        total = 0.0
                        for j in range(s):
                            total += N[i, j] * w[j]
                        expected += h[i] * m[t, i] + w[i] * r[i]
                        spread += h[i] * w[i] - w[i] * total
                    mean_without[t], variance_without[t] = expected, spread
            if len(all_r):
                all_r[t] = r
                all_N[t] = N
            # Over the gap before, P became AP'Aᵀ + Q, and A = exp(τF).
            gap = which[t]
            a, q = A[gap], Q[gap]
            if len(by_Q):
                for i in range(s):
                    for j in range(s):
                        S[i, j] = 0.5 * (r[i] * r[j] - N[i, j])
                        by_Q[gap, i, j] += S[i, j]
                for i in range(s):
                    for j in range(s):
                        part = 0.0
                        for k in range(s):
                            part += S[i, k] * (before[k, j] - q[k, j])
                        by_F[i, j] += tau[gap] * (r[i] * m[t, j] + 2.0 * part)
            for i in range(s):
                total = 0.0
                for k in range(s):
                    total += a[k, i] * r[k]
                turned[i] = total
                for j in range(s):
                    part = 0.0
                    for k in range(s):
                        part += N[i, k] * a[k, j]
                    B[i, j] = part
            for i in range(s):
                r[i] = turned[i]
                for j in range(i + 1):
                    part = 0.0
                    for k in range(s):
                        part += a[k, i] * B[k, j]
                    N[i, j] = part
                    N[j, i] = part

    @_compile
    def collect(weighted: Any, gaps: Any, prior: Any, state: Any, out: Any) -> None:
        """Add to out what f at each reading has in common with Σ v f over it and those before."""
        v, H = weighted
        s = size if size > 0 else H.shape[1]
        which, _, A, _ = gaps
        turned = np.zeros(s)
        for t in range(len(v)):
            h, a = H[t], A[which[t]]
            for i in range(s):
                total = 0.0
                for j in range(s):
                    total += a[i, j] * state[j]
                turned[i] = total
            own = 0.0
            for i in range(s):
                total = 0.0
                for j in range(s):
                    total += prior[i, j] * h[j]
                state[i] = turned[i] + total * v[t]
                own += h[i] * state[i]
            out[t] += own

    @_compile
    def collect_backward(weighted: Any, gaps: Any, prior: Any, state: Any, out: Any) -> None:
        """The same for those after it."""
        v, H = weighted
        s = size if size > 0 else H.shape[1]
        which, _, A, _ = gaps
        turned = np.zeros(s)
        for t in range(len(v) - 1, -1, -1):
            h, a, own = H[t], A[which[t]], 0.0
            for i in range(s):
                total = 0.0
                for j in range(s):
                    total += prior[i, j] * h[j]
                own += total * state[i]
                turned[i] = state[i] + h[i] * v[t]
            out[t] += own
            for i in range(s):
                total = 0.0
                for k in range(s):
                    total += a[k, i] * turned[k]
                state[i] = total

    @_compile
    def carry(vectors: Any, A: Any, gains: Any, H: Any) -> None:
        """Vectors (k, s), moved by each A and then taken through the reading after it, if there is one: (I − Khᵀ)v."""
        s = size if size > 0 else A.shape[1]
        turned = np.zeros(s)
        for t in range(len(A)):
            for row in range(len(vectors)):
                v, seen = vectors[row], 0.0
                for i in range(s):
                    total = 0.0
                    for j in range(s):
                        total += A[t, i, j] * v[j]
                    turned[i] = total
                    if t < len(gains):
                        seen += H[t, i] * total
                for i in range(s):
                    v[i] = turned[i] - (gains[t, i] * seen if t < len(gains) else 0.0)

    return _Passes(forward, backward, collect, collect_backward, carry)
