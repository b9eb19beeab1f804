"""From a fit to what is told about it: the record of the page, and the summary."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import biasgp
from biasgp._typing import Array, Mask
from biasgp.analysis import fitting
from biasgp.analysis.effects import effects, time_label, to_milliseconds
from biasgp.analysis.fit_record import Axis, FitRecord, Points
from biasgp.analysis.fitting import Fitted, Prediction, Settings, Verdict
from biasgp.analysis.selection import Selection
from biasgp.analysis.words import duration, quantity, reach, told
from biasgp.data.columns import Readings, unit_of
from biasgp.models.diagnosis import Finding

METHOD_WORDS = {
    "sparse": "sparse bias: most readings have none, the others share a few kinds",
    "cob": "constant bias with an L1 penalty",
    "rab": "random bias",
    "gp": "plain Gaussian process: not robust, flags nothing",
    "ep": "Student-t noise by expectation propagation",
    "mcmc": "scale mixture of Gaussians by MCMC",
}


@dataclass(frozen=True)
class Analysis:
    """Everything that came of a fit."""

    selection: Selection
    settings: Settings
    table_name: str
    readings: Readings
    fitted: Fitted
    prediction: Prediction
    verdict: Verdict
    residual: Array
    reaches: tuple[str, ...]
    lengths: tuple[float, ...]
    test: dict[str, Any]
    agreement: dict[str, Any]

    @property
    def unit(self) -> str:
        return unit_of(self.readings.target)

    @property
    def noise(self) -> float:
        return float(np.sqrt(self.fitted.estimator.noise_variance_))

    @property
    def flagged(self) -> Mask:
        return np.asarray(self.verdict.flagged & self.readings.kept)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the fit says against itself, about rows of the table, of which the first is 1."""
        rows = self.fitted.fit_rows + 1
        return tuple(replace(each, rows=tuple(rows[list(each.rows)].tolist())) for each in self.fitted.doubts)

    @property
    def doubts(self) -> tuple[str, ...]:
        return told(self.findings, ["transform"] if self.settings.response == "auto" else [])

    @property
    def response(self) -> str:
        return fitting.transform_name(self.fitted.estimator)


def examine(selection: Selection, settings: Settings, table_name: str, readings: Readings, fitted: Fitted) -> Analysis:
    """Predict every row and judge every reading."""
    rows = np.arange(len(readings.y))
    prediction = fitting.predict(fitted.estimator, fitting.frame(readings, rows))
    verdict = fitting.judge(fitted, readings, prediction)
    found = fitting.lengths(fitted.estimator, prediction, fitted.fit_rows)
    spans = np.ptp(readings.X[fitted.fit_rows], axis=0)
    reaches = tuple(reach(f, found[j], float(spans[j])) for j, f in enumerate(readings.features))
    return Analysis(
        selection,
        settings,
        table_name,
        readings,
        fitted,
        prediction,
        verdict,
        fitting.residuals(fitted, readings, verdict.flagged),
        reaches,
        tuple(found),
        fitting.held_out_scores(fitted, readings, verdict.flagged),
        fitting.agreement(readings, verdict.flagged),
    )


def axis_of(readings: Readings) -> Axis:
    """The first time, else the first feature, for every row."""
    times = [j for j, feature in enumerate(readings.features) if feature.is_time]
    j = times[0] if times else 0
    feature, values = readings.features[j], readings.X[:, j]
    if not feature.is_time:
        return Axis(feature.name, False, values)
    label = time_label(feature.name, feature.zoned, feature.offset_hours)
    return Axis(label, True, to_milliseconds(values, feature.origin, feature.offset_hours))


def when(axis: Axis) -> list[str]:
    """Each row's place on the axis, to be read."""
    if not axis.is_time:
        return [f"{value:.6g}" for value in axis.values]
    stamps = pd.to_datetime(pd.Series(axis.values).round(), unit="ms")
    whole = bool((stamps.dropna().dt.second == 0).all())
    return list(stamps.dt.strftime("%Y-%m-%d %H:%M" if whole else "%Y-%m-%d %H:%M:%S").fillna(""))


