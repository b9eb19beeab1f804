"""What a benchmark found as a small JSON file, of which docs/benchmark_tables.py makes the tables of the documentation.

python benchmarks/accuracy.py --save docs/results/accuracy.json
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import biasgp

DIGITS = 4
"""Significant ones of a number that is kept: tables show three."""
_figures: list[dict[str, Any]] = []
"""What `figure` has shown, here and in parts that ran in processes of their own."""


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write the figures of the tables to a JSON file")


def command(arguments: list[str]) -> str:
    """The command that was given, without --save and with the last parts of paths only."""
    script, *rest = arguments
    words, skip = ["python", f"benchmarks/{Path(script).name}"], False
    for word in rest:
        if skip or word.startswith("--save"):
            skip = word == "--save"
            continue
        name = Path(word).name if os.sep in word else word
        words.append(f'"{name}"' if " " in name else name)
    return " ".join(words)


def plain(value: Any) -> Any:
    """A value as JSON has it, rounded; what is not a number is null."""
    if isinstance(value, str | bool) or value is None:
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else float(f"{number:.{DIGITS}g}")


def write(path: Path | None, rows: Iterable[Mapping[str, Any]], size: str = "") -> None:
    """Keep the rows in a file, if there is to be one; `size` says of how many runs they are, where no row does."""
    if path is None:
        return
    found = {
        "made_by": command(sys.argv),
        "version": biasgp.__version__,
        "machine": f"Python {platform.python_version()}, {os.cpu_count()} cores",
        "size": size,
        "rows": [{name: plain(value) for name, value in row.items()} for row in rows],
    }
    lines = [json.dumps(row, ensure_ascii=False) for row in found.pop("rows")]
    head = json.dumps(found, ensure_ascii=False, indent=1).removesuffix("\n}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head},\n "rows": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n", encoding="utf-8")


def figure(name: str, value: str, bar: str = "") -> None:
    """Print a figure with its bar, and keep it for `write_figures`."""
    print(f"{name:<80} {value:>24}   {bar}", flush=True)
    _figures.append({"figure": name.strip(), "value": value})


def part(arguments: list[str], timeout: float | None = None) -> None:
    """Run a benchmark in a process of its own, whose figures become ours."""
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "figures.json"
        subprocess.run([sys.executable, *arguments, "--save", str(there)], check=False, timeout=timeout)
        if there.exists():
            _figures.extend(json.loads(there.read_text(encoding="utf-8"))["rows"])


def write_figures(path: Path | None) -> None:
    """Keep the figures that were shown in a file, if there is to be one."""
    write(path, _figures)
