"""The parts of the readings that a search for covariance parameters goes through."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from biasgp.models.search import stages


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (60, [60]),
        (100, [50, 100]),
        (300, [150, 300]),
        (1199, [200, 1199]),
        (1400, [200, 466, 1400]),
        (12_000, [200, 444, 1333, 4000, 12_000]),
    ],
)
def test_each_part_lies_within_the_next_and_the_last_is_everything(n, sizes):
    rng = np.random.default_rng(0)
    parts = stages(rng.uniform(size=(n, 2)), rng.standard_normal(n))
    assert [len(part) for part in parts] == sizes
    for few, more in pairwise(parts):
        assert np.isin(few, more).all()
    assert_array_equal(parts[-1], np.arange(n))
