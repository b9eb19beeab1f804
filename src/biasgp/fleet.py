"""One model per group of a table, as for the sensors of a network: in parallel, resumable, failures as rows."""

from __future__ import annotations

import hashlib
import inspect
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
from biasgp.runner import Execution, Store, Task, run
from biasgp.staging import ORPHANS_END, stage, sweep
from biasgp.stream import Stream
from biasgp.stream import load as load_stream

__all__ = ["Fleet", "FleetExecution", "WithEvents", "fit_groups"]

COLUMNS = ("readings", "flagged", "noise_std", "seconds", "trustworthy")
"""Columns of the results about the fit of each group."""
EPISODES = "episodes"
"""One more of them, where biases that last were looked for."""
PUSHED = ("readings", "settled", "flagged", "seconds")
"""Columns of the results about readings that were pushed; flagged are those among the settled."""
WHOLE = ("readings", "settled", "flagged", EPISODES)
FINISHED = "groups.jsonl"
DIGITS = 12
"""Of a hash, in hexadecimal: two of 100,000 names that look alike otherwise share one with a chance of 2e-5."""
LONGEST_WORDS = 40
"""Characters of a group's name in its file name."""

_QUIET = Execution(progress=False)


@dataclass(frozen=True)
class FleetGroup:
    """Some rows of a table, under a name; `slug` is a file name that no other group has."""

    name: str
    rows: NDArray[np.intp]

    @property
    def slug(self) -> str:
        words = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name).strip("-")[:LONGEST_WORDS]
        return f"{words or 'group'}-{_digest([self.name])}"

    @classmethod
    def all_in(cls, column: Iterable[Any]) -> list[FleetGroup]:
        """The groups that a column tells apart, in the order of their names; rows without a name are in none."""
        names = pd.Series(list(column), dtype=object)
        # By their text: 1 and "1" are one group, as they have one name.
        names = names[names.notna()].map(str)
        rows = {name: names.index.to_numpy()[where] for name, where in names.groupby(names).indices.items()}
        return [cls(name, rows[name]) for name in sorted(rows)]


@dataclass(frozen=True)
class Fleet:
    """The models of all groups. `results` has a row for each, with status "ok", or "failed" or "timeout" and why.

    Models stay on disk until one is asked for; without a folder of the user's, for as long as this object lives.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from biasgp import GaussianGP
    >>> from biasgp.fleet import fit_groups
    >>> t = np.arange(20.0)
    >>> table = pd.DataFrame({"station": ["a"] * 20 + ["b"] * 20, "t": [*t, *t], "y": [*np.sin(t), *np.cos(t)]})
    >>> fleet = fit_groups(table, by="station", target="y", features=["t"], estimator=GaussianGP())
    >>> fleet.results[["group", "status", "readings"]].values.tolist()
    [['a', 'ok', 20], ['b', 'ok', 20]]
    >>> fleet.model("b").n_features_in_
    1
    >>> fleet.predict(table).shape
    (40, 2)
    """

    by: str
    features: list[str]
    results: pd.DataFrame
    folder: Path

    def model(self, group: str) -> BaseGP:
        """The fitted estimator of a group."""
        results = self.results.set_index("group")
        if str(group) not in results.index:
            raise KeyError(f"There is no group {group!r} in this fleet.")
        row = results.loc[str(group)]
        if row["status"] != "ok":
            raise ValueError(f"Group {group!r} has no model: {row['status']}, {row['message']}")
        return load_model(self.folder / row["file"])

    def predict(self, table: pd.DataFrame) -> pd.DataFrame:
        """Mean and std of f for each row of a table, by its group's model; NaN where that has none."""
        found = pd.DataFrame(np.nan, index=table.index, columns=["mean", "std"])
        fitted = set(self.results.loc[self.results["status"] == "ok", "group"])
        for group in FleetGroup.all_in(table[self.by]):
            if group.name in fitted:
                X = table.iloc[group.rows][self.features]
                found.iloc[group.rows] = np.column_stack(self.model(group.name).predict(X, return_std=True))
        return found

    def push(
        self, table: pd.DataFrame, *, target: str, verdict: str | None = None, execution: Execution = _QUIET
    ) -> pd.DataFrame:
        """New readings of all groups, each into the stream of its model; one row per group that has any.

        Streams begin where the fits ended and are kept in the folder, so that the next call goes on with them, here or
        on the workers of a cluster. Settled verdicts of each group are added to a file of its own, the column
        "verdicts". Calling it again with the same readings, after it was stopped or not, adds nothing twice.

        Parameters
        ----------
        table : DataFrame
            With the columns of the fit. Readings without a group, or of one without a model, are left out.
        target : str
            Column of the readings.
        verdict : str, optional
            Column that says of each reading whether it is good (0) or bad (1), or nothing (NaN).
        execution : Execution
            Workers, a time limit for each group, and progress.
        """
        execution.check()
        fitted = dict(self.results.loc[self.results["status"] == "ok", ["group", "file"]].itertuples(index=False))
        groups = [group for group in FleetGroup.all_in(table[self.by]) if group.name in fitted]
        columns = [*self.features, target, *([] if verdict is None else [verdict])]

        def data(group: FleetGroup) -> list[pd.DataFrame]:
            return [table.iloc[group.rows][columns]]

        def payload(group: FleetGroup) -> tuple[Any, ...]:
            model, verdicts = (self.folder / name for name in (fitted[group.name], verdict_file(group)))
            (read,) = data(group)
            batch = _digest([np.asarray(pd.util.hash_pandas_object(read)).tobytes()])
            return model, verdicts, read, (target, verdict), batch

        def verdict_file(group: FleetGroup) -> str:
            return f"{group.slug}.verdicts.csv"

        work = GroupWork(_push_one, payload, (biasgp.__version__, "push"), data, verdict_file, PUSHED)
        return run_groups(groups, work, self.folder, execution).rename(columns={"file": "verdicts"})


