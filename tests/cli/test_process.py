"""The command as a process of its own: start, end, signals, a full disk."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import biasgp
from biasgp.cli import app
from conftest import FEATURES, logged

COMMAND = [str(Path(sys.executable).with_name("biasgp"))]


def start(*words: str, cwd: Path, **more) -> subprocess.Popen:
    return subprocess.Popen(
        [*COMMAND, *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def test_version_and_help_name_every_command_with_an_example():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"biasgp {biasgp.__version__}"
    for command in ("fit", "predict", "compare", "demo"):
        assert command in CliRunner().invoke(app, ["--help"]).output
        assert f"Example:  biasgp {command}" in CliRunner().invoke(app, [command, "--help"]).output


def test_the_shell_can_complete(tmp_path):
    env = os.environ | {"_BIASGP_COMPLETE": "complete_bash", "COMP_WORDS": "biasgp fi", "COMP_CWORD": "1"}
    with start(cwd=tmp_path, env=env) as process:
        assert process.communicate(timeout=60)[0].split() == ["fit"]


def test_help_loads_nothing_heavy_of_its_own():
    code = "import sys, biasgp, biasgp.estimators; before = set(sys.modules); import biasgp.cli; "
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
