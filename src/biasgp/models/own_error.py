"""What each sensor adds to f on its own, where several share it: the part of the covariance that belongs to a label.

At a point without a label the kernel has its shared part only. So the posterior at the readings less that at the same
points without their labels is each sensor's own error, and the model's biases are what is left beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.protocol import Posterior
from biasgp.inputs import representative_rows
from biasgp.kernels import Kernel
from biasgp.models.episodes import STUCK
from biasgp.models.problem import Problem
from biasgp.models.sparse.search import SparseBiasFit
from biasgp.models.transform_choice import rough_fit
from biasgp.response import ScaledResponse

_BLOCK = 128
"""Readings whose joint covariance with f is computed at once."""
_TO_COMPARE = 3
"""Labels from which each may have a variance of its own."""
_TRIAL_ROWS = 400
"""Readings by which that is chosen."""
_NATS_PER_VARIANCE = 1.0
"""What a variance more must raise the log evidence by, as in Akaike's criterion. One too many makes f too certain: the
sensor whose variance comes out smallest is then taken for the truth."""


def with_chosen_variances(kernel: Kernel, X: Array, response: ScaledResponse, names: Sequence[str] | None) -> Kernel:
    """The kernel with one variance for the errors of all labels or one for each, where `Same` leaves it open."""
    one, each = (kernel.with_variances(each=choice) for choice in (False, True))
    rows = np.sort(representative_rows(X, response.y, min(len(X), _TRIAL_ROWS)))
    part = X[rows]
    bound = [choice.bind(part, names) for choice in (one, each)]
    more = len(bound[1].theta) - len(bound[0].theta)
    labels = max(len(np.unique(part[:, int(column)])) for column in bound[0].category_columns)
    if more == 0 or labels < _TO_COMPARE or response.scaling.constant:
        return one
    few = ScaledResponse(response.y[rows], response.scaling)
    fits = [rough_fit(part, few, choice, names) for choice in (one, each)]
    return each if fits[1].log_evidence - fits[0].log_evidence > _NATS_PER_VARIANCE * more else one


def with_own_errors(found: Any, problem: Problem, unlabelled: Array) -> Any:
    """A fit whose biases include each sensor's own error; `unlabelled` are the readings' points without their labels.

    A fit of a model without biases is returned as it is.
    """
    if not hasattr(found, "bias"):
        return found
    own = found.posterior.mean(problem.X) - found.posterior.mean(unlabelled)
    bias = found.bias + own
    if not isinstance(found, SparseBiasFit):
        return replace(found, bias=bias)
    own_variance, f_variance = _variances(found.posterior, problem.X, unlabelled)
    noise = found.noise_variance + problem.known
    # The bias is y − f − ε, whatever it is made of. Its parts are taken as independent up to what that allows.
    most = (np.sqrt(f_variance) + np.sqrt(noise)) ** 2
    variance = np.minimum(found.bias_variance + own_variance, most)
    stuck = [row for episode in found.episodes if episode.kind == STUCK for row in episode.rows]
    variance[stuck] = (f_variance + noise)[stuck]
    return replace(found, bias=bias, bias_variance=variance)


def _variances(posterior: Posterior, X: Array, unlabelled: Array) -> tuple[Array, Array]:
    """Of each reading's own error, and of f there."""
    own, f = np.empty(len(X)), np.empty(len(X))
    order = np.lexsort(unlabelled.T[::-1])  # neighbours share the readings that they are conditioned on
    for start in range(0, len(X), _BLOCK):
        rows = order[start : start + _BLOCK]
        k = len(rows)
        covariance = posterior.mean_and_covariance(np.vstack([X[rows], unlabelled[rows]]))[1]
        whole, shared = covariance.diagonal()[:k], covariance.diagonal()[k:]
        own[rows] = whole + shared - 2.0 * covariance[:k, k:].diagonal()
        f[rows] = shared
    return np.maximum(own, 0.0), np.maximum(f, 0.0)
