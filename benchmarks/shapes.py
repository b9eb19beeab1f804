"""Outliers of every shape: many on one side, of all sizes, in few readings of many inputs, two-sided, in real tables.

    python benchmarks/shapes.py [--only many sizes few two-sided tables stress] [--rows "45 %"] [--draws 20]
        [--first 0] [--tables FOLDER] [--others] [--out FILE.jsonl] [--save FILE.json] [--jobs 2]

The error of SparseBiasGP over the oracle's (the plain GP's where there are no outliers) is a ratio of means over draws:
of the RMSE of f (sizes, few), the MSE of f (many), the MAE of clean test readings (tables) and their MSE (two-sided and
stress, the draws of stress.py). `--others` fits the other robust models to the same draws. A fit is bad where its error
is more than LIMIT times the oracle's. The last lines judge the diagnosis over all fits: how many of the condemned fits
are bad, and how many of the bad are condemned.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import saved
from accuracy import DATASETS
from biasgp import BiasGPWarning, ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP, StudentTGP
from biasgp.data import REGIMES, STRESSES, Simulation, dirtied, read_plain_table, two_sided
from biasgp.data.regimes import exactly
from biasgp.data.simulate import friedman, one_dimensional

LIMIT = {"sizes": 1.5, "few": 1.5}
"""Times the oracle's error from which a fit is bad, where it is not 1.25."""
OTHERS = {"cob": ConstantBiasGP, "rab": RandomBiasGP, "ep": StudentTGP}


@dataclass(frozen=True)
class Case:
    """A row of the table: how to draw it, and how to score it."""

    part: str
    row: str
    draw: Callable[[np.random.Generator], Simulation]
    seed: tuple[int, ...]
    response: str = "identity"


def simulation(f: Callable[[np.ndarray], np.ndarray], X: np.ndarray, X_test: np.ndarray, y: np.ndarray) -> Simulation:
    """Readings that are not marked yet, and a test without noise."""
    clean = np.zeros(len(y), dtype=bool)
    return Simulation(X, y, f(X), clean, X_test, f(X_test), f(X_test))


def biased(data: Simulation, out: np.ndarray, bias: np.ndarray) -> Simulation:
    return replace(data, y=data.y + np.where(out, bias, 0.0), is_outlier=out)


def wave(rng: np.random.Generator, share: float) -> Simulation:
    """120 readings of sin(8x), a share of them one unit (ten standard deviations of the noise) too high."""

    def f(X: np.ndarray) -> np.ndarray:
        return np.asarray(np.sin(8.0 * X[:, 0]))

    X, grid = rng.uniform(size=(120, 1)), np.linspace(0.0, 1.0, 500)[:, None]
    data = simulation(f, X, grid, f(X) + 0.1 * rng.standard_normal(120))
    return biased(data, exactly(share, 120, rng), np.ones(120))


def neal(rng: np.random.Generator, share: float, kind: str) -> Simulation:
    """100 readings of Neal's function, which is the paper's, at normal inputs; outliers N(0, 1), Cauchy or at +2."""
    X, grid = rng.standard_normal((100, 1)), np.linspace(-2.2, 2.2, 441)[:, None]
    data = simulation(one_dimensional, X, grid, one_dimensional(X) + 0.1 * rng.standard_normal(100))
    bias = {
        "normal": lambda: rng.standard_normal(100),
        "Cauchy": lambda: 0.5 * rng.standard_cauchy(100),
        "shift": lambda: 2.0 + 0.1 * rng.standard_normal(100),
    }[kind]()
    return biased(data, exactly(share, 100, rng), bias)


