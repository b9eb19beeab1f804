"""A fit of a user's readings, and what it says about every row."""

from __future__ import annotations

import inspect
import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biasgp import metrics
from biasgp._typing import Array, Mask
from biasgp.analysis.selection import make_kernel
from biasgp.data.columns import Readings
from biasgp.estimators.base import BaseGP
from biasgp.estimators.methods import METHODS
from biasgp.messages import CovarianceError, FailedFitError, UntrustworthyFitWarning, WrongUseError
from biasgp.models.problem import OUTLIER_SIZE
from biasgp.response import Identity

MAX_ROWS, MIN_ROWS = 2500, 600
PREDICTION_WORK = 2e11
"""Predicting N rows from n costs N·n²; beyond this the fit is to fewer rows."""
NORMAL_95 = 1.959963984540054
LEVELS = (0.025, 0.5, 0.975)
ONE_SIGMA = (0.15865525393145707, 0.5, 0.8413447460685429)
Rows = NDArray[np.intp]


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


@dataclass(frozen=True)
class Fitted:
    """A model, the rows it was fitted to, those held out, and what it had to say."""

    estimator: BaseGP
    fit_rows: Rows
    test_rows: Rows
    doubts: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Prediction:
    """Of f: mean, standard deviation and 95 % interval; NaN where an input is missing.

    Under a transform of the target the median stands for the mean, and half the width of the central 68 % for the
    standard deviation: where f is uncertain, its mean is ruled by a tail that nobody has seen.
    """

    mean: Array
    std: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Verdict:
    """On each row: its bias with standard error, probability of being an outlier, and whether it is flagged."""

    bias: Array
    bias_std: Array
    probability: Array
    flagged: Mask


def make_estimator(settings: Settings) -> BaseGP:
    """The estimator of a short name, with the kernel, transform and seed asked for."""
    if settings.method not in METHODS:
        raise WrongUseError(f"There is no method {settings.method!r}; there is {', '.join(METHODS)}.")
    kind = METHODS[settings.method]
    parameters = inspect.signature(kind).parameters
    options: dict[str, Any] = {"random_state": settings.seed} if "random_state" in parameters else {}
    if settings.max_time is not None:
        if "max_time" not in parameters:
            raise WrongUseError(f"--max-time cannot end a fit by {settings.method!r} early; use --max-rows.")
        options["max_time"] = settings.max_time
    return kind(make_kernel(settings.kernel), response=settings.response, **options)


def transform_name(estimator: BaseGP) -> str:
    """The transform of the target that a fit used, as --response spells it."""
    return {"Identity": "identity", "Log": "log", "YeoJohnson": "yeo-johnson"}[type(estimator.response_).__name__]


def rows_to_fit(readings: Readings, settings: Settings) -> tuple[Rows, Rows, int]:
    """Rows to fit to, rows held out, and how many could have been fitted to."""
    kept = np.flatnonzero(readings.kept)
    n_test = round(settings.test_fraction * len(kept))
    rng = np.random.default_rng(settings.seed)
    test = np.sort(rng.choice(kept, n_test, replace=False)) if n_test else np.empty(0, dtype=np.intp)
    train = np.setdiff1d(kept, test, assume_unique=True)
    limit = settings.max_rows or _limit(settings.method, len(readings.y))
    return spread(train, readings.X[train, 0], limit), test, len(train)


def spread(rows: Rows, along: Array, limit: int) -> Rows:
    """At most `limit` of the rows, evenly over the first input."""
    if len(rows) <= limit:
        return rows
    order = rows[np.argsort(along, kind="stable")]
    return np.sort(order[np.linspace(0, len(order) - 1, limit).astype(np.intp)])


def _limit(method: str, n: int) -> int:
    if scales(method):
        return n
    return int(np.clip(math.sqrt(PREDICTION_WORK / n), MIN_ROWS, MAX_ROWS))


