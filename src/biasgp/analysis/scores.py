"""Scores of held-out readings some of which may be outliers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from scipy.stats import sem

from biasgp._typing import Array, Mask
from biasgp.analysis.fitting import Rows, Settings
from biasgp.analysis.judging import LEVELS
from biasgp.data.columns import Readings
from biasgp.messages import FailedFitError
from biasgp.models.transform_choice import Weighted

TRIMMED = 0.1
"""Share of the readings that are left out of the trimmed scores: those that all methods miss most."""
RESAMPLES = 400
"""Of the bootstrap for the standard error of a median."""
FEWEST_PER_FOLD = 5


_Transforms = dict[int, tuple[Weighted, ...]]
"""Those of each fold, with their weights."""


@dataclass(frozen=True)
class _Held:
    """Each held-out reading under one method."""

    error: Array
    noise_density: Array
    density: Array
    inside: Mask
    flagged: float
    seconds: float


@dataclass(frozen=True)
class MethodScore:
    """A method's scores, each with its standard error."""

    method: str
    median_error: tuple[float, float] = (np.nan, np.nan)
    trimmed_nlpd: tuple[float, float] = (np.nan, np.nan)
    log_density: tuple[float, float] = (np.nan, np.nan)
    coverage: float = np.nan
    flagged: float = np.nan
    seconds: float = np.nan
    as_good_as_best: bool = False
    error: str = field(default="", compare=False)

    def cells(self) -> list[str]:
        """For the terminal."""
        if self.error:
            return [self.method, "failed", "", "", "", "", ""]
        scores = (self.median_error, self.trimmed_nlpd, self.log_density)
        shown = [f"{value:.3g} ± {error:.1g}" for value, error in scores]
        return [self.method, *shown, f"{self.coverage:.0%}", f"{self.flagged:.1%}", f"{self.seconds:.2g}"]

    def flat(self) -> dict[str, object]:
        """For a file."""
        columns: dict[str, object] = {"method": self.method}
        for name in ("median_error", "trimmed_nlpd", "log_density"):
            columns[name], columns[f"{name}_se"] = getattr(self, name)
        return columns | {
            "coverage_95": self.coverage,
            "flagged_share": self.flagged,
            "seconds_per_fit": self.seconds,
            "as_good_as_best": self.as_good_as_best,
            "error": self.error,
        }


def cross_validate(
    readings: Readings,
    settings: list[Settings],
    folds: int,
    announce: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> list[MethodScore]:
    """All methods on the same folds; best log density first."""
    rows = settings[0].split(readings).fit
    folds = min(folds, len(rows) // FEWEST_PER_FOLD)
    if folds < 2:
        fewest = 2 * FEWEST_PER_FOLD
        raise FailedFitError(f"{len(rows)} readings are too few to hold some out: a comparison needs {fewest}.")
    parts = np.array_split(np.random.default_rng(settings[0].seed).permutation(rows), folds)
    held: dict[str, _Held] = {}
    transforms: _Transforms = {}
    errors: dict[str, str] = {}
    for setting in settings:
        with announce(f"Cross-validating {setting.method}"):
            try:
                held[setting.method] = _held_out(readings, setting, parts, transforms)
            except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
                errors[setting.method] = " ".join(str(error).split())
    if not held:
        raise FailedFitError("Every method failed: " + next(iter(errors.values())))
    scored = _score(held, np.random.default_rng(settings[0].seed))
    return scored + [MethodScore(method, error=text) for method, text in errors.items()]


def _held_out(readings: Readings, settings: Settings, parts: list[Rows], transforms: _Transforms) -> _Held:
    """Every part predicted from the others. The transform of a fold is the same for all methods, so it is kept."""
    folds, flagged, seconds = [], [], 0.0
    for i, test in enumerate(parts):
        train = np.concatenate([part for j, part in enumerate(parts) if j != i])
        estimator = settings.estimator()
        estimator._given_transforms = transforms.get(i, ())
        estimator.set_params(kernel=settings.kernel_for(readings.features))
        began = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(readings.frame(train), readings.y[train])
        seconds += perf_counter() - began
        transforms[i] = estimator._transforms
        X, y = readings.frame(test), readings.y[test]
        low, median, high = estimator.predict_quantiles(X, LEVELS, include_noise=True).T
        densities = estimator._gaussian_log_density(X, y), estimator.log_predictive_density(X, y)
        folds.append((np.abs(y - median), *densities, (y >= low) & (y <= high)))
        flagged.append(float(np.mean(getattr(estimator, "outlier_mask_", np.zeros(1)))))
    error, noise_density, density, inside = map(np.concatenate, zip(*folds, strict=True))
    return _Held(error, noise_density, density, inside, float(np.mean(flagged)), seconds / len(parts))


def _score(held: dict[str, _Held], rng: np.random.Generator) -> list[MethodScore]:
    # The same readings are trimmed for all methods, so that none gains by missing more.
    typical = np.median([each.error for each in held.values()], axis=0)
    n = len(typical)
    kept = np.argsort(typical, kind="stable")[: n - int(TRIMMED * n)]
    picks = rng.integers(0, n, (RESAMPLES, n))
    best = max((each.density for each in held.values()), key=np.mean)
    rows = []
    for name, h in held.items():
        behind = best - h.density
        medians = np.median(h.error[picks], axis=1)
        rows.append(
            MethodScore(
                name,
                (float(np.median(h.error)), float(medians.std())),
                (-float(h.noise_density[kept].mean()), float(sem(h.noise_density[kept]))),
                (float(h.density.mean()), float(sem(h.density))),
                float(h.inside[kept].mean()),
                h.flagged,
                h.seconds,
                bool(behind.mean() <= 2.0 * sem(behind)),
            )
        )
    return sorted(rows, key=lambda row: -row.log_density[0])
