"""What is said of the clock of a record: gaps, repeats, jumps and changes of the offset."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from biasgp.data.columns import read_readings
from biasgp.data.table import Table


@pytest.fixture
def read(tmp_path):
    def read(times):
        path = tmp_path / "t.csv"
        path.write_text("time,y\n" + "".join(f"{t},{i % 7}.25\n" for i, t in enumerate(times)))
        return read_readings(Table.read(path), "y", ["time"])

    return read


def hourly(start, n=60):
    return pd.date_range(start, periods=n, freq="h").strftime("%Y-%m-%d %H:%M").tolist()


def test_a_regular_record_has_nothing_to_say(read):
    found = read(hourly("2024-05-01"))
    assert found.clock.step == 1.0 and not found.clock.gaps and not found.clock.notes


def test_gaps_are_listed(read):
    times = hourly("2024-05-01", 40)
    found = read(times[:10] + times[15:20] + times[30:])
    assert found.clock.gaps == ((9.0, 15.0), (19.0, 30.0))
    assert (
        "Times: a reading every 1 h, and 2 gaps, the longest of 11 h: 2024-05-01 19:00 to 2024-05-02 06:00."
        in found.notes
    )


def test_repeated_times_are_counted(read):
    times = hourly("2024-05-01")
    assert "Times: 2 readings have the time of another one." in read([*times, *times[-2:]]).notes


def test_a_clock_that_is_set_back(read):
    times = hourly("2024-05-01")
    found = read(times[:30] + times[20:])
    assert any("the clock goes back by 9 h after 2024-05-02 05:00 (row 30)" in note for note in found.notes)


@pytest.mark.parametrize("day, way", [("2024-03-30", "skips"), ("2024-10-26", "repeats")])
def test_daylight_saving_without_a_zone(read, day, way):
    local = pd.date_range(day, periods=60, freq="h", tz="Europe/Berlin").strftime("%Y-%m-%d %H:%M")
    said = " ".join(read(local.tolist()).notes)
    assert f"the clock {way} an hour after" in said and "no zone is given" in said


def test_daylight_saving_with_offsets_is_no_jump(read):
    local = [t.isoformat() for t in pd.date_range("2024-10-26", periods=60, freq="h", tz="Europe/Berlin")]
    found = read(local)
    np.testing.assert_allclose(found.X[:, 0], np.arange(60))
    assert not found.clock.notes
    assert any("Offsets change (UTC+01:00 and UTC+02:00): times are counted in UTC." in note for note in found.notes)


def test_a_missing_reading_on_a_summer_sunday_is_no_change_of_clocks(read):
    times = hourly("2024-07-06")
    assert not read(times[:26] + times[27:]).clock.notes


def test_irregular_and_shuffled_records_have_no_gaps(read):
    rng = np.random.default_rng(0)
    irregular = pd.Timestamp("2024-05-01") + pd.to_timedelta(np.cumsum(rng.exponential(3600, 60)).round(), unit="s")
    assert not read(irregular.strftime("%Y-%m-%d %H:%M:%S").tolist()).clock.gaps
    shuffled = read(rng.permutation(hourly("2024-05-01")).tolist())
    assert shuffled.clock.step == 1.0 and not shuffled.clock.notes
