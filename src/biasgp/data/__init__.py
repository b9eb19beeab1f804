"""Seeded simulators: the paper's data sets, and an outdoor sensor campaign.

>>> import numpy as np
>>> from biasgp.data import SCENARIOS, STRESSES
>>> SCENARIOS[3]
Scenario(q=0.1, mu=5.0, sigma=0.8333333333333334)
>>> data = STRESSES["clusters"](np.random.default_rng(0))
>>> int(data.is_outlier.sum())
30
"""

from biasgp.data.campaign import Campaign, Gas, campaign
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
    "SCENARIOS",
    "STRESSES",
    "Campaign",
    "Gas",
    "Scenario",
    "Simulation",
    "campaign",
    "friedman",
    "one_dimensional",
    "simulate",
    "toy",
    "two_sided",
]
