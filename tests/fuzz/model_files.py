"""Damaged and forged model files: each is refused in one line, or gives a model that predicts numbers.

`run(count, seed)` makes so many of them and returns what went wrong, in words.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import pickle
import signal
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from biasgp.estimators import METHODS
from biasgp.messages import CovarianceError
from biasgp.persistence import DIGEST, SEAL, ModelFileError, load_model, save_model
from biasgp.persistence.archive import NOTE, SCHEMA

SLOW = 20.0
"""Seconds after which a load counts as hanging."""
MODELS: dict[str, dict[str, Any]] = {
    "gp": {},
    "sparse": {},
    "ep": {"response": "log"},
    "cob": {"approximation": "vecchia"},
    "mcmc": {"draws": 4, "tune": 4, "chains": 1},
}
NEW = np.array([[0.0], [0.31], [0.62], [0.93], [4.0]])
Rng = np.random.Generator
ALARMING = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class")
_heard: list[str] = []
_listening = False


@dataclass
class Contents:
    """A model file taken apart: what the zip says of each entry can be forged too."""

    entries: dict[str, bytes]
    extra: list[tuple[str, bytes]]
    flags: int = 0
    claimed: int = 0

    def json(self, name: str) -> Any:
        return json.loads(self.entries[name])

    def set_json(self, name: str, value: Any) -> None:
        self.entries[name] = json.dumps(value).encode()

    def arrays(self) -> list[str]:
        return [name for name in self.entries if name.endswith(".npy")]


@cache
def originals() -> tuple[bytes, ...]:
    """Small fitted models of several kinds, as files."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(size=(14, 1)), axis=0)
    y = 3.0 + np.sin(6.0 * X[:, 0]) + 0.1 * rng.standard_normal(14)
    y[4] += 3.0
    files = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, options in MODELS.items():
            path = Path(folder) / name
            save_model(path, METHODS[name](**options).fit(X, y), {"features": ["x"]})
            files.append(path.read_bytes())
    return tuple(files)


def apart(data: bytes) -> Contents:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return Contents({name: archive.read(name) for name in archive.namelist()}, [])


def together(contents: Contents) -> bytes:
    """A file with the right checksum, whatever is in it."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, data in [*contents.entries.items(), *contents.extra]:
            archive.writestr(name, data)
        for entry in archive.filelist:
            entry.flag_bits |= contents.flags
            entry.file_size += contents.claimed
            entry.compress_size += contents.claimed
        archive.comment = SEAL + b"0" * DIGEST
    return sealed(buffer.getvalue()[:-DIGEST])


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).hexdigest().encode()


def bit_flips(data: bytes, rng: Rng) -> bytes:
    changed = bytearray(data)
    for at in rng.integers(0, len(data), int(rng.integers(1, 6))):
        changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def truncated(data: bytes, rng: Rng) -> bytes:
    return data[: int(rng.integers(0, len(data)))]


def byte_runs(data: bytes, rng: Rng) -> bytes:
    at, length = int(rng.integers(0, len(data))), int(rng.integers(1, 300))
    filling = [rng.bytes(length), b"\0" * length, b"\xff" * length, b"", data[:length]][rng.integers(5)]
    return data[:at] + filling + data[at + length :]


def resealed(change: Callable[[bytes, Rng], bytes]) -> Callable[[bytes, Rng], bytes]:
    """The same by somebody who knows of the checksum."""
    return lambda data, rng: sealed(change(data[:-DIGEST], rng))


def forged(change: Callable[[Contents, Rng], None]) -> Callable[[bytes, Rng], bytes]:
    """A change of what is inside, in a whole zip."""

    def work(data: bytes, rng: Rng) -> bytes:
        contents = apart(data)
        change(contents, rng)
        return together(contents)

    return work


def zip_level(contents: Contents, rng: Rng) -> None:
    """Encrypted, twice, elsewhere, missing, larger than it is, or all of one file."""
    names = list(contents.entries)
    name = names[rng.integers(len(names))]
    kind = rng.integers(6)
    if kind == 0:
        contents.flags = int(rng.choice([0x1, 0x8, 0x40, 0x41, 0x800, 0x20]))
    elif kind == 1:
        contents.extra.append((name, contents.entries[name]))
    elif kind == 2:
        contents.entries[f"{rng.choice(['../', '/', 'C:/', './', '..//../'])}{name}"] = contents.entries[name]
    elif kind == 3:
        del contents.entries[name]
    elif kind == 4:
        contents.claimed = int(rng.choice([1, -1, 2**20, 2**31, 2**32 - 2]))
    else:
        contents.entries[name] = contents.entries[names[rng.integers(len(names))]]


NASTY_JSON = ("[" * 10_000 + "]" * 10_000, "1" * 5_000, "", "null", "true", "-1", "1e999", "NaN", '"x"', "[[1]]", "{}")


def notes(contents: Contents, rng: Rng) -> None:
    """Notes of other types, other formats, or no notes at all."""
    kind = rng.integers(3)
    if kind == 0:
        contents.entries[NOTE] = NASTY_JSON[rng.integers(len(NASTY_JSON))].encode()
        return
    note = contents.json(NOTE)
    values: list[Any] = [True, 1.0, 10**400, -1, 0, None, "1", [1], {}, float("nan"), 3]
    key = ["format", "about", "biasgp"][rng.integers(3)]
    note[key] = values[rng.integers(len(values))]
    contents.set_json(NOTE, note)


def nodes(state: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a schema."""
    if isinstance(state, dict):
        if "__loader__" in state:
            yield state
        for part in state.values():
            yield from nodes(part)
    elif isinstance(state, list):
        for part in state:
            yield from nodes(part)


