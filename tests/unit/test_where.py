"""The language of --where: what each construct means, and how everything else is refused."""

from __future__ import annotations

import io
import time

import numpy as np
import pandas as pd
import pytest

from biasgp.data.table import ReadOptions, Table, TableError
from biasgp.data.where_text import MAX_DEPTH, MAX_LENGTH

CELLS = pd.DataFrame(
    {
        "x": ["1", "2", "", "4", "-5", "NA"],
        "y": ["0", "2", "2", "0", "10", "1"],
        "name": ["a", "b", "", "NA", "Ab", "a"],
        "my flag": ["", "#", "", "", "", "#"],
        "time": ["2026-03-01", "2026-03-02", "", "2026-03-04", "2026-03-05T12:00", "2026-03-06"],
        "utc": [f"2026-03-0{i}T00:00Z" for i in range(1, 7)],
        "local": [f"2026-03-0{i}T00:00+01:00" for i in range(1, 7)],
        "clock": ["6:00", "9:30", "", "18:00", "18:00", "23:59"],
        "empty": ["", "", "NA", "", "", ""],
        "class": ["1", "2", "3", "4", "5", "6"],
        "T (°C)": ["1", "2", "3", "4", "5", "6"],
        "a`b": ["1", "2", "3", "4", "5", "6"],
        "_q0_": ["6", "5", "4", "3", "2", "1"],
        "µ": ["1", "2", "3", "4", "5", "6"],
        "μ": ["6", "5", "4", "3", "2", "1"],
    }
)
TABLE = Table("t.csv", CELLS)


def rows(expression: str, table: Table = TABLE) -> list[int]:
    found = table.rows_where(expression)
    assert found.dtype == bool and found.shape == (len(table),)
    return (np.flatnonzero(found) + 1).tolist()


HOLDS = {
    # comparisons; rows 3 and 6 of x are missing
    "x == 1": [1],
    "x != 1": [2, 4, 5],
    "x < 2": [1, 5],
    "x <= 2": [1, 2, 5],
    "x > 2": [4],
    "x >= 2": [2, 4],
    "2 <= x": [2, 4],
    "x == x": [1, 2, 4, 5],
    "not x == x": [3, 6],
    "not x != 1": [1, 3, 6],
    "x > y": [1, 4],
    # chains
    "0 < x <= 2": [1, 2],
    "x < y < 5": [],
    "1 <= y >= x": [2, 5],
    "0 < x in [1, 4]": [1, 4],
    "1 == 1 == x": [1],
    # and, or, not and their precedence
    "x == 1 or x == 2 and y == 0": [1],
    "(x == 1 or x == 2) and y == 0": [1],
    "(x == 1 or x == 2) and y == 2": [2],
    "not x == 1 and y == 0": [4],
    "not (x == 1 or y == 0)": [2, 3, 5, 6],
    "not not x == 1": [1],
    "1 < 2 and x == 1": [1],
    # arithmetic
    "x + y == 4": [2, 4],
    "x - y == 1": [1],
    "x * y == 4": [2],
    "x + y * 2 == 6": [2],
    "(x + y) * 2 == 8": [2, 4],
    "x - 1 - 1 == 2": [4],
    "8 / x / 2 == 1": [4],
    "x / y == 1": [2],
    "x / y != 1": [5],  # a division by zero is missing
    "not x / y == 1": [1, 3, 4, 5, 6],
    "x / 0 > 0": [],
    "1 / (x / 0) == 0": [],
    "0 / 0 == 0 or x == 1": [1],
    "x * 1e308 * 1e308 > 0": [],  # and so is a result that is too large
    "-x == 5": [5],
    "- -x == 4": [4],
    "+x == 4": [4],
    "-x * -1 == 4": [4],
    "x > -1e0": [1, 2, 4],
    "x == 0x4": [4],
    "x * 1_000 == 4_000": [4],
    "x > -999999999999999999999999999999": [1, 2, 4, 5],
    # lists
    "x in [1, 4]": [1, 4],
    "x in (1, 4)": [1, 4],
    "x in [-5, +1]": [1, 5],
    "x in [4,]": [4],
    "x in []": [],
    "x not in [1]": [2, 4, 5],
    "x not in []": [1, 2, 4, 5],
    "not x in [1]": [2, 3, 4, 5, 6],
    "x + 1 in [2]": [1],
    "1 in [1] and x == 1": [1],
    "name in ['a', '']": [1, 3, 6],
    "name not in ['a', '']": [2, 4, 5],
    "time in ['2026-03-02', '2026-03-05']": [2],
    # text: an empty cell is '', and NA a word
    "name == ''": [3],
    "name != 'a'": [2, 3, 4, 5],
    "name == 'NA'": [4],
    'name == "a"': [1, 6],
    "name < 'a'": [3, 4, 5],
    "'a' < name": [2],
    "name == 'a`b`'": [],
    "name == 'it\\'s'": [],
    "name == '#'": [],
    "name == name": [1, 2, 3, 4, 5, 6],
    # backticks
    "`my flag` == ''": [1, 3, 4, 5],
    "`x` == 1": [1],
    "`class` > 5": [6],
    "`T (°C)` > 5": [6],
    "`a``b` > 5": [6],
    "`class`+`T (°C)`>11": [6],
    "_q0_ == 6": [1],
    "_q0_ == 6 and `class` == 1": [1],
    # columns are told apart by what is written, not by Python's normal form of an identifier
    "µ == 1": [1],
    "μ == 1": [6],
    "`µ` == 1 and `μ` == 6": [1],
    # times
    "time > '2026-03-04'": [5, 6],
    "time >= '2026-03-05T12:00'": [5, 6],
    "time == '2026-03-05 12:00:00'": [5],
    "time != '2026-03-01'": [2, 4, 5, 6],
    "'2026-03-02' <= time < '2026-03-05'": [2, 4],
    "time < '9999-12-31'": [1, 2, 4, 5, 6],
    "time > '0001-01-01'": [1, 2, 4, 5, 6],
    "utc > '2026-03-04'": [5, 6],
    "utc >= '2026-03-04T00:00Z'": [4, 5, 6],
    "utc >= '2026-03-04T01:00+01:00'": [4, 5, 6],
    "utc >= '2026-03-04T01:00-01:00'": [5, 6],
    "local >= '2026-03-04T00:00+01:00'": [4, 5, 6],
    "local >= '2026-03-04T00:00Z'": [5, 6],
    "utc > local": [1, 2, 3, 4, 5, 6],
    "clock < '10:00'": [1, 2],
    "clock == '18:00:00'": [4, 5],
    "clock != '18:00'": [1, 2, 6],
    # a column without a value goes with anything
    "empty == ''": [1, 2, 4, 5, 6],
    "empty > 3": [],
    "empty > '2026-01-01'": [3],
    "empty < time": [],
    "empty + 1 > 0": [],
    "not empty == 3": [1, 2, 3, 4, 5, 6],
    "empty in [1, 2]": [],
    # layout
    " x==1 ": [1],
    "x == 1\n  or x == 2": [1, 2],
    "x\u00a0==\u30001": [1],
    "((((x == 1))))": [1],
}


