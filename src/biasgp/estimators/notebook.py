"""What came of a fit, in a few lines of HTML for a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from biasgp.estimators.episode_notes import described
from biasgp.messages import clip, printable, quantity

MOST_ROWS = 8
"""Episodes, doubts, and flagged readings that are listed: the rest is in `to_frame()`."""
LONGEST = 200
"""Characters of a sentence."""


def summary_html(estimator: Any) -> str:
    """Nothing before a fit. Only what the fit has found already is told: nothing is computed for it."""
    given = getattr(estimator, "_given", None)
    if given is None or not hasattr(estimator, "kernel_"):
        return ""
    mask = getattr(estimator, "outlier_mask_", None)
    counts = [f"{len(given.y)} readings"]
    if mask is not None:
        counts.append(f"{int(mask.sum())} flagged")
    counts.append(f"noise {quantity(float(np.sqrt(estimator.noise_variance_)), '')}")
    episodes = [described(each, "", given.y) for each in getattr(estimator, "episodes_", ())]
    parts = [
        f"<p><b>{escape(', '.join(counts))}</b><br>{_text(repr(estimator.kernel_))}</p>",
        _transforms(getattr(estimator, "response_weights_", {})),
        _list("Faults that lasted", episodes),
        _list("Reasons to doubt this fit", [str(each) for each in getattr(estimator, "diagnosis_", ())]),
        "" if mask is None else _flagged(estimator, given.y, mask),
    ]
    return f'<div class="biasgp-fit">{"".join(parts)}</div>'


def _transforms(weights: dict[str, float]) -> str:
    """Those that predictions are averaged over, where there are several."""
    if len(weights) < 2:
        return ""
    told = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
    return f"<p>Averaged over response transforms: {_text(told)}</p>"


def _text(text: str) -> str:
    return escape(clip(printable(text), LONGEST))


def _list(title: str, items: list[str]) -> str:
    if not items:
        return ""
    more = [f"and {len(items) - MOST_ROWS} more"] if len(items) > MOST_ROWS else []
    return f"<p>{title}:</p><ul>{''.join(f'<li>{_text(item)}</li>' for item in items[:MOST_ROWS] + more)}</ul>"


def _flagged(estimator: Any, y: Any, mask: Any) -> str:
    """The flagged readings with the largest biases, without those that are in episodes."""
    single = mask.copy()
    single[[row for episode in getattr(estimator, "episodes_", ()) for row in episode.rows]] = False
    rows = np.flatnonzero(single)
    rows = rows[np.argsort(-np.abs(estimator.bias_[rows]), kind="stable")][:MOST_ROWS]
    if not len(rows):
        return ""
    probability = getattr(estimator, "outlier_probability_", None)
    names = ["row", "reading", "bias", *([] if probability is None else ["probability"])]
    columns = [rows, y[rows], estimator.bias_[rows], *([] if probability is None else [probability[rows]])]
    cells = [[str(row), *(quantity(float(value), "") for value in rest)] for row, *rest in zip(*columns, strict=True)]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in line)}</tr>" for line in cells)
    every = len(rows) == single.sum()
    caption = "Single flagged readings" if every else f"The {len(rows)} single flagged readings that are furthest off"
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
