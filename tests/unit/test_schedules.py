"""Schedules: flags at the same time of each day or week are one thing to tell, and others are none."""

from __future__ import annotations

import numpy as np

from biasgp.analysis.schedules import DAY, WEEK, find_schedules

DAYS = 60
HOURS = np.arange(DAYS * 24.0) + 20_000 * 24.0  # 2024-10-04, a Friday
KEPT = np.ones(len(HOURS), dtype=bool)


def flags(*rows: np.ndarray) -> np.ndarray:
    out = np.zeros(len(HOURS), dtype=bool)
    out[np.concatenate(rows).astype(int)] = True
    return out


def found(flagged: np.ndarray, hours: np.ndarray = HOURS):
    return find_schedules(hours, KEPT, flagged, np.where(flagged, -12.0, 0.0))


def test_a_check_each_night_is_one_schedule():
    nightly = np.arange(3, len(HOURS), 24)
    others = np.array([100, 777, 1001])
    (schedule,) = found(flags(nightly, others))
    assert (schedule.period, schedule.at, schedule.rows) == (DAY, 3.0, tuple(nightly.tolist()))
    assert schedule.told("ppb") == (
        "Every day at 03:00: 60 of 60 readings are flagged, with a mean bias of -12 ppb: a regular check?"
    )
    assert schedule.plain()["rows"][:2] == [4, 28]


def test_a_check_that_is_missed_now_and_then_and_drifts_by_minutes():
    rng = np.random.default_rng(0)
    nightly = np.arange(3, len(HOURS), 24)[rng.random(DAYS) > 0.2]
    (schedule,) = found(flags(nightly), HOURS + 0.05 * rng.standard_normal(len(HOURS)))
    assert len(schedule.rows) == len(nightly) and schedule.of == DAYS


def test_two_checks_a_day_and_one_a_week():
    at_three, at_fifteen = np.arange(3, len(HOURS), 24), np.arange(15, len(HOURS), 24)
    weekly = np.arange(3 * 24 + 9, len(HOURS), 168)  # Mondays
    schedules = found(flags(at_three, at_fifteen, weekly))
    assert [each.when for each in schedules] == ["every day at 03:00", "every day at 15:00", "every Monday at 09:00"]
    assert schedules[2].period == WEEK and schedules[2].rows == tuple(weekly.tolist())


def test_outliers_at_random_are_no_schedule():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert found(rng.random(len(HOURS)) < 0.1) == ()


def test_afternoons_that_are_flagged_in_part_are_none():
    afternoons = np.arange(15, len(HOURS), 24)[::3]
    assert found(flags(afternoons)) == ()


def test_too_few_days_tell_nothing():
    assert found(flags(np.arange(3, 72, 24))) == ()