@pytest.mark.parametrize("expression", HOLDS)
def test_rows_for_which_it_holds(expression):
    assert rows(expression) == HOLDS[expression]


REFUSED = {
    "x.to_csv('/tmp/f')": "`x.to_csv('/tmp/f')`: calls are not allowed",
    "x.size > 1": "`x.size`: attributes",
    "x[0] > 1": "`x[0]`: subscripts",
    "x ** 2 > 1": "`x ** 2`: powers",
    "x // 2 > 1": "`x // 2`: // is not",
    "x % 2 > 1": "`x % 2`: % is not",
    "(x > 1) & (y > 1)": "write and",
    "(x > 1) | (y > 1)": "write or",
    "~(x > 1)": "write not",
    "x is 1": "write ==",
    "x = 1": "write == to compare",
    "(x := 1) > 0": "`x := 1`: assignments",
    "lambda: x": "functions",
    "x if y else 1": "if and else",
    "f'{x}' == name": "formatted text",
    "[i for i in x]": "`[i for i in x]`",
    "`my flag`.size > 1": "`my flag`.size: attributes",
    "x": "column 'x' holds numbers, which is not a condition",
    "x > 1 and name": "column 'name' holds text, which is not a condition",
    "x + 1": "`x + 1`: x + 1 is a number, which is not a condition",
    "(x > 1) == (y > 1)": "Join conditions by and, or, not",
    "(x > 1) + 1 > 0": "Join conditions",
    "-(x > 1) > 0": "Join conditions",
    "x == 'a'": "column 'x' holds numbers, but 'a' is text",
    "x == '1'": "Leave out the quotes",
    "x == ''": "not x == x",
    "x in [1, 'a']": "column 'x' holds numbers, but 'a' is text",
    "name == 1": "column 'name' holds text, but 1 is a number. Put what it is compared with in quotes",
    "name == x": "column 'name' holds text, but column 'x' holds numbers",
    "name + 'a' == 'aa'": "cannot be computed with",
    "time > 5": "column 'time' holds times, but 5 is a number",
    "time + 1 > 5": "column 'time' holds times, which cannot be computed with",
    "time > 'soon'": "'soon' is no date",
    "time > '2026-03-05x12:00'": "'2026-03-05x12:00' is no date",
    "time > '" + "1" * 100 + "'": "is no date",
    "time > '２０２６-03-05'": "is no date",
    "time > '2026-03-05T00:00Z'": "column 'time' holds times without a time zone",
    "local > '2026-03-05'": "'2026-03-05T00:00:00+01:00'",
    "time > utc": "One has a time zone",
    "clock > 'noon'": "'noon' is no time of day",
    "clock > 5": "as '13:00'",
    "x in y": "`y`: in needs a list",
    "x in 'abc'": "in needs a list",
    "x in [y]": "`y`: a list may hold numbers and text only",
    "x in [1 + 1]": "a list may hold",
    "x in [[1]]": "a list may hold",
    "x in [*y]": "this is not allowed",
    "x == [1]": "a list may only stand after in",
    "x in [1] == 1": "a list cannot be compared",
    "x == True": "`True`: only numbers",
    "x == None": "`None`: only numbers",
    "x == 1j": "`1j`: only numbers",
    "name == b'a'": "only numbers",
    "x < 1e999": "`1e999`: the number is too large",
    "x < " + "9" * 400: "too large",
    "name in ['a' 'b']": "Is a comma missing?",
    "name == '''a'''": "single or double quotes",
    "x == 1 # and more": "comments are not allowed",
    "name == '\\d'": "invalid escape",
    "1 < 2": "names no column",
    "": "cannot be read",
    "x >": "cannot be read",
    "class > 5": "`backticks`",
    "`my flag == ''": "cannot be read",
    "x\0 == 1": "cannot be read",
    "nam == 'a'": "there is no column 'nam'. Did you mean 'name'?",
    "ｘ == 1": "there is no column 'ｘ'",
    "`x ` == 1": "there is no column 'x '",
    "x == 1 or `q q` == 1": "no column 'q q'",
    "- " * (MAX_DEPTH + 1) + "x > 1": "nested",
    "x" + " + x" * MAX_DEPTH + "> 1": "nested",
    "x == 1" + " " * MAX_LENGTH: "at most 2,000",
    "(" * 150 + "x" + ")" * 150: "not a condition",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_refused_and_how(expression):
    with pytest.raises(TableError) as refusal:
        TABLE.rows_where(expression)
    message = str(refusal.value)
    assert REFUSED[expression] in message
    assert "\n" not in message and len(message) < 400
    assert "_q" not in message


def test_only_the_columns_that_occur_are_read():
    cells = CELLS.assign(broken=["1", "2", "3", "4", "5", "oops"])
    table = Table("t.csv", cells)
    assert rows("x == 1", table) == [1]
    with pytest.raises(TableError, match="Column 'broken', row 6: 'oops' is not a number"):
        table.rows_where("broken > 1")


def test_a_parquet_table_with_its_own_types():
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], dtype="Int64"),
            "ok": [True, False, True],
            "known": pd.array([True, None, False], dtype="boolean"),
            "kind": pd.Categorical(["a", None, "b"]),
            "when": pd.to_datetime(["2026-01-01", None, "2026-01-03"]).tz_localize("UTC"),
            "word": ["a", None, "b"],
        }
    )
    table = Table("t.parquet", frame)
    assert rows("n != 1", table) == [3]
    assert rows("ok == 1", table) == [1, 3]
    assert rows("known != 1", table) == [3]
    assert rows("kind == ''", table) == [2]
    assert rows("when >= '2026-01-02T00:00Z'", table) == [3]
    assert rows("word != 'a'", table) == [2, 3]


def test_through_a_csv_with_its_own_mark_for_missing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,1\n-200,2\n3,3\n")
    assert rows("x != 3", Table.read(path, ReadOptions(na=("-200",)))) == [1]


def test_a_million_rows_take_no_longer_than_reading_them():
    rng = np.random.default_rng(0)
    n = 1_000_000
    frame = pd.DataFrame({"x": rng.normal(size=n), "y": rng.normal(size=n)})
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    table = Table("t.parquet", pd.read_parquet(buffer))
    began = time.thread_time()
    found = table.rows_where("-1 < x * 2 + y <= 1 and not (x in [0, 1] or y / x > 3)")
    assert time.thread_time() - began < 2.0
    x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
    np.testing.assert_array_equal(found, (x * 2 + y > -1) & (x * 2 + y <= 1) & ~(y / x > 3))
