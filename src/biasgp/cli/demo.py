"""`biasgp demo`: the built-in simulated campaign, fitted as a user's table would be."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biasgp.cli.console import say, working
from biasgp.cli.options import Force, Seed, of_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from biasgp.analysis.judging import Analysis
    from biasgp.data import Gas

EXAMPLE = "Example:  biasgp demo --gas no --out demo"
FOUND_SHARE = 0.8
"""Of a fault's readings, flagged, from which it counts as found."""
FAULT_WORDS = {"stuck": "stuck", "ramp": "drift until a service", "shift": "shift"}
TABLE, SERVICES = "campaign.csv", "services.csv"


def demo(
    gas: Annotated[
        str,
        typer.Option(
            help="no2 (a stuck stretch, a drift, a shift and spikes), no (five spikes) or o3 (45 readings in runs).",
            metavar="no2|no|o3",
        ),
    ] = "no2",
    out: Annotated[Path, of_output(help="Folder for the results.")] = Path("demo"),
    force: Force = False,
    seed: Seed = 0,
) -> None:
    """Fit the built-in campaign: months of a simulated sensor, with the truth known."""
    from biasgp.analysis.fitting import Selection, Settings
    from biasgp.cli.fit import Output, fit_into, tell
    from biasgp.cli.output import new_file
    from biasgp.data import campaign
    from biasgp.data.table import Table
    from biasgp.messages import WrongUseError

    if gas not in ("no2", "no", "o3"):
        raise WrongUseError(f"There is no gas {gas!r} in the campaign: no2, no or o3.")
    began = time.perf_counter()
    with working("Simulating"):
        data = campaign(random_state=seed)
        truth: Gas = getattr(data, gas)
        table = Table("the simulated campaign", data.table())
        # Zero air is no bias that lasts: what is read there has nothing to do with the weather.
        lasting = bool(truth.faults)
        services = Table(SERVICES, truth.log_book()) if lasting else None
    features = "time,temperature_c,humidity_pct"
    selection = Selection(TABLE, f"{gas}_ppb", features, flag_column=f"{gas}_flag")
    if lasting:
        # The half of the campaign that has the faults: enough to see them, and quick.
        until = table.cells["time"][len(table) // 2]
        selection = replace(selection, where=f'time < "{until}"', events=SERVICES)
    readings = selection.readings(table, services)
    outcome = fit_into(
        out, selection, Settings(kernel="matern32", seed=seed, episodes=lasting), table, readings, Output(force)
    )
    # What the command in the report does again.
    for name, each in ((TABLE, table), (SERVICES, services)):
        if each is not None:
            with new_file(out / name, force=True) as stage:
                each.cells.to_csv(stage, index=False)
    tell(outcome, out, time.perf_counter() - began)
    found = outcome.agreement
    say(f"Against the simulated truth: precision {found['precision']:.2f}, recall {found['recall']:.2f}.", style="bold")
    say(*(f"  {line}" for line in _against_faults(outcome, truth)))
    say(f"The table is {out / TABLE}" + (f", the services are in {out / SERVICES}." if lasting else "."))


def _against_faults(outcome: Analysis, truth: Gas) -> Iterator[str]:
    """For each simulated fault, whether it was found, and as what."""
    import numpy as np

    for fault in truth.faults:
        rows = np.arange(fault.first, fault.stop)
        flagged = int(outcome.flagged[rows].sum())
        own = ((each.kind, outcome.fitted.fit_rows[list(each.rows)]) for each in outcome.episodes)
        kinds = [kind for kind, where in own if np.isin(where, rows).any()]
        verdict = "found" if flagged >= FOUND_SHARE * len(rows) else "missed"
        told = f" as {' and '.join(dict.fromkeys(kinds))}" if verdict == "found" and kinds else ""
        (start,) = outcome.axis.places(rows[:1])
        what = f"{FAULT_WORDS[fault.kind]}, {len(rows)} readings from {start}"
        yield f"{what}: {verdict}{told}, {flagged} of them flagged."
