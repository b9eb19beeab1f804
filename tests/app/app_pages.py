"""Projects, their pages, and servers in processes of their own."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd

from biasgp.app.project import Project
from biasgp.app.server import Desk, make_app
from biasgp.app.worker import _Reporter, fit_project

PORT, TOKEN = 8000, "a-token-of-the-tests"
N = 60
SPIKES = (20, 41)
"""Rows, the first of which is 0, that are far off."""


def readings(n: int = N, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    y = 10.0 + 2.0 * np.sin(t / 6.0) + 0.1 * rng.standard_normal(n)
    for row in SPIKES:
        if row < n:
            y[row] += 5.0
    times = pd.Timestamp("2026-03-01") + pd.to_timedelta(t, unit="h")
    return pd.DataFrame({"time": times.strftime("%Y-%m-%d %H:%M"), "site": "roof", "no_ppb": y.round(3)})


def fleet(n: int = 40) -> pd.DataFrame:
    """Sensor b lies more than a; c has too few readings."""
    parts = [readings(n, seed).assign(sensor=name) for seed, name in enumerate("ab")]
    parts[1].loc[[5, 11, 17, 23, 29], "no_ppb"] += 6.0
    parts.append(readings(3, 9).assign(sensor="c"))
    return pd.concat(parts, ignore_index=True)[["time", "sensor", "no_ppb"]]


@dataclass
class Caller:
    """Asks the page without a network between."""

    app: Any

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}") as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())


@dataclass
class Page:
    """A project and whoever asks its page."""

    desk: Desk
    caller: Caller

    @property
    def project(self) -> Project:
        return self.desk.project

    def get(self, path: str, status: int = 200) -> Any:
        return self._answer(self.caller.request("GET", f"/{TOKEN}/{path}"), status)

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        body = {} if body is None else body
        return self._answer(self.caller.request("POST", f"/{TOKEN}/{path}", json=body), status)

    def put(self, path: str, body: Any, status: int = 200) -> Any:
        return self._answer(self.caller.request("PUT", f"/{TOKEN}/{path}", json=body), status)

    def delete(self, path: str, status: int = 200) -> Any:
        return self._answer(self.caller.request("DELETE", f"/{TOKEN}/{path}"), status)

    def upload(self, name: str, data: bytes, status: int = 200) -> Any:
        files = {"file": (name, data)}
        return self._answer(self.caller.request("POST", f"/{TOKEN}/api/table", files=files), status)

    def text(self, path: str) -> str:
        answer = self.caller.request("GET", f"/{TOKEN}/{path}")
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    def fit(self) -> None:
        """A fit, by what the child process runs."""
        project, current = self.project, self.project.current()
        request = {
            "folder": str(project.folder),
            "fit": project.next_id(),
            "table": str(project.table_path.relative_to(project.folder)),
            "sha256": project.sha256,
            "options": project.options.plain(),
            "version": project.journal.version,
            "before": None if current is None else current.id,
        }
        fit_project(request, Silent())
        project.forget_fits()

    @staticmethod
    def _answer(answer: Any, status: int) -> Any:
        assert answer.status_code == status, answer.text
        return answer.json()


class Silent(_Reporter):
    def send(self, message: dict[str, Any]) -> None:
        pass


@contextmanager
def opened(folder: Path) -> Iterator[Page]:
    folder.mkdir(exist_ok=True)
    desk = Desk(Project(folder))
    try:
        yield Page(desk, Caller(make_app(desk, TOKEN, PORT)))
    finally:
        desk.close()


@dataclass
class Served:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])

    @property
    def token(self) -> str:
        return self.url.rstrip("/").rsplit("/", 1)[1]

    @property
    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60.0)


def serve(folder: Path, *more: str) -> Served:
    """`biasgp app` as a person starts it."""
    command = [sys.executable, "-m", "biasgp", "app", *more, "--project", str(folder), "--no-browser"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if found := re.search(r"http://\S+/", line):
            return Served(process, found[0])
    raise AssertionError("".join(lines))


def wait_for_job(client: httpx.Client, seconds: float = 120.0) -> dict[str, Any]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        job: dict[str, Any] = client.get("api/job").json()
        if job["state"] != "running":
            return job
        time.sleep(0.1)
    raise AssertionError("the fit takes too long")
