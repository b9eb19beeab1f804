"""What each start of the label search is worth: the same data without it.

    python benchmarks/starts.py [--replicates 15] [--only "no outlier"]

For each start that is taken out: over all draws, in how many the evidence ends lower by more than a nat, in how many
the MSE of f ends higher by more than 5 % (and lower), the ratio of mean MSEs with and without it, its worst single
draw, and the CPU time saved. Draws: the paper's 16 scenarios, those with half of the outliers below, and the stresses.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from accuracy import DATASETS, draw
from biasgp.data import SCENARIOS, STRESSES, Simulation, two_sided
from biasgp.kernels import SquaredExponential
from biasgp.models import sparse
from biasgp.models.problem import Problem
from biasgp.models.sparse.starts import RECIPE, ConstantBias, FewReadings, Recipe
from biasgp.response import Scaling


def recipes() -> dict[str, Recipe]:
    """The whole recipe, and the same without one start."""
    found = {"all": RECIPE}
    for part in ("on_few", "with_all"):
        starts = getattr(RECIPE, part)
        for start in starts:
            rest = tuple(other for other in starts if other is not start)
            found[f"{part}: {type(start).__name__}"] = replace(RECIPE, **{part: rest})
    found["begin: the lopsided fit"] = replace(RECIPE, begin=ConstantBias(limits=(np.inf, np.inf)))
    found["add readings: other ends"] = replace(RECIPE, add_readings=FewReadings(max_picks=1))
    found["labels moved: other lengths"] = replace(RECIPE, add_readings=FewReadings(different=np.inf))
    return found


def draws(replicates: int) -> Iterator[tuple[str, Simulation]]:
    for replicate in range(replicates):
        for dataset in DATASETS:
            for scenario in SCENARIOS:
                yield f"{dataset} s{scenario}", draw(dataset, scenario, replicate)
            for scenario in (1, 5, 7, 8):
                rng = np.random.default_rng([7, DATASETS.index(dataset), scenario, replicate])
                yield f"two-sided {dataset} s{scenario}", two_sided(dataset, scenario, random_state=rng)
        for name, make in STRESSES.items():
            yield name, make(np.random.default_rng([8, replicate]))


def fit(data: Simulation, recipe: Recipe) -> tuple[float, float, float]:
    """Evidence, MSE of f, and CPU seconds."""
    scaling = Scaling.of(data.y)
    kernel = SquaredExponential(ard=True).bind(data.X)
    problem = Problem(data.X, scaling.forward(data.y), kernel, np.zeros(len(data.y)))
    began = time.process_time()
    found = sparse.fit(problem, 200, np.random.default_rng(0), recipe=recipe)
    seconds = time.process_time() - began
    mean = scaling.backward(found.posterior.mean(data.X_test))
    return found.log_evidence, float(np.mean((mean - data.f_test) ** 2)), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=15)
    parser.add_argument("--only", help="starts whose names contain this")
    options = parser.parse_args()
    tried = {name: r for name, r in recipes().items() if name == "all" or not options.only or options.only in name}
    data = list(draws(options.replicates))
    results = {name: np.array([fit(one, recipe) for _, one in data]) for name, recipe in tried.items()}
    whole = results.pop("all")
    print(f"{len(data)} draws; {'without':34} evidence lower  MSE higher  lower  ratio of means   worst  CPU saved")
    for name, without in results.items():
        ratio = without[:, 1] / whole[:, 1]
        worst = int(ratio.argmax())
        print(
            f"{name:46} {int((without[:, 0] < whole[:, 0] - 1.0).sum()):14} {int((ratio > 1.05).sum()):11} "
            f"{int((ratio < 0.95).sum()):6} {without[:, 1].mean() / whole[:, 1].mean():15.4f} {ratio[worst]:7.2f} "
            f"({data[worst][0]}) {1.0 - without[:, 2].sum() / whole[:, 2].sum():6.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
