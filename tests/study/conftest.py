"""A method that costs nothing, and the smallest design (1d would bring the toy data of Figures 1 to 3 along)."""

from __future__ import annotations

import numpy as np
import pytest

from biasgp.study import methods

TINY = {"datasets": ["friedman"], "scenarios": [1, 8], "replicates": 2, "n": 20, "n_test": 10}


class Median:
    """Predicts the median of the readings."""

    def fit(self, X, y):
        self.center_, self.spread_ = float(np.median(y)), float(np.std(y)) + 1e-9
        return self

    def predict(self, X, return_std=False):
        return np.full(len(X), self.center_), np.full(len(X), self.spread_)


@pytest.fixture
def registered(monkeypatch):
    """`study.register` that is undone after the test."""
    monkeypatch.setattr(methods, "_registered", {})
    return methods.register


@pytest.fixture
def median(registered):
    registered("median", lambda setting: Median())
    return "median"


@pytest.fixture
def tiny():
    return dict(TINY)
