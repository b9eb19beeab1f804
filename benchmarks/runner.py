"""Overhead of the runner: the `cob` study with two workers against one, and the same results from both.

    python benchmarks/runner.py [--replicates 4]

The bar is a ratio of 1.7 on two idle cores. Wall-clock time of the whole study, start of the workers included.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from biasgp import study


def run(folder: Path, jobs: int, replicates: int) -> float:
    """Seconds of the whole study."""
    start = time.perf_counter()
    design = study.SimulatedDesign(methods=["cob"], replicates=replicates)
    study.simulated(folder, design, study.Execution(jobs, progress=False))
    return time.perf_counter() - start


def without_times(folder: Path) -> list[dict[str, str]]:
    rows = study.load(folder).rows
    return [{name: str(value) for name, value in row.items() if name not in ("fit_s", "predict_s")} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=15)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder, "one"), Path(folder, "two")
        alone, together = run(one, 1, args.replicates), run(two, 2, args.replicates)
        same = without_times(one) == without_times(two)
    print(f"--jobs 1: {alone:.1f} s   --jobs 2: {together:.1f} s   ratio {alone / together:.2f}   same results: {same}")


if __name__ == "__main__":
    main()
