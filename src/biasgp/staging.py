"""Files that are whole or not there, in places that one run at a time writes to.

What is written goes into a stage beside its target, `.NAME.partial`, and is moved there when it is whole. The stage is
locked for as long as its process lives, however that ends; so a stage without a lock is left over from a run that was
killed, and the next run into the same target removes it.

Where there are no locks (Windows, some network drives) two runs into one place are the user's to avoid.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PARTIAL, HOLDER, FILES = ".partial", "holder", "files"
RETRY_INTERVAL = 0.2
"""Seconds between two attempts to take a lock that another process has."""
ORPHANS_END = 600.0
"""Seconds to wait for what a run that was killed has left: worker processes end at once, fits on a cluster later."""
LONGEST_NAME = 200
"""Characters shown of who holds a lock."""
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})


class InUseError(RuntimeError):
    """Another run writes to the same place; the message says which one."""


@contextmanager
def lock(path: Path, place: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock file, on behalf of `place`; InUseError if another run still has it after `patience` seconds."""
    handle = _acquire(path, place, patience)
    try:
        yield
    finally:
        _release(handle, path)


@contextmanager
def stage(target: Path, patience: float = 0.0) -> Iterator[Path]:
    """An empty folder on the disk of `target`, for this process alone, that is gone afterwards."""
    around = _stage_of(target)
    files = around / FILES
    try:
        with lock(around / HOLDER, target, patience):
            try:
                # What is in it now is left over: its writer would have the lock.
                shutil.rmtree(files, ignore_errors=True)
                files.mkdir()
                yield files
            finally:
                shutil.rmtree(files, ignore_errors=True)
    finally:
        # Another run may have taken it at this very moment; then it is not empty.
        with suppress(OSError):
            around.rmdir()


def clear(target: Path, patience: float = 0.0) -> None:
    """Remove what a run that was killed has left of `target`; InUseError if one that lives is writing it."""
    if _stage_of(target).exists():
        with stage(target, patience):
            pass


def sweep(folder: Path) -> None:
    """`clear` every target in a folder; those that are being written stay."""
    for around in folder.glob(f".*{PARTIAL}"):
        with suppress(InUseError, OSError):
            clear(folder / around.name.removeprefix(".").removesuffix(PARTIAL))


def _stage_of(target: Path) -> Path:
    return target.with_name(f".{target.name}{PARTIAL}")


def _acquire(path: Path, place: Path, patience: float) -> int:
    until = time.monotonic() + patience
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # The run that had the stage removed it in between.
            continue
        if not _locked(handle):
            os.close(handle)
            if time.monotonic() >= until:
                raise InUseError(f"Another run is writing to {str(place)!r}: {_holder(path)}. Wait for it, or stop it.")
            time.sleep(RETRY_INTERVAL)
        elif _is_at(handle, path):
            since = datetime.now().astimezone().isoformat(" ", "seconds")
            try:
                os.ftruncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {socket.gethostname()}, since {since}".encode())
            except OSError:  # a full disk
                _release(handle, path)
                raise
            return handle
        else:  # Its last holder removed it after we had opened it: a lock that no other process sees.
            os.close(handle)


def _locked(handle: int) -> bool:
    """Whether the lock is ours now. The system lifts it when the process ends, however it ends."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True


def _is_at(handle: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False


def _holder(path: Path) -> str:
    text = ""
    with suppress(OSError):
        text = path.read_text(encoding="utf-8", errors="replace")[:LONGEST_NAME]
    return "".join(c for c in text if c.isprintable()) or "one that has just begun"


def _release(handle: int, path: Path) -> None:
    if fcntl is None:  # Windows removes no open file.
        os.close(handle)
        path.unlink(missing_ok=True)
        return
    # While it is locked: afterwards it may be that of another process.
    with suppress(OSError):
        path.unlink()
    os.close(handle)
