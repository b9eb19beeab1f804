"""Reading the user's table: what is understood, and how what is not is refused."""

from __future__ import annotations

import io
import sys
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from biasgp.data.columns import Beside, Feature, read_readings, unit_of
from biasgp.data.table import ReadOptions, Table, TableError
from biasgp.data.times import parse_times

TIMES = pd.date_range("2005-03-01 13:00", periods=30, freq="7h")
ISO = TIMES.strftime("%Y-%m-%dT%H:%M:%S")


def text(times=ISO, sep=",", target="y"):
    lines = [sep.join(["time", "a", target])]
    lines += [sep.join([str(time), str(i), f"{i % 3}.5"]) for i, time in enumerate(times)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def table(tmp_path):
    def table(content, name="readings.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Table.read(path, ReadOptions(**options))

    return table


def readings(table, target=None, features=None, **options):
    return read_readings(table, target, features, **options)


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%d %H:%M",
        "%Y/%m/%d %H:%M",
        "%Y%m%dT%H%M%S",
        "%d/%m/%Y %H:%M",
        "%m/%d/%Y %I:%M %p",
        "%d.%m.%Y %H:%M:%S",
        "%d-%m-%y %H:%M",
        "%d %b %Y %H:%M",
        "%d-%b-%y %H:%M",
        "%B %d, %Y %I:%M %p",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y-%m-%dT%H:%M:%S+02:00",
        "%d/%m/%Y %H:%M:%S -0330",
        "%Y-%m-%d %H:%M UTC",
    ],
)
def test_times_in_common_forms_become_hours_since_the_start(table, form):
    found = readings(table(text(TIMES.strftime(form), ";")))
    assert found.features[0].is_time
    np.testing.assert_allclose(found.X[:, 0], 7.0 * np.arange(30))


def test_times_in_any_order_keep_their_rows(table, rng):
    order = rng.permutation(30)
    found = readings(table(text(ISO[order])))
    np.testing.assert_allclose(found.X[:, 0], 7.0 * order)


