"""The simulated study: the same numbers however it is run, and whatever stops it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from biasgp import study
from biasgp.study import Execution, SimulatedDesign
from biasgp.study.results import COLUMNS, RESULTS, TASKS

QUIET = Execution(progress=False)
TIMES = ("fit_s", "predict_s")
SLOW_STUDY = """
import sys, time
from biasgp import study

class Slow:
    def fit(self, X, y):
        time.sleep(0.05)
        self.mean_ = float(y.mean())
        return self
    def predict(self, X, return_std=False):
        return X[:, 0] * 0 + self.mean_, X[:, 0] * 0 + 1.0

study.register("slow", lambda setting: Slow())
sizes = {"scenarios": [1, 2], "replicates": 20, "n": 20, "n_test": 10}
design = study.SimulatedDesign(datasets=["friedman"], methods=["slow"], **sizes)
study.simulated(sys.argv[1], design, study.Execution(jobs=int(sys.argv[2])))
"""


def without_times(rows):
    return [{name: str(value) for name, value in row.items() if name not in TIMES} for row in rows]


def test_columns_rows_and_data_are_the_issues(tmp_path, tiny, median):
    results = study.simulated(tmp_path, SimulatedDesign(methods=["gp", "oracle", median], **tiny), QUIET)
    header = (tmp_path / RESULTS).read_text().splitlines()[0]
    assert header == (
        "dataset,kernel,scenario,q,mu,sigma,replicate,method,mse,mse_f,nlpd,nlpd_exact,coverage95,crps,precision,recall,"
        "fit_s,predict_s,status,message"
    )
    assert tuple(header.split(",")) == COLUMNS["simulated"]
    assert len(results.rows) == 2 * 2 * 3
    assert {row["status"] for row in results.rows} == {"ok"}
    described = json.loads((tmp_path / "study.json").read_text())
    assert described["configuration"]["methods"] == ["gp", "oracle", "median"]
    assert described["machine"]["cores"] == os.cpu_count()
    assert described["versions"]["numpy"] == np.__version__
    assert len(results.to_pandas()) == len(results.rows)


def test_a_subset_gives_the_same_numbers(tmp_path, tiny, median):
    whole = study.simulated(tmp_path / "whole", SimulatedDesign(methods=["cob", median], **tiny), QUIET)
    smaller = SimulatedDesign(methods=["cob"], **tiny | {"scenarios": [8], "replicates": 1})
    part = study.simulated(tmp_path / "part", smaller, QUIET)
    same = [row for row in whole.rows if (row["scenario"], row["replicate"], row["method"]) == (8, 0, "cob")]
    assert without_times(part.rows) == without_times(same)


def test_one_and_two_workers_give_the_same_results(tmp_path, tiny, median):
    design = SimulatedDesign(methods=["gp", "sparse", median], **tiny)
    one = study.simulated(tmp_path / "one", design, QUIET)
    two = study.simulated(tmp_path / "two", design, Execution(jobs=2, progress=False))
    assert without_times(one.rows) == without_times(two.rows)
    assert one.curves == two.curves


def test_with_one_input_the_kernels_are_one(tmp_path, tiny, median, monkeypatch):
    monkeypatch.setattr(import_module("biasgp.study.simulated"), "TOYS", {})  # three fits, which other tests draw
    options = tiny | {"datasets": ["1d", "friedman"], "scenarios": [1], "replicates": 1}
    results = study.simulated(tmp_path, SimulatedDesign(methods=[median], kernels=["ard", "iso"], **options), QUIET)
    assert [(row["dataset"], row["kernel"]) for row in results.rows] == [
        ("1d", "ard"),
        ("friedman", "ard"),
        ("friedman", "iso"),
    ]


# The alarm may ring in a callback of the garbage collector, which swallows it; it rings again.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_failures_and_time_limits_are_rows(tmp_path, tiny, registered, median):
    def fails(setting):
        raise RuntimeError("not today")

    def hangs(setting):
        time.sleep(60.0)

    registered("fails", fails)
    registered("hangs", hangs)
    design = SimulatedDesign(methods=["fails", "hangs", median], **tiny | {"scenarios": [1], "replicates": 1})
    results = study.simulated(tmp_path, design, Execution(timeout=1.0, progress=False))
    ends = {row["method"]: (row["status"], row["message"]) for row in results.rows}
    assert ends == {
        "fails": ("failed", "RuntimeError: not today"),
        "hangs": ("timeout", "stopped after 1 s"),
        "median": ("ok", ""),
    }
    assert np.isnan(results.rows[0]["mse"])
    registered("fails", lambda setting: __import__("biasgp").GaussianGP())
    again = study.simulated(tmp_path, design, Execution(timeout=1.0, retry_failed=True, progress=False))
    assert [row["status"] for row in again.rows] == ["ok", "timeout", "ok"]


def test_another_configuration_is_refused_and_the_difference_named(tmp_path, tiny, median):
    study.simulated(tmp_path, SimulatedDesign(methods=[median], **tiny), QUIET)
    before = (tmp_path / RESULTS).read_bytes()
    with pytest.raises(study.ConfigurationError, match="seed: 0 there, 1 here"):
        study.simulated(tmp_path, SimulatedDesign(methods=[median], seed=1, **tiny), QUIET)
    with pytest.raises(study.ConfigurationError, match=r"methods: median there, gp, median here.*--extend"):
        study.simulated(tmp_path, SimulatedDesign(methods=["gp", median], **tiny), QUIET)
    with pytest.raises(study.ConfigurationError, match="kind: simulated there, sensor here"):
        study.sensor(tmp_path, study.SensorDesign(methods=[median]), QUIET)
    assert (tmp_path / RESULTS).read_bytes() == before


def test_a_study_can_be_extended_but_not_changed(tmp_path, tiny, median):
    study.simulated(tmp_path, SimulatedDesign(methods=[median], **tiny), QUIET)
    larger = SimulatedDesign(methods=["gp", median], **tiny | {"replicates": 3})
    results = study.simulated(tmp_path, larger, QUIET, extend=True)
    assert len(results.rows) == 2 * 3 * 2
    with pytest.raises(study.ConfigurationError, match="replicates: 3 there, 2 here"):
        study.simulated(tmp_path, SimulatedDesign(methods=["gp", median], **tiny), QUIET, extend=True)


def test_a_study_that_is_extended_with_other_packages_says_so(tmp_path, tiny, median, monkeypatch):
    study.simulated(tmp_path, SimulatedDesign(methods=[median], **tiny), QUIET)
    assert "earlier" not in json.loads((tmp_path / "study.json").read_text())
    monkeypatch.setattr("biasgp.study.results.version", lambda name: "0.0.1")
    study.simulated(tmp_path, SimulatedDesign(methods=["gp", median], **tiny), QUIET, extend=True)
    described = json.loads((tmp_path / "study.json").read_text())
    assert described["versions"]["numpy"] == "0.0.1"
    (before,) = described["earlier"]
    assert before["versions"]["numpy"] == np.__version__
    assert before["configuration"]["methods"] == ["median"]


def test_a_folder_without_the_log_is_gone_on_with(tmp_path, tiny, registered, median):
    first = study.simulated(tmp_path, SimulatedDesign(methods=[median], **tiny), QUIET)
    (tmp_path / TASKS).unlink()

    def never(setting):
        raise AssertionError("run again")

    registered("median", never)
    again = study.simulated(tmp_path, SimulatedDesign(methods=[median], **tiny), QUIET)
    assert [{k: str(v) for k, v in row.items()} for row in again.rows] == [
        {k: str(v) for k, v in row.items()} for row in first.rows
    ]
    assert again.curves == first.curves


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"datasets": ["2d"]}, "Unknown data set: 2d"),
        ({"scenarios": [9]}, "Unknown scenario: 9"),
        ({"scenarios": []}, "none at all"),
        ({"kernels": ["rbf"]}, "Unknown kernel"),
        ({"methods": ["spars"]}, "Did you mean 'sparse'"),
        ({"replicates": 0}, "replicates"),
    ],
)
def test_wrong_use_is_named(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        study.simulated(tmp_path / "new", SimulatedDesign(**options))
    assert not (tmp_path / "new").exists()


def test_names_of_methods(registered):
    with pytest.raises(ValueError, match="one of our own"):
        registered("gp", lambda setting: None)
    with pytest.raises(ValueError, match="letters, digits"):
        registered("a b", lambda setting: None)


def test_killed_in_the_middle_it_goes_on_and_loses_nothing(tmp_path):
    """kill -9 of the whole study, from a script that defines its own method, with one process and with workers."""
    script = tmp_path / "script.py"
    script.write_text(SLOW_STUDY)
    folder = tmp_path / "study"
    command = [sys.executable, str(script), str(folder)]
    for target, jobs in ((5, "1"), (15, "2")):
        process = subprocess.Popen([*command, jobs], stderr=subprocess.DEVNULL, start_new_session=True)
        wait_for(lambda target=target: finished(folder / TASKS) >= target, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    killed_at = finished(folder / TASKS)
    assert killed_at < 40
    with (folder / TASKS).open("a") as file:
        file.write('{"key":"friedman/ard/s1/r')
    before = (folder / TASKS).read_text().splitlines()[:killed_at]
    subprocess.run([*command, "1"], check=True, capture_output=True)
    after = (folder / TASKS).read_text().splitlines()
    assert after[:killed_at] == before
    assert len(after) == 40
    rows = study.load(folder).rows
    assert len({(row["scenario"], row["replicate"]) for row in rows}) == len(rows) == 40
    assert {row["status"] for row in rows} == {"ok"}


def finished(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def wait_for(condition, process: subprocess.Popen[bytes], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "ended by itself"
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_lost_worker_of_loky_loses_nothing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SLOW_STUDY)
    folder = tmp_path / "study"
    process = subprocess.Popen([sys.executable, str(script), str(folder), "2"], stderr=subprocess.DEVNULL)
    wait_for(lambda: finished(folder / TASKS) >= 5, process)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    assert process.wait(300.0) == 0
    rows = study.load(folder).rows
    assert len(rows) == 40
    assert {row["status"] for row in rows} == {"ok"}


def workers_of(pid: int) -> list[int]:
    """The loky workers among a process's children."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("needs Linux's /proc")
    every = [int(child) for child in children.read_text().split()]
    return [child for child in every if b"LokyProcess" in Path(f"/proc/{child}/cmdline").read_bytes()]
