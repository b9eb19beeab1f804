"""`biasgp app` in a process of its own: fits, cancelled and whole; killed at any moment; one server for a project."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from app_pages import readings, serve, wait_for_job

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")


def children_of(process: subprocess.Popen[str]) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout
    return [int(line) for line in found.split()]


def is_alive(number: int) -> bool:
    """Whether a process runs; one that has ended may wait for its parent to look."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(numbers: list[int], seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while any(map(is_alive, numbers)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(is_alive, numbers))


def parts(folder: Path) -> list[str]:
    """What is in the folder of fits, half-written ones too."""
    return sorted(path.name for path in (folder / "fits").iterdir())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "readings.csv"
    path.write_text(readings(150).to_csv(index=False))
    return path


def test_a_day_at_work(table, tmp_path):
    """Fit, cancel, judge, be killed, come back, fit with the verdicts held, end."""
    folder = tmp_path / "project"
    server = serve(folder, str(table))
    with server.client as client:
        # A fit that is cancelled leaves nothing behind.
        assert client.post("api/fit").status_code == 202
        assert client.post("api/fit").status_code == 409
        until = time.monotonic() + 60.0
        while client.get("api/job").json()["stage"] != "fitting" and time.monotonic() < until:
            time.sleep(0.05)
        worker = children_of(server.process)
        assert client.get("api/plot").json()["total"] == 150  # the page works meanwhile
        assert client.delete("api/job").json()["state"] == "cancelled"
        assert parts(folder) == [] and client.get("api/project").json()["current"] is None
        assert gone([each for each in worker if each not in children_of(server.process)])
        # Killed in the middle of a fit, after verdicts that were answered.
        for row in range(1, 8):
            client.post("api/verdicts", json={"rows": [row], "verdict": "good", "why": f"because {row}"})
        client.post("api/undo")
        client.post("api/fit")
        while client.get("api/job").json()["stage"] != "fitting":
            time.sleep(0.05)
    workers = children_of(server.process)
    assert workers
    server.process.kill()
    server.process.wait()
    server.process.stdout.close()
    assert gone(workers), "a fit goes on without its server"

    again = serve(folder)
    with again.client as client:
        project = client.get("api/project").json()
        assert project["table"]["name"] == "readings.csv" and project["current"] is None and parts(folder) == []
        assert project["verdicts"] == {"good": 6, "bad": 0, "can_undo": True, "can_redo": True, "version": 8}
        assert client.get("api/plot").json()["verdict"][:8] == ["good"] * 6 + ["", ""]
        assert again.url != server.url and oct((folder / ".server.json").stat().st_mode)[-3:] == "600"
        assert client.put("api/options", json={"episodes": False}).status_code == 200  # quicker
        client.post("api/fit")
        job = wait_for_job(client)
        assert job["state"] == "done" and job["done"] == 1.0 and parts(folder) == ["0001"]
        project = client.get("api/project").json()
        assert project["current"] == "0001" and not project["stale"] and project["fits"][0]["flagged"] >= 2
    again.process.send_signal(signal.SIGINT)
    assert again.process.wait(20.0) == 0
    assert again.process.stdout.read().count("Traceback") == 0
    again.process.stdout.close()
    assert not (folder / ".server.json").exists()


@pytest.mark.parametrize("seed", range(3))
def test_what_was_answered_is_there_after_a_kill_and_nothing_else(tmp_path, seed):
    """A writer of the journal killed at a random moment: every verdict that it acknowledged is in the file."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from biasgp.app.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "about = dict(action='mark', table='t', target='y', verdict='bad', who='', when='', why='x' * 2000)\n"
        "for row in range(1, 10**6):\n"
        "    journal.append({**about, 'rows': [[row, row]]})\n"
        "    print(row, flush=True)\n"
    )
    from biasgp.app.journal import Journal

    path = tmp_path / "verdicts.jsonl"
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    answered = [int(process.stdout.readline()) for _ in range(20 + 7 * seed)]
    time.sleep(0.013 * seed)
    process.kill()
    answered += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    process.wait()
    process.stdout.close()
    journal = Journal(path)
    assert len(answered) <= journal.version <= len(answered) + 1
    assert [json.loads(line)["rows"] for line in path.read_text().splitlines()] == [
        [[row, row]] for row in range(1, journal.version + 1)
    ]
