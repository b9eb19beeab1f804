"""A fit to a user's readings: which part of which table, which rows and estimator, and what it says against itself."""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biasgp import kernels
from biasgp._typing import Array
from biasgp.analysis.choosing import choose_kernel
from biasgp.analysis.noise import with_stated_noise
from biasgp.analysis.order import EventTable, needed_order, order_column
from biasgp.covariance.markov import is_markov
from biasgp.data.columns import Beside, Feature, Readings, read_readings
from biasgp.data.table import ReadOptions, Table
from biasgp.estimators import METHODS
from biasgp.estimators.base import BaseGP
from biasgp.messages import BiasGPWarning, CovarianceError, FailedFitError, WrongUseError
from biasgp.models.diagnosis import Finding
from biasgp.models.kernel_choice import Choice
from biasgp.models.strategy import EXACT_UP_TO
from biasgp.models.transform_choice import Weighted
from biasgp.models.varying_noise import PROPORTIONAL

KERNELS = {
    "exponential": kernels.Exponential,
    "matern32": kernels.Matern32,
    "matern52": kernels.Matern52,
    "se": kernels.SquaredExponential,
}
AUTO, START = "auto", "matern32"
"""The kernel that is chosen by evidence, and the one that the choice starts from."""
SECONDS = 3600.0
"""In an hour, which times are counted in."""
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
    skip: int | None = None
    units: bool | None = None
    sheet: str | None = None
    marks: bool = True
    censored_column: str | None = None
    more: tuple[str, ...] = ()
    """Files that go on where the source ends."""
    noise: str | None = None
    noise_column: str | None = None

    def table(self) -> Table:
        """The whole table."""
        return Table.read([self.source, *self.more], self._options)

    def events_table(self) -> Table | None:
        """The table of times at which the sensor was serviced, where there is one."""
        return None if self.events is None else Table.read(self.events, self._of_others)

    def verdicts_table(self) -> Table | None:
        """The table of what somebody said of readings, where there is one."""
        return None if self.verdicts is None else Table.read(self.verdicts, self._of_others)

    @property
    def _options(self) -> ReadOptions:
        return replace(self._of_others, skip=self.skip, units=self.units, sheet=self.sheet, marks=self.marks)

    @property
    def _of_others(self) -> ReadOptions:
        """How tables beside this one are written; where they begin is their own affair."""
        return ReadOptions(self.sep, self.encoding, self.na, self.decimal, self.day_first, self.header)

    def readings(self, table: Table, events: Table | None = None) -> Readings:
        """The numbers in a table, or in a part of it, and the events among them."""
        inputs = self.without_noise_column(table)
        names = self.feature_names(inputs.columns)
        beside = Beside(self.flag_column, self.together, self.censored_column)
        found = read_readings(inputs, self.target, names, where=self.where, beside=beside)
        found = with_stated_noise(found, table, self.noise, self.noise_column)
        if events is None:
            return found
        return replace(found, events=EventTable(events, table, found.features).values())

    def without_noise_column(self, table: Table) -> Table:
        """The table without the column that states the noise, which is no input."""
        column = self.noise_column
        if column is None:
            return table
        table.column(column)  # refuses one that is not there
        if column == self.target or column in (self.feature_names(table.columns) or ()):
            raise WrongUseError(f"--noise-column {column!r} cannot be the target or a feature too.")
        return replace(table, cells=table.cells.drop(columns=[column]))

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
    kernel: str = AUTO
    """One of KERNELS, "auto", or the text of a kernel (`kernels.parse`)."""
    test_fraction: float = 0.0
    seed: int = 0
    max_rows: int | None = None
    max_time: float | None = None
    episodes: bool | None = False
    """Whether to look for biases that last; None, before it is settled: where there is an order of the readings."""
    reference: str | None = None
    fill: str | None = None
    """Step of a regular series that is written beside the table, as a duration."""
    noise_model: str | None = None
    """One of NOISE_MODELS; None for that of the method."""

    @property
    def scales(self) -> bool:
        """Whether the method has an approximation for many readings."""
        return "approximation" in inspect.signature(METHODS[self.method]).parameters

    def is_approximate(self, readings: Readings, split: Split) -> bool:
        """Whether the fit will be by nearest neighbours: many rows, and inputs other than time alone."""
        if not self.scales or len(split.fit) <= EXACT_UP_TO:
            return False
        X = readings.X[split.fit]
        kernel = self.kernel_for(readings.features).bind(X, readings.names)
        return readings.sensors is not None or not is_markov(kernel, X)

    @property
    def whole_kernel(self) -> kernels.Kernel:
        """The kernel as it is written, before it is known which columns hold times."""
        word = START if self.kernel == AUTO else self.kernel
        try:
            return KERNELS[word](ard=True) if word in KERNELS else kernels.parse(word)
        except ValueError as error:
            raise WrongUseError(f"--{error}") from error

    def kernel_for(self, features: Sequence[Feature]) -> kernels.Kernel:
        """The kernel of these inputs, of which times are in hours."""
        times, names = [feature.is_time for feature in features], [feature.name for feature in features]
        units = [SECONDS if is_time else 1.0 for is_time in times]
        try:
            kernel = self.whole_kernel.in_seconds(times, names).in_units(units, names)
            kernel.bind(np.zeros((1, len(names))), names)
        except ValueError as error:
            raise WrongUseError(f"--kernel {self.kernel!r}: {error}") from error
        return kernel

    @property
    def knows_order(self) -> bool:
        """Whether the method can look for biases that last."""
        return "order" in inspect.signature(METHODS[self.method]).parameters

    @property
    def knows_verdicts(self) -> bool:
        """Whether the method can be told which readings are good or bad."""
        return "verdict" in inspect.signature(METHODS[self.method].fit).parameters

    @property
    def knows_censored(self) -> bool:
        """Whether the method can use readings of which only a limit is known."""
        return METHODS[self.method]._knows_censored

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
        if self.noise_model is not None:
            self._check_noise_model(parameters)
            options["noise_model"] = self.noise_model
        if self.knows_order:
            options["order"] = None  # `fit` says which column
        if self.whole_kernel.category_columns:
            raise WrongUseError("--kernel: same(...) is what --together is for: name the column of the sensors there.")
        return kind(self.whole_kernel, response=self.response, **options)

    def _check_noise_model(self, parameters: Collection[str]) -> None:
        """Refuse a noise model that the method has none of, or that does not go with the transform."""
        if "noise_model" not in parameters:
            raise WrongUseError(f"--noise-model needs --method sparse or gp: {self.method!r} has a noise of its own.")
        if self.noise_model == PROPORTIONAL and self.response != "identity":
            raise WrongUseError(
                "--noise-model proportional needs --response identity: it is about the target as it is. (Under a "
                "logarithm, proportional noise is constant.)"
            )

    def split(self, readings: Readings) -> Split:
        """Choose the rows to fit to and to hold out."""
        held = np.flatnonzero(readings.kept & readings.measured)  # a limit cannot be scored
        kept = np.flatnonzero(readings.kept) if self.knows_censored else held
        n_test = round(self.test_fraction * len(held))
        rng = np.random.default_rng(self.seed)
        test = np.sort(rng.choice(held, n_test, replace=False)) if n_test else np.empty(0, dtype=np.intp)
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
    choice: Choice | None = None
    """The kernel that was chosen, where that was left open."""


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
    slow = KERNELS.get(settings.kernel, KERNELS[START])(ard=True).on(*(times[:1] or every))
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
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if known is None:
                estimator, choice = _fitted(readings, settings, split.fit)
            else:
                estimator, choice = _again(known, readings, split.fit), None
        except WrongUseError:
            raise
        except (CovarianceError, ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            if str(error).startswith("verdict "):
                raise WrongUseError(f"--verdicts: {error}") from error
            raise FailedFitError(f"The fit failed: {error} Try another --kernel, or fewer --features.") from error
    seconds = time.perf_counter() - began
    doubts = tuple(w.message.args[0] for w in caught if isinstance(w.message, BiasGPWarning))
    return Fitted(estimator, split.fit, split.test, doubts, seconds, choice)


def _fitted(readings: Readings, settings: Settings, rows: Rows) -> tuple[Any, Choice]:
    """An estimator fitted to some rows, and its kernel."""
    choice = Choice(settings.kernel_for(readings.features))
    transforms: tuple[Weighted, ...] = ()
    if settings.kernel == AUTO:
        choice, transforms = choose_kernel(readings, choice.kernel, settings.response, rows)
    estimator = settings.estimator().set_params(kernel=choice.kernel)
    estimator._given_transforms = transforms
    estimator = _with_sensors(estimator, readings, settings)
    more = _beside(estimator, readings, settings, rows)
    return estimator.fit(readings.frame(rows), readings.y[rows], **more), choice


def _again(known: Any, readings: Readings, rows: Rows) -> Any:
    """A fitted estimator with the verdicts that are known now."""
    return known.refit(None if readings.verdict is None else readings.verdict[rows])


def _beside(estimator: Any, readings: Readings, settings: Settings, rows: Rows) -> dict[str, Any]:
    """What the estimator is told beside the readings of some rows; it is given the order of these."""
    more = {}
    if settings.episodes:
        estimator.set_params(order=needed_order(readings.features))
        more["events"] = readings.events
    if readings.verdict is not None:
        more["verdict"] = readings.verdict[rows]
    if readings.known_variance.any():
        more["noise_variance"] = readings.known_variance[rows]
    if readings.censored is not None and readings.censored[rows].any():
        more["censored"] = readings.censored[rows]
    return more
