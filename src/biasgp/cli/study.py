"""`biasgp study`: the paper's experiments with one command each."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Annotated, Any, NoReturn

import typer

from biasgp.cli.console import FAILED, INTERRUPTED, WRONG_USE, refuse_empty, remark, say, stop, time_limit
from biasgp.cli.options import Jobs, Scheduler, Timeout
from biasgp.messages import WrongUseError
from biasgp.staging import InUseError, lock

TERMINATED = 128 + signal.SIGTERM
"""With this code the command ends on request, in a file of the user's as elsewhere."""

app = typer.Typer(
    help="Compare methods: on simulated data or a campaign of sensor readings, as the paper does, or on your tables.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Out = Annotated[Path, typer.Option(help="Folder of the study; the same command goes on where it was.")]
Methods = Annotated[str | None, typer.Option(help="Names, with commas; cob@auto is cob with response=auto.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all data.")]
Extend = Annotated[bool, typer.Option("--extend", help="Add methods, data or replicates to the study in the folder.")]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Run again what failed or was given up.")]
Plugin = Annotated[
    list[Path] | None,
    typer.Option(
        "--register",
        help="A Python file that calls study.register. It is run, with all that it does: only files that you trust.",
    ),
]
Peers = Annotated[bool, typer.Option("--peers", help="Add other people's methods, those that are installed.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small version, of about two minutes.")]
NoReport = Annotated[bool, typer.Option("--no-report", help="Write the results only, no page.")]

QUICK_SIMULATED: dict[str, Any] = {"scenarios": "1,4,8", "replicates": 3, "methods": "gp,oracle,cob,rab,sparse,ep"}
QUICK_TABLES: dict[str, Any] = {"regimes": "none,shift", "replicates": 1, "methods": "gp,oracle,cob,sparse"}
_REGIMES = ("none", "uniform", "asymmetric", "focused", "shift", "heavy")
"""Of biasgp.data.REGIMES, which is not imported for --help."""
QUICK_SENSOR: dict[str, Any] = {"replicates": 1, "methods": "gp,oracle,cob,sparse", "every": 3}


@app.command("simulated", epilog="Example: biasgp study simulated --methods gp,cob,sparse --jobs 2 --out study")
def _simulated(
    context: typer.Context,
    out: Out,
    dataset: Annotated[str, typer.Option(help="Data sets, with commas.")] = "1d,friedman",
    scenarios: Annotated[str, typer.Option(help="Scenarios, with commas.")] = "1,2,3,4,5,6,7,8",
    replicates: Annotated[int, typer.Option(min=1, help="Draws of each scenario.")] = 15,
    methods: Methods = None,
    kernel: Annotated[str, typer.Option(help="ard, iso or both: one length-scale per input, or a shared one.")] = "ard",
    seed: Seed = 0,
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    timeout: Timeout = 1800.0,
    extend: Extend = False,
    retry_failed: Retry = False,
    register: Plugin = None,
    peers: Peers = False,
    quick: Quick = False,
    no_report: NoReport = False,
) -> None:
    """The paper's Section 3: two data sets, eight scenarios of outliers, every method."""
    with _one_line_errors(out):
        refuse_empty(dataset=dataset, scenarios=scenarios, methods=methods, kernel=kernel)
        from biasgp.study import Execution, SimulatedDesign, simulated

        chosen = _chosen(context, QUICK_SIMULATED)
        design = SimulatedDesign(
            datasets=_list(dataset),
            scenarios=_numbers("--scenarios", chosen["scenarios"], int),
            kernels=_list(kernel),
            replicates=chosen["replicates"],
            methods=chosen["methods"],
            seed=seed,
        )
        execution = Execution(jobs, scheduler, time_limit(timeout), retry_failed)
        _finish(simulated(out, design, execution, extend=extend), no_report)


@app.command("sensor", epilog="Example: biasgp study sensor --data readings.csv --responses no_ppb --out study")
def _sensor(
    context: typer.Context,
    out: Out,
    data: Annotated[Path | None, typer.Option(help="A CSV; the built-in simulated campaign when left out.")] = None,
    responses: Annotated[str, typer.Option(help="Columns to predict, with commas.")] = "no_ppb,o3_ppb",
    flags: Annotated[str | None, typer.Option(help="Their columns of flags, with commas.")] = None,
    features: Annotated[str, typer.Option(help="Columns to predict from.")] = "time,temperature_c,humidity_pct",
    shares: Annotated[str, typer.Option(help="Shares of the records that are replaced.")] = "0.1,0.2",
    replicates: Annotated[int, typer.Option(min=1, help="Draws of the replaced records.")] = 5,
    methods: Methods = None,
    kernel: Annotated[str, typer.Option(help="ard or iso: one length-scale per input, or a shared one.")] = "ard",
    seed: Seed = 0,
    every: Annotated[int, typer.Option(min=1, help="Take every so-many-th record only.")] = 1,
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    timeout: Timeout = 7200.0,
    extend: Extend = False,
    retry_failed: Retry = False,
    register: Plugin = None,
    peers: Peers = False,
    quick: Quick = False,
    no_report: NoReport = False,
) -> None:
    """The paper's Section 4: records of a campaign are replaced by outliers and predicted."""
    with _one_line_errors(out):
        refuse_empty(responses=responses, flags=flags, features=features, shares=shares, methods=methods)
        from biasgp.study import Execution, SensorDesign, sensor

        chosen = _chosen(context, QUICK_SENSOR)
        design = SensorDesign(
            data=data,
            responses=_list(responses),
            flags=None if flags is None else _list(flags),
            features=_list(features),
            shares=_numbers("--shares", shares, float),
            kernel=kernel,
            replicates=chosen["replicates"],
            methods=chosen["methods"],
            seed=seed,
            every=chosen["every"],
        )
        execution = Execution(jobs, scheduler, time_limit(timeout), retry_failed)
        _finish(sensor(out, design, execution, extend=extend), no_report)


@app.command("tables", epilog="Example: biasgp study tables folder-of-csv-files --methods gp,oracle,sparse --out study")
def _tables(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder of CSV files; the last column is the response.")],
    out: Out,
    regimes: Annotated[str, typer.Option(help="How they are dirtied, with commas.")] = ",".join(_REGIMES),
    replicates: Annotated[int, typer.Option(min=1, help="Draws of each table and regime.")] = 3,
    methods: Methods = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    timeout: Timeout = 1800.0,
    extend: Extend = False,
    retry_failed: Retry = False,
    register: Plugin = None,
    peers: Peers = False,
    quick: Quick = False,
    no_report: NoReport = False,
) -> None:
    """Real tables of yours, dirtied in six ways: every method on every table and regime."""
    with _one_line_errors(out):
        refuse_empty(regimes=regimes, methods=methods)
        from biasgp.study import Execution, TablesDesign, dirty_tables
        from biasgp.study.dirty_tables import METHODS

        chosen = _chosen(context, QUICK_TABLES, METHODS)
        design = TablesDesign(folder, _list(chosen["regimes"]), chosen["replicates"], chosen["methods"], seed)
        execution = Execution(jobs, scheduler, time_limit(timeout), retry_failed)
        _finish(dirty_tables(out, design, execution, extend=extend), no_report)


@app.command("report", epilog="Example: biasgp study report study")
def _report(folder: Annotated[Path, typer.Argument(help="Folder of a study.")]) -> None:
    """Tables, figures and the page again, from the folder's results alone."""
    with _one_line_errors(folder):
        from biasgp.study import load

        _finish(load(folder), no_report=False)


def _finish(results: Any, no_report: bool) -> None:
    bad = [row for row in results.rows if row["status"] != "ok"]
    say(f"{len(results.rows)} rows, {len(bad)} not ok: {results.folder / 'results.csv'}")
    if not no_report:
        from biasgp.report.study_page import write_page

        with lock(results.folder / ".page.lock", results.folder):
            say(f"page: {write_page(results)}")


def _chosen(context: typer.Context, quick: dict[str, Any], usual: Sequence[str] | None = None) -> dict[str, Any]:
    """All options, those of a quick study where the user has not said otherwise; methods as a list with the peers."""
    chosen = dict(context.params)
    if chosen["quick"]:
        said = [name for name in quick if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
        chosen |= {name: value for name, value in quick.items() if name not in said}
    added = _add_methods(chosen["register"], chosen["peers"])
    methods = None if chosen["methods"] is None else _list(chosen["methods"])
    if added:
        from biasgp.study.methods import BUILTIN

        methods = [*((usual or BUILTIN) if methods is None else methods), *added]
    return chosen | {"methods": methods}


def _numbers(option: str, text: str, kind: Callable[[str], float]) -> list[Any]:
    try:
        return [kind(part) for part in _list(text)]
    except ValueError:
        raise WrongUseError(f"{option} {text!r} is not a list of numbers with commas between them.") from None


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _add_methods(paths: list[Path] | None, peers: bool) -> list[str]:
    """Register what the user brings, and the peers that are there; the peers' names."""
    _load_plugins(paths)
    if not peers:
        return []
    from biasgp.study.peers import PEERS, register_peers

    notes = register_peers()
    remark(*notes)
    return [name for name in PEERS if not any(note.startswith(f"{name} ") for note in notes)]


def _load_plugins(paths: list[Path] | None) -> None:
    for path in map(Path, paths or ()):
        code = _compiled(path)
        try:
            # Not as an imported module: what it defines then travels to the workers by value.
            exec(code, {"__name__": f"biasgp_plugin_{path.stem}", "__file__": str(path)})
        except SystemExit as error:
            if error.code == TERMINATED:
                raise
            _refuse_plugin(path, _line_of(error, path), "it ends the program (sys.exit)")
        except Exception as error:  # whatever a stranger's file raises
            detail = " ".join(str(error).split())
            _refuse_plugin(path, _line_of(error, path), f"{type(error).__name__}: {detail}" if detail else repr(error))


def _compiled(path: Path) -> CodeType:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise WrongUseError(f"--register {str(path)!r} cannot be read: {error.strerror or error}.") from None
    try:
        text = data.decode("utf-8-sig")
        if "\0" in text:
            _refuse_plugin(path, text[: text.index("\0")].count("\n") + 1, "it holds zero bytes")
        return compile(text, str(path), "exec", dont_inherit=True)
    except UnicodeDecodeError as error:
        _refuse_plugin(path, data[: error.start].count(b"\n") + 1, "it is not UTF-8 text")
    except SyntaxError as error:
        _refuse_plugin(path, error.lineno or 1, f"{type(error).__name__}: {error.msg}")
    except (RecursionError, MemoryError):
        _refuse_plugin(path, 1, "it is nested too deeply")


def _refuse_plugin(path: Path, line: int, why: str) -> NoReturn:
    raise WrongUseError(f"--register {str(path)!r}, line {line}: {why.rstrip('.')}. Correct that file.")


def _line_of(error: BaseException, path: Path) -> int:
    """The innermost line of the file that the error went through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] or 1 if lines else 1


@contextmanager
def _one_line_errors(folder: Path) -> Iterator[None]:
    """Wrong use is exit code 2, trouble is 1, each with one line; Ctrl-C says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        remark(f"Stopped. Everything finished so far is in {folder}; the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None
    except (ValueError, FileNotFoundError, InUseError) as error:
        stop(str(error), WRONG_USE)
    except ModuleNotFoundError as error:
        stop(f"{error}. Studies need more than the core: pip install 'biasgp[study]'.", FAILED)
    except (OSError, RuntimeError) as error:
        stop(str(error), FAILED)
