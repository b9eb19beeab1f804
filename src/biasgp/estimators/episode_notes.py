"""Episodes in the user's units, and what a reader should know about those that the readings cannot settle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.messages import duration, quantity
from biasgp.models.diagnosis import Finding
from biasgp.models.episodes import ERRATIC, RAMP, STEP, STUCK, Episode

DOUBT = 10.0
"""Log odds below which an episode is named as one of two explanations: priors are not known to more than this."""
READING_DIGITS = 6
"""Of the value at which a sensor was stuck, which repeats to the last digit."""


def in_users_units(episode: Episode, order: Any, bias: Array, bias_std: Array) -> Episode:
    """An episode with its place in the ordering variable and its bias: at the end of a ramp, else the mean."""
    rows = np.array(episode.rows)
    of = rows[-1:] if episode.kind == RAMP else rows
    return replace(
        episode,
        start=_place(order[rows[0]]),
        stop=_place(order[rows[-1]]),
        bias=float(bias[of].mean()),
        bias_std=float(bias_std[of].mean()),
    )


def _place(value: Any) -> float | str:
    """A value of the ordering variable; a time as ISO 8601 text, which model files can hold, without empty seconds."""
    if value.dtype.kind == "f":
        return float(value)
    return str(value.astype("M8[s]") if value.dtype.kind == "M" and value == value.astype("M8[s]") else value)


def described(episode: Episode, unit: str = "", y: Array | None = None) -> str:
    """An episode in words: of which sensor, how far off the readings are, for how long, and from when on.

    With the unit of the readings y, and the value at which a sensor was stuck, where they are known.
    """
    return (f"sensor {episode.sensor}: " if episode.sensor else "") + _told(episode, unit, y)


def _told(episode: Episode, unit: str, y: Array | None) -> str:
    size = quantity(abs(episode.bias), unit)
    if episode.kind == STUCK:
        at = "" if y is None else f" at {quantity(float(y[episode.rows[0]]), unit, READING_DIGITS)}"
        return f"stuck{at} {_span(episode, 'for')}"
    if episode.kind == ERRATIC:
        return f"erratic {_span(episode, 'for')}"
    if episode.kind == RAMP:
        return f"drifted to {size} {_too(episode)} {_span(episode, 'over')}"
    if episode.kind == STEP:
        return f"{size} {_other(episode)} from {_shown(episode.start)} to the end of the record"
    return f"{size} {_too(episode)} {_span(episode, 'for')}"


def notes(
    episodes: tuple[Episode, ...],
    alternatives: tuple[tuple[Episode, ...], ...],
    unit: str = "",
    y: Array | None = None,
) -> tuple[Finding, ...]:
    """What the readings cannot tell: faults that may be signal, and readings with several explanations."""
    found = []
    for episode in episodes:
        if episode.kind == STEP:
            level = f"{quantity(abs(episode.bias), unit)} {_other(episode)}"
            of = f" of sensor {episode.sensor}" if episode.sensor else ""
            text = f"From {_shown(episode.start)} the level{of} is {level}, and stays so: a change of calibration or a "
            text += "true change; the readings cannot tell."
            found.append(Finding("step-or-signal", text, ("name events",), episode.rows))
        elif episode.log_odds < DOUBT and episode.kind != STUCK:
            text = f"Either {described(episode, unit, y)}, or a true change there (log odds {episode.log_odds:.1f}); "
            text += "the readings cannot tell."
            found.append(Finding("episode-in-doubt", text, ("name events",), episode.rows))
    for alternative in alternatives:
        ours, theirs = _unshared(episodes, alternative), _unshared(alternative, episodes)
        first, other = (", ".join(described(each, unit, y) for each in some) or "no fault" for some in (ours, theirs))
        code, text = "two-explanations", f"Two explanations: {first}; or {other}. The prediction averages over them."
        if not ours:
            code, text = "possible-episode", f"Taken for signal, but almost as likely a fault: {other}."
        rows = dict.fromkeys(row for each in (*ours, *theirs) for row in each.rows)
        found.append(Finding(code, text, ("name events",), tuple(rows)))
    return tuple(found)


def are_same(episodes: tuple[Episode, ...], others: tuple[Episode, ...]) -> bool:
    """Whether two explanations have the same faults."""
    return not _unshared(episodes, others) and not _unshared(others, episodes)


def _unshared(episodes: tuple[Episode, ...], others: tuple[Episode, ...]) -> list[Episode]:
    """Those that are not among the others; a stuck sensor is beyond doubt, and part of every explanation."""
    known = {(each.kind, each.rows) for each in others}
    return [each for each in episodes if each.kind != STUCK and (each.kind, each.rows) not in known]


def _too(episode: Episode) -> str:
    return "too low" if episode.bias < 0.0 else "too high"


def _other(episode: Episode) -> str:
    return "lower" if episode.bias < 0.0 else "higher"


def _span(episode: Episode, preposition: str) -> str:
    """From when on, and for how long; between which numbers, where the order is not one of times."""
    start, stop = episode.start, episode.stop
    if isinstance(start, float) or isinstance(stop, float):
        return f"from {_shown(start)} to {_shown(stop)}"
    try:
        hours = float((np.datetime64(stop) - np.datetime64(start)) / np.timedelta64(1, "h"))
    except ValueError:  # durations since some start
        return f"from {start} to {stop}"
    return f"{preposition} {duration(hours)} from {_shown(start)}"


def _shown(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else value.replace("T", " ").removesuffix(":00")
