"""Files: what is compressed is bounded, what needs an extra names it, and several files are one record."""

from __future__ import annotations

import builtins
import csv
import gzip
import io
import lzma
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sample_files import OZONE, SAMPLES, frame, rows, text, write_all

from biasgp.data import csv_text, sources
from biasgp.data.column import Column
from biasgp.data.columns import read_readings
from biasgp.data.quick import arrow_of, quick_frame
from biasgp.data.sources import Limits
from biasgp.data.table import ReadOptions, Table, TableError


@pytest.fixture
def small_limits(monkeypatch):
    limits = Limits(unpacked=200_000, unsuspicious=50_000, ratio=20)
    for module in ("sources", "parquet", "dataset"):
        monkeypatch.setattr(f"biasgp.data.{module}.LIMITS", limits)


def zipped(data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", data)
    return file.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zipped])
def test_a_bomb_does_not_go_off(small_limits, tmp_path, pack):
    (tmp_path / "t.csv").write_bytes(pack(b"time,y\n" + b"1,2\n" * 100_000))
    with pytest.raises(TableError, match=r"t\.csv holds more than .* MB in a file of .*unpack it first"):
        Table.read(tmp_path / "t.csv")


def test_a_column_of_one_value_can_be_a_bomb_too(small_limits, tmp_path):
    pq.write_table(pa.table({"x": np.zeros(100_000), "y": np.zeros(100_000)}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="holds more than"):
        Table.read(tmp_path / "t.parquet")


def test_a_dataset_is_as_large_as_it_says(small_limits, tmp_path):
    import xarray as xr

    data = xr.Dataset({"y": ("time", np.zeros(100_000))})
    data.to_netcdf(tmp_path / "t.nc", engine="h5netcdf", encoding={"y": {"zlib": True, "complevel": 9}})
    with pytest.raises(TableError, match="holds more than"):
        Table.read(tmp_path / "t.nc")


def test_nested_compression_ends(tmp_path):
    data = text(rows()).encode()
    (tmp_path / "t").write_bytes(gzip.compress(gzip.compress(data)))
    assert len(Table.read(tmp_path / "t")) == 48
    (tmp_path / "t").write_bytes(gzip.compress(gzip.compress(gzip.compress(data))))
    with pytest.raises(TableError, match="more than 2 times over"):
        Table.read(tmp_path / "t")


DAMAGED = {
    "gzip": (gzip.compress(text(rows()).encode())[:-20], "compressed .gzip. and damaged or cut short"),
    "xz": (lzma.compress(text(rows()).encode())[:-20], "compressed .xz. and damaged or cut short"),
    "zip": (zipped(text(rows()))[:-20], "Excel workbook or a zip file, but is damaged"),
    "old Excel": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), r"\.xls.*as \.xlsx or CSV"),
    "PDF": (b"%PDF-1.4", "is a PDF"),
    "netcdf": (b"\x89HDF\r\n\x1a\n" + bytes(100), "cannot be read as a NetCDF file"),
    "feather": (b"ARROW1\x00\x00" + bytes(100), "not a whole Feather file"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_and_foreign_files(tmp_path, case):
    content, message = DAMAGED[case]
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(TableError, match=message) as refusal:
        Table.read(tmp_path / "t")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "name, package, extra",
    [("workbook", "openpyxl", "excel"), ("netcdf_4", "xarray", "netcdf"), ("zarr_store", "xarray", "netcdf")],
)
def test_a_missing_extra_is_named(tmp_path, monkeypatch, name, package, extra):
    path, _ = write_all(tmp_path, [name])[name]
    usual = builtins.__import__

    def without(module, *others):
        if module == package:
            raise ImportError(module)
        return usual(module, *others)

    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TableError, match=rf"pip install 'biasgp\[{extra}\]'"):
        Table.read(path)


def test_several_files_are_one_record(tmp_path):
    body = rows()
    for i, part in enumerate((body[:20], body[20:40], body[40:])):
        (tmp_path / f"log{(1, 2, 10)[i]}.csv").write_text(text(part))
    for given in (str(tmp_path / "log*.csv"), [tmp_path / f"log{i}.csv" for i in (1, 2, 10)]):
        found = read_readings(Table.read(given), None, None)
        np.testing.assert_array_equal(found.y, OZONE)
        np.testing.assert_allclose(found.X[:, 0], np.arange(48))
        assert "3 files as one record: log1.csv (rows 1 to 20), log2.csv (rows 21 to 40)" in found.notes[0]


def test_files_of_several_kinds_are_one_record(tmp_path):
    frame().iloc[:20].to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text(text(rows()[20:]))
    found = read_readings(Table.read([tmp_path / "a.parquet", tmp_path / "b.csv"]), None, None)
    np.testing.assert_array_equal(found.y, OZONE)
    np.testing.assert_allclose(found.X[:, 0], np.arange(48))


