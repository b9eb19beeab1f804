"""Folders of someone else: damaged or hostile files in them are named in one line, and names in them stay names."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from biasgp import study
from biasgp.cli.commands import app
from biasgp.fleet import FINISHED, FleetExecution, FleetGroup, fit_groups
from biasgp.runner import Outcome, Store, StoreError
from biasgp.runner.progress import _bar, _lines
from biasgp.study import Execution, SimulatedDesign, load
from biasgp.study.results import COLUMNS, write

QUIET = Execution(progress=False)
NESTED = "[" * 100_000


@pytest.fixture
def made(tmp_path, median, tiny):
    """A small study of the method that costs nothing."""
    study.simulated(tmp_path / "study", SimulatedDesign(methods=[median], **tiny), QUIET)
    return tmp_path / "study"


LINES = {
    "nested": f'{{"key": "a", "status": "ok", "value": {NESTED}}}',
    "only brackets": NESTED,
    "a list": '["a", "ok"]',
    "a number": "1",
    "a key that is none": '{"key": ["a"], "status": "ok"}',
    "a status that is none": '{"key": "a", "status": "fine"}',
    "a message that is none": '{"key": "a", "status": "failed", "message": {}}',
    "more than there is": '{"key": "a", "status": "ok", "run": "this"}',
    "a number without end": '{"key": "a", "status": "ok", "value": ' + "9" * 10_000 + "}",
}


@pytest.mark.parametrize("case", LINES)
def test_a_line_that_is_no_outcome_is_named(tmp_path, case):
    path = tmp_path / "tasks.jsonl"
    path.write_text(LINES[case] + "\n" + Outcome("b", "ok").line() + "\n")
    with pytest.raises(StoreError, match=r"Line 1 of .* is damaged"), Store(path):
        pass


def damage(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")


def with_study(**changes):
    def change(folder):
        found = json.loads((folder / "study.json").read_text())
        damage(folder, "study.json", json.dumps(found | changes))

    return change


def with_results(old, new):
    def change(folder):
        damage(folder, "results.csv", (folder / "results.csv").read_text().replace(old, new, 1))

    return change


DAMAGE = {
    "study.json: no JSON": (lambda folder: damage(folder, "study.json", "{"), "study.json"),
    "study.json: nested": (lambda folder: damage(folder, "study.json", NESTED), "study.json"),
    "study.json: a list": (lambda folder: damage(folder, "study.json", "[]"), "study.json"),
    "study.json: bytes": (lambda folder: damage(folder, "study.json", "\udcff"), "study.json"),
    "study.json: empty": (lambda folder: damage(folder, "study.json", "{}"), "study.json"),
    "study.json: kind": (with_study(kind="../x"), "kind"),
    "study.json: kind is a list": (with_study(kind=["simulated"]), "kind"),
    "study.json: version": (with_study(biasgp={"<b>": 1}), "biasgp"),
    "study.json: configuration": (with_study(configuration=3), "configuration"),
    "study.json: methods": (with_study(configuration={"methods": [1]}), "methods"),
    "study.json: machine": (with_study(machine={}), "machine"),
    "results.csv: a column": (with_results("replicate", "replicates"), "no column replicate"),
    "results.csv: a number": (with_results("friedman,ard,1,", "friedman,ard,one,"), "after row 0"),
    "results.csv: a cell too many": (with_results("friedman,", "friedman,,"), "results.csv"),
    "results.csv: a huge cell": (with_results("friedman,", "x" * 140_000 + ","), "results.csv"),
    "results.csv: bytes": (with_results("friedman,", "\udcff,"), "results.csv"),
    "curves.json: nested": (lambda folder: damage(folder, "curves.json", NESTED), "curves.json"),
    "curves.json: a list": (lambda folder: damage(folder, "curves.json", "[1]"), "curves.json"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_file_of_a_study_is_named(made, case):
    change, words = DAMAGE[case]
    change(made)
    with pytest.raises(ValueError) as error:
        load(made)
    assert words in str(error.value) and "\n" not in str(error.value)
    result = CliRunner().invoke(app, ["study", "report", str(made)])
    assert result.exit_code == 2 and "should not have happened" not in result.output
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_folder_with_a_damaged_description_is_not_taken_over(made, median, tiny):
    damage(made, "study.json", NESTED)
    with pytest.raises(ValueError, match=r"study\.json"):
        study.simulated(made, SimulatedDesign(methods=[median], **tiny), QUIET)
    assert (made / "study.json").read_text() == NESTED


@pytest.mark.parametrize("value", [[1], "text", 3, {"row": [1]}, {"row": {"status": "ok", "method": "x"}, "curve": 3}])
def test_values_that_no_task_leaves_do_not_stop_a_study(made, median, tiny, value):
    lines = [json.loads(line) for line in (made / "tasks.jsonl").read_text().splitlines()]
    damage(made, "tasks.jsonl", "".join(json.dumps(line | {"value": value}) + "\n" for line in lines))
    rows = study.simulated(made, SimulatedDesign(methods=[median], **tiny), QUIET).rows
    assert {row["method"] for row in rows} == {median}
    assert all(row["mse"] != row["mse"] for row in rows)  # NaN


@pytest.mark.parametrize("name", ["=1+1", "+a", "-a", "@a", "\ta", "'=a", "''=a", "＝a", "'a", "a", "it's"])
def test_names_are_inert_in_a_spreadsheet_and_come_back_as_they_were(made, name):
    write(made, "simulated", [{"method": name, "message": "", "status": "ok", "scenario": 1}], {})
    first = next(line for line in (made / "results.csv").read_text(encoding="utf-8").splitlines()[1:])
    cell = first.split(",")[COLUMNS["simulated"].index("method")]
    assert cell[0] not in "=+-@\t＝"
    assert load(made).rows[0]["method"] == name


# ---- what reaches the terminal


@pytest.mark.parametrize("reporter", [_bar, _lines])
def test_no_key_or_message_can_steer_the_terminal(reporter):
    out = io.StringIO()
    console = Console(file=out, force_terminal=False, width=200)
    with reporter(console, 0, 1) as report:
        report(Outcome("[red]a[/]\x1b[31m\\", "failed", message="\x1b]0;title\x07[link=x]b"))
    text = out.getvalue()
    assert "\x1b" not in text and "\x07" not in text
    assert "[red]a[/]" in text


def test_no_name_in_a_study_can_steer_the_terminal(tmp_path):
    folder = tmp_path / "a\x1b[31m[red]"
    result = CliRunner().invoke(app, ["study", "report", str(folder)])
    assert result.exit_code == 2
    assert "\x1b" not in result.output and "[red]" in result.output.replace("\n", "")


# ---- groups

ROWS = pd.DataFrame({"by": ["../../x"] * 8, "x": range(8), "y": [0.0, 1.0, 0.5, 2.0, 1.0, 0.1, 0.7, 0.3]})

HOSTILE = ["..", ".", "/", "../../etc/passwd", "CON", "con", "a", "A", "a ", " a", "a/b", "a\\b", "a\0b", "\x1b[31m"]
HOSTILE += [
    "x" * 5000,
    "x" * 5001,
    "é",
    "e\u0301",
    "Ж",
    "測站一",
    "測站二",
    "-rf",
    "~",
    "$HOME",
    "a:b",
    "a*",
    "",
    "nul.",
]


def test_folders_of_groups_are_plain_names_that_differ_even_without_case():
    slugs = [FleetGroup(name, []).slug for name in HOSTILE]
    assert len({slug.lower() for slug in slugs}) == len(HOSTILE)
    for slug in slugs:
        assert slug.isascii() and len(slug) < 60 and slug[0] not in ".-"
        assert all(c.isalnum() or c in "_-" for c in slug)


def test_names_without_a_plain_letter_do_not_meet():
    names = [chr(0x4E00 + i // 200) + chr(0x4E00 + i % 200) for i in range(20_000)]
    assert len({FleetGroup(name, []).slug for name in names}) == len(names)


def test_groups_of_one_name_are_one_group():
    groups = FleetGroup.all_in([1, "1", None, "b", 1.5, float("nan"), "1.5"])
    assert {group.name: sorted(group.rows.tolist()) for group in groups} == {"1": [0, 1], "1.5": [4, 6], "b": [3]}


@pytest.mark.parametrize(
    "value", [None, [1], "text", {"readings": "many", "flagged": 1.5, "noise_std": [1], "message": []}]
)
def test_finished_groups_of_someone_else(tmp_path, value):
    options = {"by": "by", "target": "y", "features": "x", "execution": FleetExecution(folder=tmp_path)}
    fit_groups(ROWS, **options)
    line = json.loads((tmp_path / FINISHED).read_text())
    damage(tmp_path, FINISHED, json.dumps(line | {"value": value}) + "\n")
    table = fit_groups(ROWS, **options).results
    assert table["status"].tolist() == ["ok"]
    assert table[["readings", "flagged", "noise_std"]].isna().all(axis=None)


def test_a_fleet_stays_in_its_folder(tmp_path):
    execution = FleetExecution(folder=tmp_path / "deep" / "fleet")
    fit_groups(ROWS, by="by", target="y", features="x", execution=execution)
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"fleet"}
