"""Seeded data: the paper's data sets, an outdoor sensor campaign, and real tables that are dirtied."""

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
