"""One line for those who want nothing but the cleaned readings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from biasgp.estimators.base import BaseGP
from biasgp.estimators.frames import as_inputs, in_the_form_of
from biasgp.estimators.sparse_bias import SparseBiasGP


def clean(X: ArrayLike, y: ArrayLike, *, estimator: BaseGP | None = None) -> Any:
    """Readings less their estimated bias: y − δ, where y = f(x) + δ + ε.

    A reading that is good beyond doubt comes back as it is, noise included: nothing is smoothed. From an outlier, and
    from a reading inside a lasting fault, the estimated bias is taken away; from one that may or may not be an outlier,
    its bias times the probability of that. For the smooth curve with its uncertainty and the probabilities, fit an
    estimator instead: its `to_frame()` has all of them, one row per reading.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or (n_samples,)
        Inputs, as in SparseBiasGP.fit; a single one may be a series, an index of pandas, or a list.
    y : array-like of shape (n_samples,)
        Readings.
    estimator : estimator of biasgp, optional
        The model; it is not changed. `SparseBiasGP()` when left out.

    Returns
    -------
    series or ndarray of shape (n_samples,)
        A pandas series with the index and the name of y, a polars series with its name, or an array, as y is.

    Examples
    --------
    >>> import biasgp
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 8)
    >>> cleaned = biasgp.clean(data.X, data.y)
    >>> float(abs(data.y - data.f).max()) > 5.0 > 2.0 > float(abs(cleaned - data.f).max())
    True
    """
    model = (SparseBiasGP() if estimator is None else clone(estimator)).fit(as_inputs(X), y)
    if not hasattr(model, "bias_"):
        raise ValueError(f"{type(model).__name__} estimates no bias to take away. Use SparseBiasGP.")
    return in_the_form_of(y, np.asarray(model._given.y - model.bias_))
