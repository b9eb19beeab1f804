"""What the stories share: tables, a server of the app in a process of its own, and a person at the page."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
from playwright.sync_api import Browser, BrowserContext, Page, expect

PATIENCE, FIT_PATIENCE = 25.0, 120.0
"""Seconds to wait for the page, and for a fit, on a machine that has other things to do."""
SEEN = 3.0
"""Seconds after which somebody clicks all the same."""
SETTINGS = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
READY = "body[data-ready=all]"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 740}
EVERYTHING = {"from": -1e300, "to": 1e300}
expect.set_options(timeout=PATIENCE * 1000)


def table(n: int, seed: int = 3, share: float = 0.05) -> pd.DataFrame:
    """Hourly temperatures, some of which are too high."""
    rng = np.random.default_rng(seed)
    hours = np.arange(n)
    bad = rng.random(n) < share
    y = 15.0 + 4.0 * np.sin(2.0 * np.pi * hours / 60.0) + 0.3 * rng.standard_normal(n)
    y[bad] += rng.normal(3.0, 1.0, bad.sum())
    times = pd.date_range("2024-05-01", periods=n, freq="h").strftime("%Y-%m-%d %H:%M")
    return pd.DataFrame({"time": times, "temperature_C": y.round(3)})


class Server:
    """`biasgp app` on a project folder."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "biasgp", "app", *arguments, "--project", str(folder), "--no-browser"]
        self._log = (folder.parent / f"{folder.name}.log").open("a+", encoding="utf-8")
        self._process = subprocess.Popen(
            command,
            env=os.environ | SETTINGS | {"COLUMNS": "300"},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, f"no address in {line!r}: {self.said()}"
        self.url = found[0]
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE)

    def said(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(path, params=query)
        assert answer.is_success, answer.text
        return answer.json()

    def mark(self, **what: Any) -> Any:
        answer = self.http.post("api/verdicts", json={"why": "", **what})
        assert answer.is_success, answer.text
        return answer.json()

    def verdicts(self) -> dict[int, str]:
        """What is judged, by row."""
        plot = self.get("api/plot")
        return {row: said for row, said in zip(plot["row"], plot["verdict"], strict=True) if said}

    def fit(self) -> None:
        """Fit without the page, and wait."""
        assert self.http.post("api/fit", json={}).status_code == 202
        until = time.monotonic() + FIT_PATIENCE
        while (job := self.get("api/job"))["state"] == "running":
            assert time.monotonic() < until, job
            time.sleep(0.05)
        assert job["state"] == "done", job

    def kill(self) -> None:
        """As if the power failed."""
        self._process.send_signal(signal.SIGKILL)
        self.close()

    def close(self) -> None:
        self.http.close()
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


class Person:
    """One browser, or one tab of it, at the page; it notes what is complained of and what is asked for."""

    def __init__(self, browser: Browser, *, context: BrowserContext | None = None, **look: Any) -> None:
        look = {"viewport": DESKTOP, **look}
        self.own = context is None
        self.context = context or browser.new_context(**look)
        self.context.set_default_timeout(PATIENCE * 1000)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(message.text)

    def open(self, server: Server, view: str = "") -> Page:
        self.page.goto(server.url + (f"#{view}" if view else ""))
        self.page.wait_for_selector(READY)
        return self.page

    def plot(self, server: Server) -> Page:
        """The page with the readings drawn, and the list of those worth a look there."""
        self.open(server, "readings")
        self.page.wait_for_selector("#plot[data-drawn]:not([aria-busy])")
        self.page.wait_for_selector("#queue button")
        return self.page

    def at(self, row: int) -> tuple[float, float]:
        """Where a reading is drawn, in pixels of the window."""
        x, y = self.page.evaluate(
            """row => {
              const at = document.getElementById("plot"), frame = at._fullLayout, box = at.getBoundingClientRect();
              for (const trace of at.data) for (let k = 0; k < (trace.customdata || []).length; k += 1) {
                if (trace.customdata[k][1] === row) return [
                  box.left + at.clientLeft + frame.xaxis._offset + frame.xaxis.d2p(trace.x[k]),
                  box.top + at.clientTop + frame.yaxis._offset + frame.yaxis.d2p(trace.y[k])];
              }
            }""",
            row,
        )
        return x, y

    def click(self, row: int) -> None:
        x, y = self.at(row)
        self.page.mouse.move(x - 1, y - 1)
        self._until_the_pointer_is_over(row)
        self.page.mouse.click(x, y)

    def _until_the_pointer_is_over(self, row: int) -> None:
        """Nobody clicks before the plot has seen what the pointer is over; on a busy machine that takes a while."""
        end = time.monotonic() + SEEN
        over = "() => (document.getElementById('plot')._hoverdata || []).map(each => (each.customdata || [])[1])"
        while row not in self.page.evaluate(over) and time.monotonic() < end:
            self.page.wait_for_timeout(20)

    def drag(self, *path: tuple[float, float]) -> None:
        mouse = self.page.mouse
        mouse.move(*path[0])
        mouse.down()
        for place in path[1:]:
            mouse.move(*place, steps=6)
        mouse.up()

    def drop(self, name: str, content: str | bytes) -> None:
        """A file let go over the page."""
        self.page.evaluate(
            """([name, bytes]) => {
              const data = new DataTransfer();
              data.items.add(new File([new Uint8Array(bytes)], name));
              const at = document.getElementById("drop");
              for (const kind of ["dragover", "drop"])
                at.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));
            }""",
            [name, list(content.encode() if isinstance(content, str) else content)],
        )

    def until(self, condition: str) -> None:
        """Wait for an expression to hold; Playwright's own way is one that the page's policy forbids."""
        until = time.monotonic() + PATIENCE
        while not self.page.evaluate(condition):
            assert time.monotonic() < until, f"never: {condition}"
            self.page.wait_for_timeout(30)

    def choose(self, mode: str) -> None:
        """What dragging does from now on."""
        self.page.get_by_role("button", name=mode, exact=True).click()
        self.page.wait_for_selector(f"#plot[data-mode={mode.lower()}]")

    def judge(self, verdict: str) -> None:
        self.page.click(f"button[data-verdict={verdict}]")

    def says(self, words: str | re.Pattern[str]) -> None:
        expect(self.page.locator("#message")).to_contain_text(words)

    def fitted(self) -> None:
        """Wait for the end of a fit."""
        expect(self.page.locator("#job")).to_be_hidden(timeout=FIT_PATIENCE * 1000)
        self.says("The fit is done")

    def close(self) -> None:
        if self.own:
            self.context.close()
        else:
            self.page.close()


def assert_calm(person: Person, server: Server) -> None:
    """Nothing was complained of, and nobody else was asked for anything."""
    assert person.complaints == []
    home = server.url.rsplit("/", 2)[0]
    assert [url for url in person.requests if not url.startswith((home, "data:", "blob:"))] == []
