"""`biasgp fit --kernel`: kernels as text, and the one that is chosen by evidence."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import biasgp
from biasgp.analysis.fitting import Selection, Settings, fit
from biasgp.analysis.judging import examine
from biasgp.analysis.record import remarks, summary
from biasgp.cli.commands import app
from biasgp.estimators import METHODS
from biasgp.models.varying_noise import NOISE_MODELS
from conftest import FEATURES, OUTLIERS


def test_a_kernel_of_columns(run, readings, tmp_path):
    text = "matern32(time, 6h) + periodic(time, 1d, fixed=period) + linear(temperature_c)"
    result = run("fit", readings, *FEATURES, "--kernel", text, "--response", "identity", "--out", "o")
    assert result.exit_code == 0, result.output
    assert "temperature_c: has no length-scale in this kernel" in result.output
    summary = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))
    assert "period=24)" in summary["kernel"] and "Linear" in summary["kernel"]  # hours, which times are counted in
    assert text in summary["command"] and summary["varies_over"]["temperature_c"] is None
    assert [reading["row"] - 1 for reading in summary["flagged"]] == list(OUTLIERS)


@pytest.mark.parametrize(
    "text, words",
    {
        "matern32(time": "--kernel, character 14",
        "matern32(nope)": "asks for column 'nope', but X has 'time', 'temperature_c'",
        "matern32(temperature_c, 6h)": "column 'temperature_c' of X holds no times",
        "matern32(time) * same(note)": "--together",
        "matern32(time, temperature_c, 3)": "columns of different units",
    }.items(),
)
def test_a_kernel_that_cannot_be_is_refused_in_a_line(run, readings, text, words):
    result = run("fit", readings, *FEATURES, "--kernel", text)
    assert result.exit_code == 2 and words in result.output and "Traceback" not in result.output


def truth_at(hours):
    """Highest at about 14:00 of each day."""
    return 30.0 + 6.0 * np.cos(2.0 * np.pi * (hours - 14.0) / 24.0) + 1.5 * np.sin(hours / 20.0)


def cyclic(days: int = 16, every: float = 2.0) -> pd.DataFrame:
    """A daily cycle, highest at 14:00; a zero check each night at 04:00; two days without readings."""
    rng = np.random.default_rng(5)
    hours = np.arange(0.0, 24.0 * days, every)
    y = truth_at(hours) + 0.4 * rng.standard_normal(len(hours))
    y[hours % 24.0 == 4.0] = 0.1 * rng.standard_normal((hours % 24.0 == 4.0).sum())
    stamps = pd.Timestamp("2026-03-02") + pd.to_timedelta(hours, unit="h")
    table = pd.DataFrame({"time": stamps.strftime("%Y-%m-%dT%H:%M"), "sigma": 0.4, "no_ppb": np.round(y, 3)})
    return table[(hours < 168.0) | (hours >= 216.0)]


@pytest.fixture(scope="module")
def auto(tmp_path_factory):
    """A fit by default options to that table: folder, output and the table."""
    folder = tmp_path_factory.mktemp("auto")
    table = cyclic()
    table.to_csv(folder / "t.csv", index=False)
    words = ["fit", str(folder / "t.csv"), "--noise-column", "sigma", "--fill", "1h", "--out", str(folder / "o")]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder / "o", result.output, table


def test_a_cycle_is_told_in_words_everywhere(auto):
    folder, output, _ = auto
    found = re.search(r"The truth has a daily cycle of (\d+(?:\.\d+)?) ppb, highest at (1[345]):", output)
    assert found is not None and 9.0 < float(found[1]) < 15.0
    assert found[0] in (folder / "report.html").read_text(encoding="utf-8")
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert [part["part"] for part in summary["chosen"]] == ["daily"] and "Periodic" in summary["kernel"]
    assert "--kernel" not in summary["command"] and "--fill 1h" in summary["command"]
    assert "The stated noise of a reading is 0.4 ppb" in output


def test_a_nightly_check_is_told_once(auto):
    folder, output, table = auto
    n = int(table["time"].str.endswith("T04:00").sum())
    sentence = f"Every day at 04:00: {n} of {n} readings are flagged"
    assert output.count(sentence) == 1 and "T04:00" not in output and " 04:00 " not in output
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count(sentence) == 1 and "not listed one by one" in page
    (schedule,) = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["schedules"]
    assert schedule["when"] == "every day at 04:00" and len(schedule["rows"]) == n
    assert pd.read_csv(folder / "cleaned.csv")["flag"].sum() >= n


def test_a_regular_series_over_the_gap(auto):
    filled = pd.read_csv(auto[0] / "filled.csv")
    assert list(filled.columns) == ["time", "mean", "std", "low", "high", "gap"]
    times = pd.to_datetime(filled["time"])
    assert len(filled) == 16 * 24 - 1 and (times.diff().dropna() == pd.Timedelta("1h")).all()
    hours = (times - times[0]).dt.total_seconds() / 3600.0
    inside = filled["gap"] > 6.0
    assert inside.sum() >= 30 and np.abs(filled["mean"] - truth_at(hours))[inside].max() < 4.0
    assert filled["std"][inside].median() > 1.2 * filled["std"][filled["gap"] < 1.5].median()
    assert ((filled["low"] < filled["mean"]) & (filled["mean"] < filled["high"])).all()


def test_the_curve_of_the_page_goes_over_the_gap(auto):
    page = (auto[0] / "report.html").read_text(encoding="utf-8")
    lines = [json.loads(text) for text in re.findall(r'"x":\s*(\[[^\]]*\])[^{}]*?"name":\s*"estimated truth"', page)]
    steps = np.diff(lines[0]) if lines else np.empty(0)
    assert len(steps) and steps.max() <= 2.1 * 3_600_000.0


@pytest.mark.parametrize(
    "words, said",
    [
        (("--noise", "x"), "is no noise"),
        (("--noise", ""), "names nothing"),
        (("--noise", "1", "--noise-column", "no_flag"), "choose one"),
        (("--noise-column", "nope"), "nope"),
        (("--noise-column", "temperature_c"), "cannot be the target or a feature"),
        (("--noise-model", "varying", "--method", "cob"), "--noise-model needs --method sparse or gp"),
        (("--noise-model", "proportional"), "needs --response identity"),
        (("--noise-model", "proportional", "--response", "log"), "needs --response identity"),
        (("--fill", "1 parsec"), "is not a duration"),
        (("--fill", "1ns"), "take"),
        (("--fill", "0h"), "longer than nothing"),
        (("--kernel", "auto", "--fill", "1h", "--features", "temperature_c"), "none of the features is a time"),
    ],
)
def test_noise_and_steps_that_make_no_sense_are_refused(run, readings, words, said):
    result = run("fit", readings, *FEATURES, *words)
    assert result.exit_code == 2 and said in result.output and "Traceback" not in result.output


@pytest.fixture
def funnel(tmp_path):
    """A wave whose noise grows from .03 to .6."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 80))
    y = np.sin(x) + 0.03 * 20.0 ** (x / 10.0) * rng.standard_normal(80)
    pd.DataFrame({"x": x, "y": y}).to_csv(tmp_path / "funnel.csv", index=False)
    return tmp_path / "funnel.csv", ("--response", "identity", "--no-episodes", "--kernel", "se")


