"""Nasty tables through the command: one line, exit code 2, nothing left behind; and read alike from fit to predict."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import pytest

from biasgp.persistence import read_model

QUICK = ("--method", "gp", "--response", "identity")
ROWS = [f"2005-03-{i + 1:02d};{i};{i % 5},5" for i in range(30)]
HEAD = "time;a;y"


def table(*rows, head=HEAD, end="\n"):
    return end.join([head, *rows]) + end


def changed(i, row):
    return table(*ROWS[:i], row, *ROWS[i + 1 :])


REFUSED = {
    "no header": (table(*ROWS[1:], head=ROWS[0]), (), "--no-header"),
    "open quote": (changed(9, '2005-03-10;"9;4,5'), (), "line 11"),
    "quote closed later": (
        changed(9, '2005-03-10;"9;4,5').replace("\n2005-03-25;24;", '\n2005-03-25;24";'),
        (),
        "line 11",
    ),
    "long cell": (changed(9, "2005-03-10;" + "9" * 131073 + ";4,5"), (), "line 11"),
    "zero byte": (changed(9, "2005-03-10;\x009;4,5"), (), "line 11"),
    "ragged": (changed(9, "2005-03-10;4,5"), (), "line 11"),
    "percent": (table(*(f"{row} %" for row in ROWS)), (), "Column 'y'"),
    "limit": (changed(9, "2005-03-10;9;<LOD"), (), "Column 'y', row 10: '<LOD'"),
    "currency": (changed(9, "2005-03-10;9;$4,5"), (), "Column 'y', row 10"),
    "thousands or decimals": (table(*(f"{i};1,{111 + i}" for i in range(9)), head="a;y"), (), "--decimal point"),
    "decimal": (table(*ROWS), ("--decimal", "dash"), "--decimal must be point or comma"),
    "both marks": (changed(9, "2005-03-10;9;4.5"), (), "Column 'y', row 10: '4.5'"),
    "zone": (
        table(*(row.replace(";", " 00:00 IST;", 1) for row in ROWS)),
        ("--features", "time"),
        "Column 'time', row 1",
    ),
    "far time alone": (
        table(*(f"9999-12-31;{i};{i}" for i in range(9))),
        ("--features", "time"),
        "Column 'time' holds no",
    ),
    "order": (table(*(f"3/{i + 1}/2005;{i};{i}" for i in range(28))), ("--features", "time", "--day-first"), "row 13"),
    "separator": (table(*ROWS), ("--sep", '"'), "--sep must be"),
    "encoding": (table(*ROWS), ("--encoding", "rot13"), "no encoding 'rot13'"),
    "underscore": (changed(9, "2005-03-10;9;4_5"), (), "Column 'y', row 10"),
    "infinite": (changed(9, "2005-03-10;9;inf"), (), "Column 'y', row 10"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_nasty_table_is_refused_in_one_line(run, tmp_path, case):
    content, words, message = REFUSED[case]
    (tmp_path / "t.csv").write_bytes(content.encode())
    chosen = () if "--features" in words or not content.startswith(HEAD) else ("--features", "time,a")
    for command in (("fit", "t.csv", *QUICK), ("compare", "t.csv", "--methods", "gp")):
        result = run(*command, *chosen, *words)
        assert result.exit_code == 2, result.output
        assert message in result.stderr and "should not have happened" not in result.output
        assert len(result.stderr.strip().splitlines()) == 1
        assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_options_reach_the_table_and_the_report(run, tmp_path):
    rows = [f"{3 + i // 28}/{i % 28 + 1}/2005;1,{200 + (i * 37) % 100}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    words = ("--no-header", "--decimal", ",", "--month-first", "--target", "column 2", "--features", "column 1")
    result = run("fit", "t.csv", *words, *QUICK, "--out", "o")
    assert result.exit_code == 0, result.output
    assert "40 of 40 rows" in result.output
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "--decimal , --month-first --no-header" in page
    about = read_model(tmp_path / "o" / "model.skops").about
    assert about["formats"] == {
        "column 1": {"decimal": "", "day_first": False},
        "column 2": {"decimal": ",", "day_first": None},
    }


def test_a_new_table_is_read_as_the_fitted_one_was(run, tmp_path):
    """1,250 is 1.25 for the model, though the new table alone does not tell."""
    rows = [f"{i // 7},{i % 7 + 1}11;{np.sin(i / 9.0):.2f}".replace(".", ",") for i in range(60)]
    (tmp_path / "t.csv").write_text(table(*rows, head="x;y"))
    assert run("fit", "t.csv", *QUICK, "--out", "o").exit_code == 0
    (tmp_path / "new.csv").write_text("x;z\n1,250;a\n2,375;b\n")
    result = run("predict", "o/model.skops", "new.csv", "--out", "p.csv")
    assert result.exit_code == 0, result.output
    assert "commas were read as decimal marks" in result.stderr and "outside" not in result.stderr
    assert pd.read_csv(tmp_path / "p.csv")["std"].max() < 0.3
    result = run("predict", "o/model.skops", "new.csv", "--out", "q.csv", "--decimal", "point")
    assert "2 rows lie outside" in result.stderr


def test_groups_are_read_as_the_whole_table(run, tmp_path):
    """The cells of the second group alone could be thousands."""
    rows = [f"north;{i};{i % 5},{i % 7}" for i in range(20)] + [f"south;{i};1,{211 + i}" for i in range(20)]
    (tmp_path / "t.csv").write_text(table(*rows, head="station;x;y"))
    words = ("--by", "station", "--target", "y", "--features", "x")
    result = run("fit", "t.csv", *words, *QUICK, "--out", "o")
    assert result.exit_code == 0 and "2 of 2 groups fitted" in result.output
    (summary,) = (tmp_path / "o" / "groups").glob("south-*/summary.json")
    assert json.loads(summary.read_text(encoding="utf-8"))["noise_std"] < 1.0


def test_thousands_of_columns_are_refused_at_once_and_usable_by_name(run, tmp_path):
    head = ";".join(f"c{j}" for j in range(5000))
    rows = [";".join(f"{(i * j) % 17}.{j % 10}" for j in range(5000)) for i in range(1, 13)]
    (tmp_path / "t.csv").write_text(table(*rows, head=head))
    began = time.process_time()
    result = run("fit", "t.csv", *QUICK)
    # Two minutes before; about a second on an idle machine.
    assert time.process_time() - began < 15.0
    assert result.exit_code == 2 and "4,704 columns to explain" in result.stderr and "--features" in result.stderr
    result = run("fit", "t.csv", *QUICK, "--target", "c7", "--features", "c1", "--out", "o")
    assert result.exit_code == 0, result.output
