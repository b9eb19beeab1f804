"""Files that are whole or not there."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from biasgp import staging
from biasgp.cli import received
from biasgp.messages import WrongUseError


@contextmanager
def new_folder(out: Path, *, force: bool) -> Iterator[Path]:
    """A folder to write into that becomes `out` at the end, if all went well; otherwise nothing is left of it.

    Nobody else can write to `out` meanwhile. With `force`, the files take the place of those of the same names in
    `out`, and others there stay. Each file of `out` is the old or the new one at any moment. They are replaced in the
    order of their names: who finds the last one new (summary.json, after a fit) finds all of them new.
    """
    _refuse_folder(out, force)
    # The folder itself where `out` is a link to it, or '.': the stage must be on its disk, and lock that one folder.
    target = out.resolve()
    made = _make_parents(target.parent)
    try:
        with _stage(target, out.parent) as stage:
            _refuse_folder(out, force)  # a run that had the lock may have finished by now
            yield stage
            for path in stage.iterdir():  # have the disk confirm each; a full one may say so only now
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            _heed_requests()
            with _uninterrupted():
                if target.exists():
                    for path in sorted(stage.iterdir()):
                        path.replace(target / path.name)
                else:
                    stage.rename(target)
            made = []
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[Path]:
    """A path to write to that becomes `path` at the end, if all went well. Nobody else can write to it meanwhile."""
    _refuse_file(path, force)
    with _stage(path, path.parent) as folder:
        _refuse_file(path, force)
        stage = folder / f"file{path.suffix}"  # which says in what form it is to be written
        yield stage
        _heed_requests()
        with _uninterrupted():
            stage.replace(path)


def _refuse_folder(out: Path, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise WrongUseError(f"{str(out)!r} is a file. Choose another folder with --out.")
    if out.exists() and not force:
        raise WrongUseError(f"The folder {str(out)!r} is there already. Choose another --out, or add --force.")


def _refuse_file(path: Path, force: bool) -> None:
    if path.is_dir():
        raise WrongUseError(f"{str(path)!r} is a folder. Give the name of a file with --out.")
    if path.exists() and not force:
        raise WrongUseError(f"{str(path)!r} is there already. Choose another --out, or add --force.")


@contextmanager
def _stage(target: Path, parent: Path) -> Iterator[Path]:
    """The stage of `target`; if there can be none, that is said of `parent`, as the user called it."""
    with ExitStack() as held:
        try:
            folder = held.enter_context(staging.stage(target))
        except OSError as error:
            raise WrongUseError(_unwritable(parent, error)) from error
        yield folder


def _make_parents(folder: Path) -> list[Path]:
    """Make a folder and those above it; returns the new ones, innermost first."""
    missing = []
    while not folder.exists() and folder != folder.parent:
        missing.append(folder)
        folder = folder.parent
    try:
        for path in reversed(missing):
            path.mkdir()
    except OSError as error:
        raise WrongUseError(_unwritable(folder, error)) from error
    return missing


def _unwritable(folder: Path, error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"Nothing can be written in {str(folder)!r} ({reason}). Choose another place with --out."


def _heed_requests() -> None:
    """End here, with nothing left behind, if the exception of an earlier request to stop was lost in an import."""
    if received:
        raise SystemExit(128 + received[-1])


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Nothing asks the few renames inside to stop: Ctrl-C, SIGTERM, and a time limit, which rings again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