def test_a_change_of_offset_is_no_jump_in_time(table):
    times = ["2005-03-27T00:30:00+01:00", "2005-03-27T01:30:00+01:00", "2005-03-27T03:30:00+02:00"]
    found = readings(table(text([*times, *(f"2005-03-27T{h:02d}:30:00+02:00" for h in range(4, 9))])))
    np.testing.assert_allclose(found.X[:, 0], np.arange(8.0))


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_unix_times(table, unit):
    found = readings(table(text((TIMES - pd.Timestamp(0)) // pd.Timedelta(1, unit))))
    assert found.features[0].is_time
    np.testing.assert_allclose(found.X[:, 0], 7.0 * np.arange(30))


def test_hours_as_numbers_stay_numbers(table):
    found = readings(table(text(range(30))))
    assert not found.features[0].is_time
    np.testing.assert_allclose(found.X[:, 0], np.arange(30.0))


def test_ambiguous_dates_take_the_order_that_spans_less_time_and_say_so(table):
    found = readings(table(text(TIMES.strftime("%m/%d/%Y %H:%M"))))
    assert np.ptp(found.X[:, 0]) == 7.0 * 29
    assert any("month was taken to come first" in note for note in found.notes)


def test_a_date_and_a_clock_in_two_columns_with_commas_for_points_and_hollow_ends(table):
    lines = ["Date;Time;CO(GT);T;;"]
    lines += [f"{t:%d/%m/%Y};{t:%H.%M.%S};{-200 if i % 5 == 0 else i},0;{i},1;;" for i, t in enumerate(TIMES)]
    lines += [";;;;;"] * 2
    found = readings(table("\n".join(lines), na=["-200"]), "CO(GT)")
    assert found.names == ["Date Time", "T"]
    np.testing.assert_allclose(found.X[:30], np.column_stack([7.0 * np.arange(30), np.arange(30) + 0.1]))
    assert found.kept.sum() == 24
    assert found.left_out == (("'CO(GT)' is missing", 8),)


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_separators_are_found(table, sep):
    assert table(text(sep=sep)).columns == ["time", "a", "y"]


@pytest.mark.parametrize("encoding, given", [("utf-8-sig", None), ("utf-16", None), ("cp1252", "cp1252")])
def test_encodings(table, encoding, given):
    assert table(text(target="t (°C)").encode(encoding), encoding=given).columns[2] == "t (°C)"


def test_parquet_with_typed_columns(tmp_path):
    frame = pd.DataFrame({"time": TIMES.tz_localize("Asia/Taipei"), "a": np.arange(30), "y": np.arange(30) % 4 + 0.5})
    frame.loc[3, "y"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    found = readings(Table.read(tmp_path / "t.parquet"))
    np.testing.assert_allclose(found.X[:, 0], 7.0 * np.arange(30))
    assert found.features[0].zoned and found.features[0].offset_hours == 8.0
    assert found.kept.sum() == 29


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text().encode())))
    assert len(Table.read("-")) == 30


def test_what_is_guessed_is_told(table):
    found = readings(table(text()))
    assert found.target == "y" and found.names == ["time", "a"]
    assert any("'y'" in note for note in found.notes) and any("'time', 'a'" in note for note in found.notes)


def test_a_guess_passes_over_useless_columns(table):
    content = text().replace("time,a,y", ",time,const,a,y").splitlines()
    lines = [content[0]] + [f"{i},{line.split(',')[0]},7,{line.split(',', 1)[1]}" for i, line in enumerate(content[1:])]
    assert readings(table("\n".join(lines))).names == ["time", "a"]


def test_where_uses_numbers_times_and_text(table):
    lines = text().splitlines()
    flagged = "\n".join(
        [lines[0] + ",my flag"] + [f"{line},{'#' if i < 4 else ''}" for i, line in enumerate(lines[1:])]
    )
    data = table(flagged)
    assert readings(data, "y", where="a > 10").kept.sum() == 19
    assert readings(data, "y", where="time >= '2005-03-05'").kept.sum() == (TIMES >= "2005-03-05").sum()
    assert readings(data, "y", where="`my flag` == ''").kept.sum() == 26
    np.testing.assert_array_equal(readings(data, "y", beside=Beside(flags="my flag")).flags, np.arange(30) < 4)


def test_a_model_reads_its_features_from_a_new_table_by_the_same_clock(table):
    feature = readings(table(text())).features[0]
    later = table(text(TIMES[5:15].strftime("%d.%m.%Y %H:%M")), "new.csv")
    np.testing.assert_allclose(Feature(**asdict(feature)).values(later), 7.0 * np.arange(5, 15))
    with pytest.raises(TableError, match="time zone"):
        feature.values(table(text(TIMES.strftime("%Y-%m-%dT%H:%MZ")), "zoned.csv"))


@pytest.mark.parametrize(
    "name, unit", [("no_ppb", "ppb"), ("temperature_c", "°C"), ("rh [%]", "%"), ("T (K)", "K"), ("y", ""), ("a_b", "")]
)
def test_units_from_names(name, unit):
    assert unit_of(name) == unit


BAD_TABLES = {
    "empty": ("", {}, "is empty"),
    "blank": (" \n\n", {}, "is empty"),
    "header only": ("time,a,y\n", {}, "header but no rows"),
    "duplicated header": ("time,a,a\n1,2,3\n", {}, "two columns 'a'"),
    "wrong separator": (text(), {"sep": ";"}, r"one column only.*separated by ','"),
    "long separator": (text(), {"sep": "::"}, "--sep must be one character"),
    "wrong encoding": (text(target="°").encode("cp1252"), {}, r"not utf-8 text \(line 1\).*--encoding cp1252"),
    "unknown encoding": (text(), {"encoding": "utf-99"}, "no encoding 'utf-99'"),
    "zero bytes": (text().encode("utf-16-le")[2:], {}, "zero bytes|not utf-8"),
    "uneven": (text() + "1,2,3,4,5\n", {}, "not an even table.*line 32"),
    "workbook": (b"PK\x03\x04 and so on", {}, "Excel workbook"),
    "cut parquet": (b"PAR1 and so on", {}, "not a whole Parquet file"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_table_that_cannot_be_read_is_refused_in_one_line(table, case):
    content, options, message = BAD_TABLES[case]
    with pytest.raises(TableError, match=message) as refusal:
        table(content, **options)
    assert "\n" not in str(refusal.value)


def test_a_missing_file_names_the_nearest(tmp_path):
    (tmp_path / "readings.csv").touch()
    with pytest.raises(TableError, match=r"readings\.csv"):
        Table.read(tmp_path / "reading.csv")
    with pytest.raises(TableError, match="folder"):
        Table.read(tmp_path)


BAD_COLUMNS = {
    "unknown target": (text(target="no_ppb"), {"target": "no_pbb"}, "no column 'no_pbb'. Did you mean 'no_ppb'"),
    "unknown feature": (text(), {"features": ["time", "A"]}, "Did you mean 'a'"),
    "feature twice": (text(), {"features": ["a", "a"]}, "'a' twice"),
    "target as feature": (text(), {"target": "y", "features": ["y"]}, "leave it out"),
    "text in the target": (text().replace(",4,1.5", ",4,abc"), {}, "Column 'y', row 5: 'abc' is not a number"),
    "text in a feature": (text().replace(",4,1.5", ",x4,1.5"), {}, "Column 'a', row 5: 'x4'"),
    "infinity": (text().replace(",4,1.5", ",4,inf"), {}, "Column 'y', row 5: inf is too large"),
    "bad time": (text([*ISO[:29], "soon"]), {}, "Column 'time', row 30: 'soon' is not a time"),
    "some zones": (text([*ISO[:29], ISO[29] + "Z"]), {}, "row 1: .* has no time zone"),
    "all missing": ("a,y\n1,\n2,\n3,\n4,\n", {"target": "y"}, "nothing but missing"),
    "missing feature": ("a,y\n" + ",1\n" * 9, {"target": "y", "features": ["a"]}, "nothing but missing"),
    "constant target": ("a,y\n" + "\n".join(f"{i},5" for i in range(9)), {"target": "y"}, "'y' is 5 in all 9 rows"),
    "too few": ("a,y\n1,2\n2,3\n", {}, "2 usable rows"),
    "no feature": ("y\n" + "\n".join(map(str, range(9))), {}, "no column to explain"),
    "no number": ("a\n" + "b\n" * 9, {}, "no numeric column"),
    "where: syntax": (text(), {"where": "a >"}, "cannot be read"),
    "where: no condition": (text(), {"where": "a + 1"}, "not a condition"),
    "where: unknown": (text(), {"where": "b > 1"}, "no column 'b'"),
    "where: code": (text(), {"where": "@pd.io"}, "cannot be read"),
    "where: dunder": (text(), {"where": "a.__class__"}, "attributes are not allowed"),
    "where: nothing left": (text(), {"where": "a > 99"}, "0 usable rows"),
    "unknown flags": (text(), {"beside": Beside(flags="flag")}, "no column 'flag'"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_columns_that_cannot_be_used_are_refused_in_one_line(table, case):
    content, options, message = BAD_COLUMNS[case]
    with pytest.raises(TableError, match=message) as refusal:
        readings(table(content), **options)
    assert "\n" not in str(refusal.value)


def test_a_long_column_of_times_is_read_whole():
    cells = pd.Series(np.tile(TIMES.strftime("%Y-%m-%d %H:%M").to_numpy(dtype=object), 1000))
    found = parse_times(cells, np.zeros(len(cells), dtype=bool))
    assert not found.unreadable.any()
