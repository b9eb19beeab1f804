"""Fitted estimators on disk: a skops file, that is a zip of arrays and JSON, never pickles.

It also holds `biasgp.json` (format, version, and what the writer wanted to note) and ends in a checksum. Loading
makes objects of this package's classes only, and of nothing before the whole file has been checked.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

import biasgp
from biasgp.estimators.base import BaseGP
from biasgp.persistence.archive import NOTE, ModelFileError, check_entries, with_checked_contents
from biasgp.persistence.trial import try_model

__all__ = ["ModelFileError", "SavedModel", "load", "load_model", "read_model", "save", "save_model"]

FORMAT = 2
"""1 had whole matrices where there are triangles now, and other names of classes; it can still be read."""
SEAL = b"biasgp-sha256:"
DIGEST = 64
MAX_DETAIL = 200
"""Characters of an error from elsewhere that are shown."""
MAX_VERSION = 20
"""Characters of the writer's version that are shown."""


@dataclass(frozen=True)
class SavedModel:
    """A fitted estimator (or what was made of one), and what was noted beside it.

    Examples
    --------
    >>> from biasgp import GaussianGP
    >>> from biasgp.persistence import SavedModel
    >>> SavedModel(GaussianGP(), about={"site": "roof"}).about["site"]
    'roof'
    """

    estimator: Any
    about: dict[str, Any] = field(default_factory=dict)


def save(model: BaseGP, path: str | Path) -> None:
    """Write a fitted estimator to a file, by convention `NAME.skops`, that `load` reads. Needs `biasgp[save]`.

    The file holds arrays and JSON, never pickles. The index of a pandas frame that the model was fitted to is not kept.

    Parameters
    ----------
    model : estimator of biasgp
        A fitted one. What is around it, such as a pipeline, is not saved.
    path : str or Path
        Where to; a file that is there is replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import biasgp
    >>> from biasgp.data import simulate
    >>> data = simulate("1d", 1)
    >>> model = biasgp.SparseBiasGP().fit(data.X, data.y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     biasgp.save(model, Path(folder) / "model.skops")
    ...     again = biasgp.load(Path(folder) / "model.skops")
    >>> bool((again.predict(data.X_test) == model.predict(data.X_test)).all())
    True
    """
    if not isinstance(model, BaseGP):
        what = type(model).__name__
        raise TypeError(f"save(model, path) takes a fitted estimator of biasgp first, and got a {what}.")
    check_is_fitted(model)
    save_model(path, model)


def load(path: str | Path) -> BaseGP:
    """The fitted estimator of a file that `save` or `biasgp fit` wrote. Needs `biasgp[save]`.

    All of the file is checked before anything is made of it, so it may come from anyone; what is wrong with it is a
    ModelFileError (a ValueError) of one line.

    Parameters
    ----------
    path : str or Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import biasgp
    >>> X = np.arange(20.0)[:, None]
    >>> model = biasgp.GaussianGP().fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     biasgp.save(model, Path(folder) / "model.skops")
    ...     again = biasgp.load(Path(folder) / "model.skops")
    >>> type(again).__name__
    'GaussianGP'
    """
    return load_model(path)


