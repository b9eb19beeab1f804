"""A model that was loaded has to show that it can predict, before it is used."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.draws import DrawsPosterior
from biasgp.covariance.markov import MarkovPosterior
from biasgp.covariance.posterior import AveragedPosterior, DensePosterior, MixturePosterior, PartialPosterior
from biasgp.covariance.vecchia_posterior import VecchiaPosterior
from biasgp.estimators.base import BaseGP
from biasgp.estimators.categories import CategoryColumn
from biasgp.estimators.frames import LIBRARIES, Given
from biasgp.estimators.times import CLOCKS, TimeColumn
from biasgp.models.student_t import SitePosterior
from biasgp.persistence.archive import ModelFileError

WHOLE = (DensePosterior, AveragedPosterior, VecchiaPosterior, MarkovPosterior)
POSTERIORS = (*WHOLE, MixturePosterior, PartialPosterior, DrawsPosterior)
LARGEST = 1e150
"""Of what is squared in a prediction; y is scaled to 1 in it. Inputs have any unit, and known variances any size."""
ANY_SIZE = ("X", "noise", "noises")
FARTHEST_ORIGIN = 2**62
"""Seconds from 1970 to an origin of times, so that differences from it fit into 64 bits."""
MISMATCH = "is damaged or forged: its parts do not belong together. Fit again."


def try_model(estimator: BaseGP) -> None:
    """Refuse a model whose arrays do not fit together, or that cannot predict at some of its own readings."""
    posterior: Any = estimator._posterior
    if not isinstance(posterior, POSTERIORS) or not _numbers_are_sound(posterior) or not _shapes_fit(posterior):
        raise ModelFileError(MISMATCH)
    width = posterior.X.shape[1]
    names = getattr(estimator, "feature_names_in_", None)
    named = names is None or (np.shape(names) == (width,) and all(isinstance(name, str) for name in names))
    times = getattr(estimator, "time_columns_", ())
    timed = isinstance(times, tuple) and all(_is_sound(time, width) for time in times)
    categories = getattr(estimator, "category_columns_", ())
    labelled = isinstance(categories, tuple) and all(_is_category(column, width) for column in categories)
    if estimator.n_features_in_ != width or not named or not timed or not labelled:
        raise ModelFileError(MISMATCH)
    if not _others_fit(estimator, _readings_of(posterior)):
        raise ModelFileError(MISMATCH)
    if not _is_given(getattr(estimator, "_given", None), posterior):
        raise ModelFileError(MISMATCH)
    if {column.index for column in categories} != set(posterior.kernel.category_columns):
        raise ModelFileError(MISMATCH)
    X: Any = posterior.X[[0, -1]]
    with np.errstate(over="raise", divide="raise", invalid="raise"):  # no fit has such readings
        mean = posterior.mean(X)
    with np.errstate(all="ignore"):
        if isinstance(posterior, DrawsPosterior):  # a variance would take a factorisation per draw
            results = [mean, *estimator._scaling.moments(mean, np.full(2, estimator._scaled_noise_variance))]
        else:
            plain = copy(estimator)
            plain.time_columns_ = plain.category_columns_ = ()  # X has them as seconds and codes already
            if names is not None:  # X is an array here
                del plain.feature_names_in_
            results = _predictions(plain, X)
    if not all(np.shape(values) == (2,) and np.isfinite(values).all() for values in results):
        raise ModelFileError("is damaged or forged: its predictions are not numbers. Fit again.")


def _is_sound(time: Any, width: int) -> bool:
    whole = isinstance(time, TimeColumn) and type(time.index) is int and type(time.origin_seconds) is int
    return whole and 0 <= time.index < width and time.clock in CLOCKS and abs(time.origin_seconds) < FARTHEST_ORIGIN


def _is_category(column: Any, width: int) -> bool:
    if not isinstance(column, CategoryColumn) or type(column.index) is not int or not 0 <= column.index < width:
        return False
    labels, reference = column.labels, column.reference
    texts = isinstance(labels, tuple) and len(labels) > 0 and all(type(label) is str for label in labels)
    return texts and len(set(labels)) == len(labels) and (reference is None or reference in labels)


def _others_fit(estimator: BaseGP, n: int) -> bool:
    """Whether the fits that predictions are averaged over are of the same kind and readings, and each a sound one."""
    others = estimator._others
    if not isinstance(others, tuple) or not all(isinstance(each, tuple) and len(each) == 2 for each in others):
        return False
    for weight, other in others:
        if type(weight) is not float or not 0.0 < weight < 1.0 or type(other) is not type(estimator) or other._others:
            return False
        try_model(other)
        if other.n_features_in_ != estimator.n_features_in_ or _readings_of(other._posterior) != n:
            return False
    return sum(weight for weight, _ in others) < 1.0


def _is_given(given: Any, posterior: Any) -> bool:
    """Whether these are the readings of a posterior and their known variances; earlier versions have none."""
    if given is None:
        return True
    if not isinstance(given, Given) or given.library not in LIBRARIES:
        return False
    n = _readings_of(posterior)
    arrays = [given.y] if given.known is None else [given.y, given.known]
    return all(_is_array(values, 1) and len(values) == n and bool(np.isfinite(values).all()) for values in arrays)


def _predictions(estimator: BaseGP, X: Any) -> list[Array]:
    mean, std = estimator.predict(X, return_std=True, include_noise=True)
    results = [mean, std, estimator.predict_quantiles(X, [0.5])[:, 0], estimator.log_predictive_density(X, mean)]
    if hasattr(estimator, "outlier_probability"):
        results.append(estimator.outlier_probability(X, mean))
    return results


def _numbers_are_sound(part: Any) -> bool:
    """Whether the arrays of a posterior, and of what it is made of, are finite doubles that can be squared."""
    for each in fields(part):
        value = getattr(part, each.name)
        parts = value if isinstance(value, tuple) else (value,)
        if not all(_numbers_are_sound(item) for item in parts if is_dataclass(item)):
            return False
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            limit = np.finfo(np.float64).max if each.name in ANY_SIZE else LARGEST
            if value.dtype != np.float64 or not (np.abs(value) <= limit).all():
                return False
    return True


def _shapes_fit(posterior: Any) -> bool:
    """Whether each array has the size that the readings give it: compiled code does not ask."""
    if isinstance(posterior, PartialPosterior):
        kept, whole = posterior.kept, posterior.posterior
        fine = isinstance(whole, (*WHOLE, MixturePosterior)) and isinstance(kept, np.ndarray)
        fine = fine and kept.dtype == bool and kept.ndim == 1
        return fine and _shapes_fit(whole) and int(kept.sum()) == _readings(whole)
    if isinstance(posterior, MixturePosterior):
        weights, parts = posterior.weights, posterior.parts
        fine = isinstance(weights, tuple) and isinstance(parts, tuple) and 1 <= len(weights) == len(parts)
        fine = fine and all(type(weight) is float and 0.0 <= weight <= 1.0 for weight in weights)
        fine = fine and all(isinstance(part, WHOLE) and _shapes_fit(part) for part in parts)
        return fine and len({part.X.shape for part in parts}) == 1
    if not _is_array(posterior.X, 2) or not posterior.X.size:
        return False
    n = len(posterior.X)
    if isinstance(posterior, VecchiaPosterior):
        each = [posterior.residual, posterior.noise]
        fine = type(posterior.neighbours) is int and 1 <= posterior.neighbours <= n
    elif isinstance(posterior, MarkovPosterior):
        each = [posterior.residual, posterior.noise]
        fine = posterior.kernel.state_space(posterior.X.shape[1]) is not None and bool((posterior.noise > 0.0).all())
    elif isinstance(posterior, DrawsPosterior):
        rows = [posterior.thetas, posterior.noises, posterior.alphas]
        if not all(_is_array(draws, 2) for draws in rows):
            return False
        each = [posterior.y, *posterior.noises, *posterior.alphas]
        fine = 1 <= len(posterior.thetas) == len(posterior.noises) == len(posterior.alphas)
        fine = fine and bool((posterior.noises > 0.0).all())
    else:
        each = [posterior.alpha]
        averaged = isinstance(posterior, AveragedPosterior)
        fine = posterior.precision.shape == (n, n) if averaged else _is_factor(posterior.factor.lower, n)
        if isinstance(posterior, SitePosterior):
            signed, sites = posterior.signed, len(posterior.signed.minus)
            second = np.empty((0, 0)) if signed.second is None else signed.second.lower
            fine = fine and signed.precision.shape == (n,) and signed.G.shape == (n, sites)
            fine = fine and _is_factor(second, sites)
    own = getattr(posterior, "kept", None)
    fine = fine and (own is None or (isinstance(own, np.ndarray) and own.dtype == bool and own.ndim == 1))
    fine = fine and (own is None or int(own.sum()) == n)
    return fine and all(_is_array(values, 1) and len(values) == n for values in each)


def _readings_of(posterior: Any) -> int:
    return _readings(posterior.parts[0] if isinstance(posterior, MixturePosterior) else posterior)


def _readings(posterior: Any) -> int:
    """Of how many readings it was asked what they say: those that were replaced are not in X."""
    kept = getattr(posterior, "kept", None)
    return len(posterior.X) if kept is None else len(kept)


def _is_factor(lower: Array, n: int) -> bool:
    return lower.shape == (n, n) and bool((lower.diagonal() > 0.0).all())


def _is_array(value: Any, dimensions: int) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == dimensions
