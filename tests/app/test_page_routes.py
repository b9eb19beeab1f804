"""The routes of the page, one by one: what a person does and what is answered."""

from __future__ import annotations

import json
import shlex
import threading

import numpy as np
import pandas as pd
import pytest
from app_pages import SPIKES, N, fleet, opened, readings
from typer.testing import CliRunner

from biasgp.analysis.view import FitView
from biasgp.app import views
from biasgp.app.explaining import Explainers, _loaded
from biasgp.cli.commands import app as command
from biasgp.persistence import load_model

SPIKE = SPIKES[0] + 1


def csv(frame, **more):
    return frame.to_csv(index=False, **more).encode()


def test_a_new_project_has_nothing_and_says_so(page):
    said = page.get("api/project")
    assert said["table"] is said["understood"] is said["problem"] is said["current"] is said["job"] is None
    assert said["fits"] == [] and not said["stale"] and said["verdicts"]["version"] == 0
    for path in ("preview", "plot", "explain?row=1", "queue", "changes", "sensors", "job"):
        assert "error" in page.get(f"api/{path}", 404)
    assert "There is no table" in page.post("api/fit", {}, 404)["error"]


def test_what_was_understood_of_a_table_is_told(page):
    frame = readings().assign(empty="", constant=1.0)
    frame.loc[3, "no_ppb"] = np.nan
    said = page.upload("a table.csv", csv(frame[["time", "site", "empty", "constant", "no_ppb"]], na_rep="n/a"))
    assert said["table"]["name"] == "a table.csv" and said["table"]["rows"] == N
    found = said["understood"]
    assert found["target"] == "no_ppb" and found["unit"] == "ppb" and found["rows_used"] == N - 1
    assert [(each["name"], each["role"]) for each in found["features"]] == [("time", "time")]
    assert {each["name"]: each["why"] for each in found["unused"]} == {
        "site": "text",
        "empty": "empty",
        "constant": "one value only, or mostly missing",
    }
    assert (found["separator"], found["encoding"], found["decimal"]) == (",", "utf-8", "point")
    assert found["missing_marks"] == ["n/a"]
    assert found["times"]["first"] == "2026-03-01 00:00" and found["times"]["step"] == "1 h"
    assert not any("--" in note for note in found["notes"])
    preview = page.get("api/preview")
    assert preview["columns"][0] == "time" and len(preview["rows"]) == 20 and preview["rows"][3][-1] == "n/a"


def test_a_wrong_guess_is_corrected(page):
    frame = pd.DataFrame({"day": ["03/04/2026", "04/04/2026", "05/04/2026", "06/04/2026", "07/04/2026"] * 2})
    frame["day"] = [f"{day} {hour:02d}:00" for hour, day in enumerate(frame["day"])]
    frame["a"], frame["b"] = np.arange(10.0), np.arange(10.0) ** 2
    said = page.upload("days.csv", csv(frame))
    assert said["understood"]["target"] == "b"
    said = page.put("api/options", {"target": "a", "features": ["day"], "day_first": False})
    assert said["understood"]["target"] == "a" and said["understood"]["times"]["first"].startswith("2026-03-04")
    said = page.put("api/options", {"day_first": True, "features": None})
    assert said["understood"]["times"]["first"].startswith("2026-04-03")
    assert [each["name"] for each in said["understood"]["features"]] == ["day", "b"]


def test_a_table_that_cannot_be_read_yet_is_kept_and_corrected_step_by_step(page):
    text = readings().rename(columns={"site": "Überschrift"}).to_csv(index=False, sep=";", decimal=",")
    said = page.upload("latin.csv", text.encode("cp1252"))
    assert "the encoding" in said["problem"] and said["understood"] is None
    page.post("api/fit", {}, 409)
    assert page.put("api/options", {"encoding": "utf-16"}, 200)["problem"]  # another problem: on the way
    said = page.put("api/options", {"encoding": "cp1252"})
    assert said["problem"] is None and said["understood"]["separator"] == ";"
    assert said["understood"]["decimal"] == "comma"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target": "no_pbp"}, "Did you mean 'no_ppb'"),
        ({"target": "site"}, "mostly not numbers"),
        ({"features": ["time", "time"]}, "twice"),
        ({"kernel": "cubic"}, "kernel must be one of"),
        ({"method": None}, "method must be one of"),
        ({"where": "no_ppb >"}, ""),
        ({"where": "no_ppb > 1e9"}, "usable rows"),
        ({"by": "no_such"}, "has no column"),
        ({"episodes": True, "method": "gp"}, "knows no biases that last"),
        ({"sep": "ab"}, "the separator must be one character"),
        ({"colour": "red"}, "no option 'colour'"),
        ({"na": "n/a"}, "list"),
        ({"header": "yes"}, "true, false or null"),
        ({"noise_model": "loud"}, "must be one of auto, constant"),
        ({"noise_model": "varying", "method": "cob"}, "needs the method sparse or gp"),
        ({"noise_model": "proportional"}, "needs the transform identity"),
        ({"target": 3}, "text"),
        ({"target": "x" * 3000}, "at most"),
        ({"encoding": "no-such"}, "no encoding"),
        ({"features": [["time"]]}, "text"),
    ],
)
def test_options_that_do_not_fit_are_refused_and_nothing_changes(fitted, given, words):
    before = fitted.get("api/project")["options"]
    said = fitted.put("api/options", given, 422)
    assert words in said["error"] and "--" not in said["error"]
    assert fitted.get("api/project")["options"] == before


