"""Seeded data: the paper's data sets, an outdoor sensor campaign, and real tables that are dirtied.

>>> import numpy as np
>>> from biasgp.data import REGIMES, SCENARIOS, STRESSES
>>> SCENARIOS[3]
Scenario(q=0.1, mu=5.0, sigma=0.8333333333333334)
>>> data = STRESSES["clusters"](np.random.default_rng(0))
>>> int(data.is_outlier.sum())
30
>>> list(REGIMES)
['none', 'uniform', 'asymmetric', 'focused', 'shift', 'heavy']
"""

from biasgp.data.campaign import Campaign, Gas, campaign
from biasgp.data.regimes import REGIMES, DirtiedTable, dirtied, read_plain_table
from biasgp.data.simulate import (
    SCENARIOS,
    STRESSES,
    Scenario,
    Simulation,
    friedman,
    one_dimensional,
    simulate,
    toy,
    two_sided,
)

__all__ = [
    "REGIMES",
    "SCENARIOS",
    "STRESSES",
    "Campaign",
    "DirtiedTable",
    "Gas",
    "Scenario",
    "Simulation",
    "campaign",
    "dirtied",
    "friedman",
    "one_dimensional",
    "read_plain_table",
    "simulate",
    "toy",
    "two_sided",
]
