"""What the whole suite shares: reproducible property tests, and small data sets."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from biasgp.data import Simulation, simulate

settings.register_profile(
    "biasgp", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("biasgp")


@pytest.fixture(scope="session")
def one_d() -> Simulation:
    """The paper's function of one input, a tenth of the 60 readings too high."""
    return simulate("1d", 1, n=60, n_test=40, random_state=1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: tests that wait for browsers and other processes leave some idle."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return (3 * cores + 1) // 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say it at the very end, in a line of its own, when pages were not looked at in a browser."""
    yield
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]
    missing = [reason.partition("browser test: ")[2] for reason in reasons if "browser test: " in reason]
    if missing:
        terminalreporter.section("browser tests")
        told = f"Browser tests skipped: {len(missing)}, since there is {missing[0]}. Install Chromium to run them."
        terminalreporter.line(told)