def test_before_a_fit_the_readings_are_drawn_alone(page):
    page.upload("readings.csv", csv(readings()))
    plot = page.get("api/plot")
    assert plot["mean"] is plot["low"] is plot["probability"] is None and plot["total"] == plot["drawn"] == N
    assert plot["row"] == list(range(1, N + 1)) and not any(plot["flagged"])
    assert "Fit first" in page.get("api/explain?row=1", 404)["error"] and page.get("api/queue") == []
    assert "Fit first" in page.get("download/command.txt", 404)["error"]


def test_a_fit_is_drawn_and_a_range_of_it(fitted):
    plot = fitted.get("api/plot")
    assert [row for row, flag in zip(plot["row"], plot["flagged"], strict=True) if flag] == [r + 1 for r in SPIKES]
    assert all(low < mean < high for low, mean, high in zip(plot["low"], plot["mean"], plot["high"], strict=True))
    assert plot["axis"] == {"kind": "time", "label": "time"} and plot["y_label"] == "no_ppb (ppb)"
    assert plot["kind"][SPIKES[0]] in ("spike", "group", "replaced") and plot["kind"][0] == ""
    part = fitted.get(f"api/plot?from={plot['x'][10]}&to={plot['x'][14]}")
    assert part["row"] == list(range(11, 16))
    assert fitted.get("api/plot?from=9e15")["total"] == 0


def test_readings_are_thinned_but_never_what_is_flagged_or_judged(fitted, monkeypatch):
    monkeypatch.setattr(views, "MAX_POINTS", 12)
    fitted.post("api/verdicts", {"rows": [33], "verdict": "good"})
    plot = fitted.get("api/plot")
    assert plot["drawn"] <= 12 and plot["total"] == N
    assert {33, *(row + 1 for row in SPIKES)} <= set(plot["row"])
    fitted.post("api/undo")
    monkeypatch.setattr(views, "MAX_POINTS", 2)
    assert set(fitted.get("api/plot")["row"]) == {row + 1 for row in SPIKES}


def test_a_reading_is_explained_as_the_model_does(fitted):
    said = fitted.get(f"api/explain?row={SPIKE}&wait=1")
    model = load_model(fitted.project.current().place(None) / "model.skops")
    why = model.explain(SPIKE - 1)
    assert said["reading"] == why.read and said["when"] == "2026-03-01 20:00"
    for name, value in (("expected", why.expected), ("std", why.expected_std), ("log_odds", why.log_odds)):
        assert said[name] == pytest.approx(value, rel=1e-9)
    assert said["prior"] + said["evidence"] == pytest.approx(said["log_odds"])
    assert [each["row"] - 1 for each in said["neighbours"]] == [row for row, _ in why.witnesses]
    assert said["words"][0].startswith(f"Row {SPIKE} is") and said["needed"].startswith("For it to be good")
    assert "taken for good" in fitted.get("api/explain?row=3")["words"][0]
    assert fitted.get(f"api/explain?row={SPIKE}") == said


def test_an_explanation_does_not_wait_for_the_model(fitted, monkeypatch):
    """Where neighbours were not kept with the fit, all else is told at once, and that they are to follow."""
    monkeypatch.setattr(FitView, "witnesses", lambda view, place: None)
    arrive = threading.Event()

    def late(path):
        arrive.wait(20.0)
        return _loaded(path)

    monkeypatch.setattr("biasgp.app.explaining._loaded", late)
    monkeypatch.setattr(fitted.project, "explainers", Explainers())
    said = fitted.get(f"api/explain?row={SPIKE}")
    assert said["pending"] and said["neighbours"] == [] and said["words"][0].startswith(f"Row {SPIKE} is")
    arrive.set()
    whole = fitted.get(f"api/explain?row={SPIKE}&wait=1")
    assert not whole["pending"] and whole["neighbours"] and whole["words"] == said["words"]


