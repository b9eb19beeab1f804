"""One reading after the other: the compiled steps of a Kalman filter whose latest labels are still open.

The state before a window of the last readings is settled. Within the window the filter runs forward with the present
labels, and its adjoint backward (`markov_passes` has both), so that every reading in it has its leave-one-out odds given
all before it and those after it so far. Labels follow these odds. Where that leaves a run of outliers, a bias that lasts
is weighed against them, and a change of f itself: by the evidence of the window.

The state has one number more than the kernel's: the amplitude a of an episode, which is 0 where there is none. A reading
in an episode is f + a + noise; where an episode begins, a is drawn anew from N(0, V).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.markov_passes import _compile

MAX_PASSES = 4
"""Passes over the labels of a window per reading, so that its cost is bounded; labels go on moving with the next."""
_NOTHING, _CHANGE, _START, _END = 0, 1, 2, 3
_WIDE = 4.0
"""A first V, as a multiple of the square of the residual where an episode may begin; the best V follows from it."""


class Odds(NamedTuple):
    """What an outlier is: log share, mean and variance of each group; whether values are replaced; log share clean."""

    shares: Array
    means: Array
    variances: Array
    replaced: bool
    clean: float


class Prices(NamedTuple):
    """Log prior odds: of an episode that begins at a given reading, and readings after which half of them have ended.

    `shortest` is the least number of readings by which a run is judged.
    """

    start: float
    typical: float
    shortest: int


class Window(NamedTuple):
    """The readings that are still open, in places first…first + count − 1 of these arrays (`counts` has both).

    The `number` of each reading and its value as it came (`raw`) are kept for the verdict. Its time, `y`, noise `R` (infinite where a reading is missing), h, and A and Q of the gap before each; what is assumed of it:
    `flag`, in an `episode` or not and `since` when, `V` where one begins; and what the filter made of that: state before
    (`m`, `P`) and after (`ma`, `Pa`), residual `v` and its variance `F`, the log odds of an outlier given all others, and
    mean and variance of the reading (noise included) `without` itself.
    """

    number: Any
    raw: Array
    t: Array
    y: Array
    R: Array
    h: Array
    A: Array
    Q: Array
    flag: Any
    episode: Any
    since: Array
    V: Array
    m: Array
    P: Array
    ma: Array
    Pa: Array
    v: Array
    F: Array
    log_odds: Array
    without: Array


class Settled(NamedTuple):
    """The state after the last settled reading (mean, covariance), and in `facts`: its time, whether it is in an
    episode, since when, and how many readings of it are settled."""

    mean: Array
    covariance: Array
    facts: Array


class Coming(NamedTuple):
    """Readings to come, in order of time: `which` of the gaps A, Q is before each."""

    number: Any
    raw: Array
    t: Array
    y: Array
    R: Array
    h: Array
    which: Any
    A: Array
    Q: Array


TIME, IN_EPISODE, SINCE, LENGTH = range(4)
"""Places in `Settled.facts`."""
MEAN, VARIANCE, LOG_ODDS, BIAS, BIAS_VARIANCE, EPISODE, BEGAN, NUMBER, AT, RAW = range(10)
"""Columns of verdicts: of f; of an outlier; of the bias; in an episode, and since when; which reading it is."""
N_COLUMNS = 10
FIRST, COUNT = range(2)
"""Places in `counts`."""


def empty_window(size: int, capacity: int) -> Window:
    """Room for so many readings and states of `size` numbers."""
    n, s = capacity, size
    return Window(
        number=np.zeros(n, dtype=np.int64), raw=np.zeros(n), t=np.zeros(n), y=np.zeros(n), R=np.zeros(n), h=np.zeros((n, s)), A=np.zeros((n, s, s)), Q=np.zeros((n, s, s)),
        flag=np.zeros(n, dtype=np.bool_), episode=np.zeros(n, dtype=np.bool_), since=np.zeros(n), V=np.zeros(n),
        m=np.zeros((n, s + 1)), P=np.zeros((n, s + 1, s + 1)), ma=np.zeros((n, s + 1)), Pa=np.zeros((n, s + 1, s + 1)),
        v=np.zeros(n), F=np.ones(n), log_odds=np.zeros(n), without=np.zeros((n, 2)),
    )  # fmt: skip


class Steps(NamedTuple):
    """The compiled steps for states of one size."""

    advance: Callable[..., int]
    look: Callable[..., None]


@_compile
def _log_joint(y: float, mean: float, variance: float, odds: Any) -> tuple[float, float]:
    """log p(y, clean) and log p(y, outlier), without −½ log 2π, where f + noise is N(mean, variance)."""
    residual = y - mean
    clean = odds.clean - 0.5 * (math.log(variance) + residual * residual / variance)
    highest, total = -np.inf, 0.0
    for g in range(len(odds.shares)):
        if odds.replaced:
            off, spread = y - odds.means[g], odds.variances[g]
        else:
            off, spread = residual - odds.means[g], variance + odds.variances[g]
        value = odds.shares[g] - 0.5 * (math.log(spread) + off * off / spread)
        if value > highest:
            total = total * math.exp(highest - value) + 1.0
            highest = value
        else:
            total += math.exp(value - highest)
    return clean, highest + math.log(total) if total > 0.0 else -np.inf


@_compile
def _bias_moments(y: float, mean: float, variance: float, log_odds: float, odds: Any) -> tuple[float, float]:
    """Mean and variance of a reading's own bias over its labels (`_Odds.moments_of_bias` for one reading)."""
    if len(odds.shares) == 0 or log_odds < -700.0:
        return 0.0, 0.0
    residual = y - mean
    highest = -np.inf
    for g in range(len(odds.shares)):
        spread = odds.variances[g] if odds.replaced else variance + odds.variances[g]
        off = y - odds.means[g] if odds.replaced else residual - odds.means[g]
        highest = max(highest, odds.shares[g] - 0.5 * (math.log(spread) + off * off / spread))
    chance = 1.0 / (1.0 + math.exp(-log_odds)) if log_odds < 700.0 else 1.0
    total, first, second = 0.0, 0.0, 0.0
    for g in range(len(odds.shares)):
        spread = odds.variances[g] if odds.replaced else variance + odds.variances[g]
        off = y - odds.means[g] if odds.replaced else residual - odds.means[g]
        weight = math.exp(odds.shares[g] - 0.5 * (math.log(spread) + off * off / spread) - highest)
        # A replaced reading's bias is all of its residual.
        keep = 1.0 if odds.replaced else odds.variances[g] / spread
        centre = 0.0 if odds.replaced else odds.means[g]
        own = centre + keep * (residual - centre)
        total += weight
        first += weight * own
        second += weight * (keep * variance + own * own)
    mean_bias = chance * first / total
    return mean_bias, max(chance * second / total - mean_bias * mean_bias, 0.0)


