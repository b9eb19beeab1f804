"""Episodes where several sensors are fitted together: each has its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from biasgp import SparseBiasGP
from biasgp.data.faults import FaultScenario, TogetherScenario
from biasgp.kernels import Matern32, Same
from biasgp.models.episodes import RAMP, SHIFT, STEP, STUCK, EpisodePrior, Ordering, Run
from biasgp.models.run_scan import RunScan
from biasgp.models.sparse.episode_policy import POLICY
from biasgp.models.sparse.episode_search import EpisodeSearch, _isolated

KERNEL = Matern32().on("time") + Same("sensor") * Matern32().on("time")


def two_series() -> tuple[np.ndarray, np.ndarray]:
    """Times and series of two interleaved sensors of ten and fourteen readings."""
    t = np.concatenate([np.arange(10.0), 0.5 + np.arange(14.0)])
    series = np.repeat([0, 1], [10, 14])
    order = np.random.default_rng(0).permutation(24)
    return t[order], series[order]


def test_places_go_series_by_series():
    t, series = two_series()
    ordering = Ordering(t, series=series)
    assert ordering.bounds == ((0, 10), (10, 24))
    assert_array_equal(series[ordering.rows], np.repeat([0, 1], [10, 14]))
    assert_array_equal(t[ordering.rows_of(Run(SHIFT, 10, 13))], [0.5, 1.5, 2.5])
    assert ordering.named(SHIFT, 6, 10) == ordering.named(SHIFT, 20, 24) == STEP
    assert ordering.named(SHIFT, 5, 9) == ordering.named(SHIFT, 10, 14) == SHIFT


def test_no_run_crosses_from_one_series_to_the_next():
    t, series = two_series()
    ordering = Ordering(t, series=series)
    for first in range(24):
        for stop in range(first + 1, 25):
            inside = stop - first >= 3 and (stop <= 10 or first >= 10)
            inside = inside and stop - first <= (5 if stop <= 10 else 7)
            assert np.isfinite(ordering.log_prior_of((Run(SHIFT, first, stop),))) == inside


def test_a_run_is_priced_as_in_its_own_series():
    """The record's length enters by the longest series alone; runs at an end of their own series are censored there."""
    t = np.arange(20.0)
    alone, both = Ordering(t), Ordering(np.tile(t, 2), series=np.repeat([0, 1], 20))
    for run in (Run(SHIFT, 4, 9), Run(SHIFT, 0, 5), Run(STEP, 13, 20), Run(RAMP, 0, 10)):
        shifted = Run(run.kind, run.first + 20, run.stop + 20)
        prices = [o.log_prior_of((r,)) - o.log_prior_of(()) for o, r in ((alone, run), (both, run), (both, shifted))]
        assert prices[1] == prices[2]
        rate = both.prior.log_count(1, 40) - both.prior.log_count(0, 40)
        rate -= alone.prior.log_count(1, 20) - alone.prior.log_count(0, 20)
        assert prices[1] == pytest.approx(prices[0] + rate)
        assert_array_equal(both.columns([shifted])[20:], alone.columns([run]))
        assert_array_equal(both.columns([shifted])[:20], np.zeros((20, 1)))


@pytest.mark.parametrize("kind", [SHIFT, RAMP])
def test_the_best_run_is_that_of_the_best_series(kind):
    """With covariances that do not join the series, evidence is that of each on its own."""
    rng = np.random.default_rng(1)
    t, series = two_series()
    prior = EpisodePrior(shortest_ramp=3)
    ordering = Ordering(t, prior=prior, series=series)
    P = np.linalg.inv(0.5 * np.eye(24) + np.where(series[:, None] == series, np.exp(-np.abs(t[:, None] - t) / 3), 0.0))
    y = rng.standard_normal(24) + 8.0 * ordering.columns([Run(kind, 15, 20)])[:, 0]
    gain, run = RunScan(ordering, P, P @ y, (kind,)).best()
    assert (run.first, run.stop) == (15, 20)
    own = series == 1
    _, same = RunScan(Ordering(t[own], prior=prior), P[np.ix_(own, own)], (P @ y)[own], (kind,)).best()
    assert (same.first + 10, same.stop + 10) == (run.first, run.stop)
    assert same.variance == pytest.approx(run.variance)
    assert gain > 0.0


def test_events_are_of_all_series():
    t = np.arange(40.0)
    ordering = Ordering(np.tile(t, 2), np.array([19.5, 60.0]), series=np.repeat([0, 1], 40))
    at, off = (ordering.log_prior_of((Run(RAMP, 8, stop),)) for stop in (20, 21))
    assert at > off + 2.0
    assert at == ordering.log_prior_of((Run(RAMP, 48, 60),))
    assert ordering.log_prior_of((Run(SHIFT, 35, 40),)) == ordering.log_prior_of((Run(SHIFT, 75, 80),))


def test_a_reference_has_no_episodes():
    series = np.repeat([-1, 0], 20)
    ordering = Ordering(np.tile(np.arange(20.0), 2), series=series)
    y = np.arange(40.0)
    y[5:15] = y[25:35] = 7.5
    assert [episode.rows for episode in ordering.stuck_runs(y)] == [tuple(range(25, 35))]
    assert ordering.log_prior_of((Run(SHIFT, 4, 9),)) == -np.inf
    assert np.isfinite(ordering.log_prior_of((Run(SHIFT, 24, 29),)))
    assert Ordering(np.arange(20.0), series=np.full(20, -1)).too_short


