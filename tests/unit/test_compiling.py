"""What numba compiles works where it has no folder to keep it in, too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from biasgp.covariance.compiling import compiled

caching = pytest.importorskip("numba.core.caching")

CODE = """
import numpy as np
from numba.core import caching
caching.CompileResultCacheImpl._locator_classes = []  # as in a container whose user has no home
from biasgp import GaussianGP
from biasgp.kernels import Matern32
t = np.arange(40.0)[:, None]
for engine in ("state-space", "vecchia"):
    model = GaussianGP(Matern32(), approximation=engine, max_iter=2).fit(t, np.sin(t[:, 0] / 5.0))
    print(engine, len(model.predict(t)))
"""


def add_one(x):
    return x + 1


def test_without_a_folder_to_write_to_it_is_compiled_in_the_process(monkeypatch):
    assert compiled(add_one).stats.cache_path is not None
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    function = compiled(add_one)
    assert function(1) == 2
    assert function.stats.cache_path is None


def test_engines_work_without_a_folder_to_write_to():
    quick = {"NUMBA_OPT": "0", "OPENBLAS_NUM_THREADS": "1"}  # to compile, which is done in every such process
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | quick
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, env=environment)
    assert run.stdout.splitlines() == ["state-space 40", "vecchia 40"], run.stderr