@lru_cache(maxsize=None)
def steps(size: int) -> Steps:
    """The steps for kernels with states of `size` numbers, which the compiler then knows."""
    s, S = size, size + 1

    @_compile
    def moved(mean: Any, after: Any, a: Any, q: Any, V: float, m: Any, P: Any, AP: Any) -> None:
        """m and P before a reading, from mean and covariance after the one before; a is drawn anew where V > 0."""
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
    def seen(m: Any, P: Any, h: Any, inside: bool, w: Any) -> tuple[float, float]:
        """Mean and variance of f (+ a, inside an episode) before a reading; w = Ph."""
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
    def learnt(m: Any, P: Any, h: Any, inside: bool, w: Any, v: float, F: float, R: float, ma: Any, Pa: Any) -> None:
        """State after a reading, by Joseph's form."""
        for i in range(S):
            gain, total = w[i] / F, 0.0
            ma[i] = m[i] + gain * v
            for j in range(s):
                total += (P[i, j] - gain * w[j]) * h[j]
            if inside:
                total += P[i, s] - gain * w[s]
            for j in range(i + 1):
                other = w[j] / F
                value = P[i, j] - gain * w[j] - total * other + R * gain * other
                Pa[i, j] = value
                Pa[j, i] = value

    @_compile
    def forward(W: Any, base: Any, first: int, start: int, stop: int, scratch: Any) -> None:
        """The filter from place `start` on, with the labels that there are."""
        w, AP = scratch
        for t in range(start, stop):
            if t == first:
                moved(base.mean, base.covariance, W.A[t], W.Q[t], W.V[t], W.m[t], W.P[t], AP)
            else:
                moved(W.ma[t - 1], W.Pa[t - 1], W.A[t], W.Q[t], W.V[t], W.m[t], W.P[t], AP)
            expected, spread = seen(W.m[t], W.P[t], W.h[t], W.episode[t], w)
            W.v[t] = W.y[t] - expected
            W.F[t] = spread + W.R[t]
            if W.R[t] == np.inf or W.flag[t]:
                W.ma[t] = W.m[t]
                W.Pa[t] = W.P[t]
            else:
                learnt(W.m[t], W.P[t], W.h[t], W.episode[t], w, W.v[t], W.F[t], W.R[t], W.ma[t], W.Pa[t])

    @_compile
    def backward(W: Any, odds: Any, first: int, stop: int, smooth: Any, scratch: Any) -> int:
        """Log odds of each reading given all others; the first place whose flag they contradict, or −1.

        `smooth`: mean and variance of f, and of a, at the first readings given all of the window, a row each.
        """
        w, AP = scratch
        r, N, K, n = np.zeros(S), np.zeros((S, S)), np.zeros(S), np.zeros(S)
        B, turned = np.zeros((S, S)), np.zeros(S)
        wrong = -1
        for t in range(stop - 1, first - 1, -1):
            h, inside, P, F, R = W.h[t], W.episode[t], W.P[t], W.F[t], W.R[t]
            expected, spread = seen(W.m[t], P, h, inside, w)
            if R == np.inf or W.flag[t]:
                for i in range(S):
                    expected += w[i] * r[i]
                    total = 0.0
                    for j in range(S):
                        total += N[i, j] * w[j]
                    spread -= w[i] * total
                W.without[t, 0] = expected
                W.without[t, 1] = max(spread, 0.0) + R
            else:
                own, weight = W.v[t] / F, 1.0 / F
                for i in range(S):
                    K[i] = w[i] / F
                    own -= K[i] * r[i]
                for i in range(S):
                    total = 0.0
                    for j in range(S):
                        total += N[i, j] * K[j]
                    n[i] = total
                    weight += K[i] * total
                W.without[t, 0] = W.y[t] - own / weight
                W.without[t, 1] = 1.0 / weight
                for i in range(S):
                    hi = h[i] if i < s else (1.0 if inside else 0.0)
                    r[i] += hi * own
                    total = 0.0
                    for j in range(S):
                        B[i, j] = N[i, j] - hi * n[j]
                        total += B[i, j] * K[j]
                    turned[i] = total
                for i in range(S):
                    hi = h[i] if i < s else (1.0 if inside else 0.0)
                    for j in range(i + 1):
                        hj = h[j] if j < s else (1.0 if inside else 0.0)
                        part = B[i, j] - turned[i] * hj + hi * hj / F
                        N[i, j] = part
                        N[j, i] = part
            if R != np.inf and len(odds.shares) > 0:
                clean, out = _log_joint(W.y[t], W.without[t, 0], W.without[t, 1], odds)
                W.log_odds[t] = out - clean
                if (out > clean) != W.flag[t]:
                    wrong = t
            if t - first < len(smooth):
                smoothed(W.m[t], P, h, r, N, smooth[t - first])
            if t == first:
                break
            a = W.A[t]
            if W.V[t] > 0.0:  # what was a before is another amplitude
                r[s] = 0.0
                for i in range(S):
                    N[i, s] = 0.0
                    N[s, i] = 0.0
            for i in range(s):
                total = 0.0
                for k in range(s):
                    total += a[k, i] * r[k]
                turned[i] = total
            for i in range(s):
                r[i] = turned[i]
            for i in range(S):
                for j in range(s):
                    part = 0.0
                    for k in range(s):
                        part += N[i, k] * a[k, j]
                    B[i, j] = part
            for i in range(s):
                for j in range(i + 1):
                    part = 0.0
                    for k in range(s):
                        part += a[k, i] * B[k, j]
                    N[i, j] = part
                    N[j, i] = part
                N[s, i] = B[s, i]
                N[i, s] = B[s, i]
        return wrong

    @_compile
    def smoothed(m: Any, P: Any, h: Any, r: Any, N: Any, smooth: Any) -> None:
        """Mean and variance of f and of a, from the state before a reading and the adjoint there."""
        for part in range(2):
            mean, variance = 0.0, 0.0
            for i in range(S):
                total = P[i, s] if part else 0.0
                if part == 0:
                    for j in range(s):
                        total += P[i, j] * h[j]
                AP_i = total
                mean += AP_i * r[i]
                for j in range(S):
                    other = P[j, s] if part else 0.0
                    if part == 0:
                        for k in range(s):
                            other += P[j, k] * h[k]
                    variance -= AP_i * N[i, j] * other
                if part == 0 and i < s:
                    mean += h[i] * m[i]
                    variance += h[i] * total
            if part:
                mean += m[s]
                variance += P[s, s]
            smooth[2 * part] = mean
            smooth[2 * part + 1] = max(variance, 0.0)

    @_compile
    def evidence(W: Any, odds: Any, start: int, stop: int) -> float:
        """log p(y, labels) from a place on, given what is before, with the present labels."""
        total = 0.0
        for t in range(start, stop):
            if W.R[t] != np.inf:
                clean, out = _log_joint(W.y[t], W.y[t] - W.v[t], W.F[t], odds)
                total += out if W.flag[t] else clean
        return total

    @_compile
    def trial(W: Any, base: Any, odds: Any, bounds: Any, kind: int, V: float, room: Any) -> tuple[float, float, float]:
        """log p(y, labels) if something happens at a place, and the posterior of a then.

        Where f changes, what follows is clean; else labels follow the odds given what is before. They are in `room`.
        """
        first, start, stop = bounds
        flags, mean, P, after_mean, after, w, AP = room
        if start == first:
            after_mean[:] = base.mean
            after[:] = base.covariance
        else:
            after_mean[:] = W.ma[start - 1]
            after[:] = W.Pa[start - 1]
        total = 0.0
        for t in range(start, stop):
            fresh = W.V[t] if kind == _CHANGE else (V if t == start and kind == _START else 0.0)
            inside = W.episode[t] if kind == _CHANGE else kind == _START
            moved(after_mean, after, W.A[t], W.Q[t], fresh, mean, P, AP)
            expected, spread = seen(mean, P, W.h[t], inside, w)
            flags[t] = False
            if W.R[t] != np.inf:
                clean, out = _log_joint(W.y[t], expected, spread + W.R[t], odds)
                flags[t] = out > clean and kind != _CHANGE
                total += out if flags[t] else clean
            if W.R[t] == np.inf or flags[t]:
                after_mean[:] = mean
                after[:] = P
            else:
                v, F = W.y[t] - expected, spread + W.R[t]
                learnt(mean, P, W.h[t], inside, w, v, F, W.R[t], after_mean, after)
        return total, after_mean[s], after[s, s]

    @_compile
    def best_variance(wide: float, mean: float, variance: float) -> tuple[float, float]:
        """The V of highest evidence, and what that gains over `wide`, with which a was N(mean, variance)."""
        A = 1.0 / variance - 1.0 / wide
        if not A > 0.0:
            return wide, 0.0
        b = mean / variance
        V = max(b * b / A - 1.0, 1e-3) / A
        gain = 0.5 * b * b / (A + 1.0 / V) - 0.5 * math.log(1.0 + V * A)
        return V, gain - (0.5 * b * b / (A + 1.0 / wide) - 0.5 * math.log(1.0 + wide * A))

    @_compile
    def run_length(W: Any, base: Any, first: int, at: int) -> float:
        """Readings of the episode before a place."""
        t = at - 1
        while t >= first and W.episode[t] and W.V[t] == 0.0:
            t -= 1
        if t >= first:
            return float(at - t if W.episode[t] else at - t - 1)
        return at - first + base.facts[LENGTH]

    @_compile
    def weigh(W: Any, base: Any, odds: Any, prices: Any, first: int, stop: int, scratch: Any) -> bool:
        """Whether a run of outliers is rather an episode that begins or ends, or a change of f; then it is made so."""
        w, AP = scratch
        flags = np.zeros(stop, dtype=np.bool_)
        room = (flags, np.zeros(S), np.zeros((S, S)), np.zeros(S), np.zeros((S, S)), w, AP)
        most, what, where, size = 0.0, _NOTHING, first, 0.0
        now = 0.0
        for at in range(stop - 1, first - 1, -1):
            now += evidence(W, odds, at, at + 1)
            if not W.flag[at] or stop - at < prices.shortest:
                continue
            wide = _WIDE * max(W.v[at] * W.v[at], W.F[at])
            value, mean, variance = trial(W, base, odds, (first, at, stop), _START, wide, room)
            V, gained = best_variance(wide, mean, variance)
            value += gained + prices.start - now
            if value > most:
                most, what, where, size = value, _START, at, V
            if W.episode[at]:
                value = trial(W, base, odds, (first, at, stop), _END, 0.0, room)[0]
                value -= math.log(prices.typical + run_length(W, base, first, at)) + now
                if value > most:
                    most, what, where = value, _END, at
            value = trial(W, base, odds, (first, at, stop), _CHANGE, 0.0, room)[0] - now
            if value > most:
                most, what, where = value, _CHANGE, at
        if what == _NOTHING:
            return False
        trial(W, base, odds, (first, where, stop), what, size, room)
        for t in range(where, stop):
            W.flag[t] = flags[t]
            if what != _CHANGE:
                W.V[t] = size if what == _START and t == where else 0.0
                W.episode[t] = what == _START
                W.since[t] = W.t[where] if what == _START else np.nan
        forward(W, base, first, where, stop, scratch)
        return True

    @_compile
    def revise(W: Any, base: Any, odds: Any, prices: Any, first: int, stop: int, smooth: Any, scratch: Any) -> None:
        """Labels of the window until they agree with their odds, or for the passes that there are."""
        wrong = backward(W, odds, first, stop, smooth, scratch)
        for _ in range(MAX_PASSES):
            if wrong < 0:
                break
            for t in range(wrong, stop):
                if W.R[t] != np.inf:
                    W.flag[t] = W.log_odds[t] > 0.0
            forward(W, base, first, wrong, stop, scratch)
            wrong = backward(W, odds, first, stop, smooth, scratch)
        flagged = 0
        for t in range(first, stop):
            flagged += W.flag[t]
        if W.flag[stop - 1] and flagged >= prices.shortest:
            if weigh(W, base, odds, prices, first, stop, scratch):
                backward(W, odds, first, stop, smooth, scratch)

    @_compile
    def told(W: Any, odds: Any, t: int, moments: Any, out: Any) -> None:
        """The verdict on a reading, given mean and variance of f and of a."""
        out[MEAN], out[VARIANCE] = moments[0], moments[1]
        out[NUMBER], out[AT], out[RAW] = W.number[t], W.t[t], W.raw[t]
        out[EPISODE], out[BEGAN] = 1.0 if W.episode[t] else 0.0, W.since[t] if W.episode[t] else np.nan
        if W.R[t] == np.inf:
            out[LOG_ODDS], out[BIAS], out[BIAS_VARIANCE] = np.nan, np.nan, np.nan
            return
        out[LOG_ODDS] = W.log_odds[t] if len(odds.shares) else -np.inf
        bias, variance = _bias_moments(W.y[t], W.without[t, 0], W.without[t, 1], out[LOG_ODDS], odds)
        out[BIAS] = bias + (moments[2] if W.episode[t] else 0.0)
        out[BIAS_VARIANCE] = variance + (moments[3] if W.episode[t] else 0.0)

    @_compile
    def settle(W: Any, base: Any, first: int, stop: int) -> None:
        """The oldest reading of the window joins what is settled."""
        base.mean[:] = W.ma[first]
        base.covariance[:] = W.Pa[first]
        length = base.facts[LENGTH] + 1.0 if W.V[first] == 0.0 else 1.0
        base.facts[TIME] = W.t[first]
        base.facts[IN_EPISODE] = 1.0 if W.episode[first] else 0.0
        base.facts[SINCE] = W.since[first]
        base.facts[LENGTH] = length if W.episode[first] else 0.0
        goes_on = W.episode[first + 1] and W.V[first + 1] == 0.0 if first + 1 < stop else W.episode[first]
        if not goes_on:
            base.mean[s] = 0.0
            for i in range(S):
                base.covariance[i, s] = 0.0
                base.covariance[s, i] = 0.0

    @_compile
    def to_front(W: Any, first: int, count: int) -> None:
        for k in range(count):
            t = first + k
            W.number[k], W.raw[k] = W.number[t], W.raw[t]
            W.t[k], W.y[k], W.R[k], W.h[k], W.A[k], W.Q[k] = W.t[t], W.y[t], W.R[t], W.h[t], W.A[t], W.Q[t]
            W.flag[k], W.episode[k], W.since[k], W.V[k] = W.flag[t], W.episode[t], W.since[t], W.V[t]
            W.m[k], W.P[k], W.ma[k], W.Pa[k] = W.m[t], W.P[t], W.ma[t], W.Pa[t]
            W.v[k], W.F[k], W.log_odds[k], W.without[k] = W.v[t], W.F[t], W.log_odds[t], W.without[t]

    @_compile
    def advance(coming: Any, W: Any, base: Any, counts: Any, rules: Any, out: Any) -> int:
        """Take readings in; verdicts on each as it comes, and on each that is settled: the number of the latter."""
        odds, prices, lag = rules
        arrivals, settled = out
        w, AP, smooth, filtered = np.zeros(S), np.zeros((s, S)), np.zeros((1, 4)), np.zeros(4)
        scratch, done = (w, AP), 0
        for k in range(len(coming.t)):
            first, count = counts[FIRST], counts[COUNT]
            if first + count == len(W.t):
                to_front(W, first, count)
                first = 0
            t = first + count
            gap = coming.which[k]
            W.number[t], W.raw[t] = coming.number[k], coming.raw[k]
            W.t[t], W.y[t], W.R[t], W.h[t] = coming.t[k], coming.y[k], coming.R[k], coming.h[k]
            W.A[t], W.Q[t], W.V[t], W.flag[t], W.log_odds[t] = coming.A[gap], coming.Q[gap], 0.0, False, 0.0
            W.episode[t] = W.episode[t - 1] if count else base.facts[IN_EPISODE] > 0.0
            W.since[t] = W.since[t - 1] if count else base.facts[SINCE]
            forward(W, base, first, t, t + 1, scratch)
            if W.R[t] != np.inf and len(odds.shares):
                clean, unlikely = _log_joint(W.y[t], W.y[t] - W.v[t], W.F[t], odds)
                if unlikely > clean:
                    W.flag[t] = True
                    W.ma[t] = W.m[t]
                    W.Pa[t] = W.P[t]
            revise(W, base, odds, prices, first, t + 1, smooth, scratch)
            filtered[0], filtered[1] = seen(W.ma[t], W.Pa[t], W.h[t], False, w)
            filtered[1] = max(filtered[1], 0.0)
            filtered[2], filtered[3] = W.ma[t, s], max(W.Pa[t, s, s], 0.0)
            told(W, odds, t, filtered, arrivals[k])
            counts[FIRST], counts[COUNT] = first, count + 1
            if count + 1 > lag:
                told(W, odds, first, smooth[0], settled[done])
                settle(W, base, first, t + 1)
                counts[FIRST], counts[COUNT] = first + 1, count
                done += 1
        return done

    @_compile
    def look(W: Any, counts: Any, odds: Any, out: Any) -> None:
        """Verdicts on all readings of the window as they stand."""
        first, count = counts[FIRST], counts[COUNT]
        smooth = np.zeros((count, 4))
        backward(W, odds, first, first + count, smooth, (np.zeros(S), np.zeros((s, S))))
        for k in range(count):
            told(W, odds, first + k, smooth[k], out[k])

    return Steps(advance, look)
