"""StudentTGP against GPstuff's robust EP on its reference data: accuracy, convergence, speed.

    python benchmarks/student_t.py [--inference ep] [--replicates 5] [--save FILE.json]

Run with one BLAS thread (OPENBLAS_NUM_THREADS=1): GPstuff's CPU seconds are those of one. Machines are compared by
their plain GP: the speed-up is (gpstuff_ep ÷ gpstuff_gaussian) ÷ (StudentTGP ÷ GaussianGP), ours in the same run.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np

import saved
from biasgp import ConvergenceWarning, GaussianGP, metrics
from biasgp.data import SCENARIOS, simulate
from biasgp.estimators.student_t import StudentTGP

REFERENCE = Path(__file__).resolve().parents[1] / "tests" / "reference" / "data"
CASES = [
    (dataset, scenario, replicate) for dataset in ("1d", "friedman") for scenario in (1, 8) for replicate in (0, 1)
]


def read(case: tuple[str, int, int], part: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and readings of a reference data set."""
    name = "{}-scenario{}-replicate{}".format(*case)
    table = np.loadtxt(REFERENCE / f"{name}-{part}.csv", delimiter=",")
    return table[:, :-2], table[:, -2]


def reference() -> dict[tuple[str, str, int, int], dict[str, float]]:
    """GPstuff's results, by method and data set."""
    with (REFERENCE / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    numbers = ("mse", "nlpd", "nlpd_exact", "cpu_s", "nu", "sigma")
    return {
        (row["method"], row["dataset"], int(row["scenario"]), int(row["replicate"])): {
            name: float(row[name] or "nan") for name in numbers
        }
        for row in rows
        if row["method"].startswith("gpstuff")
    }


def cpu_seconds(model: GaussianGP | StudentTGP, X: np.ndarray, y: np.ndarray, repeats: int = 3) -> float:
    """Least CPU time of a few fits."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        model.fit(X, y)
        times.append(time.process_time() - began)
    return min(times)


def against_gpstuff(inference: str) -> list[dict[str, object]]:
    """Accuracy and speed on every data set of the reference."""
    theirs = reference()
    rows: list[dict[str, object]] = []
    print(f"{'':17} {'MSE':>7} {'÷ theirs':>8} {'NLPD':>6} {'− theirs':>8} {'with σ²':>8} {'exact':>6}", end=" ")
    print(f"{'− theirs':>8}", end=" ")
    print(f"{'ν':>5} {'σ':>5} {'CPU s':>6} {'÷ plain':>7} {'theirs':>7} {'speed-up':>8}")
    total = {"ours": 0.0, "plain": 0.0, "gpstuff": 0.0, "gpstuff plain": 0.0}
    for case in CASES:
        (X, y), (X_test, y_test) = read(case, "train"), read(case, "test")
        peer, peer_plain = theirs["gpstuff_ep", *case], theirs["gpstuff_gaussian", *case]
        model = StudentTGP(inference=inference)
        plain, ours = cpu_seconds(GaussianGP(), X, y), cpu_seconds(model, X, y)
        mean, std = model.predict(X_test, return_std=True)
        mse, nlpd = metrics.mse(y_test, mean), metrics.nlpd(y_test, mean, np.sqrt(std**2 + model.noise_variance_))
        as_theirs = metrics.nlpd(y_test, mean, np.sqrt(std**2 + model.scale_**2))
        exact = -float(model.log_predictive_density(X_test, y_test).mean())
        ratio, peer_ratio = ours / plain, peer["cpu_s"] / peer_plain["cpu_s"]
        if case[0] == "friedman":
            for name, seconds in zip(total, (ours, plain, peer["cpu_s"], peer_plain["cpu_s"]), strict=True):
                total[name] += seconds
        print(f"{case[0]:9} s{case[1]} r{case[2]}   {mse:7.4f} {mse / peer['mse']:8.3f} {nlpd:6.3f}", end=" ")
        print(f"{nlpd - peer['nlpd']:+8.3f} {as_theirs - peer['nlpd']:+8.3f} {exact:6.3f}", end=" ")
        print(f"{exact - peer['nlpd_exact']:+8.3f}", end=" ")
        print(f"{model.degrees_of_freedom_:5.2f} {model.scale_:5.3f} {ours:6.2f}", end=" ")
        print(f"{ratio:7.2f} {peer_ratio:7.2f} {peer_ratio / ratio:8.2f}")
        rows.append(
            {
                "data": "{} s{}, {}".format(*case),
                "mse": mse,
                "mse_over_theirs": mse / peer["mse"],
                "nlpd_less_theirs": nlpd - peer["nlpd"],
                "nlpd_less_theirs_with_scale": as_theirs - peer["nlpd"],
                "exact_nlpd_less_theirs": exact - peer["nlpd_exact"],
                "seconds": ours,
                "speed_up": peer_ratio / ratio,
            }
        )
    ratio, peer_ratio = total["ours"] / total["plain"], total["gpstuff"] / total["gpstuff plain"]
    print(f"Friedman, N = 300, all four: {ratio:.2f} plain fits, theirs {peer_ratio:.2f}: {peer_ratio / ratio:.2f} ×")
    return [*rows, {"data": "all four of Friedman", "speed_up": peer_ratio / ratio}]


def convergence(inference: str, replicates: int) -> dict[str, object]:
    """Share of the paper's scenarios where the fit is what was asked for; the others must warn."""
    converged = warned = fits = gaussian = 0
    for dataset in ("1d", "friedman"):
        for scenario in SCENARIOS:
            excess = []
            for replicate in range(replicates):
                data = simulate(dataset, scenario, random_state=1000 * scenario + replicate)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    model = StudentTGP(inference=inference).fit(data.X, data.y)
                said = any(issubclass(w.category, ConvergenceWarning) for w in caught)
                fits, converged, warned = fits + 1, converged + model.converged_, warned + said
                gaussian += model.degrees_of_freedom_ > 30.0
                if model.converged_ == said:
                    print(
                        f"!! {dataset} scenario {scenario} replicate {replicate}: converged_ and the warning disagree"
                    )
                excess.append(metrics.mse(data.y_test, model.predict(data.X_test)) / SCENARIOS[scenario].sigma ** 2)
            print(f"{dataset:9} s{scenario}: MSE ÷ noise variance {' '.join(f'{e:.2f}' for e in excess)}")
    print(f"converged {converged} of {fits} ({converged / fits:.0%}), warned {warned}, ended near-Gaussian {gaussian}")
    return {"data": "convergence", "fits": fits, "converged": converged}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inference", choices=("ep", "laplace"), default="ep")
    parser.add_argument("--replicates", type=int, default=5, help="of each scenario, for the share that converges")
    saved.add_option(parser)
    arguments = parser.parse_args()
    rows = against_gpstuff(arguments.inference)
    rows.append(convergence(arguments.inference, arguments.replicates))
    saved.write(arguments.save, rows, f"{arguments.replicates} replicates per scenario for the fits that converge")


if __name__ == "__main__":
    main()
