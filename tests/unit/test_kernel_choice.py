"""Which cycles and trends are added to a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp.kernels import Matern32
from biasgp.models.kernel_choice import Choice, choose_parts
from biasgp.response import Log, ScaledResponse, Scaling

PERIODS = {"daily": 24.0, "weekly": 168.0}


def chosen(hours: np.ndarray, y: np.ndarray, *more: np.ndarray, transform=None) -> Choice:
    scaling = Scaling.of(y) if transform is None else Scaling.of(y, transform)
    X, names = np.column_stack([hours, *more]), ["time", "temperature"][: 1 + len(more)]
    return choose_parts(Matern32(ard=True), X, ScaledResponse(y, scaling), names, 0, PERIODS)


def record(days: int, seed: int = 0, every: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Hours, and readings of a slow signal with outliers."""
    rng = np.random.default_rng(seed)
    hours = np.arange(0.0, 24.0 * days, every)
    y = 20.0 + np.sin(hours / 70.0) + 0.3 * rng.standard_normal(len(hours))
    y[rng.permutation(len(y))[: len(y) // 30]] += 10.0
    return hours, y


def test_a_daily_cycle_is_found_with_its_size_and_its_time():
    hours, y = record(20)
    choice = chosen(hours, y + 2.0 * np.cos(2.0 * np.pi * (hours - 14.0) / 24.0))
    (part,) = choice.parts
    assert part.name == "daily" and part.period == 24.0 and part.gain > 20.0
    assert part.size == pytest.approx(4.0, abs=0.5) and part.highest % 24.0 == pytest.approx(14.0, abs=1.0)
    assert "Periodic" in repr(choice.kernel) and choice.kernel.leaves[-1].held == {"period", "length_scale"}


def test_outliers_at_one_hour_are_no_cycle():
    hours, y = record(20)
    y = np.where(hours % 24.0 == 4.0, -5.0, y)
    assert "daily" not in [part.name for part in chosen(hours, y).parts]


def test_nothing_is_added_to_a_signal_without_cycles():
    assert [chosen(*record(20, seed)).parts for seed in range(2)] == [()] * 2


def test_a_weekly_cycle_beside_a_daily_one():
    hours, y = record(42, every=6.0)
    y = y + 2.0 * np.cos(2.0 * np.pi * hours / 24.0) + 2.0 * np.cos(2.0 * np.pi * hours / 168.0)
    assert {part.name for part in chosen(hours, y).parts} >= {"daily", "weekly"}


def test_a_trend_is_found_with_its_sign():
    rng = np.random.default_rng(1)
    hours = np.arange(0.0, 480.0, 4.0)
    y = 20.0 - 0.05 * hours + 0.3 * rng.standard_normal(len(hours))
    (part,) = chosen(hours, y).parts
    assert part.name == "trend" and part.size == pytest.approx(-24.0, abs=2.0)


def test_the_size_under_a_transform_is_in_the_unit_of_the_readings():
    hours, y = record(20)
    skewed = np.exp(0.1 * (y + 2.0 * np.cos(2.0 * np.pi * hours / 24.0)))
    daily = next(part for part in chosen(hours, skewed, transform=Log.of(skewed)).parts if part.name == "daily")
    assert daily.size == pytest.approx(np.median(skewed) * (np.exp(0.2) - np.exp(-0.2)), rel=0.3)


@pytest.mark.parametrize("days, every", [(3, 1.0), (40, 12.0)], ids=["too few days", "two readings a day"])
def test_what_readings_cannot_show_is_not_looked_for(days, every):
    assert "daily" not in chosen(*record(days, every=every)).tried


def test_other_inputs_stay_in_the_kernel():
    hours, y = record(20)
    temperature = np.random.default_rng(3).standard_normal(len(hours))
    y = y + temperature + 2.0 * np.cos(2.0 * np.pi * hours / 24.0)
    choice = chosen(hours, y, temperature)
    assert [part.name for part in choice.parts] == ["daily"] and choice.kernel.leaves[0].ard


def test_few_readings_choose_nothing():
    hours, y = record(20)
    assert chosen(hours[::12], y[::12]).parts == ()
