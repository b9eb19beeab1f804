"""What a fit says of its readings, kept as arrays and words: quick to read, without the model, and no code in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.analysis.fitting import Rows
from biasgp.analysis.judging import Analysis
from biasgp.analysis.places import Axis
from biasgp.analysis.questions import READING, Labels, Question, ReadingSet, ranked
from biasgp.estimators.explaining import NONE, ReadingExplanation

ARRAYS, WORDS = "view.npz", "view.json"
"""Files beside the results of a fit."""
DOUBTFUL = 0.05
"""A probability at least so far from 0 and 1 is a doubt."""


@dataclass(frozen=True)
class FitView:
    """Readings that were used, in the order of the axis. Rows are those of the whole table, the first of which is 0."""

    about: dict[str, Any]
    columns: dict[str, Any]

    @classmethod
    def of(cls, outcome: Analysis, rows: Rows | None = None) -> FitView:
        """What is kept of a fit; `rows` are those of the whole table where the fit was to a part of it."""
        readings, verdict, prediction, axis = outcome.readings, outcome.verdict, outcome.prediction, outcome.axis
        shown = np.flatnonzero(readings.kept)
        shown = shown[np.argsort(axis.values[shown], kind="stable")]
        in_table = shown if rows is None else rows[shown]
        index = np.full(len(readings.y), -1)
        index[outcome.fitted.fit_rows] = np.arange(len(outcome.fitted.fit_rows))
        columns = {
            "row": in_table,
            "x": axis.values[shown],
            "y": readings.y[shown],
            **{name: getattr(prediction, name)[shown] for name in ("mean", "low", "high")},
            **{name: getattr(verdict, name)[shown] for name in ("bias", "probability", "flagged")},
            "index": index[shown],
        }
        kinds: Any = [""]
        if outcome.explained:
            columns |= {name: outcome.explained[name][shown] for name in ("expected", "log_odds")}
            kinds, codes = np.unique(outcome.explained["kind"][shown].astype(str), return_inverse=True)
            columns["kind"] = codes.astype(np.int8)
            columns |= {name: _placed(values, columns["index"]) for name, values in _own(outcome).items()}
            columns |= _witnesses(outcome, columns["index"])
        of_table = np.arange(len(readings.y)) if rows is None else rows
        about = {
            "target": readings.target,
            "unit": outcome.unit,
            "axis": axis.label,
            "is_time": axis.is_time,
            "kinds": list(map(str, kinds)),
            "episodes": [
                {
                    "kind": each.kind,
                    "words": each.words,
                    "start": each.span[0],
                    "stop": each.span[1],
                    "rows": len(each.rows),
                    "first_row": int(of_table[each.rows].min()),
                }
                for each in outcome.episode_records
            ],
            "doubts": list(outcome.doubts),
            "notes": list(outcome.notes_in_words),
            "named": _named(outcome, of_table),
            "sets": [
                asdict(each) | {"rows": of_table[outcome.fitted.fit_rows[list(each.rows)]].tolist()}
                for each in outcome.reading_sets
            ],
            "noise": outcome.noise,
        }
        return cls(about, columns)

    def save(self, folder: Path) -> None:
        """Write it into a folder."""
        np.savez_compressed(folder / ARRAYS, **self.columns)
        text = json.dumps(self.about, ensure_ascii=False, allow_nan=False)
        (folder / WORDS).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> FitView:
        """The one in a folder."""
        about = json.loads((folder / WORDS).read_text(encoding="utf-8"))
        with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
            return cls(about, {name: arrays[name] for name in arrays.files})

    @cached_property
    def axis(self) -> Axis:
        return Axis(self.about["axis"], self.about["is_time"], self.columns["x"])

    @cached_property
    def _order(self) -> Rows:
        return np.argsort(self.columns["row"], kind="stable")

    def places(self, rows: Rows) -> Rows:
        """Where rows of the table are among the readings; -1 where they are not."""
        known, order = self.columns["row"], self._order
        at = np.minimum(np.searchsorted(known, rows, sorter=order), len(known) - 1)
        return np.asarray(np.where(known[order[at]] == rows, order[at], -1))

    def when(self, places: Rows) -> list[str]:
        """Where some readings are on the axis, to be read."""
        return self.axis.places(places)

    def kind(self, place: int) -> str:
        """What a reading was taken for; empty for a good one."""
        return str(self.about["kinds"][self.columns["kind"][place]]) if "kind" in self.columns else ""

    def explanation(self, place: int) -> ReadingExplanation | None:
        """Why a reading was flagged or was not, without its witnesses; None where that was not found out."""
        columns = self.columns
        if "prior" not in columns or columns["index"][place] < 0:
            return None
        plain: dict[str, Any] = {name: float(columns[name][place]) for name in _NUMBERS}
        kind = self.kind(place) or NONE
        read, probability = float(columns["y"][place]), float(columns["probability"][place])
        row = int(columns["row"][place])
        expected = float(columns["expected_mean"][place])
        return ReadingExplanation(row=row, read=read, kind=kind, probability=probability, expected=expected, **plain)

    def witnesses(self, place: int) -> list[tuple[int, float]] | None:
        """Readings that matter to the odds of another, by their places, and the odds without each; None if not kept."""
        if "witness" not in self.columns:
            return None
        some = slice(*self.columns["witness_from"][place : place + 2])
        return list(zip(self.columns["witness"][some].tolist(), self.columns["without"][some].tolist(), strict=True))

    @cached_property
    def _sets(self) -> list[ReadingSet]:
        """Readings that can be judged as one, by their places."""
        sets = [ReadingSet(**each) for each in self.about.get("sets", [])]
        placed = [self.places(np.array(each.rows, dtype=np.intp)) for each in sets]
        return [replace(each, rows=tuple(places.tolist())) for each, places in zip(sets, placed, strict=True)]

    def questions(self, judged: Mask, passed: Sequence[Rows], most: int) -> list[Question]:
        """What to ask somebody who knows, the first first; rows are places.

        Readings in `judged` are not among them, nor what was `passed` as neither good nor bad, by rows of the table.
        Where the fit names readings in what it says against itself, they follow, worth nothing for sure.
        """
        probability = self.columns["probability"]
        single = self.columns.get("worth", np.minimum(probability, 1.0 - probability))
        places = [self.places(rows) for rows in passed]
        gone = [some[some >= 0].tolist() for some in places]
        found = ranked(self._sets, Labels(single, self.columns["flagged"], ~judged), gone, most)
        taken = {row for each in found for row in each.rows}
        named = [int(i) for i in self.places(np.array(self.about["named"], dtype=np.intp))] if len(single) else []
        found += [Question((i,), 0.0) for i in named if i >= 0 and not judged[i] and i not in taken]
        return found[:most]

    def reason(self, question: Question) -> str:
        """Why it is asked: what it is about; of a single reading, that it is in doubt, moves others, or was named."""
        if question.about != READING:
            return question.about
        if question.worth <= 0.0:
            return "named"
        return "doubt" if DOUBTFUL < self.columns["probability"][question.rows[0]] < 1.0 - DOUBTFUL else "effect"

    def thinned(self, inside: Rows, first: Mask, limit: int) -> Rows:
        """At most `limit` of some readings to draw: those that come `first`, and of the others the ends of each bin."""
        if len(inside) <= limit:
            return inside
        important, rest = inside[first[inside]], inside[~first[inside]]
        if len(important) >= limit:
            return _evenly(important, limit)
        chosen = np.concatenate([important, _extremes(rest, self.columns["y"], limit - len(important))])
        return np.sort(chosen)


_NUMBERS = (
    "expected_std",
    "reading_std",
    "group_mean",
    "verdict",
    "prior",
    "if_good",
    "if_bad",
    "f_if_good",
    "f_distance",
    "noise_distance",
)
"""What an explanation has beside the columns that every reading has."""


def _own(outcome: Analysis) -> dict[str, Array]:
    """What is known of the readings in the fit alone."""
    found = outcome.explanations
    return {name: found[name] for name in (*_NUMBERS, "worth")} | {"expected_mean": found["expected"]}


def _placed(values: Array, index: Rows) -> Array:
    return np.where(index >= 0, np.asarray(values, dtype=float)[index], np.nan)


def _witnesses(outcome: Analysis, index: Rows) -> dict[str, Any]:
    """Of all readings, one after the other, where the fit was exact: for others that takes too long to do ahead."""
    estimator: Any = outcome.fitted.estimator
    if not estimator._known().is_exact:
        return {}
    explain, place = estimator._explaining(), np.full(len(outcome.fitted.fit_rows), -1)
    place[index[index >= 0]] = np.flatnonzero(index >= 0)
    found = [explain(i).witnesses if i >= 0 else () for i in index.tolist()]
    flat = [(place[row], without) for each in found for row, without in each]
    return {
        "witness_from": np.cumsum([0, *map(len, found)]),
        "witness": np.array([row for row, _ in flat], dtype=np.intp),
        "without": np.array([without for _, without in flat], dtype=float),
    }


def _named(outcome: Analysis, of_table: Rows) -> list[int]:
    """Rows that findings and notes are about."""
    rows = [row - 1 for finding in (*outcome.findings, *outcome.notes) for row in finding.rows]
    return [int(of_table[row]) for row in dict.fromkeys(rows)]


def _evenly(rows: Rows, n: int) -> Rows:
    return rows[np.linspace(0, len(rows) - 1, n).astype(np.intp)]


def _extremes(rows: Rows, y: Array, n: int) -> Rows:
    """The lowest and the highest of each of n/2 bins, so that nothing that sticks out is lost."""
    if len(rows) <= n or n < 2:
        return rows[:n]
    bins = np.arange(len(rows)) * (n // 2) // len(rows)
    order = np.lexsort((y[rows], bins))
    starts = np.flatnonzero(np.r_[True, np.diff(bins[order]) > 0])
    ends = np.r_[starts[1:] - 1, len(rows) - 1]
    return np.asarray(rows[np.unique(np.concatenate([order[starts], order[ends]]))])


def changes(before: FitView, now: FitView) -> dict[str, Any]:
    """What one fit says differently from another of the same readings: labels, truth, episodes."""
    places = before.places(now.columns["row"])
    common = np.flatnonzero(places >= 0)
    theirs = places[common]
    was, is_now = before.columns["flagged"][theirs], now.columns["flagged"][common]
    moved = np.abs(now.columns["mean"][common] - before.columns["mean"][theirs])
    moved = np.where(np.isfinite(moved), moved, 0.0)
    keys = [
        {(each["kind"], each["start"], each["stop"]): each for each in view.about["episodes"]} for view in (before, now)
    ]
    different = common[was != is_now]
    return {
        "labels": [
            {"place": int(i), "now": "bad" if now.columns["flagged"][i] else "good"} for i in different.tolist()
        ],
        "largest": float(moved.max(initial=0.0)),
        "where": int(common[moved.argmax()]) if moved.any() else None,
        "added": [keys[1][key] for key in keys[1] if key not in keys[0]],
        "gone": [keys[0][key] for key in keys[0] if key not in keys[1]],
    }
