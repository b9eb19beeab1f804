"""A study's page: one HTML file with its tables and figures in it, beside the numbers that the paper prints."""

from __future__ import annotations

import base64
import io
import math
import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from biasgp.report.study_figures import pictures, ranking_figure
from biasgp.study.paper import TABLE2
from biasgp.study.results import Results, Row, write_atomically
from biasgp.study.tables import Ranking, Table, claims, digits, mean, means, ranking, ratio, table1, unique, where

PAGE = "report.html"
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#111;background:#fff}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto;margin:1rem 0}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #ccc;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
.claims td{text-align:left;white-space:normal;vertical-align:top}
caption{text-align:left;font-weight:600;padding:.3rem 0}
img{max-width:100%;height:auto}figure{margin:1.5rem 0}figcaption{font-size:.85rem;color:#333}
@media print{body{max-width:none;margin:0}figure,table{break-inside:avoid}}
"""


def write_page(results: Results) -> Path:
    """Draw everything into the folder, `figures/` and the page, and return the page."""
    folder = results.folder / "figures"
    folder.mkdir(exist_ok=True)
    parts = _simulated(results) if results.kind == "simulated" else _sensor(results)
    drawn = [_figure(picture.figure, folder / picture.name, picture.caption) for picture in pictures(results)]
    title = f"The {results.kind} study"
    body = "\n".join([f"<h1>{title}</h1>", *_about(results), *parts, "<h2>Figures</h2>", *drawn])
    page = results.folder / PAGE
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    write_atomically(page, f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head>{body}</html>\n')
    return page


def _figure(figure: Figure, path: Path, caption: str) -> str:
    """Save as SVG and PNG, and return it for the page."""
    # Fixed identifiers and no date: the same results give the same files.
    with rc_context({"svg.hashsalt": "biasgp", "savefig.dpi": 130}):
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        # The layout is worked out once: it is most of the time that a figure takes.
        figure.set_layout_engine("none")
        png = io.BytesIO()
        figure.savefig(png, format="png", metadata={"Software": None})
    write_atomically(path.with_name(path.name + ".svg"), svg.getvalue())
    _write_bytes(path.with_name(path.name + ".png"), png.getvalue())
    data = base64.b64encode(svg.getvalue().encode()).decode()
    image = f'<img alt="{escape(caption, quote=True)}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _write_bytes(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(data)
    os.replace(temporary, path)  # noqa: PTH105


def _about(results: Results) -> Iterable[str]:
    study = results.study
    bad = [row for row in results.rows if row["status"] != "ok"]
    settings = "; ".join(
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in study["configuration"].items()
        if value != ""
    )
    versions = ", ".join(f"{name} {value}" for name, value in study["versions"].items() if value)
    yield f"<p>{len(results.rows)} rows, {len(bad)} of them not ok. {escape(settings)}.</p>"
    yield f"<p>biasgp {study['biasgp']}, {escape(versions)}; {study['machine']['cores']} cores.</p>"
    if bad:
        lines = [[_name(row), row["status"], row["message"]] for row in bad[:50]]
        yield _html(Table("Tasks that did not end well", ["task", "status", "reason"], lines), "claims")


def _name(row: Row) -> str:
    identity = ("dataset", "kernel", "scenario", "response", "share", "replicate", "method")
    return " ".join(str(row[name]) for name in identity if name in row)


def _html(table: Table, kind: str = "") -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in table.header)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in line) + "</tr>" for line in table.lines
    )
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    opening = f'<div class="wide"><table class="{kind}"><caption>{escape(table.title)}</caption>'
    return f"{opening}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{note}</div>"


def _simulated(results: Results) -> Iterable[str]:
    rows = results.rows
    yield "<h2>What the paper claims</h2>"
    found = [[claim.text, claim.verdict, claim.figures] for claim in claims(rows)]
    yield _html(Table("The paper's claims, with these figures", ["claim", "here", "figures"], found), "claims")
    yield _html(table1(rows))
    yield "<h2>Ranking</h2>"
    for dataset, kernel in dict.fromkeys((row["dataset"], row["kernel"]) for row in rows):
        here = where(rows, dataset=dataset, kernel=kernel)
        for measure in ("mse", "nlpd"):
            yield from _ranking(results.folder, here, measure, f"{dataset}, {kernel}", f"{dataset}-{kernel}")
    yield "<h2>Means over replicates (standard deviation)</h2>"
    for measure, form in _FORMS.items():
        for table in means(rows, measure, form):
            yield _html(table)


_FORMS = {
    "mse": ".4f",
    "mse_f": ".4f",
    "nlpd": ".3f",
    "nlpd_exact": ".3f",
    "coverage95": ".3f",
    "crps": ".4f",
    "precision": ".3f",
    "recall": ".3f",
    "fit_s": ".2f",
}


def _ranking(folder: Path, rows: Sequence[Row], measure: str, name: str, stem: str) -> Iterable[str]:
    found = ranking(rows, measure)
    if len(found.ranks) < 2:
        return
    title = f"{measure.upper()}, {name}: {found.blocks} data sets"
    yield _figure(ranking_figure(title, found), folder / "figures" / f"ranking-{stem}-{measure}", title)
    yield _html(_ranking_table(rows, measure, found, title))


def _ranking_table(rows: Sequence[Row], measure: str, found: Ranking, title: str) -> Table:
    best = found.ranks[0].method
    lines = []
    for rank in found.ranks:
        middle, low, high = ratio(rows, rank.method, best, measure)
        shown = f"{middle:.3f} [{low:.3f}, {high:.3f}]" if measure == "mse" and math.isfinite(middle) else ""
        lines.append([rank.method, f"{rank.rank:.2f}", f"{rank.low:.2f} – {rank.high:.2f}", shown])
    note = (
        "Ranks are of methods on the same data; intervals by bootstrap over replicates within scenarios. Two mean "
        f"ranks less than {found.critical:.2f} apart cannot be told apart (Nemenyi, 5 %)."
    )
    return Table(title, ["method", "mean rank", "95 % interval", f"mean ÷ {best}'s, 95 % interval"], lines, note)


def _sensor(results: Results) -> Iterable[str]:
    rows = results.rows
    yield _html(table2(rows))
    yield _html(beside_the_oracle(rows))
    yield _html(as_recorded(rows))
    for response in unique(rows, "response"):
        here = [row for row in where(rows, response=response) if row["share"] > 0.0]
        yield from _ranking(results.folder, here, "mse", str(response), str(response))


def _predictors(rows: Sequence[Row]) -> list[str]:
    return [str(name) for name in unique([row for row in rows if row["share"] > 0.0], "method")]


def table2(rows: Sequence[Row]) -> Table:
    """The paper's Table 2 beside ours."""
    methods = _predictors(rows)
    lines = []
    for response, share in dict.fromkeys((row["response"], row["share"]) for row in rows if row["share"] > 0.0):
        here = where(rows, response=response, share=share)
        for place, (measure, label, form) in enumerate(_TABLE2):
            name = f"{response}, {100 * share:g} %: {label}"
            lines.append([name, *(digits(mean(where(here, method=m), measure), form) for m in methods)])
            paper = TABLE2.get((str(response), float(share)), {})
            if place < 3 and paper:
                printed = (paper[m][place] if m in paper else math.nan for m in methods)
                lines.append([f"{name}, the paper's campaign", *(digits(value, form) for value in printed)])
    note = (
        "The paper's own measurements were never published: its numbers are of another campaign, so compare methods, "
        "not levels. The oracle is a plain GP fitted without the replaced and the flagged records."
    )
    return Table("Table 2: MSE, NLPD and TIME", ["response, share replaced", *methods], lines, note)


_TABLE2 = (
    ("mse", "MSE", ".4g"),
    ("nlpd", "NLPD", ".3f"),
    ("fit_s", "TIME, s", ".3g"),
    ("nlpd_exact", "exact NLPD", ".3f"),
    ("coverage95", "coverage of 95 %", ".3f"),
    ("precision", "precision", ".3f"),
    ("recall", "recall", ".3f"),
)


def beside_the_oracle(rows: Sequence[Row]) -> Table:
    """Mean MSE over the oracle's on the same draws with its interval, and the difference in exact NLPD."""
    methods = [name for name in _predictors(rows) if name != "oracle"]
    lines = []
    for response, share in dict.fromkeys((row["response"], row["share"]) for row in rows if row["share"] > 0.0):
        here = where(rows, response=response, share=share)
        line = [f"{response}, {100 * share:g} %"]
        for method in methods:
            middle, low, high = ratio(here, method, "oracle") if where(here, method="oracle") else (math.nan,) * 3
            gap = mean(where(here, method=method), "nlpd") - mean(where(here, method="oracle"), "nlpd")
            line.append("–" if math.isnan(middle) else f"{middle:.3f} [{low:.3f}, {high:.3f}]; {gap:+.3f}")
        lines.append(line)
    return Table("MSE ÷ the oracle's [95 % interval]; NLPD − the oracle's", ["response, share", *methods], lines)


def as_recorded(rows: Sequence[Row]) -> Table:
    """How the lists of outliers compare with the flags where nothing was replaced."""
    lines = [
        [f"{row['response']}, {row['method']}", *(digits(row[name], ".3g") for name in _RECORDED)]
        for row in rows
        if row["share"] == 0.0 and row["status"] == "ok"
    ]
    note = (
        "Gross: flagged, and more than 8 standard deviations from a plain GP's fit of the unflagged readings. "
        "Flagged unflagged: share of the readings without a flag that the method flags."
    )
    header = ["response, method", "precision", "recall", "gross flags", "of them found", "flagged unflagged", "TIME, s"]
    return Table("As recorded, nothing replaced", header, lines, note)


_RECORDED = ("precision", "recall", "n_gross", "gross_found", "clean_flagged", "fit_s")
