"""What a fit found to say against itself: findings, which become warnings, `diagnosis_` and words on a page."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from biasgp._typing import Array, Mask
from biasgp.messages import WARNINGS

REMEDIES = {
    "another kernel": ("try another kernel, or fewer inputs", "try another --kernel, or fewer --features"),
    "compare constant bias": ("compare with ConstantBiasGP", "compare with --method cob"),
    "compare sparse bias": ("compare with SparseBiasGP", "compare with --method sparse"),
    "expectation propagation": ("use inference='ep'", "use another --method"),
    "fix nu": ("fix nu at 4 or more, where it is more stable", "use another --method"),
    "judge one good": (
        "judge one of them good (verdict=) if they are right",
        "judge one of them good (--verdicts) if they are right",
    ),
    "less smooth kernel": (
        "use a less smooth kernel (Matern52, Matern32)",
        "use a less smooth --kernel (matern52 or matern32)",
    ),
    "look at flagged": ("look at them before you drop them",) * 2,
    "look at verdicts": ("look at these verdicts again",) * 2,
    "look at probabilities": (
        "look at outlier_probability_ and collect more readings where it matters",
        "look at the outlier probabilities and collect more readings where it matters",
    ),
    "maximum likelihood": ("do not rely on this fit; use tuning='ml'", "do not rely on this fit; use another --method"),
    "more draws": ("raise draws and tune, fix nu", "use another --method"),
    "more iterations": ("raise max_iter", "try another --kernel"),
    "more time": ("raise max_time", "raise --max-time"),
    "name events": (
        "name the times at which the sensor was serviced (events=), if there were any",
        "name the times at which the sensor was serviced (--events), if there were any",
    ),
    "right column": ("check that y is the column you meant", "check that --target is the column you meant"),
    "transform": ("try response='auto'", "try --response auto"),
}
"""What can be done about a finding: in the words of a Python user, and of a user of the command."""


@dataclass(frozen=True)
class Finding:
    """Something that a reader of a fit should know. `str()` tells it to a Python user.

    Attributes
    ----------
    code : str
        What it is: a key of `biasgp.messages.WARNINGS`, which has the type of its warning, or that of a note.
    evidence : str
        What was seen, as sentences without words of Python or of the command.
    remedy : tuple of str
        What to try, any of them: keys of `REMEDIES`.
    rows : tuple of int
        The readings of the fit to look at, the most striking first. There may be more.
    """

    code: str
    evidence: str
    remedy: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.told("python")

    def told(self, audience: Literal["python", "command"], tried: Collection[str] = ()) -> str:
        """The evidence, and the remedies that have not been tried, in the words of an audience."""
        wordings = [REMEDIES[name][audience == "command"] for name in self.remedy if name not in tried]
        advice = ", or ".join(dict.fromkeys(wordings))
        return f"{self.evidence} {advice[0].upper()}{advice[1:]}." if advice else self.evidence

    def warn(self, stacklevel: int) -> None:
        """Issue the warning that belongs to the code. It holds this finding as its argument."""
        warnings.warn(WARNINGS[self.code](self), stacklevel=stacklevel + 1)


NOTES = frozenset(
    {
        "bound",
        "clustered",
        "contradicted-limit",
        "contradicted-verdict",
        "crowd",
        "heavy-tail",
        "noiseless",
        "varying-noise",
        "wide-noise",
    }
)
"""Codes of what a reader of a fit should know of its readings, which is no reason not to use it."""


@dataclass(frozen=True)
class _DiagnosisPolicy:
    """When something is worth telling; benchmarks/stress.py has data where each is due and where it is not."""

    tail: float = 5.0  # skewness or kurtosis this many standard errors from the normal's is not noise
    far: float = 3.0  # standard deviations from which a clean reading is worth a look where the tails are heavy
    fewest_residuals: int = 20  # of fewer, skewness and kurtosis say nothing
    most_residuals: int = 5000
    """Standard errors are those of at most so many: among more, a departure too small to matter would show."""
    majority: float = 1.0
    """Standard errors below a half from which the share of flagged readings is too many: the majority is the signal."""
    many_flagged: float = 0.1  # share that is suspect where hardly any noise is left
    noiseless: float = 1e-4  # noise variance that is hardly any, in units of y's robust variance
    doubt: float = 2.0
    """Times by which doubt about labels (and, of few readings, about parameters) raises the variance of f from which a
    fit is not to be used: half of the variance is doubt then. Two of three such fits have more than 1.25 times the
    oracle's error; from 1.5 on, one of two (benchmarks/shapes.py)."""
    most_places: int = 300  # at which the variance of f is taken for that
    cluster: float = 4.0
    """Flagged readings beside one another this many standard errors more often than by chance are clusters."""
    peaks: float = 4.0
    """Outliers that are high by this many standard errors more often where f is high are peaks of the signal."""
    mostly_clustered: float = 0.5
    """Share of the flagged readings beside another from which they are one thing: a fault, or a peak of the signal."""
    fewest_clustered: int = 5  # of fewer flagged readings nothing can be said
    contradiction: float = 7.0  # log odds against a verdict, about a thousand to one, that are worth telling
    most_rows: int = 100  # readings that a finding names: model files hold them one by one


