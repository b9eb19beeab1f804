"""SIGKILL at random moments: a worker of a cluster fit; the parent of a study and of a fleet.

    python benchmarks/kills.py                      both parts: 50 workers, 30 parents
    python benchmarks/kills.py --only worker --times 10 --size 6000

worker: one of two Dask workers is killed, at a moment spread over the whole fit or while blocks are being sent. In turn
it has a nanny that starts it again, or leaves the other one alone. The fit must be that of an undisturbed one, to the
bit.

parent: `biasgp study` and `biasgp fit --by`, with two jobs, are killed: in turn after some tasks, after the last one,
while the results are written, and at a moment spread over the whole run. No process may be left after 30 s. The same
command is run again to its end, half of the times at once, while workers of the killed run may still be there: the
results must be those of an undisturbed run, with no task lost or doubled and no temporary file left.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

from biasgp import SparseBiasGP
from biasgp.covariance.cluster import _Cluster
from biasgp.kernels import Matern32

LEFT_AFTER = 30.0
"""Seconds after which no process of a killed run may be there."""
TIMES_OF_DAY = ("fit_s", "predict_s", "seconds")
"""What no two runs have in common."""
MARK = "BIASGP_KILLS"


def readings(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 2))
    y = np.sin(7.0 * X[:, 0]) * np.cos(5.0 * X[:, 1]) + 0.1 * rng.standard_normal(n)
    return X, y + (rng.uniform(size=n) < 0.1)


def fingerprint(model: SparseBiasGP, X: np.ndarray) -> bytes:
    """Everything that a fit found, to the bit."""
    found = (model.kernel_.theta, model.noise_variance_, model.bias_, model.predict(X[:200]))
    return b"".join(np.asarray(part).tobytes() for part in found)


@contextmanager
def nannied() -> Iterator[Any]:
    """A client of two workers, each started again when it dies."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local, Client(local) as client:
        yield client


