"""Kinds of outlier to try: slabs to start from, what they cost, and what the readings tell of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.models.support import Labels, Slab

MEAN_STD = 3.0
"""Prior standard deviation of a group's mean bias, in robust standard deviations of y; more where the residuals are."""
CONSTANT = 1e-4
"""The lowest variance of a group: its readings are as good as shifted by the same. In units of y's robust variance."""
MINORITY = 0.2
"""Outliers start as two groups, above and below, where at least this share of them is on either side."""


def first_slabs(residual: Array, far: Mask, noise_variance: float) -> list[tuple[Slab, Labels]]:
    """Slabs to start from, with their labels: one group, and one for each side where both have outliers."""
    mean_variance = max(MEAN_STD**2, float((residual**2).max()))

    def variance(group: Mask) -> float:
        return max(float(residual[group].var()), noise_variance) if group.sum() > 1 else 1.0

    up, down = far & (residual > 0), far & (residual < 0)
    starts = [(Slab((variance(far),), mean_variance), far.astype(np.intp))]
    if min(up.sum(), down.sum()) >= max(2.0, MINORITY * far.sum()):
        starts.append((Slab((variance(up), variance(down)), mean_variance), up + 2 * down.astype(np.intp)))
    return starts


def widened(slab: Slab, residual: Array, noise: Array, labels: Labels) -> Slab:
    """The slab with more readings than it was fitted to: those that joined a group may lie far from the others."""
    variances = list(slab.variances)
    for g in range(0 if slab.replaced else slab.n_groups):
        group = labels == g + 1
        if group.sum() > 1:
            variances[g] = max(variances[g], float(residual[group].var() - noise[group].mean()))
    return replace(slab, variances=tuple(variances))


def informed(x: Array, slab: Slab, labels: Labels) -> Array:
    """About what the readings tell of each log τ²: n of them ½n, less where the noise hides how they are spread."""
    counts = np.bincount(labels, minlength=slab.n_groups + 1)[1:]
    variances = np.array(slab.variances)
    return np.asarray(0.5 + 0.5 * counts * (variances / (variances + np.exp(x[-1]))) ** 2)


def replaced_slab(y: Array, mean_variance: float) -> Slab:
    """N(center, variance) of the replaced readings' values."""
    if len(y) < 2:
        return Slab((mean_variance,), mean_variance, replaced=True, center=float(y.mean()) if len(y) else 0.0)
    return Slab((float(y.var() + 1e-4),), mean_variance, replaced=True, center=float(y.mean()))


def is_constant(variance: float) -> bool:
    """Whether a group's variance is as low as can be, but for rounding."""
    return variance < 1.001 * CONSTANT


def occam(slab: Slab, labels: Labels) -> float:
    """What the slab's fitted parameters cost: ½ log(number of outliers) each (the group means are integrated out)."""
    n_out = int((labels > 0).sum())
    fitted = slab.n_groups + 1 if slab.replaced else sum(not is_constant(variance) for variance in slab.variances)
    return 0.5 * fitted * float(np.log1p(n_out))