def scales(method: str) -> bool:
    """Whether a method has an approximation for many readings."""
    return "approximation" in inspect.signature(METHODS[method]).parameters


def frame(readings: Readings, rows: Rows | Mask) -> pd.DataFrame:
    """Inputs of some rows, with their names."""
    return pd.DataFrame(readings.X[rows], columns=readings.names)


def fit(readings: Readings, settings: Settings) -> Fitted:
    """Fit; a failure is one line."""
    rows, test, _ = rows_to_fit(readings, settings)
    estimator = make_estimator(settings)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator.fit(frame(readings, rows), readings.y[rows])
        except (CovarianceError, ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            raise FailedFitError(f"The fit failed: {error} Try another --kernel, or fewer --features.") from error
    seconds = time.perf_counter() - began
    own = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    reasons = [
        *getattr(estimator, "diagnosis_", ()),
        *(str(w.message) for w in caught if _counts(w.category) and str(w.message) in own),
    ]
    return Fitted(estimator, rows, test, tuple(dict.fromkeys(reasons)), seconds)


def _counts(category: type[Warning]) -> bool:
    """Whether a warning is about the fit and not among the model's own reasons already."""
    return category.__module__.startswith("biasgp.") and not issubclass(category, UntrustworthyFitWarning)


def predict(estimator: BaseGP, X: pd.DataFrame) -> Prediction:
    """f at every row whose inputs are all there."""
    ready = np.isfinite(X.to_numpy()).all(axis=1)
    columns = np.full((4, len(X)), np.nan)
    if ready.any():
        columns[:, ready] = _predict(estimator, X[ready])
    return Prediction(*columns)


def _predict(estimator: BaseGP, X: pd.DataFrame) -> Array:
    if isinstance(estimator.response_, Identity):
        mean, std = estimator.predict(X, return_std=True)
        return np.array([mean, std, mean - NORMAL_95 * std, mean + NORMAL_95 * std])
    low, below, median, above, high = estimator.predict_quantiles(X, (LEVELS[0], *ONE_SIGMA, LEVELS[2])).T
    return np.array([median, 0.5 * (above - below), low, high])


def judge(fitted: Fitted, readings: Readings, prediction: Prediction) -> Verdict:
    """What is known about each reading: from the fit where it was in it, else from the prediction for it."""
    estimator, rows = fitted.estimator, fitted.fit_rows
    rest = np.ones(len(readings.y), dtype=bool)
    rest[rows] = not hasattr(estimator, "outlier_probability_")
    verdict = judge_new(estimator, readings, prediction, rest)
    for name, column in (
        ("bias_", verdict.bias),
        ("bias_std_", verdict.bias_std),
        ("outlier_probability_", verdict.probability),
        ("outlier_mask_", verdict.flagged),
    ):
        if hasattr(estimator, name):
            column[rows] = getattr(estimator, name)
    return verdict


def judge_new(estimator: BaseGP, readings: Readings, prediction: Prediction, rows: Mask | None = None) -> Verdict:
    """Readings (those of some rows) that the model has not seen, against what it predicts for them."""
    n = len(readings.y)
    here = np.isfinite(readings.y) & readings.complete & (True if rows is None else rows)
    verdict = Verdict(np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, dtype=bool))
    if not hasattr(estimator, "outlier_mask_") or not here.any():
        return verdict
    off = readings.y - prediction.mean
    if hasattr(estimator, "outlier_probability"):
        verdict.probability[here] = estimator.outlier_probability(frame(readings, here), readings.y[here])
        verdict.flagged[here] = verdict.probability[here] > 0.5
        verdict.bias[here] = (verdict.probability * off)[here]
        verdict.bias_std[here] = prediction.std[here]
    else:
        far = np.abs(off) > OUTLIER_SIZE * np.sqrt(prediction.std**2 + estimator.noise_variance_)
        verdict.flagged[here] = far[here]
        verdict.bias[here] = np.where(far, off, 0.0)[here]
    return verdict