@contextmanager
def bare() -> Iterator[Any]:
    """A client of two workers that nothing starts again."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=":0") as local, Client(local) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", local.scheduler_address]
        command += ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        workers = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
        try:
            client.wait_for_workers(2, timeout=60)
            yield client
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


@contextmanager
def noticed() -> Iterator[Counter[str]]:
    """What the fits inside were told of the deaths, by type of exception."""
    told: Counter[str] = Counter()
    forget = _Cluster._forget

    def told_forget(self: _Cluster) -> None:
        kind = sys.exc_info()[0]
        if kind is not None:
            told[kind.__name__] += 1
        forget(self)

    _Cluster._forget = told_forget  # type: ignore[method-assign]
    try:
        yield told
    finally:
        _Cluster._forget = forget  # type: ignore[method-assign]


def kill_while_sending(client: Any, victim: int, which: int, delay: float) -> None:
    """SIGKILL so many seconds after the fit begins to send something for the so-many-th time."""
    send, calls = client.scatter, iter(range(1_000_000))

    def scatter(*args: Any, **options: Any) -> Any:
        if next(calls) == which:
            threading.Timer(delay, os.kill, (victim, signal.SIGKILL)).start()
        return send(*args, **options)

    client.scatter = scatter


def worker(times: int, size: int, seed: int) -> None:
    """A worker killed at a random moment of a cluster fit."""
    X, y = readings(size)
    rng = np.random.default_rng(seed)

    def fit(client: Any) -> tuple[bytes, float]:
        start = time.perf_counter()
        model = SparseBiasGP(Matern32(), approximation="vecchia", neighbors=8).fit(X, y, client=client)
        return fingerprint(model, X), time.perf_counter() - start

    with nannied() as client:
        fit(client)  # compiles what is compiled
    with nannied() as client:
        expected, seconds = fit(client)
    print(f"an undisturbed fit to {size:,} readings takes {seconds:.1f} s", flush=True)
    same, deaths, raised = 0, 0, Counter[str]()
    with noticed() as told:
        for i in range(times):
            with (nannied, bare)[i % 2]() as client:
                victim = int(rng.choice(sorted(client.run(os.getpid).values())))
                if i % 3 == 2:
                    kill_while_sending(client, victim, int(rng.integers(0, 6)), float(rng.uniform(0.0, 0.02)))
                else:
                    threading.Timer(rng.uniform(0.0, seconds), os.kill, (victim, signal.SIGKILL)).start()
                try:
                    same += fit(client)[0] == expected
                except Exception as error:
                    raised[f"{type(error).__name__}: {error}"[:200]] += 1
                deaths += gone(victim)
            print(f"  {i + 1} of {times}: {same} the same, noticed as {dict(told)}, raised {dict(raised)}", flush=True)
    print(f"worker killed: {same} of {times} fits the same to the bit; {deaths} workers died; raised: {dict(raised)}")


def gone(pid: int) -> bool:
    """Whether a process that should have been killed by now is; a late moment is waited for."""
    until = time.monotonic() + 10.0
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


@dataclass(frozen=True)
class Command:
    """A command that can be resumed: its words, the log of its finished tasks, and what it writes, without times."""

    words: str
    log: str
    written: Callable[[Path], dict[str, str]]

    def start(self, folder: Path, mark: str) -> subprocess.Popen[bytes]:
        env = os.environ | {MARK: mark}
        command = [sys.executable, "-m", "biasgp", *self.words.split(), "--jobs", "2", "--out", "out"]
        return subprocess.Popen(
            command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=(folder / "stderr.txt").open("ab")
        )

    def finished(self, folder: Path) -> list[str]:
        """Keys of the finished tasks, in the order of the log; half a line at its end is none."""
        log = folder / "out" / self.log
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        return [json.loads(line)["key"] for line in lines if line.endswith("\n")]


def without_times(path: Path) -> str:
    frame = pd.read_csv(path)
    return frame.drop(columns=[name for name in TIMES_OF_DAY if name in frame]).to_csv(index=False)


def study_files(out: Path) -> dict[str, str]:
    return {"results.csv": without_times(out / "results.csv")}


def fleet_files(out: Path) -> dict[str, str]:
    cleaned = {str(path.relative_to(out)): path.read_text() for path in sorted(out.glob("groups/*/cleaned.csv"))}
    return {"results.csv": without_times(out / "results.csv"), **cleaned}


STUDY = Command(
    "study simulated --dataset friedman --scenarios 1 --replicates 10 --methods gp --no-report",
    "tasks.jsonl",
    study_files,
)
FLEET = Command(
    "fit table.csv --by sensor --target no_ppb --features hour --method gp --response identity",
    "groups.jsonl",
    fleet_files,
)


def table(groups: int = 10, rows: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    hours = np.tile(np.arange(rows), groups)
    y = 20.0 + 4.0 * np.sin(hours / 9.0) + 0.3 * rng.standard_normal(len(hours)) + 12.0 * (hours % 25 == 7)
    sensor = np.repeat([f"s{i:02d}" for i in range(groups)], rows)
    return pd.DataFrame({"sensor": sensor, "hour": hours, "no_ppb": np.round(y, 3)})


def marked(mark: str) -> list[psutil.Process]:
    """Processes of a run, whoever their parent is by now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def seconds_until_gone(mark: str) -> float:
    """How long processes of a run are still there; no longer than LEFT_AFTER is waited."""
    start = time.monotonic()
    while marked(mark) and time.monotonic() < start + LEFT_AFTER:
        time.sleep(0.1)
    return time.monotonic() - start


def undisturbed(command: Command, folder: Path) -> tuple[dict[str, str], list[str], float]:
    """What the command writes, its tasks, and how long it takes."""
    folder.mkdir()
    table().to_csv(folder / "table.csv", index=False)
    start = time.monotonic()
    code = command.start(folder, "undisturbed").wait(600)
    if code:
        raise SystemExit((folder / "stderr.txt").read_text())
    return command.written(folder / "out"), command.finished(folder), time.monotonic() - start


