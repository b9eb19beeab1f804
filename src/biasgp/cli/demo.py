"""`biasgp demo`: the built-in simulated campaign, fitted as a user's table would be."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from biasgp.cli.console import say, working
from biasgp.cli.options import Force, Seed, of_output

EXAMPLE = "Example:  biasgp demo --gas no --out demo"
START = "2026-06-01T00:00:00"


def demo(
    gas: Annotated[str, typer.Option(help="no (five spikes) or o3 (45 readings in runs).", metavar="no|o3")] = "o3",
    out: Annotated[Path, of_output(help="Folder for the results.")] = Path("demo"),
    force: Force = False,
    seed: Seed = 0,
) -> None:
    """Fit the built-in campaign: three months of a simulated sensor, with the truth known."""
    from biasgp.analysis.fitting import Selection, Settings
    from biasgp.cli.fit import Output, fit_into, tell
    from biasgp.data.table import Table
    from biasgp.messages import WrongUseError

    if gas not in ("no", "o3"):
        raise WrongUseError(f"There is no gas {gas!r} in the campaign: no or o3.")
    began = time.perf_counter()
    with working("Simulating"):
        table = Table("the simulated campaign", campaign_table(seed))
    features = "time,temperature_c,humidity_pct"
    selection = Selection("campaign.csv", f"{gas}_ppb", features, flag_column=f"{gas}_flag")
    outcome = fit_into(out, selection, Settings(seed=seed), table, selection.readings(table), Output(force))
    tell(outcome, out, time.perf_counter() - began)
    found = outcome.agreement
    say(f"Against the simulated truth: precision {found['precision']:.2f}, recall {found['recall']:.2f}.")


def campaign_table(seed: int = 0) -> Any:
    """The campaign as a data logger would have written it, with the true outliers flagged."""
    import numpy as np
    import pandas as pd

    from biasgp.data import campaign

    data = campaign(random_state=seed)
    times = pd.Timestamp(START) + pd.to_timedelta(data.X[:, 0], unit="h")
    columns: dict[str, Any] = {
        "time": times.strftime("%Y-%m-%dT%H:%M:%S"),
        "temperature_c": np.round(data.X[:, 1], 3),
        "humidity_pct": np.round(data.X[:, 2], 3),
    }
    for name, gas in (("no", data.no), ("o3", data.o3)):
        columns[f"{name}_ppb"] = np.round(gas.y, 4)
        columns[f"{name}_flag"] = np.where(gas.is_outlier, "#", "")
    return pd.DataFrame(columns)
