"""What each start of the label search is worth: the same data without it.

    python benchmarks/starts.py [--replicates 15] [--readings 60] [--only MoreNoise NoOutlier] [--together]
    python benchmarks/starts.py --replicates 0 --sensor readings-*.csv --sensor-replicates 1 [--responses identity auto]

For each start that is taken out (with --together, for all of them at once): over all draws, in how many the evidence
ends lower by more than a nat, in how many the MSE ends higher by more than 5 % (and lower), the ratio of mean MSEs with
and without it, its worst single draw, in how many a warning is lost, and the CPU time saved.

Draws: the paper's 16 scenarios, those with half of the outliers below, and the stresses (MSE of f). With --sensor also
the paper's Section 4 on each CSV and on the simulated campaign (MSE of the readings that were replaced; the mean of the
ratios, since their units differ).
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from accuracy import DATASETS, draw
from biasgp import BiasGPWarning, SparseBiasGP, metrics
from biasgp.data import SCENARIOS, STRESSES, two_sided
from biasgp.kernels import Exponential, Kernel, SquaredExponential
from biasgp.models import sparse
from biasgp.models.problem import Problem
from biasgp.models.sparse.recipe import RECIPE, FewReadings, Recipe
from biasgp.models.sparse.starts import ConstantBias
from biasgp.study import SensorDesign

FIELDS = ("draw", "without", "evidence", "mse", "warned", "seconds")


@dataclass(frozen=True)
class Draw:
    """Readings, and values of f or of readings that are to be predicted."""

    name: str
    X: Any
    y: Any
    X_test: Any
    wanted: Any
    kernel: Kernel
    response: str = "identity"


class WithRecipe(SparseBiasGP):
    """Sparse bias by a given recipe."""

    recipe = RECIPE

    def _fit_model(self, problem: Problem, events: object = None) -> sparse.SparseBiasFit:
        rng = np.random.default_rng(self.random_state)
        return sparse.fit(problem.with_prior(), self.max_iter, rng, recipe=self.recipe)


def recipes(only: list[str], together: bool) -> dict[str, Recipe]:
    """The whole recipe, and the same without one start, or without all of those that are named."""
    found = {"": RECIPE}
    for part in ("on_few", "with_all"):
        starts = getattr(RECIPE, part)
        for start in starts:
            rest = tuple(other for other in starts if other is not start)
            found[f"{part}: {type(start).__name__}"] = replace(RECIPE, **{part: rest})
    if together:
        left = {
            part: tuple(start for start in getattr(RECIPE, part) if type(start).__name__ not in only)
            for part in ("on_few", "with_all")
        }
        return {"": RECIPE, " ".join(only): replace(RECIPE, **left)}
    found["begin: the lopsided fit"] = replace(RECIPE, begin=ConstantBias(limits=(np.inf, np.inf)))
    found["add readings: other ends"] = replace(RECIPE, add_readings=FewReadings(max_picks=1))
    found["labels moved: other lengths"] = replace(RECIPE, add_readings=FewReadings(different=np.inf))
    return {name: recipe for name, recipe in found.items() if not (name and only) or any(x in name for x in only)}


def simulated(replicates: int, n: int | None) -> Iterator[Draw]:
    """The scenarios, the same with outliers on both sides, and the stresses; of each the first n readings."""
    for replicate in range(replicates):
        data = {}
        for dataset in DATASETS:
            for scenario in SCENARIOS:
                data[f"{dataset} s{scenario}"] = draw(dataset, scenario, replicate)
            for scenario in (1, 5, 7, 8):
                rng = np.random.default_rng([7, DATASETS.index(dataset), scenario, replicate])
                data[f"two-sided {dataset} s{scenario}"] = two_sided(dataset, scenario, random_state=rng)
        for name, make in STRESSES.items():
            data[name] = make(np.random.default_rng([8, replicate]))
        for name, one in data.items():
            kernel = SquaredExponential(ard=True)
            yield Draw(f"{name} r{replicate}", one.X[:n], one.y[:n], one.X_test, one.f_test, kernel)


def sensor(files: list[Path], replicates: int, responses: list[str]) -> Iterator[Draw]:
    """The paper's Section 4 on CSVs, and on the simulated campaign."""
    designs = [SensorDesign(), *(SensorDesign(data=file) for file in files)]
    for replicate in range(replicates):
        for design in designs:
            for (column, readings), share in ((x, s) for x in design.readings().items() for s in design.shares):
                replaced, y = design.replaced(readings, column, share, replicate)
                name = f"{Path(design.data or 'campaign').stem} {column} {share:g} r{replicate}"
                for response in responses:
                    truth = readings.y[replaced]
                    shown = f"{name} {response}"
                    yield Draw(shown, readings.X, y, readings.X[replaced], truth, Exponential(ard=True), response)