def residuals(fitted: Fitted, readings: Readings, flagged: Mask) -> Array:
    """Distance of each unflagged reading from the prediction without it, in that prediction's standard deviations.

    All in the units in which f is Gaussian.
    """
    out = np.full(len(readings.y), np.nan)
    if len(fitted.test_rows):
        out[fitted.test_rows] = _unseen(fitted, readings, fitted.test_rows)
    else:
        out[fitted.fit_rows] = _without_itself(fitted, readings)
    out[flagged] = np.nan
    return out


def _unseen(fitted: Fitted, readings: Readings, rows: Rows) -> Array:
    """Of readings that were not in the fit."""
    transform, y = fitted.estimator.response_, readings.y[rows]
    quantiles = fitted.estimator.predict_quantiles(frame(readings, rows), LEVELS, include_noise=True)
    low, median, high = transform.forward(quantiles).T
    return np.asarray((transform.forward(y) - median) * (2.0 * NORMAL_95) / np.maximum(high - low, 1e-300))


def _without_itself(fitted: Fitted, readings: Readings) -> Array:
    """Of readings in the fit, each left out, at the parameters that were fitted with it."""
    estimator = fitted.estimator
    mean, variance = estimator._posterior.leave_one_out()
    z = estimator._scaling.forward(readings.y[fitted.fit_rows])
    return np.asarray((z - mean) / np.sqrt(variance + estimator._scaled_noise_variance))


def held_out_scores(fitted: Fitted, readings: Readings, flagged: Mask) -> dict[str, Any]:
    """How well the held-out readings were predicted; those flagged are left out of the coverage."""
    rows = fitted.test_rows
    if len(rows) == 0:
        return {}
    X, y = frame(readings, rows), readings.y[rows]
    low, median, high = fitted.estimator.predict_quantiles(X, LEVELS, include_noise=True).T
    clean = ~flagged[rows]
    inside = (y >= low) & (y <= high)
    return {
        "readings": len(rows),
        "median_absolute_error": float(np.median(np.abs(y - median))),
        "coverage_95_of_unflagged": float(np.mean(inside[clean])) if clean.any() else None,
        "mean_log_density": float(np.mean(fitted.estimator.log_predictive_density(X, y))),
        "flagged": int((~clean).sum()),
    }


def agreement(readings: Readings, flagged: Mask) -> dict[str, Any]:
    """Against the flags in the table, where there are any."""
    if readings.flags is None:
        return {}
    theirs, ours = readings.flags[readings.kept], flagged[readings.kept]
    return {
        "flagged_in_table": int(theirs.sum()),
        "flagged_in_both": int((theirs & ours).sum()),
        "precision": metrics.precision(theirs, ours),
        "recall": metrics.recall(theirs, ours),
    }


def lengths(estimator: BaseGP, prediction: Prediction, rows: Rows) -> list[float]:
    """Over what each input the truth changes as much as it does among the readings.

    That is the length-scale where the kernel's variance is that of f. A rough kernel often has a larger variance and
    longer length-scales, which no reading bears out.
    """
    kernel = estimator.kernel_
    scales: Array = np.atleast_1d(np.asarray(getattr(kernel, "length_scale"), dtype=np.float64))  # noqa: B009
    origin = np.zeros((1, len(scales)))
    variance = float(kernel.diag(origin)[0])
    seen = float(np.var(estimator.response_.forward(prediction.mean[rows])))
    wanted = min(seen / variance, 1.0) * (1.0 - math.exp(-1.0))
    found = []
    for j, scale in enumerate(scales):
        steps = scale * np.logspace(-5.0, 1.0, 400)
        points = np.zeros((len(steps), len(scales)))
        points[:, j] = steps
        change = 1.0 - kernel(points, origin)[:, 0] / variance
        found.append(float(np.interp(wanted, change, steps)))
    return found
