"""Verdicts: what a refit costs, and what ten questions to somebody who knows the truth are worth.

    python benchmarks/verdicts.py [--draws 60] [--questions 10] [--faults FOLDER] [--sizes 300 1400] [--fits 5]

Refit: seconds of a fit and of a refit after one new verdict, the answer to the first question of the queue; median over
draws of the paper's 1D data, scenario 7, and over series with a shift (where biases that last are found), of the ratio,
with its largest value; and how far the log evidence of the refit is below that of a fit with the same verdict.

Person: of each draw of 1D, scenario 7, the model asks about one reading after another, the one that a look is worth
most at, is told the truth, and refits; against as many questions about readings at random. Wrong labels before and
after, over all draws, and how many more disappear. With --faults, the same on a folder of windows with a real fault
(columns time, value and flag): bad is what was flagged by those who ran the station; random questions are asked three
times over.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biasgp import SparseBiasGP
from biasgp.data import simulate
from biasgp.data.faults import FaultScenario
from biasgp.kernels import Matern32

Bools = NDArray[np.bool_]
Choice = Callable[[SparseBiasGP], int]
REPEATS = 3
"""Of random questions on each real window, of which there are few."""


def by_worth(model: SparseBiasGP) -> int:
    """The reading that a look is worth most at, of those that are open."""
    worth = np.where(np.isnan(model.verdict_), model.explain_all()["worth"], -1.0)
    return int(worth.argmax())


def at_random(rng: np.random.Generator) -> Choice:
    """Any reading that is open."""
    return lambda model: int(rng.choice(np.flatnonzero(np.isnan(model.verdict_))))


def asked(model: SparseBiasGP, truth: Bools, choose: Choice, questions: int) -> int:
    """Wrong labels after so many questions."""
    for _ in range(questions):
        verdict = model.verdict_.copy()
        row = choose(model)
        verdict[row] = float(truth[row])
        model.refit(verdict)
    return int((model.outlier_mask_ != truth).sum())


def person(draws: int, questions: int) -> None:
    """1D, scenario 7."""
    before = queue = random = 0
    for seed in range(draws):
        data = simulate("1d", 7, random_state=seed)
        model = SparseBiasGP(order=None).fit(data.X, data.y)
        before += int((model.outlier_mask_ != data.is_outlier).sum())
        queue += asked(deepcopy(model), data.is_outlier, by_worth, questions)
        random += asked(model, data.is_outlier, at_random(np.random.default_rng(seed)), questions)
    tell(f"1D s7, {draws} draws", before, queue, random)


def tell(name: str, before: float, queue: float, random: float) -> None:
    gained, lost = before - queue, before - random
    ratio = f"{gained / lost:.1f} times" if lost > 0 else "infinitely many times"
    print(
        f"{name}: {before:g} wrong labels; after the queue's questions {queue:g}, after random ones {random:g}: "
        f"{gained:g} against {lost:g} disappear, {ratio} as many",
        flush=True,
    )


def windows(folder: Path, questions: int) -> None:
    """Real faults."""
    totals = np.zeros(3)
    for path in sorted(folder.glob("*.csv")):
        frame = pd.read_csv(path, parse_dates=["time"])
        hours = ((frame["time"] - frame["time"].iloc[0]).dt.total_seconds() / 3600.0).to_numpy()
        truth = frame["flag"].notna().to_numpy()
        model = SparseBiasGP(Matern32(), response="auto").fit(hours[:, None], frame["value"].to_numpy())
        before = int((model.outlier_mask_ != truth).sum())
        queue, random = asked(deepcopy(model), truth, by_worth, questions), 0.0
        for seed in range(REPEATS):
            random += asked(deepcopy(model), truth, at_random(np.random.default_rng(seed)), questions) / REPEATS
        totals += before, queue, random
        tell(path.stem, before, queue, random)
    tell("all windows", *totals)


def refits(n: int, fits: int) -> None:
    """What a refit costs."""
    for name in ("1D s7", "shift"):
        ratios, gaps, seconds = [], [], []
        for seed in range(fits):
            X, y, truth, kernel = _readings(name, n, seed)
            began = time.perf_counter()
            model = SparseBiasGP(kernel=kernel).fit(X, y)
            whole = time.perf_counter() - began
            verdict = model.verdict_.copy()
            row = by_worth(model)
            verdict[row] = float(truth[row])
            began = time.perf_counter()
            model.refit(verdict)
            part = time.perf_counter() - began
            fresh = SparseBiasGP(kernel=kernel).fit(X, y, verdict=verdict)
            ratios.append(part / whole)
            gaps.append(fresh.log_evidence_ - model.log_evidence_)
            seconds.append((whole, part))
        whole, part = np.median(seconds, axis=0)
        print(
            f"N = {n}, {name}: fit {whole:.2f} s, refit {part:.2f} s, ratio {np.median(ratios):.3f} "
            f"(at most {max(ratios):.3f}); log evidence below a fit's by at most {max(gaps):.2f}",
            flush=True,
        )


def _readings(name: str, n: int, seed: int) -> tuple[NDArray, NDArray, Bools, object]:
    if name == "1D s7":
        data = simulate("1d", 7, n=n, random_state=seed)
        return data.X, data.y, data.is_outlier, None
    series = FaultScenario(size=5.0, outliers=0.05, n=n).draw(random_state=seed)
    return series.t[:, None], series.y, ~series.is_clean, Matern32()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=60, help="of the simulated person; 0 for none")
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--faults", type=Path, help="a folder of windows with real faults")
    parser.add_argument("--sizes", type=int, nargs="*", default=[300, 1400], help="readings of the refits")
    parser.add_argument("--fits", type=int, default=5, help="of each size")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for n in arguments.sizes:
        refits(n, arguments.fits)
    if arguments.draws:
        person(arguments.draws, arguments.questions)
    if arguments.faults:
        windows(arguments.faults, arguments.questions)


if __name__ == "__main__":
    main()
