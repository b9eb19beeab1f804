"""Peak resident memory of a fit over the baseline, in N×N arrays of doubles.

python benchmarks/memory.py [--n 5000] [--save FILE.json]
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import saved

CODE = """
import resource, warnings
import numpy as np
from biasgp import ConstantBiasGP, GaussianGP
from biasgp.kernels import Exponential, SquaredExponential
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.uniform(size=({n}, 3))
y = np.sin(6.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal({n})
y[::10] += 3.0
# What importing and warming up take is the baseline.
{name}({kernel}(ard=True), approximation="exact").fit(X[:200], y[:200])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{name}({kernel}(ard=True), max_iter=3, approximation="exact").fit(X, y)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / (8 * {n} ** 2))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=5000)
    saved.add_option(parser)
    arguments, rows = parser.parse_args(), []
    n = arguments.n
    for name in ("GaussianGP", "ConstantBiasGP"):
        for kernel in ("SquaredExponential", "Exponential"):
            code = CODE.format(n=n, name=name, kernel=kernel)
            peak = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
            print(f"N = {n}: {name} with {kernel}: {float(peak):.2f} N×N arrays at the peak")
            rows.append({"n": n, "method": name, "kernel": kernel, "arrays": float(peak)})
    saved.write(arguments.save, rows)


if __name__ == "__main__":
    main()