POLICY = _DiagnosisPolicy()


NO_LABELS = Finding(
    "no-labels",
    "The readings that would be outliers are high where the signal is high, or low where it is low: they are rather "
    "its peaks. None is taken for an outlier by itself; what they add to the signal counts as noise.",
    ("transform", "another kernel"),
)
"""Of a fit in which no labelling of the readings was credible."""


def are_peaks(side: Array, level: Array, nearest_flagged: Mask) -> bool:
    """Whether outliers are those readings that a signal with peaks would have: too high where it is high anyway.

    Outliers are exchangeable: whether a reading is one does not depend on f. `side` is that of each outlier's bias and
    0 for other readings, `level` is f there; `nearest_flagged` says of each outlier whether its nearest neighbour is
    one. By ranks (Mann-Whitney), for each side; outliers beside one another count as one.
    """
    n, alone = len(level), 1.0 - float(np.mean(nearest_flagged)) if len(nearest_flagged) else 1.0
    for sign in (-1.0, 1.0):
        m = int((side == sign).sum())
        excess = rankdata(sign * level)[side == sign].sum() - 0.5 * m * (n + 1)
        limit = POLICY.peaks * np.sqrt(m * (n - m) * (n + 1) / 12.0)
        if m >= POLICY.fewest_clustered and np.sqrt(alone) * excess > limit:
            return True
    return False


def looks_like_noise(residuals: Array, by_skewness: float, by_kurtosis: float) -> bool:
    """Whether skewness and kurtosis of residuals are within so many standard errors of a normal sample's."""
    skewed, tailed = _departures(*_shape(residuals))
    return skewed <= by_skewness and tailed <= by_kurtosis


def notes(
    residuals: Array,
    flagged: Mask,
    nearest_flagged: Mask,
    noise: float,
    bounded: list[str],
    against_verdict: Array | None = None,
) -> list[Finding]:
    """What a reader of a sparse-bias fit should know of it; no reason by itself not to use it.

    `residuals` are standardised, and NaN for readings not taken for clean; `nearest_flagged` says of each flagged
    reading whether its nearest neighbour is flagged; `bounded` names the parameters on their lowest value;
    `against_verdict` are the log odds of the readings against what was said of each, and NaN where nothing was.
    """
    found = [_heavy_tail(residuals), _noiseless(flagged, noise)]
    if against_verdict is not None:
        found.append(_contradicted(against_verdict))
    if not _mostly_clustered(nearest_flagged):
        found.append(_clusters(flagged, nearest_flagged))
    if bounded:
        where = f"{' and '.join(bounded)} {'sits' if len(bounded) == 1 else 'sit'} on the lowest value that the data"
        found.append(Finding("bound", f"{where} allow: f may follow single readings.", ("another kernel",)))
    return [finding for finding in found if finding is not None]


def doubts(flagged: Mask, nearest_flagged: Mask, doubt: float) -> list[Finding]:
    """Reasons not to use a sparse-bias fit. `doubt` is the variance of f over what it would be with known labels."""
    clustered = _clusters(flagged, nearest_flagged) if _mostly_clustered(nearest_flagged) else None
    found, share = [] if clustered is None else [replace(clustered, code="mostly-clustered")], float(np.mean(flagged))
    if share > 0.5 - POLICY.majority * 0.5 / np.sqrt(len(flagged)):
        text = f"{share:.0%} of the readings are flagged: the others may be the outliers."
        found.append(Finding("overflagging", text, ("transform",)))
    if doubt > POLICY.doubt:
        text = "Which readings are outliers is in doubt, and f with it: its variance is "
        text += f"{doubt:.1f} times what it would be if that were known."
        found.append(Finding("ambiguous", text, ("look at probabilities",)))
    return found


