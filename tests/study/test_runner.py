"""The runner on this machine: failures, time limits, dead workers."""

from __future__ import annotations

import io
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import uuid

import numpy as np
import pytest
from rich.console import Console

from biasgp.runner import Execution, Outcome, Store, Task, run

QUIET = Execution(progress=False)


def work(payload):
    """Does what the payload says."""
    match payload:
        case "fail":
            raise ValueError("no\n way")
        case "stuck":
            time.sleep(60.0)
        case "stuck in C":
            sum(itertools.repeat(1))
        case "not json":
            return object()
        case "die":
            os._exit(3)
    return {"double": np.float64(2.0), "array": np.arange(2)}


def do(tmp_path, payloads, **options):
    tasks = [Task(f"{i}", payload) for i, payload in enumerate(payloads)]
    with Store(tmp_path / "tasks.jsonl") as store:
        outcomes = run(tasks, work, store, Execution(progress=False, **options))
    with Store(tmp_path / "tasks.jsonl") as store:
        assert store.outcomes == outcomes
        assert len((tmp_path / "tasks.jsonl").read_text().splitlines()) == len(outcomes)
    return list(outcomes.values())


def test_failures_are_outcomes_with_their_reason(tmp_path):
    fine, failed, odd, last = do(tmp_path, ["fine", "fail", "not json", "fine"])
    assert fine.value == last.value == {"double": 2.0, "array": [0, 1]}
    assert (failed.status, failed.message) == ("failed", "ValueError: no way")
    assert odd.status == "failed"
    assert "not object" in odd.message


def test_what_is_done_is_not_done_again_unless_it_failed_and_that_is_asked_for(tmp_path):
    do(tmp_path, ["fine", "fail"])
    calls = []
    tasks = [Task("0", "fine"), Task("1", "fail")]
    with Store(tmp_path / "tasks.jsonl") as store:
        run(tasks, calls.append, store, QUIET)
        assert calls == []
        run(tasks, calls.append, store, Execution(progress=False, retry_failed=True))
    assert calls == ["fail"]
    with Store(tmp_path / "tasks.jsonl") as store:
        assert [outcome.status for outcome in store.outcomes.values()] == ["ok", "ok"]


def test_keys_must_differ_and_jobs_be_positive(tmp_path):
    with Store(tmp_path / "tasks.jsonl") as store:
        with pytest.raises(ValueError, match="Two tasks"):
            run([Task("a", 1), Task("a", 2)], work, store)
        with pytest.raises(ValueError, match="jobs"):
            run([Task("a", 1)], work, store, Execution(jobs=0))


def test_a_stuck_task_is_stopped_in_this_process(tmp_path):
    start = time.monotonic()
    stuck, fine = do(tmp_path, ["stuck", "fine"], timeout=0.2)
    assert time.monotonic() - start < 10.0
    assert (stuck.status, stuck.message) == ("timeout", "stopped after 0.2 s")
    assert fine.status == "ok"
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_dead_and_stuck_workers_cost_only_their_own_task(tmp_path):
    payloads = ["fine", "die", "fail", "stuck", "stuck in C", "fine"]
    fine, died, failed, stuck, stuck_in_c, last = do(tmp_path, payloads, jobs=2, timeout=1.0)
    assert fine.status == last.status == "ok"
    assert died.status == "failed"
    assert died.message.startswith("its worker died")
    assert failed.message == "ValueError: no way"
    assert stuck.status == stuck_in_c.status == "timeout"


def test_the_time_limit_works_in_other_threads_too(tmp_path):
    ended = []

    def patient(payload):
        while True:
            time.sleep(0.01)

    def body():
        with Store(tmp_path / "tasks.jsonl") as store:
            outcomes = run([Task("a", None)], patient, store, Execution(timeout=0.1, progress=False))
        ended.append(outcomes["a"].status)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(20.0)
    assert ended == ["timeout"]


def test_no_except_exception_takes_the_time_limit_for_its_own(tmp_path):
    def stubborn(payload):
        try:
            time.sleep(30.0)
        except Exception:
            return "swallowed"

    with Store(tmp_path / "tasks.jsonl") as store:
        outcomes = run([Task("a", None)], stubborn, store, Execution(timeout=0.1, progress=False))
    assert outcomes["a"].status == "timeout"


def test_an_interrupt_leaves_what_was_finished(tmp_path):
    def interrupted(payload):
        if payload == 2:
            raise KeyboardInterrupt
        return payload

    tasks = [Task(str(i), i) for i in range(4)]
    with pytest.raises(KeyboardInterrupt), Store(tmp_path / "tasks.jsonl") as store:
        run(tasks, interrupted, store, QUIET)
    with Store(tmp_path / "tasks.jsonl") as store:
        assert list(store.outcomes) == ["0", "1"]


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_on_a_terminal_and_elsewhere(tmp_path, terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200)
    with Store(tmp_path / "tasks.jsonl") as store:
        store.add(Outcome("0", "ok"))
        tasks = [Task(str(i), "fail" if i == 1 else i) for i in range(3)]
        run(tasks, work, store, Execution(console=console))
    text = console.file.getvalue()
    assert "3/3" in text if terminal else "3 of 3 done" in text
    assert "1 not ok" in text if terminal else "1: failed: ValueError: no way" in text


ORPHANS = """
import sys, time
from pathlib import Path
import numpy as np
from biasgp.runner import Execution, Store, Task, run

def work(path):
    Path(path).touch()
    a = np.eye(2000)
    while path.endswith("busy"):
        a = a @ a  # compiled, without the interpreter's lock
    time.sleep(300)

folder = Path(sys.argv[1])
with Store(folder / "tasks.jsonl") as store:
    tasks = [Task(name, str(folder / name)) for name in sys.argv[2:]]
    run(tasks, work, store, Execution(jobs=3, progress=False))
"""


def alive(mark: str) -> list[int]:
    """Processes started with that mark in their environment."""
    psutil = pytest.importorskip("psutil")
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("BIASGP_TEST_MARK") == mark:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    """One in compiled code, one asleep, one that has no task; and what joblib starts beside them."""
    mark, names = uuid.uuid4().hex, ("busy", "asleep")
    env = os.environ | {"BIASGP_TEST_MARK": mark, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-c", ORPHANS, str(tmp_path), *names], env=env) as parent:
        until = time.monotonic() + 90.0
        while not all((tmp_path / name).exists() for name in names):
            assert time.monotonic() < until and parent.poll() is None
            time.sleep(0.05)
        assert len(alive(mark)) >= 4
        parent.kill()
    until = time.monotonic() + 30.0
    while alive(mark) and time.monotonic() < until:
        time.sleep(0.1)
    assert alive(mark) == []
