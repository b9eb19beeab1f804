"""What a column of times says of its clock: the usual step, gaps, times that repeat, and jumps (daylight saving)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array
from biasgp.messages import duration

Instants = Callable[[Array], np.ndarray]
"""From hours since an origin to times on the clock of the table."""
GAP = 3.0
"""Usual steps without a reading that make a gap."""
_REGULAR = 0.5
"""Share of the steps that must be the usual one, so that there are gaps to speak of."""
_ORDERED = 0.9
"""Share of the steps that must go the same way, so that there are jumps to speak of."""
_SUNDAY = 6
SWITCHES = {
    3: (*range(8, 15), *range(25, 32)),
    4: range(1, 8),
    9: range(24, 31),
    10: (*range(1, 8), *range(25, 32)),
    11: range(1, 8),
}
"""Days of the months on whose Sundays clocks are set, in Europe, America, Australia and New Zealand."""
_LATEST_HOUR = 4
"""Of the day at which they are."""
SAMPLE = 20_000
"""Steps by which the usual one is found."""
_SAME = 1e-3
"""Part of a step that counts as nothing."""


@dataclass(frozen=True)
class Clock:
    """The usual step in hours (0 where there is none), gaps as (last reading before, first after), and what to say."""

    step: float = 0.0
    gaps: tuple[tuple[float, float], ...] = ()
    repeated: int = 0
    notes: tuple[str, ...] = ()


NO_CLOCK = Clock()


def read_clock(hours: Array, rows: np.ndarray, instants: Instants, *, zoned: bool) -> Clock:
    """The clock of readings at so many hours, in the order of the table; `rows` are theirs, from 0."""
    if len(hours) < 3:
        return Clock()
    order, apart = hours, np.diff(hours)
    if (apart < 0.0).any():
        order = np.sort(hours)
        apart = np.diff(order)
    some = apart[:: max(len(apart) // SAMPLE, 1)]
    some = some[some > 0.0]
    if not len(some):
        return Clock()
    step = float(np.median(some))
    repeated = int(np.count_nonzero(apart == 0.0))
    if np.mean(np.abs(some - step) <= _SAME * step) < _REGULAR:
        return Clock(repeated=repeated, notes=tuple(_repeats(repeated)))
    at = np.flatnonzero(apart > GAP * step * (1.0 + _SAME))
    gaps = tuple(zip(order[at].tolist(), order[at + 1].tolist(), strict=True))
    notes = [*_repeats(repeated), *_gaps(gaps, step, instants)]
    if not zoned:
        steps = apart if order is hours else np.diff(hours)
        notes += _jumps(hours, steps, rows, step, instants)
    return Clock(step, gaps, repeated, tuple(notes))


def _repeats(count: int) -> list[str]:
    return [f"Times: {count:,} {'reading has' if count == 1 else 'readings have'} the time of another one."] * bool(
        count
    )


def _gaps(gaps: tuple[tuple[float, float], ...], step: float, instants: Instants) -> list[str]:
    if not gaps:
        return []
    start, stop = max(gaps, key=lambda gap: gap[1] - gap[0])
    first, last = (_shown(instants, each) for each in (start, stop))
    count = "one gap" if len(gaps) == 1 else f"{len(gaps):,} gaps"
    which = "of" if len(gaps) == 1 else "the longest of"
    return [
        f"Times: a reading every {duration(step)}, and {count}, {which} {duration(stop - start)}: {first} to {last}."
    ]


def _jumps(hours: Array, steps: Array, rows: np.ndarray, step: float, instants: Instants) -> list[str]:
    """Where the clock goes back, or forward by an hour on a day on which clocks are set."""
    back = np.flatnonzero(steps < 0.0)
    if len(steps) - len(back) < _ORDERED * len(steps):
        return []  # newest first, or in no order: nothing can be said
    notes, near = [], _SAME * max(step, 1.0)
    odd = np.flatnonzero(np.abs(steps - step) >= 1.0 - 2.0 * near)  # an hour off, or more
    beyond = steps[odd] - step
    hour_back = odd[(np.abs(beyond + 1.0) <= near) & (steps[odd] <= near)]
    summer = [i for i in hour_back.tolist() if _is_switch(instants, hours[i])]
    forward = [
        i for i in odd[np.abs(beyond - 1.0) <= near].tolist() if step < 1.0 + near and _is_switch(instants, hours[i])
    ]
    if forward or summer:
        i = (forward + summer)[0]
        way = "skips" if forward else "repeats"
        notes.append(
            f"Times: the clock {way} an hour after {_shown(instants, hours[i])} (row {rows[i] + 1}), as daylight "
            "saving does, and no zone is given: times are taken as they are. Write the offset after them, e.g. +02:00."
        )
    other = [i for i in back.tolist() if i not in set(summer)]
    if other:
        i = other[0]
        more = f", and {len(other) - 1:,} times more" if len(other) > 1 else ""
        notes.append(
            f"Times: the clock goes back by {duration(-float(steps[i]))} after {_shown(instants, hours[i])} (row "
            f"{rows[i] + 1}{more}): it was set, or files overlap."
        )
    return notes


def _is_switch(instants: Instants, hour: float) -> bool:
    """Whether a time is in the small hours of a Sunday of spring or autumn."""
    moment = instants(np.array([hour]))[0].astype("datetime64[s]").item()
    return moment.weekday() == _SUNDAY and moment.day in SWITCHES.get(moment.month, ()) and moment.hour <= _LATEST_HOUR


def _shown(instants: Instants, hour: float) -> str:
    return str(instants(np.array([hour]))[0].astype("datetime64[m]")).replace("T", " ")
