"""Sample files as loggers, spreadsheets and archives write them, each with the same truth: 48 hours of three columns.

    python tests/tables/sample_files.py FOLDER

Each function writes one way. What it returns says what a reader must find, or which option a refusal must name.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

N = 48
TIMES = pd.date_range("2024-03-09 06:00", periods=N, freq="h")
_RNG = np.random.default_rng(7)
TEMPERATURE = np.round(12.0 + 6.0 * np.sin(np.arange(N) / 24 * 2 * np.pi) + _RNG.normal(0, 0.4, N), 2)
OZONE = np.round(35.0 + 9.0 * np.sin(np.arange(N) / 24 * 2 * np.pi - 1.0) + _RNG.normal(0, 1.0, N), 1)
NAMES = ("time", "temperature", "ozone")
Rows = list[list[str]]


@dataclass(frozen=True)
class Sample:
    """What must be found in a file, NaN where a reading is missing; or the option that a refusal must name."""

    content: bytes | Callable[[Path], None]
    suffix: str = ".csv"
    refused: str = ""
    ozone: np.ndarray = field(default_factory=lambda: OZONE)
    censored: dict[int, int] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    guessed: bool = True
    """Whether the last column is the target: some stores keep no order."""


SAMPLES: dict[str, Callable[[], Sample]] = {}


def sample(function: Callable[[], Sample]) -> Callable[[], Sample]:
    """Registers a way of writing under its name."""
    SAMPLES[function.__name__] = function
    return function


def rows(time: str = "%Y-%m-%d %H:%M:%S", decimal: str = ".", places: tuple[int, int] = (2, 1)) -> Rows:
    """The rows as text."""

    def number(value: float, digits: int) -> str:
        return f"{value:.{digits}f}".replace(".", decimal)

    columns = zip(TIMES, TEMPERATURE, OZONE, strict=True)
    return [[t.strftime(time), number(a, places[0]), number(y, places[1])] for t, a, y in columns]


def text(body: Rows, sep: str = ",", head: str | None = None, end: str = "\n") -> str:
    lines = [sep.join(NAMES) if head is None else head, *(sep.join(row) for row in body)]
    return end.join(filter(None, lines)) + end


def csv(content: str, encoding: str = "utf-8", **more: object) -> Sample:
    return Sample(content.encode(encoding), **more)  # type: ignore[arg-type]


UNITS = {"temperature": "°C", "ozone": "ppb"}


@sample
def comma() -> Sample:
    return csv(text(rows()))


@sample
def semicolon_and_decimal_comma() -> Sample:
    return csv(text(rows("%d.%m.%Y %H:%M", ","), ";"))


@sample
def tabs() -> Sample:
    return csv(text(rows(), "\t"), suffix=".txt")


@sample
def pipes() -> Sample:
    return csv(text(rows(), "|"))


@sample
def quoted() -> Sample:
    return csv(text([[f'"{cell}"' for cell in row] for row in rows()], head='"time","temperature","ozone"'))


@sample
def quoted_decimal_comma() -> Sample:
    return csv(text([[row[0], f'"{row[1]}"', f'"{row[2]}"'] for row in rows(decimal=",")]))


@sample
def excel_hint() -> Sample:
    return csv("sep=;\n" + text(rows(), ";"))


@sample
def windows_lines() -> Sample:
    return csv(text(rows(), end="\r\n"))


@sample
def old_mac_lines() -> Sample:
    return csv(text(rows(), end="\r"))


@sample
def byte_order_mark() -> Sample:
    return csv(text(rows()), "utf-8-sig")


@sample
def utf_16() -> Sample:
    return csv(text(rows(), "\t"), "utf-16", suffix=".txt")


@sample
def latin_1() -> Sample:
    """Its degree sign could be of a dozen encodings."""
    return csv(text(rows(), head="time,temperature (°C),ozone"), "cp1252", refused="--encoding")


@sample
def utf_16_without_mark() -> Sample:
    return csv(text(rows()), "utf-16-le", refused="--encoding")


@sample
def iso_with_zone() -> Sample:
    return csv(text(rows("%Y-%m-%dT%H:%M:%SZ")))


@sample
def iso_with_offset() -> Sample:
    return csv(text(rows("%Y-%m-%dT%H:%M:%S+02:00")))


@sample
def day_first() -> Sample:
    return csv(text(rows("%d/%m/%Y %H:%M")))


@sample
def month_first_with_am() -> Sample:
    return csv(text(rows("%m/%d/%Y %I:%M %p")))


@sample
def month_by_name() -> Sample:
    return csv(text(rows("%d-%b-%Y %H:%M")))


@sample
def short_year() -> Sample:
    return csv(text(rows("%d.%m.%y %H:%M"), ";"))


@sample
def unix_seconds() -> Sample:
    body = [[str(int(t.timestamp())), *row[1:]] for t, row in zip(TIMES, rows(), strict=True)]
    return csv(text(body))


@sample
def date_and_clock() -> Sample:
    body = [[*row[0].split(" "), *row[1:]] for row in rows()]
    return csv(text(body, head="date,clock,temperature,ozone"))


@sample
def daylight_saving() -> Sample:
    """Two days in which the clocks of Berlin go forward, with the offset of each time."""
    local = pd.date_range("2024-03-30 06:00", periods=N, freq="h", tz="Europe/Berlin")
    body = [[t.isoformat(), *row[1:]] for t, row in zip(local, rows(), strict=True)]
    return csv(text(body))


@sample
def hash_comments() -> Sample:
    return csv("# Logger 12, north mast\n# firmware 1.8\n" + text(rows()) + "# end of file\n")


@sample
def header_in_a_comment() -> Sample:
    return csv("# made by np.savetxt\n" + text(rows(), head="# time,temperature,ozone"), suffix=".txt")


@sample
def comments_among_rows() -> Sample:
    body = rows()
    body[20] = ["# filter changed\n" + body[20][0], *body[20][1:]]
    return csv(text(body))


@sample
def preamble() -> Sample:
    keys = "Station: North mast\nSerial number: 00123\nOperator: J. Doe, K. Roe\n\nData\n"
    return csv(keys + text(rows(), ";", "time;temperature;ozone"))


@sample
def preamble_of_pairs() -> Sample:
    return csv("Station,North\nSerial,123\nLatitude,52.5\nLongitude,13.4\n" + text(rows()))


@sample
def padded_title() -> Sample:
    return csv("North mast,,\n,,\n" + text(rows()))


@sample
def toa5() -> Sample:
    head = (
        '"TOA5","CR1000","CR1000","12345","CR1000.Std.31","CPU:mast.CR1","4711","Hourly"\n'
        '"TIMESTAMP","RECORD","temperature","ozone"\n"TS","RN","Deg C","ppb"\n"","","Avg","Smp"'
    )
    body = [[f'"{row[0]}"', str(i), *row[1:]] for i, row in enumerate(rows())]
    return csv(text(body, head=head), suffix=".dat", units={"temperature": "Deg C", "ozone": "ppb"})


@sample
def long_preamble() -> Sample:
    lines = "".join(f"Setting {i} = {i * 7 % 5}\n" for i in range(40))
    return csv(lines + text(rows("%d.%m.%Y %H:%M", ","), ";"))


@sample
def units_row() -> Sample:
    return csv(text(rows(), head="time,temperature,ozone\n,°C,ppb"), units=UNITS)


@sample
def units_in_brackets() -> Sample:
    return csv(text(rows(), ";", "time;temperature;ozone\n[UTC];[°C];[ppb]"), units=UNITS)


@sample
def preamble_and_units() -> Sample:
    return csv("Logger 5\nv2\n" + text(rows(), head="time,temperature,ozone\nyyyy-mm-dd hh:mm:ss,°C,ppb"), units=UNITS)


@sample
def two_headers() -> Sample:
    """Whether the second line holds names, or something about them, cannot be known."""
    return csv("when,first,second\n" + text(rows()), refused="--skip")


@sample
def no_header() -> Sample:
    return csv(text(rows(), head=""), refused="--no-header")


@sample
def thousands_or_decimals() -> Sample:
    body = [[row[0], f"1,{i + 101}"] for i, row in enumerate(rows())]
    return csv(text(body, ";", "time;ozone"), refused="--decimal")


@sample
def gzipped() -> Sample:
    return Sample(gzip.compress(text(rows()).encode()), ".csv.gz")


@sample
def xz() -> Sample:
    return Sample(lzma.compress(text(rows()).encode()), ".csv.xz")


@sample
def bzipped() -> Sample:
    return Sample(bz2.compress(text(rows()).encode()), ".csv.bz2")


@sample
def zipped() -> Sample:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("export/readings.csv", text(rows(), ";"))
            archive.writestr("__MACOSX/export/._readings.csv", b"\x00\x05")

    return Sample(write, ".zip")


@sample
def zip_of_two() -> Sample:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.csv", text(rows()))
            archive.writestr("b.csv", text(rows()))

    return Sample(write, ".zip", refused="'folder/*.csv'")


def frame() -> pd.DataFrame:
    return pd.DataFrame({"time": TIMES, "temperature": TEMPERATURE, "ozone": OZONE})


@sample
def workbook() -> Sample:
    return Sample(lambda path: frame().to_excel(path, index=False), ".xlsx")


@sample
def workbook_with_titles() -> Sample:
    def write(path: Path) -> None:
        import openpyxl

        book = openpyxl.Workbook()
        sheet = book.active
        for row in (["North mast"], [], ["Operator", "J. Doe"], list(NAMES), [None, "°C", "ppb"]):
            sheet.append(row)
        for t, a, y in zip(TIMES, TEMPERATURE, OZONE, strict=True):
            sheet.append([t.to_pydatetime(), float(a), float(y)])
        book.create_sheet("notes").append(["nothing to see"])
        book.save(path)

    return Sample(write, ".xlsx", units=UNITS)


@sample
def workbook_of_two_sheets() -> Sample:
    def write(path: Path) -> None:
        with pd.ExcelWriter(path) as book:
            frame().to_excel(book, sheet_name="north", index=False)
            frame().to_excel(book, sheet_name="south", index=False)

    return Sample(write, ".xlsx", refused="--sheet")


@sample
def parquet() -> Sample:
    return Sample(lambda path: frame().to_parquet(path), ".parquet")


@sample
def feather() -> Sample:
    return Sample(lambda path: frame().to_feather(path), ".feather")


def _dataset() -> Any:
    found = frame().set_index("time").to_xarray()
    found["temperature"].attrs["units"], found["ozone"].attrs["units"] = "°C", "ppb"
    return found


@sample
def netcdf_4() -> Sample:
    return Sample(lambda path: _dataset().to_netcdf(path, engine="h5netcdf"), ".nc", units=UNITS)


@sample
def netcdf_3() -> Sample:
    return Sample(lambda path: _dataset().to_netcdf(path, engine="scipy"), ".nc", units=UNITS)


@sample
def zarr_store() -> Sample:
    def write(path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _dataset().to_zarr(path)

    return Sample(write, ".zarr", units=UNITS, guessed=False)


def with_cells(changes: dict[int, str], **more: object) -> Sample:
    body = rows()
    for i, cell in changes.items():
        body[i][2] = cell
    return csv(text(body), **more)


def without(*missing: int) -> np.ndarray:
    found = OZONE.copy()
    found[list(missing)] = np.nan
    return found


@sample
def words_for_missing() -> Sample:
    return with_cells({3: "NaN", 9: "---", 20: "", 21: "N/A"}, ozone=without(3, 9, 20, 21))


@sample
def minus_999() -> Sample:
    return with_cells(dict.fromkeys((3, 9, 20, 21), "-999"), ozone=without(3, 9, 20, 21))


@sample
def plus_9999() -> Sample:
    return with_cells(dict.fromkeys((5, 6, 7), "9999.0"), ozone=without(5, 6, 7))


@sample
def detection_limit() -> Sample:
    found = OZONE.copy()
    found[[2, 3, 30]] = 28.0
    return with_cells(dict.fromkeys((2, 3, 30), "<28.0"), ozone=found, censored={2: -1, 3: -1, 30: -1})


@sample
def saturated() -> Sample:
    found = OZONE.copy()
    found[[14, 15]] = 45.0
    return with_cells({14: "> 45.0", 15: ">45"}, ozone=found, censored={14: 1, 15: 1})


def write_all(folder: Path, names: Iterable[str] = tuple(SAMPLES)) -> dict[str, tuple[Path, Sample]]:
    """The samples, or some of them, in a folder, by their names."""
    found = {}
    for name in names:
        made = SAMPLES[name]()
        path = folder / f"{name}{made.suffix}"
        if isinstance(made.content, bytes):
            path.write_bytes(made.content)
        else:
            made.content(path)
        found[name] = path, made
    return found


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    write_all(place)
