"""Verdicts: what a refit costs, and what ten questions to somebody who knows the truth are worth.

    python benchmarks/verdicts.py [--draws 60] [--questions 10] [--faults FOLDER] [--sizes 300 1400] [--fits 5]

Refit: seconds of a fit and of a refit after one new verdict, that on the single reading that is worth most; median over
draws of the paper's 1D data, scenario 7, and over series with a shift (where biases that last are found), of the ratio,
with its largest value; and how far the log evidence of the refit is below that of a fit with the same verdict.

Person: the queue of the app asks one question after the other, about a reading or about several as one
(`biasgp.analysis.questions`), is told the truth, and the model is refitted; against as many questions about readings at
random. Of several readings the truth is told if at least three quarters of them are the same, and then of all, the
others wrongly; otherwise the answer is neither, and the question is spent. Cases are draws of 1D, scenario 7, and, with
--faults, a folder of windows with a real fault (columns time, value and flag): bad is what was flagged by those who ran
the station. Wrong labels before and after, and how many more disappear: of each window, of either kind, of all cases
together, and of these without the one in which random questions achieve most. Random questions are asked three times.
"""

from __future__ import annotations

import argparse
import time
import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biasgp import SparseBiasGP
from biasgp.analysis.questions import questions
from biasgp.data import simulate
from biasgp.data.faults import FaultScenario
from biasgp.kernels import Matern32

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Answers = tuple[float, float, float]
"""Wrong labels before, after the questions of the queue, and after random ones."""
REPEATS = 3
"""Of random questions in each case; means are told."""
AGREE = 0.75
"""Share of several readings of which the same is true, from which somebody says it of all of them."""


def first_of_queue(model: SparseBiasGP) -> int:
    """The single reading that a look is worth most at, of those that are open."""
    worth = np.where(np.isnan(model.verdict_), model.explain_all()["worth"], -1.0)
    return int(worth.argmax())


def by_queue(model: SparseBiasGP, truth: Bools, number: int, hours: Floats | None) -> int:
    """Wrong labels after so many questions of the queue."""
    passed: list[tuple[int, ...]] = []
    for _ in range(number):
        left = questions(model, hours, passed)
        if not left:
            break
        rows = list(left[0].rows)
        bad = float(truth[rows].mean())
        if max(bad, 1.0 - bad) < AGREE:
            passed.append(left[0].rows)
            continue
        verdict = model.verdict_.copy()
        verdict[rows] = float(bad > 0.5)
        model.refit(verdict)
    return wrong(model, truth)


def at_random(model: SparseBiasGP, truth: Bools, number: int, seed: int) -> int:
    """Wrong labels after so many questions about readings at random."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        verdict = model.verdict_.copy()
        row = int(rng.choice(np.flatnonzero(np.isnan(verdict))))
        verdict[row] = float(truth[row])
        model.refit(verdict)
    return wrong(model, truth)


def wrong(model: SparseBiasGP, truth: Bools) -> int:
    return int((model.outlier_mask_ != truth).sum())


def both(model: SparseBiasGP, truth: Bools, number: int, hours: Floats | None = None) -> Answers:
    """One case."""
    random = [at_random(deepcopy(model), truth, number, seed) for seed in range(REPEATS)]
    before = wrong(model, truth)
    return before, by_queue(model, truth, number, hours), float(np.mean(random))


def tell(name: str, cases: list[Answers]) -> None:
    before, queue, random = np.sum(cases, axis=0)
    gained, lost = before - queue, before - random
    ratio = f"{gained / lost:.1f} times as many" if lost > 0 else "none at random"
    print(
        f"{name}: {before:g} wrong labels; after the queue's questions {queue:g}, after random ones {random:.4g}: "
        f"{gained:g} against {lost:.4g} disappear, {ratio}",
        flush=True,
    )


def simulated(draws: int, number: int) -> list[Answers]:
    """1D, scenario 7."""
    found = []
    for seed in range(draws):
        data = simulate("1d", 7, random_state=seed)
        found.append(both(SparseBiasGP(order=None).fit(data.X, data.y), data.is_outlier, number))
    if found:
        tell(f"1D s7, {draws} draws", found)
    return found


def windows(folder: Path | None, number: int) -> list[Answers]:
    """Real faults."""
    found = []
    for path in sorted(folder.glob("*.csv")) if folder is not None else []:
        frame = pd.read_csv(path, parse_dates=["time"])
        hours = (frame["time"] - pd.Timestamp(0)).dt.total_seconds().to_numpy() / 3600.0
        model = SparseBiasGP(Matern32(), response="auto").fit((hours - hours[0])[:, None], frame["value"].to_numpy())
        found.append(both(model, frame["flag"].notna().to_numpy(), number, hours))
        tell(path.stem, found[-1:])
    if found:
        tell(f"{len(found)} real windows", found)
        tell("real windows without the one in which random questions achieve most", without_largest(found))
    return found


def without_largest(cases: list[Answers]) -> list[Answers]:
    largest = int(np.argmax([before - random for before, _, random in cases]))
    return cases[:largest] + cases[largest + 1 :]


def person(draws: int, folder: Path | None, number: int) -> None:
    """Both kinds of cases."""
    cases = simulated(draws, number) + windows(folder, number)
    if draws and folder is not None:
        tell(f"all {len(cases)} cases", cases)
        tell("all without that one", without_largest(cases))


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
            row = first_of_queue(model)
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
    person(arguments.draws, arguments.faults, arguments.questions)


if __name__ == "__main__":
    main()