def kill_parent(command: Command, folder: Path, moment: float, after: int | None) -> str:
    """Start the command and kill it `moment` s after its start, or after so many finished tasks; returns its mark."""
    folder.mkdir()
    table().to_csv(folder / "table.csv", index=False)
    mark = uuid.uuid4().hex
    process = command.start(folder, mark)
    while after is not None and process.poll() is None and len(command.finished(folder)) < after:
        time.sleep(0.005)
    time.sleep(moment)
    process.kill()
    process.wait()
    return mark


def complaints(command: Command, folder: Path, written: dict[str, str], tasks: list[str]) -> list[str]:
    """What is wrong in the folder of a run that was killed and resumed."""
    found = []
    keys = command.finished(folder)
    if len(keys) != len(set(keys)):
        found.append("a task is doubled")
    if set(keys) != set(tasks):
        found.append("a task is lost")
    if command.written(folder / "out") != written:
        found.append("other results")
    left = [path.name for path in folder.rglob("*") if path.suffix in (".partial", ".part", ".lock")]
    if left:
        found.append(f"{left[0]} is left")
    return found


def resume(command: Command, folder: Path, mark: str, at_once: bool) -> tuple[int, float]:
    """The same command to its end, and when the last process of the killed run was gone."""
    with ThreadPoolExecutor(1) as watcher:
        gone_after = watcher.submit(seconds_until_gone, mark)
        if not at_once:
            gone_after.result()
        code = command.start(folder, "resumed").wait(600)
        return code, gone_after.result()


def parent(times: int, seed: int) -> None:
    """The parent of a study and of a fleet killed at a random moment, then resumed."""
    rng = np.random.default_rng(seed)
    wrong, done, slowest = Counter[str](), Counter[str](), 0.0
    with tempfile.TemporaryDirectory() as place:
        expected = {c: undisturbed(c, Path(place, f"undisturbed-{c.log}")) for c in (STUDY, FLEET)}
        for command, (_, tasks, seconds) in expected.items():
            print(f"{command.words.split()[0]}: {len(tasks)} tasks, {seconds:.1f} s undisturbed", flush=True)
        for i in range(times):
            command, at_once = (STUDY, FLEET)[i % 2], i % 4 < 2
            written, tasks, seconds = expected[command]
            folder = Path(place, str(i))
            # In turn: after some of the tasks, after all of them, and at any moment, which is mostly one of the start.
            after = (int(rng.integers(1, len(tasks))), len(tasks), None)[i % 3]
            moment = float(rng.uniform(0.0, seconds if after is None else 0.3))
            mark = kill_parent(command, folder, moment, after)
            before = len(command.finished(folder))
            code, gone_after = resume(command, folder, mark, at_once)
            found = complaints(command, folder, written, tasks) if code == 0 else [f"exit code {code}"]
            if marked(mark):
                found.append("a process is left")
            wrong.update(found)
            slowest = max(slowest, gone_after)
            done["none" if before == 0 else "all" if before == len(tasks) else "some"] += 1
            told = f"{before} of {len(tasks)} tasks done, the last process gone after {gone_after:.1f} s"
            print(f"  {i + 1} of {times}: killed with {told}; {found or 'fine'}", flush=True)
    print(f"parent killed {times} times ({dict(done)} of the tasks were done): {dict(wrong) or 'nothing wrong'}")
    print(f"the last process was gone after {slowest:.1f} s at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("worker", "parent"))
    parser.add_argument("--times", type=int, help="kills; 50 workers and 30 parents when left out")
    parser.add_argument("--size", type=int, default=20_000, help="readings of the cluster fit")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.only != "parent":
        worker(args.times or 50, args.size, args.seed)
    if args.only != "worker":
        parent(args.times or 30, args.seed)


if __name__ == "__main__":
    main()
