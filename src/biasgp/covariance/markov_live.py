"""One reading after the other: the compiled steps of a stream.

The state before a window of the last readings is settled. Within the window (`markov_window`) every reading has its
leave-one-out odds given all readings before it and those after it so far, and labels follow these odds. Where that
leaves a run of outliers, an episode that begins or ends is weighed against them, and a change of f itself: by the
evidence of the window. Then the oldest reading is settled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from biasgp._typing import Array
from biasgp.covariance import markov_window as place
from biasgp.covariance.markov_passes import _compile
from biasgp.covariance.markov_window import (
    AFTER,
    BEFORE,
    CLEAN,
    DRAWN,
    EPISODE,
    FLAG,
    LAG,
    N_FACTS,
    N_GIVEN,
    NOISE,
    ODDS,
    SHORTEST,
    SINCE,
    START,
    TIME,
    TYPICAL,
    VALUE,
    VERDICT,
    _backward,
    _bias_moments,
    _copy_row,
    _copy_state,
    _forward,
    _learnt,
    _log_joint,
    _moved,
    _seen,
)

MAX_PASSES = 4
"""Passes over the labels of a window per reading, so that its cost is bounded; labels go on moving with the next."""
_NOTHING, _BEGINS, _ENDS, _CHANGES = range(4)
_WIDE = 4.0
"""A first V, as a multiple of the square of the residual where an episode may begin; the best V follows from it."""
_LEAST_SIGNAL = 1e-3
"""Least V, in units of the variance with which the readings of an episode determine its amplitude."""


class _Settled(NamedTuple):
    """The state after the last settled reading; and of it: its time, in an episode or not, since when, and how many
    readings of that are settled."""

    mean: Array
    covariance: Array
    facts: Array


WHEN, INSIDE, BEGUN, LENGTH = range(4)
"""Places in `_Settled.facts`."""


class _Coming(NamedTuple):
    """Readings to come, in order of time: their given facts and h, and `which` of the gaps is before each."""

    facts: Array
    h: Array
    which: Any
    gaps: Array


MEAN, VARIANCE, LOG_ODDS, BIAS, BIAS_VARIANCE, LASTING, BEGAN, WHICH, AT, RAW = range(10)
"""Columns of verdicts: of f; of an outlier; of the bias; in an episode, and since when; which reading it is."""
N_COLUMNS = 10
FIRST, COUNT = range(2)
"""Places in `counts`: where the window begins in its arrays, and how many readings it has."""


@_compile
def _best_variance(wide: float, mean: float, variance: float) -> tuple[float, float]:
    """The V of highest evidence, and what that gains over `wide`, with which a was N(mean, variance)."""
    A = 1.0 / variance - 1.0 / wide
    if not A > 0.0:
        return wide, 0.0
    b = mean / variance
    V = max(b * b / A - 1.0, _LEAST_SIGNAL) / A
    gain = 0.5 * b * b / (A + 1.0 / V) - 0.5 * math.log(1.0 + V * A)
    return V, gain - (0.5 * b * b / (A + 1.0 / wide) - 0.5 * math.log(1.0 + wide * A))


@_compile
def _readings_before(W: Any, base: Any, first: int, at: int) -> float:
    """Readings of the episode before a place."""
    t = at - 1
    while t >= first and W.facts[t, EPISODE] > 0.0 and W.facts[t, DRAWN] == 0.0:
        t -= 1
    if t < first:
        return float(at - first + base.facts[LENGTH])
    return float(at - t if W.facts[t, EPISODE] > 0.0 else at - t - 1)


@_compile
def _told(W: Any, groups: Any, t: int, moments: Any, out: Any) -> None:
    """The verdict on a reading, given mean and variance of f and of a."""
    fact = W.facts[t]
    inside, log_odds = fact[EPISODE] > 0.0, fact[ODDS] if len(groups) else -np.inf
    out[MEAN], out[VARIANCE], out[LOG_ODDS] = moments[0], moments[1], log_odds
    out[WHICH], out[AT], out[RAW] = fact[place.NUMBER], fact[TIME], fact[place.RAW]
    out[LASTING], out[BEGAN] = 1.0 if inside else 0.0, fact[SINCE] if inside else np.nan
    if fact[NOISE] == np.inf:
        out[LOG_ODDS], out[BIAS], out[BIAS_VARIANCE] = np.nan, np.nan, np.nan
        return
    bias, variance = _bias_moments(fact[VALUE], fact[place.EXPECTED], fact[place.UNSURE], groups, log_odds)
    out[BIAS] = bias + (moments[2] if inside else 0.0)
    out[BIAS_VARIANCE] = variance + (moments[3] if inside else 0.0)


@_compile
def _settle(W: Any, base: Any, first: int, stop: int) -> None:
    """The oldest reading of the window joins what is settled."""
    fact, last = W.facts[first], len(base.mean) - 1
    _copy_state((W.means[first, AFTER], W.covs[first, AFTER]), (base.mean, base.covariance))
    inside = fact[EPISODE] > 0.0
    length = 1.0 if fact[DRAWN] > 0.0 else base.facts[LENGTH] + 1.0
    base.facts[WHEN], base.facts[BEGUN] = fact[TIME], fact[SINCE]
    base.facts[INSIDE], base.facts[LENGTH] = fact[EPISODE], length if inside else 0.0
    goes_on = inside
    if first + 1 < stop:
        goes_on = W.facts[first + 1, EPISODE] > 0.0 and W.facts[first + 1, DRAWN] == 0.0
    if not goes_on:
        base.mean[last] = 0.0
        for i in range(last + 1):
            base.covariance[i, last] = 0.0
            base.covariance[last, i] = 0.0


@_compile
def _to_front(W: Any, first: int, count: int) -> None:
    for k in range(count):
        t = first + k
        _copy_row(W.facts[t], W.facts[k])
        _copy_row(W.h[t], W.h[k])
        for i in range(2):
            _copy_state((W.means[t, i], W.covs[t, i]), (W.means[k, i], W.covs[k, i]))
            for j in range(len(W.h[t])):
                _copy_row(W.gaps[t, i, j], W.gaps[k, i, j])


@_compile
def _trial(W: Any, base: Any, groups: Any, rules: Any, change: Any, room: Any) -> tuple[float, float, float]:
    """log p(y, labels) if something happens at a place, and mean and variance of a after all readings.

    Where f changes, what follows is clean; else labels follow the odds given what is before. They are in `room`.
    """
    kind, V, first, at, stop = change
    flags, before, after, (w, AP, unit) = room
    s = len(unit)
    mean = base.mean if at == first else W.means[at - 1, AFTER]
    covariance = base.covariance if at == first else W.covs[at - 1, AFTER]
    _copy_state((mean, covariance), after)
    total = 0.0
    for t in range(at, stop):
        fact, h = W.facts[t], W.h[t]
        inside, drawn = kind == _BEGINS, V if t == at else 0.0
        if kind == _CHANGES:
            inside, drawn = fact[EPISODE] > 0.0, fact[DRAWN]
        _moved(after, W.gaps[t], drawn, before, AP, unit)
        expected, spread = _seen(before[0], before[1], h, inside, w, unit)
        F, there = spread + fact[NOISE], fact[NOISE] != np.inf
        flags[t] = 0.0
        if there:
            clean, out = _log_joint(fact[VALUE], expected, F, groups, rules[CLEAN])
            said = fact[VERDICT] == fact[VERDICT]
            bad = fact[VERDICT] > 0.0 if said else out > clean and kind != _CHANGES
            flags[t] = 1.0 if bad else 0.0
            total += out if flags[t] > 0.0 else clean
        if there and flags[t] == 0.0:
            _learnt(before, (h, inside, fact[VALUE] - expected, F, fact[NOISE]), w, after, unit)
        else:
            _copy_state(before, after)
    return total, after[0][s], after[1][s, s]


@_compile
def _weigh(W: Any, base: Any, groups: Any, rules: Any, span: Any, scratch: Any) -> bool:
    """Whether a run of outliers is rather an episode that begins or ends, or a change of f; then it is made so."""
    first, stop = span
    S = len(scratch[2]) + 1
    flags, chosen = np.zeros(stop), np.zeros(stop)
    room = (flags, (np.zeros(S), np.zeros((S, S))), (np.zeros(S), np.zeros((S, S))), scratch)
    most, what, where, size, now, good = 0.0, _NOTHING, first, 0.0, 0.0, False
    for at in range(stop - 1, first - 1, -1):
        fact = W.facts[at]
        good = good or fact[VERDICT] == 0.0
        if fact[NOISE] != np.inf:
            expected = fact[VALUE] - fact[place.RESIDUAL]
            clean, out = _log_joint(fact[VALUE], expected, fact[place.SPREAD], groups, rules[CLEAN])
            now += out if fact[FLAG] > 0.0 else clean
        if fact[FLAG] == 0.0 or stop - at < rules[SHORTEST]:
            continue
        wide = _WIDE * max(fact[place.RESIDUAL] ** 2, fact[place.SPREAD])
        for kind in range(_BEGINS, _CHANGES + 1):
            # A reading that is known to be good has no bias that lasts either.
            if (kind == _ENDS and fact[EPISODE] == 0.0) or (kind == _BEGINS and good):
                continue
            V = wide if kind == _BEGINS else 0.0
            value, mean, variance = _trial(W, base, groups, rules, (kind, V, first, at, stop), room)
            if kind == _BEGINS:
                V, gained = _best_variance(wide, mean, variance)
                value += gained + rules[START]
            elif kind == _ENDS:
                value -= math.log(rules[TYPICAL] + _readings_before(W, base, first, at))
            if value - now > most:
                most, what, where, size = value - now, kind, at, V
                _copy_row(flags, chosen)
    for t in range(where, stop if what != _NOTHING else where):
        fact = W.facts[t]
        fact[FLAG] = chosen[t]
        if what != _CHANGES:
            fact[DRAWN] = size if t == where else 0.0
            fact[EPISODE] = 1.0 if what == _BEGINS else 0.0
            fact[SINCE] = W.facts[where, TIME] if what == _BEGINS else np.nan
    _forward(W, base, (first, where, stop if what != _NOTHING else where), scratch)
    return what != _NOTHING


@_compile
def _revise(W: Any, base: Any, groups: Any, rules: Any, span: Any, room: Any) -> None:
    """Labels of the window until they agree with their odds, or for the passes that there are."""
    first, stop = span
    smooth, scratch = room
    weighed = False
    for k in range(MAX_PASSES + 2):
        wrong = _backward(W, groups, rules, span, smooth, scratch)
        if weighed:
            break
        if wrong >= 0 and k < MAX_PASSES:
            for t in range(wrong, stop):
                if W.facts[t, NOISE] != np.inf:
                    W.facts[t, FLAG] = 1.0 if W.facts[t, ODDS] > 0.0 else 0.0
            _forward(W, base, (first, wrong, stop), scratch)
            continue
        flagged = 0.0
        for t in range(first, stop):
            flagged += W.facts[t, FLAG]
        if W.facts[stop - 1, FLAG] == 0.0 or flagged < rules[SHORTEST]:
            break
        weighed = _weigh(W, base, groups, rules, span, scratch)
        if not weighed:
            break


@_compile
def advance(coming: Any, W: Any, base: Any, counts: Any, given: Any, out: Any) -> int:
    """Take readings in; verdicts on each as it comes, and on each that is settled: the number of the latter."""
    groups, rules, unit = given
    s, S = len(unit), len(unit) + 1
    arrivals, settled = out
    w, AP, smooth, filtered = np.zeros(S), np.zeros((5 + 2 * S, S)), np.zeros((1, 4)), np.zeros(4)
    scratch, done = (w, AP, unit), 0
    for k in range(len(coming.facts)):
        first, count = counts[FIRST], counts[COUNT]
        if first + count == len(W.facts):
            _to_front(W, first, count)
            first = 0
        t = first + count
        fact = W.facts[t]
        gap = coming.gaps[coming.which[k]]
        for i in range(N_GIVEN, N_FACTS):
            fact[i] = 0.0
        _copy_row(coming.facts[k], fact)
        _copy_row(coming.h[k], W.h[t])
        for i in range(s):
            _copy_row(gap[0, i], W.gaps[t, 0, i])
            _copy_row(gap[1, i], W.gaps[t, 1, i])
        if fact[VERDICT] == 0.0:
            fact[SINCE] = np.nan
        else:
            fact[EPISODE] = W.facts[t - 1, EPISODE] if count else base.facts[INSIDE]
            fact[SINCE] = W.facts[t - 1, SINCE] if count else base.facts[BEGUN]
        _forward(W, base, (first, t, t + 1), scratch)
        # Until others speak for it, an unlikely reading is an outlier: else it would speak for those before it.
        if fact[NOISE] != np.inf and len(groups):
            expected = fact[VALUE] - fact[place.RESIDUAL]
            clean, unlikely = _log_joint(fact[VALUE], expected, fact[place.SPREAD], groups, rules[CLEAN])
            if fact[VERDICT] > 0.0 or (unlikely > clean and fact[VERDICT] != 0.0):
                fact[FLAG] = 1.0
                _copy_state((W.means[t, BEFORE], W.covs[t, BEFORE]), (W.means[t, AFTER], W.covs[t, AFTER]))
        _revise(W, base, groups, rules, (first, t + 1), (smooth, scratch))
        filtered[0], filtered[1] = _seen(W.means[t, AFTER], W.covs[t, AFTER], W.h[t], False, w, unit)
        filtered[1] = max(filtered[1], 0.0)
        filtered[2], filtered[3] = W.means[t, AFTER, s], max(W.covs[t, AFTER, s, s], 0.0)
        _told(W, groups, t, filtered, arrivals[k])
        counts[FIRST], counts[COUNT] = first, count + 1
        if count + 1 > rules[LAG]:
            _told(W, groups, first, smooth[0], settled[done])
            _settle(W, base, first, t + 1)
            counts[FIRST], counts[COUNT] = first + 1, count
            done += 1
    return done


@_compile
def look(W: Any, counts: Any, given: Any, out: Any) -> None:
    """Verdicts on all readings of the window as they stand."""
    groups, rules, unit = given
    first, count = counts[FIRST], counts[COUNT]
    smooth = np.zeros((count, 4))
    scratch = (np.zeros(len(unit) + 1), np.zeros((5 + 2 * (len(unit) + 1), len(unit) + 1)), unit)
    _backward(W, groups, rules, (first, first + count), smooth, scratch)
    for k in range(count):
        _told(W, groups, first + k, smooth[k], out[k])
