"""A small table as a data logger writes it, and the command."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from biasgp.cli.commands import app

N, OUTLIERS = 80, (11, 30, 31, 62)


def logged(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    hours = np.arange(n)
    truth = 20.0 + 4.0 * np.sin(hours / 9.0)
    y = truth + 0.3 * rng.standard_normal(n)
    y[[i for i in OUTLIERS if i < n]] += 12.0
    return pd.DataFrame(
        {
            "time": (pd.Timestamp("2026-03-01") + pd.to_timedelta(hours, unit="h")).strftime("%Y-%m-%dT%H:%M"),
            "temperature_c": np.round(10.0 + rng.standard_normal(n), 2),
            "note": "",
            "no_flag": np.where(np.isin(hours, OUTLIERS), "#", ""),
            "no_ppb": np.round(y, 3),
        }
    )


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object, stdin: str | None = None):
        return CliRunner().invoke(app, [str(word) for word in words], input=stdin, catch_exceptions=False)

    return run


@pytest.fixture
def readings(tmp_path):
    path = tmp_path / "readings.csv"
    logged().to_csv(path, index=False)
    return path


FEATURES = ("--features", "time,temperature_c")


@pytest.fixture(scope="session")
def done(tmp_path_factory):
    """One fit that many tests look at: its folder and what was printed."""
    folder = tmp_path_factory.mktemp("done")
    logged().to_csv(folder / "readings.csv", index=False)
    words = ["fit", str(folder / "readings.csv"), "--target", "no_ppb", *FEATURES, "--flag-column", "no_flag"]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(
        app, [*words, "--out", str(folder / "out")], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return folder / "out", result.output
