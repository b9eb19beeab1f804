"""A headless Chromium, driven over a pipe by its DevTools protocol: no package needed. A plugin of pytest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser")
BINARY = next(filter(None, map(shutil.which, NAMES)), None)
MISSING = f"browser test: none of {', '.join(NAMES)} on the PATH"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
]
PATIENCE = 60.0


class Page:
    """One tab: what it says on its console, what it asks of the network, and what its script answers."""

    def __init__(self, profile: Path) -> None:
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()
        command = f"exec {BINARY} {' '.join(FLAGS)} --user-data-dir={profile} about:blank 3<&{to_child} 4>&{from_child}"
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        self._buffer, self._count, self._session = b"", 0, None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._write)
            os.close(self._read)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        wanted = self._count
        while True:
            answer = self._next()
            if answer.get("id") == wanted:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 16)
            assert chunk, "Chromium has gone"
            self._buffer += chunk
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(params["entry"]))

    def size(self, width: int, height: int, *, mobile: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def open(self, path: Path, drawn: str = "document.body && document.body.dataset.ready === 'all'") -> None:
        """Load a file and wait until all is drawn."""
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait(drawn)

    def wait(self, condition: str) -> None:
        until = time.monotonic() + PATIENCE
        while not self.js(condition):
            assert time.monotonic() < until, f"never: {condition}"
            time.sleep(0.05)

    def js(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """For the tests of modules that name this one in `pytest_plugins`."""
    if BINARY is None:
        pytest.skip(MISSING)
    page = Page(tmp_path_factory.mktemp("profile"))
    yield page
    page.close()
