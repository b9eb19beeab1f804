"""Run the generators of tests/fuzz over two processes until the time is up, and say what they found.

    python tests/fuzz/drive.py [--minutes 10] [--seed 1] [--only pairs]
    python tests/fuzz/drive.py --only pairs --chunk 10007       the one chunk of that seed again

A generator is a module of this folder with `run(count, seed) -> list of str`, one for each failure. Chunk after chunk
is run with seeds that follow from --seed, so a failure comes back with its chunk.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count, cycle
from pathlib import Path

PROCESSES = 2
GENERATORS = {"pairs": 50, "where_cases": 10_000, "tables": 200, "model_files": 1500}
"""How much of each is run at a time: some ten seconds' worth, at 150, 0.8, 8 to 50, and 4 ms each."""
CHUNKS_OF_A_SEED = 1_000_000
LONGEST_CHUNK = 900.0
"""Seconds after which a chunk is taken to hang."""

Found = tuple[str, int, int, list[str], Counter[str]]


def run_chunk(name: str, seed: int) -> Found:
    """One chunk of a generator: what failed, and how many of each kind there were, if the generator can tell."""
    module = importlib.import_module(name)
    size = GENERATORS[name]
    kinds = module.tally(size, seed) if hasattr(module, "tally") else Counter()
    return name, seed, size, module.run(size, seed), kinds


def chunks(names: list[str], seed: int) -> Iterator[tuple[str, int]]:
    """Generators in turn, each with seeds of its own."""
    return ((name, seed * CHUNKS_OF_A_SEED + i) for i, name in zip(count(), cycle(names), strict=False))


class Tally:
    """What has been run so far."""

    def __init__(self) -> None:
        self.began, self.done, self.kinds = time.monotonic(), Counter[str](), Counter[str]()
        self.failures: list[str] = []

    def add(self, found: Found) -> None:
        name, seed, size, failures, kinds = found
        self.done[name] += size
        self.kinds += kinds
        again = f"again: python tests/fuzz/drive.py --only {name} --chunk {seed}"
        self.failures += [f"{name}: {failure}\n    {again}" for failure in failures]
        for failure in self.failures[len(self.failures) - len(failures) :]:
            say(f"\n{failure}\n")
        say(f"\r{self}", end="")

    def __str__(self) -> str:
        done = ", ".join(f"{n} {name}" for name, n in self.done.items())
        return f"{time.monotonic() - self.began:.0f} s: {done}; {len(self.failures)} failed"


def say(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def drive(names: list[str], seed: int, seconds: float) -> Tally:
    """Chunks over two processes until the time is up; those that were begun are ended."""
    tally, ahead = Tally(), chunks(names, seed)
    with ProcessPoolExecutor(PROCESSES) as pool:
        running: dict[Future[Found], tuple[str, int]] = {}
        while running or time.monotonic() - tally.began < seconds:
            while len(running) < PROCESSES and time.monotonic() - tally.began < seconds:
                chunk = next(ahead)
                running[pool.submit(run_chunk, *chunk)] = chunk
            ended, _ = wait(running, timeout=LONGEST_CHUNK, return_when=FIRST_COMPLETED)
            if not ended:
                say(f"\nhangs: {', '.join(f'--only {name} --chunk {chunk}' for name, chunk in running.values())}")
                os._exit(1)
            for future in ended:
                tally.add(_outcome(future, running.pop(future)))
    return tally


def _outcome(future: Future[Found], chunk: tuple[str, int]) -> Found:
    """What a chunk found; its own death is a failure too."""
    try:
        return future.result()
    except Exception as error:
        return *chunk, 0, [f"the chunk died: {type(error).__name__}: {error}"], Counter()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long new chunks are begun")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(GENERATORS), help="one generator")
    parser.add_argument("--chunk", type=int, help="run the chunk of this seed alone, with --only")
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if arguments.chunk is not None:
        if arguments.only is None:
            parser.error("--chunk needs --only")
        tally = Tally()
        tally.add(run_chunk(arguments.only, arguments.chunk))
    else:
        names = list(GENERATORS) if arguments.only is None else [arguments.only]
        tally = drive(names, arguments.seed, 60.0 * arguments.minutes)
    say(f"\r{tally}")
    for kind, number in sorted(tally.kinds.items()):
        say(f"  {number:6d} {kind}")
    return 1 if tally.failures or not tally.done else 0


if __name__ == "__main__":
    sys.exit(main())
