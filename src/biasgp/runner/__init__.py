"""Runs many independent tasks, in parallel and resumably; the studies and the fleet are built on it.

A task has a key that never changes. Each finished one is a line on disk at once, so that a run that was stopped in any
way goes on where it was when it is started again.

>>> import tempfile
>>> from dataclasses import replace
>>> from biasgp.runner import SERIAL, Store, Task, run
>>> with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/tasks.jsonl") as store:
...     found = run([Task("two", 2), Task("three", 3)], float, store, replace(SERIAL, progress=False))
>>> found["three"].value
3.0
"""

from biasgp.runner.loop import run
from biasgp.runner.store import Store, StoreError
from biasgp.runner.task import SERIAL, Execution, Outcome, Task

__all__ = ["SERIAL", "Execution", "Outcome", "Store", "StoreError", "Task", "run"]