EVIL = (
    ("os", "system", "FunctionNode"),
    ("builtins", "eval", "FunctionNode"),
    ("builtins", "open", "ConstructorFromReduceNode"),
    ("subprocess", "Popen", "ConstructorFromReduceNode"),
    ("subprocess", "Popen", "ObjectNode"),
    ("builtins", "map", "ListNode"),
    ("biasgp.covariance.cluster", "ClusterPool", "ConstructorFromReduceNode"),
    ("biasgp.kernels", "Sum", "ListNode"),
    ("biasgp.cli.fit", "fit", "FunctionNode"),
    ("operator", "methodcaller", "OperatorFuncNode"),
    ("functools", "partial", "PartialNode"),
    ("numpy.random", "Generator", "RandomGeneratorNode"),
    ("biasgp.estimators.gaussian", "GaussianGP", "MethodNode"),
    ("biasgp.messages", "CovarianceError", "ObjectNode"),
)


def types_swapped(contents: Contents, rng: Rng) -> None:
    """Nodes that name other types or other loaders: dangerous ones, or those of another node."""
    schema = contents.json(SCHEMA)
    every = list(nodes(schema))
    node = every[rng.integers(len(every))]
    if rng.integers(2):
        node["__module__"], node["__class__"], node["__loader__"] = EVIL[rng.integers(len(EVIL))]
    else:
        other = every[rng.integers(len(every))]
        for key in ("__module__", "__class__", "__loader__")[: int(rng.integers(1, 4))]:
            node[key] = other[key]
    contents.set_json(SCHEMA, schema)


def nodes_changed(contents: Contents, rng: Rng) -> None:
    """Keys dropped, values of other types, ids that point elsewhere, nodes inside themselves, deep nesting."""
    schema = contents.json(SCHEMA)
    every = list(nodes(schema))
    node, other = every[rng.integers(len(every))], every[rng.integers(len(every))]
    kind = rng.integers(6)
    if kind == 0:
        node.pop(list(node)[rng.integers(len(node))])
    elif kind == 1:
        values: list[Any] = [None, 0, -1, 1.5, "x", [], {}, [[]], {"__id__": 1}, True, 10**30]
        node[list(node)[rng.integers(len(node))]] = values[rng.integers(len(values))]
    elif kind == 2:
        node["__id__"] = other["__id__"]
    elif kind == 3:
        node["content"] = json.loads(json.dumps(other))
    elif kind == 4:
        node["content"] = {"__id__": other["__id__"]}
    else:
        contents.entries[SCHEMA] = NASTY_JSON[rng.integers(len(NASTY_JSON))].encode()
        return
    contents.set_json(SCHEMA, schema)


def values_changed(contents: Contents, rng: Rng) -> None:
    """Numbers and words of the model replaced."""
    schema = contents.json(SCHEMA)
    every = [node for node in nodes(schema) if node["__loader__"] == "JsonNode"]
    for _ in range(int(rng.integers(1, 3))):
        every[rng.integers(len(every))]["content"] = NASTY_JSON[rng.integers(len(NASTY_JSON))]
    contents.set_json(SCHEMA, schema)


def arrays_changed(contents: Contents, rng: Rng) -> None:
    """Arrays with other values, shapes or types."""
    names = contents.arrays()
    name = names[rng.integers(len(names))]
    array = np.load(io.BytesIO(contents.entries[name]))
    kind = rng.integers(5)
    if kind == 0 and array.dtype.kind == "f" and array.size:
        array = array.copy()
        array.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, -np.inf, 0.0, 1e308, -1e300, 1e-320])
    elif kind == 1:
        shapes: list[Any] = [array[:-1], array[:0], array[None], array.ravel(), array.T, np.repeat(array, 2, axis=0)]
        array = shapes[rng.integers(len(shapes))]
    elif kind == 2:
        array = array.astype([np.float32, np.int64, "U8", ">f8", np.complex128, "S3", "M8[s]"][rng.integers(7)])
    elif kind == 3:
        array = np.zeros_like(array)
    else:
        array = np.load(io.BytesIO(contents.entries[names[rng.integers(len(names))]]))
    buffer = io.BytesIO()
    np.save(buffer, array)
    contents.entries[name] = buffer.getvalue()


class Payload:
    """What a pickle would run."""

    def __reduce__(self) -> Any:
        import os

        return os.system, ("true",)


