"""What all studies do with their tasks: claim the folder, run what is missing, write the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from biasgp.runner import Execution, Outcome, Store, Task, run
from biasgp.study.methods import Method
from biasgp.study.results import COLUMNS, RESULTS, TASKS, Results, Row, claim, load, write


@dataclass(frozen=True)
class StudyCell:
    """One task: a method on one data set."""

    key: str
    method: Method
    identity: Row = field(default_factory=dict)
    """The columns that say which task it is. A task that only serves a figure has none, and no row in the results."""


@dataclass(frozen=True)
class StudyPlan:
    """A whole study: its kind and configuration, its cells in the order of the results, and what is done with one."""

    kind: str
    configuration: Mapping[str, Any]
    cells: Sequence[StudyCell]
    function: Callable[[StudyCell], dict[str, Any]]
    """Returns a "row" of scores, a "curve" for a figure, or both."""
    curves: Mapping[str, Any] = field(default_factory=dict)
    """Data of figures that no task computes."""

    def conduct(self, out: str | Path, execution: Execution, extend: bool) -> Results:
        """Run it into a folder, continuing what is there, and return all results of the folder."""
        folder = Path(out)
        execution.check()
        # All tasks of one replicate come before those of the next: a study that is stopped early is a small whole one.
        order = sorted(self.cells, key=lambda cell: cell.identity.get("replicate", -1))
        with Store(folder / TASKS) as store:
            claim(folder, self.kind, self.configuration, extend)
            self._restore(folder, store)
            try:
                run([Task(cell.key, cell) for cell in order], self.function, store, execution)
            finally:
                # The results of a study that is stopped can be looked at, too.
                self._write(folder, store)
        return load(folder)

    def _write(self, folder: Path, store: Store) -> None:
        rows, curves = [], dict(self.curves)
        for cell in self.cells:
            outcome = store.outcomes.get(cell.key)
            if outcome is None:
                continue
            # The log may have been changed: a value that no task returns is left out.
            value = outcome.value if isinstance(outcome.value, dict) else {}
            scores, curve = value.get("row"), value.get("curve")
            if cell.identity:
                scores = scores if isinstance(scores, dict) else {}
                message = outcome.message or scores.get("message", "")
                rows.append({**scores, **cell.identity, "status": outcome.status, "message": message})
            if isinstance(curve, dict):
                curves[cell.key] = curve
        write(folder, self.kind, rows, curves)

    def _restore(self, folder: Path, store: Store) -> None:
        """Fill an empty log from results.csv and curves.json, if they are there."""
        if store.outcomes or not (folder / RESULTS).exists():
            return
        before = load(folder)
        columns = COLUMNS[self.kind]
        split = columns.index("method") + 1
        names, scores = columns[:split], [name for name in columns[split:] if name != "status"]
        rows = {tuple(str(row[name]) for name in names): row for row in before.rows}
        for cell in self.cells:
            curve = before.curves.get(cell.key)
            row = rows.get(tuple(str(cell.identity.get(name)) for name in names))
            if row is not None and row["status"] != "ok":
                store.add(Outcome(cell.key, row["status"], message=row["message"]))
            elif row is not None:
                store.add(Outcome(cell.key, "ok", {"row": {name: row[name] for name in scores}, "curve": curve}))
            elif not cell.identity and curve is not None:
                store.add(Outcome(cell.key, "ok", {"curve": curve}))


def choose(what: str, given: Sequence[Any], known: Sequence[Any]) -> tuple[Any, ...]:
    """The given values in the order of the known ones; ValueError for an unknown value, or for none at all."""
    unknown = [value for value in given if value not in known]
    if unknown or not given:
        shown = ", ".join(map(str, unknown)) or "none at all"
        raise ValueError(f"Unknown {what}: {shown}. There are {', '.join(map(str, known))}.")
    return tuple(value for value in known if value in given)
