"""What may be in a model file, checked before anything is made of it: the zip's entries, the arrays, the schema. And
where the classes that older files name have moved to.

The checksum shows damage, not malice: whoever changes a file can write a new one. So nothing here relies on it.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import re
import zipfile
from collections.abc import Collection
from typing import Any

import numpy as np

NOTE, SCHEMA = "biasgp.json", "schema.json"
ENTRY = re.compile(r"schema\.json|biasgp\.json|[0-9]{1,20}\.npy")
ENCRYPTED = 0x1
"""Bit of a zip entry's flags."""
MAX_DEPTH = 200
"""Levels of the schema. Those of models have about 20, and two more for each kernel inside another."""
MAX_NAME = 40
"""Characters shown of an entry's name."""
MAX_TYPES = 5
"""Foreign types that are named."""
OUR_ROOMS = ("estimators", "models", "covariance", "kernels", "response", "optimize", "stream")
PLAIN = {
    "JsonNode": {"builtins.str"},
    "DictNode": {"builtins.dict"},
    "ListNode": {"builtins.list"},
    "TupleNode": {"builtins.tuple"},
    "SetNode": {"builtins.set"},
    "TypeNode": {"builtins.str", "builtins.int"},
    "ConstructorFromReduceNode": {"builtins.frozenset"},
    "NdArrayNode": {"numpy.ndarray", "numpy.float64", "numpy.int64", "numpy.bool", "numpy.bool_"},
}
"""What each of skops' loaders may make. Other loaders call what the file names, and no model needs them."""

_STATIONARY = ("SquaredExponential", "Exponential", "Matern32", "Matern52")
MOVED = {
    **{f"biasgp.kernels.{name}": f"biasgp.kernels.stationary.{name}" for name in _STATIONARY},
    "biasgp.kernels.Periodic": "biasgp.kernels.periodic.Periodic",
    "biasgp.kernels.Linear": "biasgp.kernels.linear.Linear",
    "biasgp.kernels.Constant": "biasgp.kernels.linear.Constant",
    "biasgp.kernels.Sum": "biasgp.kernels.base.Sum",
    "biasgp.kernels.Product": "biasgp.kernels.base.Product",
    "biasgp.sklearn_kernel.SklearnKernel": "biasgp.kernels.sklearn_adapter.SklearnKernel",
    "biasgp.models.posterior.Posterior": "biasgp.covariance.posterior.DensePosterior",
    "biasgp.models.posterior.AveragedPosterior": "biasgp.covariance.posterior.AveragedPosterior",
    "biasgp.models.large.posterior.VecchiaPosterior": "biasgp.covariance.vecchia_posterior.VecchiaPosterior",
    "biasgp.models.draws.DrawsPosterior": "biasgp.covariance.draws.DrawsPosterior",
    "biasgp.models.sparse_bias.Group": "biasgp.models.sparse.kinds.Group",
    "biasgp.models.label_search.Step": "biasgp.models.sparse.search.Step",
}
"""Where classes have moved to that older files name."""


class ModelFileError(ValueError):
    """The file is not a model that can be loaded; the message says why and what to do.

    Examples
    --------
    >>> import biasgp
    >>> biasgp.load("nowhere.skops")
    Traceback (most recent call last):
    biasgp.persistence.archive.ModelFileError: There is no file 'nowhere.skops'. `biasgp fit` writes one, model.skops.
    """