def save_model(path: str | Path, estimator: Any, about: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator, with notes that JSON can hold.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from biasgp import GaussianGP
    >>> from biasgp.persistence import read_model, save_model
    >>> X = np.arange(20.0)[:, None]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(Path(folder) / "model.skops", GaussianGP().fit(X, np.sin(X[:, 0])), about={"site": "roof"})
    ...     read_model(Path(folder) / "model.skops").about
    {'site': 'roof'}
    """
    skops_io = _skops_io()
    if getattr(estimator, "_index", None) is not None:  # of pandas, which no model file may hold
        estimator = copy(estimator)
        estimator._index = None
    note = {"format": FORMAT, "biasgp": biasgp.__version__, "about": dict(about or {})}
    buffer = io.BytesIO(skops_io.dumps(estimator))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr(NOTE, json.dumps(note))
        archive.comment = SEAL + b"0" * DIGEST
    # The comment ends a zip file, so the checksum of all that is before it can take its place.
    body = buffer.getvalue()[:-DIGEST]
    Path(path).write_bytes(body + hashlib.sha256(body).hexdigest().encode())


def load_model(path: str | Path, *, trusted: Iterable[str] = ()) -> BaseGP:
    """The estimator of a file made by `save_model`; `trusted` names foreign types that it may hold as well.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from biasgp import GaussianGP
    >>> from biasgp.persistence import load_model, save_model
    >>> X = np.arange(20.0)[:, None]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(Path(folder) / "model.skops", GaussianGP().fit(X, np.sin(X[:, 0])))
    ...     model = load_model(Path(folder) / "model.skops")
    >>> model.predict([[1.5]]).shape
    (1,)
    """
    found: BaseGP = read_model(path, trusted=trusted).estimator
    return found


def _skops_io() -> Any:
    """skops, if it is installed."""
    try:
        import skops.io
    except ImportError:
        raise ImportError("Model files are read and written with skops: pip install 'biasgp[save]'.") from None
    return skops.io


def _check_estimator(thing: Any) -> None:
    """Refuse what is no estimator that can predict."""
    if not isinstance(thing, BaseGP):
        raise ModelFileError(f"holds a {type(thing).__name__}, not a model of biasgp.")
    try_model(thing)


def read_model(
    path: str | Path, *, trusted: Iterable[str] = (), check: Callable[[Any], None] = _check_estimator
) -> SavedModel:
    """The estimator and its notes. Whatever is wrong with the file is a ModelFileError of one line.

    `check` refuses what was loaded with such an error; another one is for files that hold something else.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from biasgp import GaussianGP
    >>> from biasgp.persistence import read_model, save_model
    >>> X = np.arange(20.0)[:, None]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(Path(folder) / "model.skops", GaussianGP().fit(X, np.sin(X[:, 0])), about={"unit": "ppb"})
    ...     saved = read_model(Path(folder) / "model.skops")
    >>> type(saved.estimator).__name__, saved.about
    ('GaussianGP', {'unit': 'ppb'})
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"There is no file {str(path)!r}. `biasgp fit` writes one, model.skops.") from None
    except (OSError, ValueError) as error:  # a null character in the path is the latter
        raise ModelFileError(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    _skops_io()  # before what is wrong with the file
    cause = None
    try:
        return _read(data, frozenset(trusted), check)
    except ModelFileError as error:
        reason = str(error)
    except zipfile.BadZipFile:
        cut = data.startswith(b"PK\x03\x04")
        reason = "is cut short or damaged: copy it again." if cut else "is not a model file of biasgp."
    except Exception as error:  # the standard library, NumPy and skops raise whatever a malformed file leads to
        detail = f"{type(error).__name__}: {str(error)[:MAX_DETAIL]}"
        reason, cause = f"cannot be loaded ({detail}). Copy it again, or fit again.", error
    raise ModelFileError(" ".join(f"{Path(path).name} {reason}".split())) from cause


def _read(data: bytes, trusted: frozenset[str], check: Callable[[Any], None]) -> SavedModel:
    skops_io = _skops_io()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_entries(archive, len(data))
        note = _checked_note(json.loads(archive.read(NOTE)))
        if hashlib.sha256(data[:-DIGEST]).hexdigest().encode() != data[-DIGEST:]:
            raise ModelFileError("was changed or damaged since it was written. Copy it again, or fit again.")
    data, types = with_checked_contents(data, trusted)
    estimator = skops_io.loads(data, trusted=types)
    check(estimator)
    return SavedModel(estimator, note.get("about", {}))


def _checked_note(note: Any) -> dict[str, Any]:
    """The notes, if they are of a format that this version can read."""
    written = note.get("format") if isinstance(note, dict) else None
    if type(written) is not int or written < 1 or not isinstance(note.get("about", {}), dict):
        raise ModelFileError("is damaged (its notes make no sense): copy it again.")
    if written > FORMAT:
        raise ModelFileError(
            f"was written by biasgp {str(note.get('biasgp', '?'))[:MAX_VERSION]}, which is newer than this "
            f"{biasgp.__version__}. Update biasgp, or fit again."
        )
    return dict(note)