def laboratory(rng: np.random.Generator, d: int, n: int, kind: str) -> Simulation:
    """Friedman's function of d inputs, five of which matter, in units of its standard deviation; noise 0.1."""
    X, X_test = rng.uniform(size=(n, d)), rng.uniform(size=(1000, d))
    mean, sd = friedman(X_test).mean(), friedman(X_test).std()

    def f(X: np.ndarray) -> np.ndarray:
        return np.asarray((friedman(X) - mean) / sd)

    data = simulation(f, X, X_test, f(X) + 0.1 * rng.standard_normal(n))
    if kind == "none":
        return data
    both_sides = rng.uniform(1.0, 5.0, n) * rng.choice([-1.0, 1.0], n)
    bias = rng.standard_t(2, n) if kind == "t" else both_sides
    return biased(data, exactly(0.15, n, rng), bias)


def both_sides(rng: np.random.Generator, dataset: str, scenario: int) -> Simulation:
    return two_sided(dataset, scenario, random_state=rng)


def table(rng: np.random.Generator, path: Path, regime: str) -> Simulation:
    """A real table with a fifth held out and the rest dirtied in one of six ways."""
    return dirtied(read_plain_table(path), regime, rng)


def cases(parts: list[str], folder: Path | None) -> list[Case]:
    """All rows of some parts."""
    few = [(5, 40, "none"), (10, 40, "none"), (10, 40, "both"), (10, 100, "both"), (20, 100, "both"), (20, 100, "t")]
    sizes = [(0.05, "normal"), (0.15, "normal"), (0.3, "normal"), (0.45, "normal"), (0.2, "Cauchy"), (0.3, "shift")]
    rows: list[tuple[str, str, Callable[[np.random.Generator], Simulation]]] = [
        ("many", f"{share:.0%} at +1", partial(wave, share=share)) for share in (0.25, 0.3, 0.35, 0.4, 0.42, 0.45)
    ]
    rows += [("sizes", f"{share:.0%} {kind}", partial(neal, share=share, kind=kind)) for share, kind in sizes]
    rows += [("few", f"d={d} N={n} {kind}", partial(laboratory, d=d, n=n, kind=kind)) for d, n, kind in few]
    rows += [
        ("two-sided", f"{dataset} {scenario}", partial(both_sides, dataset=dataset, scenario=scenario))
        for dataset in DATASETS
        for scenario in (5, 6, 7, 8)
    ]
    if folder is not None:
        rows += [
            ("tables", f"{path.stem} {regime}", partial(table, path=path, regime=regime))
            for path in sorted(folder.glob("*.csv"))
            for regime in REGIMES
        ]
    rows += [("stress", kind, draw) for kind, draw in STRESSES.items()]
    made = []
    for number, (part, row, draw) in enumerate(rows):
        seed = (5, number)
        if part == "two-sided":  # the same draws as in stress.py
            dataset, scenario = row.split()
            seed = (1, DATASETS.index(dataset), int(scenario))
        elif part == "stress":
            seed = (2,)
        made.append(Case(part, row, draw, seed, "auto" if row == "true peaks" else "identity"))
    return [case for case in made if case.part in parts]


def error(case: Case, model: GaussianGP, data: Simulation) -> float:
    residual = model.predict(data.X_test) - data.y_test
    if case.part == "tables":
        return float(np.abs(residual).mean())
    mse = float(np.mean(residual**2))
    return float(np.sqrt(mse)) if case.part in ("sizes", "few") else mse


def fit_one(case: Case, replicate: int, others: bool) -> dict[str, object]:
    """All methods on one draw of a row."""
    warnings.simplefilter("ignore", BiasGPWarning)
    data = case.draw(np.random.default_rng([*case.seed, replicate]))
    with threadpool_limits(1):
        good = ~data.is_outlier
        oracle = GaussianGP(response=case.response).fit(data.X[good], data.y[good])
        sparse = SparseBiasGP(response=case.response).fit(data.X, data.y)
        models = {"oracle": oracle, "sparse": sparse}
        if others:
            models |= {name: kind(response=case.response).fit(data.X, data.y) for name, kind in OTHERS.items()}
        scores = {name: error(case, model, data) for name, model in models.items()}
    flagged = sparse.outlier_mask_
    return {
        "part": case.part,
        "row": case.row,
        "draw": replicate,
        **scores,
        "flagged": float(flagged.mean()),
        "recall": float(flagged[data.is_outlier].mean()) if data.is_outlier.any() else None,
        "false": float(flagged[good].mean()),
        "condemned": [finding.code for finding in sparse.diagnosis_],
        "doubt": sparse.doubt_,
        "notes": [finding.code for finding in sparse.notes_],
    }


