"""Coverage of src by the tests, lines and branches apart, against the bars.

    make coverage

Reads the .coverage that a run of the tests has left.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

BARS = {"lines": 95.0, "branches": 90.0}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "--quiet", "-o", str(out)], check=True)
        totals = json.loads(out.read_text(encoding="utf-8"))["totals"]
    found = {
        "lines": 100.0 * totals["covered_lines"] / totals["num_statements"],
        "branches": 100.0 * totals["covered_branches"] / totals["num_branches"],
    }
    for name, share in found.items():
        print(f"{name} {share:.1f} % (bar {BARS[name]:g} %)")
    if any(found[name] < bar for name, bar in BARS.items()):
        sys.exit("below the bar")


if __name__ == "__main__":
    main()
