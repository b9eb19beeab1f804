"""One fit and its scores."""

from __future__ import annotations

import inspect
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from biasgp import metrics
from biasgp._typing import Array, Mask
from biasgp.study.methods import Method, Setting

SCORES = ("mse", "mse_f", "nlpd", "nlpd_exact", "coverage95", "crps", "precision", "recall", "fit_s", "predict_s")
LEVEL = 0.95
"""Of every interval in the studies."""
TAILS = (0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL)
"""The quantiles that bound a central interval of that level."""
TIME_DIGITS = 6
"""Decimals of a time in seconds: microseconds."""
CURVE_DIGITS = 5
"""Significant digits of a curve, enough to draw it."""


@dataclass(frozen=True)
class Trial:
    """Training readings, which of them are outliers, and test readings; f_test is None where it is unknown."""

    X: Array
    y: Array
    is_outlier: Mask
    X_test: Array
    y_test: Array
    f_test: Array | None

    def fit_and_score(self, method: Method, setting: Setting) -> tuple[Any, dict[str, Any]]:
        """The fitted estimator, and those of SCORES that it allows with a "message" of the fit's own doubts."""
        keep = ~self.is_outlier if method.knows_outliers else np.ones(len(self.y), dtype=bool)
        with warnings.catch_warnings():  # the message of the row says what they would
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            model = method.make(setting).fit(self.X[keep], self.y[keep])
            seconds = time.perf_counter() - start
        row: dict[str, Any] = {"fit_s": round(seconds, TIME_DIGITS), "message": _doubts(model)}
        mask = getattr(model, "outlier_mask_", None)
        if mask is not None and not method.knows_outliers:
            row["precision"] = metrics.precision(self.is_outlier, mask)
            row["recall"] = metrics.recall(self.is_outlier, mask)
        return model, row | _prediction_scores(model, self) if len(self.y_test) else row


def predict_readings(model: Any, X: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the next reading, if it is no outlier."""
    parameters: Any = ()
    with suppress(TypeError, ValueError):  # compiled functions may have no signature
        parameters = inspect.signature(model.predict).parameters
    extra = {"include_noise": True} if "include_noise" in parameters else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, std = model.predict(X, return_std=True, **extra)
    return np.asarray(mean, dtype=float), np.asarray(std, dtype=float)


def drawable(**arrays: Array | Mask | None) -> dict[str, Any]:
    """The arrays as lists for a figure: a mask as 0 and 1, numbers with CURVE_DIGITS."""

    def listed(values: Array | Mask) -> list[float]:
        if values.dtype == bool:
            return [int(value) for value in values]
        return [float(f"{value:.{CURVE_DIGITS}g}") for value in values]

    return {name: None if values is None else listed(values) for name, values in arrays.items()}


def _prediction_scores(model: Any, trial: Trial) -> dict[str, float]:
    y = trial.y_test
    start = time.perf_counter()
    mean, std = predict_readings(model, trial.X_test)
    seconds = time.perf_counter() - start
    if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(std))):
        raise ValueError("a prediction is not finite")
    nlpd = metrics.nlpd(y, mean, std)
    exact = getattr(model, "log_predictive_density", None)
    if hasattr(model, "predict_quantiles"):
        # Quantiles are exact under a transform of the response, where mean ± 1.96 std is not.
        low, high = model.predict_quantiles(trial.X_test, list(TAILS), include_noise=True).T
        coverage = float(np.mean((y >= low) & (y <= high)))
    else:
        coverage = metrics.coverage(y, mean, std, LEVEL)
    return {
        "mse": metrics.mse(y, mean),
        "mse_f": np.nan if trial.f_test is None else metrics.mse(trial.f_test, mean),
        "nlpd": nlpd,
        "nlpd_exact": nlpd if exact is None else float(-np.mean(exact(trial.X_test, y))),
        "coverage95": coverage,
        "crps": metrics.crps(y, mean, std),
        "predict_s": round(seconds, TIME_DIGITS),
    }


def _doubts(model: Any) -> str:
    """What a fit reports against itself, in one line."""
    found = [str(text) for text in getattr(model, "diagnosis_", ())]
    if getattr(model, "converged_", True) is False and not found:
        used = getattr(model, "inference_", "")
        found.append("did not converge" + (f"; the fit rests on {used}" if used else ""))
    return " ".join(found)
