"""A model for each group of a table, as for each sensor of a network: in parallel, resumable, failures as rows."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import biasgp
from biasgp._typing import Array
from biasgp.estimators.base import BaseGP
from biasgp.estimators.sparse_bias import SparseBiasGP
from biasgp.persistence import load_model, save_model
from biasgp.runner import Outcome, Store, Task, check_means, run
from biasgp.staging import ORPHANS_END, stage, sweep

COLUMNS = ("readings", "flagged", "noise_std", "seconds", "trustworthy")
"""What is told about each group's fit."""
WHOLE = ("readings", "flagged")
FINISHED = "groups.jsonl"
SLUG_DIGITS = 12
"""Of a hash of the name: 100,000 names that look alike otherwise share one with a chance of 2e-5."""


@dataclass(frozen=True)
class FleetGroup:
    """Some rows of a table, under a name; `slug` is a file name that no other group has."""

    name: str
    rows: NDArray[np.intp]

    @property
    def slug(self) -> str:
        words = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name).strip("-")[:40]
        return f"{words or 'group'}-{_digest([self.name])[:SLUG_DIGITS]}"


def split(column: Iterable[Any]) -> list[FleetGroup]:
    """The groups that a column tells apart, in the order of their names; rows without a name are in none."""
    names = pd.Series(list(column), dtype=object)
    # By their text: 1 and "1" are one group, as they have one name.
    names = names[names.notna()].map(str)
    rows = {name: names.index.to_numpy()[where] for name, where in names.groupby(names).indices.items()}
    return [FleetGroup(name, rows[name]) for name in sorted(rows)]


@dataclass(frozen=True)
class Fleet:
    """The models of all groups. `results` has a row for each, with status "ok", or "failed" or "timeout" and why.

    Models stay on disk until one is asked for; without a folder of the user's, for as long as this object lives.
    """

    by: str
    features: list[str]
    results: pd.DataFrame
    folder: Path

    def model(self, group: str) -> BaseGP:
        """The fitted estimator of a group."""
        found = self.results.loc[self.results["group"] == str(group)]
        if found.empty:
            raise KeyError(f"There is no group {group!r} in this fleet.")
        row = found.iloc[0]
        if row["status"] != "ok":
            raise ValueError(f"Group {group!r} has no model: {row['status']}, {row['message']}")
        return load_model(self.folder / row["file"])

    def predict(self, table: pd.DataFrame) -> pd.DataFrame:
        """Mean and std of f for each row of a table, by its group's model; NaN where that has none."""
        found = pd.DataFrame(np.nan, index=table.index, columns=["mean", "std"])
        fitted = set(self.results.loc[self.results["status"] == "ok", "group"])
        for group in split(table[self.by]):
            if group.name in fitted:
                rows = table.iloc[group.rows]
                found.iloc[group.rows] = np.column_stack(
                    self.model(group.name).predict(rows[self.features], return_std=True)
                )
        return found


def fit_groups(
    table: pd.DataFrame,
    *,
    by: str,
    target: str,
    features: Sequence[str],
    estimator: BaseGP | None = None,
    folder: str | Path | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    timeout: float | None = None,
    progress: bool = False,
) -> Fleet:
    """Fit a model to each group of a table.

    Parameters
    ----------
    table : DataFrame
        Rows without a target or one of the features are left out.
    by : str
        Column that names the group of each row.
    target, features : str, list of str
        Columns of numbers.
    estimator : estimator, optional
        What to fit, SparseBiasGP() when left out.
    folder : path, optional
        Where the models go. A run that was stopped goes on there where it was; groups whose rows and settings are
        still the same are not fitted again.
    jobs, scheduler : int, str
        Worker processes on this machine, or the address of a Dask scheduler whose workers can write to `folder`.
    timeout : float, optional
        Seconds after which a group is given up.
    progress : bool
        Show how far it is.
    """
    features = [features] if isinstance(features, str) else list(features)
    absent = [name for name in (by, target, *features) if name not in table.columns]
    if absent:
        raise ValueError(f"The table has no column {absent[0]!r}; it has {', '.join(map(str, table.columns))}.")
    check_means(jobs, scheduler, timeout)
    place = Path(tempfile.mkdtemp(prefix="biasgp-fleet-")) if folder is None else Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    model = SparseBiasGP() if estimator is None else estimator
    usable = table.dropna(subset=[by, target, *features])
    settings = [biasgp.__version__, repr(model.get_params()), target, *features]
    groups = split(usable[by])
    if not groups:
        raise ValueError(f"No row has {by!r}, {target!r} and all of the features.")

    def payload(group: FleetGroup) -> tuple[Any, ...]:
        rows = usable.iloc[group.rows]
        return deepcopy(model), rows[features], rows[target].to_numpy(dtype=float), str(place / _file(group))

    outcomes = run_groups(
        groups,
        payload,
        _fit_one,
        place,
        settings,
        lambda group: usable.iloc[group.rows][[target, *features]],
        lambda group: place / _file(group),
        jobs=jobs,
        scheduler=scheduler,
        timeout=timeout,
        progress=progress,
    )
    # A group that was given up can have been ended in the middle of writing.
    sweep(place)
    fleet = Fleet(by, features, results_table(outcomes, COLUMNS, _file), place)
    if folder is None:
        weakref.finalize(fleet, shutil.rmtree, place, ignore_errors=True)
    return fleet


