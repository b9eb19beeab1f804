"""One fit and its scores."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from biasgp import metrics
from biasgp._typing import Array, Mask
from biasgp.study.methods import Method, Setting, takes

SCORES = ("mse", "mse_f", "nlpd", "nlpd_exact", "coverage95", "crps", "precision", "recall", "fit_s", "predict_s")


@dataclass(frozen=True)
class Trial:
    """Training readings, which of them are outliers, and test readings; f_test is None where nobody knows it."""

    X: Array
    y: Array
    is_outlier: Mask
    X_test: Array
    y_test: Array
    f_test: Array | None


@dataclass(frozen=True)
class FittedMethod:
    """A fitted estimator and how long that took, in seconds."""

    model: Any
    seconds: float


def fit(method: Method, setting: Setting, problem: Trial) -> FittedMethod:
    """Fit on the training readings. Warnings are dropped: rows say what they would in their message."""
    keep = ~problem.is_outlier if method.knows_outliers else np.ones(len(problem.y), dtype=bool)
    X, y = problem.X[keep], problem.y[keep]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = method.make(setting).fit(X, y)
        return FittedMethod(model, time.perf_counter() - start)


def readings(model: Any, X: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the next reading, if it is no outlier."""
    extra = {"include_noise": True} if takes(model.predict, "include_noise") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, std = model.predict(X, return_std=True, **extra)
    return np.asarray(mean, dtype=float), np.asarray(std, dtype=float)


def score(method: Method, fitted: FittedMethod, problem: Trial) -> dict[str, Any]:
    """All of SCORES, and "message" with what the fit itself doubts."""
    model, y = fitted.model, problem.y_test
    start = time.perf_counter()
    mean, std = readings(model, problem.X_test)
    predict_s = time.perf_counter() - start
    if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(std))):
        raise ValueError("a prediction is not finite")
    nlpd = metrics.nlpd(y, mean, std)
    exact = getattr(model, "log_predictive_density", None)
    precision, recall = _detection(method, model, problem)
    return {
        "mse": metrics.mse(y, mean),
        "mse_f": np.nan if problem.f_test is None else metrics.mse(problem.f_test, mean),
        "nlpd": nlpd,
        "nlpd_exact": nlpd if exact is None else float(-np.mean(exact(problem.X_test, y))),
        "coverage95": _coverage(model, problem, mean, std),
        "crps": metrics.crps(y, mean, std),
        "precision": precision,
        "recall": recall,
        "fit_s": round(fitted.seconds, 6),
        "predict_s": round(predict_s, 6),
        "message": doubts(model),
    }


def _coverage(model: Any, problem: Trial, mean: Array, std: Array) -> float:
    if not hasattr(model, "predict_quantiles"):
        return metrics.coverage(problem.y_test, mean, std)
    # Quantiles are exact under a transform of the response, where mean ± 1.96 std is not.
    low, high = model.predict_quantiles(problem.X_test, [0.025, 0.975], include_noise=True).T
    return float(np.mean((problem.y_test >= low) & (problem.y_test <= high)))


def _detection(method: Method, model: Any, problem: Trial) -> tuple[float, float]:
    mask = getattr(model, "outlier_mask_", None)
    if mask is None or method.knows_outliers:
        return np.nan, np.nan
    return metrics.precision(problem.is_outlier, mask), metrics.recall(problem.is_outlier, mask)


def doubts(model: Any) -> str:
    """What a fit says against itself, in one line."""
    found = [str(text) for text in getattr(model, "diagnosis_", ())]
    if getattr(model, "converged_", True) is False and not found:
        used = getattr(model, "inference_", "")
        found.append("did not converge" + (f"; the fit rests on {used}" if used else ""))
    return " ".join(found)
