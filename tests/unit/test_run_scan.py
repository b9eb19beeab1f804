"""The evidence of every run at once, against brute force: multivariate normal densities of one run after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal

from biasgp.kernels import Matern32
from biasgp.models import run_scan
from biasgp.models.episodes import RAMP, SHIFT, STEP, EpisodePrior, Ordering, Run
from biasgp.models.run_scan import RunScan

PRIOR = EpisodePrior(shortest_ramp=4)
"""Short records have room for ramps."""


def log_density(y: np.ndarray, K: np.ndarray) -> float:
    return float(multivariate_normal(np.zeros(len(y)), K).logpdf(y))


@dataclass(frozen=True)
class Record:
    """Readings at times t of several series, not in order, and all that a scan computes by its definition."""

    t: np.ndarray
    series: np.ndarray
    seed: int = 0
    faulty: tuple[str, int, int, float] = (SHIFT, 0, 0, 0.0)
    """Kind, first place, stop and size of an episode that is in the readings."""

    @cached_property
    def places(self) -> list[tuple[int, float]]:
        return sorted(set(zip(self.series.tolist(), self.t.tolist(), strict=True)))

    @cached_property
    def K(self) -> np.ndarray:
        t = self.t[:, None]
        return Matern32(variance=1.0, length_scale=4.0).bind(t)(t) + 0.3 * np.eye(len(t))

    @cached_property
    def y(self) -> np.ndarray:
        kind, first, stop, size = self.faulty
        clean = np.random.default_rng(self.seed).multivariate_normal(np.zeros(len(self.t)), self.K)
        return clean + (size * self.column(kind, first, stop) if size else 0.0)

    @cached_property
    def ordering(self) -> Ordering:
        return Ordering(self.t, prior=PRIOR, series=self.series)

    def scan(self, *kinds: str) -> RunScan:
        P = np.linalg.inv(self.K)
        return RunScan(self.ordering, P, P @ self.y, kinds or (SHIFT, RAMP))

    def column(self, kind: str, first: int, stop: int) -> np.ndarray:
        """u of a run of places."""
        inside, own = self.places[first:stop], [place for place in self.places if place[0] == self.places[first][0]]
        at = own.index(inside[0])
        before = own[at - 1][1] if at else 2.0 * own[0][1] - own[1][1]
        place = zip(self.series.tolist(), self.t.tolist(), strict=True)
        height = [(time - before) / (inside[-1][1] - before) if kind == RAMP else 1.0 for _, time in inside]
        return np.array([dict(zip(inside, height, strict=True)).get(each, 0.0) for each in place])

    def runs(self, kind: str) -> list[tuple[int, int]]:
        """First and stop of all runs of one series that an episode may have."""
        shortest = PRIOR.shortest_ramp if kind == RAMP else PRIOR.shortest
        owners = [place[0] for place in self.places]
        return [
            (first, stop)
            for first in range(len(owners))
            for stop in range(first + shortest, len(owners) + 1)
            if owners[first] == owners[stop - 1] and 2 * (stop - first) <= owners.count(owners[first])
        ]

    def best_variance(self, u: np.ndarray, K: np.ndarray) -> float:
        """V of the highest evidence, 0 where it is best to have none."""
        Pu = np.linalg.solve(K, u)
        return max((Pu @ self.y) ** 2 / (u @ Pu) - 1.0, 0.0) / float(u @ Pu)

    def gain(self, kind: str, run: tuple[int, int], K: np.ndarray) -> tuple[float, float]:
        """What a run does to the log evidence where K is the covariance, its prior but for the rate included; V.

        Where it does not pay at any V, there is no such episode.
        """
        u = self.column(kind, *run)
        V = self.best_variance(u, K)
        if V == 0.0:
            return -np.inf, 0.0
        prior = self.ordering.log_prior[kind][run[0], run[1] - run[0] - PRIOR.shortest]
        return log_density(self.y, K + V * np.outer(u, u)) - log_density(self.y, K) + float(prior), V


def record(name: str, **more: object) -> Record:
    rng = np.random.default_rng(3)
    t, series = np.cumsum(rng.exponential(size=28)), np.zeros(28, dtype=np.intp)
    if name == "ties":
        t = np.repeat(np.arange(14.0), 2)
    if name == "two series":
        t, series = np.concatenate([np.arange(12.0), 0.5 + np.arange(16.0)]), np.repeat([0, 1], [12, 16])
    order = rng.permutation(len(t))
    return Record(t[order], series[order], **more)


RECORDS = ["times apart", "ties", "two series"]


@pytest.mark.parametrize("kind", [SHIFT, RAMP])
@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("size", [0.0, 4.0])
def test_the_best_run_is_the_best_of_all(name, kind, size):
    data = record(name, seed=1, faulty=(kind, 3, 8, size))
    gain, run = data.scan(kind).best()
    best = max(data.runs(kind), key=lambda each: data.gain(kind, each, data.K)[0])
    value, V = data.gain(kind, best, data.K)
    assert (run.first, run.stop) == best and run.kind in (kind, STEP)
    n, prior = len(data.y), data.ordering.prior
    assert gain == pytest.approx(value + prior.log_count(1, n) - prior.log_count(0, n), abs=1e-8)
    assert run.variance == pytest.approx(V, rel=1e-8)
    u = data.column(kind, *best)
    assert all(
        log_density(data.y, data.K + V * np.outer(u, u)) > log_density(data.y, data.K + other * np.outer(u, u))
        for other in (0.9 * V, 1.1 * V)
    ), "no other variance is better"


@pytest.mark.parametrize("name", RECORDS)
def test_of_two_kinds_the_better_one_is_found(name):
    for seed in range(4):
        data = record(name, seed=seed)
        gains = {kind: data.scan(kind).best() for kind in (SHIFT, RAMP)}
        assert data.scan().best() == max(gains.values(), key=lambda each: each[0])


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("added", [Run(SHIFT, 2, 6, 2.5), Run(RAMP, 1, 6, 0.7)], ids=lambda run: run.kind)
def test_with_a_run_the_scan_is_that_of_the_covariance_with_it(name, added):
    data = record(name, seed=2)
    u = data.column(added.kind, added.first, added.stop)
    assert_allclose(data.ordering.columns([added])[:, 0], u, atol=1e-14)
    after = data.K + added.variance * np.outer(u, u)
    scan = data.scan().with_run(added)
    assert scan.runs == (added,)
    assert scan.log_evidence == pytest.approx(log_density(data.y, after) - log_density(data.y, data.K), abs=1e-10)
    P = np.linalg.inv(after)
    for ours, theirs in zip(scan.inverse(), (P, P @ data.y), strict=True):
        assert_allclose(ours, theirs, atol=1e-10)
    fresh = RunScan(data.ordering, P, P @ data.y)
    for kind in (SHIFT, RAMP):
        possible = np.isfinite(data.ordering.log_prior[kind])
        ours, theirs = (each.statistic(kind)[possible] for each in (scan, fresh))
        assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    again = Run(SHIFT, 8, 11, 1.5)
    both = after + again.variance * np.outer(*2 * [data.column(SHIFT, 8, 11)])
    twice = scan.with_run(again)
    assert twice.log_evidence == pytest.approx(log_density(data.y, both) - log_density(data.y, data.K), abs=1e-10)


def test_runs_are_added_with_the_best_variance_beside_those_before():
    data = record("times apart", seed=2, faulty=(SHIFT, 3, 8, 4.0))
    scan = data.scan().with_runs([Run(SHIFT, 3, 8, 77.0), Run(RAMP, 12, 20, 77.0)])
    K = data.K
    for run in scan.runs:
        u = data.column(run.kind, run.first, run.stop)
        best = data.best_variance(u, K)
        assert run.variance == pytest.approx(best, rel=1e-8) if best > 1e-5 else run.variance < 1e-4
        K = K + run.variance * np.outer(u, u)


def test_episodes_do_not_overlap():
    data = record("times apart", seed=5, faulty=(SHIFT, 8, 16, 6.0))
    scan = data.scan()
    for _ in range(3):
        scan = scan.with_run(scan.best()[1])
    assert len(scan.runs) == 3
    taken = [place for run in scan.runs for place in range(run.first, run.stop)]
    assert len(set(taken)) == len(taken)


def test_masks_of_runs_say_what_they_should():
    data = record("times apart")
    scan = data.scan().with_run(Run(SHIFT, 5, 9)).with_run(Run(RAMP, 20, 25))
    m, lengths = data.ordering.n_places, data.ordering.lengths
    jumps = [[], [7], [4, 11, 19]]
    masks = [
        # The two have 9 of 28 places, so that another one may have 5: half of the record is signal.
        (scan.apart(), lambda a, b: (b <= 5 or a >= 9) and (b <= 20 or a >= 25) and b - a <= 5),
        (scan.within(Run(SHIFT, 5, 15)), lambda a, b: a > 5 and b < 15),
        (scan.ending_at({9, m}), lambda a, b: b in (9, m)),
        *(
            (scan.between(at), lambda a, b, at=at: (a in at or b in at) and not any(a < jump < b for jump in at))
            for at in jumps
        ),
    ]
    for mask, definition in masks:
        assert mask.shape == (m, len(lengths))
        for first in range(m):
            for column, length in enumerate(lengths.tolist()):
                if first + length <= m:
                    assert mask[first, column] == definition(first, first + length)


def test_the_best_run_is_looked_for_in_a_mask():
    data = record("times apart", seed=1, faulty=(SHIFT, 3, 8, 4.0))
    scan = data.scan()
    _, run = scan.best(where=scan.ending_at([12]))
    assert run.stop == 12
    gain, _ = scan.best(where=scan.ending_at([]))
    assert gain == -np.inf


def test_a_run_outside_the_mask_is_not_found_where_none_inside_says_anything():
    data = record("times apart", seed=1, faulty=(SHIFT, 3, 8, 4.0))
    scan = data.scan(SHIFT)
    says_nothing = scan.statistic(SHIFT) <= 1.0
    gain, _ = scan.best((SHIFT,), where=says_nothing)
    assert says_nothing.any() and gain == -np.inf


def test_the_gain_of_a_run_is_that_with_which_it_is_found():
    scan = record("times apart", seed=1, faulty=(SHIFT, 3, 8, 4.0)).scan().with_run(Run(SHIFT, 12, 15))
    for kind in (SHIFT, RAMP):
        gain, run = scan.best((kind,))
        assert scan.gain_of(run) == pytest.approx(gain)


def alike(data: Record, run: Run, other: Run) -> list[tuple[int, int]]:
    """Runs of a kind that share more than half of the longer of the two with a run, and nothing with another.

    With the other one they have at most half of the record.
    """
    found, most = [], len(data.places) // 2 - (other.stop - other.first)
    for first, stop in data.runs(run.kind):
        shared = min(stop, run.stop) - max(first, run.first)
        apart = (stop <= other.first or first >= other.stop) and stop - first <= most
        if 2 * shared > max(stop - first, run.stop - run.first) and apart:
            found.append((first, stop))
    return found


Part = tuple[float, float, np.ndarray]
"""Weight, V and u of a run."""


@dataclass(frozen=True)
class Mixture:
    """Over runs with their weights: α, the matrix that explains f, and mean and covariance of what they add."""

    alpha: np.ndarray
    precision: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray, K: np.ndarray, parts: list[Part]) -> Mixture:
        """Where K is the covariance without any of them."""
        weights = [weight for weight, *_ in parts]
        added = [V * np.outer(u, u) for _, V, u in parts]
        inverses = [np.linalg.inv(K + each) for each in added]
        alphas = [P @ y for P in inverses]
        means = [each @ alpha for each, alpha in zip(added, alphas, strict=True)]
        alpha, mean = (sum(w * each for w, each in zip(weights, some, strict=True)) for some in (alphas, means))
        covariances = [each - each @ P @ each for each, P in zip(added, inverses, strict=True)]
        precision, covariance = np.zeros((2, *K.shape))
        for w, P, C, a, b in zip(weights, inverses, covariances, alphas, means, strict=True):
            precision += w * (P - np.outer(a - alpha, a - alpha))
            covariance += w * (C + np.outer(b - mean, b - mean))
        return cls(alpha, precision, mean, covariance)


SIZES = {
    ("times apart", SHIFT): 1.5,
    ("times apart", RAMP): 2.5,
    ("two series", SHIFT): 1.0,
    ("two series", RAMP): 2.5,
}
"""Of faults whose ends stay in doubt."""


@pytest.fixture(params=SIZES, ids=str)
def in_doubt(request) -> tuple[Record, Run, Run, np.ndarray]:
    """Readings, an episode of uncertain ends, another beside it, and the covariance with that one."""
    name, kind = request.param
    data = record(name, seed=4, faulty=(kind, 13, 19, SIZES[request.param]))
    other = Run(SHIFT, 22, 26, 1.3)
    u = data.column(other.kind, other.first, other.stop)
    return data, Run(kind, 13, 19, 5.0), other, data.K + other.variance * np.outer(u, u)


def brute_force(data: Record, run: Run, other: Run, K: np.ndarray) -> tuple[float, list[Part]]:
    """log_volume of a run, and weight, V and u of all that are like it."""
    found = [(each, *data.gain(run.kind, each, K)) for each in alike(data, run, other)]
    found = [each for each in found if each[2] > 0.0]
    assert len(found) > 8
    gains = np.array([gain for _, gain, _ in found])
    own = dict(zip((each for each, *_ in found), gains, strict=True))[run.first, run.stop]
    columns = [data.column(run.kind, *each) for each, *_ in found]
    return float(logsumexp(gains) - own), list(zip(softmax(gains), (V for *_, V in found), columns, strict=True))


def test_ends_are_averaged_over_by_evidence(in_doubt, monkeypatch):
    data, run, other, K = in_doubt
    around = data.scan().with_run(other)
    usual = around.ends(run)
    monkeypatch.setattr(run_scan, "LEAST_WEIGHT", np.inf)
    ends = around.ends(run)
    log_volume, parts = brute_force(*in_doubt)
    expected = Mixture.of(data.y, K, parts)
    assert ends.log_volume == pytest.approx(log_volume, abs=1e-8) and log_volume > 0.1
    probability = sum(weight * (u > 0.0) for weight, _, u in parts)
    assert_allclose(ends.probability, probability, atol=1e-9)
    assert ((probability > 0.01) & (probability < 0.99)).sum() > 2, "the ends are in doubt"
    assert_allclose(ends.mean, expected.mean, atol=1e-8)
    assert_allclose(ends.spread @ ends.spread.T, expected.covariance, atol=1e-8)
    # What is left out by default does not matter.
    assert usual.log_volume == ends.log_volume
    assert_allclose(usual.probability, probability, atol=len(parts) * np.exp(-9.0))
    assert_allclose(usual.mean, expected.mean, atol=0.02)


def test_averaging_over_ends_changes_the_posterior_to_the_mixture(in_doubt, monkeypatch):
    monkeypatch.setattr(run_scan, "LEAST_WEIGHT", np.inf)
    data, run, other, K = in_doubt
    around = data.scan().with_run(other)
    change = around.change_by(run, around.ends(run))
    _, parts = brute_force(*in_doubt)
    before = Mixture.of(data.y, K, [(1.0, run.variance, data.column(run.kind, run.first, run.stop))])
    after = Mixture.of(data.y, K, parts)
    assert_allclose(change.alpha, after.alpha - before.alpha, atol=1e-8)
    assert_allclose(change.precision, after.precision - before.precision, atol=1e-8)
    assert_allclose(change.bias, after.mean - before.mean, atol=1e-8)
    assert_allclose(change.variance, (after.covariance - before.covariance).diagonal(), atol=1e-8)
    assert np.abs(change.bias).max() > 0.05


def test_at_most_so_many_ends_are_averaged_over(monkeypatch):
    data = record("times apart", seed=4, faulty=(SHIFT, 13, 19, 2.5))
    run = Run(SHIFT, 13, 19, 5.0)
    every = data.scan().ends(run)
    monkeypatch.setattr(run_scan, "MOST_RUNS", 1)
    one = data.scan().ends(run)
    assert one.log_volume == every.log_volume
    assert set(one.probability) == {0.0, 1.0}
    best = max(alike(data, run, Run(SHIFT, 99, 99)), key=lambda each: data.gain(SHIFT, each, data.K)[0])
    assert_array_equal(one.probability, data.column(SHIFT, *best))


def test_long_records_are_summed_in_blocks_as_if_they_were_not():
    n = 3 * run_scan.ROWS + 5
    t = np.cumsum(np.random.default_rng(4).exponential(size=n))
    data = Record(t, np.zeros(n, dtype=np.intp), seed=2)
    ordering, P = data.ordering, np.linalg.inv(data.K)
    scan, Py = RunScan(ordering, P, P @ data.y), P @ data.y
    for kind in (SHIFT, RAMP):
        found = scan.statistic(kind)
        for first in (0, 1, run_scan.ROWS - 1, run_scan.ROWS, 2 * run_scan.ROWS + 3, n - 6):
            for stop in range(first + PRIOR.shortest, first + 1 + int(ordering.longest[first])):
                u = ordering.columns([Run(kind, first, stop)])[:, 0]
                expected = (u @ Py) ** 2 / (u @ P @ u)
                assert found[first, stop - first - PRIOR.shortest] == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_few_columns_say_as_much_as_many():
    columns = np.zeros((9, 20))
    columns[2:7] = np.random.default_rng(0).standard_normal((5, 20))
    few = run_scan._compressed(columns)
    assert few.shape == (9, 5)
    assert_allclose(few @ few.T, columns @ columns.T, atol=1e-12)
    assert run_scan._compressed(columns[:, :3]).shape == (9, 3)
