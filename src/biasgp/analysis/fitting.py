"""A fit to a user's readings: which part of which table, which rows and estimator, and what it says against itself."""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biasgp import kernels
from biasgp._typing import Array
from biasgp.analysis.order import EventTable, needed_order, order_column
from biasgp.covariance.markov import is_markov
from biasgp.data.columns import Feature, Readings, read_readings
from biasgp.data.table import ReadOptions, Table
from biasgp.estimators import METHODS
from biasgp.estimators.base import BaseGP
from biasgp.messages import BiasGPWarning, CovarianceError, FailedFitError, WrongUseError
from biasgp.models.diagnosis import Finding
from biasgp.models.strategy import EXACT_UP_TO

KERNELS = {
    "exponential": kernels.Exponential,
    "matern32": kernels.Matern32,
    "matern52": kernels.Matern52,
    "se": kernels.SquaredExponential,
}
MAX_ROWS, MIN_ROWS = 2500, 600
"""Bounds on the rows of an exact fit where the table has more."""
PREDICTION_WORK = 2e11
"""Predicting N rows from n costs N·n²; beyond this the fit is to fewer rows."""
SHOWN_LABELS = 12
"""Sensors that a refusal lists."""
NEIGHBOURS_PER_SENSOR = 4
"""Nearest neighbours of a reading, where there are many readings of sensors that share the truth."""
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Selection:
    """Which part of which table."""

    source: str
    target: str | None = None
    features: str | tuple[str, ...] | None = None
    """Names, or text with commas between them."""
    na: tuple[str, ...] = ()
    where: str | None = None
    sep: str | None = None
    encoding: str | None = None
    flag_column: str | None = None
    decimal: str | None = None
    day_first: bool | None = None
    header: bool | None = None
    events: str | None = None
    together: str | None = None
    verdicts: str | None = None

    def table(self) -> Table:
        """The whole table."""
        return Table.read(self.source, self._options)

    def events_table(self) -> Table | None:
        """The table of times at which the sensor was serviced, where there is one."""
        return None if self.events is None else Table.read(self.events, self._options)

    def verdicts_table(self) -> Table | None:
        """The table of what somebody said of readings, where there is one."""
        return None if self.verdicts is None else Table.read(self.verdicts, self._options)

    @property
    def _options(self) -> ReadOptions:
        return ReadOptions(self.sep, self.encoding, self.na, self.decimal, self.day_first, self.header)

    def readings(self, table: Table, events: Table | None = None) -> Readings:
        """The numbers in a table, or in a part of it, and the events among them."""
        names = self.feature_names(table.columns)
        more = {"where": self.where, "flag_column": self.flag_column, "together": self.together}
        found = read_readings(table, self.target, names, **more)
        if events is None:
            return found
        return replace(found, events=EventTable(events, table, found.features).values())

    def feature_names(self, columns: list[str]) -> list[str] | None:
        """Names with commas between; a column may have a comma in its own name if it is the only one."""
        text = self.features
        if text is None or isinstance(text, tuple):
            return None if text is None else list(text)
        return [text] if text in columns else [name.strip() for name in text.split(",") if name.strip()]


@dataclass(frozen=True)
class Split:
    """Rows to fit to, rows held out, and how many could have been fitted to."""

    fit: Rows
    test: Rows
    available: int


