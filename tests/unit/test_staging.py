"""One writer at a time, and nothing left of those that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from biasgp.staging import InUseError, clear, lock, stage, sweep

pytest.importorskip("fcntl")

HOLD = """
import sys, time
from pathlib import Path
from biasgp.staging import stage

with stage(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print("ready", flush=True)
    time.sleep(120)
"""
COUNT = """
import sys
from pathlib import Path
from biasgp.staging import lock

place, total = Path(sys.argv[1]), Path(sys.argv[1], "total")
for _ in range(40):
    with lock(place / ".lock", place, patience=60.0):
        total.write_text(str(int(total.read_text()) + 1))
"""


def start(code: str, path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)


@pytest.fixture
def held(tmp_path):
    """A process that is writing `out`."""
    with start(HOLD, tmp_path / "out") as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_stage_is_empty_and_then_gone(tmp_path):
    with stage(tmp_path / "out") as folder:
        assert names(folder) == []
        (folder / "a").write_text("a")
        assert names(tmp_path) == [".out.partial"]
    assert names(tmp_path) == []


def test_a_second_writer_is_told_who_the_first_is_and_touches_nothing(tmp_path, held):
    who = rf"Another run is writing to .*out': process {held.pid} on \S+, since 20\d\d-"
    with pytest.raises(InUseError, match=who), stage(tmp_path / "out"):
        pass
    with pytest.raises(InUseError, match=who):
        clear(tmp_path / "out")
    sweep(tmp_path)
    assert (tmp_path / ".out.partial" / "files" / "half").exists()


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path, held):
    held.kill()
    held.wait()
    assert names(tmp_path) == [".out.partial"]
    with stage(tmp_path / "out") as folder:
        assert names(folder) == []
    assert names(tmp_path) == []


def test_sweep_removes_what_killed_writers_left_and_nothing_else(tmp_path, held):
    held.kill()
    held.wait()
    (tmp_path / ".mine.partial").write_text("a file of someone else's")
    (tmp_path / "result").mkdir()
    sweep(tmp_path)
    assert names(tmp_path) == [".mine.partial", "result"]


def test_patience_lasts_until_the_other_ends(tmp_path, held):
    threading.Timer(0.5, os.kill, (held.pid, signal.SIGKILL)).start()
    clear(tmp_path / "out", patience=60.0)
    assert names(tmp_path) == []


def test_processes_that_want_it_at_once_get_it_one_by_one(tmp_path):
    """The lock file goes with each holder, while others wait for it: none may lock a file that is not there."""
    (tmp_path / "total").write_text("0")
    processes = [start(COUNT, tmp_path) for _ in range(4)]
    assert [process.wait(120) for process in processes] == [0] * 4
    for process in processes:
        process.stdout.close()
    assert (tmp_path / "total").read_text() == "160"
    assert names(tmp_path) == ["total"]


def test_an_exception_inside_frees_it(tmp_path):
    with pytest.raises(ZeroDivisionError), lock(tmp_path / ".lock", tmp_path):
        raise ZeroDivisionError
    began = time.monotonic()
    with lock(tmp_path / ".lock", tmp_path, patience=60.0):
        assert time.monotonic() < began + 30.0
