"""How quick the app is: a table dropped until its first plot can be drawn, and a click until its answer.

    python benchmarks/app.py [--rows 1400 100000]

A server in a process of its own, as `biasgp app` starts it. "drop" is the upload, what was understood and the data of
the first plot (the browser's own time to draw is not in it), before any fit. After a fit, of each kind of click the
median and the largest of 20: a verdict, its undo, an explanation, the queue, the plot of a tenth. The first explanation
is asked for at once, before the model is loaded that knows the neighbours, which follow. Bars: 2 s for the drop of
1,400 rows, 0.2 s for a click.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd

CLICKS = 20
BETWEEN = 0.25
"""Seconds between two looks at a fit."""


def table(n: int) -> bytes:
    """Ten-minute readings with spikes and a shift."""
    rng = np.random.default_rng(3)
    t = np.arange(n)
    y = 10.0 + 3.0 * np.sin(t / 40.0) + np.sin(t / 7.0) + 0.3 * rng.standard_normal(n)
    bad = rng.choice(n, n // 60, replace=False)
    y[bad] += rng.choice([-1.0, 1.0], len(bad)) * rng.uniform(1.2, 8.0, len(bad))
    y[n // 2 : n // 2 + 20] += 4.0
    times = pd.Timestamp("2026-01-01") + pd.to_timedelta(10 * t, unit="min")
    return pd.DataFrame({"time": times, "no_ppb": y.round(3)}).to_csv(index=False).encode()


def seconds(action: Callable[[], httpx.Response]) -> float:
    began = time.perf_counter()
    action().raise_for_status()
    return time.perf_counter() - began


def clicks(client: httpx.Client, rows: list[int], low: float, high: float) -> dict[str, list[float]]:
    """Seconds of each kind of click."""
    found: dict[str, list[float]] = {"verdict": [], "undo": [], "explain": [], "queue": [], "plot": []}
    tenth = f"api/plot?from={low + 0.45 * (high - low)}&to={low + 0.55 * (high - low)}"
    for row in rows:
        found["verdict"].append(seconds(lambda: client.post("api/verdicts", json={"rows": [row], "verdict": "bad"})))  # noqa: B023
        found["undo"].append(seconds(lambda: client.post("api/undo")))
        found["explain"].append(seconds(lambda: client.get(f"api/explain?row={row}")))  # noqa: B023
        found["queue"].append(seconds(lambda: client.get("api/queue?n=20")))
        found["plot"].append(seconds(lambda: client.get(tenth)))
    return found


def measure(client: httpx.Client, n: int) -> None:
    data = table(n)
    began = time.perf_counter()
    client.post("api/table", files={"file": (f"{n}.csv", data)}).raise_for_status()
    taken = time.perf_counter() - began
    plot: dict[str, Any] = client.get("api/plot").json()
    print(f"{n:>7,} rows: drop {time.perf_counter() - began:.2f} s ({taken:.2f} s of it until it is understood)")
    print(f"  drawn {plot['drawn']:,} of {plot['total']:,}")
    print(f"  fit {fit(client):.1f} s", end="")
    client.post("api/verdicts", json={"rows": [5], "verdict": "good"}).raise_for_status()
    print(f", again with a verdict held {fit(client):.1f} s (files written in both)")
    whole = seconds(lambda: client.get("api/plot"))
    first = seconds(lambda: client.get("api/explain?row=7"))
    follow = seconds(lambda: client.get("api/explain?row=7&wait=1"))
    print(f"  whole plot {whole:.3f} s; the first explanation {first:.3f} s, its neighbours {follow:.3f} s later")
    rows = np.linspace(10, n - 10, CLICKS).astype(int).tolist()
    for kind, times in clicks(client, rows, min(plot["x"]), max(plot["x"])).items():
        print(f"  {kind:8} median {np.median(times):.3f} s, largest {max(times):.3f} s")


def fit(client: httpx.Client) -> float:
    client.post("api/fit").raise_for_status()
    while (job := client.get("api/job").json())["state"] == "running":
        time.sleep(BETWEEN)
    assert job["state"] == "done", job
    return float(job["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1400, 100_000])
    wanted = parser.parse_args().rows
    for n in wanted:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "biasgp", "app", "--project", str(Path(folder) / "p"), "--no-browser"]
            server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert server.stdout is not None
            found = re.search(r"http://\S+/", server.stdout.readline())
            assert found
            try:
                with httpx.Client(base_url=found[0], timeout=600.0) as client:
                    measure(client, n)
            finally:
                server.terminate()
                server.wait()


if __name__ == "__main__":
    main()
