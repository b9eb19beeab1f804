"""Fitted estimators on disk: a skops file, that is a zip of arrays and JSON, never pickles.

It also holds `biasgp.json` (format, version, and what the writer wanted to note) and ends in a checksum. Loading
makes objects of this package's classes only, and of nothing before the whole file has been checked.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import biasgp
from biasgp.estimators.base import BaseGP

FORMAT = 1
NOTE = "biasgp.json"
SEAL = b"biasgp-sha256:"
DIGEST = 64
OUR_ROOMS = ("estimators", "models", "covariance", "kernels", "sklearn_kernel", "response", "optimize")
HARMLESS = frozenset({"builtins.frozenset"})


class ModelFileError(ValueError):
    """The file is not a model that can be loaded; the message says why and what to do."""


@dataclass(frozen=True)
class SavedModel:
    """A fitted estimator, and what was noted beside it."""

    estimator: BaseGP
    about: dict[str, Any] = field(default_factory=dict)


def save_model(path: str | Path, estimator: BaseGP, about: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator, with notes that JSON can hold."""
    import skops.io

    note = {"format": FORMAT, "biasgp": biasgp.__version__, "about": dict(about or {})}
    buffer = io.BytesIO(skops.io.dumps(estimator))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr(NOTE, json.dumps(note))
        archive.comment = SEAL + b"0" * DIGEST
    # The comment ends a zip file, so the checksum of all that is before it can take its place.
    body = buffer.getvalue()[:-DIGEST]
    Path(path).write_bytes(body + hashlib.sha256(body).hexdigest().encode())


def load_model(path: str | Path, *, trusted: Iterable[str] = ()) -> BaseGP:
    """The estimator of a file made by `save_model`; `trusted` names foreign types that it may hold as well."""
    return read_model(path, trusted=trusted).estimator


def read_model(path: str | Path, *, trusted: Iterable[str] = ()) -> SavedModel:
    """The estimator and its notes."""
    import skops.io

    name = Path(path).name
    data = _bytes_of(Path(path))
    note = _note(data, name)
    if note["format"] > FORMAT:
        raise ModelFileError(
            f"{name} was written by biasgp {note.get('biasgp', '?')}, which is newer than this {biasgp.__version__}. "
            "Update biasgp, or fit again."
        )
    if hashlib.sha256(data[:-DIGEST]).hexdigest().encode() != data[-DIGEST:]:
        raise ModelFileError(f"{name} was changed or damaged since it was written. Copy it again, or fit again.")
    allowed = HARMLESS | set(trusted)
    try:
        types = skops.io.get_untrusted_types(data=data)
        foreign = [kind for kind in types if kind not in allowed and not _is_ours(kind)]
        if foreign:
            raise ModelFileError(
                f"{name} holds types that are not biasgp's ({', '.join(sorted(foreign)[:5])}), so it was not loaded. "
                "Use only files from people you trust."
            )
        estimator = skops.io.loads(data, trusted=types)
    except ModelFileError:
        raise
    except Exception as error:  # skops raises whatever a malformed schema leads to
        raise ModelFileError(f"{name} cannot be loaded ({type(error).__name__}: {error}). Fit again.") from error
    if not isinstance(estimator, BaseGP):
        raise ModelFileError(f"{name} holds a {type(estimator).__name__}, not a model of biasgp.")
    return SavedModel(estimator, note.get("about", {}))


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"There is no file {str(path)!r}. `biasgp fit` writes one, model.skops.") from None
    except OSError as error:
        raise ModelFileError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None


def _note(data: bytes, name: str) -> dict[str, Any]:
    """The notes of a file that is a whole zip, without compression: nothing in it can unpack to more than it is."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ModelFileError(f"{name} was not written by biasgp (it is compressed).")
            note = json.loads(archive.read(NOTE))
    except zipfile.BadZipFile:
        cut = data.startswith(b"PK\x03\x04")
        reason = "is cut short or damaged: copy it again" if cut else "is not a model file of biasgp"
        raise ModelFileError(f"{name} {reason}.") from None
    except KeyError:
        raise ModelFileError(f"{name} is a skops or zip file, but not one that biasgp wrote.") from None
    except (ValueError, EOFError, NotImplementedError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{name} is damaged: copy it again.") from None
    if not isinstance(note, dict) or not isinstance(note.get("format"), int):
        raise ModelFileError(f"{name} is damaged: copy it again.")
    return note


def _is_ours(kind: str) -> bool:
    """Whether a dotted name is a class that this package defines where models are made. Imports nothing else."""
    module, _, name = kind.rpartition(".")
    parts = module.split(".")
    if len(parts) < 2 or parts[0] != "biasgp" or parts[1] not in OUR_ROOMS:
        return False
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module
