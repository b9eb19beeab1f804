"""Why a reading was flagged, or was not: what the others say of it, in the user's units and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array, Mask
from biasgp.messages import quantity
from biasgp.models import sparse
from biasgp.models.episodes import CROWD, Ordering
from biasgp.models.problem import Problem
from biasgp.models.sparse.kinds import log_normal
from biasgp.models.sparse.left_out import LeftOut, LogOdds, left_out
from biasgp.models.sparse.recipe import RECIPE
from biasgp.response import ScaledResponse

NONE, SPIKE, GROUP, REPLACED = "none", "spike", "group", "replaced"
WITNESSES = 6
"""Readings that are named with what each of them does to the odds of another."""
BESIDE = ("log_odds", "median", "worth")
"""Columns of all readings that an explanation of one does not have as they are."""
LEAST_EFFECT = 0.1
"""Log odds. A reading that changes those of another by less is not named."""


@dataclass(frozen=True)
class ReadingExplanation:
    """Why one reading was flagged, or was not. `str()` says it in words.

    What the others say of it, at the best labels, episodes and parameters of the fit, which are held; whereas
    `probability` is averaged over them. What has a unit is in y's; under a response transform, means and standard
    deviations are those that `predict` gives.

    Attributes
    ----------
    row : int
        The index of the reading.
    read, expected, expected_std : float
        What was read, and mean and standard deviation of f there without this reading.
    reading_std : float
        Standard deviation of a good reading there: that of f, and noise.
    kind : {"none", "spike", "group", "replaced", "stuck", "shift", "step", "ramp", "erratic", "crowd"}
        What it was taken for: good; an outlier by itself; one of a group of about the same bias (`group_mean`); a value
        that has nothing to do with f; or one of an episode.
    group_mean : float
        The mean bias of its group; NaN where it is in none.
    probability, verdict : float
        Probability that it is an outlier, and what was said of it: 0, 1, or NaN.
    prior, if_good, if_bad : float
        Log odds that it is bad before it was read, by the share of the others that are, and the log density of what
        was read in either case. A reading in an episode stands or falls with that: `prior` are the episode's odds, and
        the reading by itself adds nothing to them.
    f_if_good : float
        What f would have to be there, if the reading were good.
    f_distance, noise_distance : float
        How far that is from what was expected, in standard deviations of f; and what is left to the noise, in its
        standard deviations.
    witnesses : tuple of (int, float)
        Readings that matter most to its odds: the row of each, and what the log odds would be without it.
    """

    row: int
    read: float
    expected: float
    expected_std: float
    reading_std: float
    kind: str
    group_mean: float
    probability: float
    verdict: float
    prior: float
    if_good: float
    if_bad: float
    f_if_good: float
    f_distance: float
    noise_distance: float
    witnesses: tuple[tuple[int, float], ...] = ()

    @property
    def evidence(self) -> float:
        """What the reading itself adds to the log odds."""
        return self.if_bad - self.if_good

    @property
    def log_odds(self) -> float:
        """Log odds that it is bad, given the others and without any verdict on it: prior and evidence."""
        return self.prior + self.evidence

    @property
    def vouch_for(self) -> tuple[int, ...]:
        """Rows of readings without any one of which it would be bad rather than good."""
        return tuple(row for row, without in self.witnesses if self.log_odds <= 0.0 < without)

    @property
    def vouch_against(self) -> tuple[int, ...]:
        """Rows of readings without any one of which it would be good rather than bad."""
        return tuple(row for row, without in self.witnesses if without <= 0.0 < self.log_odds)

    def __str__(self) -> str:
        return self.told(f"reading {self.row}")

    def told(self, name: str, unit: str = "") -> str:
        """In words, under a name for the reading and with the unit of y."""
        parts = [
            f"{name[0].upper()}{name[1:]} is {quantity(self.read, unit)}; without it {quantity(self.expected, unit)} ± "
            f"{quantity(self.expected_std, unit, 2)} was expected: {self._taken_for(unit)}.",
            f"Log odds {self.log_odds:+.1f} that it is bad: {self.prior:+.1f} before it was read, and "
            f"{self.evidence:+.1f} by what it is."
            if self.kind in (NONE, SPIKE, GROUP, REPLACED)
            else f"The fault as a whole has log odds {self.log_odds:+.1f}.",
        ]
        if np.isfinite(self.verdict):
            parts.append(f"It was judged {'bad' if self.verdict else 'good'}, and is held so.")
        for rows, otherwise in ((self.vouch_against, "good"), (self.vouch_for, "bad")):
            if rows:
                named = f"{'any one of ' if len(rows) > 1 else ''}{', '.join(map(str, rows))}"
                parts.append(f"Without {named} it would be taken for {otherwise}.")
        if self.kind != NONE:
            parts.append(
                f"For it to be good, the truth would have to be {quantity(self.f_if_good, unit)} there, "
                f"{abs(self.f_distance):.1f} standard deviations from what the others say, and its noise "
                f"{abs(self.noise_distance):.1f} standard deviations."
            )
        return " ".join(parts)

    def _taken_for(self, unit: str) -> str:
        off = self.read - self.expected
        size = f"{quantity(abs(off), unit)} too {'high' if off > 0.0 else 'low'}"
        words = {
            NONE: "taken for good",
            SPIKE: f"a spike, {size}",
            GROUP: f"one of a group with biases of about {quantity(self.group_mean, unit)}",
            REPLACED: "a value that has nothing to do with the truth",
            CROWD: f"one of several at one place that agree with one another only, {size}",
        }
        return words.get(self.kind, f"in a fault that lasted ({self.kind}), {size}")


@dataclass(frozen=True)
class Explainer:
    """The readings of a fit and where it ended: what a refit begins with, and what explanations are made of."""

    problem: Problem
    model: sparse.SparseBiasFit
    """Without what the estimator has as attributes."""
    response: ScaledResponse
    events: Array | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the fit has the inverse, so that the witnesses of all readings are soon found."""
        return self.model.known is not None

    def columns(self, estimator: Any, ordering: Ordering | None) -> dict[str, Any]:
        """What `ReadingExplanation` says, of all readings at once; and what a look at each of them would be worth.

        That is the expected number of labels that an answer would change: the probability that it is not what the fit
        says, times one and the labels of others that would change with the curve.
        """
        return self._explained(estimator, ordering)[0]

    def each(self, estimator: Any, ordering: Ordering | None) -> Callable[[int], ReadingExplanation]:
        """A function that explains one reading; what it needs of all of them is found out once."""
        columns, left, odds = self._explained(estimator, ordering)
        index = np.flatnonzero(self._kept(estimator))
        in_episodes = {row for episode in estimator._faults for row in episode.rows}

        def explanation(i: int) -> ReadingExplanation:
            own = {name: values[i] for name, values in columns.items() if name not in BESIDE}
            plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in own.items()}
            if i in in_episodes:
                return ReadingExplanation(row=i, **plain)
            at = int(np.searchsorted(index, i))
            return ReadingExplanation(
                row=i, **plain, witnesses=_witnesses(left.without_each(at, odds), odds.log_odds[at], index)
            )

        return explanation

    def _kept(self, estimator: Any) -> Mask:
        """Readings that the fit did not leave out with their episodes."""
        kept = None if self.model.known is None else self.model.known.kept
        if self.model.known is not None:
            return np.ones(len(self.problem), dtype=bool) if kept is None else kept
        out = np.ones(len(self.problem), dtype=bool)
        out[[row for episode in estimator._faults for row in episode.rows]] = False
        return out

    def _explained(self, estimator: Any, ordering: Ordering | None) -> tuple[dict[str, Any], LeftOut, LogOdds]:
        """The columns; and, of the readings that were kept, what the others say of them."""
        problem, kept = self.problem.clipped(RECIPE.fence), self._kept(estimator)
        left = left_out(problem, self.model, ordering, kept)
        inside = left.all_odds()
        odds = self._everywhere(inside, estimator, kept)
        columns, moves = self._columns(estimator, problem, odds)
        free = np.isnan(
            estimator.verdict_
        )  # labels that can follow: of readings that neither verdict nor episode holds
        free[[row for episode in estimator._faults for row in episode.rows]] = False
        sway = _spread(left.sway(moves[kept], inside, self.model.groups, free[kept]), kept, 0.0)
        probability = columns["probability"]
        columns["worth"] = np.minimum(probability, 1.0 - probability) * (1.0 + sway)
        return columns, left, inside

    def _everywhere(self, inside: LogOdds, estimator: Any, kept: Mask) -> LogOdds:
        """With the readings that the fit left out: their odds are those of their episodes, whatever they are."""
        if kept.all():
            return inside.in_episodes(estimator._faults)
        mean, variance = estimator._posterior.mean_and_variance(self.problem.X[~kept])
        density = log_normal(self.problem.y[~kept] - mean, variance + self._noise[~kept])
        rest = (mean, variance, np.zeros(len(mean)), density, density)
        each = zip(astuple(inside), rest, strict=True)
        return LogOdds(*(_spread(values, kept, other) for values, other in each)).in_episodes(estimator._faults)

    @property
    def _noise(self) -> Array:
        return np.asarray(self.model.noise_variance + self.problem.known)

    def _columns(self, estimator: Any, problem: Problem, odds: LogOdds) -> tuple[dict[str, Any], Array]:
        """What is said of each reading; and how far f there would move, were its label the other one."""
        scaling, variance, probability = estimator._scaling, odds.variance, estimator.outlier_probability_
        noise = np.exp(self.model.known.explanations[0][1].x[-1]) + problem.known if self.model.known else self._noise
        off, gain = problem.y - odds.mean, variance / (variance + noise)
        expected, expected_std = scaling.moments(odds.mean, variance)
        kind, group_mean = self._kinds(estimator, odds)
        slope = scaling.log_slope(self.response.y)
        # What f is at a good reading and at a bad one, over what it is given the others.
        group = self.model.groups[0]
        dropped = self.model.slab.replaced or self.model.known is None
        if_bad = 0.0 if dropped else variance / (variance + noise + group.variance) * (off - group.mean)
        columns = {
            "read": self.response.y,
            "expected": expected,
            "expected_std": expected_std,
            "reading_std": scaling.moments(odds.mean, variance + noise)[1],
            "kind": kind,
            "group_mean": group_mean,
            "probability": probability,
            "verdict": estimator.verdict_,
            "prior": odds.prior,
            "if_good": odds.if_good + slope,
            "if_bad": odds.if_bad + slope,
            "f_if_good": scaling.moments(odds.mean + gain * off, variance * (1.0 - gain))[0],
            "f_distance": gain * off / np.sqrt(np.where(variance > 0.0, variance, 1.0)),
            "noise_distance": (1.0 - gain) * off / np.sqrt(noise),
            "log_odds": odds.log_odds,
            "median": scaling.backward(odds.mean),
        }
        return columns, np.where(estimator.outlier_mask_, 1.0, -1.0) * (gain * off - if_bad)

    def _kinds(self, estimator: Any, odds: LogOdds) -> tuple[NDArray[np.object_], Array]:
        """What each reading was taken for, and the mean bias of its group, in y's unit, where it is in one."""
        n, groups, flagged = len(self.problem), self.model.groups, estimator.outlier_mask_
        kind, mean = np.full(n, NONE, dtype=object), np.full(n, np.nan)
        if self.model.slab.replaced:
            kind[flagged] = REPLACED
        else:
            # A flagged reading without a label (it is in doubt) is of the group of the nearest mean.
            off = self.problem.y - odds.mean
            nearest = np.abs(off[:, None] - [group.mean for group in groups]).argmin(axis=1)
            of = np.where(self.model.labels > 0, self.model.labels - 1, nearest)
            single = flagged.copy()
            single[[row for episode in estimator._faults for row in episode.rows]] = False
            members = np.bincount(of[single], minlength=len(groups))
            alike = np.array([group.mean**2 > group.variance for group in groups])[of] & (members > 1)[of]
            kind[flagged] = np.where(alike, GROUP, SPIKE)[flagged]
            scaling, biased = estimator._scaling, odds.mean + np.array([group.mean for group in groups])[of]
            mean[flagged & alike] = (scaling.backward(biased) - scaling.backward(odds.mean))[flagged & alike]
        for episode in estimator._faults:
            kind[list(episode.rows)], mean[list(episode.rows)] = episode.kind, np.nan
        return kind, mean


def _witnesses(without: Array, log_odds: float, index: NDArray[np.intp]) -> tuple[tuple[int, float], ...]:
    """Readings that matter to the odds of another, decisive ones first; `without` are the odds without each."""
    change = np.nan_to_num(np.abs(without - log_odds))
    named = [j for j in np.argsort(-change, kind="stable").tolist() if change[j] > LEAST_EFFECT]
    decisive = [j for j in named if (without[j] > 0.0) != (log_odds > 0.0)]
    others = [j for j in named if j not in decisive]
    return tuple((int(index[j]), float(without[j])) for j in [*decisive, *others[:WITNESSES]])


def _spread(values: Array, kept: Mask, rest: Array | float) -> Array:
    out = np.empty(len(kept))
    out[kept], out[~kept] = values, rest
    return out
