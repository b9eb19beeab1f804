"""Biases that last: stuck sensors, and the fit with episodes."""

from __future__ import annotations

import warnings
from math import comb

import numpy as np
import pandas as pd
import pytest

from biasgp import BiasGPWarning, GaussianGP, SparseBiasGP
from biasgp.covariance.posterior import DensePosterior, MixturePosterior, PartialPosterior
from biasgp.data.faults import FaultScenario
from biasgp.kernels import Matern32
from biasgp.models.episodes import ERRATIC, RAMP, SHIFT, STUCK, EpisodePrior, Ordering, Run
from biasgp.persistence import load_model, save_model

SHORT = FaultScenario(n=150, count=1, size=10.0, length_scale=20.0)


@pytest.mark.parametrize("resolution, found", [(0.001, True), (1.0, False)], ids=["fine", "coarse"])
def test_repeats_are_judged_by_how_often_readings_repeat_elsewhere(resolution, found):
    rng = np.random.default_rng(0)
    y = resolution * np.round(0.4 * rng.standard_normal(300) / resolution)
    y[100:106] = y[100]
    runs = Ordering(np.arange(300.0)).stuck_runs(y)
    assert [(each.kind, each.rows[0], each.rows[-1]) for each in runs] == ([(STUCK, 100, 105)] if found else [])


def test_a_stuck_sensor_that_is_interrupted_does_not_vouch_for_itself():
    y = np.round(40.0 + 5.0 * np.random.default_rng(0).standard_normal(300), 1)
    y[100:117] = 1000.0
    y[107] = 999.0
    assert [(each.rows[0], each.rows[-1]) for each in Ordering(np.arange(300.0)).stuck_runs(y)] == [
        (108, 116),
        (100, 106),
    ]
    # A signal that comes back to a value and rests there does.
    y[200:210] = 1000.0
    assert Ordering(np.arange(300.0)).stuck_runs(y) == []


@pytest.mark.parametrize("y", [np.zeros(50), np.array([1.0, 1.0])], ids=["all equal", "two readings"])
def test_a_record_that_is_all_one_value_is_not_a_stuck_sensor(y):
    assert Ordering(np.arange(float(len(y)))).stuck_runs(y) == []


def test_the_prior_of_the_number_of_episodes_is_a_distribution():
    prior = EpisodePrior()
    total = sum(comb(12, count) * np.exp(prior.log_count(count, 12)) for count in range(13))
    assert total == pytest.approx(1.0)
    assert np.exp(prior.log_count(0, 400)) > prior.faultless


def test_faults_that_fall_short_of_paying_are_named():
    data = FaultScenario(size=4.0).draw(random_state=14)
    model = fitted(data.t, data.y)
    first, *_ = model.notes_
    assert model.episodes_ == () and model.trustworthy_
    assert {note.code for note in model.notes_} == {"possible-episode"}
    assert all(set(range(*fault)) & set(first.rows) for fault in data.faults)


@pytest.mark.parametrize("seed", [23, 27], ids=["the readings between them", "together"])
def test_two_faults_that_fall_short_are_named_both(seed):
    data = FaultScenario(size=4.0).draw(random_state=seed)
    model = fitted(data.t, data.y)
    rows = {row for note in model.notes_ for row in note.rows}
    assert model.episodes_ == () and {note.code for note in model.notes_} == {"possible-episode"}
    assert all(len(set(range(*fault)) & rows) > 0.8 * (fault[1] - fault[0]) for fault in data.faults)


@pytest.mark.parametrize("seed", [8, 28])
def test_two_faults_are_named_that_are_best_seen_at_the_parameters_without_any(seed):
    data = FaultScenario(size=4.0).draw(random_state=seed)
    model = fitted(data.t, data.y)
    rows = {row for note in model.notes_ for row in note.rows}
    assert model.episodes_ == () and {note.code for note in model.notes_} == {"possible-episode"}
    assert all(len(set(range(*fault)) & rows) > 0.8 * (fault[1] - fault[0]) for fault in data.faults)


def test_an_episode_elsewhere_that_is_as_likely_is_one_of_the_explanations():
    data = FaultScenario(size=4.0).draw(random_state=19)
    model = fitted(data.t, data.y)
    found = [[(each.rows[0], each.rows[-1] + 1) for each in some] for some in (model.episodes_, *model.alternatives_)]
    truth = sorted(data.faults)
    assert sorted(found[0]) != truth and truth in [sorted(each) for each in found[1:]]


