"""A window of the last readings of a stream: its filter and the adjoint of that, with labels that may still change.

The passes are those of `markov_passes`, with two additions. Readings that are flagged are left out, and the adjoint
gives the odds of each label given all other readings. The state has one number more than the kernel's: the amplitude a
of an episode, which is 0 where there is none. A reading in an episode is f + a + noise; where an episode begins, a is
drawn anew from N(0, V).

`unit` is a tuple of as many zeros as the kernel's state has numbers: the compiler knows the length of a tuple, and
unrolls the loops over a state. (Functions made for one size would be compiled anew in every process.)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.markov_passes import _compile

SHARE, CENTRE, WIDTH, REPLACED = range(4)
"""Columns of groups of outliers: log share, mean and variance of the bias (of the value, if it was replaced)."""
CLEAN, SAFE, START, TYPICAL, SHORTEST, LAG = range(6)
"""Places in `rules`: log share of clean readings; squared standardised residual up to which a reading cannot be more
likely an outlier; log prior odds that an episode begins at a given reading; the length from which on ends of episodes
become rarer; readings by which a run is judged, at least; readings after which a verdict is settled."""
NUMBER, RAW, TIME, VALUE, NOISE, VERDICT = range(6)
"""Columns of facts: which reading it is, its value as it came, its time; value and noise variance in model units; good
(0) or bad (1), where somebody said so, else NaN."""
FLAG, EPISODE, SINCE, DRAWN = range(6, 10)
"""What is assumed of it: an outlier; in an episode, since when; V where one begins, else 0."""
RESIDUAL, SPREAD, ODDS, EXPECTED, UNSURE = range(10, 15)
"""What follows: residual given the readings before, and its variance; log odds of an outlier, and mean and variance of
the reading, given all others."""
N_GIVEN, N_FACTS = 6, 15
BEFORE, AFTER = 0, 1
"""Places in means and covariances: of the state before a reading and after it."""


class Window(NamedTuple):
    """Readings in order of time, a row each: facts, h, A and Q of the gap before, and the states around it."""

    facts: Array
    h: Array
    gaps: Array
    means: Array
    covs: Array

    @classmethod
    def empty(cls, size: int, capacity: int) -> Window:
        """Room for so many readings and kernels with states of `size` numbers."""
        n, s, S = capacity, size, size + 1
        return cls(
            np.zeros((n, N_FACTS)),
            np.zeros((n, s)),
            np.zeros((n, 2, s, s)),
            np.zeros((n, 2, S)),
            np.zeros((n, 2, S, S)),
        )


# Loops, where NumPy has a slice: numba takes seconds to compile each assignment of one.
@_compile
def _copy_row(source: Any, target: Any) -> None:
    """One row of numbers onto another."""
    for i in range(len(source)):
        target[i] = source[i]


@_compile
def _copy_state(source: Any, target: Any) -> None:
    """Mean and covariance onto another."""
    _copy_row(source[0], target[0])
    for i in range(len(source[0])):
        _copy_row(source[1][i], target[1][i])


@_compile
def _log_joint(y: float, mean: float, variance: float, groups: Any, clean: float) -> tuple[float, float]:
    """log p(y, clean) and log p(y, outlier), without −½ log 2π, where f + noise is N(mean, variance)."""
    residual = y - mean
    usual = clean - 0.5 * (math.log(variance) + residual * residual / variance)
    highest, total = -np.inf, 0.0
    for g in range(len(groups)):
        centre, spread = groups[g, CENTRE], groups[g, WIDTH]
        off = y - centre
        if groups[g, REPLACED] == 0.0:
            off, spread = residual - centre, variance + spread
        value = groups[g, SHARE] - 0.5 * (math.log(spread) + off * off / spread)
        if value > highest:
            total = total * math.exp(highest - value) + 1.0
            highest = value
        else:
            total += math.exp(value - highest)
    return usual, highest + math.log(total) if total > 0.0 else -np.inf


@_compile
def _bias_moments(y: float, mean: float, variance: float, groups: Any, log_odds: float) -> tuple[float, float]:
    """Mean and variance of a reading's own bias over its labels, where f + noise is N(mean, variance)."""
    if len(groups) == 0:
        return 0.0, 0.0
    residual, highest = y - mean, -np.inf
    total, first, second = 0.0, 0.0, 0.0
    for g in range(len(groups)):
        replaced = groups[g, REPLACED] > 0.0
        # A replaced reading's bias is all of its residual.
        centre, spread = groups[g, CENTRE], groups[g, WIDTH]
        off, keep = y - centre, 1.0
        if not replaced:
            off, keep = residual - centre, spread / (variance + spread)
            spread = variance + spread
        own = residual if replaced else centre + keep * off
        value = groups[g, SHARE] - 0.5 * (math.log(spread) + off * off / spread)
        if value > highest:
            fade = math.exp(highest - value)
            total, first, second, highest = total * fade, first * fade, second * fade, value
        weight = math.exp(value - highest)
        total += weight
        first += weight * own
        second += weight * (keep * variance + own * own)
    chance = 1.0 / (1.0 + math.exp(-log_odds)) if log_odds > -700.0 else 0.0
    bias = chance * first / total
    return bias, max(chance * second / total - bias * bias, 0.0)


