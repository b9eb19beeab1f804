"""How much work the search for episodes is worth, and when explanations are too close to call."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EpisodePolicy:
    """How much work the search is worth, and when two explanations are too close to call (benchmarks/faults.py)."""

    stretches: tuple[float, ...] = (1.0, 2.5, 7.0)
    """Factors of the length-scales from which it begins."""
    found_gap: float = 40.0
    """Nats ahead of the fit without episodes from which on no longer length-scales are tried: the fault was not hidden.
    In 96 records like those of benchmarks/faults.py they led to a better explanation only below 23 nats."""
    hopeless_gap: float = 60.0
    """Nats behind the best explanation, before parameters are fitted, at which a start is given up."""
    other_gap: float = 8.0
    """Nats that another explanation may gain when its parameters are fitted, as a rule."""
    overtaking_gap: float = 5.0
    """Nats that it may gain when its episodes are moved, as a rule."""
    drift_volume: float = 2.0
    """Nats that averaging over its ends adds to the evidence of a ramp, as a rule."""
    max_rounds: int = 6
    max_episodes: int = 10
    reach: int = 4
    """Episodes that are expected to gain as much as the best, at most, where a start is far behind."""
    min_gain: float = 0.05
    """Nats. A move that raises the log evidence by less is not made."""
    ambiguous_gap: float = 10.0
    """Nats within which a whole explanation by other kinds of episode is averaged over."""
    kinds_known_to: float = 8.0
    """Nats to which the evidence of drifts against that of shifts can be relied on, as a standard deviation: drifts are
    not quite linear, and how common they are is not known."""
    fitted_gap: float = 4.0
    """Nats behind the fit without episodes up to which an explanation with one is worth naming once its parameters are
    fitted. That tells more than the gain before they are. Of 210 records without a fault 4 have such an explanation
    (benchmarks/faults.py)."""
    gap_of_more: float = 3.5
    """Nats that this gap is wider for each episode after the first: their prior is known to no more than that, and two
    that almost pay are seldom found where there is no fault."""
    short_gain: float = 2.0
    """Nats that an explanation gains, at most, when the parameters of the fit without episodes are fitted to it."""
    max_possible: int = 3
    """Episodes that are named though they do not pay, at most."""
    settled_gain: float = 0.5
    """Nats. Where fitting parameters gains less after episodes have moved, they would not move again."""
    move_gap: float = 20.0
    """Nats behind the best explanation from which the episodes of another are not moved any more."""
    one_more_gap: float = 2.0
    """Nats by which one more episode may fail to pay and still be averaged over, or named."""
    sure_gap: float = 15.0
    """Log odds of an episode from which they need not be known exactly."""
    unfinished_gap: float = 60.0
    """Nats ahead of the fit without episodes from which that one is not worked out to the end. To do so gained up to 52
    nats in 250 records (benchmarks/shapes.py, rows of many outliers and of all sizes; benchmarks/faults.py)."""
    max_jumps: int = 6
    """Places where the level jumps of which all combinations are tried: 2⁷ of them."""
    window: int = 11
    """Readings around a flagged one; where most are flagged it is not taken for a single outlier at the start."""
    rounds_after_verdicts: int = 2
    """Of parameters, labels and episodes, from where an earlier fit ended (benchmarks/verdicts.py)."""
    rounds_without: int = 4
    """Of parameters and labels, for the best explanation without one of the episodes, where that may be as good."""
    iterations_without: int = 2
    """Of the search for parameters in each of these rounds, and in all where an episode is beyond doubt."""
    rounds_beside: int = 2
    """Of parameters and labels, for an explanation with one more episode."""


POLICY = EpisodePolicy()