def test_noise_that_varies_is_asked_for_on_the_command_line_and_in_a_file(run, funnel, tmp_path):
    table, words = funnel
    result = run("fit", table, *words, "--noise-model", "varying", "--save-config", "o.toml", "--out", "o")
    assert result.exit_code == 0 and "The noise of good readings varies with the inputs" in result.output
    summary = json.loads((tmp_path / "o" / "summary.json").read_text(encoding="utf-8"))
    assert "--noise-model varying" in summary["command"]
    assert 'noise-model = "varying"' in (tmp_path / "o.toml").read_text(encoding="utf-8")
    low, high = biasgp.load(tmp_path / "o" / "model.skops").noise_std(pd.DataFrame({"x": [1.0, 9.0]}))
    assert high > 3.0 * low
    again = run("fit", table, "--config", "o.toml", "--noise-model", "constant", "--method", "gp", "--out", "p")
    assert again.exit_code == 0 and "noise of good readings varies" not in again.output
    low, high = biasgp.load(tmp_path / "p" / "model.skops").noise_std(pd.DataFrame({"x": [1.0, 9.0]}))
    assert high == low


def test_each_method_has_a_noise_model_of_its_own():
    asked = {name: Settings(name, "identity").estimator().get_params().get("noise_model") for name in METHODS}
    assert asked["sparse"] == "auto" and asked["gp"] == "constant"
    for name in NOISE_MODELS:
        assert Settings("gp", "identity", noise_model=name).estimator().noise_model == name


def test_a_negative_standard_deviation_is_named_with_its_row(run, tmp_path):
    table = cyclic(3)
    table.loc[table.index[4], "sigma"] = -1.0
    table.to_csv(tmp_path / "t.csv", index=False)
    result = run("fit", "t.csv", "--noise-column", "sigma")
    assert result.exit_code == 2 and "Column 'sigma', row 5: -1 is no standard deviation" in result.output


def test_limits_in_a_table_of_readings(tmp_path):
    cyclic(6).to_csv(tmp_path / "t.csv", index=False)
    selection = Selection(str(tmp_path / "t.csv"), "no_ppb", "time", where="no_ppb > 10")
    read = selection.readings(selection.table())
    limit = float(np.quantile(read.y[read.kept], 0.3))
    side = np.where(read.kept & (read.y < limit), -1.0, 0.0)
    read = replace(read, y=np.maximum(read.y, limit), censored=side)
    settings = Settings(kernel="matern32", response="identity", test_fraction=0.1)
    split = settings.split(read)
    assert not np.isin(np.flatnonzero(side), split.test).any()
    outcome = examine(selection, settings, "t.csv", read, fit(read, settings, split))
    assert not outcome.flagged[side < 0.0].any() and np.isnan(outcome.residual[side < 0.0]).all()
    assert (outcome.prediction.mean[side < 0.0] < limit + 1.0).all()
    assert summary(outcome)["rows"]["censored"] == int((side < 0.0).sum())
    assert any("only a limit is known" in line for line in remarks(outcome))
    other = replace(settings, method="cob")  # cannot use limits
    assert read.measured[other.split(read).fit].all()
    outcome = examine(selection, other, "t.csv", read, fit(read, other, other.split(read)))
    assert any("--method cob cannot use" in line for line in remarks(outcome))
