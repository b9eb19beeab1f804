"""The fit that runs, in a child process: started, listened to, cancelled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from biasgp import staging
from biasgp.app.forecast import Forecast
from biasgp.app.project import FITS

PATIENCE = 5.0
"""Seconds for a process that was killed to be gone."""


class Workers:
    """Processes that fit. One is started ahead, since to import all that a fit needs takes seconds."""

    def __init__(self) -> None:
        self._spare: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        """Start one, if none waits."""
        if self._spare is None or self._spare.poll() is not None:
            loud = bool(os.environ.get("BIASGP_DEBUG"))
            self._spare = subprocess.Popen(
                [sys.executable, "-m", "biasgp.app.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if loud else subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # a group of its own, which is ended as one
            )

    def take(self) -> subprocess.Popen[str]:
        """One that waits for what to do."""
        self.prepare()
        assert self._spare is not None
        taken, self._spare = self._spare, None
        return taken

    def close(self) -> None:
        """End the one that waits."""
        if self._spare is not None:
            assert self._spare.stdin is not None and self._spare.stdout is not None
            self._spare.kill()
            self._spare.wait(PATIENCE)
            self._spare.stdin.close()
            self._spare.stdout.close()
            self._spare = None


class Job:
    """One fit. `finished` is called when it has ended well."""

    def __init__(self, process: subprocess.Popen[str], request: dict[str, Any], finished: Callable[[], None]) -> None:
        self.id: str = request["fit"]
        self._target = Path(request["folder"]) / FITS / self.id
        self._finished = finished
        self._began = self._heard = time.monotonic()
        self._ended: float | None = None
        self._lock = threading.Lock()
        self._said: dict[str, Any] = {"stage": "starting", "left": None, "done": None}
        self._state, self._error = "running", ""
        self._forecast: Forecast | None = None
        self._shown = 0.0
        self._process = process
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        with self._lock:
            return self._state == "running"

    def told(self) -> dict[str, Any]:
        """Where it stands."""
        with self._lock:
            now = self._ended or time.monotonic()
            running = self._state == "running"
            left = self._left(now) if running else None
            done = self._said["done"]
            if done is None and left is not None:
                self._shown = max(self._shown, (now - self._began) / (now - self._began + left))
                done = self._shown
            return {
                "id": self.id,
                "state": self._state,
                "stage": self._said["stage"] if running else self._state,
                "done": done if running else float(self._state == "done"),
                "left_seconds": left,
                "seconds": now - self._began,
                "error": self._error or None,
            }

    def _left(self, now: float) -> float | None:
        """Seconds: as the worker has measured them, else as fits before it went; None in the first moments."""
        if self._said["left"] is not None:
            return max(0.0, float(self._said["left"]) - (now - self._heard))
        return None if self._forecast is None else self._forecast.left(now - self._began)

    def cancel(self) -> None:
        """End it, with all that it started; nothing of it stays."""
        with self._lock:
            if self._state == "running":
                self._state = "cancelled"
        self._kill()
        self._thread.join(PATIENCE)
        staging.clear(self._target, PATIENCE)

    def _kill(self) -> None:
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, AttributeError):  # it has just ended; or Windows
                self._process.kill()
        self._process.wait(PATIENCE)

    def _listen(self) -> None:
        assert self._process.stdout is not None and self._process.stdin is not None
        finished = False
        for line in self._process.stdout:
            said = json.loads(line) if line.startswith("{") else {}
            finished |= "finished" in said
            with self._lock:
                self._error = said.get("error", self._error)
                if "typical" in said:
                    self._forecast = Forecast(said["typical"], said["spread"])
                if "stage" in said:
                    # What is done stays done, even where the work ahead turns out to be more.
                    known = [each["done"] for each in (said, self._said) if each["done"] is not None]
                    self._said, self._heard = {**said, "done": max(known, default=None)}, time.monotonic()
        self._process.wait()
        self._process.stdout.close()
        self._process.stdin.close()
        if finished:
            self._finished()
        with self._lock:
            self._ended = time.monotonic()
            if self._state == "cancelled" and not finished:
                return
            self._state = "done" if finished else "failed"
            if not finished and not self._error:
                self._error = "The fit was ended from outside, perhaps for want of memory. Use fewer rows."