@pytest.mark.parametrize("row", ["0", "-1", "1.5", "nan", "", "x", "9" * 30, "٣"])
def test_a_row_that_is_none_is_refused(fitted, row):
    assert "error" in fitted.get(f"api/explain?row={row}", 404 if row == "0" else 422)
    assert fitted.get(f"api/explain?row={N + 1}", 404)["error"] == f"The table has no row {N + 1}."


def test_verdicts_by_row_and_by_interval_undone_and_done_again(fitted):
    x = fitted.get("api/plot")["x"]
    first = fitted.post("api/verdicts", {"rows": [3, 5], "verdict": "bad", "why": "a truck"})
    assert first["changed"] == 2 and first["verdicts"]["bad"] == 2 and first["stale"]
    second = fitted.post("api/verdicts", {"from": x[3], "to": x[5], "verdict": "good"})
    assert second["changed"] == 3 and (second["verdicts"]["good"], second["verdicts"]["bad"]) == (3, 1)
    assert fitted.get("api/plot")["verdict"][2:6] == ["bad", "good", "good", "good"]
    assert fitted.get("api/explain?row=3")["why"] == "a truck"
    assert fitted.post("api/undo")["verdicts"]["bad"] == 2
    assert fitted.post("api/redo")["verdicts"]["good"] == 3
    fitted.post("api/redo", {}, 409)
    fitted.post("api/undo")
    last = fitted.post("api/undo")
    assert last["changed"] == 2 and last["verdicts"]["can_undo"] is False and not last["stale"]
    fitted.post("api/undo", {}, 409)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"rows": [1]},
        {"rows": [], "verdict": "bad"},
        {"rows": [0], "verdict": "bad"},
        {"rows": [True], "verdict": "bad"},
        {"rows": [1.0], "verdict": "bad"},
        {"rows": ["1"], "verdict": "bad"},
        {"rows": {"a": 1}, "verdict": "bad"},
        {"rows": [10**30], "verdict": "bad"},
        {"rows": [1], "from": 1, "to": 2, "verdict": "bad"},
        {"from": 1, "verdict": "bad"},
        {"from": "a", "to": "b", "verdict": "bad"},
        {"from": True, "to": 2, "verdict": "bad"},
        {"from": 1e308, "to": 2, "verdict": "bad"},
        {"rows": [1], "verdict": "ugly"},
        {"rows": [1], "verdict": ["bad"]},
        {"rows": [1], "verdict": "bad", "why": 3},
        {"rows": [1], "verdict": "bad", "why": "x" * 501},
        {"rows": [1], "verdict": "bad", "why": "two\nlines"},
        {"rows": [1], "verdict": "bad", "who": "you"},
        {"rows": [1], "verdict": "bad", "sensor": 1},
    ],
)
def test_verdicts_that_are_none_are_refused_and_not_written(fitted, body):
    before = fitted.project.journal.version
    assert fitted.post("api/verdicts", body, 422)["error"]
    assert fitted.project.journal.version == before


def test_an_interval_without_readings_changes_nothing(fitted):
    said = fitted.post("api/verdicts", {"from": 1, "to": 2, "verdict": "bad"})
    assert said["changed"] == 0 and not said["verdicts"]["can_undo"]


def test_the_queue_is_that_of_the_analysis_without_what_was_judged(fitted):
    summary = json.loads((fitted.project.current().folder / "summary.json").read_text())
    queue = fitted.get("api/queue?n=10")
    rows = [[row for first, last in each["rows"] for row in range(first, last + 1)] for each in queue]
    assert rows == [sorted(each["rows"]) for each in summary["questions"]][: len(queue)]
    assert [each["count"] for each in queue] == [len(each) for each in rows]
    fitted.post("api/verdicts", {"rows": rows[0], "verdict": "good"})
    assert fitted.get("api/queue?n=10")[0] == queue[1]
    fitted.post("api/undo")
    # Undecided, of readings that are open: somebody has looked, and nothing is stale.
    stale = fitted.get("api/project")["stale"]
    assert fitted.post("api/verdicts", {"rows": rows[0], "verdict": "open"})["changed"] == 0
    assert queue[0]["rows"] not in [each["rows"] for each in fitted.get("api/queue?n=10")]
    assert fitted.get("api/project")["stale"] == stale
    fitted.post("api/undo")
    assert fitted.get("api/queue?n=10") == queue
    fitted.get("api/queue?n=-1", 422)


