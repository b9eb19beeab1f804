"""The data of the sensor study: one response of a campaign, with the operator's flags."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.data import campaign

FEATURES = ("time", "temperature_c", "humidity_pct")
RESPONSES = {"no_ppb": "no_flag", "o3_ppb": "o3_flag"}
"""Of the built-in campaign, with their columns of flags."""
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class StudyReadings:
    """Inputs (the first is hours since the start), the response, its flagged records, and the truth where known."""

    X: Array
    y: Array
    flagged: Mask
    f: Array | None


def built_in(seed: int) -> dict[str, StudyReadings]:
    """The simulated campaign."""
    data = campaign(random_state=seed)
    gases = {"no_ppb": data.no, "o3_ppb": data.o3}
    return {name: StudyReadings(data.X, gas.y, gas.is_outlier, gas.f) for name, gas in gases.items()}


def read_csv(
    path: Path, responses: Sequence[str], flags: Sequence[str], features: Sequence[str] = FEATURES
) -> dict[str, StudyReadings]:
    """The responses of a CSV, each with its column of flags (anything but an empty cell is a flag).

    The first feature may be a time in ISO 8601. Rows in which a feature, or the response, is no number are left out.
    """
    if len(responses) != len(flags):
        raise ValueError(f"Give one flag column per response: {len(responses)} responses, {len(flags)} flags.")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"The data {str(path)!r} cannot be read as a CSV in UTF-8: {reason}.") from None
    if not rows:
        raise ValueError(f"{path} has no rows.")
    missing = [name for name in (*features, *responses, *flags) if name not in rows[0]]
    if missing:
        raise ValueError(f"{path} has no column {', '.join(missing)}; it has {', '.join(rows[0])}.")
    X = np.array([[_number(row[name]) for name in features] for row in rows])
    if np.isnan(X[:, 0]).all():
        raise ValueError(f"{path} has no number and no time in its column {features[0]}.")
    X[:, 0] -= np.nanmin(X[:, 0])
    found = {}
    for name, flag in zip(responses, flags, strict=True):
        y = np.array([_number(row[name]) for row in rows])
        flagged = np.array([bool((row[flag] or "").strip()) for row in rows])
        use = np.isfinite(y) & np.all(np.isfinite(X), axis=1)
        if not (flagged & use).any():
            raise ValueError(f"{path} has no flagged reading of {name} in {flag}: there is no outlier to draw from.")
        found[name] = StudyReadings(X[use], y[use], flagged[use], None)
    return found


def _number(text: str | None) -> float:
    """A number, or the hours of a time; nan for anything else."""
    text = (text or "").strip()
    with suppress(ValueError):
        return float(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return float("nan")
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() / SECONDS_PER_HOUR
