"""`biasgp fit` on biases that last: in the terminal, in the files and in a fleet."""

from __future__ import annotations

import csv
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from biasgp.analysis.places import EpisodeRecord
from biasgp.cli.commands import app
from biasgp.cli.fit import SHOWN_EPISODES, _tell_episodes
from biasgp.data.faults import FaultScenario
from biasgp.persistence import load_model

N, STUCK = 160, slice(10, 35)


def faulty(kind: str = "shift", seed: int = 3, form: str = "%Y-%m-%d %H:%M") -> tuple[pd.DataFrame, tuple[int, int]]:
    """Hourly readings with a fault, whose first row and end are returned."""
    scenario = FaultScenario(kind=kind, size=8.0, lengths=(20, 30), count=1, n=N)
    series = scenario.draw(random_state=seed)
    times = pd.Timestamp("2003-05-01") + pd.to_timedelta(np.arange(N), unit="h")
    return pd.DataFrame({"time": times.strftime(form), "no_ppb": np.round(20.0 + series.y, 3)}), series.faults[0]


def stuck_and_shifted() -> pd.DataFrame:
    table, (first, stop) = faulty()
    assert STUCK.stop < first and stop < N
    table.loc[STUCK.start : STUCK.stop - 1, "no_ppb"] = 20.25
    return table