def test_files_that_are_no_record(tmp_path):
    (tmp_path / "a.csv").write_text(text(rows()))
    (tmp_path / "b.csv").write_text(text(rows(), head="time,temperature,no"))
    with pytest.raises(TableError, match=r"b\.csv has no column 'ozone', and a\.csv has one"):
        Table.read([tmp_path / "a.csv", tmp_path / "b.csv"])
    with pytest.raises(TableError, match="given twice"):
        Table.read([tmp_path / "a.csv", tmp_path / "a.csv"])
    with pytest.raises(TableError, match="No file matches"):
        Table.read(str(tmp_path / "c*.csv"))


def test_what_is_found_can_be_said(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when,first,second\n" + text(rows()))
    found = read_readings(Table.read(path, ReadOptions(skip=1)), None, None)
    np.testing.assert_array_equal(found.y, OZONE)
    assert Table.read(path, ReadOptions(units=True)).columns == ["when", "first", "second"]
    path.write_text(text(rows(), head="time,temperature,ozone\n,°C,ppb"))
    assert len(Table.read(path)) == 48 and len(Table.read(path, ReadOptions(units=False))) == 49
    with pytest.raises(TableError, match="--skip 99"):
        Table.read(path, ReadOptions(skip=99))
    book, _ = write_all(tmp_path, ["workbook_of_two_sheets"])["workbook_of_two_sheets"]
    assert len(Table.read(book, ReadOptions(sheet="south"))) == 48
    with pytest.raises(TableError, match=r"no sheet 'east'\. There is 'north', 'south'"):
        Table.read(book, ReadOptions(sheet="east"))


def test_the_quick_way_reads_as_the_careful_one_does(tmp_path, monkeypatch):
    """Every sample, and a table of odd cells, with and without Arrow."""
    odd = "time,a,y\n" + "".join(
        f"2024-01-{i % 28 + 1:02d} 0{i % 10}:00,{['1e3', '.5', '5.', '-0', '+7', ' 8', '', 'NaN'][i % 8]},{i}.{i % 4}\n"
        for i in range(200)
    )
    (tmp_path / "odd.csv").write_text(odd)
    kept = [name for name in SAMPLES if not SAMPLES[name]().refused and SAMPLES[name]().guessed]
    paths = [tmp_path / "odd.csv", *(path for path, _ in write_all(tmp_path, kept).values())]
    quick = [read_readings(Table.read(path), None, None) for path in paths]
    called = []
    usual = csv_text.quick_frame
    monkeypatch.setattr(csv_text, "quick_frame", lambda *given: called.append(usual(*given) is not None))
    careful = [read_readings(Table.read(path), None, None) for path in paths]
    assert sum(called) > 10
    for one, other in zip(quick, careful, strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.y, other.y)
        assert one.names == other.names and one.notes == other.notes


ODD = (
    *("", " ", "-", "--", "NA", "nan", "-nan", "nan(1)", "inf", "-Infinity", "1e400", "1e-400", "0x10", "1_000", "1d5"),
    *("+5", "5.", "-.5", ".", "e5", "1e+05", " 1", "1\u00a0", "\u0663", "1f", "1,5", "1.5.2"),
    *("1-2", "<0.5", "12:30", "%"),
)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [0, 29])
def test_an_odd_cell_among_plain_numbers_is_read_alike(odd, place):
    """In the first chunk that Arrow reads, or in the last one; the careful way is that of cells which are objects."""
    cells = [f"{i}.{i % 4}5" for i in range(30)]
    cells[place] = odd
    chunks = pa.chunked_array([cells[:10], cells[10:20], cells[20:]], pa.large_string())
    packed = pd.Series(pd.array(chunks, dtype=pd.StringDtype("pyarrow", na_value=np.nan)))
    quick, careful = Column("y", packed), Column("y", pd.Series(cells, dtype=object))
    assert len(arrow_of(packed)) == 3 and arrow_of(careful.cells) is None
    np.testing.assert_array_equal(quick.missing, careful.missing)
    assert quick.kind == careful.kind

    def read(column):
        try:
            return column.numbers().tolist()
        except TableError as error:
            return str(error)

    np.testing.assert_equal(read(quick), read(careful))


def test_one_cell_that_is_too_long_is_not_plain():
    rows = [f"{i},1.5" for i in range(2000)]
    body = "\n".join([*rows, "7," + "5" * (csv.field_size_limit() + 1), *rows]).encode()
    assert quick_frame("\n".join(rows).encode(), ",", ["a", "b"]) is not None
    assert quick_frame(body, ",", ["a", "b"]) is None


def test_times_that_nanoseconds_do_not_hold_are_missing_at_once_too(tmp_path):
    days = ["1677-12-31", "1678-01-01", "2261-12-31", "2262-01-01", *(f"2000-01-{d:02d}" for d in range(1, 20))]
    (tmp_path / "t.csv").write_text("time,y\n" + "".join(f"{day},{i}.25\n" for i, day in enumerate(days)))
    found = read_readings(Table.read(tmp_path / "t.csv"), "y", ["time"])
    assert np.flatnonzero(~found.kept).tolist() == [0, 3]
    assert any("2 times outside 1678–2261 count as missing." in note for note in found.notes)


def test_sources_by_name():
    assert sources.expanded(["-", "a.csv"]) == ["-", "a.csv"]
