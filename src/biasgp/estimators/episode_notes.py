"""Episodes in the user's units, and what a reader should know about those that the readings cannot settle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.models.diagnosis import Finding
from biasgp.models.episodes import RAMP, STEP, STUCK, Episode

DOUBT = 10.0
"""Log odds below which an episode is named as one of two explanations: priors are not known to more than this."""


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


def notes(episodes: tuple[Episode, ...], alternatives: tuple[tuple[Episode, ...], ...]) -> tuple[Finding, ...]:
    """What the readings cannot tell: faults that may be signal, and readings with several explanations."""
    found = []
    for episode in episodes:
        if episode.kind == STEP:
            text = f"{_words(episode)}: a change of the sensor, or of what it measures. The readings cannot tell."
            found.append(Finding("step-or-signal", text, ("name events",), episode.rows))
        elif episode.log_odds < DOUBT and episode.kind != STUCK:
            text = f"{_words(episode)}, or the signal itself changed there (log odds {episode.log_odds:.1f})."
            found.append(Finding("episode-in-doubt", text, ("name events",), episode.rows))
    for other in alternatives:
        code, text = "two-explanations", f"Two explanations: {_sentence(episodes)}; or {_sentence(other)}."
        text += " The prediction averages over them."
        if not episodes:
            code, text = "possible-episode", f"Taken for signal, but almost as likely a fault: {_sentence(other)}."
        rows = dict.fromkeys(row for each in (*episodes, *other) for row in each.rows)
        found.append(Finding(code, text, ("name events",), tuple(rows)))
    return tuple(found)


def _sentence(episodes: tuple[Episode, ...]) -> str:
    return ", ".join(_words(each)[0].lower() + _words(each)[1:] for each in episodes)


def _words(episode: Episode) -> str:
    """An episode in words."""
    words = _words_without_sensor(episode)
    return f"{words} (sensor {episode.sensor})" if episode.sensor else words


def _words_without_sensor(episode: Episode) -> str:
    span = f"{_shown(episode.start)} to {_shown(episode.stop)}"
    if episode.kind == STUCK:
        return f"From {span} the sensor was stuck"
    if episode.kind == RAMP:
        return f"From {span} the readings drifted by up to {episode.bias:+.3g}"
    if episode.kind == STEP:
        return f"From {_shown(episode.start)} to the end of the record the readings are shifted by {episode.bias:+.3g}"
    return f"From {span} the readings are shifted by {episode.bias:+.3g}"


def _shown(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else value.replace("T", " ").removesuffix(":00")