def test_a_record_without_any_outlier_is_fitted_as_a_plain_gp_fits_it():
    data = FaultScenario(kind="none", signal="exponential").draw(random_state=4)
    X = data.t[:, None]
    model = SparseBiasGP(Matern32(), length_scale_prior=None).fit(X, data.y)
    assert model.outlier_probability_.sum() < 1.0  # a share of outliers alone makes it 50
    plain = GaussianGP(Matern32()).fit(X, data.y).predict(X)
    assert np.mean((model.predict(X) - data.f) ** 2) <= 1.002 * np.mean((plain - data.f) ** 2)


def test_most_readings_are_in_no_episode_unless_services_are_known():
    ordering, serviced = Ordering(np.arange(100.0)), Ordering(np.arange(100.0), np.array([30.5]))
    first, second, third = Run(SHIFT, 0, 25), Run(SHIFT, 40, 65), Run(SHIFT, 80, 84)
    assert np.isfinite(ordering.log_prior_of((first, second)))
    assert ordering.log_prior_of((first, second, third)) == -np.inf
    assert np.isfinite(serviced.log_prior_of((first, second, third)))


def test_where_a_level_jumps_twice_the_lesser_part_is_the_episode():
    # On the logarithmic scale the bias is not the same in all readings; one before and one after have more evidence.
    rng, t = np.random.default_rng(0), np.arange(120.0)
    y = 10.0 + 2.0 * np.sin(t / 6.0) + 0.1 * rng.standard_normal(120)
    y[[20, 41]] += 5.0
    y[51:63] += 2.4
    model = SparseBiasGP(Matern32(), response="log").fit(t[:, None], y)
    assert [(each.kind, each.rows[0], each.rows[-1]) for each in model.episodes_] == [(SHIFT, 51, 62)]
    assert np.mean(model.outlier_mask_) < 0.5


def test_an_erratic_sensor_is_found_as_one_episode():
    data = FaultScenario(kind="erratic", n=150, count=1, size=10.0, length_scale=20.0).draw(random_state=1)
    model = fitted(data.t, data.y)
    (episode,), ((first, stop),) = model.episodes_, data.faults
    assert episode.kind == ERRATIC and abs(episode.rows[0] - first) <= 1 and abs(episode.rows[-1] + 1 - stop) <= 1
    assert episode.log_odds > 10.0
    assert model.outlier_mask_[list(episode.rows)].all() and model.trustworthy_
    inside = slice(first, stop)
    assert np.abs(data.y - model.bias_ - data.f)[inside].mean() < 1.0 < np.abs(data.y - data.f)[inside].mean()
    _, std = model.predict(data.t[:, None], return_std=True)
    assert std[inside].mean() > 1.5 * np.delete(std, np.r_[inside]).mean()


def fitted(t, y, **options):
    return SparseBiasGP(Matern32(), order="auto").fit(np.asarray(t)[:, None], y, **options)


@pytest.fixture(scope="module")
def shifted():
    data = SHORT.draw(random_state=3)
    return data, fitted(data.t, data.y)


def test_a_shift_is_found_with_its_size_and_its_readings_become_useful(shifted):
    data, model = shifted
    (episode,) = model.episodes_
    first, stop = data.faults[0]
    assert episode.kind == SHIFT and abs(episode.rows[0] - first) <= 2 and abs(episode.rows[-1] + 1 - stop) <= 2
    assert (episode.start, episode.stop) == (data.t[episode.rows[0]], data.t[episode.rows[-1]])
    assert abs(episode.bias - data.bias[first]) < 4.0 * episode.bias_std
    assert episode.log_odds > 10.0 and model.outlier_mask_[list(episode.rows)].all()
    assert np.abs(model.bias_ - data.bias).mean() < 0.2
    single = SparseBiasGP(Matern32(), order=None).fit(data.t[:, None], data.y)
    error, without = (np.mean((each.predict(data.t[:, None]) - data.f) ** 2) for each in (model, single))
    assert single.episodes_ == () and error < 0.2 * without


def test_the_size_of_a_clear_shift_is_known(shifted):
    _, model = shifted
    assert model.episodes_[0].bias_std < 0.6


def test_it_is_the_same_in_other_units_in_another_order_and_backwards(shifted):
    data, model = shifted
    (episode,) = model.episodes_
    (other,) = fitted(3600.0 * data.t - 1e5, 7.0 - 40.0 * data.y).episodes_
    assert other.rows == episode.rows and other.bias == pytest.approx(-40.0 * episode.bias, rel=1e-3)
    shuffled = np.random.default_rng(0).permutation(len(data.t))
    (other,) = fitted(data.t[shuffled], data.y[shuffled]).episodes_
    assert tuple(shuffled[list(other.rows)]) == episode.rows
    (other,) = fitted(-data.t, data.y).episodes_
    assert other.rows == episode.rows[::-1]