def bombs(contents: Contents, rng: Rng) -> None:
    """Arrays that are pickles or zips, that claim to be huge, or that many nodes refer to."""
    names = contents.arrays()
    name = names[rng.integers(len(names))]
    kind = rng.integers(4)
    if kind == 0:
        contents.entries[name] = pickle.dumps(Payload())
    elif kind == 1:
        buffer = io.BytesIO()
        np.save(buffer, np.array([Payload()], dtype=object), allow_pickle=True)
        contents.entries[name] = buffer.getvalue()
    elif kind == 2:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, a=np.zeros(10_000))
        contents.entries[name] = buffer.getvalue()
    else:
        shape = [(10**12,), (2**63,), (-1, -8), (10**6, 10**6), (0, 10**12)][rng.integers(5)]
        head = {"descr": "<f8", "fortran_order": False, "shape": shape}
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(buffer, head)
        contents.entries[name] = buffer.getvalue() + b"\0" * 64


def folded(contents: Contents, rng: Rng) -> None:
    """Few nodes that unfold to 2⁶⁰: lists of one list twice, by its id."""
    node: dict[str, Any] = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": "1"}
    node["__id__"] = 1
    for depth in range(60):
        twin = {**node, "content": []} if rng.integers(2) and depth else {"__id__": node["__id__"]}
        plain = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
        node = {**plain, "content": [node, twin], "__id__": depth + 2}
    schema = contents.json(SCHEMA)
    every = [each for each in nodes(schema) if each["__loader__"] in ("ListNode", "TupleNode")]
    every[rng.integers(len(every))]["content"] = [node]
    contents.set_json(SCHEMA, schema)


DAMAGES: dict[str, Callable[[bytes, Rng], bytes]] = {
    "bit flips": bit_flips,
    "truncated": truncated,
    "byte runs": byte_runs,
    "bit flips, checksum right": resealed(bit_flips),
    "byte runs, checksum right": resealed(byte_runs),
    "zip": forged(zip_level),
    "notes": forged(notes),
    "types": forged(types_swapped),
    "nodes": forged(nodes_changed),
    "values": forged(values_changed),
    "arrays": forged(arrays_changed),
    "bombs": forged(bombs),
    "folded": forged(folded),
}


class Hanging(BaseException):
    """Not an Exception: nothing may swallow it."""


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listening or not event.startswith(ALARMING):
        return
    # numba keeps what it has compiled in pickles of its own.
    if event != "pickle.find_class" or arguments[0] in ("os", "posix", "nt", "subprocess"):
        _heard.append(event)


sys.addaudithook(_hear)


@contextlib.contextmanager
def _guarded() -> Iterator[None]:
    """Inside, what is run is heard of, and what hangs ends."""
    global _listening

    def stop(*_: Any) -> None:
        raise Hanging

    _heard.clear()
    alone = threading.current_thread() is threading.main_thread()  # only there can a signal interrupt
    before = signal.signal(signal.SIGALRM, stop) if alone else None
    if alone:
        signal.setitimer(signal.ITIMER_REAL, SLOW)
    _listening = True
    try:
        yield
    finally:
        _listening = False
        if alone:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)


def trouble_with(data: bytes, path: Path) -> str:
    """What is wrong with how a file is dealt with; empty where nothing is."""
    path.write_bytes(data)
    try:
        with _guarded(), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = _outcome(path)
    except Hanging:
        return f"takes more than {SLOW:.0f} s"
    return f"runs {_heard[0]}" if _heard else found


def _outcome(path: Path) -> str:
    try:
        model = load_model(path)
    except ModelFileError as error:
        return "" if len(str(error).splitlines()) == 1 else "is refused in more than one line"
    except Exception as error:
        return f"leads to {type(error).__name__}: {str(error)[:100]}"
    try:
        results = model.predict(NEW, return_std=True)
    except (ValueError, CovarianceError) as error:
        return "" if len(str(error).splitlines()) == 1 else "fails to predict in more than one line"
    except Exception as error:
        return f"is loaded, and then predicting leads to {type(error).__name__}: {str(error)[:100]}"
    fine = all(values.shape == (len(NEW),) and np.isfinite(values).all() for values in results)
    return "" if fine else "is loaded, and predicts what are not numbers"


def run(count: int, seed: int) -> list[str]:
    """What went wrong in `count` cases, each with the seed that makes it again (`case`)."""
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            name, data = case(seed, number)
            began = time.monotonic()
            found = trouble_with(data, Path(folder) / "model.skops")
            if found:
                took = time.monotonic() - began
                failures.append(f"model file {seed}/{number} ({name}) {found} [{took:.1f} s]")
    return failures


def case(seed: int, number: int) -> tuple[str, bytes]:
    """The damage and the file of one case."""
    rng = np.random.default_rng([seed, number])
    names = list(DAMAGES)
    name = names[number % len(names)]
    return name, DAMAGES[name](originals()[rng.integers(len(MODELS))], rng)
