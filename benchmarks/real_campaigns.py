"""Sparse bias on real campaigns of 1,400 hours: what of the valid readings is flagged, and the cost beside a plain GP.

    python benchmarks/real_campaigns.py renwu-2005-spring.csv renwu-2005-winter.csv [--gases no o3] [--held-out]

Each table has `time`, `temperature_c`, `humidity_pct` and, for each gas, `<gas>_ppb` and the operator's `<gas>_flag`,
which is empty where a reading is valid. As recorded, without episodes, on one thread of the processor. The processor
time of scikit-learn's plain GP is taken in the same run, with the same kernel, start and bounds. With --held-out,
instead: fits to four of five readings, scored on the valid ones of the others.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from biasgp import SparseBiasGP, metrics
from biasgp.analysis.fitting import KERNELS
from command import FEATURES, sklearn_seconds

HELD_OUT = 0.2
"""Share of the readings."""
HEADER = f"{'':34}{'sparse':>26}{'sparse@auto':>32}"


def processor_seconds(work) -> tuple[float, object]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def fit(X: np.ndarray, y: np.ndarray, kernel: str, response: str) -> SparseBiasGP:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SparseBiasGP(KERNELS[kernel](ard=True), response=response, order=None).fit(X, y)


def readings(table: pd.DataFrame, gas: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, with the time in hours; readings; and which of them are valid."""
    columns = table[FEATURES.split(",")].copy()
    columns["time"] = (columns["time"] - columns["time"].iloc[0]).dt.total_seconds() / 3600.0
    return columns.to_numpy(dtype=float), table[f"{gas}_ppb"].to_numpy(), table[f"{gas}_flag"].isna().to_numpy()


def held_out(table: pd.DataFrame, gas: str, kernel: str) -> str:
    """Scores of valid readings that were held out, for both responses."""
    X, y, valid = readings(table, gas)
    test = np.random.default_rng(0).random(len(y)) < HELD_OUT
    text, scored = f"{gas:3} {kernel:12}", test & valid
    for response in ("identity", "auto"):
        model = fit(X[~test], y[~test], kernel, response)
        mean, std = model.predict(X[scored], return_std=True, include_noise=True)
        truth, exact = y[scored], model.log_predictive_density(X[scored], y[scored]).mean()
        text += (
            f" | {response:8} flagged {model.outlier_mask_.mean():.3f} mse {metrics.mse(truth, mean):7.2f} nlpd "
            f"{metrics.nlpd(truth, mean, std):6.3f} crps {metrics.crps(truth, mean, std):.3f} exact {exact:.3f} "
            f"{'trusted' if model.trustworthy_ else model.diagnosis_[0].code:10}"
        )
    return text


def row(table: pd.DataFrame, gas: str, kernel: str) -> str:
    """Share of the valid readings that are flagged, and scikit-learn's time over ours, for both responses."""
    X, y, valid = readings(table, gas)
    theirs, _ = processor_seconds(lambda: sklearn_seconds(X, y, kernel))
    text = f"{gas:3} {kernel:12} scikit-learn {theirs:5.1f} s"
    for response in ("identity", "auto"):
        ours, model = processor_seconds(lambda response=response: fit(X, y, kernel, response))
        flagged = 100.0 * model.outlier_mask_[valid].mean()
        text += f" | {ours:5.1f} s, ratio {theirs / ours:4.1f}, {flagged:5.2f} % {type(model.response_).__name__:10}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--gases", nargs="+", default=["no", "o3"])
    parser.add_argument(
        "--kernels", nargs="+", default=["matern32", "exponential"], choices=["matern32", "exponential"]
    )
    parser.add_argument("--held-out", action="store_true")
    arguments = parser.parse_args()
    if not arguments.held_out:
        print(HEADER)
    with threadpool_limits(1):
        for path in arguments.tables:
            table = pd.read_csv(path, parse_dates=["time"])
            print(path.stem)
            for gas in arguments.gases:
                for kernel in arguments.kernels:
                    print((held_out if arguments.held_out else row)(table, gas, kernel), flush=True)


if __name__ == "__main__":
    main()
