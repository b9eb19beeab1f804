"""`biasgp fit --together`: co-located sensors in one table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from biasgp.cli.commands import app
from biasgp.data.faults import FaultScenario, TogetherScenario
from biasgp.persistence import load_model

N = 70
SCENARIO = TogetherScenario(FaultScenario(kind="none", n=N, length_scale=15.0), size=8.0, stays=True)
STUCK = slice(20, 40)
HOSTILE = "<b>C</b>%{x}"
WORDS = ("--target", "no_ppb", "--features", "time", "--together", "sensor")


def table() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Three sensors in the order of time, one of which drifts, with a stuck stretch of C; and what is true."""
    data = SCENARIO.draw(random_state=5)
    y = data.y.copy()
    stuck = np.flatnonzero(data.sensor == "C")[STUCK]
    y[stuck] = y[stuck[0]]
    times = pd.Timestamp("2026-03-01") + pd.to_timedelta(data.t - 1.0, unit="h")
    whole = pd.DataFrame({"time": times, "sensor": data.sensor, "no_ppb": np.round(y, 4), "f": data.f, "t": data.t})
    whole["stuck"], whole["noise"] = np.isin(np.arange(len(y)), stuck), data.y - data.f - data.bias
    whole = whole.sort_values(["time", "sensor"], ignore_index=True)
    whole["sensor"] = whole["sensor"].replace({"C": HOSTILE})
    return whole[["time", "sensor", "no_ppb"]], whole


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """One fit that several tests look at: its folder, what was printed, and the truth."""
    folder = tmp_path_factory.mktemp("together")
    written, whole = table()
    written.to_csv(folder / "all.csv", index=False)
    words = [
        "fit",
        str(folder / "all.csv"),
        *WORDS,
        "--response",
        "identity",
        "--out",
        str(folder / "out"),
    ]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder / "out", result.stdout, whole


def test_the_terminal_tells_of_each_sensor(found):
    _, printed, whole = found
    drifting = SCENARIO.draw(random_state=5).drifting
    assert drifting in "AB"
    for label in ("A", "B", HOSTILE):
        assert f"{label} has an error of its own from" in printed
    start = whole["time"][whole["stuck"]].min().strftime("%Y-%m-%d %H:%M")
    assert f"sensor {HOSTILE}: stuck at" in printed and f"for 19 h from {start}" in printed


def test_cleaned_readings_are_the_truth_and_noise(found):
    folder, _, whole = found
    cleaned = pd.read_csv(folder / "cleaned.csv", keep_default_na=False)
    noise = SCENARIO.record.noise
    assert np.sqrt(np.mean((cleaned["mean"] - whole["f"]) ** 2)) < 0.6 * noise
    for label in ("A", "B"):
        rows = cleaned["sensor"] == label
        off = (cleaned["no_ppb"] - cleaned["bias"] - whole["f"])[rows]
        assert np.sqrt(np.mean(off**2)) < 1.1 * np.sqrt(np.mean(whole["noise"][rows] ** 2))
    # One truth at one time, whatever the sensor.
    assert (cleaned.groupby("time")[["mean", "std"]].nunique() == 1).all(axis=None)
    assert ((cleaned["kind"] == "stuck") == whole["stuck"]).all()


def test_the_summary_and_the_page_name_sensors(found):
    folder, *_ = found
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert [(each["kind"], each["sensor"]) for each in summary["episodes"]] == [("stuck", HOSTILE)]
    assert summary["episodes"][0]["words"].startswith(f"sensor {HOSTILE}: stuck at")
    assert "episodes" not in summary["command"], "they are looked for as a rule"
    assert {each["sensor"] for each in summary["flagged"]} >= {HOSTILE}
    assert "--together sensor" in summary["command"] and summary["features"] == ["time"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert HOSTILE not in page and "&lt;b&gt;C&lt;/b&gt;" in page
    assert '"name":"A"' in page and '"symbol":"square"' in page and "%{customdata[4]}" in page
    assert '<button type="button">sensor</button>' in page or ">sensor<" in page


def test_the_model_predicts_the_truth_and_judges_readings_of_a_sensor(found, run, tmp_path):
    folder, _, whole = found
    model = load_model(folder / "model.skops")
    assert model.category_columns_[0].labels == tuple(sorted(["A", "B", HOSTILE]))
    drifting = SCENARIO.draw(random_state=5).drifting
    steady = "A" if drifting == "B" else "B"
    last = whole[(whole["sensor"] == drifting)].iloc[[-1]]
    row = last[["time", "sensor", "no_ppb"]]
    three = pd.concat([row, row.assign(sensor=steady), row.assign(sensor="")])
    three.to_csv(tmp_path / "new.csv", index=False)
    assert run("predict", folder / "model.skops", "new.csv", "--out", "p.csv").exit_code == 0
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert predicted["mean"].nunique() == 1 and predicted["std"].nunique() == 1
    assert predicted["flag"].tolist()[:2] == [0, 1] and np.isnan(predicted["flag"][2])
    inside = predicted["reading_low_95"] < predicted["no_ppb"]
    inside &= predicted["no_ppb"] < predicted["reading_high_95"]
    assert inside.tolist() == [True, False, False]
    assert predicted["bias"][0] == pytest.approx(float(last["no_ppb"].iloc[0] - last["f"].iloc[0]), abs=0.7)
    three[["time"]].to_csv(tmp_path / "times.csv", index=False)
    result = run("predict", folder / "model.skops", "times.csv", "--out", "q.csv")
    assert result.exit_code == 0 and "There is no column 'sensor'" in result.stderr
    assert pd.read_csv(tmp_path / "q.csv")["mean"].tolist() == predicted["mean"].tolist()


def test_a_reference_numbers_as_labels_and_rows_held_out(run, tmp_path):
    written, _ = table()
    drifting = SCENARIO.draw(random_state=5).drifting
    codes = {"A": 1, "B": 2, HOSTILE: 3}
    written.assign(sensor=written["sensor"].map(codes)).to_csv(tmp_path / "r.csv", index=False)
    reference = str(codes["A" if drifting == "B" else "B"])
    words = ("--target", "no_ppb", "--together", "sensor", "--reference", reference, "--test-fraction", "0.2")
    result = run("fit", "r.csv", *words, "--out", "o")
    assert result.exit_code == 0, result.output
    assert "Features: 'time'" in result.stderr, "the labels are no feature"
    assert f"{reference} is the reference." in result.stdout
    summary = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))
    assert summary["test"]["coverage_95_of_unflagged"] > 0.8
    assert f"--reference {reference}" in summary["command"]
    assert load_model(tmp_path / "o" / "model.skops").category_columns_[0].reference == reference


