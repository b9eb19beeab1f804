"""What a sparse-bias fit has to say against itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.messages import (
    AmbiguousOutliersWarning,
    BoundWarning,
    ClusteredOutliersWarning,
    HeavyTailWarning,
    OverflaggingWarning,
    UntrustworthyFitWarning,
)

TAIL_SIGMAS = 5.0
"""Skewness or kurtosis this many standard errors from the normal's is not noise."""
TOO_MANY, MANY, NOISELESS = 0.45, 0.1, 1e-4
"""More than the first share flagged is suspect; more than the second too, if the noise variance left is below the third
(in units of y's robust variance)."""
ENOUGH_TO_TELL = 5000
CLUSTER_SIGMAS, CLUSTER_MIN = 4.0, 5


@dataclass(frozen=True)
class Finding:
    """A reason for doubt: the warning's type, what was seen, and what to try."""

    category: type[UntrustworthyFitWarning]
    text: str


def looks_like_noise(residuals: Array, by_skewness: float, by_kurtosis: float) -> bool:
    """Whether skewness and kurtosis of residuals are within so many standard errors of a normal sample's."""
    skewed, tailed = _departures(*_shape(residuals))
    return skewed <= by_skewness and tailed <= by_kurtosis


def findings(
    residuals: Array, flagged: Mask, together: Mask, noise: float, bounded: list[str], n_rivals: int
) -> list[Finding]:
    """From the clean readings' standardised residuals, whether each flagged one's nearest neighbour is flagged, and
    the names of the parameters that sit on their lowest value.
    """
    found = [_heavy_tail(residuals), _overflagging(flagged, noise), _clusters(flagged, together)]
    if bounded:
        found.append(
            Finding(
                BoundWarning,
                f"{' and '.join(bounded)} sits on the lowest value that the data allow: f may follow single readings. "
                "Try another kernel, or fewer inputs.",
            )
        )
    if n_rivals:
        found.append(
            Finding(
                AmbiguousOutliersWarning,
                "Another set of outliers explains the readings almost as well. Look at outlier_probability_ and "
                "collect more readings where it matters.",
            )
        )
    return [finding for finding in found if finding is not None]


def _shape(residuals: Array) -> tuple[float, float, int]:
    """Skewness, kurtosis, and how many residuals they rest on; of noise where there are too few to tell."""
    # Among very many readings a departure too small to matter would show.
    n = min(len(residuals), ENOUGH_TO_TELL)
    if n < 20 or residuals.std() == 0.0:
        return 0.0, 3.0, n
    centred = (residuals - residuals.mean()) / residuals.std()
    return float(np.mean(centred**3)), float(np.mean(centred**4)), n


def _departures(skewness: float, kurtosis: float, n: int) -> tuple[float, float]:
    """Of both from noise's, in standard errors."""
    return float(abs(skewness) * np.sqrt(n / 6.0)), float(abs(kurtosis - 3.0) * np.sqrt(n / 24.0))


def _heavy_tail(residuals: Array) -> Finding | None:
    skewness, kurtosis, n = _shape(residuals)
    if max(_departures(skewness, kurtosis, n)) <= TAIL_SIGMAS:
        return None
    return Finding(
        HeavyTailWarning,
        f"The readings taken for clean do not look like noise (skewness {skewness:.1f} and kurtosis {kurtosis:.1f}, "
        f"noise has 0 and 3; the farthest is {np.abs(residuals).max():.1f} standard deviations out). Outliers may hide "
        "among them: compare with ConstantBiasGP, or try response='auto'.",
    )


def _overflagging(flagged: Mask, noise: float) -> Finding | None:
    share = float(np.mean(flagged))
    if share <= TOO_MANY and (share <= MANY or noise > NOISELESS):
        return None
    return Finding(
        OverflaggingWarning,
        f"{share:.0%} of the readings are flagged, and the noise left is {np.sqrt(noise):.2g} robust standard "
        "deviations of y. Peaks of the signal may have been taken for outliers: try response='auto'.",
    )


def _clusters(flagged: Mask, nearest_flagged: Mask) -> Finding | None:
    """Whether a flagged reading's nearest neighbour is flagged more often than by chance."""
    n_out, n = int(flagged.sum()), len(flagged)
    if n_out < CLUSTER_MIN:
        return None
    together = float(np.mean(nearest_flagged))
    chance = (n_out - 1) / (n - 1)
    if together <= chance + CLUSTER_SIGMAS * np.sqrt(chance * (1.0 - chance) / n_out):
        return None
    return Finding(
        ClusteredOutliersWarning,
        f"{together:.0%} of the {n_out} flagged readings have a flagged one for nearest neighbour ({chance:.0%} by "
        "chance): a fault that lasted, or a true feature of the signal. Look at them before you drop them.",
    )
