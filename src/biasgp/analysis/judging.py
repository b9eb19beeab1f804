"""What a fit says about every row of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from biasgp import metrics, watch
from biasgp._typing import Array, Mask
from biasgp.analysis.fitting import Fitted, Rows, Selection, Settings, Split, fit
from biasgp.analysis.order import order_column
from biasgp.analysis.places import Axis, EpisodeRecord
from biasgp.analysis.questions import Labels, Question, ReadingSet, Sets, ranked
from biasgp.analysis.schedules import Schedule, find_schedules
from biasgp.analysis.words import told
from biasgp.covariance.vecchia_posterior import PREDICTIONS
from biasgp.data.columns import HOUR_MS, Readings, unit_of
from biasgp.estimators.base import BaseGP
from biasgp.estimators.episode_notes import described, notes
from biasgp.estimators.explaining import BESIDE, NONE, SPIKE, ReadingExplanation
from biasgp.estimators.sparse_bias import SparseBiasGP
from biasgp.estimators.validation import check_query
from biasgp.kernels import Kernel, Periodic, Stationary
from biasgp.models.diagnosis import NOTES, Finding
from biasgp.models.episodes import Episode
from biasgp.models.problem import OUTLIER_SIZE
from biasgp.response import Transform

NORMAL_95 = 1.959963984540054
"""Standard deviations of a normal variable that 95 % lie within."""
LEVELS = (0.025, 0.5, 0.975)
ONE_SIGMA = (0.15865525393145707, 0.5, 0.8413447460685429)
NARROWEST = 1e-300
"""Width below which an interval is none to divide by."""


@dataclass(frozen=True)
class _Prediction:
    """Of f: mean, standard deviation and 95 % interval; NaN where an input is missing.

    Under a transform of the target the median stands for the mean, and half the width of the central 68 % for the
    standard deviation: where f is uncertain, its mean depends on a tail that no reading bears out.
    """

    mean: Array
    std: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class _Verdict:
    """On each row: its bias with standard error, probability of being an outlier, and whether it is flagged."""

    bias: Array
    bias_std: Array
    probability: Array
    flagged: Mask

    def columns(self, y: Array) -> dict[str, Any]:
        """For a file."""
        flag = np.where(np.isfinite(y), self.flagged.astype(int).astype(object), "")
        return {"bias": self.bias, "outlier_probability": self.probability, "flag": flag}


@dataclass(frozen=True)
class Analysis:
    """Everything that came of a fit."""

    selection: Selection
    settings: Settings
    table_name: str
    readings: Readings
    fitted: Fitted
    prediction: _Prediction
    verdict: _Verdict
    residual: Array
    """Distance of each unflagged reading from the prediction without it, in that prediction's standard deviations."""
    test: dict[str, Any]
    """Scores of the held-out readings, if any."""

    @property
    def unit(self) -> str:
        return self.readings.unit or unit_of(self.readings.target)

    @property
    def noise(self) -> float:
        known = float(np.median(self.readings.known_variance[self.fitted.fit_rows]))
        return float(np.sqrt(self.fitted.estimator.noise_variance_ + known))

    @property
    def response(self) -> str:
        """The transform of the target; the likeliest, where predictions are averaged over several."""
        return self.fitted.estimator.response_.name

    @property
    def transforms(self) -> list[tuple[float, Transform]]:
        """Those that predictions are averaged over, with their weights, the likeliest first; as a rule one."""
        return [(weight, member.response_) for weight, member in self.fitted.estimator._members()]

    @property
    def flagged(self) -> Mask:
        return np.asarray(self.verdict.flagged & self.readings.kept)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the fit says against itself, about rows of the table, of which the first is 1."""
        return self._of_table(self.fitted.doubts)

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """Biases that lasted, in their order, with the times of the table; none where they were not looked for."""
        return self._timed(getattr(self.fitted.estimator, "episodes_", ()))

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What a reader should know of the readings and of their episodes, in the same way as the findings."""
        estimator, y = self.fitted.estimator, self.readings.y[self.fitted.fit_rows]
        others = map(self._timed, getattr(estimator, "alternatives_", ()))
        of_readings = [note for note in getattr(estimator, "notes_", ()) if note.code in NOTES]
        return self._of_table([*of_readings, *notes(self.episodes, tuple(others), self.unit, y)])

    @cached_property
    def axis(self) -> Axis:
        """The first time, else the first feature, for every row."""
        j = next((j for j, feature in enumerate(self.readings.features) if feature.is_time), 0)
        return Axis.of(self.readings.features[j], self.readings.X[:, j])

    @property
    def gaps_in_words(self) -> tuple[tuple[str, str], ...]:
        """The last time before each gap in the record, and the first after it."""
        feature = next((each for each in self.readings.features if each.is_time), None)
        if feature is None:
            return ()
        ends = [feature.instants(np.array(gap)).astype("M8[s]").tolist() for gap in self.readings.clock.gaps]
        return tuple((start.isoformat(), stop.isoformat()) for start, stop in ends)

    @cached_property
    def episode_records(self) -> tuple[EpisodeRecord, ...]:
        """The episodes on that axis, and in words."""
        return tuple(map(self._record_of, self.episodes))

    def _record_of(self, episode: Episode) -> EpisodeRecord:
        rows = self.fitted.fit_rows[list(episode.rows)]
        ends = rows[[0, -1]]
        start, stop = self.axis.places(ends)
        first, last = self.axis.values[ends].tolist()
        return EpisodeRecord(
            kind=episode.kind,
            rows=rows,
            span=(first, last),
            start=start,
            stop=stop,
            bias=episode.bias,
            bias_std=episode.bias_std,
            log_odds=episode.log_odds,
            words=described(episode, self.unit, self.readings.y[self.fitted.fit_rows]),
            sensor=episode.sensor,
        )

    @cached_property
    def explanations(self) -> dict[str, Any]:
        """What `explain_all` says of the readings in the fit; empty where the method does not say."""
        estimator: Any = self.fitted.estimator
        return estimator.explain_all() if hasattr(estimator, "explain_all") else {}

    @cached_property
    def explained(self) -> dict[str, Any]:
        """Of each row: what was expected without it, the log odds that it is bad, and its kind, empty for a good one.

        Empty where the method does not say. Under a transform of the target the median stands for the mean.
        """
        estimator: Any = self.fitted.estimator
        found, rows = self.explanations, self.fitted.fit_rows
        if not found:
            return {}
        judge = Judge(estimator, self.readings)
        expected, log_odds = judge.prediction.mean + judge.own_errors, judge.log_odds
        expected[rows], log_odds[rows] = found["median"], found["log_odds"]
        kind = np.where(self.flagged, SPIKE, "").astype(object)
        kind[rows] = np.where(found["kind"] == NONE, "", found["kind"])
        if self.settings.episodes:
            lasting = self.episode_columns()["kind"]
            kind = np.where(lasting == "", kind, lasting)
        why = np.full(len(kind), "", dtype=object)
        position = {row: i for i, row in enumerate(rows.tolist())}
        for row in np.flatnonzero(self.flagged).tolist():
            if row in position:
                why[row] = self._why(found, position[row], row)
        return {"expected": expected, "log_odds": log_odds, "kind": kind, "why": why}

    def _why(self, found: dict[str, Any], i: int, row: int) -> str:
        """Reading i of the fit in words."""
        own = {name: values[i] for name, values in found.items() if name not in BESIDE}
        return ReadingExplanation(row=row, **own).told(f"row {row + 1}", self.unit)

    @cached_property
    def schedules(self) -> tuple[Schedule, ...]:
        """Times of the day, or of the week, at which readings are flagged again and again."""
        if not self.axis.is_time:
            return ()
        outside = self.episode_columns()["episode"] == ""
        hours = self.axis.values / HOUR_MS
        return find_schedules(hours, self.readings.kept & outside, self.flagged & outside, self.verdict.bias)

    @cached_property
    def reading_sets(self) -> list[ReadingSet]:
        """Readings of the fit that somebody can judge as one; none where the method does not say."""
        estimator: Any = self.fitted.estimator
        if not self.explanations:
            return []
        hours = self.axis.values[self.fitted.fit_rows] / HOUR_MS if self.axis.is_time else None
        others = [self._timed(some) for some in estimator.alternatives_]
        return Sets(estimator, self.explanations, self.unit, hours).all_of_them(self.episodes, others)

    def questions(self, most: int = 10) -> list[Question]:
        """What to ask somebody who knows, the first first, by rows of the table from 0, ranked as `ranked` does."""
        estimator: Any = self.fitted.estimator
        if not self.explanations:
            return []
        labels = Labels(self.explanations["worth"], estimator.outlier_mask_, np.isnan(estimator.verdict_))
        found = ranked(self.reading_sets, labels, most=most)
        rows = self.fitted.fit_rows
        return [replace(each, rows=tuple(rows[list(each.rows)].tolist())) for each in found]

    def worth_a_look(self, most: int = 10) -> Rows:
        """Single rows that somebody should look at, the first first: a verdict would change most labels there.

        Those that have been judged already are not among them.
        """
        estimator: Any = self.fitted.estimator
        worth = self.explanations.get("worth", np.empty(0))
        open_ones = [i for i in np.argsort(-worth, kind="stable").tolist() if np.isnan(estimator.verdict_[i])]
        return np.asarray(self.fitted.fit_rows[open_ones[:most]])

    def episode_columns(self) -> dict[str, Any]:
        """For a file: number and kind of each row's episode. Rows that were not in the fit have that around them."""
        values = self.axis.values
        number, kind = np.full((2, len(values)), "", dtype=object)
        others = self.readings.kept.copy()
        others[self.fitted.fit_rows] = False
        for i, episode in enumerate(self.episode_records, start=1):
            inside = others & (values >= episode.span[0]) & (values <= episode.span[1])
            if self.readings.sensors is not None:
                inside &= self.readings.sensors.labels == episode.sensor
            inside[episode.rows] = True
            number[inside], kind[inside] = i, episode.kind
        return {"episode": number, "kind": kind}

    def _timed(self, episodes: tuple[Episode, ...]) -> tuple[Episode, ...]:
        column = order_column(self.readings.features) if episodes else None
        if column is None or not self.readings.features[column].is_time:
            return episodes
        instants = self.readings.features[column].instants
        ends = [instants(np.array([each.start, each.stop])).astype("M8[s]") for each in episodes]
        pairs = zip(episodes, ends, strict=True)
        return tuple(replace(each, start=str(start), stop=str(stop)) for each, (start, stop) in pairs)

    def _of_table(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        rows = self.fitted.fit_rows + 1
        return tuple(replace(each, rows=tuple(rows[list(each.rows)].tolist())) for each in findings)

    @property
    def doubts(self) -> tuple[str, ...]:
        return told(self.findings, ["transform"] if self.settings.response == "auto" else [])

    @property
    def notes_in_words(self) -> tuple[str, ...]:
        """The notes as sentences. Those on episodes name times instead of rows."""
        named = (each if each.code in NOTES else replace(each, rows=()) for each in self.notes)
        tried = ["transform"] if self.settings.response == "auto" else []
        return told(named, [*tried, "name events"] if self.selection.events else tried)

    @property
    def agreement(self) -> dict[str, Any]:
        """With the flags in the table, where there are any."""
        if self.readings.flags is None:
            return {}
        theirs, ours = self.readings.flags[self.readings.kept], self.verdict.flagged[self.readings.kept]
        return {
            "flagged_in_table": int(theirs.sum()),
            "flagged_in_both": int((theirs & ours).sum()),
            "precision": metrics.precision(theirs, ours),
            "recall": metrics.recall(theirs, ours),
        }

    @cached_property
    def lengths(self) -> tuple[float, ...]:
        """Over what each input the truth changes as much as it does among the readings.

        That is the length-scale where the kernel's variance is that of f. A rough kernel often has a larger variance
        and longer length-scales, which no reading bears out. NaN where the kernel has no length-scale of an input.
        """
        estimator = self.fitted.estimator
        seen = float(np.var(estimator.response_.forward(self.prediction.mean[self.fitted.fit_rows])))
        width = len(self.readings.features)
        return tuple(_reach_along(self.shared_kernel, j, width, seen) for j in range(width))

    @property
    def shared_kernel(self) -> Any:
        """That of the truth, which all sensors share where there are several."""
        kernel: Any = self.fitted.estimator.kernel_
        return kernel if self.readings.sensors is None else kernel.left


def _reach_along(kernel: Kernel, j: int, width: int, seen: float) -> float:
    """Over what the j-th input a function of this kernel changes as much as f does, whose variance is `seen`."""
    own = [each for each in kernel.leaves if isinstance(each, Stationary) and not isinstance(each, Periodic)]
    along = [each for each in own if each.columns is None or j in each.columns]
    if not along:
        return math.nan
    main = max(along, key=lambda each: each.diag(np.zeros((1, width)))[0])
    lengths = np.broadcast_to(main.length_scale, width if main.columns is None else len(main.columns))  # type: ignore[arg-type]
    scale = float(lengths[j if main.columns is None else main.columns.index(j)])
    origin = np.zeros((1, width))
    variance = float(main.diag(origin)[0])
    wanted = min(seen / variance, 1.0) * (1.0 - math.exp(-1.0))
    steps = scale * np.logspace(-5.0, 1.0, 400)
    points = np.zeros((len(steps), width))
    points[:, j] = steps
    change = 1.0 - main(points, origin)[:, 0] / variance
    return float(np.interp(wanted, change, steps))


@dataclass(frozen=True)
class Judge:
    """What a model says of the rows of a table."""

    estimator: BaseGP
    readings: Readings

    @cached_property
    def prediction(self) -> _Prediction:
        """f at every row whose inputs are all there."""
        X, estimator, ready = self.readings.frame(), self.estimator, self.readings.complete
        columns = np.full((4, len(X)), np.nan)
        if ready.any() and estimator._is_symmetric:
            mean, std = estimator.predict(X[ready], return_std=True)
            columns[:, ready] = mean, std, mean - NORMAL_95 * std, mean + NORMAL_95 * std
        elif ready.any():
            levels = (LEVELS[0], *ONE_SIGMA, LEVELS[2])
            low, below, median, above, high = estimator.predict_quantiles(X[ready], levels).T
            columns[:, ready] = median, 0.5 * (above - below), low, high
        return _Prediction(*columns)

    def reading_quantiles(self, rows: Rows | Mask, levels: Sequence[float]) -> Array:
        """Quantiles of the next reading at some rows that is not an outlier: with the error of its sensor's own."""
        X = check_query(self.estimator, self.readings.frame(rows), shared=False)
        return self.estimator._quantiles(X, np.array(levels), True, self.readings.known_variance[rows])

    @cached_property
    def own_errors(self) -> Array:
        """What the sensor of each row adds to the truth on its own; 0 where there are no sensors, NaN where unknown."""
        own = np.zeros(len(self.readings.y))
        if self.readings.sensors is None:
            return own
        estimator, ready = self.estimator, self.readings.complete & self.readings.sensors.known
        own[~ready] = np.nan
        X = self.readings.frame(ready)
        whole, f = (
            estimator._quantiles(check_query(estimator, X, shared=shared), np.array([0.5]), include_noise=False)
            for shared in (False, True)
        )
        own[ready] = (whole - f)[:, 0]
        return own

    @property
    def log_odds(self) -> Array:
        """Of readings that the model has not seen, that each is bad."""
        here = np.isfinite(self.readings.y) & self.readings.complete & self.readings.measured
        if self.readings.sensors is not None:
            here &= self.readings.sensors.known
        found, estimator = np.full(len(here), np.nan), self.estimator
        if here.any() and isinstance(estimator, SparseBiasGP):
            found[here] = estimator._log_odds(self.readings.frame(here), self.readings.y[here])
        return found

    def verdict(self, rows: Mask | bool = True) -> _Verdict:
        """On readings (those of some rows) that the model has not seen, against what it predicts for them."""
        readings, estimator, prediction = self.readings, self.estimator, self.prediction
        here = np.isfinite(readings.y) & readings.complete & rows & readings.measured
        if readings.sensors is not None:
            here &= readings.sensors.known
        bias, bias_std, probability = np.full((3, len(here)), np.nan)
        verdict = _Verdict(bias, bias_std, probability, np.zeros(len(here), dtype=bool))
        if not hasattr(estimator, "outlier_mask_") or not here.any():
            return verdict
        own = self.own_errors
        off = readings.y - prediction.mean - own
        if hasattr(estimator, "outlier_probability"):
            verdict.probability[here] = estimator.outlier_probability(readings.frame(here), readings.y[here])
            verdict.flagged[here] = verdict.probability[here] > 0.5
            verdict.bias[here] = (own + verdict.probability * off)[here]
            verdict.bias_std[here] = prediction.std[here]
        else:
            far = np.abs(off) > OUTLIER_SIZE * np.sqrt(prediction.std**2 + estimator.noise_variance_)
            verdict.flagged[here] = far[here]
            verdict.bias[here] = (own + np.where(far, off, 0.0))[here]
        return verdict


def analyse(
    selection: Selection,
    settings: Settings,
    table_name: str,
    readings: Readings,
    split: Split,
    known: BaseGP | None = None,
) -> Analysis:
    """Fit, predict every row and judge every reading; `known` is a model of the same rows that a refit begins with."""
    if settings.is_approximate(readings, split):
        # They can take longer than the fit: all rows, and again without themselves.
        watch.ledger().expect(PREDICTIONS, 2 * len(readings.y))
    fitted = fit(readings, settings, split, known)
    watch.stage("predicting every row")
    return examine(selection, settings, table_name, readings, fitted)


def examine(selection: Selection, settings: Settings, table_name: str, readings: Readings, fitted: Fitted) -> Analysis:
    """Predict every row and judge every reading."""
    estimator, test = fitted.estimator, fitted.test_rows
    judge = Judge(estimator, readings)
    prediction, verdict = judge.prediction, _verdict_on_all(judge, fitted.fit_rows)
    residual, scores = np.full(len(readings.y), np.nan), {}
    if len(test):
        intervals = judge.reading_quantiles(test, LEVELS).T
        scores = _scores(fitted, readings, verdict.flagged[test], intervals)
        # In the units in which f is Gaussian.
        low, median, high = map(estimator.response_.forward, intervals)
        off = estimator.response_.forward(readings.y[test]) - median
        residual[test] = off * (2.0 * NORMAL_95) / np.maximum(high - low, NARROWEST)
    else:
        # Each left out, at the parameters that were fitted with it.
        residual[fitted.fit_rows] = estimator._standardised_residuals()
    residual[verdict.flagged | ~readings.measured] = np.nan
    return Analysis(selection, settings, table_name, readings, fitted, prediction, verdict, residual, scores)


def _verdict_on_all(judge: Judge, fit_rows: Rows) -> _Verdict:
    """What is known about each reading: from the fit where it was in it, else from the prediction for it."""
    estimator, rest = judge.estimator, np.ones(len(judge.readings.y), dtype=bool)
    rest[fit_rows] = not hasattr(estimator, "outlier_probability_")
    verdict = judge.verdict(rest)
    for name, column in (
        ("bias_", verdict.bias),
        ("bias_std_", verdict.bias_std),
        ("outlier_probability_", verdict.probability),
        ("outlier_mask_", verdict.flagged),
    ):
        if hasattr(estimator, name):
            column[fit_rows] = getattr(estimator, name)
    return verdict


def _scores(fitted: Fitted, readings: Readings, flagged: Mask, intervals: Array) -> dict[str, Any]:
    """How well the held-out readings were predicted; those flagged are left out of the coverage."""
    y = readings.y[fitted.test_rows]
    low, median, high = intervals
    inside = ((y >= low) & (y <= high))[~flagged]
    density = fitted.estimator.log_predictive_density(readings.frame(fitted.test_rows), y)
    return {
        "readings": len(y),
        "median_absolute_error": float(np.median(np.abs(y - median))),
        "coverage_95_of_unflagged": float(np.mean(inside)) if len(inside) else None,
        "mean_log_density": float(np.mean(density)),
        "flagged": int(flagged.sum()),
    }