def test_equal_readings_of_two_sensors_are_no_stuck_sensor():
    y = np.arange(60.0)
    y[26:34] = 100.0  # the last four of one, the first four of the next
    joined, split = Ordering(np.arange(60.0)), Ordering(np.arange(60.0), series=np.repeat([0, 1], 30))
    assert [len(each.rows) for each in joined.stuck_runs(y)] == [8]
    assert all(len(each.rows) <= 4 for each in split.stuck_runs(y))


def test_a_coarse_sensor_does_not_make_a_fine_one_look_as_if_it_repeated_by_chance():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.standard_normal(60), np.round(np.sin(np.arange(60.0) / 12.0))])
    y[20:30] = y[20]
    ordering = Ordering(np.tile(np.arange(60.0), 2), series=np.repeat([0, 1], 60))
    assert [each.rows for each in ordering.stuck_runs(y)] == [tuple(range(20, 30))]
    assert ordering.part(np.arange(120) >= 60).bounds == ((0, 60),)


def test_flagged_readings_of_two_sensors_are_no_crowd():
    labels = np.zeros(60, dtype=np.intp)
    labels[27:33] = 1  # the last three of one, the first three of the next
    joined, split = Ordering(np.arange(60.0)), Ordering(np.arange(60.0), series=np.repeat([0, 1], 30))
    assert _isolated(labels, joined, 11).sum() < 6
    assert_array_equal(_isolated(labels, split, 11), labels)


def test_which_stretches_of_a_sensor_are_faulty_is_chosen_within_its_record():
    """Readings between two jumps are faulty, not those on both sides of them: the other sensor tells."""
    t = np.tile(np.arange(30.0), 2)
    K = np.exp(-np.abs(t[:, None] - t) / 10.0) + 0.05 * np.eye(60)
    y = np.random.default_rng(0).multivariate_normal(np.zeros(60), K)
    y[40:50] += 3.0
    y[5:12] -= 3.0
    P = np.linalg.inv(K)
    search = object.__new__(EpisodeSearch)
    search.ordering, search.policy = Ordering(t, series=np.repeat([0, 1], 30)), POLICY
    first, second = Run(SHIFT, 5, 12), (Run(SHIFT, 30, 40), Run(STEP, 50, 60))
    found = list(search._stretches(RunScan(search.ordering, P, P @ y), (first, *second)))
    places = [{(run.kind, run.first, run.stop) for run in runs} for runs in found]
    assert places[1] == {(SHIFT, 5, 12), (SHIFT, 40, 50)}
    assert places[0] >= {(SHIFT, 30, 40), (STEP, 50, 60)}, "the episodes of the other one stay"
    assert all(run.stop <= 30 or run.first >= 30 for runs in found for run in runs)


@pytest.fixture(scope="module")
def faulty() -> tuple[pd.DataFrame, np.ndarray]:
    """Three sensors; B is shifted for a while and C stuck."""
    scenario = TogetherScenario(FaultScenario(kind="none", n=60, length_scale=15.0), size=0.0, stays=True)
    data = scenario.draw(random_state=4)
    X, y = pd.DataFrame({"time": data.t, "sensor": data.sensor}), data.y.copy()
    y[60 + 20 : 60 + 38] += 3.0
    y[120 + 5 : 120 + 20] = y[120 + 5]
    return X, y


def test_a_fit_finds_the_episodes_of_each_sensor(faulty):
    X, y = faulty
    order = np.random.default_rng(0).permutation(len(y))
    model = SparseBiasGP(KERNEL, order="time").fit(X.iloc[order], y[order])
    found = {(each.sensor, each.kind): each for each in model.episodes_}
    assert set(found) == {("B", SHIFT), ("C", STUCK)}
    assert sorted(order[list(found["C", STUCK].rows)]) == list(range(125, 140))
    shift = found["B", SHIFT]
    assert abs(shift.start - 21.0) <= 2.0 and abs(shift.stop - 38.0) <= 2.0
    assert shift.bias == pytest.approx(3.0, abs=0.5)
    assert set(X["sensor"].to_numpy()[order][list(shift.rows)]) == {"B"}


@pytest.mark.parametrize("reference", ["A", "B"])
def test_of_two_sensors_the_reference_is_believed(reference):
    scenario = TogetherScenario(FaultScenario(kind="none", n=80, length_scale=20.0), sensors=2, stays=True)
    data = scenario.draw(random_state=2)
    X = pd.DataFrame({"time": data.t, "sensor": data.sensor})
    model = SparseBiasGP(KERNEL, order="auto", reference=reference).fit(X, data.y)
    believed = data.sensor == reference
    difference = data.bias[~believed] - data.bias[believed]
    assert reference not in {each.sensor for each in model.episodes_}
    assert np.median(np.abs(model.bias_[believed])) < 1e-9, "but for single outliers"
    assert np.sqrt(np.mean((model.bias_[~believed] - difference) ** 2)) < 0.5 * scenario.record.noise
    assert np.abs(difference).max() > 4.0 * scenario.record.noise


def test_without_a_reference_two_sensors_share_the_blame():
    scenario = TogetherScenario(FaultScenario(kind="none", n=80, length_scale=20.0), sensors=2, stays=True)
    data = scenario.draw(random_state=2)
    model = SparseBiasGP(KERNEL).fit(pd.DataFrame({"time": data.t, "sensor": data.sensor}), data.y)
    a, b = model.bias_[:80], model.bias_[80:]
    assert np.median(np.abs(a + b)) < 0.1 * np.abs(a - b).max()
    assert model.bias_std_[-1] > 0.2 * np.abs(a - b).max(), "it is not known whose error it is"
