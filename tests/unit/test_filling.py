"""The truth where nothing was read: regular times, gaps, and curves that break off at them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from biasgp.analysis.filling import _distance, check_fill, fill_step, filled
from biasgp.analysis.fitting import Selection, Settings, fit
from biasgp.analysis.judging import examine
from biasgp.data.columns import Feature, Readings
from biasgp.inputs import MAX_GAPS, POINTS, places_in_gaps
from biasgp.messages import WrongUseError
from biasgp.report.study_figures import _broken


def readings(hours: np.ndarray, y: np.ndarray, origin: str = "2026-03-01T00:30:00", **more: object) -> Readings:
    time = Feature("time", ("time",), True, origin)
    kept = np.ones(len(y), dtype=bool)
    return replace(Readings("y", (time,), hours[:, None], y, kept, (), None, ()), **more)


@pytest.mark.parametrize("text, hours", [("1h", 1.0), ("15min", 0.25), ("1d 12h", 36.0), ("90 s", 0.025)])
def test_a_step_is_a_duration(text, hours):
    assert fill_step(text) == pytest.approx(hours)


def test_regular_times_are_whole_steps_of_the_clock():
    # The first reading is at half past midnight: with steps of an hour the series begins at one o'clock.
    hours = np.array([0.0, 1.3, 5.0])
    np.testing.assert_allclose(check_fill(readings(hours, hours), 1.0), [0.5, 1.5, 2.5, 3.5, 4.5])
    np.testing.assert_allclose(check_fill(readings(hours, hours), 2.0), [1.5, 3.5])


def test_a_zone_shifts_the_clock():
    hours = np.arange(5.0)
    zoned = Feature("time", ("time",), True, "2026-03-01T00:00:00", True, 0.5)
    there = replace(readings(hours, hours), features=(zoned,))
    np.testing.assert_allclose(check_fill(there, 1.0), [0.5, 1.5, 2.5, 3.5])


def test_too_many_times_are_refused():
    hours = np.array([0.0, 1.0, 1e6])
    with pytest.raises(WrongUseError, match="too many"):
        check_fill(readings(hours, hours), 1.0 / 3600.0)


def test_gaps_are_longer_than_usual():
    places = np.concatenate([np.arange(10.0), np.arange(30.0, 40.0)])
    inside = places_in_gaps(places)
    assert len(inside) == POINTS and inside.min() > 9.0 and inside.max() < 30.0
    assert len(places_in_gaps(np.arange(10.0))) == len(places_in_gaps(np.array([1.0]))) == 0
    irregular = np.concatenate([np.arange(5.0) + 40.0 * i for i in range(2 * MAX_GAPS)])
    assert len(places_in_gaps(irregular)) == POINTS * MAX_GAPS


def test_the_nearest_reading():
    np.testing.assert_allclose(
        _distance(np.array([-1.0, 0.4, 2.0, 9.0]), np.array([0.0, 1.0, 3.0])), [1.0, 0.4, 1.0, 6.0]
    )
    np.testing.assert_allclose(_distance(np.array([4.0]), np.array([1.0])), [3.0])
    assert np.isnan(_distance(np.array([4.0]), np.empty(0))).all()


def test_other_inputs_are_interpolated():
    rng = np.random.default_rng(0)
    hours = np.concatenate([np.arange(0.0, 30.0), np.arange(50.0, 80.0)])
    temperature = 0.1 * hours
    X = np.column_stack([hours, temperature])
    both = replace(
        readings(hours, np.sin(hours / 8.0) + 0.1 * rng.standard_normal(len(hours)), "2026-03-01T00:00:00"),
        features=(Feature("time", ("time",), True, "2026-03-01T00:00:00"), Feature("t_c", ("t_c",))),
        X=X,
    )
    settings = Settings("gp", "identity", "matern32")
    outcome = examine(Selection("t.csv"), settings, "t.csv", both, fit(both, settings, settings.split(both)))
    table = filled(outcome, 1.0)
    assert len(table) == 80 and table["time"][1] == "2026-03-01T01:00"
    np.testing.assert_allclose(table["t_c"], 0.1 * np.arange(80.0))
    assert table["std"][40] > 2.0 * table["std"][10] and table["gap"].max() == 10.0


def test_a_curve_breaks_off_at_a_gap():
    time = np.concatenate([np.arange(5.0), np.arange(30.0, 35.0)])
    x, mean, std = _broken(time, time, np.ones(10))
    assert len(x) == 11 and np.isnan(mean[5]) and np.isnan(std[5])
    np.testing.assert_array_equal(np.delete(mean, 5), time)