def test_several_readings_are_asked_about_as_one(tmp_path):
    frame = readings(120)
    frame.loc[70:77, "no_ppb"] *= 1.3  # the same bias in each on the logarithmic scale, which these readings lead to
    with opened(tmp_path / "project") as page:
        page.upload("readings.csv", csv(frame))
        page.fit()
        (one,) = [each for each in page.get("api/queue?n=100") if each["reason"] == "episode"]
        assert one["rows"] == [[71, 78]] and one["count"] == 8 and one["when"] == "2026-03-03 22:00"
        assert one["until"] == "2026-03-04 05:00" and "too high" in one["if_bad"] and "truth" in one["if_good"]
        assert one["words"] == "8 readings, 7% of all, flagged"
        said = page.post("api/verdicts", {"rows": list(range(71, 79)), "verdict": "bad"})
        assert said["changed"] == 8 and said["verdicts"]["bad"] == 8
        assert all(each["reason"] != "episode" for each in page.get("api/queue?n=100"))


def test_a_refit_holds_verdicts_and_says_what_changed(tmp_path):
    with opened(tmp_path / "project") as page:
        page.upload("readings.csv", csv(readings()))
        page.fit()
        assert "Fit again" in page.get("api/changes", 404)["error"]
        page.post("api/verdicts", {"rows": [SPIKE], "verdict": "good", "why": "it was like that"})
        assert page.get("api/project")["stale"]
        page.fit()
        said = page.get("api/project")
        assert (
            not said["stale"] and said["current"] == "0002" and [fit["id"] for fit in said["fits"]] == ["0001", "0002"]
        )
        changed = page.get("api/changes")
        assert {"row": SPIKE, "when": "2026-03-01 20:00", "before": "bad", "now": "good"} in changed["labels"]
        assert changed["truth_moved"]["largest"] > 1.0 and changed["truth_moved"]["where"]
        assert "readings" in changed["words"][0] or "reading has" in changed["words"][0]
        rows = page.text("download/verdicts.csv").splitlines()
        assert rows[0] == "row,time,verdict,who,when,why" and rows[1].startswith(f"{SPIKE},2026-03-01 20:00,good,")
        assert page.text("download/command.txt").strip() == (
            "biasgp fit readings.csv --target no_ppb --features time --verdicts verdicts.csv"
        )
        page.post("api/undo")
        assert page.get("api/project")["stale"]
        # Another target has verdicts and fits of its own.
        frame = readings().assign(other=1.0 * np.arange(N))
        page.upload("two.csv", csv(frame))
        assert page.get("api/project")["current"] is None and page.get("api/project")["fits"] == []
        page.upload("readings.csv", csv(readings()))
        assert page.get("api/project")["current"] == "0002"


def test_everything_is_found_again(tmp_path):
    with opened(tmp_path / "project") as page:
        page.upload("readings.csv", csv(readings()))
        page.put("api/options", {"kernel": "matern52", "method": "gp"})
        page.fit()
        page.post("api/verdicts", {"rows": [2], "verdict": "bad"})
        page.post("api/undo")
        before = page.get("api/project")
    with opened(tmp_path / "project") as page:
        assert page.get("api/project") == before
        assert page.post("api/redo")["verdicts"]["bad"] == 1


@pytest.mark.parametrize("name", ["cleaned.csv", "report.html", "model.skops"])
def test_results_are_downloaded_as_they_were_written(fitted, name):
    answer = fitted.caller.request("GET", f"/a-token-of-the-tests/download/{name}")
    assert answer.content == (fitted.project.current().folder / name).read_bytes()
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_command_line_does_the_same(fitted, tmp_path, monkeypatch):
    words = shlex.split(fitted.text("download/command.txt"))
    assert words[:3] == ["biasgp", "fit", "readings.csv"]
    (tmp_path / "readings.csv").write_bytes(csv(readings()))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(command, [*words[1:], "--out", "out"], catch_exceptions=False)
    assert result.exit_code == 0
    assert (tmp_path / "out" / "cleaned.csv").read_text() == fitted.text("download/cleaned.csv")


def test_a_table_that_has_grown_keeps_its_options(page):
    page.upload("readings.csv", csv(readings(30)))
    page.put("api/options", {"kernel": "se", "features": ["time"]})
    page.upload("readings.csv", csv(readings(40)))
    assert page.get("api/project")["options"]["kernel"] == "se"
    said = page.upload("readings.csv", csv(readings(40).rename(columns={"time": "when"})))
    assert said["options"]["kernel"] == "auto" and said["problem"] is None


