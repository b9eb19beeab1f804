"""What is left of a fit, from what was measured of it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from biasgp import GaussianGP, ScaleMixtureGP, SparseBiasGP, StudentTGP, watch
from biasgp.cli.progress import LONG, QUICK, _Teller
from biasgp.covariance.dense import FACTORISATIONS
from biasgp.covariance.vecchia_posterior import PREDICTIONS
from biasgp.runner.progress import SECONDS_BETWEEN_LINES
from biasgp.watch import Ledger, Watch, stage


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_what_is_left_is_work_ahead_at_the_measured_rate(clock):
    ledger = Ledger(clock=clock)
    ledger.expect("terms", 100.0)
    assert ledger.left == 0.0 and not ledger.measured
    clock.now = 2.0
    ledger.did("terms", 10.0, 0)
    assert ledger.left == pytest.approx(90 * 0.2) and ledger.measured


def test_the_rate_follows_the_latest_measurements(clock):
    ledger = Ledger(clock=clock)
    ledger.expect("terms", 1000.0)
    for seconds in [1.0] * 5 + [10.0] * 60:
        clock.now += seconds
        ledger.did("terms", 1.0, 0)
    assert ledger.left == pytest.approx(935 * 10.0, rel=0.02)


def test_work_of_different_sizes_is_measured_apart_and_the_settled_size_counts(clock):
    ledger = Ledger(clock=clock)
    ledger.expect("predictions", 1000.0)
    for size, seconds in ((20, 1.0), (160, 50.0)):
        clock.now += seconds
        ledger.did("predictions", 100.0, size)
    assert not ledger.measured
    ledger.settle("predictions", 160)
    assert ledger.measured and ledger.left == pytest.approx(800 * 0.5)


def test_work_that_nobody_foresaw_takes_no_time_from_what_was(clock):
    ledger = Ledger(clock=clock)
    ledger.expect("iterations", 10.0)
    clock.now = 4.0
    ledger.did("factorisations", 5.0, 0)
    clock.now = 6.0
    ledger.did("iterations", 1.0, 0)
    assert ledger.left == pytest.approx(9 * 6.0)
    ledger.expect("iterations", 0.0)
    assert ledger.left == 0.0


def test_a_ledger_goes_on_inside_another_watch(clock):
    ledger = Ledger(clock=clock)
    with Watch(ledger=ledger), Watch(deadline=10.0):
        watch.ledger().expect("terms", 2.0)
        clock.now = 3.0
        watch.ledger().did("terms", 1.0)
        stage("all readings")
    assert ledger.left == pytest.approx(3.0) and ledger.stage == "all readings"


def told(clock, times, total, seconds_each):
    """What is printed of `total` pieces of work, each of so many seconds, when heard of at the given times."""
    text = io.StringIO()
    teller = _Teller("Fitting", "Use less.", Console(file=text, width=200), clock=clock)
    ledger = Ledger(teller.hear, clock=clock)
    ledger.expect("work", total)
    for _ in range(times):
        clock.now += seconds_each
        ledger.did("work", 1.0, 0)
    return text.getvalue().splitlines()


def test_nothing_is_said_of_a_quick_fit(clock):
    assert told(clock, 4, 4, QUICK / 5.0) == []
    assert told(clock, 100, 100, (SECONDS_BETWEEN_LINES - 1.0) / 100.0) == []


def test_a_long_fit_says_what_is_left_now_and_then_and_once_what_helps(clock):
    lines = told(clock, 60, 100, 6.0)
    assert lines[0] == "This takes about 10 min more. Use less."
    assert lines[1] == "Fitting: about 10 min left"
    assert sum("Use less" in line for line in lines) == 1
    assert 360.0 / SECONDS_BETWEEN_LINES / 2.0 <= len(lines) - 1 <= 360.0 / SECONDS_BETWEEN_LINES


def test_the_advice_waits_until_it_is_due(clock):
    assert not any("Use less" in line for line in told(clock, 10, 10, 0.9 * LONG / 10.0))


class Record(Ledger):
    """Keeps what was reported."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, float, float]] = []

    def did(self, kind: str, units: float, size: int = 0) -> None:
        super().did(kind, units, size)
        if self.expects(kind):
            self.seen.append((kind, units, self._ahead[kind]))


@pytest.mark.parametrize("kind", [GaussianGP, StudentTGP])
@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
def test_an_exact_fit_is_foreseen_and_ends_with_nothing_ahead(kind, one_d):
    ledger = Record()
    with Watch(ledger=ledger):
        kind().fit(one_d.X, one_d.y)
    assert {entry[0] for entry in ledger.seen} == {FACTORISATIONS}
    assert ledger.left == 0.0


@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
def test_sampling_counts_its_iterations(one_d):
    ledger = Record()
    with Watch(ledger=ledger):
        ScaleMixtureGP(draws=5, tune=4, chains=1).fit(one_d.X, one_d.y)
    assert [(kind, ahead) for kind, _, ahead in ledger.seen] == [("iterations", 8.0 - i) for i in range(9)]
    assert ledger.left == 0.0 and ledger.stage == "sampling"


@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
def test_the_cost_of_predictions_from_neighbours_is_known_before_the_search_for_parameters(rng):
    X = np.sort(rng.uniform(size=(1600, 1)), axis=0)
    y = np.sin(6.0 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))
    ledger = Record()
    with Watch(ledger=ledger):
        watch.ledger().expect(PREDICTIONS, 2.0 * len(X))
        SparseBiasGP().fit(X, y)
        kinds = [entry[0] for entry in ledger.seen]
        assert set(kinds) == {"passes", "terms", PREDICTIONS}
        assert kinds.index(PREDICTIONS) < kinds.index("terms")
        assert ledger.measured and ledger.left > 0.0
