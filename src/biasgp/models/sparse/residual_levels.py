"""What the distribution of residuals alone says of outliers: two levels, or noise of two scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit

from biasgp._typing import Array, Mask

NORMAL_QUARTER = 0.3186
"""Below it are a quarter of the absolute values of a standard normal."""


def best_cut(values: Array, least: int) -> int | None:
    """Where to cut sorted values in two so that the sum of squares within both parts is the least; None if too few.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.models.sparse.residual_levels import best_cut
    >>> best_cut(np.array([0.0, 0.1, 0.3, 5.0, 5.2]), 2)
    3
    """
    n = len(values)
    if n < 2 * least:
        return None
    cuts = np.arange(least, n - least + 1)
    centred = values - values.mean()
    below = np.cumsum(centred)[cuts - 1]
    # Σ(v − v̄)² within falls by what the two means explain; both sums of centred values are equal but for their sign.
    return int(cuts[np.argmax(below**2 * (1.0 / cuts + 1.0 / (n - cuts)))])


@dataclass(frozen=True)
class TwoScales:
    """A mixture (1 − share)·N(0, narrow) + share·N(0, wide), and which values are rather of the wide part.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.models.sparse.residual_levels import TwoScales
    >>> found = TwoScales.of(np.array([-0.1, 0.2, 0.0, 0.1, -0.2, 0.1, -0.1, 4.0, 0.2, -6.0]))
    >>> np.flatnonzero(found.wide_ones).tolist()
    [7, 9]
    """

    narrow: float
    wide: float
    share: float
    wide_ones: Mask

    @classmethod
    def of(cls, values: Array, least_variance: float = 1e-6, tolerance: float = 1e-3, max_steps: int = 500) -> Self:
        """By maximum likelihood (EM, until a step gains less than the tolerance in nats).

        A spread by the median would count many outliers as noise; this begins with that of the smallest values.
        """
        squares = values**2
        narrow = max((float(np.quantile(np.abs(values), 0.25)) / NORMAL_QUARTER) ** 2, least_variance)
        wide, share, before = max(2.0 * float(squares.mean()), 4.0 * narrow), 0.5, -np.inf
        for _ in range(max_steps):
            log_narrow = np.log1p(-share) - 0.5 * (np.log(narrow) + squares / narrow)
            log_wide = np.log(share) - 0.5 * (np.log(wide) + squares / wide)
            likelihood, is_wide = float(np.logaddexp(log_narrow, log_wide).sum()), expit(log_wide - log_narrow)
            if likelihood < before + tolerance:
                break
            before = likelihood
            share = float(np.clip(is_wide.mean(), 1e-3, 1.0 - 1e-3))
            narrow = max(float((1.0 - is_wide) @ squares) / max(float((1.0 - is_wide).sum()), 1.0), least_variance)
            wide = max(float(is_wide @ squares) / max(float(is_wide.sum()), 1e-3), narrow)
        return cls(narrow, wide, share, is_wide > 0.5)
