"""One model on a cluster: the same result (but for the order of BLAS threads), and nothing lost with a worker."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from concurrent.futures import CancelledError

import dask
import distributed
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from biasgp import GaussianGP
from biasgp.covariance import cluster
from biasgp.covariance.cluster import ATTEMPTS, on_cluster
from biasgp.covariance.vecchia import Vecchia
from biasgp.kernels import Matern32
from biasgp.messages import CovarianceError


@pytest.fixture(scope="module")
def client():
    with (
        # How long Dask tries to reach a worker that is dead: half a minute otherwise.
        dask.config.set({"distributed.comm.timeouts.connect": "5s"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", processes=True) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(5000, 2))
    return X, np.sin(7.0 * X[:, 0]) + 0.1 * rng.standard_normal(5000)


def test_the_same_as_alone(client, table):
    X, y = table
    alone = GaussianGP(Matern32(), neighbors=8).fit(X, y)
    together = GaussianGP(Matern32(), neighbors=8).fit(X, y, client=client)
    assert_allclose(together.kernel_.theta, alone.kernel_.theta, rtol=1e-8)
    assert_allclose(together.noise_variance_, alone.noise_variance_, rtol=1e-8)
    assert_allclose(together.predict(X[:50]), alone.predict(X[:50]), rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_costs_time_only(client, table):
    X, y = table
    kernel, noise = Matern32().bind(X), np.full(len(y), 0.01)
    spread = Vecchia(kernel, X, 8, make_pool=on_cluster(client))
    assert spread.blocks.pool.client is client
    expected = Vecchia(kernel, X, 8).covariance(kernel, noise).negative_log_density(y)
    assert_allclose(spread.covariance(kernel, noise).negative_log_density(y)[0], expected[0], rtol=1e-10)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    again = spread.covariance(kernel, noise).negative_log_density(y)
    assert_allclose(again[0], expected[0], rtol=1e-10)
    assert_allclose(again[1], expected[1], rtol=1e-10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("when", [0, 1])
def test_a_worker_killed_while_blocks_are_sent_changes_no_bit(client, table, monkeypatch, when):
    X, y = table
    kernel, noise = Matern32().bind(X), np.full(len(y), 0.01)
    client.wait_for_workers(2, timeout=60)
    expected = Vecchia(kernel, X, 8, make_pool=on_cluster(client)).covariance(kernel, noise).negative_log_density(y)
    victim = next(iter(client.run(os.getpid).values()))
    calls, send = [], client.scatter

    def scatter(*args, **options):
        calls.append(time.monotonic())
        if len(calls) == when + 1:
            os.kill(victim, signal.SIGKILL)
        return send(*args, **options)

    monkeypatch.setattr(client, "scatter", scatter)
    found = Vecchia(kernel, X, 8, make_pool=on_cluster(client)).covariance(kernel, noise).negative_log_density(y)
    assert len(calls) > 3  # blocks, y and noise; and again
    for part, other in zip(found, expected, strict=True):
        assert_array_equal(part, other)


class Here:
    """A client whose workers are this process; `trouble(step)` is called before each step, and may raise."""

    def __init__(self, trouble):
        self.trouble = trouble

    def wait_for_workers(self, n_workers, timeout=None):
        self.trouble("wait")

    def nthreads(self):
        return {"a": 1, "b": 1}

    def scatter(self, parts, **options):
        self.trouble("scatter")
        return parts

    def submit(self, function, *args, pure):
        self.trouble("submit")
        return function(*args)

    def gather(self, results):
        self.trouble("gather")
        return results


def add(block, shared, own):
    return block + shared + own


def break_down(block):
    raise KeyError("own")


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(cluster, "PAUSE", 0.0)


def deaths():
    """What Dask raises when a worker dies, found by killing some (benchmarks/kills.py) and by reading it."""
    from distributed.client import FutureCancelledError, FuturesCancelledError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker, NoWorkerError

    return [
        CommClosedError("in <TCP>: Stream is closed"),
        KilledWorker("task", None, 3),
        FutureCancelledError("key", "lost dependencies"),
        FuturesCancelledError([]),
        NoWorkerError("task", 1.0),
        CancelledError(),
        asyncio.CancelledError(),
        TimeoutError("No valid workers found"),
        ConnectionResetError(),
        KeyError("tcp://127.0.0.1:40001"),
    ]


@pytest.mark.parametrize("step", ["scatter", "submit", "gather"])
@pytest.mark.parametrize("death", deaths(), ids=lambda error: type(error).__name__)
def test_a_death_at_any_step_is_an_attempt_more(hasty, step, death):
    pending = [death]

    def trouble(now):
        if now == step and pending:
            raise pending.pop()

    pool = on_cluster(Here(trouble))([1, 2, 3])
    assert pool(add, (10,), [(100,), (200,), (300,)]) == [111, 212, 313]
    assert not pending


def test_attempts_are_counted(hasty):
    sent = []

    def trouble(now):
        if now == "scatter":
            sent.append(now)
            raise OSError("gone")

    with pytest.raises(RuntimeError, match=rf"lost its workers {ATTEMPTS} times in a row \(OSError: gone\)"):
        on_cluster(Here(trouble))([1])(add, (1,), [(1,)])
    assert len(sent) == ATTEMPTS


def test_a_cluster_without_workers_is_given_up_after_one_wait(hasty):
    waits = []

    def trouble(now):
        if now == "wait":
            waits.append(now)
            raise TimeoutError

    with pytest.raises(RuntimeError, match="no worker for 120 s"):
        on_cluster(Here(trouble))([1])(add, (1,), [(1,)])
    assert len(waits) == 1


def test_an_error_of_the_work_is_no_death_of_a_worker(hasty):
    steps = []
    with pytest.raises(KeyError, match="own"):
        on_cluster(Here(steps.append))([1])(break_down, (), [()])
    assert steps.count("gather") == 1


def test_errors_of_the_work_are_raised_as_they_are(client, table):
    X, y = table
    kernel = Matern32().bind(X)
    spread = Vecchia(kernel, X[:100], 4, make_pool=on_cluster(client))
    with pytest.raises(CovarianceError):
        spread.covariance(kernel, np.full(100, -5.0)).negative_log_density(y[:100])


def test_something_else_than_a_client_is_refused(table):
    with pytest.raises(TypeError, match="Client"):
        GaussianGP().fit(*table, client="tcp://localhost:8786")
