"""`biasgp fit --by`: a report for each group and an index; resumed, refused, and inert."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from biasgp.cli.commands import app

runner = CliRunner()


@pytest.fixture
def table(tmp_path):
    """Three stations, one of which has too few rows, and whose name is markup."""
    rng = np.random.default_rng(0)
    path = tmp_path / "stations.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["station", "hour", "no_ppb"])
        for name in ("north", "south"):
            hours = np.sort(rng.uniform(0.0, 10.0, 40))
            y = np.sin(hours) + 0.1 * rng.standard_normal(40)
            y[[5, 20]] += 5.0
            writer.writerows([name, f"{h:.4f}", f"{v:.4f}"] for h, v in zip(hours, y, strict=True))
        writer.writerow(["<script>alert(1)</script>", "1", "2"])
    return path


def fit(table, out, *more):
    arguments = ["fit", str(table), "--by", "station", "--target", "no_ppb", "--features", "hour", "--response"]
    return runner.invoke(app, [*arguments, "identity", "--out", str(out), *more])


def test_each_group_has_its_folder_and_a_row_in_the_index(table, tmp_path):
    out = tmp_path / "fleet"
    result = fit(table, out)
    assert result.exit_code == 0, result.output
    rows = {row["group"]: row for row in csv.DictReader((out / "results.csv").read_text().splitlines())}
    assert rows["north"]["status"] == rows["south"]["status"] == "ok"
    assert float(rows["north"]["flagged"]) == 2
    assert rows["<script>alert(1)</script>"]["status"] == "failed"
    for name in ("north", "south"):
        report = out / rows[name]["file"]
        assert (report.parent / "model.skops").exists()
        assert report.stat().st_size < 1e6, "plotly lies beside the pages, not in each"
        assert 'src="../../plotly.min.js"' in report.read_text(encoding="utf-8")
    index = (out / "index.html").read_text(encoding="utf-8")
    assert f'href="{rows["north"]["file"]}"' in index
    assert "<script>alert" not in index
    assert rows["north"]["episodes"] == "0" and rows["<script>alert(1)</script>"]["episodes"] == ""


def test_without_a_search_for_episodes_the_index_has_no_number_of_them(table, tmp_path):
    assert fit(table, tmp_path / "fleet", "--no-episodes").exit_code == 0
    assert "episodes" not in (tmp_path / "fleet" / "results.csv").read_text().splitlines()[0]
    assert "episodes" not in (tmp_path / "fleet" / "index.html").read_text(encoding="utf-8")


def test_the_same_command_goes_on_and_another_is_refused(table, tmp_path):
    out = tmp_path / "fleet"
    assert fit(table, out).exit_code == 0
    made = {path: path.stat().st_mtime_ns for path in out.glob("groups/*/model.skops")}
    assert fit(table, out).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in made} == made
    other = fit(table, out, "--kernel", "se")
    assert other.exit_code == 2
    assert "settings" in other.output
    assert fit(table, out, "--kernel", "se", "--force").exit_code == 0
    assert json.loads((out / "fleet.json").read_text())["settings"]["kernel"] == "se"


def test_a_folder_that_is_not_a_fleet_is_refused(table, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    result = fit(table, tmp_path / "mine")
    assert result.exit_code == 2
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_a_column_of_groups_that_is_not_there_is_named(table, tmp_path):
    result = runner.invoke(app, ["fit", str(table), "--by", "statoin", "--out", str(tmp_path / "x")])
    assert result.exit_code == 2
    assert "Did you mean 'station'?" in result.output
    assert not (tmp_path / "x").exists()


def test_max_time_holds_for_each_group(table, tmp_path):
    out = tmp_path / "fleet"
    assert fit(table, out, "--max-time", "0.001").exit_code == 0
    with (out / "results.csv").open(encoding="utf-8") as file:
        messages = {row["group"]: row["message"] for row in csv.DictReader(file)}
    assert "ended after 0.001 s" in messages["north"] and "ended after 0.001 s" in messages["south"]
