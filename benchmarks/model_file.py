"""Size of the model file of an exact fit, beside a full N×N matrix of doubles, and how long it takes to load.

    python benchmarks/model_file.py [--n 1400] [--methods sparse gp cob rab ep]

The searches are cut short: what a file holds does not depend on where they end, but for EP, which keeps a column for
each site of negative precision.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np

from biasgp.estimators import METHODS
from biasgp.persistence import load_model, save_model
from speed import seconds

EXACT = ("sparse", "gp", "cob", "rab", "ep")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1400)
    parser.add_argument("--methods", nargs="+", choices=EXACT, default=EXACT)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(args.n, 3))
    y = np.sin(6.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(args.n)
    y[::10] += 3.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        for method in args.methods:
            save_model(path, METHODS[method](max_iter=3).fit(X, y))
            size = path.stat().st_size
            print(
                f"N = {args.n}, {method:6} {size / 1e6:6.2f} MB, {size / (8 * args.n**2):.2f} of a matrix, "
                f"loaded in {seconds(lambda: load_model(path), 3):.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