def test_a_stuck_sensor_leaves_the_fit_and_the_band_is_wide_there():
    data = FaultScenario(kind="stuck", n=200, count=1, lengths=(30, 30)).draw(random_state=0)
    model = fitted(data.t, data.y)
    (episode,) = model.episodes_
    first, stop = data.faults[0]
    assert episode.kind == STUCK and episode.rows == tuple(range(first, stop))
    without = SparseBiasGP(Matern32()).fit(data.t[data.is_clean][:, None], data.y[data.is_clean])
    for ours, theirs in zip(model.predict(data.t[:, None], True), without.predict(data.t[:, None], True), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.05)  # the centre of y differs by the stuck readings
    np.testing.assert_allclose(model.bias_[first:stop], (data.y - model.predict(data.t[:, None]))[first:stop])
    assert model.outlier_probability_[first:stop].min() == 1.0


def test_a_record_without_a_fault_has_no_episode():
    data = FaultScenario(kind="none", n=200).draw(random_state=1)
    assert fitted(data.t, data.y).episodes_ == ()


def test_a_step_to_the_end_is_noted_as_one_of_two_explanations():
    data = FaultScenario(kind="step", count=1, size=12.0, n=200, length_scale=40.0).draw(random_state=2)
    model = fitted(data.t, data.y)
    assert [each.kind for each in model.episodes_] == ["step"]
    (note,) = [each for each in model.notes_ if each.code == "step-or-signal"]
    assert note.rows == model.episodes_[0].rows and "and stays so: a change of calibration" in str(note)
    assert note not in model.diagnosis_


def test_the_order_is_a_column_by_index_or_name():
    data = SHORT.draw(random_state=3)
    frame = pd.DataFrame({"humidity": np.cos(data.t / 40.0), "hour": data.t})
    kernel = Matern32().on("hour")
    model = SparseBiasGP(kernel, order="hour").fit(frame, data.y)
    assert [each.kind for each in model.episodes_] == [SHIFT]
    assert SparseBiasGP(kernel, order="auto").fit(frame, data.y).episodes_ == ()
    for order, message in (("minute", "'minute' is no column"), (2, "from 0 to 1"), (True, "from 0 to 1")):
        with pytest.raises(ValueError, match=message):
            SparseBiasGP(kernel, order=order).fit(frame, data.y)


def test_times_are_an_order_and_events_are_times():
    data = SHORT.draw(random_state=3)
    hours = pd.Timestamp("2024-03-30T00:00", tz="Europe/Berlin") + pd.to_timedelta(data.t, unit="h")
    frame = pd.DataFrame({"time": hours, "humidity": np.cos(data.t / 40.0)})
    stop = data.faults[0][1]
    model = SparseBiasGP(Matern32().on("time"), order="auto").fit(frame, data.y, events=[hours[stop]])
    (episode,) = model.episodes_
    assert episode.rows[-1] == stop - 1 and episode.stop == hours[stop - 1].tz_convert("UTC").strftime(
        "%Y-%m-%dT%H:%M:%S"
    )
    with pytest.raises(ValueError, match="of the kind of the ordering column"):
        SparseBiasGP(Matern32().on("time"), order="auto").fit(frame, data.y, events=[30.0])


def test_events_need_an_order_and_are_numbers():
    data = SHORT.draw(random_state=3)
    X = data.t[:, None]
    with pytest.raises(ValueError, match="say which one it is with order="):
        SparseBiasGP(Matern32(), order=None).fit(X, data.y, events=[30.0])
    with pytest.raises(ValueError, match="events"):
        fitted(data.t, data.y, events=[np.nan])
    with pytest.raises(ValueError, match="events must be a list"):
        fitted(data.t, data.y, events=[])


def test_where_the_sensor_was_serviced_a_drift_ends():
    scenario = FaultScenario(kind="ramp", size=10.0, lengths=(50, 50), count=1, n=200)
    data = scenario.draw(random_state=4)
    stop = data.faults[0][1]
    model = fitted(data.t, data.y, events=[data.t[stop] - 0.5])
    assert [(each.kind, each.rows[-1]) for each in model.episodes_] == [(RAMP, stop - 1)]


@pytest.mark.parametrize("seed", [0, 3])
def test_a_fault_that_short_length_scales_follow_is_found_by_what_it_has_with_its_own(seed):
    data = FaultScenario(size=20.0, noise=0.1, length_scale=6.0, count=1, n=200).draw(random_state=seed)
    ((first, stop),) = data.faults
    (episode,) = fitted(data.t, data.y).episodes_
    assert (episode.rows[0], episode.rows[-1] + 1) == (first, stop)