@_compile
def _moved(state: Any, gap: Any, V: float, before: Any, AP: Any, unit: Any) -> None:
    """Mean and covariance over a gap; a is drawn anew where V > 0."""
    s, S = len(unit), len(unit) + 1
    mean, after = state
    m, P = before
    a, q = gap[0], gap[1]
    for i in range(s):
        total = 0.0
        for j in range(s):
            total += a[i, j] * mean[j]
        m[i] = total
        for j in range(S):
            part = 0.0
            for k in range(s):
                part += a[i, k] * after[k, j]
            AP[i, j] = part
    for i in range(s):
        for j in range(i + 1):
            part = q[i, j]
            for k in range(s):
                part += AP[i, k] * a[j, k]
            P[i, j] = part
            P[j, i] = part
        cross = 0.0 if V > 0.0 else AP[i, s]
        P[i, s] = cross
        P[s, i] = cross
    m[s] = 0.0 if V > 0.0 else mean[s]
    P[s, s] = V if V > 0.0 else after[s, s]


@_compile
def _seen(m: Any, P: Any, h: Any, inside: bool, w: Any, unit: Any) -> tuple[float, float]:
    """Mean and variance of f (of f + a, inside an episode), and w = Ph."""
    s, S = len(unit), len(unit) + 1
    expected, spread = 0.0, 0.0
    for i in range(S):
        total = P[i, s] if inside else 0.0
        for j in range(s):
            total += P[i, j] * h[j]
        w[i] = total
    for i in range(s):
        expected += h[i] * m[i]
        spread += h[i] * w[i]
    if inside:
        expected += m[s]
        spread += w[s]
    return expected, spread


@_compile
def _learnt(before: Any, reading: Any, w: Any, after: Any, unit: Any) -> None:
    """State after a reading (h, in an episode, residual, its variance F, noise), by Joseph's form."""
    s, S = len(unit), len(unit) + 1
    m, P = before
    h, inside, v, F, R = reading
    mean, covariance = after
    precision = 1.0 / F
    for i in range(S):
        gain, total = w[i] * precision, 0.0
        mean[i] = m[i] + gain * v
        for j in range(s):
            total += (P[i, j] - gain * w[j]) * h[j]
        if inside:
            total += P[i, s] - gain * w[s]
        for j in range(i + 1):
            other = w[j] * precision
            value = P[i, j] - gain * w[j] - total * other + R * gain * other
            covariance[i, j] = value
            covariance[j, i] = value


@_compile
def _forward(W: Any, base: Any, span: Any, scratch: Any) -> None:
    """The filter over places start…stop − 1 of a window that begins at `first`, with the present labels."""
    first, start, stop = span
    w, AP, unit = scratch
    for t in range(start, stop):
        fact, h, inside = W.facts[t], W.h[t], W.facts[t, EPISODE] > 0.0
        mean = base.mean if t == first else W.means[t - 1, AFTER]
        covariance = base.covariance if t == first else W.covs[t - 1, AFTER]
        before, after = (W.means[t, BEFORE], W.covs[t, BEFORE]), (W.means[t, AFTER], W.covs[t, AFTER])
        _moved((mean, covariance), W.gaps[t], fact[DRAWN], before, AP, unit)
        expected, spread = _seen(before[0], before[1], h, inside, w, unit)
        fact[RESIDUAL], fact[SPREAD] = fact[VALUE] - expected, spread + fact[NOISE]
        if fact[NOISE] == np.inf or fact[FLAG] > 0.0:
            _copy_state(before, after)
        else:
            _learnt(before, (h, inside, fact[RESIDUAL], fact[SPREAD], fact[NOISE]), w, after, unit)


@_compile
def _smoothed(m: Any, P: Any, h: Any, adjoint: Any, out: Any, unit: Any) -> None:
    """Mean and variance of f and of a, from the state before a reading and the adjoint there."""
    s, S = len(unit), len(unit) + 1
    r, N, u = adjoint
    for part in range(2):
        mean, variance = 0.0, 0.0
        for i in range(S):
            total = P[i, s] if part else 0.0
            if part == 0:
                for j in range(s):
                    total += P[i, j] * h[j]
            u[i] = total
            mean += total * r[i]
            weight = (1.0 if part else 0.0) if i == s else (0.0 if part else h[i])
            mean += weight * m[i]
            variance += weight * total
        for i in range(S):
            for j in range(S):
                variance -= u[i] * N[i, j] * u[j]
        out[2 * part], out[2 * part + 1] = mean, max(variance, 0.0)


