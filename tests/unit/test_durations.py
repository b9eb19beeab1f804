"""Durations of kernels: what may be given, and how they are shown."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biasgp.kernels import Linear, Matern32, Periodic
from biasgp.kernels.durations import as_text, shown, to_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6h", 21600.0),
        ("6.2 h", 22320.0),
        ("1d 12h", 129600.0),
        ("1h30min", 5400.0),
        ("90 Minutes", 5400.0),
        ("2 weeks", 1209600.0),
        ("10 hrs", 36000.0),
        ("500ms", 0.5),
        ("5 µs", 5e-6),
        ("1e3 s", 1000.0),
        (".5 day", 43200.0),
    ],
)
def test_text(text, seconds):
    assert to_seconds(text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize("text", ["", "6", "h", "6 m", "6 months", "-6h", "6h x", "3 5h", "1,5h", "nan s", "inf s"])
def test_text_that_is_no_duration(text):
    with pytest.raises(
        ValueError, match=r"Matern32: length_scale: .* is not a duration: write numbers with their units"
    ):
        Matern32(length_scale=text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (dt.timedelta(hours=6), "6h"),
        (pd.Timedelta("1.5h"), "90min"),
        (np.timedelta64(2, "W"), "14d"),
        (np.timedelta64(1500, "us"), "0.0015s"),
        (np.array([1, 36], dtype="m8[h]"), ("1h", "36h")),
        (["6h", 3.0], ("6h", 3.0)),
    ],
)
def test_timedeltas_are_kept_as_text(given, text):
    kernel = Matern32(length_scale=given, ard=True)
    assert kernel.length_scale == text
    assert hash(kernel) == hash(Matern32(length_scale=text, ard=True))


@given(st.timedeltas(min_value=dt.timedelta(microseconds=1)))
def test_text_of_a_timedelta_has_its_seconds(delta):
    assert to_seconds(as_text(delta)) == delta.total_seconds()


@given(st.floats(1e-12, 1e12))
def test_what_is_shown_can_be_read(seconds):
    assert to_seconds(shown(seconds)) == pytest.approx(seconds, rel=6e-4)


@pytest.mark.parametrize(
    "bad", [dt.timedelta(0), dt.timedelta(-1), "0h", np.timedelta64("NaT"), np.timedelta64(1, "M")]
)
def test_durations_are_positive_and_of_a_fixed_length(bad):
    with pytest.raises(ValueError, match="Periodic: period"):
        Periodic(period=bad)


@pytest.mark.parametrize("make", [lambda: Periodic(length_scale="6h"), lambda: Linear(variance=dt.timedelta(1))])
def test_parameters_without_a_unit_of_time(make):
    with pytest.raises(ValueError, match="must be a number, not a duration"):
        make()


def test_a_kernel_that_is_not_bound_has_no_seconds_yet():
    with pytest.raises(ValueError, match="length_scale has no value yet: bind"):
        Matern32(length_scale="6h", variance=1.0)(np.ones((3, 1)))
    with pytest.raises(ValueError, match="column 0 of X holds no times"):
        Matern32(length_scale="6h").bind(np.ones((3, 1)))


def test_columns_that_are_chosen_anew_are_not_known_to_hold_times():
    kernel = Matern32(length_scale="6h").in_seconds([True])
    assert repr(kernel) == "Matern32(length_scale='6h')"
    assert repr(kernel.on(1)) == "Matern32(columns=(1,), length_scale=2.16e+04)"