@dataclass(frozen=True)
class FleetExecution(Execution):
    """How the groups are fitted, and where their models are kept.

    Examples
    --------
    >>> from biasgp.fleet import FleetExecution
    >>> FleetExecution(jobs=2, folder="models").jobs
    2
    """

    progress: bool = False
    folder: str | Path | None = None
    """Where the models go, which Dask workers must be able to write to; a temporary folder when left out. There a run
    that was stopped is resumed: groups whose rows and settings are still the same are not fitted again."""


_SERIAL = FleetExecution()


@dataclass(frozen=True)
class WithEvents:
    """An estimator, and what is known beside the readings: when the sensors were serviced, and verdicts.

    `events` are values of the ordering column: a sequence, the same for all groups; or a table whose column `by` names
    the group of each event, so that each group has its own, and that has one other column, or one with the name of a
    feature. A group without any is fitted without events. `verdict` is a column of the table of readings that says of
    each whether it is good (0) or bad (1), or nothing (NaN).

    Examples
    --------
    >>> from biasgp import SparseBiasGP
    >>> from biasgp.fleet import WithEvents
    >>> WithEvents(SparseBiasGP(), events=[100.0, 250.0]).of("roof", features=["t"], by="station").tolist()
    [100.0, 250.0]
    """

    estimator: BaseGP
    events: Any = None
    verdict: str | None = None

    def of(self, group: str, features: Sequence[str], by: str) -> Array | None:
        """The events of a group, if any are known."""
        if self.events is None:
            return None
        column = self._column(features, by)
        if column is None:
            return np.asarray(self.events)
        values = column[self.events[by].map(str) == group].dropna()
        return np.asarray(values) if len(values) else None

    def check(self, groups: Sequence[FleetGroup], features: Sequence[str], by: str) -> None:
        """Refuse an estimator that takes no events, and an event of no group or of one that is not there."""
        for name, given in (("events", self.events), ("verdict", self.verdict)):
            if given is not None and name not in inspect.signature(self.estimator.fit).parameters:
                raise ValueError(f"{type(self.estimator).__name__} takes no {name}; SparseBiasGP does.")
        if self.events is None or self._column(features, by) is None:
            return
        known = {group.name for group in groups}
        for row, name in enumerate(self.events[by]):
            if pd.isna(name):
                raise ValueError(f"events, column {by!r}, row {row}: an event without a group.")
            if str(name) not in known:
                raise ValueError(f"events, column {by!r}, row {row}: the table has no group {str(name)!r}.")

    def _column(self, features: Sequence[str], by: str) -> pd.Series | None:
        """The values in a table of events; None where it is no table."""
        if not isinstance(self.events, pd.DataFrame):
            return None
        if by not in self.events.columns:
            raise ValueError(
                f"events has no column {by!r}, which names the group of each event. Pass a list of values where all "
                "groups have the same."
            )
        others = [name for name in self.events.columns if name != by]
        named = [name for name in others if name in features]
        chosen = named if len(named) == 1 else others
        if len(chosen) != 1:
            raise ValueError(
                f"events must have one column beside {by!r}, or one with the name of a feature; it has {others}."
            )
        return self.events[chosen[0]]


