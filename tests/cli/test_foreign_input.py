"""Names and notes in a stranger's files: they are printed as text, name no other folder, and damage is one line."""

from __future__ import annotations

import json

import pytest

from biasgp.cli.fit import _folder_name
from biasgp.persistence import read_model, save_model
from conftest import logged

GP = ("--method", "gp", "--response", "identity", "--out", "out")


def test_no_column_name_can_steer_the_terminal(run, tmp_path):
    name = "[red]no[/red] [link=http://x]\x1b[31m\x1b]0;t\x07"
    logged().rename(columns={"no_ppb": name, "temperature_c": "{0}%s"}).to_csv(tmp_path / "r.csv", index=False)
    result = run("fit", "r.csv", *GP)
    assert result.exit_code == 0, result.output
    assert "[red]no[/red] [link=http://x]" in result.output and "{0}%s" in result.output
    assert "\x1b" not in result.output and "\x07" not in result.output
    refused = run("fit", "r.csv", "--target", "\x1b[31mx", *GP)
    assert refused.exit_code == 2 and "\x1b" not in refused.output


@pytest.mark.parametrize("target", ["..", "../../x", "/etc/passwd", "a\\b", "x" * 5000, "...", "测", "a\0b", "CON:"])
def test_a_target_names_a_folder_beside_the_table_and_no_other(target):
    name = _folder_name("deep/readings.csv", target)
    assert name.startswith("readings-") and len(name) < 100
    assert all(c.isascii() and (c.isalnum() or c in "_.-") for c in name)


NOTES = {
    "no list": {"features": 3},
    "no dicts": {"features": ["time"]},
    "unknown fields": {"features": [{"name": "time", "columns": ["time"], "run": "this"}]},
    "no columns": {"features": []},
    "columns that are none": {"features": [{"name": "time", "columns": [1]}] * 2},
    "without columns": {"features": [{"name": "time", "columns": []}] * 2},
    "one too few": {"features": [{"name": "time", "columns": ["time"]}]},
    "no target": {"target": None},
    "a list for a target": {"target": ["no_ppb"]},
    "no ranges": {"ranges": None},
    "ranges of another size": {"ranges": [[0, 1]]},
    "ranges of text": {"ranges": [["a", "b"], ["c", "d"]]},
    "a time that is none": {
        "features": [
            {"name": "time", "columns": ["time"], "is_time": True, "origin": "now?"},
            {"name": "temperature_c", "columns": ["temperature_c"]},
        ]
    },
}


@pytest.mark.parametrize("case", NOTES)
def test_notes_of_a_model_file_that_make_no_sense(run, done, tmp_path, case):
    saved = read_model(done[0] / "model.skops")
    save_model(tmp_path / "model.skops", saved.estimator, saved.about | NOTES[case])
    logged().to_csv(tmp_path / "r.csv", index=False)
    result = run("predict", "model.skops", "r.csv")
    assert result.exit_code == 2, result.output
    assert "model.skops is damaged or forged" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"model.skops", "r.csv"}


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, '{"by": ' + "[" * 100_000, json.dumps({"by": "other"})])
def test_a_folder_of_another_fleet_or_none(run, tmp_path, text):
    logged().assign(station="a").to_csv(tmp_path / "r.csv", index=False)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "fleet.json").write_text(text)
    result = run("fit", "r.csv", "--by", "station", "--target", "no_ppb", "--features", "time", *GP)
    assert result.exit_code == 2 and "holds another fleet" in result.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["fleet.json"]
