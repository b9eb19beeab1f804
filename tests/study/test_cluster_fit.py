"""One model on a cluster: the same result (but for the order of BLAS threads), and nothing lost with a worker."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose

from biasgp import GaussianGP
from biasgp.covariance.cluster import Cluster, on_cluster
from biasgp.covariance.vecchia import Vecchia
from biasgp.kernels import Matern32
from biasgp.messages import CovarianceError

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with (
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
    assert isinstance(spread.pool, Cluster)
    expected = Vecchia(kernel, X, 8).negative_log_density(kernel, y, noise)
    assert_allclose(spread.negative_log_density(kernel, y, noise)[0], expected[0], rtol=1e-10)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    again = spread.negative_log_density(kernel, y, noise)
    assert_allclose(again[0], expected[0], rtol=1e-10)
    assert_allclose(again[1], expected[1], rtol=1e-10)


def test_errors_of_the_work_are_raised_as_they_are(client, table):
    X, y = table
    kernel = Matern32().bind(X)
    spread = Vecchia(kernel, X[:100], 4, make_pool=on_cluster(client))
    with pytest.raises(CovarianceError):
        spread.negative_log_density(kernel, y[:100], np.full(100, -5.0))


def test_something_else_than_a_client_is_refused(table):
    with pytest.raises(TypeError, match="Client"):
        GaussianGP().fit(*table, client="tcp://localhost:8786")
