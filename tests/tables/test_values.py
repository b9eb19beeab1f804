"""Detection limits, marks for missing readings, and the step of a display: found, said, and left alone on request."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp.data.columns import Beside, read_readings
from biasgp.data.marks import find_marks, find_resolution, is_coarse
from biasgp.data.table import Format, ReadOptions, Table, TableError


@pytest.fixture
def read(tmp_path):
    def read(cells, head="x;y", limits=None, **options):
        path = tmp_path / "t.csv"
        path.write_text(f"{head}\n" + "".join(f"{i};{cell}\n" for i, cell in enumerate(cells)), encoding="utf-8")
        return read_readings(Table.read(path, ReadOptions(**options)), "y", ["x"], beside=Beside(limits=limits))

    return read


NUMBERS = [f"{value:.2f}" for value in np.random.default_rng(0).normal(20, 3, 40)]


def test_limits_are_read_as_such(read):
    found = read(["<1,5", *(cell.replace(".", ",") for cell in NUMBERS), "≥ 40,25", "<=2"])
    assert found.censored is not None
    np.testing.assert_array_equal(found.censored[[0, 1, 41, 42]], [-1, 0, 1, -1])
    np.testing.assert_array_equal(found.y[[0, 41, 42]], [1.5, 40.25, 2.0])
    assert found.kept.all() and found.measured.sum() == 40


def test_a_column_can_say_which_readings_are_limits(read):
    found = read([f"{cell};{'U' if i in (3, 7) else '>' if i == 9 else ''}" for i, cell in enumerate(NUMBERS)],
                 head="x;y;qualifier", limits="qualifier")  # fmt: skip
    np.testing.assert_array_equal(np.flatnonzero(found.censored), [3, 7, 9])
    np.testing.assert_array_equal(found.censored[[3, 7, 9]], [-1, -1, 1])
    with pytest.raises(TableError, match=r"Column 'qualifier', row 2: 'maybe' does not say"):
        read([f"{cell};{'maybe' if i == 1 else ''}" for i, cell in enumerate(NUMBERS)], "x;y;qualifier", "qualifier")
    with pytest.raises(TableError, match="Row 1: column 'y' and --censored-column 'q' disagree"):
        read([f"{'<' if i == 0 else ''}{cell};{int(i == 0)}" for i, cell in enumerate(NUMBERS)], "x;y;q", "q")


def test_marks_for_missing_readings_are_found_and_said(read):
    cells = [*NUMBERS, *["-999"] * 3, *["9999.0"] * 4]
    found = read(cells)
    assert found.kept.sum() == 40 and np.isnan(found.y[40:]).all()
    said = " ".join(found.notes)
    assert "-999 (3 cells) and 9999 (4 cells) stand for missing readings; --no-marks" in said
    assert read(cells, marks=False).y[40] == -999.0


NOT_MARKS = {
    "one": [*range(40), -999],
    "two": [*range(40), -999, -999],
    "near the others": [*range(400, 998), 999, 999, 999],
    "no typical number": [*range(40), *[-1234] * 5],
    "zeros": [*range(1000, 1040), *[0] * 5],
    "beyond it there is more": [*range(40), *[999] * 5, 1500],
    "all the same": [-999] * 40,
}


@pytest.mark.parametrize("case", NOT_MARKS)
def test_a_number_that_may_be_a_reading_stays_one(case):
    assert find_marks(np.array(NOT_MARKS[case], dtype=float)) == ()


def test_a_mark_of_the_fit_is_one_in_a_new_table():
    import pandas as pd

    table = Table("new", pd.DataFrame({"y": ["-999", "5.5", "6.5"]}), usual={"y": Format(".", marks=(-999.0,))})
    np.testing.assert_array_equal(np.isnan(table.column("y").numbers()), [True, False, False])
    assert Format(".", marks=(-999.0,)).noted() == {"decimal": ".", "day_first": None, "marks": (-999.0,)}


@pytest.mark.parametrize("step", [0.5, 0.1, 0.25, 5.0, 0.0625, 1e-6])
def test_the_step_of_a_display_is_found(step):
    y = step * np.round(np.random.default_rng(1).normal(100, 12, 500)) + 0.3
    assert find_resolution(y) == pytest.approx(step)
    assert find_resolution(np.random.default_rng(1).normal(100, 12, 500)) is None
    assert find_resolution(np.array([1.0, 2.0, 1.0, 2.0])) is None


def test_a_step_counts_beside_the_scatter_alone(read):
    t = np.arange(200)
    smooth = 20 + 5 * np.sin(t / 30)
    assert is_coarse(0.5, np.round(2 * smooth) / 2)
    assert not is_coarse(0.01, smooth + np.random.default_rng(0).normal(0, 1, 200))
    found = read([f"{round(2 * value) / 2:.1f}" for value in smooth])
    assert found.resolution == 0.5 and found.rounding_variance == pytest.approx(0.25 / 12)
    assert any("steps of 0.5" in note for note in found.notes)
