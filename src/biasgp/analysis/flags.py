"""What was found about each reading, as flags that other tools understand: QARTOD's, or with the meanings of CF."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biasgp.analysis.judging import Analysis
from biasgp.messages import WrongUseError

OWN, QARTOD, CF = "own", "qartod", "cf"
PASS, NOT_EVALUATED, SUSPECT, FAIL, MISSING = 1, 2, 3, 4, 9
QARTOD_MEANINGS = {PASS: "pass", NOT_EVALUATED: "not_evaluated", SUSPECT: "suspect", FAIL: "fail", MISSING: "missing"}
"""The primary flags of IOOS's Quality Assurance of Real-Time Oceanographic Data (2020)."""
CF_MEANINGS = {
    0: "good",
    1: "spike",
    2: "group_of_outliers",
    3: "shift",
    4: "step",
    5: "ramp",
    6: "stuck",
    7: "outlier",
    8: "not_evaluated",
    9: "missing",
    10: "detection_limit",
    11: "erratic",
    12: "crowd",
}
"""What a reading is, as CF's flag_meanings names it."""
_KINDS = {"spike": 1, "group": 2, "shift": 3, "step": 4, "ramp": 5, "stuck": 6, "erratic": 11, "crowd": 12}


@dataclass(frozen=True)
class FlagScheme:
    """Which flags are written, and for QARTOD from which probability of being an outlier a reading is what."""

    name: str = OWN
    suspect: float = 0.5
    fail: float = 0.95

    def __post_init__(self) -> None:
        if not 0.0 < self.suspect <= self.fail <= 1.0:
            raise WrongUseError(
                f"--suspect-at must be above 0, and --fail-at between it and 1; got {self.suspect:g} and {self.fail:g}."
            )


@dataclass(frozen=True)
class Flags:
    """A flag for each row, the name of its column, and what each value means."""

    column: str
    values: NDArray[np.int8]
    meanings: dict[int, str]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have which flag."""
        return {word: int((self.values == code).sum()) for code, word in self.meanings.items()}


def flags_of(outcome: Analysis, scheme: FlagScheme) -> Flags | None:
    """The flags of a scheme; None for our own, which are columns anyway."""
    if scheme.name == OWN:
        return None
    make, meanings = (_qartod, QARTOD_MEANINGS) if scheme.name == QARTOD else (_cf, CF_MEANINGS)
    return Flags(f"{outcome.readings.target}_{scheme.name}", make(outcome, scheme).astype(np.int8), meanings)


def _qartod(outcome: Analysis, scheme: FlagScheme) -> NDArray[np.intp]:
    judged, probability = _judged(outcome), outcome.verdict.probability
    # A method without probabilities says yes or no.
    degree = np.where(np.isfinite(probability), probability, outcome.verdict.flagged.astype(float))
    found = np.where(degree >= scheme.fail, FAIL, np.where(degree >= scheme.suspect, SUSPECT, PASS))
    return np.where(np.isnan(outcome.readings.y), MISSING, np.where(judged, found, NOT_EVALUATED))


def _cf(outcome: Analysis, _: FlagScheme) -> NDArray[np.intp]:
    readings = outcome.readings
    found = np.where(outcome.verdict.flagged, 7, 0)
    kinds = outcome.explained["kind"] if outcome.explained else np.full(len(found), "", dtype=object)
    for kind, code in _KINDS.items():
        found[kinds == kind] = code
    found = np.where(_judged(outcome), found, 8)
    if readings.censored is not None:
        found = np.where(readings.censored != 0, 10, found)
    return np.where(np.isnan(readings.y), 9, found)


def _judged(outcome: Analysis) -> NDArray[np.bool_]:
    """Rows whose reading was compared with what the others say of it."""
    readings = outcome.readings
    able = hasattr(outcome.fitted.estimator, "outlier_mask_")
    judged = readings.kept & readings.complete if able else np.zeros(len(readings.y), dtype=bool)
    return judged if readings.censored is None else judged & (readings.censored == 0)
