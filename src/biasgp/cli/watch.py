"""`biasgp watch`: a saved model goes on with readings as they come."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biasgp.cli.console import remark, working
from biasgp.cli.options import Force, of_model, of_output, of_table, reading
from biasgp.messages import WrongUseError

if TYPE_CHECKING:
    from biasgp.cli.needs import Needs
    from biasgp.cli.watch_run import WatchRun, WatchState
    from biasgp.data.table import ReadOptions
    from biasgp.stream import Stream

EXAMPLE = """Example:  biasgp watch readings.csv --model readings-no_ppb/model.skops --out verdicts.jsonl --follow

Ends with 0 when all was read, or on Ctrl-C with --follow; 1: the output cannot be written; 2: wrong use; 3: the source
misbehaves (it vanishes, shrinks, is replaced or rewritten, its header changes, a row cannot be read or is too late).
With --out, the same command again goes on where the last run ended, however that did."""
LAG = 20
"""Readings, as `model.stream` has it."""
Events = StrEnum("Events", ["all", "reading", "settled"])
LineFormat = StrEnum("LineFormat", ["json", "csv"])


@reading()
def watch(
    table: Annotated[
        str, typer.Argument(help="CSV file that grows, with a header; - for standard input.", metavar="TABLE")
    ],
    model: Annotated[Path, of_model(help="A model.skops that `biasgp fit` wrote, with one time as its only feature.")],
    follow: Annotated[bool, of_table("--follow", help="Wait for rows that are added, until Ctrl-C.")] = False,
    rotated: Annotated[
        bool, of_table("--rotated", help="Go on with a new file of the same header that takes the place of TABLE.")
    ] = False,
    skip_bad_rows: Annotated[
        bool, of_table("--skip-bad-rows", help="Leave out rows that cannot be read or are too late, and say which.")
    ] = False,
    lag: Annotated[
        int, of_model(min=1, max=1000, help="Readings after which the verdict on a reading is settled.")
    ] = LAG,
    out: Annotated[
        Path | None, of_output(help="File to add lines to; its state is beside it. Left out: standard output.")
    ] = None,
    events: Annotated[
        Events, of_output(help="Verdicts to write: on each reading as it comes, when it is settled, or both.")
    ] = Events.all,
    line_format: Annotated[
        LineFormat | None,
        of_output("--format", help="Left out: csv where --out ends in .csv, else one JSON object per line."),
    ] = None,
    state: Annotated[
        Path | None, of_output(help="File for the state. Left out: OUT.state; none for standard output.")
    ] = None,
    force: Force = False,
    *,
    read: ReadOptions,
) -> None:
    """Judge readings as they come, by a fitted model: a line for each, and one when its verdict is settled."""
    if rotated and read.header is False:
        raise WrongUseError("--rotated knows a new file by its header: leave out --no-header.")
    if out is not None and out.resolve() in (Path(table).resolve(), model.resolve()):
        raise WrongUseError(f"--out {str(out)!r} is what is read. Choose another file.")
    if state is None and out is not None:
        state = out.with_name(f"{out.name}.state")
    as_csv = line_format == "csv" or (line_format is None and out is not None and out.suffix.lower() == ".csv")
    settings = {"--lag": lag, "--events": events.value, "--format": "csv" if as_csv else "json"}
    files = _Files(table, model, out, state)
    with ExitStack() as held:
        files.hold(held, force=force)
        with working("Loading the model"):
            run = _run(files, read, settings, _Manner(follow, rotated, skip_bad_rows), held)
        _go(run, lives=follow or table == "-")


@dataclass(frozen=True)
class _Manner:
    """How the source is followed."""

    follow: bool
    rotated: bool
    skip: bool


@dataclass(frozen=True)
class _Files:
    """What a run reads and writes; without `out`, standard output."""

    table: str
    model: Path
    out: Path | None
    state: Path | None

    def hold(self, held: ExitStack, *, force: bool) -> None:
        """Have the output and its state for this run alone; with `force`, without what is in them."""
        from biasgp.staging import lock

        if self.state is None:
            return
        place = self.out or self.state
        if not self.state.parent.is_dir() or not place.parent.is_dir():
            raise WrongUseError(f"There is no folder {str(place.parent)!r}. Make it, or choose another --out.")
        held.enter_context(lock(self.state.with_name(f".{self.state.name}.lock"), place))
        if force:
            for path in (self.state, *filter(None, [self.out])):
                path.unlink(missing_ok=True)
        elif self.out is not None and self.out.exists() and not self.state.exists():
            raise WrongUseError(
                f"{str(self.out)!r} is there already, without the state of a run ({self.state.name}). Choose another "
                "--out, or add --force to begin anew."
            )


def _run(files: _Files, read: ReadOptions, settings: dict[str, Any], manner: _Manner, held: ExitStack) -> WatchRun:
    """The run that a command asks for, where an earlier one ended if there was one."""
    from biasgp.cli.watch_lines import READING, SETTLED, LogFile, Terminal, VerdictLines
    from biasgp.cli.watch_run import Reading, WatchRun, saving
    from biasgp.data.tail import GrowingFile, LineSource, Pipe

    settings = {**settings, "--model": _checksum(files.model)}
    stream, needs, state = _stream(files, settings)
    saved, written = (None, 0) if state is None else (state.place, state.written)
    source: LineSource
    if files.table == "-":
        source = Pipe(sys.stdin.buffer, saved)
    else:
        source = GrowingFile(Path(files.table), saved, follow=manner.follow, rotated=manner.rotated)
    held.callback(source.close)
    reading = Reading.of(source.name, read, needs)
    which = settings["--events"]
    lines = VerdictLines(needs.features[0], settings["--format"] == "csv", which != SETTLED, which != READING)
    sink = Terminal(written) if files.out is None else LogFile(files.out, written)
    held.callback(sink.close)
    run = WatchRun(stream, source, reading, lines, sink, saving(files.state, settings), manner.skip)
    if state is None:
        run.keep(run)  # before there is any output, so that what there is always has a state
    else:
        run.go_on_from(state)
    return run


def _checksum(path: Path) -> str:
    """Of a file; "" where there is none, which is told when it is loaded."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _stream(files: _Files, settings: dict[str, Any]) -> tuple[Stream, Needs, WatchState | None]:
    """The stream of the model, or the one that an earlier run has left; and the columns that it needs."""
    from biasgp.cli.needs import needs_of
    from biasgp.cli.watch_run import WatchState
    from biasgp.persistence import read_model
    from biasgp.stream import load

    saved = read_model(files.model)
    needs = needs_of(saved, files.model.name)
    names = [feature.name for feature in needs.features]
    if len(names) > 1 or needs.together is not None:
        shown = ", ".join(repr(name) for name in (*names, *filter(None, [needs.together])))
        raise WrongUseError(
            f"{files.model.name} was fitted to {shown}, and readings can be followed in one time only. Fit again with "
            f"--features {names[0]}."
        )
    if files.state is not None and files.state.exists():
        stream = load(files.state)
        state = WatchState.of(stream, files.state.name)
        state.refuse_others(settings)
        return stream, needs, state
    try:
        if not hasattr(saved.estimator, "stream"):
            raise TypeError(f"{type(saved.estimator).__name__} has no stream.")
        return saved.estimator.stream(lag=settings["--lag"]), needs, None
    except (TypeError, ValueError) as error:
        method, kernel = saved.about.get("method"), getattr(saved.estimator, "kernel_", None)
        raise WrongUseError(
            f"{files.model.name} (method {method}, kernel {kernel!r}) cannot go on with new readings: {error} At the "
            "command line: biasgp fit with --method sparse or gp, and --kernel exponential, matern32 or matern52."
        ) from None


