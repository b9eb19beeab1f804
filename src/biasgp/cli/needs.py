"""Which columns a saved model needs, as `biasgp fit` notes it in the model file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from biasgp.messages import WrongUseError

if TYPE_CHECKING:
    from biasgp._typing import Array
    from biasgp.data.columns import Feature
    from biasgp.data.table import Format
    from biasgp.persistence import SavedModel


@dataclass(frozen=True)
class Needs:
    """What a model file says of the table it was fitted to: checked, for it may come from anywhere."""

    target: str
    features: tuple[Feature, ...]
    ranges: Array
    formats: dict[str, Format]
    together: str | None = None


def needs_of(saved: SavedModel, name: str) -> Needs:
    """Those of a model file of this name."""
    from biasgp.persistence import ModelFileError

    if "features" not in saved.about:
        raise WrongUseError(f"{name} does not say which columns it needs: it was not made by `biasgp fit`.")
    try:
        needs = _read_needs(saved.about)
        expected = getattr(saved.estimator, "feature_names_in_", None)
        columns = [*(feature.name for feature in needs.features), *filter(None, [needs.together])]
        if expected is None or columns != list(expected):
            raise ValueError
    except Exception:  # whatever notes that make no sense lead to
        reason = "what it says of its columns is not what `biasgp fit` writes, or not what its model needs"
        raise ModelFileError(f"{name} is damaged or forged: {reason}. Fit again.") from None
    return needs


def _read_needs(about: dict[str, Any]) -> Needs:
    """The same from the notes themselves; an error of whatever kind where they make no sense."""
    import numpy as np
    import pandas as pd

    from biasgp.data.columns import Feature
    from biasgp.data.table import Format

    features = []
    for fields in about["features"]:
        feature = Feature(**{**fields, "columns": tuple(fields["columns"])})
        names = (feature.name, *feature.columns)
        if not isinstance(fields["columns"], list) or not all(isinstance(name, str) for name in names):
            raise TypeError
        if not feature.columns or not isinstance(feature.is_time, bool) or not isinstance(feature.zoned, bool):
            raise TypeError
        origin = pd.Timestamp(feature.origin) if feature.is_time else pd.Timestamp(0)
        if pd.isna(origin) or origin.tz is not None:
            raise ValueError
        features.append(feature)
    ranges = np.array(about["ranges"])
    if ranges.shape != (len(features), 2) or ranges.dtype.kind not in "if" or not np.isfinite(ranges).all():
        raise ValueError
    if not isinstance(about["target"], str):
        raise TypeError
    formats = {
        column: Format(**{**fields, "marks": tuple(map(float, fields.get("marks", ())))})
        for column, fields in about.get("formats", {}).items()
    }
    if not all(form.decimal in ("", ",", ".") and form.day_first in (None, False, True) for form in formats.values()):
        raise ValueError
    if not isinstance(about.get("together"), str | None):
        raise TypeError
    return Needs(about["target"], tuple(features), ranges, formats, about.get("together"))