def test_explanations_that_the_fit_does_not_take_have_biases_of_their_own():
    data = FaultScenario(size=4.0, count=1, n=200).draw(random_state=1)
    ((first, stop),) = data.faults
    model = fitted(data.t, data.y)
    assert model.episodes_ == ()
    (shift,) = (each[0] for each in model.alternatives_ if [one.kind for one in each] == [SHIFT])
    assert (shift.rows[0], shift.rows[-1] + 1) == (first, stop)
    assert abs(shift.bias - data.bias[first]) < 2.0 * shift.bias_std
    assert "0.9" in next(note.evidence for note in model.notes_ if note.rows[0] == first)


def test_every_second_service_ends_a_drift_and_how_long_that_was_has_no_scale():
    prior, n, service = EpisodePrior(), 2001, 1500
    ordering = Ordering(np.arange(float(n)), np.array([service - 0.5]))
    drifts = [Run(RAMP, first, service) for first in range(service - ordering.lengths[-1], service - 9)]
    log_prior = np.array([ordering.log_prior_of((run,)) for run in drifts])
    per_drift = prior.log_count(1, n) - np.log(prior.rate)
    expected = prior.fault_before_event * prior.at_event
    assert 0.75 * expected < np.exp(log_prior - per_drift + prior.scale_price).sum() < expected
    shares = [np.exp(log_prior[-high:-low]).sum() for low, high in ((91, 191), (191, 391), (391, 791))]
    assert np.ptp(np.log(shares)) < 0.2


def test_a_model_file_keeps_episodes_and_notes(tmp_path):
    data = FaultScenario(kind="ramp", size=8.0, lengths=(40, 80), n=300).draw(random_state=3)
    y = data.y.copy()
    y[:12] = y[0]
    model = fitted(data.t, y)
    assert isinstance(model._posterior, PartialPosterior) and isinstance(model._posterior.posterior, MixturePosterior)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.episodes_ == model.episodes_ and loaded.notes_ == model.notes_
    for ours, theirs in zip(loaded.predict(data.t[:, None], True), model.predict(data.t[:, None], True), strict=True):
        np.testing.assert_array_equal(ours, theirs)


AWKWARD = {
    "ties": lambda t, y: (np.round(t / 3.0), y),
    "one time": lambda t, y: (0.0 * t + 2.0, y),
    "all equal": lambda t, y: (t, 0.0 * y + 1.0),
    "gross": lambda t, y: (t, np.where(t == t[0], 1e8, y)),
    "coarse": lambda t, y: (t, np.round(y)),
    "level": lambda t, y: (1e9 * t, y + 50.0 * (t > np.median(t))),
    "tiny": lambda t, y: (t, 1e-30 * y),
}


@pytest.mark.parametrize("n", [3, 7, 30])
@pytest.mark.parametrize("case", AWKWARD)
def test_awkward_records_end_in_finite_numbers(case, n):
    rng = np.random.default_rng(n)
    t = np.sort(rng.uniform(0.0, 10.0, n))
    t, y = AWKWARD[case](t, np.sin(t) + 0.1 * rng.standard_normal(n))
    for events in (None, [float(np.median(t))]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BiasGPWarning)
            model = fitted(t, y, events=events)
        for values in (*model.predict(t[:, None], True), model.bias_, model.bias_std_, model.outlier_probability_):
            assert np.isfinite(values).all()
        assert all(str(note) for note in model.notes_)


def test_a_mixture_has_the_moments_of_its_parts():
    t = np.arange(6.0)[:, None]
    parts = tuple(
        DensePosterior.of(Matern32(variance=v, length_scale=2.0).bind(t), t, np.full(6, 0.1), y)
        for v, y in ((1.0, np.sin(t[:, 0])), (3.0, np.ones(6)))
    )
    mixture = MixturePosterior((0.3, 0.7), parts)
    at = np.array([[0.5], [8.0]])
    means, variances = zip(*(part.mean_and_variance(at) for part in parts), strict=True)
    mean = 0.3 * means[0] + 0.7 * means[1]
    second = 0.3 * (variances[0] + means[0] ** 2) + 0.7 * (variances[1] + means[1] ** 2)
    np.testing.assert_allclose(mixture.mean(at), mean)
    np.testing.assert_allclose(mixture.mean_and_variance(at)[1], second - mean**2)
    np.testing.assert_allclose(mixture.mean_and_covariance(at)[1].diagonal(), second - mean**2)
