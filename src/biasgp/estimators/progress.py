"""Time limit of a fit, and its progress if asked for: by rich on a terminal, as log records elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from biasgp.watch import Watch

LOGGER = logging.getLogger("biasgp")
WHOLE_FITS = {"GaussianGP": 15, "ConstantBiasGP": 50, "RandomBiasGP": 140, "SparseBiasGP": 20, "StudentTGP": 80}
WHOLE_FITS |= {"RobustConjugateGP": 12}
"""Factorisations of all readings that an exact fit usually takes, smaller ones counted by the cube of their size:
benchmarks/command.py --counts."""


@contextmanager
def watching(max_time: float | None, verbose: bool) -> Iterator[Watch]:
    """A fit inside ends after max_time seconds with its best so far, and shows where it stands if verbose."""
    deadline = np.inf if max_time is None else time.monotonic() + max_time
    with _listener(verbose) as listener, Watch(deadline, listener) as watch:
        yield watch


@contextmanager
def _listener(verbose: bool) -> Iterator[Callable[[str], None] | None]:
    console = _terminal() if verbose else None
    if console is None:
        yield LOGGER.info if verbose else None
        return
    start = time.monotonic()
    with console.status("fitting") as status:
        yield lambda text: status.update(f"fitting, {time.monotonic() - start:.0f} s: {text}")


def _terminal() -> Any:
    """A rich console on a terminal, or None where there is no rich or no terminal."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal else None
