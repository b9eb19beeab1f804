"""How good a prediction is, and how good a list of outliers. Smaller is better for mse, nlpd and crps."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from biasgp._typing import Array

__all__ = ["coverage", "crps", "mse", "nlpd", "precision", "recall"]


def _same_length(**named: ArrayLike) -> list[Array]:
    arrays = {name: np.asarray(values, dtype=float).ravel() for name, values in named.items()}
    sizes = {name: len(values) for name, values in arrays.items()}
    if len(set(sizes.values())) > 1 or 0 in sizes.values():
        shown = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"The arrays must have the same length, at least 1: {shown}.")
    if "std" in arrays and not np.all(arrays["std"] > 0):
        raise ValueError("std must be positive; predict with include_noise=True to score noisy readings.")
    return list(arrays.values())


def mse(y: ArrayLike, mean: ArrayLike) -> float:
    """Mean squared error.

    Examples
    --------
    >>> from biasgp.metrics import mse
    >>> round(mse([1.0, 2.0, 3.0], [1.0, 2.0, 5.0]), 3)
    1.333
    """
    y, mean = _same_length(y=y, mean=mean)
    return float(np.mean((y - mean) ** 2))


def nlpd(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Mean negative log density of y under N(mean, std²).

    Examples
    --------
    >>> from biasgp.metrics import nlpd
    >>> round(nlpd([1.0, 2.0, 3.0], mean=[1.0, 2.0, 5.0], std=[1.0, 1.0, 2.0]), 3)
    1.317
    """
    y, mean, std = _same_length(y=y, mean=mean, std=std)
    return float(np.mean(0.5 * ((y - mean) / std) ** 2 + np.log(std)) + 0.5 * np.log(2.0 * np.pi))


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Mean continuous ranked probability score of N(mean, std²), in y's unit.

    Examples
    --------
    >>> from biasgp.metrics import crps
    >>> round(crps([1.0, 2.0, 3.0], mean=[1.0, 2.0, 5.0], std=[1.0, 1.0, 2.0]), 3)
    0.557
    """
    y, mean, std = _same_length(y=y, mean=mean, std=std)
    z = (y - mean) / std
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return float(np.mean(std * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))))


def coverage(y: ArrayLike, mean: ArrayLike, std: ArrayLike, level: float = 0.95) -> float:
    """Share of y inside the central interval of N(mean, std²) that should hold `level` of it.

    Examples
    --------
    >>> from biasgp.metrics import coverage
    >>> coverage([1.0, 2.0, 3.0, 9.0], mean=[1.0, 2.0, 4.0, 4.0], std=[1.0, 1.0, 1.0, 1.0])
    0.75
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level!r}.")
    y, mean, std = _same_length(y=y, mean=mean, std=std)
    return float(np.mean(np.abs(y - mean) <= ndtri(0.5 + 0.5 * level) * std))


def precision(is_outlier: ArrayLike, flagged: ArrayLike) -> float:
    """Share of the flagged readings that are outliers; 1 where none is flagged.

    Examples
    --------
    >>> from biasgp.metrics import precision
    >>> precision(is_outlier=[True, False, True, False], flagged=[True, True, False, False])
    0.5
    """
    truth, flags = _same_length(is_outlier=is_outlier, flagged=flagged)
    return float(truth[flags > 0].mean()) if np.any(flags > 0) else 1.0


def recall(is_outlier: ArrayLike, flagged: ArrayLike) -> float:
    """Share of the outliers that are flagged; 1 where there is none.

    Examples
    --------
    >>> from biasgp.metrics import recall
    >>> recall(is_outlier=[True, False, True, False], flagged=[True, False, True, True])
    1.0
    """
    truth, flags = _same_length(is_outlier=is_outlier, flagged=flagged)
    return float(flags[truth > 0].mean()) if np.any(truth > 0) else 1.0
