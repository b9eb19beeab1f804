"""Nasty tables by name: each is read right, or refused in one line that says where and what to do."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from biasgp.data.columns import read_readings
from biasgp.data.table import Format, ReadOptions, Table, TableError

NAN = np.nan
OPEN = r"Column 'y', row \d+: .* could be .*--decimal point or --decimal comma"


@pytest.fixture
def read(tmp_path):
    def read(content, target=None, features=None, **options):
        path = tmp_path / "t.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_readings(Table.read(path, ReadOptions(**options)), target, features)

    return read


def refused(message, action):
    with pytest.raises(TableError, match=message) as refusal:
        action()
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 600


# Cells of the target, with | between; what they are, or what the refusal says. Separator ; and x = 0, 1, 2 …
NUMBERS = {
    "thousands beside whole numbers": ("950|960|970|1,010|1,020", [950, 960, 970, 1010, 1020]),
    "thousands or decimals": ("950|961|973|1,013|1,021", OPEN),
    "three decimals or thousands": ("1,013|1,012|1,015|1,018|1,011", OPEN),
    "decimal commas": ("3,1|3,25|4,0|5,125|1,010", [3.1, 3.25, 4.0, 5.125, 1.01]),
    "a leading zero": ("0,123|0,456|0,789|1,010|1,013", [0.123, 0.456, 0.789, 1.01, 1.013]),
    "several commas": ("1,234,567|2,345,678|950|1,010|5", [1234567, 2345678, 950, 1010, 5]),
    "comma before point": ("7,123.4|7,124.5|950|980|7,000", [7123.4, 7124.5, 950, 980, 7000]),
    "unmarked thousands": ("1500|1,234|1,235|1,236|2500", [1500, 1.234, 1.235, 1.236, 2500]),
    "unmarked thousands and trailing zeros": ("1500|1,230|1,235|1,236|2500", OPEN),
    "unmarked four digits beside ten thousands": ("1500|10,234|950|10,230|20,500", [1500, 10234, 950, 10230, 20500]),
    "points for thousands": ("950|1.010|980|1.020|970", [950, 1010, 980, 1020, 970]),
    "points for thousands or decimals": ("950|1.013|981|1.021|973", OPEN),
    "points for thousands, decimal commas": ("1.010,5|950|980|1.020|970", [1010.5, 950, 980, 1020, 970]),
    "several points": ("1.234.567|2.345.678|950|1.010|5", [1234567, 2345678, 950, 1010, 5]),
    "three decimals": ("1.013|1.012|1.015|1.018|1.011", [1.013, 1.012, 1.015, 1.018, 1.011]),
    "three decimals and zero": ("0|1.010|1.250|2.500|3.125", [0, 1.01, 1.25, 2.5, 3.125]),
    "three decimals and a stand-in": ("-999|1.010|1.250|2.500|3.125", [-999, 1.01, 1.25, 2.5, 3.125]),
    "both marks, three digits": ("1.010|1,010|1.020|1,020|5", OPEN),
    "both marks, as decimals": ("1.5|1.6|1,7|1.8|1.9", r"row 3: '1,7' is not a number with a decimal point"),
    "both marks, as decimals, the other way": (
        "1,5|1,6|1.7|1,8|1,9",
        r"row 3: '1.7' is not a number with a decimal comma",
    ),
    "half and half": ("1,5|1.6|1,7|1.8|1,9|2.5", "not a number with a decimal"),
    "spaces": ("1 010|1 020,5|950|12 345|5", [1010, 1020.5, 950, 12345, 5]),
    "no-break spaces": ("1\u00a0010|1\u00a0020|950|12\u00a0345|5", [1010, 1020, 950, 12345, 5]),
    "thin spaces": ("1\u202f010|1\u2009020.5|950|12\u202f345|5", [1010, 1020.5, 950, 12345, 5]),
    "apostrophes": ("1'010|1'020.5|950|12'345|5", [1010, 1020.5, 950, 12345, 5]),
    "Swiss": ("1’010|1’020.5|950|12’345|5", [1010, 1020.5, 950, 12345, 5]),
    "Indian": ("12,34,567|1|2|3|4|5", "row 1: '12,34,567' is not a number"),
    "groups of two": ("1 01|1|2|3|4|5", "row 1: '1 01' is not a number"),
    "two kinds of groups": ("1 010'000|1|2|3|4|5", "row 1: .* is not a number"),
    "minus": ("−12|−13,5|14|15|16", [-12, -13.5, 14, 15, 16]),
    "en dash": ("–12|–13|14|15|16", [-12, -13, 14, 15, 16]),
    "plus": ("+12|+13|14|15|16", [12, 13, 14, 15, 16]),
    "blanks around": (" 12 |\u00a013|14 |15|16", [12, 13, 14, 15, 16]),
    "exponents": ("1e3|1E+05|2.5e-3|4|5", [1000, 1e5, 0.0025, 4, 5]),
    "exponents with commas": ("1,5e3|1E+05|2,5e-3|4|5", [1500, 1e5, 0.0025, 4, 5]),
    "thousands with exponents": ("1,010e3|1,5|2,5|3|4", [1010, 1.5, 2.5, 3, 4]),
    "open ends": ("1.|.5|-.5|2.|3", [1, 0.5, -0.5, 2, 3]),
    "open comma": ("1,|1|2|3|4|5", "row 1: '1,' is not a number"),
    "leading zeros": ("007|008|009|010|011", [7, 8, 9, 10, 11]),
    "percent, one": ("12%|13|14|15|16|17", "Column 'y', row 1: '12%' is not a number"),
    "percent, all": ("12%|13%|14%|15%|16%", "Column 'y' is mostly not numbers.*row 1, is '12%'"),
    "currency": ("$12|$13|$14|$15|$16", "Column 'y' is mostly not numbers.*'\\$12'"),
    "euros": ("12 €|13 €|14 €|15 €|16 €", "Column 'y' is mostly not numbers.*'12 €'"),
    "below a limit": ("<0.5|< 0.5|1.5|1.6|1.7|1.8|1.9|>9", [0.5, 0.5, 1.5, 1.6, 1.7, 1.8, 1.9, 9.0]),
    "below nothing": ("<LOD|1.5|1.6|1.7|1.8|1.9", "Column 'y', row 1: '<LOD' is not a number"),
    "a unit": ("12 ppb|13 ppb|14 ppb|15 ppb|16 ppb", "Column 'y' is mostly not numbers.*'12 ppb'"),
    "degrees": ("12°|13°|14°|15°|16°", "Column 'y' is mostly not numbers"),
    "underscores": ("1_000|1_001|5|6|7|8|9|10|11|12", "row 1: '1_000' is not a number"),
    "hexadecimal": ("0x1F|0x1E|0x1D|0x1C|0x1B", "Column 'y' is mostly not numbers.*'0x1F'"),
    "full width": ("１２|１３|１４|１５|１６", "Column 'y' is mostly not numbers.*'１２'"),
    "Arabic digits": ("١٢|١٣|١٤|١٥|١٦", "Column 'y' is mostly not numbers"),
    "superscript": ("5²|5|6|7|8|9", "row 1: '5²' is not a number"),
    "fractions": ("½|5|6|7|8|9", "row 1: '½' is not a number"),
    "infinity": ("inf|1|2|3|4", "row 1: inf is too large"),
    "minus infinity": ("1|-Infinity|2|3|4", "row 2: -Infinity is too large"),
    "too large": ("1e400|1|2|3|4", "row 1: 1e400 is too large"),
    "very large": ("1e101|1|2|3|4", "row 1: 1e101 is too large"),
    "three hundred digits": ("1" * 300 + "|1|2|3|4", "row 1: 1+… is too large"),
    "tiny": ("1e-400|1|2|3|4", [0, 1, 2, 3, 4]),
    "trailing minus": ("5-|1|2|3|4|6", "row 1: '5-' is not a number"),
    "bookkeeping": ("(5)|1|2|3|4|6", r"row 1: '\(5\)' is not a number"),
    "two signs": ("--5|1|2|3|4|6", "row 1: '--5' is not a number"),
    "a formula": ("=1+1|1|2|3|4|6", "row 1: '=1\\+1' is not a number"),
    "an error of a spreadsheet": ("#REF!|1|2|3|4|6", "row 1: '#REF!' is not a number"),
    "a zero-width space": ("1\u200b2|1|2|3|4|6", "row 1: .*is not a number"),
    "a byte-order mark within": ("1|2|\ufeff3|4|5|6", r"row 3: '\\ufeff3' is not a number"),
    "words for nothing": ("NA|null|1|2|3|4|-|--|?|n/a|#N/A|—|5", [NAN, NAN, 1, 2, 3, 4, *[NAN] * 6, 5]),
    "a header repeated": ("1|2|3|y|4|5", "row 4: 'y' is not a number"),
    "truth values": ("1|2|True|3|4|5", "row 3: 'True' is not a number"),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers(read, case):
    cells, expected = NUMBERS[case]
    content = "x;y\n" + "".join(f"{i};{cell}\n" for i, cell in enumerate(cells.split("|")))
    if isinstance(expected, str):
        refused(expected, lambda: read(content))
        refused(expected, lambda: read(content, "y", ["x"]))
    else:
        np.testing.assert_allclose(read(content).y, expected, rtol=1e-12)


SAID = {
    "thousands": ("950|960|970|1,010", r"commas were read as thousands marks \('1,010' is 1010\); --decimal comma"),
    "points": ("950|960|970|1.010", r"points were read as thousands marks \('1.010' is 1010\); --decimal point"),
    "spaces": ("950|960|970|1 010", r"spaces were read as thousands marks \('1 010' is 1010\)\."),
    "one slip": ("1,5|" + "|".join(f"{i},125" for i in range(1, 9)), "commas were read as decimal marks"),
    "three decimals": (
        "1.013|1.012|1.015|1.018",
        r"points were read as decimal marks \('1.013' is 1.013\); --decimal comma",
    ),
    "beyond 2^53": ("1|9007199254740993|3|4", r"row 2: 9007199254740993 was rounded to 9007199254740992; .*2\^53"),
    "beyond -2^53": ("1|2|-9007199254740993|4", "row 3: -9007199254740993 was rounded to -9007199254740992"),
    "beyond 2^53, in groups": ("1|9,007,199,254,740,993|3|4", "row 2: 9007199254740993 was rounded to"),
    "beyond 2^53, as floats are": ("1|9007199254740994|9007199254740993.25|1e30|18014398509481984", ""),
    "nothing to say": ("1,5|1,25|1,125|3|4", ""),
    "nothing to say of points": ("1.5|1.25|1.125|3|4", ""),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_decided_is_said(read, case):
    cells, words = SAID[case]
    rows = [*cells.split("|"), *["955"] * (5 - len(cells.split("|")))] if "1010" in words else cells.split("|") * 2
    found = read("x;y\n" + "".join(f"{i};{cell}\n" for i, cell in enumerate(rows)))
    told = [note for note in found.notes if note.startswith("Column 'y'")]
    if words:
        with pytest.raises(AssertionError, match=words):
            raise AssertionError(told[0])
    else:
        assert told == []


@pytest.mark.parametrize("decimal, value", [("comma", 1.013), (",", 1.013), ("point", 1013.0), (".", 1013.0)])
def test_the_option_decides(read, decimal, value):
    content = "x;y\n" + "".join(f"{i};1,01{i}\n" for i in range(6))
    assert read(content, decimal=decimal).y[3] == value
    refused("--decimal must be point or comma, got 'x'", lambda: read(content, decimal="x"))


def test_other_columns_decide_what_one_leaves_open(read):
    y = read("x;y\n" + "".join(f"{i},5;1,01{i}\n" for i in range(6))).y
    np.testing.assert_allclose(y, 1.01 + 0.001 * np.arange(6))
    y = read("x;y\n" + "".join(f"{i}.5;1,01{i}\n" for i in range(6))).y
    np.testing.assert_allclose(y, 1010.0 + np.arange(6))


@pytest.mark.parametrize(
    "mark, cell", [("-200", "-200,0"), ("-9999.9", "-9999,9"), ("-1.000", "-1.000"), ("bad", "BAD")]
)
def test_marks_for_missing_values_are_read_like_the_column(read, mark, cell):
    content = "x;y\n" + "".join(f"{i};{value}\n" for i, value in enumerate(["1,5", "2,5", cell, "3,5", "4,25", "5,5"]))
    np.testing.assert_array_equal(np.isnan(read(content, na=[mark]).y), np.arange(6) == 2)


def test_a_mark_for_missing_values_proves_nothing(read):
    content = "x;y\n" + "".join(
        f"{i};{value}\n" for i, value in enumerate(["-9999", "1,234", "1,235", "1,236", "1,237"])
    )
    refused(OPEN, lambda: read(content, na=["-9999"]))


def test_a_new_table_is_read_as_that_of_the_fit(tmp_path):
    frame = pd.DataFrame({"y": ["1,013", "1,012"], "date": ["03/04/2005", "03/05/2005"]})
    table = Table("new", frame, usual={"y": Format(","), "date": Format(day_first=True)})
    np.testing.assert_array_equal(table.column("y").numbers(), [1.013, 1.012])
    assert list(pd.DatetimeIndex(table.column("date").times().values).month) == [4, 5]
    # What the cells themselves say comes first.
    clear = Table("new", pd.DataFrame({"y": ["1,013.5", "2.5"]}), usual={"y": Format(",")})
    np.testing.assert_array_equal(clear.column("y").numbers(), [1013.5, 2.5])


def test_groups_of_a_table_are_read_like_the_whole():
    table = Table(
        "all", pd.DataFrame({"y": ["1,5", "2,5", "1,013", "1,014"], "d": ["13/4/05", "1/4/05", "1/5/05", "1/6/05"]})
    )
    part = table.part("some", np.array([2, 3]), ["y", "d"])
    np.testing.assert_array_equal(part.column("y").numbers(), [1.013, 1.014])
    assert list(pd.DatetimeIndex(part.column("d").times().values).month) == [5, 6]


def hourly(form, n=6):
    return "|".join(form.format(h=h) for h in range(n))


# Cells of the time, with | between; hours since the first, or what the refusal says when the column is chosen.
TIMES = {
    "CEST": (hourly("2005-07-30 {h:02d}:00 CEST"), range(6)),
    "summer to winter": (
        "2005-10-30 01:00 CEST|2005-10-30 02:00 CEST|2005-10-30 02:00 CET|2005-10-30 03:00 CET",
        range(4),
    ),
    "EST": (hourly("07/30/2005 {h}:00 EST"), range(6)),
    "UTC+2": (hourly("2005-07-30 {h:02d}:00 UTC+2"), range(6)),
    "GMT-03:30": (hourly("2005-07-30 {h:02d}:00 GMT-03:30"), range(6)),
    "offset and name": (hourly("2005-07-30T{h:02d}:00+02:00[Europe/Berlin]"), range(6)),
    "Berlin": (hourly("2005-07-30 {h:02d}:00 Europe/Berlin"), range(6)),
    "Berlin, back to winter": (
        "|".join(f"2005-10-30 {h} Europe/Berlin" for h in ("01:00", "02:00", "02:00", "03:00", "04:00")),
        range(5),
    ),
    "Berlin, the hour that is not": (
        hourly("2005-03-27 {h:02d}:30 Europe/Berlin"),
        r"row 3: .*skipped or repeated that hour",
    ),
    "Berlin, the hour that may be twice": (
        "2005-10-30 02:30 Europe/Berlin|" + hourly("2005-11-01 {h:02d}:00 Europe/Berlin"),
        "row 1: .*repeated",
    ),
    "no such zone": (
        hourly("2005-07-30 {h:02d}:00 Europe/Atlantis"),
        "row 1: .*'Europe/Atlantis' has no single offset",
    ),
    "a path for a zone": (hourly("2005-07-30 {h:02d}:00 a/../../etc/passwd"), "row 1: .*is not a time"),
    "IST": (hourly("2005-07-30 {h:02d}:00 IST"), r"row 1: .*'IST' has no single offset.*\+05:30"),
    "BST": (hourly("2005-07-30 {h:02d}:00 BST"), "row 1: .*'BST' has no single offset"),
    "CST alone": (hourly("2005-07-30 {h:02d}:00 CST"), "row 1: .*'CST' has no single offset"),
    "CST beside CDT": ("2005-10-30 01:00 CDT|2005-10-30 01:00 CST|2005-10-30 02:00 CST", range(3)),
    "an offset of 99 hours": (hourly("2005-07-30 {h:02d}:00 +99:00"), "row 1: .*has no single offset"),
    "some without zone": (hourly("2005-07-30 {h:02d}:00 CET") + "|2005-07-30 06:00", "row 7: .* has no time zone"),
    "mixed forms": (hourly("2005-07-30 {h:02d}:00") + "|" + hourly("30.7.2005 {h}:00", 5), "row 7: .*is not a time"),
    "one other form": (hourly("2005-07-30 {h:02d}:00") + "|30.7.2005 6:00", "row 7: '30.7.2005 6:00' is not a time"),
    "one short year": (hourly("2005-07-30 {h:02d}:00") + "|05-07-30 06:00", "row 7: '05-07-30 06:00' is not a time"),
    "far future": ("2005-07-30|2005-07-31|9999-12-31|2005-08-02|2005-08-03", [0, 24, NAN, 72, 96]),
    "far past": ("0001-01-01|30.07.2005|31.07.2005|1.8.2005|2.8.2005|3.8.2005", "row 1"),
    "far past, alike": ("01.01.0001|30.07.2005|31.07.2005|01.08.2005|02.08.2005", [NAN, 0, 24, 48, 72]),
    "a far time with a zone": ("9999-12-31T00:00Z|" + hourly("2005-07-30T{h:02d}:00Z"), [NAN, *range(6)]),
    "four centuries": ("1700-01-01|1800-01-01|1900-01-01|2000-01-01|2100-01-01", "1700"),
    "now": ("now|" + hourly("2005-07-30T{h:02d}:00"), "row 1: 'now' is not a time"),
    "only a year": ("2005|" + hourly("2005-07-30T{h:02d}:00"), "row 1: '2005' is not a time"),
    "months": ("2005-01|2005-02|2005-03|2005-04", [0, 744, 1416, 2160]),
    "the 31st of June": (
        "31.6.2005|30.5.2005|29.5.2005|28.5.2005|27.5.2005|26.5.2005",
        "row 1: '31.6.2005' is not a time",
    ),
    "the 29th of February": ("29.2.2004|1.3.2004|2.3.2004|3.3.2004", [0, 24, 48, 72]),
    "no 29th of February": ("28.2.2005|29.2.2005|1.3.2005|2.3.2005|3.3.2005", "row 2: '29.2.2005' is not a time"),
    "the end of the day": ("2005-07-30 23:00|2005-07-30 24:00|2005-07-31 01:00", range(3)),
    "one clock without its colon": (hourly("2005-07-30 {h:02d}:00") + "|2005-07-30 0630", [*range(6), 6.5]),
    "one clock with one colon of two": (hourly("2005-07-30T{h:02d}:00") + "|2005-07-30T06:3036", [*range(6), 6.51]),
    "clocks without colons": (hourly("2005-07-30 {h:02d}00+0200"), range(6)),
    "seconds with a comma": (hourly("2005-07-30 {h:02d}:00:36,0Z"), range(6)),
    "hour 25": (hourly("2005-07-30 {h:02d}:00") + "|2005-07-30 25:00", "row 7: .*is not a time"),
    "minute 60": (hourly("2005-07-30 {h:02d}:00") + "|2005-07-30 01:60", "row 7: .*is not a time"),
    "noon and midnight": ("7/30/2005 12:00 AM|7/30/2005 1:00 AM|7/30/2005 12:00 PM|7/30/2005 1:00 PM", [0, 1, 12, 13]),
    "13 PM": (
        "7/30/2005 13:00 PM|" + hourly("7/30/2005 {h}:30 AM", 12).replace(" 0:", " 12:"),
        "row 1: .*is not a time",
    ),
    "RFC 2822": (hourly("Sat, 30 Jul 2005 {h:02d}:00:00 GMT"), range(6)),
    "September": (hourly("30 Sept 2005 {h:02d}:00"), range(6)),
    "another language": (hourly("30 März 2005 {h:02d}:00"), "row 1: .*is not"),
    "no such month": (hourly("30 Jum 2005 {h:02d}:00"), "row 1: .*is not"),
    "day of 24/3": ("24/3/2005|25/3/2005|26/3/2005", [0, 24, 48]),
    "month of 3/24": ("3/24/2005|3/25/2005|3/26/2005", [0, 24, 48]),
    "both orders": ("24/3/2005|3/25/2005|26/3/2005|3/27/2005", "is not a time"),
    "Arabic digits": (hourly("٢٠٠٥-07-30 {h:02d}:00"), "row 1: .*is not"),
    "endless": (
        "2005-07-30 " + "0" * 5000 + "|" + hourly("2005-07-30 {h:02d}:00"),
        "row 1: .*… *' is not a time|row 1: .*is not a time",
    ),
}


@pytest.mark.parametrize("case", TIMES)
def test_times(read, case):
    cells, expected = TIMES[case]
    rows = cells.split("|")
    rows += [""] * (5 - len(rows)) if not isinstance(expected, str) else []
    rows = rows if "back to winter" in case else rows * 2  # a clock that goes back must do so once
    content = "time;x;y\n" + "".join(f"{cell};{i};{i % 4}.5\n" for i, cell in enumerate(rows))
    if expected == "1700":
        hours = read(content, "y", ["time"]).X[:, 0]
        assert np.diff(hours[:5]).min() > 24 * 365 * 99
    elif isinstance(expected, str):
        refused(expected, lambda: read(content, "y", ["time"]))
    else:
        hours = read(content + ";0;1\n" * 5, "y", ["time", "x"]).X[: len(list(expected)), 0]
        np.testing.assert_allclose(hours, list(expected))


@pytest.mark.parametrize("case", ["IST", "mixed forms", "no such zone", "another language", "both orders"])
def test_a_time_that_a_guess_leaves_out_is_said(read, case):
    rows = TIMES[case][0].split("|") * 2
    content = "time;x;y\n" + "".join(f"{cell};{i};{i % 4}.5\n" for i, cell in enumerate(rows))
    found = read(content)
    assert found.names == ["x"]
    assert any(note.startswith("Not used: Column 'time', row ") for note in found.notes)


def test_the_order_of_day_and_month_can_be_given(read):
    content = "date;y\n" + "".join(f"03/{d:02d}/2005;{d % 4}\n" for d in range(1, 9))
    assert read(content, day_first=False).X[1, 0] == 24.0
    assert read(content, day_first=True).X[1, 0] == 24.0 * 31
    assert any("the month was taken to come first (--day-first if not)" in note for note in read(content).notes)
    refused(
        "row 13: .*with the day first",
        lambda: read(
            "date;y\n" + "".join(f"3/{d}/2005;{d % 4}\n" for d in range(1, 15)), "y", ["date"], day_first=True
        ),
    )


def test_abbreviations_are_said(read):
    found = read("time;y\n" + "".join(f"2005-07-30 {h:02d}:00 CEST;{h % 4}\n" for h in range(6)))
    assert "Column 'time': CEST was read as UTC+02:00." in found.notes
    assert found.features[0].offset_hours == 2.0


ROWS = [f"2005-03-{i + 1:02d},{i},{i % 5}.5" for i in range(30)]


def lines(changes=None, head="time,a,y", end="\n"):
    rows = [(changes or {}).get(i, row) for i, row in enumerate(ROWS)]
    return end.join([head, *rows]) + end


GOOD = {
    "CR": lines(end="\r"),
    "CR LF": lines(end="\r\n"),
    "CR CR LF": lines(end="\r\r\n"),
    "LF CR": lines(end="\n\r"),
    "mixed line ends": lines().replace("\n", "\r\n", 7).replace("\n", "\r", 3),
    "no last line end": lines().rstrip("\n"),
    "blank lines": lines().replace("\n", "\n\n") + "\n \n\n",
    "blank lines first": "\n \n" + lines(),
    "two byte-order marks": "\ufeff\ufeff" + lines(),
    "UTF-16": lines().encode("utf-16"),
    "UTF-16, big end first": b"\xfe\xff" + lines().encode("utf-16-be"),
    "UTF-32": lines().encode("utf-32"),
    "UTF-16, Chinese and Japanese": (
        "note,time,a,y\n" + "".join(f"最需紀　　　　一一一一,{row}\n" for row in ROWS)
    ).encode("utf-16"),
    "Excel's hint": "sep=,\n" + lines(),
    "a separator at each end": "".join(f"{line},\n" for line in lines().splitlines()),
    "a separator at the end of the rows": "time,a,y\n" + "".join(f"{row},\n" for row in ROWS),
    "a separator at the end of the header": lines(head="time,a,y,"),
    "blank names": lines(head="time,a,y,  , ").replace(".5\n", ".5,,\n"),
    "quoted cells": "".join('"' + line.replace(",", '","') + '"\n' for line in lines().splitlines()),
    "blanks after separators": lines().replace(",", ", "),
    "a name over two lines": lines(head='time,a,"y"').replace('"y"', '"y\n"'),
    "decimal commas in quotes": "time,a,y\n" + "".join(f'2005-03-{i + 1:02d},{i},"{i % 5},5"\n' for i in range(30)),
    "a cell of two lines": "note,time,a,y\n"
    + "".join(f'"two\nlines, {i}; ""quoted""",{row}\n' for i, row in enumerate(ROWS)),
    "a cell of a table": "note,time,a,y\n" + "".join(f'"from 3 to 5\nand, then\n",{row}\n' for row in ROWS),
    "two lines between decimal commas": "time,a,note,y\n"
    + "".join(f'2005-03-{i + 1:02d},"{i},0","two\nlines, of text","{i % 5},5"\n' for i in range(30)),
    "a quote within": "note,time,a,y\n" + "".join(f'5" pipe,{row}\n' for row in ROWS),
    "one row of blanks": lines() + ",,\n",
    "tabs": lines().replace(",", "\t"),
    "pipes": lines().replace(",", "|"),
    "semicolons and commas": lines().replace(",", ";").replace(".5", ",5"),
    "a vertical tab": "note,time,a,y\n" + "".join(f"a\x0bb\x0c\u2028\x85,{row}\n" for row in ROWS),
    "a comment": "# from the logger\n" + lines(),
    "comments": "# from the logger, 5, x\n#\n" + lines({9: ROWS[9] + "\n# serviced, by me"}) + "# end\n",
    "a comment as wide as the table": "# a, b, c\n" + lines(),
    "a header in a comment": "# Station 5\n" + lines(head="# time,a,y"),
    "a 131,072 character cell": "note,time,a,y\n"
    + "".join(f"{'x' * 131072 if i == 3 else ''},{row}\n" for i, row in enumerate(ROWS)),
}


