"""From a fit to what is told about it: the record of the page (arrays and words), the summary, and the table with what
was found."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import biasgp
from biasgp._typing import Array, Mask
from biasgp.analysis.choosing import in_words
from biasgp.analysis.filling import GapCurve
from biasgp.analysis.fitting import AUTO, Fitted, Rows, spread
from biasgp.analysis.flags import Flags
from biasgp.analysis.judging import LEVELS, NORMAL_95, Analysis, Judge
from biasgp.analysis.places import Axis, EpisodeRecord
from biasgp.analysis.words import on_transforms, reach, share
from biasgp.data.columns import Readings
from biasgp.data.table import Table
from biasgp.messages import duration, quantity
from biasgp.models.sparse.episode_windows import POLICY as WINDOWS
from biasgp.models.strategy import EXACT_UP_TO

METHOD_WORDS = {
    "sparse": "sparse bias: most readings have none, the others share a few kinds",
    "cob": "constant bias with an L1 penalty",
    "rab": "random bias",
    "gp": "plain Gaussian process: not robust, flags nothing",
    "ep": "Student-t noise by expectation propagation",
    "mcmc": "scale mixture of Gaussians by MCMC",
    "rcgp": "robust and conjugate: readings weigh less the further they are from the median",
}
SWITCHES = {
    "day_first": ("--month-first", "--day-first"),
    "header": ("--no-header", "--header"),
    "episodes": ("--no-episodes", "--episodes"),
    "units": ("--no-units", "--units"),
    "marks": ("--no-marks", "--marks"),
}
"""Options that are said by name alone, for False and for True."""
MAX_SENSORS = 12
"""Sensors of which a sentence is said."""
MAX_EFFECTS = 12
"""Features whose effect is drawn."""
GRID, TIME_GRID = 25, 60
"""Points at which an effect is drawn, of a number and of a time."""
INNER = (0.01, 0.99)
"""Quantiles of a feature between which its effect is drawn; that of time is drawn over all of it."""
QUERIES = 600
"""Predictions for each feature: grid points times the rows that are averaged over."""


@dataclass(frozen=True)
class Effect:
    """Mean of f over the readings' other inputs as one input goes over a grid, with its 95 % band."""

    axis: Axis
    words: str
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Points:
    """The readings, and what was found about each; NaN where a method does not say."""

    row: Rows
    when: Sequence[str]
    y: Array
    mean: Array
    low: Array
    high: Array
    bias: Array
    bias_std: Array
    probability: Array
    flagged: Mask
    held_out: Mask
    residual: Array
    """Distance from the prediction without the reading, in its standard deviations; NaN for the flagged."""
    sensor: NDArray[np.object_] | None = None
    """The label of each reading's sensor, where several share the truth."""
    expected: Array | None = None
    """What the truth was expected to be without the reading, where the method says."""
    log_odds: Array | None = None
    """That it is bad."""
    kind: NDArray[np.object_] | None = None
    why: NDArray[np.object_] | None = None
    """Of those that are flagged, in words."""

    def take(self, rows: Rows) -> Points:
        """Some of them."""
        there = [name for name, values in vars(self).items() if name != "when" and values is not None]
        picked = {name: getattr(self, name)[rows] for name in there}
        return replace(self, when=[self.when[i] for i in rows.tolist()], **picked)


