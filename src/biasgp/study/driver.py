"""What both studies do with their tasks: claim the folder, run what is missing, write the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from biasgp.runner import Store, Task, check_means, run
from biasgp.runner.task import Function
from biasgp.study.results import RESULTS, TASKS, Results, Row, claim, load, outcome_of, part_of, row_of, write


@dataclass(frozen=True)
class Item:
    """A task and what its row is called; None for a task that is only there for a figure."""

    task: Task
    identity: Row | None = None


@dataclass(frozen=True)
class StudyPlan:
    """A whole study: kind and configuration, its items in the order of the results, and what does one."""

    kind: str
    configuration: Mapping[str, Any]
    columns: tuple[str, ...]
    items: Sequence[Item]
    function: Function
    curves: Mapping[str, Any]
    """What figures need and no task makes."""


@dataclass(frozen=True)
class How:
    """How a study is run; none of it changes its results."""

    jobs: int = 1
    scheduler: str | None = None
    timeout: float | None = None
    extend: bool = False
    retry_failed: bool = False
    progress: bool = True
    console: Console | None = None


def conduct(plan: StudyPlan, out: str | Path, how: How, order: Sequence[Task] | None = None) -> Results:
    """Run the plan into a folder, going on where it was, and return everything that is there.

    order: in which to begin the tasks, if not that of the results.
    """
    folder = Path(out)
    check_means(how.jobs, how.scheduler, how.timeout)
    with Store(folder / TASKS) as store:
        claim(folder, plan.kind, plan.configuration, how.extend)
        _restore(plan, folder, store)
        try:
            run(
                order or [item.task for item in plan.items],
                plan.function,
                store,
                jobs=how.jobs,
                scheduler=how.scheduler,
                timeout=how.timeout,
                retry_failed=how.retry_failed,
                progress=how.progress,
                console=how.console,
            )
        finally:
            # Also when it is stopped: what is there can be looked at.
            _write(plan, folder, store)
    return load(folder)


def _write(plan: StudyPlan, folder: Path, store: Store) -> None:
    rows, curves = [], dict(plan.curves)
    for item in plan.items:
        outcome = store.outcomes.get(item.task.key)
        if outcome is None:
            continue
        if item.identity is not None:
            rows.append(row_of(item.identity, outcome))
        curve = part_of(outcome, "curve")
        if curve is not None:
            curves[item.task.key] = curve
    write(folder, plan.columns, rows, curves)


def _restore(plan: StudyPlan, folder: Path, store: Store) -> None:
    """Fill an empty log from results.csv and curves.json, if they are there."""
    if store.outcomes or not (folder / RESULTS).exists():
        return
    before = load(folder)
    names = plan.columns[: plan.columns.index("method") + 1]
    rows = {tuple(str(row[name]) for name in names): row for row in before.rows}
    for item in plan.items:
        curve = before.curves.get(item.task.key)
        if item.identity is None:
            if curve is not None:
                store.add(outcome_of(item.task.key, {"status": "ok"}, curve))
            continue
        row = rows.get(tuple(str(item.identity[name]) for name in names))
        if row is not None:
            store.add(outcome_of(item.task.key, row, curve))
