"""Seeded simulators of the paper's data."""

from biasgp.data.simulate import SCENARIOS, Scenario, Simulation, friedman, one_dimensional, simulate, toy

__all__ = ["SCENARIOS", "Scenario", "Simulation", "friedman", "one_dimensional", "simulate", "toy"]
