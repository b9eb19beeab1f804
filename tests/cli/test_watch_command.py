"""`biasgp watch`: readings that come, from a file that grows or standard input; ends, restarts, kills."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from biasgp.cli.commands import app
from biasgp.persistence import read_model, save_model
from biasgp.stream import load

FITTED, COMING, LAG = 80, 120, 5
HEADER = "time,note,no_ppb"


def rows(n: int = FITTED + COMING) -> list[str]:
    """A record with spikes and, after the fit, a shift."""
    rng = np.random.default_rng(3)
    hours = np.arange(n)
    y = 20.0 + 4.0 * np.sin(hours / 20.0) + 0.3 * rng.standard_normal(n)
    y[[11, 30, 62, 95, 120]] += 12.0
    y[150:165] += 6.0
    when = (pd.Timestamp("2026-03-01") + pd.to_timedelta(hours, unit="h")).strftime("%Y-%m-%dT%H:%M")
    return [f"{t},,{value:.3f}" for t, value in zip(when, y, strict=True)]


ROWS = rows()
NEW = ROWS[FITTED:]


def text(lines: list[str]) -> str:
    return "".join(line + "\n" for line in [HEADER, *lines])


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    (folder / "readings.csv").write_text(text(ROWS[:FITTED]))
    words = ["fit", str(folder / "readings.csv"), "--features", "time", "--target", "no_ppb", "--no-episodes"]
    result = CliRunner().invoke(app, [*words, "--out", str(folder / "out")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder / "out" / "model.skops"


@pytest.fixture
def watch(run, model):
    def watch(source: object = "live.csv", *words: object, **more):
        return run("watch", source, "--model", model, "--lag", LAG, *words, **more)

    return watch


@pytest.fixture
def live(tmp_path):
    """The file that grows."""
    path = tmp_path / "live.csv"
    path.write_text(text(NEW))
    return path


def events(output: str, kind: str) -> list[dict]:
    return [event for event in map(json.loads, output.splitlines()) if event["event"] == kind]


def test_verdicts_are_those_of_the_stream(watch, live, model):
    result = watch()
    assert result.exit_code == 0, result.output
    found = read_model(model).estimator.stream(lag=LAG).push(np.arange(FITTED, FITTED + COMING) * 1.0, values(NEW))
    come, settled = events(result.stdout, "reading"), events(result.stdout, "settled")
    assert len(come) == COMING and len(settled) == len(found.settled) == COMING - LAG
    for events_of, verdicts in ((come, found), (settled, found.settled)):
        assert [event["number"] for event in events_of] == verdicts.number.tolist()
        for name in ("mean", "std", "outlier_probability", "bias", "bias_std"):
            np.testing.assert_allclose([event[name] for event in events_of], getattr(verdicts, name), rtol=1e-7)
        assert [event["outlier"] for event in events_of] == verdicts.outlier.tolist()
        assert [event["episode"] for event in events_of] == verdicts.episode.tolist()
    assert [event["value"] for event in come] == values(NEW).tolist()
    assert [event["time"][:16] for event in come] == [row[:16] for row in NEW]
    assert {15, 40} <= {event["number"] for event in settled if event["outlier"]}
    assert f"{COMING} readings" in result.stderr and f"{LAG} wait" in result.stderr


def values(lines: list[str]) -> np.ndarray:
    return np.array([float(line.rpartition(",")[2]) for line in lines])


def test_each_reading_is_followed_by_the_verdict_that_it_settles(watch, live):
    lines = [json.loads(line) for line in watch().stdout.splitlines()]
    order = [(line["event"], line["number"]) for line in lines]
    for number in range(LAG, COMING):
        at = order.index(("reading", number))
        assert order[at + 1] == ("settled", number - LAG)


def test_readings_of_the_fit_are_passed_over(watch, live):
    live.write_text(text(ROWS))
    whole = watch()
    assert f"{FITTED} rows up to 2026-03-04T07:00:00" in whole.stderr
    live.write_text(text(NEW))
    assert whole.stdout == watch().stdout


ODD = [
    *NEW[:10], NEW[12], NEW[10], NEW[11], "", NEW[13], NEW[13], "2026-03-05T00:00,,", HEADER, NEW[18], NEW[17],
    "2026-03-05T04:00,,abc", "not,a,row,at,all", '"open,,1.0', ",,20.0", NEW[0], '"2026-03-05T05:00","a, b",21.5',
    *NEW[30:80],
]  # fmt: skip


@pytest.mark.parametrize("line_format", ["json", "csv"])
def test_lines_do_not_depend_on_what_comes_together(watch, live, line_format):
    words = ("--skip-bad-rows", "--format", line_format)
    live.write_text(text(ODD))
    assert watch("live.csv", *words, "--out", "whole").exit_code == 0
    live.write_text("")
    content, cuts = text(ODD), random.Random(1)
    while content:
        size = cuts.randint(1, 300)
        with live.open("a") as file:
            file.write(content[:size])
        content = content[size:]
        assert watch("live.csv", *words, "--out", "parts").exit_code == 0
    folder = live.parent
    whole = (folder / "whole").read_bytes()
    assert (folder / "parts").read_bytes() == whole
    if line_format == "json":
        skipped = events(whole.decode(), "skipped")
        reasons = [(event["line"], event["note"]) for event in skipped]
        assert [line for line, _ in reasons] == [22, 23, 24, 25, 26]
        for word, (_, note) in zip(
            ["'abc' is not a number", "5 cells", "quote", "empty", "before"], reasons, strict=True
        ):
            assert word in note
        (missing,) = [event for event in events(whole.decode(), "reading") if event["value"] is None]
        assert missing["outlier_probability"] is None and np.isfinite(missing["mean"])
    else:
        lines = list(csv.DictReader(io.StringIO(whole.decode())))
        assert [line["event"] for line in lines].count("skipped") == 5
        assert "line 22: " in next(line["note"] for line in lines if line["event"] == "skipped")
    assert not list(folder.glob(".*"))


def test_only_some_events(watch, live):
    assert {json.loads(line)["event"] for line in watch("live.csv", "--events", "settled").stdout.splitlines()} == {
        "settled"
    }
    assert {json.loads(line)["event"] for line in watch("live.csv", "--events", "reading").stdout.splitlines()} == {
        "reading"
    }


def test_a_line_without_its_end_waits_for_it(watch, live, tmp_path):
    live.write_text(text(NEW[:20]) + NEW[20][:-2])
    result = watch("live.csv", "--out", "v.jsonl")
    assert result.exit_code == 0 and "no end yet" in result.stderr and "20 readings" in result.stderr
    with live.open("a") as file:
        file.write(NEW[20][-2:] + "\n")
    assert "1 readings" in watch("live.csv", "--out", "v.jsonl").stderr
    assert events((tmp_path / "v.jsonl").read_text(), "reading")[-1]["value"] == values(NEW)[20]


def truncated(path):
    path.write_text(text(NEW[:10]))


def rewritten(path):
    path.write_text(text([row.replace(",,", ",x,") for row in NEW]))


def reheaded(path):
    path.write_text(path.read_text().replace("note", "remark"))


def replaced(path):
    path.rename(path.with_name("old.csv"))
    path.write_text(text(NEW[100:]))


MISBEHAVIOUR = {
    "cut short": truncated,
    "rewritten": rewritten,
    "The header of live.csv has changed": reheaded,
    "cut short:": replaced,
    "line 62: column 'no_ppb': 'abc' is not a number.": lambda path: append(path, ["2026-03-09T00:00,,abc"]),
    "line 62: its time, 2026-03-04T08:00:00, is before readings that are settled": lambda path: append(path, [NEW[0]]),
    "line 62: another header": lambda path: append(path, ["no_ppb,note,time", NEW[60]]),
    "line 63: it has 2 cells": lambda path: append(path, [NEW[60], "2026-03-09T00:00,"]),
    "line 62: Column 'time': '2026-99-99' is not a time": lambda path: append(path, ["2026-99-99,,20.0"]),
    "no end of the line in 1,048,576 bytes": lambda path: append(path, ["x" * (1 << 20)]),
}


def append(path, lines):
    with path.open("a") as file:
        file.writelines(line + "\n" for line in lines)


@pytest.mark.parametrize("message", MISBEHAVIOUR)
def test_a_source_that_misbehaves_ends_the_run_with_3_and_loses_nothing(watch, live, tmp_path, message):
    live.write_text(text(NEW[:60]))
    assert watch("live.csv", "--out", "v.jsonl").exit_code == 0
    before = (tmp_path / "v.jsonl").read_bytes()
    MISBEHAVIOUR[message](live)
    result = watch("live.csv", "--out", "v.jsonl")
    assert result.exit_code == 3 and message in result.stderr, result.stderr
    assert (tmp_path / "v.jsonl").read_bytes().startswith(before)
    live.write_text(text(NEW))  # mended
    assert watch("live.csv", "--out", "v.jsonl").exit_code == 0
    assert watch("live.csv", "--out", "whole.jsonl").exit_code == 0
    assert (tmp_path / "v.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_new_file_goes_on_where_that_is_wanted(watch, live, tmp_path):
    words = ("live.csv", "--out", "v.jsonl", "--rotated")
    assert watch(*words[:3], "--out", "whole.jsonl").exit_code == 0
    live.write_text(text(NEW[:60]))
    assert watch(*words).exit_code == 0
    live.unlink()
    live.write_text(text(NEW[60:]))
    result = watch(*words)
    assert result.exit_code == 0 and "replaced 1 time" in result.stderr
    assert (tmp_path / "v.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    live.write_text("when,what\n1,2\n")
    result = watch(*words)
    assert result.exit_code == 3 and "header" in result.stderr


def test_standard_input_in_whole_in_part_and_again(watch, live, tmp_path):
    assert watch("live.csv", "--out", "whole.jsonl").exit_code == 0
    words = ("-", "--out", "v.jsonl")
    assert watch(*words, stdin=text(NEW[:50])).exit_code == 0
    assert watch(*words, stdin=text(NEW[:50])).exit_code == 0  # told again: nothing is repeated
    assert watch(*words, stdin=text(NEW[:70])).exit_code == 0  # told again, and more
    assert watch(*words, stdin="".join(row + "\n" for row in NEW[70:90])).exit_code == 0  # what follows only
    assert watch(*words, stdin=text(NEW[90:])).exit_code == 0  # with its header
    assert (tmp_path / "v.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    result = watch("-", "--out", "w.jsonl", stdin=text(NEW[:50]))
    assert result.exit_code == 0
    result = watch("-", "--out", "w.jsonl", stdin=text(NEW[:20]))
    assert result.exit_code == 3 and "begins as before" in result.stderr
    other = text([*NEW[:30], *(row.replace(",,", ",x,") for row in NEW[30:])])
    result = watch("-", "--out", "w.jsonl", stdin=other)
    assert result.exit_code == 3 and "differs before byte" in result.stderr


def test_other_ways_of_writing(watch, live):
    brief = [row[:-1] for row in NEW]
    live.write_text(text(brief))
    expected = watch().stdout
    written = [row.replace(",,", ";;").replace(".", ",") for row in brief]
    live.write_text("".join(line + "\r\n" for line in ["time;note;no_ppb", *written]), encoding="utf-8-sig")
    assert watch().stdout == expected
    live.write_text(text([*brief[:9], brief[9].replace(".", ",").replace(",,", ',,"') + '"']))
    result = watch()
    assert result.exit_code == 3 and "is not a number with a decimal point, as those before have" in result.stderr
    live.write_text("time;note;no_ppb\n" + NEW[0].replace(",,", ";;").replace(".", ",") + "\n")
    assert "commas were read as thousands marks" in watch().stderr  # as the fit had points
    live.write_text("".join(f"{row}\n" for row in NEW))
    result = watch("live.csv", "--no-header")
    assert result.exit_code == 2 and "no column 'time'" in result.stderr


TOA5 = [
    '"TOA5","North mast","CR1000",2026',
    f'"{HEADER.replace(",", chr(34) + "," + chr(34))}"',
    '"TS","","ppb"',
    '"","","Avg"',
]
KEYS = ["# North mast", "# begun: 2026-03-04", "", HEADER, "yyyy-mm-dd hh:mm,,ppb"]


def file_of(head: list[str], lines: list[str]) -> str:
    return "".join(line + "\n" for line in [*head, *lines])


@pytest.mark.parametrize("head", [TOA5, KEYS], ids=["toa5", "comments"])
def test_lines_before_the_header_and_units_are_passed_over_as_by_fit(watch, live, tmp_path, head):
    few = NEW[:30]
    live.write_text(text(few))
    assert watch("live.csv", "--out", "plain.jsonl").exit_code == 0
    expected = (tmp_path / "plain.jsonl").read_bytes()
    live.write_text(file_of(head, few))
    at = next(i for i, line in enumerate(head) if "no_ppb" in line)
    result = watch("live.csv", "--out", "v.jsonl")
    said = " ".join(result.stderr.split())
    assert result.exit_code == 0 and (tmp_path / "v.jsonl").read_bytes() == expected
    assert f"the first {at} lines of live.csv" in said.replace("first line of", "first 1 lines of")
    assert "read as units" in said
    # As it grows, from its first line on, with a run for each line.
    parts = [*range(1, len(head) + 3), len(head) + 20, len(head) + len(few)]
    for count in parts:
        live.write_text(file_of([*head, *few][:count], []))
        result = watch("live.csv", "--out", "grown.jsonl") if count > at else None
        assert result is None or result.exit_code == 0, result.output
    assert (tmp_path / "grown.jsonl").read_bytes() == expected
    # In a pipe that is told again, and in a new file that began at another time.
    assert watch("-", "--out", "piped.jsonl", stdin=file_of(head, few[:10])).exit_code == 0
    assert watch("-", "--out", "piped.jsonl", stdin=file_of(head, few)).exit_code == 0
    assert (tmp_path / "piped.jsonl").read_bytes() == expected
    live.write_text(file_of(head, few[:10]))
    assert watch("live.csv", "--out", "turned.jsonl", "--rotated").exit_code == 0
    live.unlink()
    live.write_text(file_of([line.replace("2026", "2027") for line in head[:at]] + head[at:], few[10:]))
    result = watch("live.csv", "--out", "turned.jsonl", "--rotated")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "turned.jsonl").read_bytes() == expected


def test_what_is_said_of_the_head_comes_first(watch, live):
    few = NEW[:8]
    live.write_text(text(few))
    expected = watch().stdout
    live.write_text(file_of(["a", "b,c", HEADER, "x,y,z"], few))
    assert watch("live.csv", "--skip", 2, "--units").stdout == expected
    result = watch("live.csv", "--no-units")
    assert result.exit_code == 3 and "line 4: Column 'time'" in result.stderr
    result = watch("live.csv", "--skip", 50)
    assert result.exit_code == 2 and "--skip 50: live.csv has 12 lines" in result.stderr
    live.write_text(file_of(["a", "b,c"], few))
    result = watch("live.csv", "--skip", 2, "--no-header")
    assert result.exit_code == 2 and "no column 'time'. There is 'column 1'" in result.stderr


def test_a_source_without_the_columns_is_refused_and_a_header_that_may_come_is_waited_for(watch, live, model):
    live.write_text("mast,north\nwhen,what,which\n" + "".join(f"{row}\n" for row in NEW[:5]))
    result = watch()
    assert result.exit_code == 2 and "no column 'time'. There is 'when'" in result.stderr
    live.write_text("North mast\n")
    result = watch()
    assert result.exit_code == 2 and "no column 'time'" in result.stderr and "waiting for its header" in result.stderr


def test_detection_limits_are_left_out_counted_and_said_once(watch, live):
    lines = [f"{row.rsplit(',', 1)[0]},<0.5" if i in (3, 4, 9) else row for i, row in enumerate(NEW[:20])]
    missing = [line.replace("<0.5", "") for line in lines]
    live.write_text(text(missing))
    expected = watch().stdout
    live.write_text(text([*lines[:6], "# the sensor was cleaned", *lines[6:]]))
    result = watch()
    said = " ".join(result.stderr.split())
    assert result.exit_code == 0 and result.stdout == expected
    assert said.count("is a detection limit") == 1 and "Line 5: '<0.5' is a detection limit" in said
    assert "3 detection limits were left out" in said and "1 lines that begin with #" in said


def test_what_cannot_be_watched_is_refused(watch, live, tmp_path, model, done, run):
    def refused(*words: object, **more) -> str:
        result = watch(*words, **more)
        assert result.exit_code == 2, result.output
        return result.stderr

    assert "There is no file 'none.csv'" in refused("none.csv")
    assert "is a folder" in refused(tmp_path)
    assert "is what is read" in refused("live.csv", "--out", "live.csv")
    assert "leave out --no-header" in refused("live.csv", "--rotated", "--no-header")
    assert "cannot be followed by lines" in refused("live.csv", "--encoding", "utf-16")
    assert "no folder" in refused("live.csv", "--out", "none/v.jsonl")
    (tmp_path / "mine.jsonl").write_text("mine")
    assert "there already" in refused("live.csv", "--out", "mine.jsonl")
    assert "there already" in refused("live.csv", "--out", "mine.jsonl") and (tmp_path / "mine.jsonl").exists()
    assert watch("live.csv", "--out", "mine.jsonl", "--force").exit_code == 0
    assert "another --lag" in refused("live.csv", "--out", "mine.jsonl", "--lag", 7)
    assert "another --format" in refused("live.csv", "--out", "mine.jsonl", "--format", "csv")
    (tmp_path / "mine.jsonl").write_text("")
    assert "shorter than its state says" in refused("live.csv", "--out", "mine.jsonl")
    live.write_text(text(NEW).replace("no_ppb", "o3_ppb"))
    assert "no column 'no_ppb'" in refused()
    live.write_text(text(NEW))
    result = run("watch", "live.csv", "--model", done[0] / "model.skops")
    assert result.exit_code == 2 and "Fit again with --features time" in result.stderr


def test_a_model_without_a_state_says_what_to_fit_instead(run, live, tmp_path):
    (tmp_path / "readings.csv").write_text(text(ROWS[:40]))
    words = ("--features", "time", "--kernel", "se", "--method", "gp", "--response", "identity", "--out", "se")
    assert run("fit", "readings.csv", *words).exit_code == 0
    result = run("watch", "live.csv", "--model", "se/model.skops")
    assert result.exit_code == 2 and "Matern52" in result.stderr and "--kernel exponential" in result.stderr


def test_a_state_from_anywhere_is_checked(watch, live, tmp_path, model):
    assert watch("live.csv", "--out", "v.jsonl").exit_code == 0
    path = tmp_path / "v.jsonl.state"
    for change in ({"offset": -1}, {"tail": "x"}, {"formats": {"time": [";", None]}}, {"written": 1.5}, {"sep": 3}):
        stream = load(path)
        good = dict(stream.about)
        stream.about = {**good, **change}
        stream.save(tmp_path / "v.jsonl.state")
        result = watch("live.csv", "--out", "v.jsonl")
        assert result.exit_code == 2 and "damaged" in result.stderr, change
        stream.about = good
        stream.save(path)
    save_model(path, read_model(model).estimator)
    assert watch("live.csv", "--out", "v.jsonl").exit_code == 2


def begun(watch, live, out: str) -> None:
    """The state of a run that has seen the header only, so that processes need not compile anything."""
    live.write_text(HEADER + "\n")
    assert watch("live.csv", "--out", out).exit_code == 0


def start(folder, model, *words: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "biasgp", "watch", "live.csv", "--model", str(model), "--lag", str(LAG), *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_for(process: subprocess.Popen, path, count: int) -> None:
    """Until a process that runs has written so many lines."""
    until = time.monotonic() + 120.0
    while not path.exists() or path.read_text().count("\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def test_follow_ends_with_0_on_ctrl_c_and_with_3_when_the_file_vanishes(watch, live, tmp_path, model):
    begun(watch, live, "v.jsonl")
    with start(tmp_path, model, "--out", "v.jsonl", "--follow", "--events", "all") as process:
        for row in NEW[:4]:
            append(live, [row])
            wait_for(process, tmp_path / "v.jsonl", NEW.index(row) + 1)
        another = watch("live.csv", "--out", "v.jsonl")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and "4 readings" in errors and "Traceback" not in errors
    assert another.exit_code == 2 and "Another run is writing" in another.stderr
    with start(tmp_path, model, "--out", "v.jsonl", "--follow") as process:
        append(live, [NEW[4]])
        wait_for(process, tmp_path / "v.jsonl", 5)
        live.rename(tmp_path / "moved.csv")
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 3 and "live.csv has vanished" in errors
    assert len(events((tmp_path / "v.jsonl").read_text(), "reading")) == 5


def test_killed_at_any_time_it_loses_and_repeats_nothing(watch, live, tmp_path, model):
    assert watch("live.csv", "--out", "whole.jsonl").exit_code == 0
    begun(watch, live, "v.jsonl")
    rng, out, seen = random.Random(int(os.environ.get("SEED", "5"))), tmp_path / "v.jsonl", b""
    rest = list(NEW)
    for end in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):  # which asks it to finish the batch
        with start(tmp_path, model, "--out", "v.jsonl", "--follow") as process:
            count, target = out.read_text().count("\n") if out.exists() else 0, rng.randint(5, 20)
            for row in rest[:target]:
                append(live, [row])
                time.sleep(rng.uniform(0.0, 0.01))
            rest = rest[target:]
            wait_for(process, out, count + 1)
            time.sleep(rng.uniform(0.0, 0.4))
            process.send_signal(end)
            process.communicate(timeout=60)
        assert process.returncode == (0 if end == signal.SIGTERM else -end)
        found = out.read_bytes()
        assert found.startswith(seen)  # who follows the output sees nothing twice
        seen = found
    append(live, rest)
    assert watch("live.csv", "--out", "v.jsonl").exit_code == 0
    assert out.read_bytes().startswith(seen)
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("cut", [0, 1, 100, 5000])
def test_lines_that_a_killed_run_could_not_note_are_not_repeated(watch, live, tmp_path, cut):
    assert watch("live.csv", "--out", "whole.jsonl").exit_code == 0
    whole = (tmp_path / "whole.jsonl").read_bytes()
    live.write_text(text(NEW[:40]))
    assert watch("live.csv", "--out", "v.jsonl").exit_code == 0
    out = tmp_path / "v.jsonl"
    noted = len(out.read_bytes())
    out.write_bytes(whole[: noted + cut])  # the next chunk was written in part, and its state was not
    live.write_text(text(NEW))
    result = watch("live.csv", "--out", "v.jsonl")
    assert result.exit_code == 0 and "replaced" not in result.stderr
    assert out.read_bytes() == whole