@pytest.mark.parametrize("case", GOOD)
def test_whole_tables(read, case):
    found = read(GOOD[case])
    assert found.names == ["time", "a"] and found.target == "y"
    assert found.kept.sum() == 30
    np.testing.assert_allclose(found.X[:30], np.column_stack([24.0 * np.arange(30), np.arange(30)]))
    np.testing.assert_allclose(found.y[:30], np.arange(30) % 5 + 0.5)


BROKEN = {
    "no header": (lines().split("\n", 1)[1], "first line of t.csv reads like the rows.*--no-header.*--header"),
    "numbers only, no header": ("1,2\n3,4\n5,6\n7,9\n", "--no-header"),
    "years for names": ("2001;2002\n3.5;4.5\n5.5;6.5\n", "'2001', '2002'.*--header if these are the names"),
    "no header, with two equal readings": ("1,2,2\n3,4,5\n6,7,8\n", "two columns '2'.*--no-header"),
    "no header, months by name": ("1 May 2005;2\n2 May 2005;3\n3 May 2005;5\n", "--no-header"),
    "a quote left open": (lines({9: '2005-03-10,"9,4.5'}), "line 11: a quote is opened in this row and never closed"),
    "a quote closed much later": (
        lines({9: '2005-03-10,"9,4.5', 24: '2005-03-25,24",4.5'}),
        "line 11: a quote .* closed in line 26",
    ),
    "a quote closed in the next line": (
        lines({9: '2005-03-10,"9,4.5', 10: '2005-03-11,10",4.5'}),
        "line 11: a quote .* closed in line 12",
    ),
    "a quote in the header": (lines(head='time,"a,y'), "line 1: a quote is opened"),
    "text after a quote": (lines({9: '2005-03-10,"9"x,4.5'}), "line 11: something follows a closing quote"),
    "a long cell": (lines({9: f"2005-03-10,{'9' * 131073},4.5"}), "line 11: a cell has more than 131,072 characters"),
    "a long header": (lines(head="time,a," + "y" * 10**6), "line 1: a cell has more than 131,072 characters"),
    "a long quoted cell": (lines({9: f'2005-03-10,"{"x" * 131073}",4.5'}), "line 11: a cell has more"),
    "zero bytes": (lines({9: "2005-03-10,\x009,4.5"}), r"zero bytes \(line 11\)"),
    "a byte-order mark within": (lines() + "\ufeff" + lines(), "row 31: .*is not"),
    "a row too long": (lines({9: "2005-03-10,9,4,5"}), "line 11 has 4 cells, but the first line has 3"),
    "a row too short": (lines({9: "2005-03-10,4.5"}), "line 11 has 2 cells, but the first line has 3"),
    "names of rows": (
        "a,y\n" + "".join(f"{i},{i},{i % 3}\n" for i in range(9)),
        "line 2 has 3 cells, but the first line has 2",
    ),
    "header too long": (lines(head="time,a,y,z"), "line 2 has 3 cells, but the first line has 4"),
    "a last line of words": (lines() + "end of file\n", "line 32 has 1 cells"),
    "equal names": (lines(head="time,y,y"), "two columns 'y'"),
    "equal names but for blanks": (lines(head="time, y,y "), "two columns 'y'"),
    "a name that we would give": (lines(head=",column 1,y"), "two columns 'column 1'"),
    "one column": ("y\n1\n2\n3\n4\n5\n", "no column to explain 'y' by"),
    "only a header": ("time,a,y\n", "header but no rows"),
    "only one line of numbers": ("1,2,3\n", "header but no rows"),
    "decimal commas between commas": ("t,y\n" + "".join(f"{i},{i},5\n" for i in range(9)), "line 2 has 3 cells"),
    "nothing but a mark": ("\ufeff", "is empty"),
    "nothing but blank lines": ("\ufeff\r\n \r\n", "is empty"),
    "a web page": ("<!DOCTYPE html>\n<html><body>\n<p>Not found</p>\n", "no numeric column"),
    "random bytes": (
        bytes(np.random.default_rng(0).integers(1, 256, 500, dtype=np.uint8)),
        "not utf-8 text|zero bytes",
    ),
    "UTF-16 with a byte too many": (
        lines({9: "2005-03-10,?,4.5"}).encode("utf-16").replace(b"?", b"9\x00", 1),
        r"damaged UTF-16 text \(line 11\): a byte is missing or too many",
    ),
    "UTF-16 with a byte missing": (
        lines({9: "2005-03-10,?,4.5"}, end="\r").encode("utf-16").replace(b"?\x00", b"9", 1),
        r"damaged UTF-16 text \(line 11\)",
    ),
    "UTF-16 that comes right again": (
        "note,time,a,y\n".encode("utf-16")
        + "".join(f"{'n?' if i in (9, 12) else 'no'},{row}\n" for i, row in enumerate(ROWS))
        .encode("utf-16-le")
        .replace(b"?\x00", b"?"),
        r"damaged UTF-16 text \(line 11\)",
    ),
    "UTF-16 that comes right again, big end first": (
        b"\xfe\xff"
        + ("note,time,a,y\n" + "".join(f"{'n?' if i in (9, 12) else 'no'},{row}\n" for i, row in enumerate(ROWS)))
        .encode("utf-16-be")
        .replace(b"\x00?", b"?"),
        r"damaged UTF-16 text \(line 11\)",
    ),
    "gzip": (b"\x1f\x8b\x08\x00 and so on", "compressed"),
    "the target is text": (
        lines().replace(".5\n", ".5 %\n"),
        "Column 'y' is mostly not numbers.*row 1, is '0.5 %'.*--target",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_tables(read, case):
    content, message = BROKEN[case]
    refused(message, lambda: read(content))


@pytest.mark.parametrize("sep", ['"', "\n", "", "ab", "\r"])
def test_separators_that_cannot_be(read, sep):
    refused("--sep must be one character", lambda: read(lines(), sep=sep))


def test_a_table_without_header_has_numbered_columns(read):
    content = lines().split("\n", 1)[1]
    found = read(content, header=False)
    assert found.target == "column 3" and found.names == ["column 1", "column 2"] and len(found.y) == 30
    assert read(content, "column 2", ["column 3"], header=False).y[4] == 4.0
    assert read("2001;2002\n" + "".join(f"{i}.5;{i % 3}.5\n" for i in range(9)), header=True).target == "2002"


def test_a_number_that_a_guess_leaves_out_is_said(read):
    found = read("a;rh;y\n" + "".join(f"{i};{i} %;{i % 3}.5\n" for i in range(9)))
    assert found.names == ["a"]
    assert any("Not used: Column 'rh' is mostly not numbers" in note for note in found.notes)


def test_many_columns_are_each_looked_at_once(read, monkeypatch):
    from biasgp.data import column

    looked = []
    written = column.Written
    monkeypatch.setattr(column, "Written", lambda *given: looked.append(1) or written(*given))
    n = 1500
    rows = "".join(";".join(f"{i}.{j % 1000:03d}" for j in range(n)) + "\n" for i in range(1, 13))
    content = ";".join(f"c{j}" for j in range(n)) + "\n" + rows
    refused("1,499 columns to explain 'c1499' by, and 12 rows.*--features", lambda: read(content))
    assert len(looked) == n
    assert read(content, "c0", ["c5"]).names == ["c5"]


N = 12
ODD = {
    "nested": [{"a": i} for i in range(N)],
    "lists": [[i, 2] for i in range(N)],
    "empty lists": [[] for _ in range(N)],
    "words": pd.Categorical(list("abc") * 4),
    "durations": pd.to_timedelta(np.arange(N), unit="h"),
    "clock": [datetime.time(i, 30) for i in range(N)],
    "null": [None] * N,
    "mixed": ["1", None, "x"] * 4,
    "truth": [True, False] * 6,
    "perhaps": pd.array([True, None, False] * 4, dtype="boolean"),
    "bytes": [b"\xff1"] * N,
}
USABLE = {
    "categories of numbers": (pd.Categorical([1.5, 2.5, 3.5] * 4), [1.5, 2.5, 3.5] * 4),
    "categories of text": (pd.Categorical(["1,5", None, "2,5"] * 4), [1.5, NAN, 2.5] * 4),
    "decimals": ([decimal.Decimal(f"{i}.25") for i in range(N)], np.arange(N) + 0.25),
    "some integers": (pd.array([1, None, 3] * 4, dtype="Int64"), [1, NAN, 3] * 4),
    "large integers": (np.arange(N, dtype=np.int64) * 2**58, np.arange(N) * 2.0**58),
    "unsigned": (np.arange(N, dtype=np.uint64) + 2**63, np.full(N, 2.0**63)),
    "single": (np.arange(N, dtype=np.float32), np.arange(N)),
    "text": ([f"{i},5" for i in range(N)], np.arange(N) + 0.5),
    "dates": ([datetime.date(2005, 3, i + 1) for i in range(N)], 24.0 * np.arange(N)),
    "a far date": (
        [datetime.date(9999, 12, 31), *(datetime.date(2005, 3, i + 1) for i in range(N - 1))],
        [NAN, *(24.0 * np.arange(N - 1))],
    ),
    "a far time": (
        pd.Series(["9999-12-31", *["2005-03-01", "2005-03-02"] * 5, None]).astype("datetime64[us]"),
        [NAN, *[0, 24] * 5, NAN],
    ),
    "zones": (pd.date_range("2005-10-29", periods=N, freq="7h", tz="Europe/Berlin"), 7.0 * np.arange(N)),
}


@pytest.fixture
def parquet(tmp_path):
    def parquet(content):
        path = tmp_path / "t.parquet"
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            content.to_parquet(path)
        return Table.read(path)

    return parquet


@pytest.mark.parametrize("case", ODD)
def test_columns_of_parquet_that_hold_no_numbers(parquet, case):
    table = parquet(pd.DataFrame({"x": np.arange(N), case: ODD[case], "y": np.arange(N) % 5}))
    assert read_readings(table, None, None).names == ["x"]
    message = f"Column {case!r}(, row| is mostly not numbers| holds nothing but)"
    refused(message, lambda: read_readings(table, "y", [case]))
    refused(message, lambda: read_readings(table, case, ["x"]))


@pytest.mark.parametrize("kind, missing", [("int64", False), ("uint64", False), ("int64", True), ("uint64", True)])
def test_integers_of_parquet_that_are_rounded_are_said(parquet, kind, missing):
    y = [1, 2**53 + 2, 2**53 + 1, 4, None if missing else 5, 6, 7]
    table = parquet(pa.table({"x": pa.array(range(7)), "y": pa.array(y, type=kind)}))
    found = read_readings(table, "y", ["x"])
    assert "Column 'y', row 3: 9007199254740993 was rounded to 9007199254740992" in " ".join(found.notes)
    assert np.isnan(found.y[4]) == missing


@pytest.mark.parametrize("case", USABLE)
def test_columns_of_parquet_that_do(parquet, case):
    cells, expected = USABLE[case]
    table = parquet(pd.DataFrame({"x": np.arange(N), case: cells, "y": np.arange(N) % 5}))
    np.testing.assert_allclose(read_readings(table, "y", [case, "x"]).X[:, 0], expected)


def test_names_and_index_of_parquet(parquet):
    x = np.arange(N)
    refused("two columns 'a'", lambda: parquet(pa.table([pa.array(x), pa.array(x)], names=["a", "a"])))
    refused("two columns 'x'", lambda: parquet(pd.DataFrame({"x": x}, index=pd.Index(x, name="x"))))
    refused("no columns", lambda: parquet(pd.DataFrame(index=range(5))))
    refused("no rows", lambda: parquet(pd.DataFrame({"x": [], "y": []})))
    assert parquet(pd.DataFrame({"x": x, "y": x})[x > 2]).columns == ["x", "y"]
    assert parquet(pd.DataFrame({"y": x}, index=pd.date_range("2005", periods=N))).columns == ["index", "y"]
    assert parquet(pd.DataFrame({"": x, "y": x})).columns == ["column 1", "y"]


def test_there_are_enough():
    cases = [NUMBERS, TIMES, GOOD, BROKEN, ODD, USABLE]
    assert sum(map(len, cases)) >= 150
