"""The same study on a real Dask cluster, one of whose workers is killed in the middle."""

from __future__ import annotations

import os
import signal
import threading
import time

import dask
import distributed
import pytest

from biasgp import study
from biasgp.runner import Execution, Store, Task, run
from biasgp.study.results import TASKS

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


def test_dask_gives_what_loky_gives_and_a_killed_worker_costs_nothing(tmp_path, cluster, registered, tiny):
    def slow(setting):
        from sklearn.linear_model import BayesianRidge

        time.sleep(0.1)
        return BayesianRidge()

    registered("slow", slow)
    design = study.SimulatedDesign(methods=["slow", "gp"], **tiny | {"replicates": 10})
    folder = tmp_path / "dask"
    killer = threading.Thread(target=kill_a_worker, args=(cluster, folder / TASKS, 4), daemon=True)
    killer.start()
    there = study.simulated(folder, design, Execution(scheduler=cluster.scheduler_address, progress=False))
    killer.join()
    here = study.simulated(tmp_path / "here", design, Execution(progress=False))
    times = ("fit_s", "predict_s")
    assert [{k: str(v) for k, v in row.items() if k not in times} for row in there.rows] == [
        {k: str(v) for k, v in row.items() if k not in times} for row in here.rows
    ]
    assert {row["status"] for row in there.rows} == {"ok"}
    assert len((folder / TASKS).read_text().splitlines()) == len(there.rows) == 2 * 10 * 2


def kill_a_worker(cluster, log, after):
    while not log.exists() or log.read_bytes().count(b"\n") < after:
        time.sleep(0.02)
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        address, pid = next(iter(client.run(os.getpid).items()))
    assert address
    os.kill(pid, signal.SIGKILL)


def work(payload):
    if payload == "stuck":
        time.sleep(0.05)
        while True:
            time.sleep(0.01)
    if payload == "fail":
        raise ValueError("no way")
    return payload


def test_failures_and_time_limits_on_dask(tmp_path, cluster):
    execution = Execution(scheduler=cluster.scheduler_address, timeout=0.5, progress=False)
    with Store(tmp_path / "tasks.jsonl") as store:
        outcomes = run([Task(name, name) for name in ("stuck", "fail", "fine")], work, store, execution)
    assert [outcome.status for outcome in outcomes.values()] == ["timeout", "failed", "ok"]


def test_no_scheduler_is_an_error_and_not_a_lost_study(tmp_path):
    soon = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with soon, Store(tmp_path / "tasks.jsonl") as store, pytest.raises(OSError, match=r"127\.0\.0\.1:1"):
        run([Task("a", 1)], work, store, Execution(scheduler="tcp://127.0.0.1:1", progress=False))