def fit(data: Draw, recipe: Recipe) -> dict[str, Any]:
    """Evidence in the user's units, MSE, whether the fit warned, and CPU seconds."""
    model = WithRecipe(data.kernel, response=data.response, order=None)
    model.recipe = recipe
    began = time.process_time()
    # The choice of the transform makes a recipe of its own, which must lack the same starts.
    with patch.object(sparse, "Recipe", lambda **changes: replace(recipe, **changes)):
        model.fit(data.X, data.y)
    seconds = time.process_time() - began
    mse = metrics.mse(data.wanted, model.predict(data.X_test))
    return {"evidence": model.log_evidence_, "mse": mse, "warned": not model.trustworthy_, "seconds": seconds}


def table(rows: list[dict[str, Any]], kind: str) -> None:
    """One line for each recipe."""
    names = dict.fromkeys(row["without"] for row in rows)
    column = {(name, key): np.array([r[key] for r in rows if r["without"] == name]) for name in names for key in FIELDS}
    n = len(column["", "mse"])
    print(f"{n:4} {kind + ' draws, without':49} evidence lower  MSE higher  lower   ratio  unwarned  CPU saved  worst")
    for name in list(names)[1:]:
        mse, whole = column[name, "mse"], column["", "mse"]
        ratio = mse / whole
        mean = ratio.mean() if kind == "sensor" else mse.mean() / whole.mean()
        lost = column["", "warned"] & ~column[name, "warned"]
        print(
            f"{name:54} {int((column[name, 'evidence'] < column['', 'evidence'] - 1.0).sum()):14} "
            f"{int((ratio > 1.05).sum()):11} {int((ratio < 0.95).sum()):6} {mean:7.4f} {int(lost.sum()):9} "
            f"{1.0 - column[name, 'seconds'].sum() / column['', 'seconds'].sum():10.1%}  {ratio.max():.2f} "
            f"({column[name, 'draw'][ratio.argmax()]})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=15, help="of the simulated draws")
    parser.add_argument("--readings", type=int, help="only so many readings of each simulated draw")
    parser.add_argument("--sensor", nargs="*", type=Path, help="also the sensor study: on the campaign and these CSVs")
    parser.add_argument("--sensor-replicates", type=int, default=1)
    parser.add_argument("--responses", nargs="+", default=["identity", "auto"], help="of the sensor study")
    parser.add_argument("--draws", default="", help="only draws whose names contain this")
    parser.add_argument("--only", nargs="+", default=[], help="starts whose names contain one of these")
    parser.add_argument("--together", action="store_true", help="take the starts of --only out all at once")
    parser.add_argument("--out", type=Path, help="also write every fit to this CSV, as it ends")
    options = parser.parse_args()
    warnings.simplefilter("ignore", BiasGPWarning)
    kinds = {"simulated": simulated(options.replicates, options.readings)}
    if options.sensor is not None:
        kinds["sensor"] = sensor(options.sensor, options.sensor_replicates, options.responses)
    tried = recipes(options.only, options.together)
    with (options.out or Path(os.devnull)).open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for kind, draws in kinds.items():
            rows = []
            for data in (each for each in draws if options.draws in each.name):
                for name, recipe in tried.items():
                    rows.append({"draw": data.name, "without": name, **fit(data, recipe)})
                    writer.writerow(rows[-1])
                file.flush()
            if rows:
                table(rows, kind)


if __name__ == "__main__":
    main()