def ratio(row: dict[str, object]) -> float:
    return float(row["sparse"]) / float(row["oracle"])  # type: ignore[arg-type]


def is_bad(row: dict[str, object], limit: float = 1.25) -> bool:
    return ratio(row) > limit


def report(found: list[dict[str, object]]) -> dict[str, object]:
    """One line of the table, and its figures."""
    part, row = str(found[0]["part"]), str(found[0]["row"])
    limit = LIMIT.get(part, 1.25)
    mean = {name: np.mean([each[name] for each in found]) for name in ("oracle", "sparse", *OTHERS) if name in found[0]}
    ratios, condemned = np.array([ratio(each) for each in found]), np.array([bool(each["condemned"]) for each in found])
    others = "".join(f" ÷{name} {mean['sparse'] / mean[name]:5.2f}" for name in OTHERS if name in mean)
    print(
        f"{part:9} {row:24} ÷oracle {mean['sparse'] / mean['oracle']:6.2f} worst {ratios.max():7.2f}{others}"
        f" flagged {np.mean([each['flagged'] for each in found]):.2f} bad {(ratios > limit).sum():3}"
        f" silent {((ratios > limit) & ~condemned).sum():3} condemned {condemned.sum():3}"
        f" though fine {((ratios <= 1.1) & condemned).sum():3} of {len(found)}",
        flush=True,
    )
    return {
        "part": part,
        "row": row,
        "draws": len(found),
        "over_oracle": mean["sparse"] / mean["oracle"],
        "worst": ratios.max(),
        **{f"over_{name}": mean["sparse"] / mean[name] for name in OTHERS if name in mean},
        "bad": (ratios > limit).sum(),
        "silent": ((ratios > limit) & ~condemned).sum(),
        "condemned": condemned.sum(),
        "condemned_though_fine": ((ratios <= 1.1) & condemned).sum(),
    }


def judge(found: list[dict[str, object]]) -> None:
    """How well the diagnosis tells bad fits from good ones."""
    bad, condemned = [is_bad(each) for each in found], [bool(each["condemned"]) for each in found]
    both = sum(b and c for b, c in zip(bad, condemned, strict=True))
    print(f"{len(found)} fits, {sum(bad)} bad, {sum(condemned)} condemned: {both} of both")
    codes = sorted({code for each in found for code in each["condemned"]})  # type: ignore[attr-defined]
    for code in codes:
        having = [is_bad(each) for each in found if code in each["condemned"]]  # type: ignore[operator]
        print(f"  {code:20} {len(having):4} fits, {sum(having):4} of them bad")


def main() -> None:
    parts = ["many", "sizes", "few", "two-sided", "tables", "stress"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--rows", nargs="+", help="only rows whose names have one of these words in them")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw: others than those of the docs")
    parser.add_argument("--tables", type=Path, help="a folder of CSV files whose last column is the response")
    parser.add_argument("--others", action="store_true", help="fit the other robust models too")
    parser.add_argument("--out", type=Path, help="write every fit to a file, one JSON object per line")
    saved.add_option(parser)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    chosen = [
        case
        for case in cases(arguments.only, arguments.tables)
        if arguments.rows is None or any(word in case.row for word in arguments.rows)
    ]
    everything: list[dict[str, object]] = []
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        draws = range(arguments.first, arguments.first + arguments.draws)
        waiting = [[pool.submit(fit_one, case, r, arguments.others) for r in draws] for case in chosen]
        for futures in waiting:
            found = [future.result() for future in futures]
            rows.append(report(found))
            everything += found
    judge(everything)
    saved.write(arguments.save, rows)
    if arguments.out:
        arguments.out.write_text("".join(json.dumps(each) + "\n" for each in everything))


if __name__ == "__main__":
    main()
