"""The project folder: names, options and files that are not what they should be."""

from __future__ import annotations

import io
import json
import socket
import zipfile

import pytest
from app_pages import readings

from biasgp.app import project as rooms
from biasgp.app.options import Options, on_page
from biasgp.app.project import Project, alone, announced, default_folder, safe_name
from biasgp.app.server import listening
from biasgp.cli.app import app
from biasgp.messages import TableError, WrongUseError


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("readings.csv", "readings.csv"),
        ("Messung März (2).xlsx", "Messung März (2).xlsx"),
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\r.csv", "r.csv"),
        (".hidden", "hidden"),
        ("nul", "_nul"),
        ("COM1.csv", "_COM1.csv"),
        ("", "_"),
        ("..", "_"),
        ("a\0b.csv", "a_b.csv"),
        ("a:b*c?.csv", "a_b_c_.csv"),
        ("x" * 300 + ".csv", "x" * 96 + ".csv"),
    ],
)
def test_names_of_tables(name, safe):
    assert safe_name(name) == safe
    assert safe_name(safe) == safe


@pytest.mark.parametrize("name", ["ü" * 300 + ".csv", "日" * 400, "a." + "b" * 400])
def test_names_fit_every_disk_and_stay_as_they_are(name):
    safe = safe_name(name)
    assert len(safe.encode()) <= 200 and safe_name(safe) == safe


def test_one_server_at_a_time_and_the_second_is_told_where_the_first_is(tmp_path):
    url = "http://127.0.0.1:1/token/"
    with alone(tmp_path), announced(tmp_path, url):
        assert (tmp_path / ".server.json").stat().st_mode & 0o077 == 0  # the token is this user's alone
        with pytest.raises(WrongUseError, match=url), alone(tmp_path):
            pass
    assert not (tmp_path / ".server.json").exists()
    with alone(tmp_path):
        pass


def test_a_table_and_a_folder_that_are_none_are_told(tmp_path):
    (tmp_path / "readings.csv").write_text(readings().to_csv(index=False))
    (tmp_path / "file").write_text("x")
    with pytest.raises(TableError, match="Did you mean"):
        app(tmp_path / "raedings.csv", browser=False)
    with pytest.raises(WrongUseError, match="Choose another --project"):
        app(project=tmp_path / "file", browser=False)


def test_a_port_that_is_taken_is_told():
    with listening(0) as place, pytest.raises(WrongUseError, match="Choose another --port"):
        listening(place.getsockname()[1])


def test_answers_do_not_wait_for_confirmation():
    """asyncio switches Nagle's algorithm off for sockets that say that they are TCP: 40 ms for each answer."""
    with listening(0) as place:
        assert place.proto == socket.IPPROTO_TCP


def test_where_a_project_is(tmp_path):
    assert default_folder(tmp_path / "readings.csv") == tmp_path / "readings-biasgp"
    assert str(default_folder(None)) == "biasgp-project"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '{"format": 2}',
        '{"table": 3}',
        '{"table": "../secret.csv"}',
        '{"table": "a/b.csv"}',
        '{"options": []}',
        '{"options": {"kernel": "cubic"}}',
        '{"options": {"colour": "red"}}',
        "[" * 10_000,
    ],
)
def test_a_project_file_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "project.json").write_text(text)
    with pytest.raises(WrongUseError):
        Project(tmp_path)


def test_options_go_through_json_as_they_are():
    assert Options().changed({"noise_model": "varying", "method": "gp"}).settings().estimator().noise_model == "varying"
    options = Options().changed(
        {"noise_model": None, "target": "y", "features": ["a, b", "c"], "na": ["-"], "day_first": True, "where": ""}
    )
    assert Options().changed(json.loads(json.dumps(options.plain()))) == options
    assert options.where is None and options.features == ("a, b", "c")


def test_names_with_commas_are_names(tmp_path):
    frame = readings().rename(columns={"time": "time, local"}).assign(**{"a,b": range(60)})
    source = tmp_path / "t.csv"
    frame[["time, local", "a,b", "no_ppb"]].to_csv(source, index=False)
    project = Project(tmp_path / "project")
    project.take_table(source, "t.csv")
    project.change_options({"features": ["time, local", "a,b"]})
    assert project.loaded().readings.names == ["time, local", "a,b"]


def test_what_the_command_says_is_said_in_the_words_of_the_page():
    said = on_page("Choose another --target, or check --na. Say --no-header. Features: 'x' (choose with --features).")
    assert said == "Choose another target, or check the missing marks. Say no header line. Features: 'x'."


def test_a_workbook_that_would_fill_the_memory_is_refused_unread(tmp_path, monkeypatch):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", b"0" * 2_000_000)
    (tmp_path / "bomb.xlsx").write_bytes(out.getvalue())
    project = Project(tmp_path / "project")
    monkeypatch.setattr(rooms, "MOST_EXPANDED", 1_000_000)
    with pytest.raises(WrongUseError, match="too much"):
        project.take_table(tmp_path / "bomb.xlsx", "bomb.xlsx")
    assert project.name is None


def test_a_full_disk_leaves_no_half_of_a_verdict(tmp_path, monkeypatch):
    source = tmp_path / "t.csv"
    readings().to_csv(source, index=False)
    project = Project(tmp_path / "project")
    project.take_table(source, "t.csv")
    project.judge([0], "bad", "")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("biasgp.app.journal.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        project.judge([1], "bad", "")
    monkeypatch.undo()
    project.judge([2], "good", "")
    assert Project(tmp_path / "project").judgements().codes[:4].tolist() == [2, 0, 1, 0]
