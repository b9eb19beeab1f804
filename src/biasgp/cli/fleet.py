"""`biasgp fit --by COLUMN`: a fit with its own report for each group of a table, and an index of them all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biasgp.cli.console import remark, say
from biasgp.messages import FailedFitError, WrongUseError

if TYPE_CHECKING:
    import pandas as pd

    from biasgp.analysis.fitting import Selection, Settings
    from biasgp.cli.fit import Output
    from biasgp.data.columns import Feature
    from biasgp.data.table import Table
    from biasgp.runner import Execution

GROUPS, PLOTLY, SETTINGS, LOCK = "groups", "plotly.min.js", "fleet.json", ".fleet.lock"
LATER = {"episodes": False, "more": (), "marks": True} | dict.fromkeys(
    ["events", "verdicts", "skip", "units", "sheet", "censored_column", "noise", "noise_column", "fill"]
)
"""Settings that came later than the first fleets, and what they are where they are off."""
SHOWN = 10
"""Groups that are named in the terminal."""


def fit_fleet(
    folder: Path, selection: Selection, settings: Settings, by: str, execution: Execution, output: Output
) -> None:
    """Fit every group into a folder of its own below `folder`, which a run that was stopped is resumed in."""
    import biasgp
    from biasgp.analysis.filling import needed_time
    from biasgp.analysis.flags import FlagScheme
    from biasgp.data.columns import choose
    from biasgp.fleet import COLUMNS, EPISODES, FleetGroup, GroupWork, run_groups
    from biasgp.runner import StoreError
    from biasgp.staging import lock, sweep

    try:
        execution.check()
    except ValueError as error:
        raise WrongUseError(f"--scheduler: {error}" if execution.scheduler is not None else str(error)) from error
    except ModuleNotFoundError as error:
        raise WrongUseError(f"--scheduler: {error}. A cluster needs more: pip install 'biasgp[study]'.") from error
    table = selection.table()
    column = table.column(by)
    groups = FleetGroup.all_in(column.cells.where(~column.missing))
    if not groups:
        raise WrongUseError(f"Column {by!r} names no group: all its cells are empty.")
    rest = replace(table, cells=table.cells.drop(columns=[by]))  # what names the groups is no input
    rest = selection.without_noise_column(rest)
    wanted = selection.feature_names(rest.columns)
    target, features, notes = choose(rest, selection.target, wanted, selection.flag_column)
    if table.column(target).kind in ("text", "empty"):
        raise WrongUseError(f"Column {target!r} holds no numbers. Choose another --target, or check --na.")
    if selection.where:
        table.rows_where(selection.where)  # a condition that is wrong is wrong for every group
    settings = settings.settled(features)
    settings.kernel_for(features)  # a kernel that is wrong is wrong for every group
    if settings.fill is not None:
        needed_time(features)
    services = _services(selection.events_table(), table, features, by, [group.name for group in groups])
    judged = _judged(selection.verdicts_table(), by, [group.name for group in groups])
    columns = [name for feature in features for name in feature.columns]
    # Other verdicts are other data of their groups, not another fleet.
    chosen = replace(selection, target=target, features=",".join(columns), verdicts=None)
    if not output.quiet:
        remark(*notes, f"{len(groups):,} groups by {by!r}.")

    formats = {name: form.noted() for name, form in table.formats([target, *columns]).items()}

    def payload(group: FleetGroup) -> tuple[Any, ...]:
        part = table.part(f"group {group.name!r}", group.rows, [target, *columns])
        place = str((folder / _place(group)).resolve())
        return part, chosen, settings, place, services.of(group.name), judged.get(group.name), output.flags

    def data(group: FleetGroup) -> list[pd.DataFrame]:
        own = services.by_group.get(group.name), judged.get(group.name)
        return [table.cells.iloc[group.rows], *(each.cells for each in own if each is not None)]

    read = [] if services.of_all is None else [services.of_all.cells.to_csv()]
    request = {"by": by, "selection": _said(chosen), "settings": _said(settings)}
    if output.flags != FlagScheme():
        request["flags"] = asdict(output.flags)
    said = json.dumps([*list(request.values())[1:], formats], sort_keys=True)
    work = GroupWork(
        function=_fit_group,
        payload=payload,
        settings=[biasgp.__version__, said, *read],
        data=data,
        file=lambda group: f"{_place(group)}/report.html",
        columns=(*COLUMNS, *([EPISODES] if settings.episodes else [])),
    )
    with lock(folder / LOCK, folder):
        _claim(folder, request, force=output.force)
        try:
            results = run_groups(groups, work, folder, execution)
        except StoreError as error:
            raise WrongUseError(str(error)) from error
        # A group that was given up can have been ended in the middle of writing.
        sweep(folder / GROUPS)
        _write(folder, results, selection.source, target, by)
    _tell(folder, results, output.quiet)


@dataclass(frozen=True)
class _Services:
    """When the sensors were serviced: the same for all groups, or each group's own."""

    of_all: Table | None = None
    by_group: dict[str, Table] = field(default_factory=dict)

    def of(self, group: str) -> Table | None:
        """Those of a group, if any are known."""
        return self.by_group.get(group, self.of_all)