def test_verdicts_without_any_are_a_header(fitted):
    assert fitted.text("download/verdicts.csv") == "row,verdict,who,when,why\n"


def test_a_fleet_is_fitted_sensor_by_sensor_worst_first(tmp_path):
    with opened(tmp_path / "project") as page:
        page.upload("fleet.csv", csv(fleet()))
        page.put("api/options", {"by": "sensor", "episodes": False})
        assert [each["name"] for each in page.get("api/sensors")] == ["a", "b", "c"]
        assert page.get("api/plot?sensor=b")["row"] == list(range(41, 81))
        page.fit()
        sensors = page.get("api/sensors")
        assert [each["name"] for each in sensors] == ["c", "b", "a"]
        assert not sensors[0]["fitted"] and "3 usable rows" in sensors[0]["words"]
        assert sensors[1]["flagged_share"] > sensors[2]["flagged_share"] > 0.0
        plot = page.get("api/plot?sensor=b")
        assert 41 + 5 in [row for row, flag in zip(plot["row"], plot["flagged"], strict=True) if flag]
        assert page.get("api/plot?sensor=c")["mean"] is None
        assert page.get("api/explain?row=46")["sensor"] == "b"
        page.get("api/plot?sensor=d", 404)
        x = plot["x"]
        assert page.get("api/plot")["sensor"] == "c"  # the worst, where none is named
        # One sensor's interval is not the other's.
        page.post("api/verdicts", {"from": x[0], "to": x[2], "verdict": "good"}, 422)
        assert page.post("api/verdicts", {"from": x[0], "to": x[2], "verdict": "good", "sensor": "b"})["changed"] == 3
        made = page.project.current().place("a") / "summary.json"
        page.fit()
        again = page.project.current().place("a") / "summary.json"
        assert again.read_text() == made.read_text()  # a has no new verdict, so it was not fitted again
        assert page.get("api/changes?sensor=b")["now"] == "0002"
        rows = page.text("download/verdicts.csv").splitlines()
        assert rows[0].startswith("sensor,row,time") and rows[1].startswith("b,1,2026-03-01 00:00,good")
        assert "--by sensor" in page.text("download/command.txt")
        assert "--verdicts verdicts.csv" in page.text("download/command.txt")
        assert len(page.text("download/cleaned.csv?sensor=b").splitlines()) == 41
        report = page.text("download/report.html?sensor=b")
        assert "plotly.js v" in report and "<script src=" not in report and "file:" not in report[:2000]


def test_a_method_that_does_not_explain_says_so(tmp_path):
    with opened(tmp_path / "project") as page:
        page.upload("readings.csv", csv(readings()))
        page.put("api/options", {"method": "gp"})
        page.fit()
        said = page.get("api/explain?row=1")
        assert said["neighbours"] == [] and said["prior"] is None and "does not say why" in said["words"][0]
        assert page.get("api/queue") == []


def test_the_page_and_its_files(fitted):
    assert "plotly" in fitted.text("static/plotly.min.js")[:200].lower()
    assert "{" in fitted.text("static/report.css")
    fitted.get("static/no-such.js", 404)


@pytest.mark.parametrize(
    "change",
    [
        {"parts": [{"place": "../.."}]},
        {"parts": [{"place": "/etc"}]},
        {"parts": [{"place": "groups/.."}]},
        {"parts": [{"place": "groups/a/../../.."}]},
        {"parts": [{"flagged": "many"}]},
        {"parts": []},
        {"parts": 3},
        {"target": None},
        {"options": {"kernel": "cubic"}},
        {"options": {"no_such": 1}},
        {"options": 3},
        {"seconds": "x"},
    ],
)
def test_a_fit_that_is_not_what_we_write_is_as_if_it_were_not_there(fitted, change):
    """A project may come from somebody else: nothing in it leads elsewhere."""
    path = fitted.project.current().folder / "fit.json"
    text = path.read_text()
    about = json.loads(text)
    if isinstance(change.get("parts"), list) and change["parts"]:
        change = {"parts": [{**about["parts"][0], **change["parts"][0]}]}
    try:
        path.write_text(json.dumps({**about, **change}))
        fitted.project.forget_fits()
        assert fitted.get("api/project")["current"] is None
        fitted.get("download/cleaned.csv", 404)
    finally:
        path.write_text(text)
        fitted.project.forget_fits()
    assert fitted.get("api/project")["current"] == "0001"
