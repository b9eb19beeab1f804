"""Every option with a value that makes no sense: one line that names it, exit code 2, and nothing left behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from typer.testing import CliRunner

from biasgp import study
from biasgp.cli.commands import app
from biasgp.fleet import FleetExecution, fit_groups
from biasgp.runner import Execution, Store, Task
from biasgp.runner import run as run_tasks
from biasgp.study import methods
from conftest import logged

GP = ("--method", "gp", "--response", "identity")
FIT = ("fit", "readings.csv", "--features", "time", "--target", "no_ppb", *GP, "--out", "out")
BY = ("fit", "stations.csv", "--by", "station", "--features", "time", "--target", "no_ppb", *GP, "--out", "out")
COMPARE = ("compare", "readings.csv", "--features", "time", "--target", "no_ppb", "--methods", "gp", "--out", "out")
ONCE = ("--replicates", "1", "--methods", "gp", "--no-report", "--out", "out")
SIMULATED = ("study", "simulated", "--dataset", "friedman", "--scenarios", "1", *ONCE)
SENSOR = ("study", "sensor", "--responses", "no_ppb", "--every", "40", *ONCE)
STUDIES = (SIMULATED, SENSOR)


@pytest.fixture
def tables(tmp_path):
    logged().to_csv(tmp_path / "readings.csv", index=False)
    logged().assign(station=["a", "b"] * 40).to_csv(tmp_path / "stations.csv", index=False)
    return {"readings.csv", "stations.csv"}


NOT_A_TIME_LIMIT = [("--timeout", value) for value in ("-3", "-0.001", "nan", "inf", "-inf", "1e300", "soon")]
REFUSED = [
    *((command, words) for command in (FIT, BY, *STUDIES) for words in NOT_A_TIME_LIMIT),
    *(
        (command, words)
        for command in (FIT, BY)
        for words in (
            *(("--jobs", value) for value in ("0", "-1", "1.5")),
            *(("--seed", value) for value in ("-1", "x", "1e3", "4294967296")),
            *(("--max-rows", value) for value in ("0", "-1", "4", "nan")),
            *(("--test-fraction", value) for value in ("nan", "-0.1", "1.5", "inf")),
            *(("--sep", value) for value in ("", ",,", "no")),
            *(("--features", value) for value in ("", ",", " , ", "time,time", "nope", "no_ppb")),
            *(("--target", value) for value in ("", " ", "nope", "note")),
            *(("--flag-column", value) for value in ("", "nope")),
            *(("--encoding", value) for value in ("", "nope", "hex")),
            *(("--where", value) for value in ("", " ", "nope > 1", "time.to_csv('f')")),
            *(("--method", value) for value in ("", "nope")),
            *(("--kernel", value) for value in ("", "nope")),
            *(("--response", value) for value in ("", "nope")),
            *(("--noise-model", value) for value in ("", "nope")),
        )
    ),
    *((BY, ("--by", value)) for value in ("", "nope", "note")),
    *(
        (command, ("--scheduler", value))
        for command in (BY, *STUDIES)
        for value in (
            "nonsense",
            "",
            "tcp://",
            "foo://127.0.0.1:8786",
            "127.0.0.1:99999",
            "tcp://127.0.0.1:-1",
            ":8786",
        )
    ),
    *(
        (COMPARE, words)
        for words in (
            *(("--folds", value) for value in ("0", "1", "21", "x")),
            *(("--max-rows", value) for value in ("0", "19")),
            *(("--methods", value) for value in ("", ",", "nope")),
            *(("--features", value) for value in ("", ",", "nope")),
            ("--target", ""),
            ("--where", ""),
            ("--seed", "-1"),
        )
    ),
    *(
        (command, words)
        for command in STUDIES
        for words in (
            *(("--jobs", value) for value in ("0", "-1")),
            *(("--seed", value) for value in ("-1", "x")),
            *(("--replicates", value) for value in ("0", "-1")),
            *(("--methods", value) for value in ("", ",", "nope", "gp@", "gp@nope")),
            *(("--kernel", value) for value in ("", "nope")),
        )
    ),
    *((SIMULATED, ("--scenarios", value)) for value in ("", "0", "9", "a", "nan")),
    *((SIMULATED, ("--dataset", value)) for value in ("", "nope")),
    *((SENSOR, ("--shares", value)) for value in ("", "0", "1", "-0.1", "nan", "a", "1e-9", "0.99", "0.1,0.1")),
    *((SENSOR, ("--every", value)) for value in ("0", "-1")),
    *((SENSOR, ("--responses", value)) for value in ("", "nope", "no_ppb,no_ppb")),
    *((SENSOR, ("--features", value)) for value in ("", "time")),
    *((SENSOR, ("--data", value)) for value in ("", "nope.csv", ".", "readings.csv")),
]


@pytest.mark.parametrize("command, words", REFUSED, ids=lambda value: " ".join(value)[:60])
def test_a_value_that_makes_no_sense_is_refused(run, tables, tmp_path, command, words):
    result = run(*command, *words)
    assert result.exit_code == 2, result.output
    said = result.stderr.strip()
    assert "Traceback" not in result.output and "should not have happened" not in said
    # Either the name of the option, or what was wrong in it (a column, a file).
    assert words[0].strip("-") in said or (words[1].strip() and words[1].strip() in said), said
    if said.startswith("Error: "):
        assert len(said.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == tables


def test_an_empty_name_for_the_predictions_is_refused(run, tmp_path):
    result = run("predict", "model.skops", "t.csv", "--out", "")
    assert result.exit_code == 2 and "--out '' names nothing" in result.stderr


@pytest.mark.parametrize("timeout", [-3, 0, float("nan"), float("inf"), 1e300])
def test_the_functions_refuse_a_time_limit_before_they_write(tmp_path, timeout):
    frame = logged()
    refused = pytest.raises(ValueError, match="timeout must be")
    with refused:
        execution = FleetExecution(timeout=timeout, folder=tmp_path / "f")
        fit_groups(frame, by="note", target="no_ppb", features="temperature_c", execution=execution)
    with refused:
        study.simulated(tmp_path / "s", study.SimulatedDesign(methods=["gp"]), Execution(timeout=timeout))
    with refused:
        study.sensor(tmp_path / "s", study.SensorDesign(methods=["gp"]), Execution(timeout=timeout))
    assert not list(tmp_path.iterdir())
    with Store(tmp_path / "tasks.jsonl") as store, refused:
        run_tasks([Task("a", 1)], abs, store, Execution(timeout=timeout))


def test_no_time_limit_is_none_or_zero(run, tables, tmp_path):
    result = run(*SIMULATED, "--timeout", "0")
    assert result.exit_code == 0 and "1 rows, 0 not ok" in result.stdout


# ---- a scheduler that is not there


@pytest.fixture
def impatient():
    dask = pytest.importorskip("dask")
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        yield


@pytest.mark.parametrize("command", [BY, *STUDIES], ids=["by", "simulated", "sensor"])
def test_a_scheduler_that_does_not_answer(run, tables, tmp_path, impatient, command):
    began = time.monotonic()
    result = run(*command, "--scheduler", "tcp://127.0.0.1:1")
    assert time.monotonic() - began < 20.0
    assert result.exit_code == 1
    (line,) = result.stderr.strip().splitlines()
    assert "No Dask scheduler answers at 'tcp://127.0.0.1:1'" in line and "waited for 1 s" in line
    assert {path.name for path in tmp_path.iterdir()} == tables


def test_something_else_that_answers_is_no_scheduler(run, tables, tmp_path, impatient):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            while True:
                try:
                    caller, _ = server.accept()
                except OSError:
                    return
                with caller:
                    caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        result = run(*SIMULATED, "--scheduler", f"tcp://127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10.0)
    assert result.exit_code == 1
    (line,) = result.stderr.strip().splitlines()
    assert "No Dask scheduler answers" in line
    assert {path.name for path in tmp_path.iterdir()} == tables


# ---- --register

BROKEN = {
    "a syntax error": (b"x = 1\ny = (\n", 2, "SyntaxError"),
    "an indentation": (b"x = 1\n  y = 2\n", 2, "IndentationError"),
    "an exception": (b"import os\n\nraise KeyError('odd')\n", 3, "KeyError: 'odd'"),
    "an exception without words": (b"raise ValueError\n", 1, "ValueError()"),
    "an exception of several lines": (b"raise ValueError('a\\nb')\n", 1, "ValueError: a b"),
    "an exception further in": (b"import json\n\ndef f():\n    json.loads('{')\n\nf()\n", 4, "JSONDecodeError"),
    "a missing module": (b"import nothing_of_that_name\n", 1, "nothing_of_that_name"),
    "no end": (b"def f():\n    f()\nf()\n", 2, "RecursionError"),
    "sys.exit": (b"import sys\nsys.exit(0)\n", 2, "sys.exit"),
    "exit": (b"\n\nraise SystemExit\n", 3, "sys.exit"),
    "Latin-1": (b"# fine\nx = '\xe9'\n", 2, "not UTF-8"),
    "zero bytes": (b"x = 1\nx = 2\0\n", 2, "zero bytes"),
    "deep nesting": (b"x = " + b"(" * 5000, 1, ""),
    "a bad name": (b"from biasgp import study\nstudy.register('a b', None)\n", 2, "letters, digits"),
    "a taken name": (b"from biasgp import study\nstudy.register('gp', None)\n", 2, "one of our own"),
}


@pytest.mark.parametrize("command", STUDIES, ids=["simulated", "sensor"])
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_of_methods_is_named_with_its_line(run, tmp_path, command, case):
    source, line, words = BROKEN[case]
    (tmp_path / "mine.py").write_bytes(source)
    result = run(*command, "--register", "mine.py")
    assert result.exit_code == 2
    (said,) = result.stderr.strip().splitlines()
    assert f"--register 'mine.py', line {line}: " in said and words in said
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize("name", ["nothing.py", "folder"])
def test_a_file_of_methods_that_cannot_be_read(run, tmp_path, name):
    (tmp_path / "folder").mkdir()
    result = run(*SIMULATED, "--register", name)
    assert result.exit_code == 2
    assert f"--register '{name}' cannot be read" in result.stderr


def test_a_file_of_methods_with_a_byte_order_mark(run, tmp_path, monkeypatch):
    monkeypatch.setattr(methods, "_registered", {})
    source = "from biasgp import GaussianGP, study\nstudy.register('mine', lambda s: GaussianGP(s.kernel))\n"
    (tmp_path / "mine.py").write_text(source, encoding="utf-8-sig")
    words = [word if word != "gp" else "mine" for word in SIMULATED]
    assert run(*words, "--register", "mine.py").exit_code == 0


def test_a_request_to_end_while_the_file_runs_is_no_fault_of_the_file(tmp_path):
    (tmp_path / "mine.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    words = [sys.executable, "-m", "biasgp", *SIMULATED, "--register", "mine.py"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in ended.stderr and "mine.py" not in ended.stderr


@pytest.mark.parametrize("kind", ["simulated", "sensor"])
def test_the_help_says_that_the_file_is_run(kind):
    shown = " ".join(CliRunner(env={"COLUMNS": "200"}).invoke(app, ["study", kind, "--help"]).output.split())
    assert "It is run, with all that it does" in shown
    assert "waits 30 s" in shown


# ---- --where


def test_where_runs_nothing(run, tables, tmp_path):
    for attack in ("no_ppb.to_csv('f')", "@pd.io", "9**9**9 > no_ppb", "open('f', 'w')"):
        for command in (FIT, BY, COMPARE):
            result = run(*command, "--where", attack)
            assert result.exit_code == 2 and len(result.stderr.strip().splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == tables


def test_where_on_a_fleet_is_refused_once_and_at_once(run, tables, tmp_path):
    result = run(*BY, "--where", "temperature > 0")
    assert result.stderr.count("there is no column 'temperature'") == 1