def sentences(outcome: Analysis) -> list[str]:
    """The findings, one a line."""
    unit, flagged = outcome.unit, outcome.flagged
    lines = [f"A reading's noise is {quantity(outcome.noise, unit)} (one standard deviation)."]
    lines += [
        f"{feature.name}: {words}." for feature, words in zip(outcome.readings.features, outcome.reaches, strict=True)
    ]
    if hasattr(outcome.fitted.estimator, "outlier_mask_"):
        share = flagged.sum() / max(1, outcome.readings.kept.sum())
        biases = outcome.verdict.bias[flagged]
        span = f", with biases from {biases.min():+.3g} to {quantity(biases.max(), unit)}" if len(biases) else ""
        lines.append(f"{int(flagged.sum()):,} readings are flagged as outliers ({share:.1%}){span}.")
    if outcome.response != "identity":
        lines.append(
            f"The model holds for a transform of {outcome.readings.target} ({outcome.response}): the mean given here "
            "is the median of the truth, and std half the width of its central 68 %."
        )
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


def remarks(outcome: Analysis) -> list[str]:
    """Rows used, and why others were not."""
    readings, fitted = outcome.readings, outcome.fitted
    used = int(readings.kept.sum())
    lines = [f"{used:,} of {len(readings.y):,} rows are used."]
    lines += [f"Left out: {count:,} rows where {reason}." for reason, count in readings.left_out]
    if len(fitted.fit_rows) + len(fitted.test_rows) < used:
        lines.append(
            f"The model was fitted to {len(fitted.fit_rows):,} rows, evenly spread over {readings.names[0]!r}; "
            "all rows were then predicted and judged by it."
        )
    return lines


def command(outcome: Analysis) -> str:
    """The command that does this again."""
    s, t = outcome.selection, outcome.settings
    words = ["biasgp", "fit", s.source if s.source == "-" else s.source.rsplit("/", 1)[-1]]
    words += ["--target", outcome.readings.target]
    names = [column for feature in outcome.readings.features for column in feature.columns]
    words += ["--features", ",".join(names)]
    for option, value, default in (
        ("--method", t.method, "sparse"),
        ("--response", t.response, "auto"),
        ("--kernel", t.kernel, "matern32"),
        ("--test-fraction", t.test_fraction, 0.0),
        ("--seed", t.seed, 0),
        ("--max-rows", t.max_rows, None),
        ("--max-time", t.max_time, None),
        ("--where", s.where, None),
        ("--flag-column", s.flag_column, None),
        ("--sep", s.sep, None),
        ("--encoding", s.encoding, None),
        ("--decimal", s.decimal, None),
    ):
        if value != default:
            words += [option, str(value)]
    for chosen, yes, no in ((s.day_first, "--day-first", "--month-first"), (s.header, "--header", "--no-header")):
        words += [] if chosen is None else [yes if chosen else no]
    for mark in s.na:
        words += ["--na", mark]
    return shlex.join(words)


def fit_record(outcome: Analysis) -> FitRecord:
    """What the page shows."""
    readings, verdict, kept = outcome.readings, outcome.verdict, outcome.readings.kept
    axis = axis_of(readings)
    held = np.zeros(len(readings.y), dtype=bool)
    held[outcome.fitted.test_rows] = True
    shown = np.flatnonzero(kept)
    axis = Axis(axis.label, axis.is_time, axis.values[shown])
    points = Points(
        row=shown + 1,
        when=when(axis),
        y=readings.y[shown],
        mean=outcome.prediction.mean[shown],
        low=outcome.prediction.low[shown],
        high=outcome.prediction.high[shown],
        bias=verdict.bias[shown],
        bias_std=verdict.bias_std[shown],
        probability=verdict.probability[shown],
        flagged=verdict.flagged[shown],
        held_out=held[shown],
        residual=outcome.residual[shown],
    )
    of = (
        "Residuals of the held-out readings that are not flagged, which the model has not seen."
        if outcome.test
        else "Residuals of the readings that are not flagged, each from a prediction without it."
    )
    return FitRecord(
        title=f"{readings.target}: which readings to trust",
        target=readings.target,
        unit=outcome.unit,
        source=f"{outcome.table_name}, {len(readings.y):,} rows",
        axis=axis,
        points=points,
        effects=effects(outcome.fitted, readings, [f"{words[0].upper()}{words[1:]}." for words in outcome.reaches]),
        figures=_first_numbers(outcome),
        sentences=tuple(sentences(outcome)[1 + len(readings.features) :]),
        doubts=outcome.doubts,
        remarks=tuple(remarks(outcome)),
        residuals_of=of,
        made=_made(outcome),
    )


def _first_numbers(outcome: Analysis) -> tuple[tuple[str, str], ...]:
    numbers = [
        ("readings used", f"{int(outcome.readings.kept.sum()):,}"),
        ("flagged as outliers", f"{int(outcome.flagged.sum()):,}"),
        ("noise of a reading", quantity(outcome.noise, outcome.unit)),
    ]
    times = [j for j, feature in enumerate(outcome.readings.features) if feature.is_time]
    if times:
        numbers.append(("the truth varies over about", duration(outcome.lengths[times[0]])))
    if outcome.test:
        error = quantity(outcome.test["median_absolute_error"], outcome.unit)
        numbers.append(("median error, held out", error))
    return tuple(numbers)


