"""Explanations of the readings by episodes: the labels and parameters of each, and what is known of their ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import numpy as np

from biasgp._typing import Array
from biasgp.models.episodes import ERRATIC, RAMP, SHIFT, STEP, Episode, Ordering, Run
from biasgp.models.run_scan import Ends, RunScan
from biasgp.models.sparse.average import Moments
from biasgp.models.sparse.labels import Support
from biasgp.models.sparse.search import Candidate, Search, State

LARGEST_VOLUME = {SHIFT: 3.0, STEP: 3.0, RAMP: 5.0, ERRATIC: 3.0}
"""Nats that averaging over the ends of an episode adds to its evidence, as a rule at most: twenty ends that are as
likely; a hundred for a ramp, whose start is not seen."""


@dataclass(frozen=True)
class Explanation:
    """Episodes, with the state of labels and parameters that goes with them, and log p(y, labels, episodes)."""

    runs: tuple[Run, ...]
    ordering: Ordering = field(repr=False)
    base: Search = field(repr=False)
    """The search without episodes, in which no reading need be an outlier by itself."""
    search: Search = field(repr=False)
    """The search with these episodes in the covariance."""
    state: State = field(repr=False)

    @property
    def evidence(self) -> float:
        """At the most probable ends of each episode."""
        return self.state.evidence + self._log_prior

    @cached_property
    def _log_prior(self) -> float:
        return self.ordering.log_prior_of(self.runs)

    @cached_property
    def total_evidence(self) -> float:
        """The ends of each episode averaged over."""
        return self.evidence + sum(each.log_volume for each in self.ends)

    @cached_property
    def _around(self) -> tuple[RunScan, ...]:
        """For each episode: every run beside all other episodes."""
        kinds = tuple({RAMP if run.kind == RAMP else SHIFT for run in self.runs})
        support = support_without_episodes(self.base, self.search, self.state)
        bare = RunScan(self.ordering, *marginal_inverse(support), kinds)
        return tuple(
            reduce(RunScan.with_run, (other for other in self.runs if other is not run), bare) for run in self.runs
        )

    @cached_property
    def ends(self) -> tuple[Ends, ...]:
        """What is known of each episode given the others."""
        return tuple(around.ends(run) for around, run in zip(self._around, self.runs, strict=True))

    def episodes(self, log_odds: Sequence[float] | None = None) -> tuple[Episode, ...]:
        """As the user knows them, with the bias of each given this explanation; an erratic run has no one bias."""
        P, Py = marginal_inverse(self.search.support(self.state))
        found = []
        for run, odds in zip(self.runs, log_odds or len(self.runs) * (0.0,), strict=True):
            episode = self.ordering.episode(run, odds)
            if run.kind != ERRATIC:
                u = self.ordering.columns([run])[:, 0]
                shrink = max(1.0 - run.variance * float(u @ P @ u), 0.0)
                bias, variance = run.variance * float(u @ Py), run.variance * shrink
                episode = replace(episode, bias=bias, bias_std=float(np.sqrt(variance)))
            found.append(episode)
        return tuple(found)

    def averaged_over_ends(self, moments: Moments) -> Moments:
        """Moments with each episode at its most probable ends, after averaging over the ends of each given the others.

        The biases of the episodes become part of the bias.
        """
        shared = self.search.problem.shared
        if shared is None:
            return moments
        alpha, precision = moments.alpha.copy(), moments.precision.copy()
        covariance = np.eye(shared.shape[1]) - shared.T @ moments.precision @ shared
        bias = moments.bias + shared @ (shared.T @ moments.alpha)
        variance = moments.bias_variance + np.einsum("ij,jk,ik->i", shared, covariance, shared)
        clean = 1.0 - moments.probability
        for around, run, ends in zip(self._around, self.runs, self.ends, strict=True):
            change = around.change_by(run, ends)
            alpha += change.alpha
            precision += change.precision
            bias += change.bias
            variance += change.variance
            clean *= 1.0 - ends.probability
        return Moments(alpha, precision, 1.0 - clean, bias, np.maximum(variance, 0.0), moments.labels)

    def may_reach(self, evidence: float) -> bool:
        """Whether averaging over ends may bring it to an evidence; that is not worked out where it cannot matter."""
        return self.evidence + sum(LARGEST_VOLUME[run.kind] for run in self.runs) > evidence

    def of_other_kind_than(self, other: Explanation) -> bool:
        """Whether one of the two has drifts and the other has shifts alone."""
        drifts, theirs = (any(run.kind == RAMP for run in each.runs) for each in (self, other))
        return bool(self.runs) and drifts != theirs


def support_without_episodes(base: Search, search: Search, at: Candidate) -> Support:
    """What follows from a candidate by `base`, from what is known of it where the covariance has those of a search."""
    if search is base:
        return base.support(at)
    base.know_without(search, at)
    return base.support(replace(at, support=None))


def marginal_inverse(support: Support) -> tuple[Array, Array]:
    """The inverse of the covariance of the readings, the group means integrated out, and that times y."""
    means, S = support.posterior_of_means()
    return support.Q - support.U @ S @ support.U.T, support.Qy - support.U @ means


def differ(runs: tuple[Run, ...], others: tuple[Run, ...], slack: int = 2) -> bool:
    """Whether two explanations are not the same but for ends that lie within so many readings."""
    if len(runs) != len(others):
        return True
    pairs = zip(sorted(runs, key=_place), sorted(others, key=_place), strict=True)
    return any(a.kind != b.kind or abs(a.first - b.first) > slack or abs(a.stop - b.stop) > slack for a, b in pairs)


def _place(run: Run) -> int:
    return run.first
