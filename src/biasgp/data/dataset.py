"""NetCDF files and Zarr stores to cells: the variables along one dimension, with their units, through xarray."""

from __future__ import annotations

import io
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biasgp.data.csv_text import Cells, refuse_duplicates
from biasgp.data.sources import LIMITS, Content
from biasgp.messages import TableError, clip

SHOWN = 6
"""Variables that a remark lists."""


@contextmanager
def opened(source: Content, *, decoded: bool = True) -> Iterator[Any]:
    """The xarray Dataset of a source; with `decoded` False as it is in the file, and not as it is meant."""
    try:
        import xarray as xr
    except ImportError as error:
        what = "a Zarr store" if source.kind == "zarr" else "a NetCDF or HDF5 file"
        raise TableError(f"{source.name} is {what}, which needs more: pip install 'biasgp[netcdf]'.") from error
    with ExitStack() as held, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of calendars, and of stores without a summary of their metadata
        try:
            held.enter_context(dataset := _open(xr, source, held, decoded))
        except TableError:
            raise
        except Exception as error:  # each engine has its own
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            what = "Zarr store" if source.kind == "zarr" else "NetCDF file"
            raise TableError(
                f"{source.name} cannot be read as a {what} ({clip(reason, 120)}). Write it again."
            ) from None
        yield dataset


def _open(xr: Any, source: Content, held: ExitStack, decoded: bool) -> Any:
    if source.kind != "zarr":
        engine = "scipy" if source.data.startswith(b"CDF") else "h5netcdf"
        return xr.open_dataset(io.BytesIO(source.data), engine=engine, decode_cf=decoded)
    folder = source.path
    if source.data:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            archive.extractall(folder)  # which keeps to the folder, whatever the names in it
    return xr.open_zarr(folder, chunks=None, decode_cf=decoded)


def read_dataset(source: Content) -> tuple[Cells, str]:
    """The cells of the variables along the dimension that most have, and the name of that."""
    with opened(source) as dataset:
        # As large as they say they are, whatever the file takes on disk.
        size = sum(int(each.nbytes) for each in dataset.variables.values())
        LIMITS.refuse(size, max(len(source.data), LIMITS.unsuspicious if source.kind == "zarr" else 0), source.name)
        dataset = dataset.squeeze()
        along = Counter(each.dims[0] for each in dataset.variables.values() if each.ndim == 1)
        if not along:
            raise TableError(f"{source.name} has no variable along a dimension of more than one value.")
        (first, most), *others = along.most_common()
        if others and others[0][1] == most:
            times = [dim for dim, count in along.items() if count == most and _is_time(dataset, dim)]
            if len(times) != 1:
                shown = ", ".join(repr(str(dim)) for dim in along)
                raise TableError(
                    f"{source.name} has variables along {shown}, none of which is the dimension of the readings. "
                    "Write those that you mean into a file of their own, along one dimension."
                )
            first = times[0]
        names = [name for name, each in dataset.variables.items() if each.dims == (first,)]
        names.sort(key=lambda name: name not in dataset.coords)  # the time first
        rest = [str(name) for name in dataset.variables if name not in names and dataset.variables[name].ndim]
        refuse_duplicates([str(name) for name in names], source.name)
        frame = pd.DataFrame({str(name): _column(dataset.variables[name]) for name in names})
        if first not in names:
            frame = frame.reset_index(drop=True)
        units = {str(name): str(dataset.variables[name].attrs.get("units", "")) for name in names}
    shown = ", ".join(repr(clip(name)) for name in rest[:SHOWN]) + (" and more" if len(rest) > SHOWN else "")
    notes = (f"Not read: {shown}, along other dimensions than {str(first)!r}.",) if rest else ()
    return Cells(frame, units={name: unit for name, unit in units.items() if unit not in ("", "1")}, notes=notes), str(
        first
    )


def _is_time(dataset: Any, dim: Any) -> bool:
    return dim in dataset.variables and dataset.variables[dim].dtype.kind == "M"


def _column(variable: Any) -> pd.Series:
    """Numbers and times as they are, all else as text."""
    values = np.asarray(variable.values)
    if values.dtype.kind == "M":
        return pd.Series(values)
    if values.dtype.kind in "iufb":
        return pd.Series(values.astype(values.dtype.newbyteorder("=")))
    if values.dtype.kind == "m":  # a quantity in units of time, which is a number all the same
        return pd.Series(values / np.timedelta64(1, "h"))
    return pd.Series([_text(value) for value in values.tolist()], dtype=object)


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    return value.decode("utf-8", errors="replace").rstrip("\x00") if isinstance(value, bytes) else str(value)
