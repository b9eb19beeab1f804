"""Streams and what a person knows of their readings."""

from __future__ import annotations

import numpy as np
import pytest

import biasgp.stream
from biasgp import GaussianGP, SparseBiasGP
from biasgp.kernels import Matern32

pytestmark = pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")

N, FITTED, SIGMA = 330, 250, 0.1
SPIKE, SHIFT = 270, slice(290, 310)


def readings():
    rng = np.random.default_rng(0)
    t = np.arange(float(N))
    y = 5.0 + np.sin(t / 20.0) + SIGMA * rng.standard_normal(N)
    y[[40, 90, 170, SPIKE]] += 2.0
    y[SHIFT] += 0.9
    return t, y


T, Y = readings()


@pytest.fixture(scope="module")
def model():
    return SparseBiasGP(Matern32()).fit(T[:FITTED, None], Y[:FITTED])


def said(rows, value):
    verdict = np.full(N, np.nan)
    verdict[rows] = value
    return verdict[FITTED:]


def pushed(model, verdict=None):
    stream = model.stream(lag=10)
    return stream, stream.push(T[FITTED:], Y[FITTED:], verdict=verdict).settled


def test_verdicts_that_repeat_what_is_sure_change_nothing(model):
    _, before = pushed(model)
    verdict = said([], 0.0)
    sure = (before.outlier_probability > 1 - 1e-12) & (before.episode == "")
    verdict[before.number[sure]] = 1.0
    assert sure.any()
    _, after = pushed(model, verdict)
    for name in ("mean", "std", "bias"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), atol=1e-10)


def test_a_spike_that_is_known_to_be_true_is_signal(model):
    _, before = pushed(model)
    _, after = pushed(model, said([SPIKE], 0.0))
    at = SPIKE - FITTED
    assert before.outlier[at] and not after.outlier[at]
    assert after.outlier_probability[at] == 0.0 and after.bias[at] == 0.0
    assert after.mean[at] > before.mean[at] + 0.3


def test_a_reading_that_is_known_to_be_bad_teaches_nothing(model):
    at = 20
    _, after = pushed(model, said([FITTED + at], 1.0))
    missing = Y.copy()
    missing[FITTED + at] = np.nan
    without = model.stream(lag=10).push(T[FITTED:], missing[FITTED:]).settled
    assert after.outlier[at] and after.outlier_probability[at] == 1.0
    np.testing.assert_allclose(after.mean, without.mean, atol=1e-9)


def test_a_good_reading_ends_an_episode_and_none_begins_across_it(model):
    middle = 300
    _, found = pushed(model, said([middle], 0.0))
    assert found.episode[middle - FITTED] == ""
    starts = found.episode_start[found.episode == "shift"]
    assert not ((starts < middle) & (found.time[found.episode == "shift"] >= middle)).any()


def test_pending_readings_are_judged_at_once_and_settled_ones_by_the_refit(model):
    stream = model.stream(lag=10)
    stream.push(T[FITTED : SPIKE + 1], Y[FITTED : SPIKE + 1])
    number = SPIKE - FITTED
    assert stream.pending().outlier[stream.pending().number == number].all()
    stream.judge(number, 0.0)
    pending = stream.pending()
    assert not pending.outlier[pending.number == number].any()
    at_once = model.stream(lag=10)
    verdict = said([SPIKE], 0.0)[: SPIKE + 1 - FITTED]
    at_once.push(T[FITTED : SPIKE + 1], Y[FITTED : SPIKE + 1], verdict=verdict)
    np.testing.assert_allclose(pending.mean, at_once.pending().mean, atol=1e-9)
    stream.push(T[SPIKE + 1 : 285], Y[SPIKE + 1 : 285])
    learnt = stream.judge([3, 4], [1.0, np.nan]).refit()
    assert learnt.judge(number, np.nan) is stream  # settled, and still remembered


def test_the_refit_holds_what_was_said(model, monkeypatch):
    stream, _ = pushed(model, said([SPIKE], 0.0))
    seen = {}
    fit = SparseBiasGP.fit

    def watched(self, *args, **kwargs):
        seen.update(kwargs)
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(SparseBiasGP, "fit", watched)
    stream.refit()
    assert np.nansum(seen["verdict"] == 0.0) == 1


def test_verdicts_of_the_fit_hold_in_its_stream():
    verdict = np.full(FITTED, np.nan)
    verdict[FITTED - 3] = 1.0
    fitted = SparseBiasGP(Matern32()).fit(T[:FITTED, None], Y[:FITTED], verdict=verdict)
    stream = fitted.stream(lag=10)
    assert np.nansum(stream._memory.readings().verdict) == 1.0
    assert stream._live.open_verdicts()[-3, 2] == np.inf


def test_saved_verdicts_hold(model, tmp_path):
    stream = model.stream(lag=10)
    stream.push(T[FITTED : SPIKE + 3], Y[FITTED : SPIKE + 3], verdict=said([SPIKE], 0.0)[: SPIKE + 3 - FITTED])
    stream.save(tmp_path / "stream.skops")
    again = biasgp.stream.load(tmp_path / "stream.skops")
    assert not again.pending().outlier[-3]
    np.testing.assert_array_equal(again.pending().mean, stream.pending().mean)
    np.testing.assert_array_equal(again._memory.readings().verdict, stream._memory.readings().verdict)


@pytest.mark.parametrize(
    ("verdict", "message"),
    [([0.5], "row 0: 0.5 is none"), ([0.0, 1.0], r"one value per reading, shape \(1,\)"), (["good"], "verdict")],
)
def test_bad_verdicts_are_refused(model, verdict, message):
    with pytest.raises(ValueError, match=message):
        model.stream().push(T[FITTED], Y[FITTED], verdict=verdict)


def test_readings_that_are_not_remembered_cannot_be_judged(model):
    stream = model.stream(lag=10)
    with pytest.raises(ValueError, match="Reading 7 is not among the last 250"):
        stream.judge(7, 1.0)
    with pytest.raises(ValueError, match="whole numbers"):
        stream.judge(0.5, 1.0)


def test_a_plain_model_knows_no_verdicts():
    plain = GaussianGP(Matern32()).fit(T[:60, None], Y[:60])
    with pytest.raises(ValueError, match="SparseBiasGP"):
        plain.stream().push(60.0, 5.0, verdict=1.0)
