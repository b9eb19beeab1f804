"""Seeded simulators: the paper's data sets, and an outdoor sensor campaign."""

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