def check_entries(archive: zipfile.ZipFile, size: int) -> None:
    """Entries that biasgp writes, once each, as they are: none can unpack to more than the file of `size` bytes."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ModelFileError("was not written by biasgp (it is compressed).")
    if NOTE not in names or SCHEMA not in names:
        raise ModelFileError("is a skops or zip file, but not one that biasgp wrote.")
    if any(entry.flag_bits & ENCRYPTED for entry in entries):
        raise ModelFileError("was not written by biasgp (it is encrypted).")
    odd = [name for name in names if not ENTRY.fullmatch(name)]
    if odd:
        raise ModelFileError(f"holds an entry {odd[0][:MAX_NAME]!r}, which biasgp does not write.")
    if len(set(names)) < len(names):
        raise ModelFileError("holds an entry twice: it was changed since it was written.")
    if sum(entry.file_size for entry in entries) > size:
        raise ModelFileError("is cut short or damaged: copy it again.")


def with_checked_contents(data: bytes, trusted: frozenset[str]) -> tuple[bytes, list[str]]:
    """The same file with the names that its classes have now; and all types it names: ours, harmless or trusted."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        _check_arrays(old)
        written = json.loads(old.read(SCHEMA))
        schema, walk = _renamed(written), _Walk(old.namelist(), trusted)
        if schema != written:
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
                for name in old.namelist():
                    new.writestr(name, json.dumps(schema) if name == SCHEMA else old.read(name))
            data = out.getvalue()
    walk.visit(schema, 0)
    if walk.foreign:
        raise ModelFileError(
            f"holds types that are not biasgp's ({', '.join(sorted(walk.foreign)[:MAX_TYPES])}), so it was not loaded. "
            "Use only files from people you trust."
        )
    return data, sorted(walk.types)


def _check_arrays(archive: zipfile.ZipFile) -> None:
    """Arrays of numbers in NumPy's format, as long as their headers say."""
    for name in archive.namelist():
        if not name.endswith(".npy"):
            continue
        data = archive.read(name)
        stream = io.BytesIO(data)
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(stream)
        if dtype.kind not in "biuf" or not dtype.isnative:
            raise ModelFileError(f"holds an array of type {dtype}, which no model has.")
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
            raise ModelFileError("holds an array that is not as long as it says.")


class _Walk:
    """Over all nodes of a schema, whether skops would look at them or not."""

    def __init__(self, names: Collection[str], trusted: frozenset[str]) -> None:
        self.names, self.trusted = names, trusted
        self.types: set[str] = set()
        self.foreign: set[str] = set()
        self.sizes: dict[int, int] = {}

    def visit(self, state: Any, depth: int) -> int:
        """How many nodes there are in a state."""
        if depth > MAX_DEPTH:
            raise ModelFileError("is nested deeper than any model.")
        if isinstance(state, list):
            return sum(self.visit(part, depth + 1) for part in state)
        if not isinstance(state, dict):
            return 0
        if "__loader__" not in state and "__id__" not in state:
            return sum(self.visit(part, depth + 1) for part in state.values())
        self._check_type(state["__loader__"], f"{state['__module__']}.{state['__class__']}")
        identity = state["__id__"]
        if not isinstance(identity, int):
            raise ModelFileError("was changed since it was written (an id is not a number).")
        # An array that many nodes named would be in memory many times.
        file = state.get("file")
        if file is not None and (file != f"{identity}.npy" or file not in self.names):
            raise ModelFileError("was changed since it was written (an array is not where it should be).")
        # skops takes a node for the first one with its id. Where these differ in size, or one lies inside itself, few
        # bytes could unfold to any number of nodes.
        size = 1 + sum(self.visit(part, depth + 1) for part in state.values())
        if self.sizes.setdefault(identity, size) != size:
            raise ModelFileError("was changed since it was written (an id stands for two things).")
        return size

    def _check_type(self, loader: str, kind: str) -> None:
        if kind in PLAIN.get(loader, ()):
            if kind != "builtins.frozenset":  # skops wants to be told that it is trusted
                return
        elif kind not in self.trusted and not (loader == "ObjectNode" and _is_ours(kind)):
            self.foreign.add(kind)
            return
        self.types.add(kind)


def _is_ours(kind: str) -> bool:
    """Whether a dotted name is a class that this package defines where models are made. Imports nothing else."""
    module, _, name = kind.rpartition(".")
    package, _, rest = module.partition(".")
    if package != "biasgp" or rest.partition(".")[0] not in OUR_ROOMS:
        return False
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__ == module


def _renamed(part: Any) -> Any:
    if isinstance(part, list):
        return [_renamed(item) for item in part]
    if not isinstance(part, dict):
        return part
    renamed = {key: _renamed(value) for key, value in part.items()}
    name = MOVED.get(f"{part.get('__module__')}.{part.get('__class__')}")
    if name is not None:
        renamed["__module__"], _, renamed["__class__"] = name.rpartition(".")
    return renamed
