"""`biasgp demo`: the campaign, its faults in words, and the verdict against the truth."""

from __future__ import annotations

import contextlib
import importlib
import json
import shlex
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from biasgp import SparseBiasGP
from biasgp.analysis.places import Axis
from biasgp.cli.demo import _against_faults
from biasgp.data import campaign
from biasgp.models.episodes import Episode


def test_the_demo_is_the_campaign_with_the_truth_flagged():
    table = campaign().table()
    assert len(table) == 1400
    assert [(table[f"{gas}_flag"] == "#").sum() for gas in ("no", "o3", "no2")] == [5, 45, 120]


@pytest.fixture
def short_campaign(monkeypatch):
    """Three weeks with faults, so that a fit takes seconds."""
    module = importlib.import_module("biasgp.data.campaign")  # its name in biasgp.data is that of the function
    monkeypatch.setattr(module, "N_RECORDS", 600)
    monkeypatch.setattr(module, "HOURS", 40 * 24)


def test_the_demo_tells_episodes_in_words_and_against_the_truth(run, tmp_path, short_campaign):
    truth = campaign().no2
    result = run("demo", "--out", "d")
    assert result.exit_code == 0, result.output
    assert f"stuck at {truth.y[truth.faults[0].first]:g} ppb for " in result.stdout
    assert "Against the simulated truth: precision " in result.stdout and "recall " in result.stdout
    assert result.stdout.count(" readings from 2026-06-") == 3, "a verdict for each fault"
    assert "stuck, 25 readings from " in result.stdout and ": found as stuck, 25 of them flagged." in result.stdout
    assert "Episodes: " in (tmp_path / "d" / "report.html").read_text(encoding="utf-8")


def test_the_command_that_the_demo_tells_fits_the_same_again(run, tmp_path, short_campaign, monkeypatch):
    fits = []

    class Stop(Exception):
        pass

    def fit(self, X, y, *, events):
        fits.append((X, y, np.asarray(events), self.get_params()))
        if len(fits) > 1:
            raise Stop
        return real(self.set_params(order=None), X, y)

    real = SparseBiasGP.fit
    monkeypatch.setattr(SparseBiasGP, "fit", fit)
    assert run("demo", "--out", "d").exit_code == 0
    command = json.loads((tmp_path / "d" / "summary.json").read_text(encoding="utf-8"))["command"]
    monkeypatch.setenv("BIASGP_DEBUG", "1")
    with contextlib.chdir(tmp_path / "d"), pytest.raises(Stop):
        run(*shlex.split(command)[1:], "--out", "again")
    (X, y, events, _), (X_again, y_again, events_again, _) = fits
    pd.testing.assert_frame_equal(X, X_again)
    np.testing.assert_array_equal(y, y_again)
    np.testing.assert_array_equal(events, events_again)
    assert [each[-1]["order"] for each in fits] == [0, 0] and len(events) == 3


def test_the_demo_says_which_faults_were_missed(short_campaign):
    data = campaign()
    stuck, ramp, shift = data.no2.faults
    flagged = np.zeros(len(data.X), dtype=bool)
    flagged[stuck.first : stuck.stop] = flagged[ramp.first + 5 : ramp.stop] = flagged[shift.first : shift.first + 9] = (
        True
    )
    found = (Episode("stuck", tuple(range(stuck.first, stuck.stop)), 9.0), Episode("shift", (ramp.stop - 1,), 9.0))
    axis = Axis("hour", False, data.X[:, 0])
    fitted = SimpleNamespace(fit_rows=np.arange(len(data.X)))
    outcome = SimpleNamespace(axis=axis, flagged=flagged, episodes=found, fitted=fitted)
    told = list(_against_faults(outcome, data.no2))
    assert [line.split(": ")[1] for line in told] == [
        "found as stuck, 25 of them flagged.",
        "found as shift, 55 of them flagged.",
        "missed, 9 of them flagged.",
    ]


def test_the_demo_refuses_an_unknown_gas(run):
    assert run("demo", "--gas", "xenon").exit_code == 2
