"""The command as a process of its own: start, end, signals, a full disk."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import biasgp
from biasgp.cli.commands import app
from biasgp.cli.console import _plain_errors
from biasgp.cli.fleet import LOCK
from biasgp.cli.output import new_file, new_folder
from biasgp.cli.requests import as_exceptions
from biasgp.runner import Store
from biasgp.staging import lock, stage
from conftest import FEATURES, logged

COMMAND = [str(Path(sys.executable).with_name("biasgp"))]
MODULE = [sys.executable, "-m", "biasgp"]


def start(*words: str, cwd: Path, **more) -> subprocess.Popen:
    return subprocess.Popen(
        [*COMMAND, *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def test_version_and_help_name_every_command_with_an_example():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"biasgp {biasgp.__version__}"
    for command in ("fit", "predict", "watch", "compare", "demo"):
        assert command in CliRunner().invoke(app, ["--help"]).output
        assert f"Example:  biasgp {command}" in CliRunner().invoke(app, [command, "--help"]).output


def test_the_shell_can_complete(tmp_path):
    env = os.environ | {"_BIASGP_COMPLETE": "complete_bash", "COMP_WORDS": "biasgp fi", "COMP_CWORD": "1"}
    with start(cwd=tmp_path, env=env) as process:
        assert process.communicate(timeout=60)[0].split() == ["fit"]


def test_help_loads_nothing_heavy_of_its_own():
    code = "import sys, biasgp, biasgp.estimators; before = set(sys.modules); import biasgp.cli.commands; "
    code += "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "typer" in loaded
    assert not set(loaded) & {"pandas", "plotly", "skops", "matplotlib", "dask", "distributed", "pyarrow"}


@pytest.mark.parametrize("signum, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_fit_leaves_nothing(tmp_path, signum, code):
    frame = logged(900)
    frame.to_csv(tmp_path / "readings.csv", index=False)
    words = ("fit", "readings.csv", *FEATURES, "--out", "deep/out")
    # A shell starts what runs in the background with Ctrl-C ignored, and so would the command be.
    with start(*words, cwd=tmp_path, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        until = time.monotonic() + 60
        while not list(tmp_path.glob("deep/.out.*")):
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(signum)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["readings.csv"]


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    logged().to_csv(tmp_path / "readings.csv", index=False)

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    words = ("fit", "readings.csv", *FEATURES, "--method", "gp", "--response", "identity")
    with start(*words, cwd=tmp_path, preexec_fn=small_files) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Could not write" in errors.splitlines()[-1] and "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["readings.csv"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder(tmp_path):
    logged().to_csv(tmp_path / "readings.csv", index=False)
    tmp_path.chmod(0o555)
    with start("fit", "readings.csv", *FEATURES, cwd=tmp_path) as process:
        _, errors = process.communicate(timeout=60)
    tmp_path.chmod(0o755)
    assert process.returncode == 2 and "Nothing can be written" in errors


def test_a_reader_that_leaves_early_is_no_error_message(tmp_path, done):
    logged().to_csv(tmp_path / "new.csv", index=False)
    line = f"{COMMAND[0]} predict {done[0] / 'model.skops'} new.csv --out - | head -1"
    result = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.startswith("time,") and "Traceback" not in result.stderr


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line for line in lines if line.startswith("SigCgt:")).split()[1]
    return bool(int(caught, 16) >> (number - 1) & 1)


def request(words: list[str], number: int, moment: float, cwd: Path) -> tuple[int, str]:
    """Send a signal so many seconds after the command has its handlers; exit code and standard error."""
    # A shell starts what runs in the background with Ctrl-C ignored, and so would the command be.
    defaults: dict[str, Any] = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    with subprocess.Popen(
        words, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **defaults
    ) as process:
        # Python has no handler for SIGTERM; before ours is there, the signal is Python's own to answer.
        until = time.monotonic() + 60.0
        while process.poll() is None and not catches(process.pid, signal.SIGTERM):
            assert time.monotonic() < until
        time.sleep(moment)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks at /proc to see the handlers")
@pytest.mark.parametrize("command", [COMMAND, MODULE], ids=["script", "module"])
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_a_request_during_the_imports_is_no_traceback(tmp_path, command, number, code):
    logged(900).to_csv(tmp_path / "readings.csv", index=False)
    rng = random.Random(0)
    for moment in [0.0, *(rng.uniform(0.0, 1.0) for _ in range(5))]:
        ended, errors = request([*command, "fit", "readings.csv", *FEATURES, "--out", "out"], number, moment, tmp_path)
        assert ended == code, (moment, errors)
        assert len([line for line in errors.splitlines() if "Stopped" in line]) <= 1
        assert "Traceback" not in errors and "ignored" not in errors, (moment, errors)
        assert [path.name for path in tmp_path.iterdir()] == ["readings.csv"]


def test_a_request_decides_the_exit_code_whatever_became_of_its_exception():
    code = "import sys, biasgp.cli as cli, biasgp.cli.commands as commands; "
    code += "commands.app = lambda: (cli.received.append(15), sys.exit(0)); cli.main()"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 143


@pytest.fixture
def interruptible():
    """Ctrl-C as Python has it: a shell starts what runs in the background with it ignored, the tests too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Noisy:
    """Something whose end is interrupted, where Python can give the exception to nobody."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_a_request_that_python_drops_is_made_again(capsys, interruptible):
    before = sys.unraisablehook, sys.excepthook, signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    noisy = Noisy()
    with pytest.raises(KeyboardInterrupt), as_exceptions():
        del noisy
        time.sleep(30.0)
    assert capsys.readouterr().err == ""
    after = sys.unraisablehook, sys.excepthook, signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert after == before


def test_an_interrupt_that_an_import_turned_into_something_else_is_still_one(capsys, interruptible):
    with pytest.raises(typer.Exit) as ended, _plain_errors():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("multiarray failed to import") from None
    assert ended.value.exit_code == 130
    assert "Stopped" in capsys.readouterr().err


def test_a_second_run_into_the_same_place_is_refused_before_it_fits(run, readings, tmp_path):
    words = ("fit", "readings.csv", "--target", "no_ppb", *FEATURES, "--out", "out")
    for force in ((), ("--force",)):
        with stage(tmp_path / "out"):
            result = run(*words, *force)
        assert result.exit_code == 2
        assert f"Another run is writing to '{tmp_path}/out': process {os.getpid()} on " in result.output
        assert "Took" not in result.output and not (tmp_path / "out").exists()


def test_fleets_studies_and_comparisons_refuse_in_the_same_words(run, tmp_path):
    frame = logged()
    frame["sensor"] = "a"
    frame.to_csv(tmp_path / "readings.csv", index=False)
    told = f"process {os.getpid()} on "
    with lock(tmp_path / "fleet" / LOCK, tmp_path / "fleet"):
        fleet = run("fit", "readings.csv", "--target", "no_ppb", *FEATURES, "--by", "sensor", "--out", "fleet")
    with Store(tmp_path / "study" / "tasks.jsonl"):
        study = run("study", "simulated", "--out", "study")
    with stage(tmp_path / "scores.csv"):
        scores = run("compare", "readings.csv", "--target", "no_ppb", *FEATURES, "--out", "scores.csv")
    for result in (fleet, study, scores):
        assert result.exit_code == 2
        assert "Another run is writing to " in result.output and told in result.output
    assert list((tmp_path / "fleet").iterdir()) == []


def test_the_run_after_a_killed_one_removes_what_it_left(run, readings, tmp_path):
    logged(900).to_csv(tmp_path / "many.csv", index=False)
    with start("fit", "many.csv", *FEATURES, "--out", "out", cwd=tmp_path) as process:
        until = time.monotonic() + 60
        while not (tmp_path / ".out.partial" / "files").exists():
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.02)
        process.kill()
    assert (tmp_path / ".out.partial").exists() and not (tmp_path / "out").exists()
    words = ("--target", "no_ppb", *FEATURES, "--method", "gp", "--response", "identity", "--out", "out")
    assert run("fit", "readings.csv", *words).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.csv", "out", "readings.csv"]


REPLACE = """
import os, sys
from pathlib import Path
from biasgp.cli.output import new_folder