@_compile
def _backward(W: Any, groups: Any, rules: Any, span: Any, smooth: Any, scratch: Any) -> int:
    """Log odds of each reading given all others; the first place whose flag they contradict, or −1.

    `smooth`: mean and variance of f, and of a, at the first readings given all of the window, a row each.
    """
    first, stop = span
    # Places in whole arrays: each row of one that has a name costs as much as the arithmetic.
    facts, hs, gaps, means, covs = W
    w, room, unit = scratch
    s, S = len(unit), len(unit) + 1
    r, K, n, turned, full, N, B = room[0], room[1], room[2], room[3], room[4], room[5 : 5 + S], room[5 + S : 5 + 2 * S]
    for i in range(S):
        r[i] = 0.0
        for j in range(S):
            N[i, j] = 0.0
    wrong = -1
    for t in range(stop - 1, first - 1, -1):
        F, R, there = facts[t, SPREAD], facts[t, NOISE], facts[t, NOISE] != np.inf
        expected, spread, inside = 0.0, 0.0, facts[t, EPISODE]
        for i in range(S):
            full[i] = hs[t, i] if i < s else inside
            total = covs[t, BEFORE, i, s] * inside
            for j in range(s):
                total += covs[t, BEFORE, i, j] * hs[t, j]
            w[i] = total
            expected += full[i] * means[t, BEFORE, i]
            spread += full[i] * total
        if facts[t, FLAG] > 0.0 or not there:
            for i in range(S):
                expected += w[i] * r[i]
                total = 0.0
                for j in range(S):
                    total += N[i, j] * w[j]
                spread -= w[i] * total
            facts[t, EXPECTED], facts[t, UNSURE] = expected, max(spread, 0.0) + R
        else:
            weight = 1.0 / F
            own, precision = facts[t, RESIDUAL] * weight, weight
            for i in range(S):
                K[i] = w[i] * precision
                own -= K[i] * r[i]
            for i in range(S):
                total = 0.0
                for j in range(S):
                    total += N[i, j] * K[j]
                n[i] = total
                weight += K[i] * total
            facts[t, EXPECTED], facts[t, UNSURE] = facts[t, VALUE] - own / weight, 1.0 / weight
            for i in range(S):
                r[i] += full[i] * own
                total = 0.0
                for j in range(S):
                    B[i, j] = N[i, j] - full[i] * n[j]
                    total += B[i, j] * K[j]
                turned[i] = total
            for i in range(S):
                for j in range(i + 1):
                    part = B[i, j] - turned[i] * full[j] + full[i] * full[j] * precision
                    N[i, j] = part
                    N[j, i] = part
        if there and len(groups):
            off = facts[t, VALUE] - facts[t, EXPECTED]
            told = t == first or t == stop - 1 or len(smooth) > 1 or facts[t, FLAG] > 0.0
            if facts[t, VERDICT] == facts[t, VERDICT]:
                facts[t, ODDS] = np.inf if facts[t, VERDICT] > 0.0 else -np.inf
            elif told or off * off > rules[SAFE] * facts[t, UNSURE]:
                clean, out = _log_joint(facts[t, VALUE], facts[t, EXPECTED], facts[t, UNSURE], groups, rules[CLEAN])
                facts[t, ODDS] = out - clean
                if (out > clean) != (facts[t, FLAG] > 0.0):
                    wrong = t
            else:
                facts[t, ODDS] = -1.0  # clean, however much so
        if t - first < len(smooth):
            _smoothed(means[t, BEFORE], covs[t, BEFORE], hs[t], (r, N, turned), smooth[t - first], unit)
        if t == first:
            break
        if facts[t, DRAWN] > 0.0:  # what was a before is another amplitude
            r[s] = 0.0
            for i in range(S):
                N[i, s] = 0.0
                N[s, i] = 0.0
        for i in range(s):
            total = 0.0
            for k in range(s):
                total += gaps[t, 0, k, i] * r[k]
            turned[i] = total
        for i in range(s):
            r[i] = turned[i]
        for i in range(S):
            for j in range(s):
                part = 0.0
                for k in range(s):
                    part += N[i, k] * gaps[t, 0, k, j]
                B[i, j] = part
        for i in range(s):
            for j in range(i + 1):
                part = 0.0
                for k in range(s):
                    part += gaps[t, 0, k, i] * B[k, j]
                N[i, j] = part
                N[j, i] = part
            N[s, i] = B[s, i]
            N[i, s] = B[s, i]
    return wrong
