"""How quick the page of `biasgp app` is, in a real browser: what a person waits for, drawing included.

    python benchmarks/app_page.py [--rows 1400]

"drop" is from letting a table go over the page until its readings are drawn, without a fit. "click" is from a press on
a reading in the plot until its explanation stands there; "mark" from the press of the button until the server has said
that the verdict is on disk. The first of each is told apart from the others. Needs chromium on the PATH.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from playwright.sync_api import Page, sync_playwright

CLICKS = 15
PATIENCE = 300.0
"""Seconds for a fit."""


def readings(n: int, share: float = 0.03) -> pd.DataFrame:
    """Hourly temperatures; some are too high, and once the sensor reads too high for a while."""
    rng = np.random.default_rng(4)
    hours = np.arange(n)
    y = 15.0 + 4.0 * np.sin(2.0 * np.pi * hours / 160.0) + np.sin(2.0 * np.pi * hours / 24.0)
    y += 0.35 * rng.standard_normal(n)
    bad = rng.random(n) < share
    y[bad] += rng.normal(3.5, 1.5, bad.sum())
    y[int(0.62 * n) : int(0.68 * n)] += 2.6
    times = pd.date_range("2024-05-01", periods=n, freq="h").strftime("%Y-%m-%d %H:%M")
    return pd.DataFrame({"time": times, "temperature_C": y.round(2)})


@contextmanager
def page_of(folder: Path, *arguments: str, **look: object) -> Iterator[Page]:
    """The page of a project in a browser, with its server."""
    binary = shutil.which("chromium")
    if binary is None:
        sys.exit("chromium must be on the PATH.")
    command = [sys.executable, "-m", "biasgp", "app", *arguments, "--project", str(folder), "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "300"})
    assert server.stdout is not None
    try:
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found, "the server printed no address"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"])
            page = browser.new_page(**look)
            page.goto(found[0])
            page.wait_for_selector("body[data-ready=all]")
            yield page
            browser.close()
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def fit(page: Page) -> None:
    """Fit, and wait for the end."""
    page.click("#fit")
    page.wait_for_selector("#job:not([hidden])")
    page.wait_for_selector("#job[hidden]", state="attached", timeout=PATIENCE * 1000)


# In the page, so that no message between processes is counted. Answers with milliseconds.
DROP = """async ([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const begun = performance.now(), at = document.getElementById("drop");
  at.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: data }));
  while (!document.querySelector("#glance[data-drawn]")) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""
PLACE = """row => {
  const at = document.getElementById("plot"), frame = at._fullLayout, box = at.getBoundingClientRect();
  for (const trace of at.data) for (let k = 0; k < (trace.customdata || []).length; k += 1)
    if (trace.customdata[k][1] === row) return [
      box.left + at.clientLeft + frame.xaxis._offset + frame.xaxis.d2p(trace.x[k]),
      box.top + at.clientTop + frame.yaxis._offset + frame.yaxis.d2p(trace.y[k])];
}"""
LISTEN = "addEventListener('mousedown', () => { window.begun = performance.now() }, { capture: true })"
ANSWERED = """async before => {
  const row = () => (/^Row (\\d+),/.exec(document.getElementById("selected").textContent) || [])[1];
  const told = () => (document.querySelector("#explanation b") || {}).textContent;
  while (!row() || row() === before || told() !== "Row " + row()) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return [row(), performance.now() - window.begun];
}"""
MARK = """async () => {
  const said = document.getElementById("message"), begun = performance.now();
  said.textContent = "";
  document.querySelector("button[data-verdict=bad]").click();
  while (!said.textContent.includes("marked bad")) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""


def told(name: str, milliseconds: list[float]) -> None:
    first, rest = milliseconds[0], milliseconds[1:]
    print(f"{name:8} first {first:6.0f} ms, then median {np.median(rest):6.0f} ms, largest {max(rest):6.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1400)
    n = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder, page_of(Path(folder) / "project") as page:
        print(
            f"{n:,} rows: drop to first plot {page.evaluate(DROP, ['a.csv', readings(n).to_csv(index=False)]):.0f} ms"
        )
        begun = time.monotonic()
        fit(page)
        print(f"fit {time.monotonic() - begun:.1f} s")
        page.click("nav a[data-view=readings]")
        page.wait_for_selector("#queue button")
        rows = np.random.default_rng(0).permutation(n)[:CLICKS] + 1
        page.evaluate(LISTEN)
        clicks, marks, last = [], [], ""
        for row in rows.tolist():
            place = page.evaluate(PLACE, row)
            page.mouse.move(place[0] - 1, place[1])
            page.mouse.click(*place)
            last, taken = page.evaluate(ANSWERED, last)
            clicks.append(taken)
            marks.append(page.evaluate(MARK))
        told("click", clicks)
        told("mark", marks)


if __name__ == "__main__":
    main()
