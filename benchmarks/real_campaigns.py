"""Sparse bias on real campaigns of 1,400 hours: what of the valid readings is flagged, and the cost beside a plain GP.

    python benchmarks/real_campaigns.py renwu-2005-spring.csv renwu-2005-winter.csv [--gases no o3]

Each table has `time`, `temperature_c`, `humidity_pct` and, for each gas, `<gas>_ppb` and the operator's `<gas>_flag`,
which is empty where a reading is valid. As recorded, without episodes, on one thread of the processor. The processor
time of scikit-learn's plain GP is taken in the same run, with the same kernel, start and bounds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from biasgp import SparseBiasGP
from biasgp.analysis.fitting import KERNELS
from command import FEATURES, sklearn_seconds

HEADER = f"{'':34}{'sparse':>26}{'sparse@auto':>32}"


def processor_seconds(work) -> tuple[float, object]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def fit(X: np.ndarray, y: np.ndarray, kernel: str, response: str) -> SparseBiasGP:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SparseBiasGP(KERNELS[kernel](ard=True), response=response, order=None).fit(X, y)


def row(table: pd.DataFrame, gas: str, kernel: str) -> str:
    """Share of the valid readings that are flagged, and scikit-learn's time over ours, for both responses."""
    columns = table[FEATURES.split(",")].copy()
    columns["time"] = (columns["time"] - columns["time"].iloc[0]).dt.total_seconds() / 3600.0
    X = columns.to_numpy(dtype=float)
    y, valid = table[f"{gas}_ppb"].to_numpy(), table[f"{gas}_flag"].isna().to_numpy()
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
    arguments = parser.parse_args()
    print(HEADER)
    with threadpool_limits(1):
        for path in arguments.tables:
            table = pd.read_csv(path, parse_dates=["time"])
            print(path.stem)
            for gas in arguments.gases:
                for kernel in arguments.kernels:
                    print(row(table, gas, kernel), flush=True)


if __name__ == "__main__":
    main()
