"""Seeded simulators: the paper's data sets, and an outdoor sensor campaign."""

from biasgp.data.campaign import Campaign, Gas, campaign
from biasgp.data.simulate import SCENARIOS, Scenario, Simulation, friedman, one_dimensional, simulate, toy

__all__ = [
    "SCENARIOS",
    "Campaign",
    "Gas",
    "Scenario",
    "Simulation",
    "campaign",
    "friedman",
    "one_dimensional",
    "simulate",
    "toy",
]