def run_groups(
    groups: Sequence[FleetGroup],
    payload: Callable[[FleetGroup], Any],
    function: Callable[[Any], dict[str, Any]],
    folder: Path,
    settings: Sequence[str],
    data: Callable[[FleetGroup], pd.DataFrame],
    result: Callable[[FleetGroup], Path],
    **how: Any,
) -> list[tuple[FleetGroup, Outcome]]:
    """Do the function for each group that has not been done in this folder with the same data and settings.

    `result` is what a finished group leaves on disk; without it, the group is done again.
    """
    keys = {group.name: f"{group.slug}-{_digest([*settings, _contents(data(group))])[:12]}" for group in groups}
    with Store(folder / FINISHED) as store:
        for group in groups:
            known = store.outcomes.get(keys[group.name])
            if known is not None and known.status == "ok" and not result(group).exists():
                del store.outcomes[keys[group.name]]
        tasks = (Task(keys[group.name], payload(group)) for group in groups)
        outcomes = run(tasks, function, store, **how)
    return [(group, outcomes[keys[group.name]]) for group in groups]


def results_table(
    outcomes: Sequence[tuple[FleetGroup, Outcome]], columns: Sequence[str], file: Callable[[FleetGroup], str]
) -> pd.DataFrame:
    """A row for each group."""
    rows = []
    for group, outcome in outcomes:
        value = outcome.value if isinstance(outcome.value, dict) else {}
        told = {name: _number(value.get(name), whole=name in WHOLE) for name in columns}
        made = file(group) if outcome.status == "ok" else ""
        message = outcome.message or str(value.get("message", ""))
        rows.append({"group": group.name, "status": outcome.status, **told, "message": message, "file": made})
    table = pd.DataFrame(rows)
    # Whole numbers, though a group without a fit has none.
    return table.astype({name: "Int64" for name in WHOLE if name in table})


def _number(value: Any, *, whole: bool) -> Any:
    """A number of the file of finished groups, which may be someone else's; NaN for what is none."""
    return value if isinstance(value, int) or (isinstance(value, float) and not whole) else np.nan


def _file(group: FleetGroup) -> str:
    return f"{group.slug}.skops"


def _fit_one(task: tuple[BaseGP, pd.DataFrame, Array, str]) -> dict[str, Any]:
    estimator, X, y, path = task
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, y)
    # A worker of a run that was killed a moment ago may still be at it.
    with stage(Path(path), ORPHANS_END) as folder:
        save_model(folder / "model", estimator)
        (folder / "model").replace(path)
    flagged = getattr(estimator, "outlier_mask_", None)
    doubts = [str(w.message) for w in caught if issubclass(w.category, biasgp.BiasGPWarning)]
    return {
        "readings": len(y),
        "flagged": None if flagged is None else int(flagged.sum()),
        "noise_std": float(np.sqrt(estimator.noise_variance_)),
        "seconds": time.perf_counter() - began,
        "trustworthy": bool(getattr(estimator, "trustworthy_", not doubts)),
        "message": " ".join(doubts),
    }


def _digest(parts: Iterable[str | bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"\0" + (part.encode(errors="surrogatepass") if isinstance(part, str) else part))
    return digest.hexdigest()


def _contents(frame: pd.DataFrame) -> bytes:
    return np.asarray(pd.util.hash_pandas_object(frame, index=False)).tobytes()