def _services(events: Table | None, table: Table, features: Sequence[Feature], by: str, groups: list[str]) -> _Services:
    """Read once, since what cannot be read is wrong for every group."""
    from biasgp.analysis.order import EventTable

    if events is None:
        return _Services()
    if by not in events.columns:
        EventTable(events, table, features).values()
        # Without the columns that were read, which cannot be sent to a worker.
        return _Services(replace(events))
    found = EventTable(events, table, features).by_group(by, groups)
    remark(f"{events.name} has events of {len(found):,} of {len(groups):,} groups.")
    return _Services(by_group=found)


def _judged(verdicts: Table | None, by: str, groups: list[str]) -> dict[str, Table]:
    """Verdicts by the group that each is about; rows are those of the group's own table, as its report has them."""
    import numpy as np

    from biasgp.analysis.order import EventTable

    if verdicts is None:
        return {}
    every = np.ones(len(verdicts), dtype=bool)
    found = EventTable.rows_by_group(verdicts, by, groups, every, "a verdict")
    remark(f"{verdicts.name} has verdicts on {len(found):,} of {len(groups):,} groups.")
    rest = replace(verdicts, cells=verdicts.cells.drop(columns=[by]))
    return {name: rest.part(verdicts.name, rows, []) for name, rows in found.items()}


def _said(part: Selection | Settings) -> dict[str, Any]:
    """What was asked for, without what came with later versions and is off: a fleet begun before goes on."""
    return _without_off(asdict(part))


def _without_off(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in LATER or value not in (LATER[name], [])}


def _fit_group(task: tuple[Any, ...]) -> dict[str, Any]:
    """One group's fit, in a worker; returns what the index tells of it."""
    from biasgp.analysis.verdicts import with_verdicts
    from biasgp.cli.fit import Output, fit_into
    from biasgp.staging import ORPHANS_END, clear

    table, selection, settings, folder, events, judged, flags = task
    readings = selection.readings(table, events)
    if settings.knows_verdicts:
        readings = with_verdicts(readings, table, Path(folder), judged)
    # A worker of a run that was killed a moment ago may still be at it.
    clear(Path(folder), ORPHANS_END)
    output = Output(force=True, plotly=f"../../{PLOTLY}", quiet=True, flags=flags)
    outcome = fit_into(Path(folder), selection, settings, table, readings, output)
    return {
        "readings": int(readings.kept.sum()),
        "flagged": int(outcome.flagged.sum()),
        "episodes": len(outcome.fitted.estimator.episodes_) if settings.episodes else None,
        "noise_std": outcome.noise,
        "seconds": outcome.fitted.seconds,
        "trustworthy": not outcome.doubts,
        "message": " ".join(outcome.doubts),
    }


