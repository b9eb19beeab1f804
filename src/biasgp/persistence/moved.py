"""Where the classes that model files name have moved to."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from biasgp.persistence.archive import SCHEMA

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
    "biasgp.models.sparse_bias.Group": "biasgp.models.sparse.kinds.Group",
    "biasgp.models.label_search.Step": "biasgp.models.sparse.search.Step",
}
"""Names in files of format 1 (version 0.1.0)."""


def with_moved_names(data: bytes) -> bytes:
    """The same file with the names that its classes have now."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        schema = json.loads(old.read(SCHEMA))
        renamed = _renamed(schema)
        if renamed == schema:
            return data
        for name in old.namelist():
            new.writestr(name, json.dumps(renamed) if name == SCHEMA else old.read(name))
    return out.getvalue()


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
