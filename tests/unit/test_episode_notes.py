"""Episodes in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from biasgp.estimators.episode_notes import described, notes
from biasgp.models.episodes import ERRATIC, RAMP, SHIFT, STEP, STUCK, Episode

Y = np.full(9, 462.0)
TIMES = {"start": "2003-05-17T02:00:00", "stop": "2003-05-18T08:00:00"}


def episode(kind: str, bias: float = -12.04, **more) -> Episode:
    return Episode(kind, **{"rows": (3, 4, 5), "log_odds": 40.0, "bias": bias, "bias_std": 1.0, **TIMES, **more})


@pytest.mark.parametrize(
    ("kind", "bias", "words"),
    [
        (STUCK, -3.0, "stuck at 462 ppb for 30 h from 2003-05-17 02:00"),
        (SHIFT, -12.04, "12 ppb too low for 30 h from 2003-05-17 02:00"),
        (SHIFT, 0.5, "0.5 ppb too high for 30 h from 2003-05-17 02:00"),
        (RAMP, 4.8, "drifted to 4.8 ppb too high over 30 h from 2003-05-17 02:00"),
        (ERRATIC, 1.0, "erratic for 30 h from 2003-05-17 02:00"),
        (STEP, -4.2, "4.2 ppb lower from 2003-05-17 02:00 to the end of the record"),
    ],
)
def test_each_kind_has_its_words(kind, bias, words):
    assert described(episode(kind, bias), "ppb", Y) == words


def test_without_a_unit_a_time_or_the_readings_what_is_known_is_told():
    by_number = {"start": 12.5, "stop": 40.0}
    assert described(episode(STUCK, **by_number)) == "stuck from 12.5 to 40"
    assert described(episode(SHIFT, **by_number)) == "12 too low from 12.5 to 40"
    assert described(episode(RAMP, 3.0, **by_number), "K") == "drifted to 3 K too high from 12.5 to 40"
    assert described(episode(SHIFT, stop="2003-05-17T02:00:30")) == "12 too low for 30 seconds from 2003-05-17 02:00"


def test_where_there_are_several_sensors_the_one_that_is_meant_is_named():
    stuck, step = episode(STUCK, sensor="B"), episode(STEP, -4.2, sensor="B 2", start="2003-06-03T10:00:00")
    assert described(stuck, "ppb", Y) == "sensor B: stuck at 462 ppb for 30 h from 2003-05-17 02:00"
    of_step, of_shift = notes((step, replace(episode(SHIFT, sensor="C"), log_odds=5.06)), (), "ppb", Y)
    assert of_step.evidence.startswith("From 2003-06-03 10:00 the level of sensor B 2 is 4.2 ppb lower, and stays so")
    assert of_shift.evidence.startswith("Either sensor C: 12 ppb too low for 30 h from 2003-05-17 02:00, or a true")


def test_durations_since_some_start_are_told_as_they_are():
    elapsed = {"start": "3600 seconds", "stop": "7200 seconds"}
    assert described(episode(SHIFT, **elapsed)) == "12 too low from 3600 seconds to 7200 seconds"


def test_a_step_is_noted_with_both_explanations():
    (note,) = notes((episode(STEP, -4.2, start="2003-06-03T10:00:00"),), (), "ppb", Y)
    assert note.evidence == (
        "From 2003-06-03 10:00 the level is 4.2 ppb lower, and stays so: a change of calibration or a true change; the "
        "readings cannot tell."
    )
    assert note.rows == (3, 4, 5)


def test_what_is_hardly_more_likely_than_a_change_of_the_signal_is_noted():
    doubtful = replace(episode(SHIFT), log_odds=5.06)
    (note,) = notes((doubtful, episode(RAMP), replace(episode(STUCK), log_odds=1.0)), (), "ppb")
    assert note.code == "episode-in-doubt"
    assert note.evidence.startswith("Either 12 ppb too low for 30 h from 2003-05-17 02:00, or a true change there")


def test_two_explanations_are_told_without_what_they_share():
    stuck, common = episode(STUCK), episode(SHIFT, 2.0, rows=(0, 1))
    ours, theirs = episode(SHIFT), episode(RAMP, 5.0, rows=(6, 7))
    (note,) = notes((stuck, common, ours), ((common, theirs),), "ppb", Y)
    assert note.code == "two-explanations" and set(note.rows) == {3, 4, 5, 6, 7}
    assert "Two explanations: 12 ppb too low for 30 h from 2003-05-17 02:00; or drifted to 5 ppb too high" in str(note)
    assert "stuck" not in str(note) and "2 ppb too high" not in str(note)


def test_an_episode_that_almost_pays_is_noted_beside_a_stuck_sensor():
    (note,) = notes((episode(STUCK),), ((episode(SHIFT),),))
    assert note.code == "possible-episode" and note.rows == (3, 4, 5)
    assert note.evidence.startswith("Taken for signal, but almost as likely a fault: 12 too low for 30 h")