left, replace = [int(sys.argv[1])], Path.replace

def die_after_some(self, target):
    if not left[0]:
        os._exit(9)
    left[0] -= 1
    return replace(self, target)

Path.replace = die_after_some
with new_folder(Path("out"), force=True) as stage:
    for name in ("cleaned.csv", "model.skops", "report.html", "summary.json"):
        (stage / name).write_text("new")
"""


@pytest.mark.parametrize("moved", [0, 1, 3, 4])
def test_a_run_that_dies_while_it_replaces_leaves_each_file_old_or_new_the_last_one_last(tmp_path, moved):
    names = ("cleaned.csv", "model.skops", "report.html", "summary.json")
    (tmp_path / "out").mkdir()
    for name in (*names, "another"):
        (tmp_path / "out" / name).write_text("old")
    code = subprocess.run([sys.executable, "-c", REPLACE, str(moved)], cwd=tmp_path, check=False).returncode
    assert code == (0 if moved == 4 else 9)
    found = [(tmp_path / "out" / name).read_text() for name in names]
    assert found == ["new"] * moved + ["old"] * (4 - moved)
    assert (tmp_path / "out" / "another").read_text() == "old"


@pytest.mark.parametrize("new", [new_folder, new_file])
def test_nothing_is_written_after_a_request_whose_exception_was_lost(tmp_path, monkeypatch, new):
    monkeypatch.setattr("biasgp.cli.output.received", [signal.SIGTERM])
    with pytest.raises(SystemExit, match="143"), new(tmp_path / "out", force=False) as stage:
        (stage / "summary.json" if stage.is_dir() else stage).write_text("{}")
    assert list(tmp_path.iterdir()) == []