def fit_groups(
    table: pd.DataFrame,
    *,
    by: str,
    target: str,
    features: Sequence[str],
    estimator: BaseGP | WithEvents | None = None,
    execution: FleetExecution = _SERIAL,
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
    estimator : estimator or WithEvents, optional
        What to fit, SparseBiasGP() when left out; with the times of services and with verdicts, where they are known.
    execution : FleetExecution
        Workers, a time limit for each group, progress, and the folder of the models.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from biasgp.fleet import fit_groups
    >>> t = np.arange(30.0)
    >>> table = pd.DataFrame({"station": "roof", "t": t, "y": np.sin(t / 5.0) + np.where(t == 17.0, 4.0, 0.0)})
    >>> fleet = fit_groups(table, by="station", target="y", features=["t"])
    >>> fleet.results["flagged"].tolist()
    [1]
    """
    features = [features] if isinstance(features, str) else list(features)
    judged = [estimator.verdict] if isinstance(estimator, WithEvents) and estimator.verdict is not None else []
    absent = [name for name in (by, target, *features, *judged) if name not in table.columns]
    if absent:
        raise ValueError(f"The table has no column {absent[0]!r}; it has {', '.join(map(str, table.columns))}.")
    execution.check()
    usable = table.dropna(subset=[by, target, *features])
    groups = FleetGroup.all_in(usable[by])
    if not groups:
        raise ValueError(f"No row has {by!r}, {target!r} and all of the features.")
    model = SparseBiasGP() if estimator is None else estimator
    services = None
    if isinstance(model, WithEvents):
        model, services = model.estimator, model
        services.check(FleetGroup.all_in(table[by]), features, by)
    folder = Path(tempfile.mkdtemp(prefix="biasgp-fleet-") if execution.folder is None else execution.folder)
    folder.mkdir(parents=True, exist_ok=True)

    def file(group: FleetGroup) -> str:
        return f"{group.slug}.skops"

    def payload(group: FleetGroup) -> tuple[Any, ...]:
        rows = usable.iloc[group.rows]
        y = rows[target].to_numpy(dtype=float)
        known: dict[str, Array] = {}
        events = events_of(group)
        if events is not None:
            known["events"] = events
        if judged:
            known["verdict"] = rows[judged[0]].to_numpy(dtype=float)
        return deepcopy(model), rows[features], y, str(folder / file(group)), known

    def events_of(group: FleetGroup) -> Array | None:
        return None if services is None else services.of(group.name, features, by)

    def data(group: FleetGroup) -> list[pd.DataFrame]:
        events = events_of(group)
        read = usable.iloc[group.rows][[target, *features, *judged]]
        return [read] if events is None else [read, pd.DataFrame({"event": events})]

    work = GroupWork(
        function=_fit_one,
        payload=payload,
        settings=(biasgp.__version__, repr(model.get_params()), target, *features),
        data=data,
        file=file,
        columns=(*COLUMNS, *([EPISODES] if getattr(model, "order", None) is not None else [])),
    )
    results = run_groups(groups, work, folder, execution)
    # A group that was given up can have been ended in the middle of writing.
    sweep(folder)
    fleet = Fleet(by, features, results, folder)
    if execution.folder is None:
        weakref.finalize(fleet, shutil.rmtree, folder, ignore_errors=True)
    return fleet


@dataclass(frozen=True)
class GroupWork:
    """What is done for each group."""

    function: Callable[[Any], dict[str, Any]]
    """Called with the payload; returns the values of the columns and a "message"."""
    payload: Callable[[FleetGroup], Any]
    settings: Sequence[str]
    data: Callable[[FleetGroup], Sequence[pd.DataFrame]]
    """The cells that the result depends on, besides the settings."""
    file: Callable[[FleetGroup], str]
    """What a finished group leaves in the folder."""
    columns: Sequence[str] = COLUMNS


def run_groups(groups: Sequence[FleetGroup], work: GroupWork, folder: Path, execution: Execution) -> pd.DataFrame:
    """Do the work for each group that has not been done in this folder with the same data and settings.

    Returns one row per group: its name, "status", the columns of the work, "message" and "file". If its file is gone,
    it is done again.
    """
    keyed = {}
    for group in groups:
        contents = [np.asarray(pd.util.hash_pandas_object(part, index=False)).tobytes() for part in work.data(group)]
        keyed[f"{group.slug}-{_digest([*work.settings, *contents])}"] = group
    with Store(folder / FINISHED) as store:
        for key, group in keyed.items():
            known = store.outcomes.get(key)
            if known is not None and known.status == "ok" and not (folder / work.file(group)).exists():
                del store.outcomes[key]
        tasks = (Task(key, work.payload(group)) for key, group in keyed.items())
        outcomes = run(tasks, work.function, store, execution)
    rows = []
    for key, group in keyed.items():
        outcome = outcomes[key]
        value = outcome.value if isinstance(outcome.value, dict) else {}
        told = {name: _number(value.get(name), whole=name in WHOLE) for name in work.columns}
        message = outcome.message or str(value.get("message", ""))
        file = work.file(group) if outcome.status == "ok" else ""
        rows.append({"group": group.name, "status": outcome.status, **told, "message": message, "file": file})
    # Whole numbers, though a group without a fit has none.
    return pd.DataFrame(rows).astype({name: "Int64" for name in WHOLE if name in work.columns})


def _number(value: Any, *, whole: bool) -> Any:
    """A number of the file of finished groups, which others may have written; NaN for anything else."""
    return value if isinstance(value, int) or (isinstance(value, float) and not whole) else np.nan


def _fit_one(task: tuple[Any, pd.DataFrame, Array, str, dict[str, Array]]) -> dict[str, Any]:
    estimator, X, y, path, known = task
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, y, **known)
    # A worker of a run that was killed a moment ago may still be writing.
    with stage(Path(path), ORPHANS_END) as folder:
        save_model(folder / "model", estimator)
        (folder / "model").replace(path)
    flagged = getattr(estimator, "outlier_mask_", None)
    doubts = [str(w.message) for w in caught if issubclass(w.category, biasgp.BiasGPWarning)]
    return {
        "readings": len(y),
        "flagged": None if flagged is None else int(flagged.sum()),
        EPISODES: len(getattr(estimator, "episodes_", ())),
        "noise_std": float(np.sqrt(estimator.noise_variance_)),
        "seconds": time.perf_counter() - began,
        "trustworthy": bool(getattr(estimator, "trustworthy_", not doubts)),
        "message": " ".join(doubts),
    }


def _push_one(task: tuple[Path, Path, pd.DataFrame, tuple[str, str | None], str]) -> dict[str, Any]:
    """Readings into the stream beside a model, and its settled verdicts into a file; once for each batch."""
    model, verdicts, read, (target, verdict), batch = task
    began, place = time.perf_counter(), model.with_suffix(".stream")
    going_on: Any = load_stream(place) if place.exists() else load_model(model)
    stream: Stream = going_on if isinstance(going_on, Stream) else going_on.stream()
    if stream.about.get("batch") != batch:
        known = verdicts.read_bytes() if verdicts.exists() else b""
        said = None if verdict is None else read[verdict]
        found = stream.push(
            read[[name for name in read if name not in (target, verdict)]], read[target], None, said
        ).settled
        columns = ("time", "y", "mean", "std", "outlier_probability", "bias", "episode")
        lines = pd.DataFrame({name: getattr(found, name) for name in columns})
        # Verdicts first: if this is ended here, the stream is as it was and the batch is pushed again. Then its lines
        # are cut off, by the length that the stream has of the file.
        whole = (
            known[: int(stream.about.get("length", 0))]
            + lines.to_csv(index=False, header="length" not in stream.about).encode()
        )
        with stage(verdicts, ORPHANS_END) as folder:
            (folder / "verdicts").write_bytes(whole)
            (folder / "verdicts").replace(verdicts)
        outcome = {"settled": len(found), "flagged": int(found.outlier.sum())}
        stream.about.update(batch=batch, length=len(whole), **outcome)
        stream.save(place)
    told = {name: int(stream.about[name]) for name in ("settled", "flagged")}
    return {"readings": len(read), **told, "seconds": time.perf_counter() - began, "message": ""}


def _digest(parts: Iterable[str | bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"\0" + (part.encode(errors="surrogatepass") if isinstance(part, str) else part))
    return digest.hexdigest()[:DIGITS]
