"""What is left of a fit, before its work has been measured."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp.app.forecast import KNOWN, USUAL, Forecast, forecast


def part(readings, seconds, again=False, status="ok"):
    return {"status": status, "readings": readings, "seconds": seconds, "again": again}


@pytest.mark.parametrize("elapsed", [0.5, 10.0, 60.0])
def test_what_is_left_is_the_mean_of_durations_that_are_longer(elapsed):
    draws = np.exp(np.log(20.0) + 0.4 * np.random.default_rng(0).standard_normal(2_000_000))
    longer = draws[draws > elapsed]
    assert Forecast(20.0, 0.4).left(elapsed) == pytest.approx(longer.mean() - elapsed, rel=0.05)


def test_it_never_gets_to_nothing_and_grows_when_a_fit_takes_longer_than_any_before():
    left = [Forecast(20.0, 0.4).left(t) for t in (100.0, 1000.0, 1e5, 1e8)]
    assert left[0] > 5.0 and left == sorted(left) and np.isfinite(left).all()


def test_fits_of_the_project_tell_how_long_one_like_them_takes():
    before = [part(300, 4.0), part(300, 1.0, again=True), part(50_000, 99.0), part(300, 0.0, status="failed")]
    assert forecast([(300, False)], before) == Forecast(pytest.approx(4.0), KNOWN)
    assert forecast([(300, True)], before) == Forecast(pytest.approx(1.0), KNOWN)
    more = forecast([(1000, False)], before)
    assert 8.0 < more.typical < 45.0 and more.spread == KNOWN
    # Sensors one after the other; one is unlike all before.
    both = forecast([(300, False), (1_000_000, False)], before)
    assert both.spread == USUAL and both.typical > 80.0


def test_without_any_before_it_is_what_is_usual():
    assert forecast([(1400, False)], []).typical == pytest.approx(47.0)
    assert forecast([], []).typical == 1.0