WORDS = ("--target", "no_ppb", "--response", "identity")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The folder of one fit, and what was printed."""
    folder = tmp_path_factory.mktemp("episodes")
    stuck_and_shifted().assign(kind="<b>", other="x").to_csv(folder / "r.csv", index=False)
    words = ["fit", str(folder / "r.csv"), "--features", "time", *WORDS, "--out", str(folder / "out")]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder / "out", result.output


def test_the_terminal_tells_them_in_words_the_most_certain_first(found):
    _, output = found
    stuck = output.index("stuck at 20.25 ppb for 24 h from 2003-05-01 10:00")
    assert stuck < output.index("ppb too high for 23 h from 2003-05-05 14:00")


def test_every_row_of_an_episode_has_its_number_and_kind(found):
    cleaned = pd.read_csv(found[0] / "cleaned.csv", keep_default_na=False)
    assert list(cleaned.columns[-2:]) == ["episode", "biasgp_kind"], "the table has a kind of its own"
    assert (cleaned["episode"][STUCK] == "1").all() and (cleaned["biasgp_kind"][STUCK] == "stuck").all()
    assert (cleaned["episode"][110:134] == "2").all() and (cleaned["biasgp_kind"][110:134] == "shift").all()
    rest = np.ones(N, dtype=bool)
    rest[STUCK] = rest[110:134] = False
    assert (cleaned["episode"][rest] == "").all() and (cleaned["biasgp_kind"][rest] == "").all()


def test_the_summary_and_the_model_have_them_in_the_times_of_the_table(found):
    summary = json.loads((found[0] / "summary.json").read_text(encoding="utf-8"))
    stuck, shift = summary["episodes"]
    assert (stuck["kind"], stuck["start"], stuck["readings"]) == ("stuck", "2003-05-01 10:00", 25)
    assert (shift["kind"], shift["stop"], shift["rows"]) == ("shift", "2003-05-06 13:00", list(range(111, 135)))
    assert shift["bias"] == pytest.approx(2.4, abs=0.6) and shift["log_odds"] > 10.0
    assert summary["command"].endswith("--response identity"), "they are looked for where nothing is said"
    assert isinstance(summary["notes"], list)
    model = load_model(found[0] / "model.skops")
    assert [each.kind for each in model.episodes_] == ["stuck", "shift"]


def test_the_page_shades_and_lists_them(found):
    page = (found[0] / "report.html").read_text(encoding="utf-8")
    assert "Episodes: 2" in page
    words = "<td>stuck</td><td>stuck at 20.25 ppb for 24 h from 2003-05-01 10:00</td><td>2003-05-01 10:00</td>"
    for text in (words, '"legendgroup":"shift"', '"legendgroup":"stuck"'):
        assert text in page


def test_single_outliers_are_listed_without_the_readings_of_episodes(found):
    cleaned = pd.read_csv(found[0] / "cleaned.csv", keep_default_na=False)
    assert (cleaned["flag"][110:134].astype(str) == "1").all()
    assert "2003-05-05 15:00 │" not in found[1], "in an episode, which is told in words"


def test_a_fit_without_a_fault_says_that_none_was_found(done):
    summary = json.loads((done[0] / "summary.json").read_text(encoding="utf-8"))
    assert summary["episodes"] == [] and summary["notes"] == []
    assert "No episodes were found." in done[1] and "outside episodes" not in done[1]


@pytest.mark.parametrize(
    ("words", "switch"),
    [(("--no-episodes",), "--no-episodes"), (("--method", "cob"), "--method cob"), (("--features", "a,b"), "")],
)
def test_where_they_are_not_looked_for_nothing_is_said_of_them(run, tmp_path, words, switch):
    rng = np.random.default_rng(0)
    faulty()[0].assign(a=rng.random(N), b=rng.random(N)).to_csv(tmp_path / "r.csv", index=False)
    result = run("fit", "r.csv", "--features", "time", *WORDS, *words, "--out", "o")
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))
    assert summary["episodes"] is None and summary["notes"] == []
    assert "pisode" not in result.stdout and switch in summary["command"]
    assert ("pisode" in summary["command"]) == (switch == "--no-episodes")
    assert "episode" not in pd.read_csv(tmp_path / "o" / "cleaned.csv").columns


def test_a_step_and_its_note_name_times(run, tmp_path):
    table, (first, _) = faulty("step", 4, "%Y-%m-%dT%H:%M+02:00")
    table.to_csv(tmp_path / "r.csv", index=False)
    result = run("fit", "r.csv", *WORDS, "--out", "o")
    assert result.exit_code == 0, result.output
    start = table["time"][first][:16].replace("T", " ")
    assert f"er from {start} to the end of the record" in result.stdout
    assert f"Note: From {start} the level is " in result.stdout and "(--events)" in result.stdout
    assert "er, and stays so: a change of calibration or a true change; the readings cannot tell." in result.stdout
    (note,) = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))["notes"]
    assert note["code"] == "step-or-signal" and note["rows"][0] == first + 1
    assert "Worth knowing" in (tmp_path / "o" / "report.html").read_text(encoding="utf-8")


def test_a_drift_until_a_service_by_number_with_rows_held_out(run, tmp_path):
    table, (first, stop) = faulty("ramp", 1)
    table["time"] = np.arange(N) / 2
    table.to_csv(tmp_path / "r.csv", index=False)
    (tmp_path / "s.csv").write_text(f"service\n{stop / 2}\n\n")
    words = ("--events", "s.csv", "--test-fraction", "0.1", "--out", "o")
    result = run("fit", "r.csv", "--features", "time", *WORDS, *words)
    assert result.exit_code == 0, result.output
    assert "drifted to 2." in result.stdout and "(--events)" not in result.stdout
    cleaned = pd.read_csv(tmp_path / "o" / "cleaned.csv", keep_default_na=False)
    inside = np.flatnonzero(cleaned["kind"] == "ramp")
    assert (np.diff(inside) == 1).all() and "held out" in set(cleaned["use"][inside])
    assert abs(inside[-1] - (stop - 1)) <= 2 and inside[0] >= first - 3
    command = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))["command"]
    assert "episodes" not in command and "--events s.csv" in command


def test_events_are_read_as_the_times_of_the_table(run, tmp_path, monkeypatch):
    """5/6 is the fifth of June only where the readings have the month first."""
    from biasgp import SparseBiasGP

    class Stop(Exception):
        pass

    def fit(self, X, y, **more):
        raise Stop(more["events"].tolist())

    monkeypatch.setattr(SparseBiasGP, "fit", fit)
    faulty(form="%d/%m/%Y %H:%M")[0].to_csv(tmp_path / "r.csv", index=False)
    (tmp_path / "s.csv").write_text("who,time\nA,5/5/2003 14:00\nB,6/5/2003 01:00\n")
    with pytest.raises(Stop, match=r"\[110.0, 121.0\]"):
        CliRunner().invoke(
            app, ["fit", "r.csv", "--episodes", "--events", "s.csv"], catch_exceptions=False, env={"BIASGP_DEBUG": "1"}
        )


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ("when\n2003-05-02 10:00\nsoon\n", "s.csv: Column 'when', row 2: 'soon' is not a time"),
        ("who,time\nA,2003-05-02 10:00\nB,\u001b[31mlater\n", "s.csv: Column 'time', row 2:"),
        ("when\n2003-05-02T10:00Z\n", "s.csv: The times in column 'when' have a time zone"),
        ("when,who\n,A\n", "s.csv: column 'when' is empty"),
        ("", "s.csv is empty"),
        (None, "There is no file 's.csv'"),
    ],
)
@pytest.mark.parametrize("by", [(), ("--by", "station")])
def test_events_that_cannot_be_read_are_named(run, tmp_path, events, complaint, by):
    faulty()[0].assign(station="north").to_csv(tmp_path / "r.csv", index=False)
    if events is not None:
        (tmp_path / "s.csv").write_text(events, encoding="utf-8")
    result = run("fit", "r.csv", "--features", "time", *WORDS, "--events", "s.csv", *by, "--out", "o")
    assert result.exit_code == 2
    assert complaint in result.stderr and "\u001b" not in result.stderr
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--episodes", "--method", "gp"), "--episodes needs --method sparse"),
        (("--events", "s.csv", "--method", "gp"), "--episodes needs --method sparse"),
        (("--events", "s.csv", "--no-episodes"), "leave out --no-episodes"),
        (("--episodes", "--events", ""), "--events '' names nothing"),
        (("--episodes", "--features", "a,b"), "none of the features is a time (a, b). Name a column of times"),
    ],
)
@pytest.mark.parametrize("by", [(), ("--by", "station")])
def test_what_makes_no_sense_is_refused(run, tmp_path, words, complaint, by):
    rng = np.random.default_rng(0)
    faulty()[0].assign(a=rng.random(N), b=rng.random(N), station="north").to_csv(tmp_path / "r.csv", index=False)
    result = run("fit", "r.csv", "--target", "no_ppb", *words, *by, "--out", "o")
    assert result.exit_code == 2 and complaint in result.stderr
    assert not (tmp_path / "o").exists()


def test_table_and_events_cannot_both_be_standard_input(run):
    result = run("fit", "-", "--episodes", "--events", "-", stdin="a\n1\n")
    assert result.exit_code == 2 and "Only one of" in result.stderr and "standard input" in result.stderr


def test_the_terminal_lists_ten_and_says_how_many_more(capsys):
    rows = np.arange(3)
    many = [
        EpisodeRecord("stuck", rows, (0.0, 1.0), "", "", 0.0, 1.0, float(i), f"stuck\u001b[31m {i}.") for i in range(13)
    ]
    _tell_episodes(SimpleNamespace(episode_records=many))
    printed = capsys.readouterr().out
    assert [f" {i}." in printed for i in range(13)] == [False] * 3 + [True] * SHOWN_EPISODES
    assert printed.index(" 12.") < printed.index(" 3.") < printed.index("3 more")
    assert "\u001b" not in printed


@pytest.fixture
def stations(tmp_path):
    """Two stations, one of which has faults."""
    table = stuck_and_shifted()
    both = [table.assign(station="north"), table.iloc[36:100].assign(station="south")]
    pd.concat(both).to_csv(tmp_path / "r.csv", index=False)
    return ("fit", "r.csv", "--features", "time", *WORDS, "--by", "station", "--out", "o")


def results(folder) -> dict[str, dict[str, str]]:
    return {row["group"]: row for row in csv.DictReader((folder / "results.csv").read_text().splitlines())}


def test_a_fleet_counts_them_and_does_it_again_for_other_events(run, tmp_path, stations):
    (tmp_path / "s.csv").write_text("when\n2003-05-05 14:00\n")
    words = (*stations, "--events", "s.csv")
    result = run(*words)
    assert result.exit_code == 0, result.output
    rows = results(tmp_path / "o")
    assert rows["north"]["episodes"] == "2" and rows["south"]["episodes"] == "0"
    index = (tmp_path / "o" / "index.html").read_text(encoding="utf-8")
    assert '<button type="button">episodes</button>' in index and "<b>2</b><span>episodes</span>" in index
    cleaned = pd.read_csv((tmp_path / "o" / rows["north"]["file"]).parent / "cleaned.csv")
    assert set(cleaned["kind"][cleaned["episode"].notna()]) == {"stuck", "shift"}
    report = tmp_path / "o" / rows["south"]["file"]
    made = report.stat().st_mtime_ns
    assert run(*words).exit_code == 0 and report.stat().st_mtime_ns == made
    (tmp_path / "s.csv").write_text("when\n2003-05-05 15:00\n")
    assert run(*words, "--jobs", "2").exit_code == 0 and report.stat().st_mtime_ns > made


@pytest.fixture
def events_of_fits(monkeypatch):
    """What each fit was given as events, with its number of readings."""
    from biasgp import SparseBiasGP

    fit, given = SparseBiasGP.fit, {}

    def watched(self, X, y, **more):
        given[len(y)] = None if more["events"] is None else more["events"].tolist()
        return fit(self, X, y, **more)

    monkeypatch.setattr(SparseBiasGP, "fit", watched)
    return given


def test_each_group_of_a_fleet_has_its_own_events(run, tmp_path, stations, events_of_fits):
    """As hours since the first reading of the group."""
    (tmp_path / "s.csv").write_text("station,who,time\nnorth,A,2003-05-05 14:00\nsouth,B,\nnorth,C,2003-05-02 00:00\n")
    words = (*stations, "--events", "s.csv")
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert events_of_fits == {160: [110.0, 24.0], 64: None} and "s.csv has events of 1 of 2 groups." in result.stderr
    reports = {name: tmp_path / "o" / row["file"] for name, row in results(tmp_path / "o").items()}
    made = {name: path.stat().st_mtime_ns for name, path in reports.items()}
    events_of_fits.clear()
    (tmp_path / "s.csv").write_text("station,time\nnorth,2003-05-05 14:00\nnorth,2003-05-02 00:00\nsouth,2003-05-03\n")
    assert run(*words).exit_code == 0 and events_of_fits[64] == [12.0]
    assert reports["south"].stat().st_mtime_ns > made["south"]
    assert reports["north"].stat().st_mtime_ns == made["north"] and 160 not in events_of_fits, "its own are the same"


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        (
            "station,time\nnorth,2003-05-05 14:00\nsouht,2003-05-02\n",
            "row 2: the table has no group 'souht'. Did you mean",
        ),
        ("station,time\nX,2003-05-05 14:00\n", "row 1: the table has no group 'X'. There is 'north', 'south'."),
        ("time,station\n2003-05-05,north\n2003-05-05,\n", "s.csv: Column 'station', row 2: an event without a group"),
        ("station\nnorth\n", "s.csv has the column 'station' only"),
        ("station,time\nnorth,soon\nsouth,2003-05-05 14:00\n", "s.csv: Column 'time', row 1: 'soon' is not a time"),
        ("station,time\nnorth,\nsouth,\n", "s.csv: column 'time' is empty"),
    ],
)
def test_events_of_groups_that_make_no_sense_are_named(run, tmp_path, stations, events, complaint):
    (tmp_path / "s.csv").write_text(events)
    result = run(*stations, "--events", "s.csv")
    assert result.exit_code == 2 and complaint in result.stderr
    assert not (tmp_path / "o").exists()


def test_a_fleet_that_was_begun_before_there_were_episodes_goes_on(run, tmp_path, stations):
    assert run(*stations, "--no-episodes").exit_code == 0
    marker = tmp_path / "o" / "fleet.json"
    said = json.loads(marker.read_text(encoding="utf-8"))
    assert "episodes" not in said["settings"] and "events" not in said["selection"], "as such folders have it"
    report = tmp_path / "o" / results(tmp_path / "o")["south"]["file"]
    made = report.stat().st_mtime_ns
    said["settings"]["episodes"] = False
    marker.write_text(json.dumps(said), encoding="utf-8")
    assert run(*stations, "--no-episodes").exit_code == 0 and report.stat().st_mtime_ns == made
    other = run(*stations)
    assert other.exit_code == 2 and "begun without a search for episodes: --no-episodes goes on" in other.stderr