def _go(run: WatchRun, *, lives: bool) -> None:
    """Run, and say what was done; Ctrl-C is how a run that waits for more is meant to end."""
    from biasgp.cli.watch_run import requests_noted

    before = run.stream.n_readings
    asked: Callable[[], int] = int
    try:
        with requests_noted() as asked:
            run.go(asked)
    finally:
        _tell(run, run.stream.n_readings - before)
    if asked() and not lives:
        raise typer.Exit(128 + asked())


def _tell(run: WatchRun, count: int) -> None:
    (end,) = run.lines.times([run.fit_end])
    if run.before:
        remark(f"{run.before:,} rows up to {end.strip(chr(34))}, where the readings of the fit end, were passed over.")
    if run.reader is not None and run.reader.limits:
        remark(f"{run.reader.limits:,} detection limits were left out: predicted, not judged, and not learnt from.")
    if run.reader is not None and run.reader.comments:
        remark(f"{run.reader.comments:,} lines that begin with # were passed over.")
    if run.source.rotations:
        remark(f"{run.source.name} was replaced {run.source.rotations} time(s) by a new file, which was read too.")
    if run.source.ended and run.source.partial:
        remark(f"The last line of {run.source.name} has no end yet, and was not read.")
    waiting = len(run.stream.pending())
    remark(f"{count:,} readings; {run.outliers:,} are settled as outliers, and {waiting:,} wait for their successors.")