def _place(group: Any) -> str:
    return f"{GROUPS}/{group.slug}"


def _claim(folder: Path, configuration: dict[str, Any], *, force: bool) -> None:
    """Make the folder, or make sure that what is in it came of the same command; then the run is resumed."""
    from biasgp.cli.output import new_file
    from biasgp.report.pages import plotly_script

    text = json.dumps(configuration, indent=1, ensure_ascii=False, default=str)
    marker = folder / SETTINGS
    if any(path.name != LOCK for path in folder.iterdir()):
        if not marker.exists() and not force:
            raise WrongUseError(f"The folder {str(folder)!r} is there already. Choose another --out, or add --force.")
        before = _settings_in(marker)
        before = {key: _without_off(value) if isinstance(value, dict) else value for key, value in before.items()}
        different = [key for key in configuration if before.get(key) != json.loads(text)[key]]
        if different and not force:
            raise WrongUseError(
                f"{str(folder)!r} holds another fleet (its {' and '.join(different)} differ). Choose another --out, "
                f"or add --force.{_hint(configuration, before)}"
            )
        if different:
            shutil.rmtree(folder / GROUPS, ignore_errors=True)
    (folder / GROUPS).mkdir(parents=True, exist_ok=True)
    for path, content in ((marker, text), (folder / PLOTLY, plotly_script())):
        with new_file(path, force=True) as stage:
            stage.write_text(content, encoding="utf-8")


def _hint(configuration: dict[str, Any], before: dict[str, Any]) -> str:
    """How to go on with a fleet that differs in nothing but the search for episodes."""
    theirs, ours = before.get("settings"), configuration["settings"]
    if isinstance(theirs, dict) and "episodes" not in theirs and theirs | {"episodes": True} == ours:
        return " It was begun without a search for episodes: --no-episodes goes on with it."
    return ""


def _settings_in(marker: Path) -> dict[str, Any]:
    """What the fleet in a folder was asked for; nothing where its file is not one."""
    try:
        found = json.loads(marker.read_text(encoding="utf-8")) if marker.exists() else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(folder: Path, results: pd.DataFrame, source: str, target: str, by: str) -> None:
    """results.csv and index.html."""
    from biasgp.cli.output import new_file
    from biasgp.data.columns import unit_of
    from biasgp.report.fleet_page import fleet_page
    from biasgp.report.inert import inert

    rows = results.astype(object).where(results.notna(), None).to_dict("records")
    page = fleet_page(f"{target} by {by}", f"{len(rows)} groups of {source}", unit_of(target), rows)
    with new_file(folder / "results.csv", force=True) as stage:
        inert(results).to_csv(stage, index=False)
    with new_file(folder / "index.html", force=True) as stage:
        stage.write_text(page, encoding="utf-8")


def _tell(folder: Path, results: pd.DataFrame, quiet: bool) -> None:
    ok = results["status"] == "ok"
    if not ok.any():
        raise FailedFitError("No group could be fitted.")
    if quiet:
        return
    say(
        f"{ok.sum():,} of {len(results):,} groups fitted, {int(results['flagged'].fillna(0).sum()):,} readings flagged."
    )
    doubtful = results.loc[ok & (results["trustworthy"] == False), "group"]  # noqa: E712  (may be missing)
    if len(doubtful):
        shown = ", ".join(doubtful.head(SHOWN)) + (" and more" if len(doubtful) > SHOWN else "")
        say(f"Look at these before you trust them: {shown}.", style="yellow")
    bad = results.loc[~ok].head(SHOWN).itertuples()
    say(*(f"{row.group}: {row.status}: {row.message}" for row in bad), style="yellow")
    say(f"The index is {folder / 'index.html'}", style="bold")
