"""report.html: one file that holds all it needs, plotly included."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from biasgp.report.fit_figures import (
    Figure,
    calibration_figure,
    effect_figure,
    quantile_figure,
    readings_figure,
    residual_figure,
    thinned,
)
from biasgp.report.fit_record import FitRecord
from biasgp.report.fit_script import JS
from biasgp.report.fit_style import CSS

MAX_TABLE_ROWS = 1000
# Nothing may be fetched: the browser refuses, whatever the page holds.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
# A fleet's pages share one copy of plotly, which lies beside them.
FILE_POLICY = POLICY.replace("script-src", "script-src 'self' file:")


def fit_page(record: FitRecord, plotly: str = "") -> str:
    """The whole page. `plotly` is where its script lies, relative to the page; left out, it is in the page."""
    figures = _figures(record)
    parts = [
        f"<h1>{escape(record.title)}</h1>",
        f'<p class="source">{escape(record.source)}</p>',
        _doubts(record),
        _first_numbers(record),
        *(f"<p>{escape(sentence)}</p>" for sentence in record.sentences),
        _remarks(record),
        _readings(record),
        _flagged(record),
        _effects(record),
        _checks(record),
        _made(record),
    ]
    # Within <script>, only "<" could end the data early; U+2028 would end a line of script.
    data = json.dumps(figures, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    library = f'<script src="{escape(plotly)}"></script>' if plotly else f"<script>{plotly_script()}</script>"
    parts += [f'<script type="application/json" id="figures">{data}</script>', library, f"<script>{JS}</script>"]
    return document(record.title, "\n".join(parts), FILE_POLICY if plotly else POLICY)


def plotly_script() -> str:
    """Plotly's own script."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def document(title: str, body: str, policy: str) -> str:
    """A page in our style."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style></head><body>\n{body}\n</body></html>\n"
    )


def _figures(record: FitRecord) -> dict[str, Figure]:
    figures = {"readings": readings_figure(record)}
    if np.isfinite(record.points.residual).any():
        figures["residuals"] = residual_figure(record)
        figures["quantiles"] = quantile_figure(record)
        figures["calibration"] = calibration_figure(record)
    for j, effect in enumerate(record.effects):
        figures[f"effect-{j}"] = effect_figure(record, effect)
    return figures


def _doubts(record: FitRecord) -> str:
    if not record.doubts:
        return '<p class="trust">The fit found no reason to doubt itself.</p>'
    items = "".join(f"<li>{escape(doubt)}</li>" for doubt in record.doubts)
    return (
        f'<section class="doubts" role="note"><h2>Look at this before you trust the fit</h2><ul>{items}</ul></section>'
    )


def _first_numbers(record: FitRecord) -> str:
    cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(what)}</span></div>" for what, value in record.figures)
    return f'<div class="figures">{cells}</div>'


def _remarks(record: FitRecord) -> str:
    if not record.remarks:
        return ""
    return '<ul class="remarks">' + "".join(f"<li>{escape(remark)}</li>" for remark in record.remarks) + "</ul>"


def _readings(record: FitRecord) -> str:
    shown, total = len(thinned(record)), len(record.points.y)
    note = f" {shown:,} of the {total:,} readings are drawn, all flagged ones among them." if shown < total else ""
    return (
        "<h2>The readings and the estimated truth</h2>"
        '<div class="bar"><button id="all" type="button">All readings</button>'
        '<button id="curve" type="button">Scale to the curve</button>'
        '<span class="hint screen">Drag to zoom in, double-click to zoom out, hover for the numbers.</span></div>'
        '<figure><div class="plot" id="readings" style="height:560px"></div><figcaption>Above: the readings, those '
        "flagged as outliers (crosses), and what the truth is estimated to be, with the band that holds it with 95 % "
        f"probability. Below: the estimated bias of each flagged reading, with its 95 % interval.{escape(note)}"
        "</figcaption></figure>"
    )


def _flagged(record: FitRecord) -> str:
    points = record.points
    rows = np.flatnonzero(points.flagged)
    if len(rows) == 0:
        return "<h2>Flagged readings</h2><p>None.</p>"
    rows = rows[np.argsort(record.axis.values[rows], kind="stable")]
    unit = f" ({record.unit})" if record.unit else ""
    heads = [record.axis.label, f"reading{unit}", f"estimated truth{unit}", f"bias{unit}", "±", "probability", "row"]
    head = "".join(f'<th scope="col"><button type="button">{escape(text)}</button></th>' for text in heads)
    body = "\n".join(_flagged_row(record, i) for i in rows[:MAX_TABLE_ROWS].tolist())
    more = (
        f"<p>The first {MAX_TABLE_ROWS:,} of {len(rows):,}; cleaned.csv has all of them.</p>"
        if len(rows) > MAX_TABLE_ROWS
        else ""
    )
    return (
        f"<h2>Flagged readings: {len(rows):,}</h2>"
        '<div class="bar"><button id="copy" type="button">Copy the table</button><span class="hint" id="copied" '
        'role="status">Click a heading to sort.</span></div>'
        f'<div class="scroll"><table class="flagged" id="flagged"><thead><tr>{head}</tr></thead><tbody>\n{body}\n'
        f"</tbody></table></div>{more}"
    )


def _flagged_row(record: FitRecord, i: int) -> str:
    points = record.points
    numbers: list[tuple[float, str]] = [
        (points.y[i], "{:.5g}"),
        (points.mean[i], "{:.4g}"),
        (points.bias[i], "{:+.4g}"),
        (1.96 * points.bias_std[i], "{:.2g}"),
        (points.probability[i], "{:.2f}"),
        (float(points.row[i]), "{:.0f}"),
    ]
    when = f'<td data-value="{float(record.axis.values[i]):.15g}">{escape(points.when[i])}</td>'
    return "<tr>" + when + "".join(_cell(value, form) for value, form in numbers) + "</tr>"


def _cell(value: Any, form: str) -> str:
    if not np.isfinite(value):
        return '<td data-value="">–</td>'
    return f'<td data-value="{float(value):.7g}">{form.format(float(value))}</td>'


def _effects(record: FitRecord) -> str:
    if not record.effects:
        return ""
    plots = "".join(
        f'<figure><h3>{escape(effect.label)}</h3><div class="plot" id="effect-{j}" style="height:280px"></div>'
        f"<figcaption>{escape(effect.words)}</figcaption></figure>"
        for j, effect in enumerate(record.effects)
    )
    return (
        "<h2>What each feature does</h2><p>The estimated truth as one feature changes, averaged over the values that "
        f'the others have in the readings, with its 95 % band.</p><div class="three">{plots}</div>'
    )


def _checks(record: FitRecord) -> str:
    if not np.isfinite(record.points.residual).any():
        return ""
    plots = "".join(
        f'<figure><h3>{title}</h3><div class="plot" id="{name}" style="height:280px"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
        for name, title, caption in (
            ("residuals", "Residuals", "Noise shows no pattern, and one in twenty lies outside the dotted lines."),
            ("quantiles", "Are they noise?", "Noise follows the line; ends that leave it are heavy tails."),
            (
                "calibration",
                "Are the intervals honest?",
                "On the dotted line they hold as many readings as they should.",
            ),
        )
    )
    return f'<h2>Is the fit any good?</h2><p>{escape(record.residuals_of)}</p><div class="three">{plots}</div>'


def _made(record: FitRecord) -> str:
    rows = "".join(f'<tr><th scope="row">{escape(what)}</th><td>{escape(how)}</td></tr>' for what, how in record.made)
    return f'<h2>How this was made</h2><table class="made"><tbody>{rows}</tbody></table>'
