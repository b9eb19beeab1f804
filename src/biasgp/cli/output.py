"""Files that are whole or not there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from biasgp.cli.console import WrongUseError

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"^[=+\-@\t\r\n＝＋－＠]")
NUMBER_LIKE = re.compile(r"^[+-]?[\d.,\s:eE%+-]*$")


@contextmanager
def new_folder(out: Path, *, force: bool) -> Iterator[Path]:
    """A folder to write into that becomes `out` at the end, if all went well; otherwise nothing is left of it.

    With `force`, the files take the place of those of the same names in `out`, and others there stay.
    """
    if out.exists() and not out.is_dir():
        raise WrongUseError(f"{str(out)!r} is a file. Choose another folder with --out.")
    if out.exists() and not force:
        raise WrongUseError(f"The folder {str(out)!r} is there already. Choose another --out, or add --force.")
    made = _make_parents(out.parent)
    try:
        stage = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
    except OSError as error:
        _remove_empty(made)
        raise WrongUseError(_unwritable(out.parent, error)) from error
    try:
        yield stage
        _sync(stage)
        with _uninterrupted():
            _move(stage, out)
        made = []
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        _remove_empty(made)


def write_whole(path: Path, write: Callable[[Path], None], *, force: bool) -> None:
    """Write a file beside `path`, then put it there."""
    if path.is_dir():
        raise WrongUseError(f"{str(path)!r} is a folder. Give the name of a file with --out.")
    if path.exists() and not force:
        raise WrongUseError(f"{str(path)!r} is there already. Choose another --out, or add --force.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    except OSError as error:
        raise WrongUseError(_unwritable(path.parent, error)) from error
    os.close(handle)
    stage = Path(name)
    try:
        write(stage)
        stage.chmod(0o666 & ~_umask())
        with _uninterrupted():
            stage.replace(path)
    finally:
        stage.unlink(missing_ok=True)


def inert(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table, with an apostrophe before text that a spreadsheet would run as a formula; in the header too."""
    import pandas as pd

    tamed = frame.copy(deep=False)
    for name in frame.columns:
        cells = frame[name]
        if pd.api.types.is_string_dtype(cells) or pd.api.types.is_object_dtype(cells):
            tamed[name] = cells.map(lambda cell: _inert(cell) if isinstance(cell, str) else cell)
    tamed.columns = [_inert(str(name)) for name in frame.columns]
    return tamed


def _inert(cell: str) -> str:
    # -3.2, +5 and 10-03-2004 are no formulas, and must stay numbers.
    risky = FORMULA.match(cell) and (cell[0] in "=@＝＋－＠\t\r\n" or not NUMBER_LIKE.match(cell))
    return f"'{cell}" if risky else cell


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


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def _unwritable(folder: Path, error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"Nothing can be written in {str(folder)!r} ({reason}). Choose another place with --out."


def _sync(stage: Path) -> None:
    """Have the disk confirm that it has the files; a full one may say so only now."""
    for path in stage.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _move(stage: Path, out: Path) -> None:
    if not out.exists():
        stage.chmod(0o777 & ~_umask())
        stage.rename(out)
        return
    for path in stage.iterdir():
        path.replace(out / path.name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits for the few renames inside."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
