"""Streams: readings of every kind, as they come."""

from __future__ import annotations

import pickle
import threading
import zipfile
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

import biasgp.stream
from biasgp import BiasGPWarning, ConstantBiasGP, GaussianGP, SparseBiasGP
from biasgp.kernels import Linear, Matern32
from biasgp.persistence import ModelFileError, load_model, save_model
from biasgp.stream import Stream

pytestmark = pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")

N, FITTED, SIGMA = 420, 250, 0.1
OUTLIERS = (40, 90, 170, 280, 300)
SHIFT = slice(330, 360)


def readings():
    rng = np.random.default_rng(0)
    t = np.arange(float(N))
    y = 5.0 + np.sin(t / 20.0) + SIGMA * rng.standard_normal(N)
    y[list(OUTLIERS)] += 2.0
    y[SHIFT] += 0.9
    return t, y


T, Y = readings()


@pytest.fixture(scope="module")
def model():
    return SparseBiasGP(Matern32()).fit(T[:FITTED, None], Y[:FITTED])


@pytest.fixture
def stream(model):
    return model.stream(lag=10)


def same(a, b):
    for name in ("number", "time", "y", "mean", "std", "outlier_probability", "bias", "bias_std", "episode_start"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_outliers_and_a_shift_are_found_and_settled(stream):
    found = stream.push(T[FITTED:], Y[FITTED:])
    assert len(found) == N - FITTED
    settled = found.settled
    assert settled.number.tolist() == list(range(N - FITTED - 10))
    expected = [row - FITTED for row in OUTLIERS if row >= FITTED]
    assert settled.number[settled.outlier].tolist() == expected
    inside = np.flatnonzero(settled.episode == "shift")
    assert inside.tolist() == list(range(SHIFT.start - FITTED, SHIFT.stop - FITTED))
    assert set(settled.episode_start[inside]) == {float(SHIFT.start)}
    assert np.abs(settled.bias[inside] - 0.9).max() < 0.2
    assert settled.bias[expected] == pytest.approx(2.0, abs=0.4)
    assert np.isnan(settled.episode_start[0])
    truth = 5.0 + np.sin(T / 20.0)
    assert np.abs(settled.mean - truth[FITTED : N - 10]).max() < 0.3
    assert np.abs(found.mean - truth[FITTED:]).max() < 0.4
    assert "outliers" in repr(found)


def test_the_first_readings_of_a_shift_look_like_outliers_until_others_follow(stream):
    stream.push(T[FITTED : SHIFT.start], Y[FITTED : SHIFT.start])
    first = [stream.push(T[row], Y[row]) for row in range(SHIFT.start, SHIFT.start + 6)]
    assert first[0].outlier.all() and first[0].episode[0] == ""
    pending = stream.pending()
    assert (pending.episode[-6:] == "shift").all() and not pending.outlier[-6:].any()


def test_the_mean_of_a_large_record_goes_on_where_the_fit_ended():
    rng = np.random.default_rng(1)
    t = np.arange(1800.0)
    y = np.sin(t / 30.0) + SIGMA * rng.standard_normal(len(t))
    large = SparseBiasGP(Matern32(), approximation="state-space").fit(t[:, None], y)
    found = large.stream().push(1800.0, np.nan)
    mean, std = large.predict([[1800.0]], return_std=True)
    assert found.mean == pytest.approx(mean, abs=0.02)
    assert found.std == pytest.approx(std, rel=0.05)


def test_a_plain_model_flags_nothing_and_equals_its_predictions():
    plain = GaussianGP(Matern32()).fit(T[:FITTED, None], Y[:FITTED])
    found = plain.stream(lag=5).push(T[FITTED : FITTED + 1], [np.nan])
    mean, std = plain.predict(T[FITTED : FITTED + 1, None], return_std=True)
    assert found.mean == pytest.approx(mean, rel=1e-8)
    assert found.std == pytest.approx(std, rel=1e-8)
    assert np.isnan(found.outlier_probability).all()
    more = plain.stream(lag=5).push(T[FITTED:], Y[FITTED:])
    assert not more.outlier.any() and not (more.outlier_probability > 0.0).any() and (more.bias == 0.0).all()


def test_one_by_one_is_the_same_as_many_at_once(model):
    at_once, single = model.stream(lag=7), model.stream(lag=7)
    whole = at_once.push(T[FITTED:], Y[FITTED:])
    parts = [single.push(t, y) for t, y in zip(T[FITTED:].tolist(), Y[FITTED:].tolist(), strict=True)]
    np.testing.assert_array_equal(np.concatenate([part.mean for part in parts]), whole.mean)
    settled = np.concatenate([part.settled.bias for part in parts])
    np.testing.assert_array_equal(settled, whole.settled.bias)


def test_readings_out_of_order_within_one_push_are_sorted(model):
    shuffled = FITTED + np.random.default_rng(0).permutation(60)
    found = model.stream().push(T[shuffled], Y[shuffled])
    in_order = model.stream().push(T[FITTED : FITTED + 60], Y[FITTED : FITTED + 60])
    np.testing.assert_array_equal(found.time, T[shuffled])
    np.testing.assert_array_equal(found.mean, in_order.mean[shuffled - FITTED])
    np.testing.assert_array_equal(found.settled.mean, in_order.settled.mean)


def test_a_late_reading_within_the_lag_takes_its_place(model):
    late, punctual = model.stream(lag=10), model.stream(lag=10)
    late.push(np.delete(T[FITTED : FITTED + 30], 25), np.delete(Y[FITTED : FITTED + 30], 25))
    punctual.push(T[FITTED : FITTED + 30], Y[FITTED : FITTED + 30])
    assert len(late.push(T[FITTED + 25], Y[FITTED + 25]).settled) == 1
    same_mean = late.pending().mean, punctual.pending().mean
    np.testing.assert_allclose(*same_mean, rtol=1e-10)
    assert late.pending().time.tolist() == punctual.pending().time.tolist()


def test_a_reading_older_than_the_settled_ones_is_refused_or_counted(model):
    stream = model.stream(lag=5)
    stream.push(T[FITTED:300], Y[FITTED:300])
    before = stream.pending()
    with pytest.raises(ValueError, match=r"Row 1: the reading at 260.0 is older than 294.0.*lag is 5.*late='ignore'"):
        stream.push([300.0, 260.0], [5.0, 5.0])
    assert stream.n_readings == 50
    same(before, stream.pending())
    patient = model.stream(lag=5, late="ignore")
    patient.push(T[FITTED:300], Y[FITTED:300])
    found = patient.push([300.0, 260.0], [5.0, 5.0])
    assert np.isfinite(found.mean[0]) and np.isnan(found.mean[1]) and found.time[1] == 260.0
    assert (patient.n_readings, patient.n_ignored) == (52, 1)


def test_readings_of_the_fit_are_not_reported_beside_a_late_one(model):
    stream = model.stream(lag=10)
    settled = [stream.push(FITTED - 9.5, Y[FITTED - 10]).settled]  # among the last readings of the fit
    settled += [stream.push(T[row], Y[row]).settled for row in range(FITTED, FITTED + 9)]
    settled.append(stream.push(T[FITTED + 9 : 280], Y[FITTED + 9 : 280]).settled)
    assert np.concatenate([each.number for each in settled]).tolist() == list(range(21))


def test_no_reading_is_no_verdict(stream):
    found = stream.push([], [])
    assert len(found) == len(found.settled) == len(found.mean) == stream.n_readings == 0


def test_a_fit_of_fewer_readings_than_the_lag():
    few = GaussianGP(Matern32()).fit(T[:12, None], Y[:12]).stream(lag=20)
    found = few.push(T[12:60], Y[12:60])
    assert found.settled.number.tolist() == list(range(28))


def test_repeated_times_are_readings_like_any_other(model):
    stream, once = model.stream(), model.stream()
    found = stream.push([250.0, 250.0, 250.0], [Y[250]] * 3)
    assert found.std[2] < found.std[0] == once.push(250.0, Y[250]).std[0]
    assert len(stream.pending()) == 3


def test_missing_readings_are_predicted_and_teach_nothing(model):
    stream, without = model.stream(lag=4), model.stream(lag=4)
    y = Y[FITTED : FITTED + 20].copy()
    y[[3, 11]] = np.nan
    found = stream.push(T[FITTED : FITTED + 20], y)
    assert np.isfinite(found.mean).all() and np.isnan(found.outlier_probability[[3, 11]]).all()
    assert np.isnan(found.bias[3]) and not found.outlier[3]
    kept = np.isfinite(y)
    other = without.push(T[FITTED : FITTED + 20][kept], y[kept])
    np.testing.assert_allclose(found.mean[kept], other.mean, rtol=1e-10)


def test_a_gap_makes_f_uncertain_and_nothing_else(model):
    stream = model.stream()
    near = stream.push(T[FITTED], Y[FITTED])
    far = stream.push(1e6, 5.0)
    assert near.std[0] < 0.2 and not far.outlier[0]
    assert stream.push(2e6, np.nan).std[0] == pytest.approx(np.sqrt(model.kernel_.variance), rel=1e-6)


@pytest.mark.parametrize(
    ("t", "y", "options", "message"),
    [
        (250.0, np.inf, {}, "y contains infinity at row 0"),
        ([250.0, 251.0], [1.0, -np.inf], {}, "y contains infinity at row 1"),
        (np.nan, 1.0, {}, "X, column 0, contains NaN at row 0"),
        (np.inf, 1.0, {}, "infinity at row 0"),
        ([250.0, 251.0], [1.0], {}, r"one value per time, shape \(2,\)"),
        (250.0, "high", {}, "'high' is not a number"),
        ("noon", 1.0, {}, "'noon' is not a number"),
        (datetime(2024, 1, 1), 1.0, {}, "held no times in fit and holds times without a time zone"),
        ([[250.0, 1.0]], 1.0, {}, r"X must have 1 column"),
        (250.0, 1.0, {"noise_variance": -1.0}, "not negative"),
    ],
)
def test_bad_readings_are_refused_and_change_nothing(stream, t, y, options, message):
    with pytest.raises(ValueError, match=message):
        stream.push(t, y, **options)
    assert stream.n_readings == 0 and len(stream.pending()) == 0


def test_an_outlier_of_a_kind_that_the_fit_has_not_seen(stream):
    found = stream.push([250.0, 251.0, 252.0], [Y[250], -1e90, Y[252]])
    assert found.outlier.tolist() == [False, True, False]
    assert abs(found.mean[2] - Y[252]) < 0.5


def test_known_noise_counts(model):
    vague = model.stream().push(250.0, Y[250] + 2.0, noise_variance=100.0)
    assert not vague.outlier[0] and model.stream().push(250.0, Y[250] + 2.0).outlier[0]


def test_times_and_a_transform_in_the_users_units():
    times = pd.date_range("2024-01-01", periods=N, freq="h", tz="Europe/Berlin")
    fitted = SparseBiasGP(Matern32(length_scale="20h"), response="log").fit(
        pd.DataFrame({"time": times[:FITTED]}), Y[:FITTED]
    )
    stream = fitted.stream(lag=10)
    found = stream.push(pd.DataFrame({"time": times[FITTED:]}), Y[FITTED:])
    assert found.time[0] == np.datetime64(times[FITTED].tz_convert(None))
    inside = found.settled.episode != ""
    assert set(found.settled.episode_start[inside]) == {np.datetime64(times[SHIFT.start].tz_convert(None))}
    assert np.isnat(found.episode_start[0])
    assert found.settled.bias[inside] == pytest.approx(0.9, abs=0.3)
    assert stream.push(times[-1] + pd.Timedelta("1h"), 5.0).mean == pytest.approx(5.0, abs=2.0)
    with pytest.raises(ValueError, match="held times with a time zone in fit and holds times without"):
        stream.push(datetime(2024, 2, 1), 5.0)
    with pytest.raises(ValueError, match="columns when, and fit had time"):
        stream.push(pd.DataFrame({"when": times[-1:]}), 5.0)


def test_other_columns_in_a_linear_part():
    rng = np.random.default_rng(3)
    warmth = rng.standard_normal(N)
    X, y = np.column_stack([T, warmth]), Y + 0.5 * warmth
    fitted = SparseBiasGP(Matern32().on(0) + Linear().on(1), order=0).fit(X[:FITTED], y[:FITTED])
    found = fitted.stream().push(X[FITTED:320], y[FITTED:320])
    truth = 5.0 + np.sin(T / 20.0) + 0.5 * warmth
    assert np.sqrt(np.mean((found.mean - truth[FITTED:320]) ** 2)) < 0.1
    assert found.settled.number[found.settled.outlier].tolist() == [30]


def test_a_step_to_the_end_of_the_fit_goes_on():
    y, begin = Y.copy(), 370
    y[SHIFT] -= 0.9
    y[begin:] += 2.0
    fitted = SparseBiasGP(Matern32()).fit(T[:400, None], y[:400])
    assert [episode.kind for episode in fitted.episodes_] == ["step"]
    found = fitted.stream().push(T[400:], y[400:])
    assert (found.episode == "shift").all()
    assert set(found.episode_start) == {float(begin)}
    assert found.bias[~found.outlier] == pytest.approx(2.0, abs=0.5)


def test_saved_and_loaded_it_goes_on_as_if_nothing_had_happened(stream, tmp_path):
    path = tmp_path / "stream.skops"
    stream.about["line"] = 17
    for start in range(FITTED, N, 33):
        rows = slice(start, min(start + 33, N))
        stream.save(path)
        again = biasgp.stream.load(path)
        copied = pickle.loads(pickle.dumps(stream))
        found = stream.push(T[rows], Y[rows])
        for other in (again, copied):
            theirs = other.push(T[rows], Y[rows])
            same(found, theirs)
            same(found.settled, theirs.settled)
    assert again.about == {"line": 17} and again.lag == 10 and again.n_readings == N - FITTED
    assert path.stat().st_size < 200_000
    assert [each.name for each in tmp_path.iterdir()] == ["stream.skops"]


def test_a_saved_model_has_a_stream(model, tmp_path):
    save_model(tmp_path / "model.skops", model)
    same(load_model(tmp_path / "model.skops").stream().push(T[250:], Y[250:]), model.stream().push(T[250:], Y[250:]))


def test_files_that_hold_no_sound_stream_are_refused(model, stream, tmp_path):
    path = tmp_path / "file.skops"
    save_model(path, model)
    with pytest.raises(ModelFileError, match="holds a SparseBiasGP, not a stream"):
        biasgp.stream.load(path)
    stream.save(path)
    with pytest.raises(ModelFileError, match="holds a Stream, not a model"):
        load_model(path)
    broken = [
        lambda s: s._live.settled.mean.__setitem__(0, np.nan),
        lambda s: s._live.window.facts.__setitem__((slice(None), 4), -1.0),
        lambda s: setattr(s, "late", "never"),
        lambda s: setattr(s._live, "lag", 10**9),
        lambda s: setattr(s._live, "kinds", ((0.9, 0.0, 1.0, 0.0), (0.9, 0.0, 1.0, 0.0))),
        lambda s: setattr(s._live, "window", s._live.window._replace(h=np.zeros((50, 7)))),
        lambda s: setattr(s, "_memory", None),
    ]
    for harm in broken:
        copy = pickle.loads(pickle.dumps(stream))
        harm(copy)
        copy.save(path)
        with pytest.raises(ModelFileError):
            biasgp.stream.load(path)
    stream.save(path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ModelFileError, match="cut short or damaged"):
        biasgp.stream.load(path)
    assert not zipfile.is_zipfile(path)


def test_refit_learns_from_the_window_and_keeps_what_is_open(model):
    stream = model.stream(lag=10, memory=200)
    rng = np.random.default_rng(5)
    t = np.arange(FITTED, FITTED + 300.0)
    y = 5.0 + np.sin(t / 20.0) + 3.0 * SIGMA * rng.standard_normal(300)  # the sensor has become noisier
    y[-3] = np.nan
    stream.push(t, y)
    open_before = stream.pending()
    assert stream.refit() is stream
    assert stream._units.noise > 4.0 * model._scaled_noise_variance
    assert stream.pending().number.tolist() == open_before.number.tolist()
    assert stream._memory.count == 200
    found = stream.push(FITTED + 300.0, 5.0)
    assert found.number[0] == 300 and found.settled.number.tolist() == [290]
    again = stream.refit().push(FITTED + 301.0, 5.0)
    assert np.isfinite(again.mean).all()


class TestRefitInTheBackground:
    @pytest.fixture
    def held(self, monkeypatch):
        """Fits wait until this is set."""
        go, fit = threading.Event(), SparseBiasGP.fit
        monkeypatch.setattr(SparseBiasGP, "fit", lambda *args, **options: go.wait(60) and fit(*args, **options))
        yield go
        go.set()

    @staticmethod
    def readings(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        t = np.arange(FITTED + first, FITTED + first + count, dtype=float)
        return t, 5.0 + np.sin(t / 20.0) + 2.0 * SIGMA * np.random.default_rng(first).standard_normal(count)

    def test_it_is_the_same_refit(self, model, held):
        waiting, there = (model.stream(lag=10, memory=200) for _ in range(2))
        for stream in (waiting, there):
            stream.push(*self.readings(0, 250))
        assert waiting.refit(background=True) is waiting and waiting.refitting
        before = waiting._units
        while_it_lasts = waiting.push(*self.readings(250, 30))
        assert waiting._units is before and while_it_lasts.settled.number.tolist() == [*range(240, 270)]
        assert pickle.loads(pickle.dumps(waiting)).refitting is False
        learning = waiting._learning
        held.set()
        learning.result(60)
        after = waiting.push(*self.readings(280, 5))
        assert not waiting.refitting and after.settled.number.tolist() == [*range(270, 275)]
        there.refit()
        there.push(*self.readings(250, 30))
        there.push(*self.readings(280, 5))
        np.testing.assert_allclose(waiting.pending().mean, there.pending().mean, rtol=1e-12)
        np.testing.assert_allclose(waiting.pending().std, there.pending().std, rtol=1e-12)

    def test_one_that_fails_is_told_and_the_stream_goes_on(self, model, monkeypatch):
        def fail(*args, **options):
            raise ValueError("no room")

        stream = model.stream(lag=10, memory=200)
        monkeypatch.setattr(SparseBiasGP, "fit", fail)
        stream.refit(background=True)
        stream._learning.exception(60)
        with pytest.warns(BiasGPWarning, match="could not be learnt again, and the stream goes on as it was: no room"):
            stream.push(*self.readings(0, 5))
        assert not stream.refitting and len(stream.pending()) == 5


def test_the_memory_of_a_stream_is_bounded(stream):
    def size() -> int:
        return len(pickle.dumps(stream))

    stream.push(np.arange(250.0, 4250.0), np.sin(np.arange(4000.0)))
    before = size()
    stream.push(np.arange(4250.0, 14250.0), np.sin(np.arange(10000.0)))
    assert size() == pytest.approx(before, rel=0.01)


def test_models_without_a_stream_say_why():
    X, y = T[:60, None], Y[:60]
    with pytest.raises(ValueError, match=r"SquaredExponential\(.* has none.*take Matern52"):
        SparseBiasGP().fit(X, y).stream()
    with pytest.raises(TypeError, match="ConstantBiasGP has no stream: use SparseBiasGP"):
        ConstantBiasGP(Matern32()).fit(X, y).stream()
    with pytest.raises(ValueError, match="All readings of the fit are equal"):
        GaussianGP(Matern32()).fit(X, np.ones(60)).stream()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lag": 0}, "lag must be a whole number from 1"),
        ({"lag": 5000}, "lag must be at most 1000"),
        ({"late": "drop"}, "late must be one of 'raise', 'ignore'"),
        ({"lag": 30, "memory": 20}, "memory must be 30 to"),
    ],
)
def test_options_are_checked(model, options, message):
    with pytest.raises(ValueError, match=message):
        model.stream(**options)


def test_streams_are_independent(model):
    one, two = model.stream(), model.stream()
    one.push(T[250:], Y[250:])
    assert two.n_readings == 0 and isinstance(two, Stream)
    same(two.push(T[250:], Y[250:]), model.stream().push(T[250:], Y[250:]))