@dataclass(frozen=True)
class FitRecord:
    """A fit, as a page and a summary tell it."""

    title: str
    target: str
    unit: str
    source: str
    axis: Axis
    points: Points
    effects: tuple[Effect, ...]
    figures: tuple[tuple[str, str], ...]
    """The few numbers to read first: what, and how much."""
    sentences: tuple[str, ...]
    doubts: tuple[str, ...]
    """Reasons not to trust the fit, in plain words; empty when there is none."""
    remarks: tuple[str, ...]
    """What else the reader should know, such as readings left out."""
    residuals_of: str
    made: tuple[tuple[str, str], ...]
    """How it was made: what, and how."""
    episodes: tuple[EpisodeRecord, ...] | None = None
    """Biases that lasted, in the order of time; None where they were not looked for."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the readings and their episodes."""
    gaps: GapCurve | None = None
    """The truth over gaps between the readings."""
    scheduled: Mask | None = None
    """Readings that are flagged at the same time of each day or week, which are told once."""

    @property
    def in_unit(self) -> str:
        """What follows the name of a quantity that has the target's unit."""
        return f" ({self.unit})" if self.unit else ""

    @classmethod
    def of(cls, outcome: Analysis) -> FitRecord:
        """What the page shows."""
        readings, verdict, prediction = outcome.readings, outcome.verdict, outcome.prediction
        shown, axis = np.flatnonzero(readings.kept), outcome.axis
        points = Points(
            row=shown + 1,
            when=axis.places(shown),
            y=readings.y[shown],
            mean=prediction.mean[shown],
            low=prediction.low[shown],
            high=prediction.high[shown],
            bias=verdict.bias[shown],
            bias_std=verdict.bias_std[shown],
            probability=verdict.probability[shown],
            flagged=verdict.flagged[shown],
            held_out=np.isin(shown, outcome.fitted.test_rows),
            residual=outcome.residual[shown],
            sensor=None if readings.sensors is None else readings.sensors.labels[shown],
            **{name: values[shown] for name, values in outcome.explained.items()},
        )
        of = (
            "Residuals of the held-out readings that are not flagged, which the model has not seen."
            if outcome.test
            else "Residuals of the readings that are not flagged, each from a prediction without it."
        )
        return cls(
            title=f"{readings.target}: which readings to trust",
            target=readings.target,
            unit=outcome.unit,
            source=f"{outcome.table_name}, {len(readings.y):,} rows",
            axis=replace(axis, values=axis.values[shown]),
            points=points,
            effects=tuple(
                _effect_of(outcome.fitted, readings, j, f"{words[0].upper()}{words[1:]}.")
                for j, words in enumerate(_reaches(outcome)[:MAX_EFFECTS])
            ),
            figures=_first_numbers(outcome),
            sentences=tuple(_more_sentences(outcome)),
            doubts=outcome.doubts,
            remarks=tuple(remarks(outcome)),
            residuals_of=of,
            made=made(outcome),
            episodes=outcome.episode_records if outcome.settings.episodes else None,
            notes=outcome.notes_in_words,
            gaps=GapCurve.of(outcome),
            scheduled=np.isin(shown, [row for each in outcome.schedules for row in each.rows]),
        )

    def thinned(self, limit: int) -> Rows:
        """Rows to draw, in the order of the axis: all of them, or every flagged one and others evenly."""
        order = np.argsort(self.axis.values, kind="stable")
        if len(order) <= limit:
            return order
        flagged = order[self.points.flagged[order]]
        if len(flagged) > limit // 2:
            flagged = flagged[np.linspace(0, len(flagged) - 1, limit // 2).astype(int)]
        even = order[np.linspace(0, len(order) - 1, limit - len(flagged)).astype(int)]
        chosen = np.zeros(len(order), dtype=bool)
        chosen[flagged] = chosen[even] = True
        return order[chosen[order]]


def _effect_of(fitted: Fitted, readings: Readings, j: int, words: str) -> Effect:
    """The average of f over rows at each grid point of the j-th feature, with its 95 % band."""
    feature, estimator = readings.features[j], fitted.estimator
    low, high = np.quantile(readings.X[fitted.fit_rows, j], (0.0, 1.0) if feature.is_time else INNER).tolist()
    n = TIME_GRID if feature.is_time else GRID
    grid = np.linspace(low, high, n)
    rows = spread(fitted.fit_rows, readings.X[fitted.fit_rows, 0], max(1, QUERIES // n))
    others, k = readings.frame(rows), len(rows)
    queries = pd.concat([others.assign(**{feature.name: value}) for value in grid], ignore_index=True)
    if estimator._is_symmetric:
        means, covariance = estimator.predict(queries, return_cov=True)
        mean = means.reshape(n, k).mean(axis=1)
        variance = covariance.reshape(n, k, n, k).mean(axis=(1, 3)).diagonal()
        margin = NORMAL_95 * np.sqrt(np.maximum(variance, 0.0))
        ends = mean - margin, mean + margin
    else:
        # Under a transform the average of intervals, which is somewhat wider, stands in for that of the average.
        lower, mean, upper = estimator.predict_quantiles(queries, LEVELS).reshape(n, k, 3).mean(axis=1).T
        ends = lower, upper
    return Effect(Axis.of(feature, grid), words, mean, *ends)


def sentences(outcome: Analysis) -> list[str]:
    """What was found, one sentence per line."""
    lines = [f"A reading's noise is {quantity(outcome.noise, outcome.unit)} (one standard deviation)."]
    lines += [f"{name}: {words}." for name, words in zip(outcome.readings.names, _reaches(outcome), strict=True)]
    return lines + _more_sentences(outcome)


def _on_kernel(outcome: Analysis) -> list[str]:
    """Cycles and trends that were found."""
    choice = outcome.fitted.choice
    return [] if choice is None else in_words(choice, outcome.readings.features, outcome.unit)


def _reaches(outcome: Analysis) -> list[str]:
    """What each length-scale means."""
    spans = np.ptp(outcome.readings.X[outcome.fitted.fit_rows], axis=0).tolist()
    return [reach(*each) for each in zip(outcome.readings.features, outcome.lengths, spans, strict=True)]


def _more_sentences(outcome: Analysis) -> list[str]:
    """Those on the readings, which the page has too."""
    lines, unit, flagged = [*_on_kernel(outcome), *_on_sensors(outcome)], outcome.unit, outcome.flagged
    if hasattr(outcome.fitted.estimator, "outlier_mask_"):
        share = flagged.sum() / max(1, outcome.readings.kept.sum())
        biases = outcome.verdict.bias[flagged]
        span = f", with biases from {biases.min():+.3g} to {quantity(biases.max(), unit)}" if len(biases) else ""
        lines.append(f"{int(flagged.sum()):,} readings are flagged as outliers ({share:.1%}){span}.")
    lines += [schedule.told(unit) for schedule in outcome.schedules]
    lines += on_transforms(outcome.transforms, outcome.readings.target)
    if outcome.test:
        covered = outcome.test["coverage_95_of_unflagged"]
        lines.append(
            f"Of {outcome.test['readings']} readings held out, half are predicted within "
            f"{quantity(outcome.test['median_absolute_error'], unit)}"
            + ("" if covered is None else f", and the 95 % intervals hold {covered:.0%} of those not flagged")
            + "."
        )
    if outcome.agreement:
        both, theirs = outcome.agreement["flagged_in_both"], outcome.agreement["flagged_in_table"]
        lines.append(f"The table flags {theirs} of the readings used; {both} of these are flagged here as well.")
    return lines


def _on_sensors(outcome: Analysis) -> list[str]:
    """What each sensor adds to the truth on its own, where several share it."""
    sensors = outcome.readings.sensors
    if sensors is None:
        return []
    own, unit = Judge(outcome.fitted.estimator, outcome.readings).own_errors, outcome.unit
    labels = sorted(set(sensors.labels[outcome.readings.kept]))
    lines = [f"The truth is what all of {sensors.column} share ({len(labels)} labels)."]
    for label in labels[:MAX_SENSORS]:
        errors = own[outcome.readings.kept & (sensors.labels == label)]
        words = f"has an error of its own from {errors.min():+.3g} to {quantity(errors.max(), unit)}"
        lines.append(f"{label} {'is the reference' if label == outcome.settings.reference else words}.")
    return lines


def remarks(outcome: Analysis) -> list[str]:
    """Rows used, and why others were not."""
    readings, fitted = outcome.readings, outcome.fitted
    used = int(readings.kept.sum())
    lines = [f"{used:,} of {len(readings.y):,} rows are used."]
    lines += [f"Left out: {count:,} rows where {reason}." for reason, count in readings.left_out]
    if readings.noise_variance is not None:
        stated = quantity(float(np.sqrt(np.median(readings.noise_variance[readings.kept]))), outcome.unit)
        lines.append(
            f"The stated noise of a reading is {stated} (median); the noise that is learnt comes on top of it."
        )
    limits = int((readings.kept & ~readings.measured).sum())
    if limits and outcome.settings.knows_censored:
        lines.append(
            f"Of {limits:,} of them only a limit is known, below or above which they lie: they count by the "
            "probability of that, and are never flagged."
        )
    elif limits:
        lines.append(
            f"{limits:,} of them are limits, below or above which they lie, which --method {outcome.settings.method} "
            "cannot use: take sparse or gp."
        )
    if len(fitted.fit_rows) + len(fitted.test_rows) + (0 if outcome.settings.knows_censored else limits) < used:
        lines.append(
            f"The model was fitted to {len(fitted.fit_rows):,} rows, evenly spread over {readings.names[0]!r}; "
            "all rows were then predicted and judged by it."
        )
    if outcome.settings.episodes and len(fitted.fit_rows) > EXACT_UP_TO:
        lines.append(
            f"In a fit to more than {EXACT_UP_TO:,} rows, shifts and drifts of up to {WINDOWS.longest} rows are looked "
            "for, and stuck sensors of any length; --where or --max-rows fits to fewer."
        )
    return lines


def command(outcome: Analysis) -> str:
    """The command that does this again: what differs from the defaults."""
    source, readings = outcome.selection.source, outcome.readings
    columns = ",".join(column for feature in readings.features for column in feature.columns)
    words = ["biasgp", "fit", *(each.rsplit("/", 1)[-1] for each in (source, *outcome.selection.more))]
    words += ["--target", readings.target, "--features", columns]
    for part in (outcome.settings, outcome.selection):
        for field in fields(part):
            value = getattr(part, field.name)
            usual = outcome.settings.usual_episodes(readings.features) if field.name == "episodes" else field.default
            if field.name in ("source", "more", "target", "features") or value == usual:
                continue
            if field.name in ("events", "verdicts"):
                value = value.rsplit("/", 1)[-1]
            if field.name in SWITCHES:
                words.append(SWITCHES[field.name][value])
                continue
            for each in value if isinstance(value, tuple) else (value,):
                words += [f"--{field.name.replace('_', '-')}", str(each)]
    return shlex.join(words)


def _first_numbers(outcome: Analysis) -> tuple[tuple[str, str], ...]:
    numbers = [
        ("readings used", f"{int(outcome.readings.kept.sum()):,}"),
        ("flagged as outliers", f"{int(outcome.flagged.sum()):,}"),
        ("noise of a reading", quantity(outcome.noise, outcome.unit)),
    ]
    if outcome.settings.episodes:
        numbers.insert(2, ("episodes", f"{len(outcome.episode_records):,}"))
    times = [j for j, feature in enumerate(outcome.readings.features) if feature.is_time]
    if times and np.isfinite(outcome.lengths[times[0]]):
        numbers.append(("the truth varies over about", duration(outcome.lengths[times[0]])))
    if outcome.test:
        error = quantity(outcome.test["median_absolute_error"], outcome.unit)
        numbers.append(("median error, held out", error))
    return tuple(numbers)


def made(outcome: Analysis) -> tuple[tuple[str, str], ...]:
    """How a fit was made: what, and how."""
    estimator = outcome.fitted.estimator
    return (
        ("Command", command(outcome)),
        ("Model", METHOD_WORDS.get(outcome.settings.method, outcome.settings.method)),
        ("Target, features", f"{outcome.readings.target}; {', '.join(outcome.readings.names)}"),
        (
            "Transform of the target",
            "; ".join(f"{each.name}{share(weight)} ({each})" for weight, each in outcome.transforms),
        ),
        ("Kernel", f"{estimator.kernel_!r}"),
        ("Rows in the fit", f"{len(outcome.fitted.fit_rows):,}"),
        ("Fitted in", f"{outcome.fitted.seconds:.1f} s"),
        ("Version", f"biasgp {biasgp.__version__}"),
    )


def summary(outcome: Analysis, flags: Flags | None = None) -> dict[str, Any]:
    """The same for machines."""
    readings, verdict, axis = outcome.readings, outcome.verdict, outcome.axis
    rows = np.flatnonzero(outcome.flagged)
    columns = {
        "row": rows + 1,
        "time" if axis.is_time else readings.names[0]: np.array(axis.places(rows), dtype=object),
        **({} if readings.sensors is None else {"sensor": readings.sensors.labels[rows]}),
        "value": readings.y[rows],
        "mean": outcome.prediction.mean[rows],
        "bias": verdict.bias[rows],
        "bias_std": verdict.bias_std[rows],
        "probability": verdict.probability[rows],
        **{name: values[rows] for name, values in outcome.explained.items()},
    }
    flagged = pd.DataFrame(columns).replace([np.inf, -np.inf], np.nan).astype(object)
    return {
        "biasgp": biasgp.__version__,
        "table": outcome.table_name,
        "target": readings.target,
        "unit": outcome.unit,
        "features": readings.names,
        "method": outcome.settings.method,
        "response": outcome.response,
        "response_weights": {each.name: weight for weight, each in outcome.transforms},
        "kernel": repr(outcome.fitted.estimator.kernel_),
        # None where the kernel was named.
        "chosen": _parts(outcome),
        "seed": outcome.settings.seed,
        "rows": {
            "read": len(readings.y),
            "used": int(readings.kept.sum()),
            "fitted": len(outcome.fitted.fit_rows),
            "held_out": len(outcome.fitted.test_rows),
            "left_out": dict(readings.left_out),
            "censored": int((readings.kept & ~readings.measured).sum()),
        },
        "noise_std": outcome.noise,
        "varies_over": {
            name: length if np.isfinite(length) else None
            for name, length in zip(readings.names, outcome.lengths, strict=True)
        },
        "trustworthy": not outcome.doubts,
        "doubts": list(outcome.doubts),
        "findings": [asdict(finding) for finding in outcome.findings],
        # None where they were not looked for.
        "episodes": [each.plain() for each in outcome.episode_records] if outcome.settings.episodes else None,
        "notes": [
            asdict(note) | {"text": text} for note, text in zip(outcome.notes, outcome.notes_in_words, strict=True)
        ],
        "schedules": [each.plain() for each in outcome.schedules],
        "test": outcome.test,
        "flag_column": outcome.agreement,
        "flags": None if flags is None else {"column": flags.column, "meanings": flags.meanings, "rows": flags.counts},
        "resolution": readings.resolution,
        "gaps": [{"after": after, "before": before} for after, before in outcome.gaps_in_words],
        "repeated_times": readings.clock.repeated,
        "detection_limits": 0 if readings.censored is None else int((readings.censored != 0).sum()),
        "table_notes": list(readings.notes),
        "verdicts": None if readings.judged is None else readings.judged.astype(object).to_dict("records"),
        "worth_a_look": (outcome.worth_a_look() + 1).tolist(),
        "questions": [each.plain() for each in outcome.questions()],
        "n_flagged": len(rows),
        # JSON has no NaN, and no infinity.
        "flagged": flagged.where(flagged.notna(), None).to_dict("records"),
        "fit_seconds": outcome.fitted.seconds,
        "command": command(outcome),
    }


def _parts(outcome: Analysis) -> list[dict[str, Any]] | None:
    """What was added to the kernel; a trend has no period."""
    choice = outcome.fitted.choice
    if choice is None or outcome.settings.kernel != AUTO:
        return None
    return [
        {"part": part.name, "period_hours": part.period or None, "size": part.size, "gain": part.gain}
        for part in choice.parts
    ]


def cleaned(table: Table, outcome: Analysis, flags: Flags | None = None) -> pd.DataFrame:
    """Every row of the table, with what was found about it, and the flags of a scheme."""
    use = np.where(outcome.readings.kept, "judged only", "not used").astype(object)
    use[outcome.fitted.fit_rows] = "fit"
    use[outcome.fitted.test_rows] = "held out"
    found = {"mean": outcome.prediction.mean, "std": outcome.prediction.std}
    judged = {} if outcome.readings.verdict is None else {"verdict": _said(outcome.readings.verdict)}
    explained = {name: values for name, values in outcome.explained.items() if name in ("expected", "log_odds")}
    lasting = outcome.episode_columns() if outcome.settings.episodes else {}
    kind = {"kind": outcome.explained["kind"]} if outcome.explained else {}
    columns = found | outcome.verdict.columns(outcome.readings.y) | {"use": use} | judged | explained | lasting | kind
    if outcome.readings.censored is not None:
        columns["censored"] = outcome.readings.censored.astype(int)
    if flags is not None:
        columns[flags.column] = flags.values.astype(int)
    return table.with_columns(columns)


def _said(verdict: Array) -> NDArray[np.object_]:
    """Verdicts in words."""
    words = np.where(verdict == 1.0, "bad", np.where(verdict == 0.0, "good", ""))
    return words.astype(object)
