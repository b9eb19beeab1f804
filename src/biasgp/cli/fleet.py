"""`biasgp fit --by COLUMN`: a fit with its own report for each group of a table, and an index of them all."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biasgp.cli.console import FailedFitError, WrongUseError, remark, say
from biasgp.cli.options import Selection, split_names

if TYPE_CHECKING:
    import pandas as pd

    from biasgp.cli.analysis import Settings
    from biasgp.data.table import Table

COLUMNS = ("readings", "flagged", "noise_std", "seconds", "trustworthy")
GROUPS, PLOTLY, SETTINGS = "groups", "plotly.min.js", "fleet.json"


def fit_fleet(
    folder: Path,
    selection: Selection,
    settings: Settings,
    by: str,
    *,
    jobs: int,
    scheduler: str | None,
    timeout: float | None,
    force: bool,
) -> None:
    """Fit every group into a folder of its own below `folder`, which a run that was stopped is resumed in."""
    import biasgp
    from biasgp.cli.output import inert
    from biasgp.data.columns import choose
    from biasgp.data.table import read_table
    from biasgp.fleet import Group, results_table, run_groups, split
    from biasgp.runner import StoreError

    table = read_table(selection.source, sep=selection.sep, encoding=selection.encoding, na=selection.na)
    column = table.column(by)
    names = column.where(~table.missing(by))
    groups = split(names)
    if not groups:
        raise WrongUseError(f"Column {by!r} names no group: all its cells are empty.")
    wanted = split_names(selection.features, [name for name in table.columns if name != by])
    target, features, notes = choose(_without(table, by), selection.target, wanted, selection.flag_column)
    columns = [name for feature in features for name in feature.columns]
    chosen = Selection(**{**asdict(selection), "target": target, "features": ",".join(columns)})
    remark(*notes, f"{len(groups):,} groups by {by!r}.")
    _claim(folder, {"by": by, "selection": asdict(chosen), "settings": asdict(settings)}, force=force)

    def payload(group: Group) -> tuple[Any, ...]:
        cells = table.cells.iloc[group.rows].reset_index(drop=True)
        return group.name, cells, table.na, table.sep, chosen, settings, str((folder / _place(group)).resolve())

    try:
        outcomes = run_groups(
            groups,
            payload,
            fit_group,
            folder,
            [biasgp.__version__, json.dumps([asdict(chosen), asdict(settings)], sort_keys=True)],
            lambda group: table.cells.iloc[group.rows],
            lambda group: folder / _place(group) / "report.html",
            jobs=jobs,
            scheduler=scheduler,
            timeout=timeout,
        )
    except StoreError as error:
        raise WrongUseError(str(error)) from error
    results = results_table(outcomes, COLUMNS, lambda group: f"{_place(group)}/report.html")
    _write(folder, results, inert, selection.source, target, by)
    _tell(folder, results)


def fit_group(task: tuple[Any, ...]) -> dict[str, Any]:
    """One group's fit, in a worker; returns what the index tells of it."""
    from biasgp.cli.fit import fit_into
    from biasgp.data.columns import read_readings
    from biasgp.data.table import Table

    name, cells, na, sep, selection, settings, folder = task
    table = Table(f"group {name!r}", cells, na, sep)
    readings = read_readings(
        table,
        selection.target,
        split_names(selection.features, table.columns),
        where=selection.where,
        flag_column=selection.flag_column,
    )
    outcome = fit_into(
        Path(folder), selection, settings, table, readings, force=True, plotly=f"../../{PLOTLY}", quiet=True
    )
    return {
        "readings": int(readings.kept.sum()),
        "flagged": int(outcome.flagged.sum()),
        "noise_std": outcome.noise,
        "seconds": outcome.fitted.seconds,
        "trustworthy": not outcome.doubts,
        "message": " ".join(outcome.doubts),
    }


def _without(table: Table, by: str) -> Table:
    """The table without the column that names the groups, which is no input."""
    from dataclasses import replace

    return replace(table, cells=table.cells.drop(columns=[by]))


def _place(group: Any) -> str:
    return f"{GROUPS}/{group.slug}"


def _claim(folder: Path, configuration: dict[str, Any], *, force: bool) -> None:
    """Make the folder, or make sure that what is in it came of the same command; then the run is resumed."""
    from biasgp.cli.output import write_whole
    from biasgp.report.fit_page import plotly_script

    text = json.dumps(configuration, indent=1, ensure_ascii=False, default=str)
    marker = folder / SETTINGS
    if folder.exists() and any(folder.iterdir()):
        if not marker.exists() and not force:
            raise WrongUseError(f"The folder {str(folder)!r} is there already. Choose another --out, or add --force.")
        before = json.loads(marker.read_text(encoding="utf-8")) if marker.exists() else {}
        different = [key for key in configuration if before.get(key) != json.loads(text)[key]]
        if different and not force:
            raise WrongUseError(
                f"{str(folder)!r} holds another fleet (its {' and '.join(different)} differ). Choose another --out, "
                "or add --force."
            )
        if different and force:
            shutil.rmtree(folder / GROUPS, ignore_errors=True)
    (folder / GROUPS).mkdir(parents=True, exist_ok=True)
    write_whole(marker, lambda stage: _text(stage, text), force=True)
    write_whole(folder / PLOTLY, lambda stage: _text(stage, plotly_script()), force=True)


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write(folder: Path, results: pd.DataFrame, inert: Any, source: str, target: str, by: str) -> None:
    """results.csv and index.html."""
    import pandas as pd

    from biasgp.cli.output import write_whole
    from biasgp.data.columns import unit_of
    from biasgp.report.fleet_page import FleetRow, fleet_page

    def known(value: Any) -> Any:
        return None if pd.isna(value) else value

    rows = [
        FleetRow(
            group=str(row["group"]),
            status=str(row["status"]),
            page=str(row["file"]),
            message=str(row["message"]),
            **{name: known(row[name]) for name in COLUMNS},
        )
        for row in results.to_dict("records")
    ]
    page = fleet_page(f"{target} by {by}", f"{len(rows)} groups of {source}", unit_of(target), rows)
    write_whole(folder / "results.csv", lambda stage: inert(results).to_csv(stage, index=False), force=True)
    write_whole(folder / "index.html", lambda stage: _text(stage, page), force=True)


def _tell(folder: Path, results: pd.DataFrame) -> None:
    ok = results["status"] == "ok"
    say(
        f"{ok.sum():,} of {len(results):,} groups fitted, {int(results['flagged'].fillna(0).sum()):,} readings flagged."
    )
    doubtful = results.loc[ok & (results["trustworthy"] == False), "group"]  # noqa: E712  (may be missing)
    if len(doubtful):
        shown = ", ".join(doubtful.head(10)) + (" and more" if len(doubtful) > 10 else "")
        say(f"Look at these before you trust them: {shown}.", style="yellow")
    for row in results.loc[~ok].head(10).itertuples():
        say(f"{row.group}: {row.status}: {row.message}", style="yellow")
    say(f"The index is {folder / 'index.html'}", style="bold")
    if not ok.any():
        raise FailedFitError("No group could be fitted.")
