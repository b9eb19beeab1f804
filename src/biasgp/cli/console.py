"""What the commands say, and how they end: 0 done, 1 a failed fit, 2 wrong use, 3 a bad source. No tracebacks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from biasgp.cli.requests import as_exceptions
from biasgp.messages import FailedFitError, SourceError, WrongUseError, printable

FAILED, WRONG_USE, BAD_SOURCE, INTERRUPTED = 1, 2, 3, 130
STOPPED = "Stopped. Nothing was written."


class PlainGroup(TyperGroup):
    """Commands whose errors are one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        with _plain_errors():
            return super().invoke(ctx)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """One line for whatever goes wrong inside."""
    asked: Callable[[], int] = int
    try:
        with as_exceptions() as asked:
            yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        stop(STOPPED, INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has left; the interpreter must not try to flush to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from None
    except Exception as error:
        # typer shows its own complaints about options; they have an exit code.
        if hasattr(error, "exit_code") or os.environ.get("BIASGP_DEBUG"):
            raise
        stop(*((STOPPED, 128 + asked()) if asked() else _verdict(error)))


def _verdict(error: Exception) -> tuple[str, int]:
    from biasgp.data.table import TableError
    from biasgp.persistence import ModelFileError
    from biasgp.staging import InUseError

    if isinstance(error, TableError | ModelFileError | WrongUseError | InUseError):
        return str(error), WRONG_USE
    if isinstance(error, SourceError):
        return str(error), BAD_SOURCE
    if isinstance(error, FailedFitError | ConnectionError):
        return str(error), FAILED
    if isinstance(error, OSError):
        where = f" {str(error.filename)!r}" if error.filename else ""
        return f"Could not write{where}: {error.strerror or error}. Nothing was left behind.", FAILED
    if isinstance(error, MemoryError):
        return "Not enough memory. Use fewer rows: --max-rows, or --where.", FAILED
    detail = " ".join(str(error).split())
    return f"This should not have happened ({type(error).__name__}: {detail}). BIASGP_DEBUG=1 shows where.", FAILED


def stop(message: str, code: int) -> NoReturn:
    """End the command with one line."""
    Console(stderr=True, soft_wrap=True).print(Text.assemble(("Error: ", "bold red"), printable(message)))
    raise typer.Exit(code)


def refuse_empty(**options: str | None) -> None:
    """WrongUseError for an option that was given without anything in it, as by an empty variable of the shell."""
    for name, text in options.items():
        if text is not None and not text.replace(",", "").strip():
            raise WrongUseError(
                f"--{name.replace('_', '-')} {text!r} names nothing. Leave it out, or say what you mean."
            )


def time_limit(seconds: float) -> float | None:
    """The --timeout of a command: 0 is none."""
    from biasgp.runner.task import LONGEST_TIMEOUT

    if not 0.0 <= seconds <= LONGEST_TIMEOUT:  # neither is NaN
        raise WrongUseError(
            f"--timeout must be 0, for never, or up to {LONGEST_TIMEOUT:,.0f} seconds, got {seconds:g}."
        )
    return seconds or None


def say(*lines: str, style: str = "", stderr: bool = False) -> None:
    """Lines on standard output, whole and without what a terminal would obey."""
    console = Console(stderr=stderr, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text(printable(line), style=style))


def remark(*lines: str) -> None:
    """Lines on standard error: what is being done, not the result."""
    say(*lines, style="dim", stderr=True)


@contextmanager
def working(what: str, *, quiet: bool = False) -> Iterator[None]:
    """A spinner while something takes time, on a terminal only."""
    console = Console(stderr=True)
    with nullcontext() if quiet or not console.is_terminal else console.status(what):
        yield
