"""Verdicts when a table grows, and dates of service."""

from __future__ import annotations

import pandas as pd
import pytest
from app_pages import fleet, opened, readings

from biasgp.persistence import load_model


def csv(frame):
    return frame.to_csv(index=False).encode()


@pytest.fixture
def page(tmp_path):
    with opened(tmp_path / "project") as page:
        yield page


def said(page):
    return {row + 1: page.project.judgements().about(row) for row in page.project.judgements().rows.tolist()}


def test_verdicts_go_with_a_table_that_has_grown(page):
    page.upload("readings.csv", csv(readings(60)))
    page.post("api/verdicts", {"rows": [21], "verdict": "good", "why": "a truck"})
    page.post("api/verdicts", {"rows": [5, 6, 7], "verdict": "bad"})
    before = said(page)
    # The first two rows are gone, one reading was corrected, and there are more at the end.
    grown = readings(75)
    grown.loc[:59, "no_ppb"] = readings(60)["no_ppb"]
    grown.loc[5, "no_ppb"] += 1.0
    grown = grown.drop(index=[0, 1])
    told = page.upload("readings.csv", csv(grown))["carried"]
    assert told.startswith("3 verdicts were carried over") and "1 was not (row 6 of that table)" in told
    after = said(page)
    assert after == {19: before[21], 3: before[5], 5: before[7]}
    # They are on disk, and go on from there.
    again = type(page.project)(page.project.folder)
    assert again.judgements().rows.tolist() == [2, 4, 18] and again.history.can_undo
    # The table before has its own when it comes back, and nothing is carried onto those.
    assert page.upload("readings.csv", csv(readings(60)))["carried"] == ""
    assert said(page) == before


def test_rows_that_are_alike_and_sensors_are_told_apart(page):
    frame = fleet()
    page.upload("fleet.csv", csv(frame))
    page.put("api/options", {"by": "sensor"})
    page.post("api/verdicts", {"rows": [1, 41], "verdict": "bad", "sensor": None})
    turned = pd.concat([frame[frame["sensor"] != "a"], frame[frame["sensor"] == "a"]])
    page.upload("fleet.csv", csv(turned))
    rows = [row - 1 for row in said(page)]
    assert [turned.iloc[row]["sensor"] for row in rows] == ["b", "a"]
    assert all(turned.iloc[row]["time"] == frame.iloc[0]["time"] for row in rows)


def test_a_table_of_other_columns_has_no_verdicts_of_this_one(page):
    page.upload("readings.csv", csv(readings(60)))
    page.post("api/verdicts", {"rows": [21], "verdict": "good"})
    other = readings(70).rename(columns={"no_ppb": "o3_ppb"})
    assert page.upload("readings.csv", csv(other))["carried"] == "" and said(page) == {}


def test_dates_of_service_end_faults_and_are_in_the_command(page):
    frame = readings(50)
    frame.loc[40:, "no_ppb"] += 4.0
    page.upload("readings.csv", csv(frame))
    told = page.put("api/options", {"events": ["2026-03-02 16:00"]})
    assert told["options"]["events"] == ["2026-03-02 16:00"]
    page.fit()
    fit = page.project.current()
    assert load_model(fit.folder / "model.skops")._readings.events.tolist() == [40.0]
    assert "--events events.csv" in page.text("download/command.txt")
    assert page.text("download/events.csv") == "date\n2026-03-02 16:00\n"
    page.put("api/options", {"events": []})
    assert page.get("api/project")["stale"]
    page.get("download/events.csv", 404)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"events": ["yesterday"]}, "events.csv: Column 'date', row 1"),
        ({"events": ["2026-03-02"], "episodes": False}, "look for episodes"),
        ({"events": "2026-03-02"}, "a list"),
        ({"events": [" "]}, "not blank"),
    ],
)
def test_dates_that_are_none_are_refused(page, given, words):
    page.upload("readings.csv", csv(readings(60)))
    assert words in page.put("api/options", given, 422)["error"]
    assert page.get("api/project")["options"]["events"] == []
