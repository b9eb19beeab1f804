"""What to ask somebody who knows more than the readings say: about a reading, or about several as one.

One criterion ranks all questions: how many labels the answer is expected to change. That is, over the answers good and
bad, the probability of the answer times the number of readings that the fit labels otherwise (and, for a single
reading, of others whose labels would follow by way of the curve: `worth` of `explain_all`). So a reading at even odds
is worth half a label, and a fault of 70 readings that is one with nine chances in ten is worth seven.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.analysis.fitting import Rows
from biasgp.analysis.schedules import Schedule, find_schedules
from biasgp.estimators.episode_notes import described
from biasgp.estimators.explaining import GROUP, REPLACED, SPIKE
from biasgp.messages import quantity
from biasgp.models.episodes import ERRATIC, STEP, STUCK, Episode

READING, EPISODE, POSSIBLE, ALIKE, CHECK = "reading", "episode", "possible", "alike", "check"
"""What a question is about: one reading; one stretch of them that was taken for a fault, or for signal; readings that
were flagged for one and the same reason; or those at one time of each day."""
FALSE_ALARMS = 0.05
"""Probability that what was flagged is real after all, whatever the odds: they hold if faults and signal are what the
model thinks they are, and both are only a model. A large group of flags is worth a question by this alone."""
FEWEST = 3
"""Readings that are asked about as one."""
SURE = 0.95
"""Probability from which a flag is beyond doubt: such flags and others are not asked about together, since one answer
seldom fits both."""
STILL_OPEN = 0.5
"""Share of a set that must be open: when most of it has been judged, the others are asked about one by one."""
ALREADY = 0.6
"""Readings in common over readings in either, from which two sets are the same question."""


@dataclass(frozen=True)
class ReadingSet:
    """Readings, from 0, that may well be good or bad as one; in the order in which they are halved if they are not."""

    about: str
    rows: tuple[int, ...]
    probability: float
    """That they are bad."""
    if_bad: str
    if_good: str

    def worth(self, flagged: Mask, asked: Rows) -> float:
        """The expected number of labels that an answer about some of them changes."""
        bad = int(flagged[asked].sum())
        return self.probability * (len(asked) - bad) + (1.0 - self.probability) * bad

    def is_like(self, rows: Iterable[int]) -> bool:
        """Whether a question about these rows is the same one."""
        mine, theirs = set(self.rows), set(rows)
        return len(mine & theirs) > ALREADY * len(mine | theirs)

    def halves(self) -> list[ReadingSet]:
        """The two parts to ask about where the whole is neither good nor bad."""
        middle = len(self.rows) // 2
        parts = (self.rows[:middle], self.rows[middle:])
        return [replace(self, rows=part) for part in parts if len(part) >= FEWEST]


@dataclass(frozen=True)
class Question:
    """One row of the queue: readings, from 0, to be judged as one; `of` is their set, if they are several."""

    rows: tuple[int, ...]
    worth: float
    of: ReadingSet | None = None

    @property
    def about(self) -> str:
        return READING if self.of is None else self.of.about

    def plain(self) -> dict[str, Any]:
        """For machines; rows from 1."""
        both = {} if self.of is None else {"if_bad": self.of.if_bad, "if_good": self.of.if_good}
        return {"about": self.about, "rows": [row + 1 for row in self.rows], "worth": self.worth, **both}


@dataclass(frozen=True)
class Labels:
    """Of readings: what a verdict on each is worth (NaN where none can be asked for), the flags, and which are open."""

    worth: Array
    flagged: Mask
    open: Mask


def ranked(
    sets: Sequence[ReadingSet], labels: Labels, passed: Sequence[Iterable[int]] = (), most: int = 10
) -> list[Question]:
    """The questions that are left, what is worth most first.

    `passed` are the rows of questions to which the answer was neither good nor bad: their halves are asked about
    instead, or nothing. A reading is not asked about by itself while it is in a set that is worth more.
    """
    found = []
    for each in _without_passed(sets, [set(rows) for rows in passed]):
        rows = np.array(each.rows, dtype=np.intp)
        asked = rows[labels.open[rows]]
        if len(asked) >= max(FEWEST, STILL_OPEN * len(rows)):
            found.append(Question(tuple(np.sort(asked).tolist()), each.worth(labels.flagged, asked), each))
    looked_at = np.array([row for rows in map(list, passed) if len(rows) == 1 for row in rows], dtype=np.intp)
    # What was flagged may be real however sure the fit is.
    single = np.where(labels.flagged, np.maximum(labels.worth, FALSE_ALARMS), labels.worth)
    single = np.where(labels.open & (single > 0.0), single, 0.0)
    single[looked_at] = 0.0
    in_sets = sum(len(each.rows) for each in found)
    best = np.argsort(-single, kind="stable")[: most + in_sets].tolist()
    found += [Question((i,), float(single[i])) for i in best if single[i] > 0.0]
    return _apart(sorted(found, key=lambda each: -each.worth))[:most]


def _without_passed(sets: Sequence[ReadingSet], passed: list[set[int]]) -> list[ReadingSet]:
    found = []
    for each in sets:
        if any(each.is_like(rows) for rows in passed):
            found += _without_passed(each.halves(), passed)
        else:
            found.append(each)
    return found


def _apart(questions: list[Question]) -> list[Question]:
    """Without those that are mostly about readings of a set before them."""
    found: list[Question] = []
    taken: set[int] = set()
    for each in questions:
        if sum(row in taken for row in each.rows) <= STILL_OPEN * len(each.rows):
            found.append(each)
            if each.of is not None:
                taken.update(each.rows)
    return found


@dataclass(frozen=True)
class Sets:
    """The sets of a fit that are worth asking about as one."""

    estimator: Any
    """A fitted SparseBiasGP."""
    columns: dict[str, Any]
    """What its `explain_all` says."""
    unit: str = ""
    hours: Array | None = None
    """Of each reading, since 1970 on the clock of the sensor, where the readings have times."""

    def all_of_them(
        self, episodes: Sequence[Episode] | None = None, alternatives: Sequence[Sequence[Episode]] | None = None
    ) -> list[ReadingSet]:
        """Episodes, what may be ones, regular checks, and flagged readings that are alike.

        Episodes of the fit and of its alternatives may be given with times in words.
        """
        ours = list(self.estimator.episodes_ if episodes is None else episodes)
        others = self.estimator.alternatives_ if alternatives is None else alternatives
        known = {(each.kind, each.rows) for each in ours}
        possible = {(each.kind, each.rows): each for some in others for each in some}
        found = [self._fault(EPISODE, each, each.rows) for each in ours]
        flagged = self.estimator.outlier_mask_
        for key, each in possible.items():
            rows = tuple(row for row in each.rows if not flagged[row])
            if key not in known and len(rows) >= FEWEST:
                found.append(self._fault(POSSIBLE, each, rows))
        outside = np.ones(len(flagged), dtype=bool)
        outside[[row for each in ours for row in each.rows]] = False
        for schedule in self._schedules(outside):
            found.append(self._check(schedule, outside))
            outside[list(found[-1].rows)] = False
        return [each for each in (*found, *self._alike(outside)) if len(each.rows) >= FEWEST]

    def _bad(self, rows: Sequence[int] | Rows) -> float:
        """Probability that readings with the same label are bad."""
        some = list(rows)
        bad = float(np.mean(self.estimator.outlier_probability_[some]))
        return (1.0 - FALSE_ALARMS) * bad if self.estimator.outlier_mask_[some[0]] else bad

    def _fault(self, about: str, episode: Episode, rows: tuple[int, ...]) -> ReadingSet:
        otherwise = {
            STEP: "a true change of level",
            STUCK: "the truth stayed the same so long",
            ERRATIC: "the truth jumped about so",
        }.get(episode.kind, "the truth changed so, and came back")
        words = described(episode, self.unit, self.columns["read"])
        return ReadingSet(about, rows, self._bad(rows), words, otherwise)

    def _schedules(self, outside: Mask) -> tuple[Schedule, ...]:
        if self.hours is None:
            return ()
        model = self.estimator
        return find_schedules(self.hours, outside, model.outlier_mask_ & outside, model.bias_)

    def _check(self, schedule: Schedule, outside: Mask) -> ReadingSet:
        assert self.hours is not None
        rows = tuple(np.flatnonzero(outside & schedule.covers(self.hours)).tolist())
        words = f"a regular check, {schedule.when}: {len(schedule.rows):,} of {len(rows):,} are flagged"
        return ReadingSet(CHECK, rows, len(schedule.rows) / len(rows), words, "readings like all others")

    def _alike(self, outside: Mask) -> list[ReadingSet]:
        """Single readings that were flagged as the same kind of thing, to the same side, with or without a doubt."""
        kind, off, model = self.columns["kind"], self.columns["read"] - self.columns["expected"], self.estimator
        sure = model.outlier_probability_ >= SURE
        found = []
        for name, high, doubted in product((SPIKE, GROUP, REPLACED), (True, False), (False, True)):
            chosen = model.outlier_mask_ & outside & (kind == name) & ((off > 0.0) == high) & (sure != doubted)
            if chosen.sum() >= FEWEST:
                found.append(self._group(np.flatnonzero(chosen), off, high))
        return found

    def _group(self, rows: Rows, off: Array, high: bool) -> ReadingSet:
        """Flagged readings as one; the farthest off first, by which they are halved."""
        rows = rows[np.argsort(-np.abs(off[rows]), kind="stable")]
        size = quantity(float(np.median(np.abs(off[rows]))), self.unit)
        bad = f"{len(rows):,} faults of one kind, {size} too {'high' if high else 'low'} (the median)"
        share = f"{len(rows) / len(off):.0%} of all readings are so"
        good = f"{'peaks' if high else 'dips'} of the truth: {share}"
        return ReadingSet(ALIKE, tuple(rows.tolist()), self._bad(rows), bad, good)


def questions(
    estimator: Any, hours: Array | None = None, passed: Sequence[Iterable[int]] = (), most: int = 10
) -> list[Question]:
    """What to ask about the readings of a fitted SparseBiasGP, by their index: what is worth most first.

    `hours` are the times of the readings, since 1970, where they have times; `passed` are the rows of earlier questions
    to which the answer was neither good nor bad.
    """
    columns = estimator.explain_all()
    sets = Sets(estimator, columns, hours=hours).all_of_them()
    labels = Labels(columns["worth"], estimator.outlier_mask_, np.isnan(estimator.verdict_))
    return ranked(sets, labels, passed, most)