@dataclass(frozen=True)
class Settings:
    """How to fit."""

    method: str = "sparse"
    response: str = "auto"
    kernel: str = "matern32"
    test_fraction: float = 0.0
    seed: int = 0
    max_rows: int | None = None
    max_time: float | None = None
    episodes: bool | None = False
    """Whether to look for biases that last; None, before it is settled: where there is an order of the readings."""
    reference: str | None = None

    @property
    def scales(self) -> bool:
        """Whether the method has an approximation for many readings."""
        return "approximation" in inspect.signature(METHODS[self.method]).parameters

    def is_approximate(self, readings: Readings, split: Split) -> bool:
        """Whether the fit will be by nearest neighbours: many rows, and inputs other than time alone."""
        if not self.scales or len(split.fit) <= EXACT_UP_TO:
            return False
        X = readings.X[split.fit]
        return readings.sensors is not None or not is_markov(KERNELS[self.kernel](ard=True).bind(X), X)

    @property
    def knows_order(self) -> bool:
        """Whether the method can look for biases that last."""
        return "order" in inspect.signature(METHODS[self.method]).parameters

    @property
    def knows_verdicts(self) -> bool:
        """Whether the method can be told which readings are good or bad."""
        return "verdict" in inspect.signature(METHODS[self.method].fit).parameters

    def usual_episodes(self, features: Sequence[Feature]) -> bool:
        """Whether they are looked for where nothing is said: where that method has an order of the readings."""
        return self.knows_order and order_column(features) is not None

    def settled(self, features: Sequence[Feature]) -> Settings:
        """With or without episodes, as asked or as usual; refused where there is no order that they need."""
        if self.episodes:
            needed_order(features)
        return replace(self, episodes=self.usual_episodes(features)) if self.episodes is None else self

    def estimator(self) -> BaseGP:
        """The estimator of the method, with the kernel, transform and seed; refused where it has no such option."""
        if self.method not in METHODS:
            raise WrongUseError(f"There is no method {self.method!r}; there is {', '.join(METHODS)}.")
        kind = METHODS[self.method]
        parameters = inspect.signature(kind).parameters
        options: dict[str, Any] = {"random_state": self.seed} if "random_state" in parameters else {}
        if self.max_time is not None:
            if "max_time" not in parameters:
                raise WrongUseError(f"--max-time cannot end a fit by {self.method!r} early; use --max-rows.")
            options["max_time"] = self.max_time
        if self.episodes and not self.knows_order:
            raise WrongUseError(f"--episodes needs --method sparse: {self.method!r} knows no biases that last.")
        if self.reference is not None:
            if "reference" not in parameters:
                raise WrongUseError(f"--reference needs --method sparse: {self.method!r} knows none.")
            options["reference"] = self.reference
        if self.knows_order:
            options["order"] = None  # `fit` says which column
        return kind(KERNELS[self.kernel](ard=True), response=self.response, **options)

    def split(self, readings: Readings) -> Split:
        """Choose the rows to fit to and to hold out."""
        kept = np.flatnonzero(readings.kept)
        n_test = round(self.test_fraction * len(kept))
        rng = np.random.default_rng(self.seed)
        test = np.sort(rng.choice(kept, n_test, replace=False)) if n_test else np.empty(0, dtype=np.intp)
        train = np.setdiff1d(kept, test, assume_unique=True)
        exact = int(np.clip(math.sqrt(PREDICTION_WORK / len(readings.y)), MIN_ROWS, MAX_ROWS))
        limit = self.max_rows or (len(train) if self.scales else exact)
        return Split(spread(train, readings.X[train, 0], limit), test, len(train))


@dataclass(frozen=True)
class Fitted:
    """A model, the rows it was fitted to, those held out, and what it found to say against itself."""

    estimator: BaseGP
    fit_rows: Rows
    test_rows: Rows
    doubts: tuple[Finding, ...]
    seconds: float


def _with_sensors(estimator: Any, readings: Readings, settings: Settings) -> Any:
    """The estimator for sensors that share f, each with a slow error of its own."""
    sensors = readings.sensors
    if sensors is None:
        return estimator
    labels = sorted(set(sensors.labels[readings.kept]))
    if settings.reference is not None and settings.reference not in labels:
        raise WrongUseError(
            f"--reference {settings.reference!r} is no label of {sensors.column!r}: there is "
            f"{', '.join(map(repr, labels[:SHOWN_LABELS]))}{' and more' if len(labels) > SHOWN_LABELS else ''}."
        )
    every = range(len(readings.features))
    times = [j for j in every if readings.features[j].is_time]
    slow = KERNELS[settings.kernel](ard=True).on(*(times[:1] or every))
    estimator.set_params(kernel=estimator.kernel + kernels.Same(sensors.column) * slow)
    if settings.scales:
        estimator.set_params(neighbors=max(estimator.neighbors, NEIGHBOURS_PER_SENSOR * len(labels)))
    return estimator


def spread(rows: Rows, along: Array, limit: int) -> Rows:
    """At most `limit` of the rows, evenly over the first input."""
    if len(rows) <= limit:
        return rows
    order = rows[np.argsort(along, kind="stable")]
    return np.sort(order[np.linspace(0, len(order) - 1, limit).astype(np.intp)])


def fit(readings: Readings, settings: Settings, split: Split, known: BaseGP | None = None) -> Fitted:
    """Fit; a failure is one line.

    `known` is a model of the same rows by the same settings, which is fitted again with these verdicts, from what it
    knows: it is changed, and becomes that of the result.
    """
    estimator: Any = known or _with_sensors(settings.estimator(), readings, settings)
    more = {}
    if settings.episodes and known is None:
        estimator.set_params(order=needed_order(readings.features))
        more["events"] = readings.events
    if readings.verdict is not None:
        more["verdict"] = readings.verdict[split.fit]
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if known is None:
                estimator.fit(readings.frame(split.fit), readings.y[split.fit], **more)
            else:
                estimator.refit(more.get("verdict"))
        except (CovarianceError, ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            if str(error).startswith("verdict "):
                raise WrongUseError(f"--verdicts: {error}") from error
            raise FailedFitError(f"The fit failed: {error} Try another --kernel, or fewer --features.") from error
    seconds = time.perf_counter() - began
    doubts = tuple(w.message.args[0] for w in caught if isinstance(w.message, BiasGPWarning))
    return Fitted(estimator, split.fit, split.test, doubts, seconds)