def _shape(residuals: Array) -> tuple[float, float, int]:
    """Skewness, kurtosis, and how many residuals they rest on; of noise where there are too few to tell."""
    n = min(len(residuals), POLICY.most_residuals)
    if n < POLICY.fewest_residuals or residuals.std() == 0.0:
        return 0.0, 3.0, n
    centred = (residuals - residuals.mean()) / residuals.std()
    return float(np.mean(centred**3)), float(np.mean(centred**4)), n


def _departures(skewness: float, kurtosis: float, n: int) -> tuple[float, float]:
    """Of both from noise's (0 and 3), in standard errors: √(6/n) and √(24/n)."""
    return float(abs(skewness) * np.sqrt(n / 6.0)), float(abs(kurtosis - 3.0) * np.sqrt(n / 24.0))


def _heavy_tail(residuals: Array) -> Finding | None:
    clean = np.flatnonzero(~np.isnan(residuals))
    skewness, kurtosis, n = _shape(residuals[clean])
    if max(_departures(skewness, kurtosis, n)) <= POLICY.tail:
        return None
    farthest = clean[np.argsort(-np.abs(residuals[clean]), kind="stable")]
    evidence = (
        f"The readings taken for clean do not look like noise (skewness {skewness:.1f} and kurtosis {kurtosis:.1f}, "
        f"noise has 0 and 3; the farthest is {abs(residuals[farthest[0]]):.1f} standard deviations out). Outliers may "
        "hide among them."
    )
    beyond = farthest[np.abs(residuals[farthest]) > POLICY.far]
    return Finding("heavy-tail", evidence, ("compare constant bias", "transform"), _first(beyond))


def _noiseless(flagged: Mask, noise: float) -> Finding | None:
    share = float(np.mean(flagged))
    if share <= POLICY.many_flagged or noise > POLICY.noiseless:
        return None
    evidence = (
        f"{share:.0%} of the readings are flagged, and the noise left is {np.sqrt(noise):.2g} of their robust standard "
        "deviation. Peaks of the signal may have been taken for outliers."
    )
    return Finding("noiseless", evidence, ("transform",))


def _contradicted(against: Array) -> Finding | None:
    rows = np.flatnonzero(against > POLICY.contradiction)
    if not len(rows):
        return None
    worst = rows[np.argsort(-against[rows], kind="stable")]
    many = (
        "A verdict is kept that the readings contradict"
        if len(rows) == 1
        else (f"{len(rows)} verdicts are kept that the readings contradict")
    )
    text = f"{many} (log odds against {'it' if len(rows) == 1 else 'the worst'}: {against[worst[0]]:.1f})."
    return Finding("contradicted-verdict", text, ("look at verdicts",), _first(worst))


def _mostly_clustered(nearest_flagged: Mask) -> bool:
    return len(nearest_flagged) > 0 and float(np.mean(nearest_flagged)) > POLICY.mostly_clustered


def _clusters(flagged: Mask, nearest_flagged: Mask) -> Finding | None:
    """Whether a flagged reading's nearest neighbour is flagged more often than by chance."""
    rows, n = np.flatnonzero(flagged), len(flagged)
    if len(rows) < POLICY.fewest_clustered:
        return None
    together = float(np.mean(nearest_flagged))
    chance = (len(rows) - 1) / (n - 1)
    if together <= chance + POLICY.cluster * np.sqrt(chance * (1.0 - chance) / len(rows)):
        return None
    evidence = (
        f"{together:.0%} of the {len(rows)} flagged readings have a flagged one for nearest neighbour ({chance:.0%} by "
        "chance): a fault that lasted, or a true feature of the signal."
    )
    return Finding("clustered", evidence, ("look at flagged",), _first(rows[nearest_flagged]))


def _first(rows: NDArray[np.intp]) -> tuple[int, ...]:
    return tuple(rows[: POLICY.most_rows].tolist())