def _made(outcome: Analysis) -> tuple[tuple[str, str], ...]:
    estimator = outcome.fitted.estimator
    return (
        ("Command", command(outcome)),
        ("Model", METHOD_WORDS.get(outcome.settings.method, outcome.settings.method)),
        ("Target, features", f"{outcome.readings.target}; {', '.join(outcome.readings.names)}"),
        ("Transform of the target", f"{outcome.response} ({estimator.response_})"),
        ("Kernel", f"{estimator.kernel_!r}"),
        ("Rows in the fit", f"{len(outcome.fitted.fit_rows):,}"),
        ("Fitted in", f"{outcome.fitted.seconds:.1f} s"),
        ("Version", f"biasgp {biasgp.__version__}"),
    )


def summary(outcome: Analysis) -> dict[str, Any]:
    """The same for machines."""
    readings, verdict, prediction = outcome.readings, outcome.verdict, outcome.prediction
    axis = axis_of(readings)
    rows = np.flatnonzero(outcome.flagged)
    places = when(Axis(axis.label, axis.is_time, axis.values[rows]))
    flagged = [
        {
            "row": i + 1,
            axis_key(readings): place,
            "value": number(readings.y[i]),
            "mean": number(prediction.mean[i]),
            "bias": number(verdict.bias[i]),
            "bias_std": number(verdict.bias_std[i]),
            "probability": number(verdict.probability[i]),
        }
        for i, place in zip(rows.tolist(), places, strict=True)
    ]
    return {
        "biasgp": biasgp.__version__,
        "table": outcome.table_name,
        "target": readings.target,
        "unit": outcome.unit,
        "features": readings.names,
        "method": outcome.settings.method,
        "response": outcome.response,
        "kernel": repr(outcome.fitted.estimator.kernel_),
        "seed": outcome.settings.seed,
        "rows": {
            "read": len(readings.y),
            "used": int(readings.kept.sum()),
            "fitted": len(outcome.fitted.fit_rows),
            "held_out": len(outcome.fitted.test_rows),
            "left_out": dict(readings.left_out),
        },
        "noise_std": outcome.noise,
        "varies_over": dict(zip(readings.names, outcome.lengths, strict=True)),
        "trustworthy": not outcome.doubts,
        "doubts": list(outcome.doubts),
        "findings": [asdict(finding) for finding in outcome.findings],
        "test": outcome.test,
        "flag_column": outcome.agreement,
        "n_flagged": len(flagged),
        "flagged": flagged,
        "fit_seconds": outcome.fitted.seconds,
        "command": command(outcome),
    }


def axis_key(readings: Readings) -> str:
    return "time" if any(feature.is_time for feature in readings.features) else readings.names[0]


def number(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return float(value) if np.isfinite(value) else None


def cleaned(cells: pd.DataFrame, outcome: Analysis) -> pd.DataFrame:
    """Every row of the table, with what was found about it."""
    verdict, kept = outcome.verdict, outcome.readings.kept
    use = np.where(kept, "fit", "not used").astype(object)
    use[outcome.fitted.test_rows] = "held out"
    in_fit = np.zeros(len(use), dtype=bool)
    in_fit[outcome.fitted.fit_rows] = True
    use[(use == "fit") & ~in_fit] = "judged only"
    return with_columns(
        cells,
        {
            "mean": outcome.prediction.mean,
            "std": outcome.prediction.std,
            "bias": verdict.bias,
            "outlier_probability": verdict.probability,
            "flag": np.where(np.isfinite(outcome.readings.y), verdict.flagged.astype(int).astype(object), ""),
            "use": use,
        },
    )


def with_columns(cells: pd.DataFrame, columns: dict[str, Any]) -> pd.DataFrame:
    """A table with more columns; a name that is taken gets biasgp_ before it."""
    taken = set(cells.columns)
    renamed = {f"biasgp_{name}" if name in taken else name: values for name, values in columns.items()}
    return cells.assign(**{name: _few_digits(values) for name, values in renamed.items()})


def _few_digits(values: Any) -> Any:
    """Numbers to six digits: what is beyond says nothing, and makes files large."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return array
    digits = 5 - np.floor(np.log10(np.where((array == 0.0) | ~np.isfinite(array), 1.0, np.abs(array))))
    scale = 10.0 ** np.clip(digits, -300, 300)
    return np.round(array * scale) / scale
