"""What is kept of a fit for a page: arrays and words that say what the analysis says."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biasgp.analysis.fitting import Selection, Settings
from biasgp.analysis.judging import analyse
from biasgp.analysis.verdicts import with_verdicts
from biasgp.analysis.view import FitView, changes
from biasgp.data.table import Table


def table(n: int = 70) -> Table:
    rng = np.random.default_rng(4)
    t = np.arange(n)
    y = 5.0 + np.sin(t / 8.0) + 0.1 * rng.standard_normal(n)
    y[[12, 33]] += 4.0
    y[[20, 41]] += 0.45  # these may be noise
    y[50:56] += 3.0
    order = rng.permutation(n)  # the table is in no order
    times = (pd.Timestamp("2026-01-01") + pd.to_timedelta(t, unit="h")).strftime("%Y-%m-%d %H:%M")
    cells = pd.DataFrame({"time": times, "y_ppb": y.round(4).astype(str)}).iloc[order].reset_index(drop=True)
    cells.loc[3, "y_ppb"] = ""
    return Table("t.csv", cells)


@pytest.fixture(scope="module")
def outcome():
    read, selection = table(), Selection("t.csv")
    readings = selection.readings(read)
    settings = Settings(episodes=None, response="identity").settled(readings.features)
    return analyse(selection, settings, read.name, readings, settings.split(readings))


def test_it_is_the_same_from_its_files_in_the_order_of_time(outcome, tmp_path):
    view = FitView.of(outcome)
    view.save(tmp_path)
    back = FitView.load(tmp_path)
    assert back.about == view.about and set(back.columns) == set(view.columns)
    for name, values in view.columns.items():
        np.testing.assert_array_equal(values, back.columns[name])
    rows = view.columns["row"]
    assert 3 not in rows and len(rows) == 69 and (np.diff(view.columns["x"]) > 0.0).all()
    np.testing.assert_array_equal(view.columns["y"], outcome.readings.y[rows])
    np.testing.assert_array_equal(view.columns["flagged"], outcome.flagged[rows])
    assert [each["rows"] for each in view.about["episodes"]] == [len(each.rows) for each in outcome.episode_records]


def test_rows_of_a_part_are_those_of_the_whole_table(outcome):
    rows = 1000 + 2 * np.arange(70)
    view = FitView.of(outcome, rows)
    assert view.places(np.array([1000, 1001, 1006, 5])).tolist()[1:] == [-1, -1, -1]
    place = int(view.places(np.array([1000]))[0])
    assert view.columns["row"][place] == 1000 and view.columns["y"][place] == outcome.readings.y[0]


def test_explanations_are_those_of_the_model(outcome):
    view, model = FitView.of(outcome), outcome.fitted.estimator
    for place in (0, 20, int(np.flatnonzero(view.columns["flagged"])[0])):
        said = view.explanation(place)
        why = model.explain(int(view.columns["index"][place]))
        assert said.kind == why.kind
        for name in ("read", "expected", "expected_std", "log_odds", "prior", "f_if_good", "noise_distance"):
            assert getattr(said, name) == pytest.approx(getattr(why, name), rel=1e-12)
        assert said.row == view.columns["row"][place]


def test_the_questions_are_those_of_the_analysis(outcome):
    view = FitView.of(outcome)
    none = np.zeros(len(view.columns["row"]), dtype=bool)
    found = view.questions(none, (), 6)
    rows = [sorted(view.columns["row"][list(each.rows)].tolist()) for each in found]
    assert rows == [sorted(each.rows) for each in outcome.questions(6)]
    assert [view.reason(each) for each in found].count("episode") == 1 and view.reason(found[1]) == "doubt"
    whole = next(each for each in found if each.about == "episode")
    assert len(whole.rows) == 6 and whole.of.if_bad.startswith("3")
    judged = none.copy()
    judged[list(whole.rows)] = True
    assert all(each.about != "episode" for each in view.questions(judged, (), 20))
    # Neither good nor bad: its halves follow; those of a single reading, nothing.
    passed = [view.columns["row"][list(whole.rows)], view.columns["row"][list(found[1].rows)]]
    left = view.questions(none, passed, 60)
    assert sorted(len(each.rows) for each in left if each.about == "episode") == [3, 3]
    assert found[1].rows not in [each.rows for each in left]


def test_what_is_drawn_has_what_matters_and_what_sticks_out():
    n = 5000
    y = np.zeros(n)
    y[1234], y[4321] = 9.0, -9.0
    flagged = np.zeros(n, dtype=bool)
    flagged[[7, 8, 4000]] = True
    view = FitView({}, {"y": y})
    drawn = view.thinned(np.arange(n), flagged, 100)
    assert len(drawn) <= 100 and {7, 8, 4000, 1234, 4321} <= set(drawn.tolist()) and (np.diff(drawn) > 0).all()
    assert len(view.thinned(np.arange(n), np.ones(n, dtype=bool), 100)) == 100
    assert view.thinned(np.arange(50), flagged, 100).tolist() == list(range(50))


def test_a_refit_from_what_is_known_changes_what_the_verdict_says(outcome):
    before = FitView.of(outcome)
    assert changes(before, before) == {"labels": [], "largest": 0.0, "where": None, "added": [], "gone": []}
    alone = ("spike", "group", "replaced")
    spike = next(i for i in np.flatnonzero(before.columns["flagged"]) if before.kind(i) in alone)
    row = int(before.columns["row"][spike])
    said = Table("v.csv", pd.DataFrame({"row": [str(row + 1)], "verdict": ["good"]}))
    readings = with_verdicts(outcome.readings, table(), Path("nowhere"), said)
    settings = outcome.settings
    split = settings.split(readings)
    again = analyse(outcome.selection, settings, "t.csv", readings, split, deepcopy(outcome.fitted.estimator))
    found = changes(before, FitView.of(again))
    assert {"place": int(spike), "now": "good"} in found["labels"] and found["largest"] > 0.5
    assert again.fitted.estimator.verdict_[before.columns["index"][spike]] == 0.0
