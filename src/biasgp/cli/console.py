"""What the commands say, and how they end: 0 done, 1 a failed fit, 2 wrong use. Users see no traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130


class WrongUseError(ValueError):
    """The command was asked for something it cannot do."""


class FailedFitError(RuntimeError):
    """The data could be read, but no model could be fitted to them."""


class PlainGroup(TyperGroup):
    """Commands whose errors are one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        with plain_errors():
            return super().invoke(ctx)


@contextmanager
def plain_errors() -> Iterator[None]:
    """One line for whatever goes wrong inside."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        _stop("Stopped. Nothing was written.", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has left; the interpreter must not try to flush to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from None
    except Exception as error:
        # typer shows its own complaints about options; they have an exit code.
        if hasattr(error, "exit_code") or os.environ.get("BIASGP_DEBUG"):
            raise
        _stop(*_verdict(error))


def _verdict(error: Exception) -> tuple[str, int]:
    from biasgp.data.table import TableError
    from biasgp.persistence import ModelFileError

    if isinstance(error, TableError | ModelFileError | WrongUseError):
        return str(error), WRONG_USE
    if isinstance(error, FailedFitError):
        return str(error), FAILED
    if isinstance(error, OSError):
        where = f" {str(error.filename)!r}" if error.filename else ""
        return f"Could not write{where}: {error.strerror or error}. Nothing was left behind.", FAILED
    if isinstance(error, MemoryError):
        return "Not enough memory. Use fewer rows: --max-rows, or --where.", FAILED
    detail = " ".join(str(error).split())
    return f"This should not have happened ({type(error).__name__}: {detail}). BIASGP_DEBUG=1 shows where.", FAILED


def _stop(message: str, code: int) -> None:
    Console(stderr=True, soft_wrap=True).print(Text.assemble(("Error: ", "bold red"), printable(message)))
    raise typer.Exit(code)


def printable(text: str) -> str:
    """Text from a file without what could move the cursor or recolour the terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def say(*lines: str, style: str = "") -> None:
    """Lines on standard output."""
    console = Console(soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text(printable(line), style=style))


def remark(*lines: str) -> None:
    """Lines on standard error: what is being done, not the result."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text(printable(line), style="dim"))


@contextmanager
def working(what: str, *, quiet: bool = False) -> Iterator[None]:
    """A spinner while something takes time, on a terminal only."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
