"""What the results say, and the page that says it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from biasgp import study
from biasgp.cli.study import app
from biasgp.report.study_page import write_page
from biasgp.study import tables
from biasgp.study.peers import PEERS, register_peers
from biasgp.study.results import TASKS


def made_up(scores, status="ok"):
    """Rows of two scenarios, from {method: MSE of each replicate}."""
    return [
        {"dataset": "friedman", "kernel": "ard", "scenario": scenario, "replicate": replicate, "method": method}
        | {"mse": value, "nlpd": value, "fit_s": value, "coverage95": 0.95, "status": status, "message": ""}
        for scenario in (1, 2)
        for method, values in scores.items()
        for replicate, value in enumerate(values)
    ]


def test_ranking_is_paired_and_has_an_interval():
    rng = np.random.default_rng(0)
    level = rng.uniform(1.0, 100.0, 15)
    found = tables.Ranking.of(made_up({"b": level + 0.2, "a": level, "c": level + 0.1}))
    assert [(rank.method, rank.rank) for rank in found.ranks] == [("a", 1.0), ("c", 2.0), ("b", 3.0)]
    assert all(rank.low == rank.high == rank.rank for rank in found.ranks)
    assert found.blocks == 30
    # Nemenyi's q for three methods at 5 % is 2.343.
    assert found.critical == pytest.approx(2.343 * np.sqrt(3 * 4 / (6 * 30)), rel=1e-3)


def test_a_failure_is_the_worst_rank():
    rows = made_up({"a": [1.0, 1.0], "b": [2.0, 2.0]})
    rows[0]["status"] = "failed"
    assert tables.Ranking.of(rows).ranks[0].rank == pytest.approx((2 + 1 + 1 + 1) / 4)


def test_ratio_has_an_interval_around_it():
    rng = np.random.default_rng(1)
    noise = rng.uniform(0.9, 1.1, 30)
    middle, low, high = tables.ratio(made_up({"a": 2.0 * noise, "b": np.ones(30)}), "a", "b")
    assert low < middle < high
    assert low < 2.0 < high


def test_claims_are_confirmed_and_denied_by_the_figures():
    best = {line[0][:10]: line for line in tables.claims(made_up({"cob": [1.0] * 3, "rab": [20.0] * 3})).lines}
    assert best["COB has th"][1] == "confirmed"
    assert "lowest in 2 of 2" in best["COB has th"][2]
    assert best["COB is fas"][1] == "confirmed"
    worse = tables.claims(made_up({"cob": [2.0] * 3, "rab": [1.0] * 3, "ep": [1.0] * 3}))
    assert [verdict for _, verdict, _ in worse.lines] == ["denied", "denied", "denied", "denied"]


@pytest.fixture
def small(tmp_path, median):
    options = {"n": 30, "n_test": 20, "scenarios": [1, 4], "replicates": 2}
    design = study.SimulatedDesign(methods=["gp", "oracle", "cob", "ep", median], **options)
    return study.simulated(tmp_path / "study", design, study.Execution(progress=False))


def test_the_page_comes_from_the_folder_alone_and_needs_no_network(small):
    (small.folder / TASKS).unlink()
    page = write_page(study.load(small.folder))
    text = page.read_text()
    assert not re.search(r"""(src|href)=["'](?!data:)""", text)
    assert "<script" not in text
    for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10):
        assert (small.folder / "figures" / f"figure{number:02d}.png").stat().st_size > 5000
        ElementTree.parse(small.folder / "figures" / f"figure{number:02d}.svg")
        assert f"Figure {number}:" in (small.folder / "figures" / f"figure{number:02d}.svg").read_text()
    assert "0.4209" in text  # the paper's Table 1
    assert "Nemenyi" in text


def test_the_command_runs_reports_and_refuses(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from sklearn.linear_model import BayesianRidge\n"
        "from biasgp import study\n"
        "def make(setting):\n    return BayesianRidge()\n"
        "study.register('ridge', make)\n"
    )
    runner, out = CliRunner(), str(tmp_path / "study")
    options = ["simulated", "--dataset", "friedman", "--scenarios", "1", "--replicates", "2", "--out", out]
    options += ["--register", str(plugin), "--methods", "ridge", "--jobs", "2", "--no-report"]
    result = runner.invoke(app, options)
    assert result.exit_code == 0, result.output
    assert "2 rows, 0 not ok" in result.output
    result = runner.invoke(app, ["report", out])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "study" / "report.html").exists()
    result = runner.invoke(app, [*options, "--seed", "3"])
    assert result.exit_code == 2
    assert "seed: 0 there, 3 here" in result.output
    assert runner.invoke(app, ["report", str(tmp_path)]).exit_code == 2
    wrong = runner.invoke(app, ["simulated", "--methods", "copp", "--out", str(tmp_path / "other")])
    assert wrong.exit_code == 2
    assert "no method 'copp'" in wrong.output


def test_the_sensor_page_has_table_2_and_its_figures(tmp_path, median):
    design = study.SensorDesign(methods=["cob", median], replicates=1, every=20)
    results = study.sensor(tmp_path, design, study.Execution(progress=False))
    text = write_page(results).read_text()
    assert "Table 2" in text
    assert "13.193" in text  # the paper's NLPD of COB, O₃ 10 %
    for number in (11, 12, 13):
        assert (tmp_path / "figures" / f"figure{number}.svg").exists()


def test_peers_that_are_not_installed_are_left_out_with_a_note(registered, tmp_path, tiny, monkeypatch):
    monkeypatch.setattr("biasgp.study.peers.find_spec", lambda package: package == "sklearn" or None)
    assert register_peers() == [
        "itgp is left out: robustgp is not installed.",
        "rrp is left out: botorch is not installed.",
        "gpboost-t is left out: gpboost is not installed.",
    ]
    assert set(PEERS) == {"sklearn", "itgp", "rrp", "gpboost-t"}
    design = study.SimulatedDesign(methods=["sklearn"], kernels=["ard", "iso"], **tiny | {"replicates": 1})
    results = study.simulated(tmp_path, design, study.Execution(progress=False))
    assert {row["status"] for row in results.rows} == {"ok"}