def test_rows_that_were_not_in_the_fit_have_the_errors_of_their_sensors(run, tmp_path):
    written, whole = table()
    written.to_csv(tmp_path / "r.csv", index=False)
    result = run("fit", "r.csv", *WORDS, "--response", "identity", "--max-rows", "150", "--out", "o")
    assert result.exit_code == 0, result.output
    cleaned = pd.read_csv(tmp_path / "o" / "cleaned.csv")
    drifting = SCENARIO.draw(random_state=5).drifting
    rest = (cleaned["use"] == "judged only") & (cleaned["sensor"] == drifting) & (whole["t"] > N - 15)
    assert rest.any()
    off = (cleaned["no_ppb"] - cleaned["bias"] - whole["f"])[rest]
    assert np.sqrt(np.mean(off**2)) < 1.5 * SCENARIO.record.noise


def test_episodes_can_be_left_out(run, tmp_path):
    table()[0].to_csv(tmp_path / "r.csv", index=False)
    result = run("fit", "r.csv", *WORDS, "--response", "identity", "--no-episodes", "--out", "o")
    assert result.exit_code == 0, result.output
    assert "stuck at" not in result.stdout and "A has an error of its own" in result.stdout
    summary = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))
    assert "--no-episodes" in summary["command"]
    assert "episode" not in pd.read_csv(tmp_path / "o" / "cleaned.csv").columns


@pytest.mark.parametrize("method", ["gp", "cob"])
def test_other_methods_share_the_truth_as_well(run, tmp_path, method):
    table()[0].to_csv(tmp_path / "r.csv", index=False)
    result = run("fit", "r.csv", *WORDS, "--method", method, "--out", "o")
    assert result.exit_code == 0, result.output
    assert "A has an error of its own" in result.stdout


def test_without_a_time_the_errors_change_with_all_features(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 2))
    y = np.sin(4 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(60)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "s": np.repeat(["p", "q"], 30), "y": y})
    frame.to_csv(tmp_path / "r.csv", index=False)
    result = run("fit", "r.csv", "--together", "s", "--out", "o")
    assert result.exit_code == 0, result.output
    kernel = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))["kernel"]
    assert kernel.count("columns=(0, 1)") == 2 and "Same(2" in kernel


@pytest.mark.parametrize(
    ("change", "words", "complaint"),
    [
        (None, ("--together", "sensr"), "has no column 'sensr'. Did you mean 'sensor'?"),
        (None, ("--together", ""), "--together '' names nothing"),
        (None, ("--together", "sensor", "--by", "sensor"), "--together fits all sensors at once"),
        (None, ("--reference", "A"), "--reference needs --together"),
        (None, ("--together", "sensor", "--reference", "Z"), "--reference 'Z' is no label of 'sensor': there is"),
        (None, ("--together", "sensor", "--reference", "A", "--method", "gp"), "--reference needs --method sparse"),
        (None, ("--together", "sensor", "--features", "time,sensor"), "'sensor' names the sensors (--together)"),
        (None, ("--together", "no_ppb", "--target", "no_ppb"), "'no_ppb' names the sensors (--together)"),
        (lambda t: t[t["sensor"] == "A"], ("--together", "sensor"), "has only one label, 'A'"),
        (lambda t: t.assign(sensor=""), ("--together", "sensor"), "has no label"),
        (lambda t: t[(t["sensor"] != "B") | (t.index < 9)], ("--together", "sensor"), "'B' has 3 usable rows"),
    ],
)
def test_what_makes_no_sense_is_refused(run, tmp_path, change, words, complaint):
    written = table()[0]
    (written if change is None else change(written)).to_csv(tmp_path / "r.csv", index=False)
    result = run("fit", "r.csv", *words, "--out", "o")
    assert result.exit_code == 2, result.output
    assert complaint in result.stderr
    assert not (tmp_path / "o").exists()


def test_rows_without_a_label_are_left_out(run, tmp_path):
    written = table()[0]
    written.loc[[5, 9], "sensor"] = ""
    written.to_csv(tmp_path / "r.csv", index=False)
    result = run("fit", "r.csv", *WORDS, "--method", "gp", "--out", "o")
    assert result.exit_code == 0, result.output
    assert "Left out: 2 rows where 'sensor' is missing." in result.stdout
    cleaned = pd.read_csv(tmp_path / "o" / "cleaned.csv")
    assert cleaned["use"][[5, 9]].tolist() == ["not used"] * 2 and np.isfinite(cleaned["mean"][[5, 9]]).all()
