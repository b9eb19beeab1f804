"""`biasgp fit` where several transforms of the target may be the best: what is averaged, and what is said of it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import biasgp
from biasgp.analysis import choosing
from biasgp.cli.commands import app
from biasgp.models.transform_choice import Weighted
from biasgp.response import Log, YeoJohnson

SAID = "Predictions are averaged over transforms of no_ppb, as probable as each is to predict best: power 0.60, "
SAID += "logarithm 0.40; the mean given here is the median of the truth"


def between_two(response, X, y, kernel, names, measured):
    assert response == "auto"
    return Weighted(YeoJohnson.of(y), 0.6), Weighted(Log.of(y), 0.4)


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    """A fit by default options between two transforms: folder, output and the table."""
    folder, rng = tmp_path_factory.mktemp("averaged"), np.random.default_rng(0)
    hours = np.arange(72)
    y = np.exp(1.0 + 0.5 * np.sin(hours / 9.0) + 0.15 * rng.standard_normal(72))
    y[[10, 40]] *= 6.0
    stamps = pd.Timestamp("2026-03-02") + pd.to_timedelta(hours, unit="h")
    table = pd.DataFrame({"time": stamps.strftime("%Y-%m-%dT%H:%M"), "no_ppb": np.round(y, 3)})
    table.to_csv(folder / "t.csv", index=False)
    words = ["fit", str(folder / "t.csv"), "--no-episodes", "--out", str(folder / "o"), "--verbose"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "choose_transforms", between_two)
        result = CliRunner(env={"COLUMNS": "200"}).invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder / "o", result.output, table


def test_the_average_is_told_in_plain_words(averaged):
    folder, output, _ = averaged
    assert SAID in output and SAID in (folder / "report.html").read_text(encoding="utf-8")
    assert "Transform of the target: yeo-johnson 0.60 (YeoJohnson(" in output and "; log 0.40 (Log(" in output
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["response"] == "yeo-johnson"
    assert summary["response_weights"] == pytest.approx({"yeo-johnson": 0.6, "log": 0.4})
    assert {10 + 1, 40 + 1} <= {reading["row"] for reading in summary["flagged"]}


def test_the_model_file_predicts_what_the_table_says(averaged, run, tmp_path):
    folder, _, table = averaged
    model = biasgp.load(folder / "model.skops")
    assert model.response == "auto" and model.response_weights_ == pytest.approx({"yeo-johnson": 0.6, "log": 0.4})
    table[["time"]].to_csv(tmp_path / "new.csv", index=False)
    assert run("predict", folder / "model.skops", "new.csv", "--out", "p.csv").exit_code == 0
    found, cleaned = pd.read_csv(tmp_path / "p.csv"), pd.read_csv(folder / "cleaned.csv")
    assert_allclose(found["mean"], cleaned["mean"], rtol=1e-6)
    assert_allclose(found["std"], cleaned["std"], rtol=1e-6)


def test_a_notebook_names_the_transforms_and_their_weights(averaged):
    model = biasgp.load(averaged[0] / "model.skops")
    assert "Averaged over response transforms: yeo-johnson 0.60, log 0.40" in model._repr_html_()
