"""`biasgp fit --verdicts`: what somebody knows of readings is held, kept beside the results, and merged."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from biasgp.cli.commands import app
from biasgp.persistence import load_model

N = 90
OUT = (20, 50, 70)
"""Rows, from 0, that lie."""


def readings() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    y = 20.0 + np.sin(np.arange(N) / 8.0) + 0.1 * rng.standard_normal(N)
    y[list(OUT)] += 8.0
    times = pd.Timestamp("2003-05-01") + pd.to_timedelta(np.arange(N), unit="h")
    return pd.DataFrame({"time": times.strftime("%Y-%m-%d %H:%M"), "no_ppb": np.round(y, 3)})


@pytest.fixture
def place(tmp_path):
    readings().to_csv(tmp_path / "r.csv", index=False)
    return tmp_path


def fit(place, *words, verdicts=None, fine=True):
    command = ["fit", str(place / "r.csv"), "--target", "no_ppb", "--response", "identity", "--out", str(place / "out")]
    if verdicts is not None:
        pd.DataFrame(verdicts).to_csv(place / "v.csv", index=False)
        command += ["--verdicts", str(place / "v.csv")]
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, [*command, *words])
    assert (result.exit_code == 0) == fine, result.output
    return " ".join(result.output.split())


def flags(place):
    return pd.read_csv(place / "out" / "cleaned.csv", keep_default_na=False)


def test_verdicts_by_row_are_held_and_kept(place):
    said = {
        "row": [21, 6],
        "verdict": ["good", "bad"],
        "who": ["eva", "max"],
        "when": ["2026-06-03", ""],
        "why": ["truck", ""],
    }
    output = fit(place, verdicts=said)
    assert "2 readings are held as judged: 1 good, 1 bad." in output
    assert "A verdict is kept that the readings contradict" in output
    table = flags(place)
    assert table["flag"][20] == 0 and table["flag"][5] == 1 and table["flag"][50] == 1
    assert list(table["verdict"][[20, 5, 0]]) == ["good", "bad", ""]
    kept = pd.read_csv(place / "out" / "verdicts.csv", keep_default_na=False)
    assert list(kept.columns) == ["row", "time", "verdict", "who", "when", "why"]
    assert kept.iloc[1].tolist() == [21, "2003-05-01 20:00", "good", "eva", "2026-06-03", "truck"]
    summary = json.loads((place / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary["verdicts"][0]["row"] == 6 and "--verdicts v.csv" in summary["command"]
    assert load_model(place / "out" / "model.skops").verdict_[20] == 0.0


def test_verdicts_by_time_and_for_an_interval(place):
    said = {
        "time": ["2003-05-02 02:00", "2003-05-01 05:00"],
        "until": ["", "2003-05-01 09:00"],
        "verdict": ["Good", "1"],
    }
    fit(place, verdicts=said)
    table = flags(place)
    assert table["verdict"][26] == "good"
    np.testing.assert_array_equal(np.flatnonzero(table["verdict"] == "bad"), np.arange(5, 10))
    assert (table["flag"][5:10] == 1).all()


def test_the_next_run_merges_and_names_conflicts(place):
    fit(place, verdicts={"row": [21, 31, 41], "verdict": ["good", "bad", "good"], "who": "eva"})
    said = {"row": [21, 31, 61], "verdict": ["bad", "open", "good"], "who": "max", "when": "today"}
    output = fit(place, "--force", verdicts=said)
    assert "row 21 was good (eva) and is bad (max, today)" in output
    assert "row 31 was bad (eva) and is open again (max, today)" in output
    kept = pd.read_csv(place / "out" / "verdicts.csv")
    assert kept["row"].tolist() == [21, 41, 61] and kept["verdict"].tolist() == ["bad", "good", "good"]
    # And they stay without being named again.
    output = fit(place, "--force")
    assert "3 readings are held as judged: 2 good, 1 bad." in output
    pd.testing.assert_frame_equal(pd.read_csv(place / "out" / "verdicts.csv"), kept)


def test_a_table_that_has_changed_since_is_noticed(place):
    fit(place, verdicts={"row": [21], "verdict": ["good"]})
    readings().iloc[3:].to_csv(place / "r.csv", index=False)
    output = fit(place, "--force", fine=False)
    assert "verdicts.csv: Column 'time', row 1: row 21 of r.csv is at another place" in output


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"row": [3], "verdict": ["perhaps"]},
            "Column 'verdict', row 1: 'perhaps' is no verdict. Write good, bad or open.",
        ),
        ({"row": [0], "verdict": ["bad"]}, "Column 'row', row 1: '0' is no row of r.csv, which has 90, from 1."),
        ({"row": [91], "verdict": ["bad"]}, "'91' is no row of r.csv"),
        ({"row": ["x"], "verdict": ["bad"]}, "'x' is no row of r.csv"),
        ({"row": [5], "until": [3], "verdict": ["bad"]}, "Column 'until', row 1: 3 is before row 5."),
        ({"row": [5]}, "It should hold verdicts: good, bad or open."),
        ({"who": ["eva"], "verdict": ["bad"]}, "it needs a column 'row', from 1, or 'time'."),
        ({"time": ["2003-05-01 00:30"], "verdict": ["bad"]}, "Column 'time', row 1: there is no reading then."),
        ({"row": range(1, 90), "verdict": "bad"}, "at least 3 others are needed"),
    ],
)
def test_what_is_no_verdict_is_refused_by_its_place(place, said, words):
    assert words in fit(place, verdicts=said, fine=False)
    assert not (place / "out").exists()


def test_other_methods_cannot_be_told(place):
    output = fit(place, "--method", "cob", verdicts={"row": [3], "verdict": ["bad"]}, fine=False)
    assert "--verdicts needs --method sparse" in output


def test_every_row_says_what_was_expected_of_what_kind_it_is_and_how_sure_that_is(place):
    output = fit(place, "--test-fraction", "0.2")
    assert "Flagged readings" in output
    table = flags(place)
    model = load_model(place / "out" / "model.skops")
    fitted = np.flatnonzero(table["use"] == "fit")
    columns = model.explain_all()
    np.testing.assert_allclose(table["expected"].to_numpy(dtype=float)[fitted], columns["expected"], rtol=1e-4)
    np.testing.assert_allclose(
        table["log_odds"].to_numpy(dtype=float)[fitted], columns["log_odds"], rtol=1e-3, atol=1e-3
    )
    held = np.flatnonzero(table["use"] == "held out")
    np.testing.assert_allclose(table["expected"].to_numpy(dtype=float)[held], table["mean"].to_numpy(dtype=float)[held])
    assert (np.sign(table["log_odds"].to_numpy(dtype=float)[held]) == np.where(table["flag"][held] == 1, 1, -1)).all()
    np.testing.assert_array_equal(table["kind"] != "", table["flag"] == 1)
    summary = json.loads((place / "out" / "summary.json").read_text(encoding="utf-8"))
    assert all({"expected", "log_odds", "kind", "why"} <= set(each) for each in summary["flagged"])
    assert len(summary["worth_a_look"]) == 10
    assert [set(each) for each in summary["questions"]] == [{"about", "rows", "worth"}] * 2  # two flags, each alone
    page = (place / "out" / "report.html").read_text(encoding="utf-8")
    assert "expected without it" in page and "For it to be good, the truth would have to be" in page


def test_each_group_of_a_fleet_has_verdicts_of_its_own(place):
    table = pd.concat([readings().assign(sensor=name) for name in ("a", "b")], ignore_index=True)
    table.to_csv(place / "r.csv", index=False)
    said = {"sensor": ["b", "b"], "time": ["2003-05-01 20:00", "2003-05-01 05:00"], "verdict": ["good", "bad"]}
    output = fit(place, "--by", "sensor", "--features", "time", verdicts=said)
    assert "v.csv has verdicts on 1 of 2 groups." in output
    (a, b) = sorted((place / "out" / "groups").iterdir())
    one, two = (pd.read_csv(folder / "cleaned.csv", keep_default_na=False) for folder in (a, b))
    assert one["flag"][20] == 1 and "verdict" not in one and not (a / "verdicts.csv").exists()
    assert two["flag"][20] == 0 and two["flag"][5] == 1 and len(pd.read_csv(b / "verdicts.csv")) == 2
    before = (a / "summary.json").stat().st_mtime_ns
    # By the row of the group's own table, as its report has it.
    fit(place, "--by", "sensor", "--features", "time", verdicts={"sensor": ["b"], "row": [21], "verdict": ["bad"]})
    assert pd.read_csv(b / "cleaned.csv", keep_default_na=False)["flag"][20] == 1
    assert pd.read_csv(b / "verdicts.csv")["verdict"].tolist() == ["bad", "bad"]
    assert (a / "summary.json").stat().st_mtime_ns == before, "its verdicts are the same"
    output = fit(
        place,
        "--by",
        "sensor",
        "--features",
        "time",
        verdicts={"sensor": ["c"], "row": [1], "verdict": ["bad"]},
        fine=False,
    )
    assert "the table has no group 'c'" in output
