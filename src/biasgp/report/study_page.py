"""A study's page: one HTML file with its tables and figures in it, beside the numbers that the paper prints."""

from __future__ import annotations

import base64
import io
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from biasgp.report.pages import render
from biasgp.report.study_figures import pictures, ranking_figure
from biasgp.study.beside_oracle import ORACLE, RANKED, split_by, summary
from biasgp.study.results import Results, Row, write_atomically
from biasgp.study.tables import (
    TABLE2,
    Ranking,
    ResultTable,
    claims,
    digits,
    mean,
    means,
    ratio,
    table1,
    unique,
    where,
)

MAX_STEM = 50
"""Characters, of up to four bytes, of a file's name; file systems take 255 bytes."""
MAX_BAD = 50
"""Tasks that did not end well on the page; results.csv has all of them."""
Part = tuple[str, object]
"""A piece of the page: its kind ("heading", "text", "table", "claims" or "figure"), and what it holds."""


def write_page(results: Results) -> Path:
    """Draw everything into the folder, `figures/` and the page, and return the page."""
    folder = results.folder / "figures"
    folder.mkdir(exist_ok=True)
    parts = [*_about(results), *_PARTS[results.kind](results)]
    parts.append(("heading", "Figures"))
    parts += [_figure(picture.figure, folder, picture.name, picture.caption) for picture in pictures(results)]
    page = results.folder / "report.html"
    title = f"The {results.kind} study"
    write_atomically(page, render("study.html", style="study.css", title=title, parts=parts))
    return page


def _figure(figure: Figure, folder: Path, name: str, caption: str) -> Part:
    """Save as SVG and PNG, and return it for the page."""
    # Fixed identifiers and no date: the same results give the same files. A sign that the font lacks is drawn as a box.
    with rc_context({"svg.hashsalt": "biasgp", "savefig.dpi": 130}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        # The layout is worked out once: it is most of the time that a figure takes.
        figure.set_layout_engine("none")
        png = io.BytesIO()
        figure.savefig(png, format="png", metadata={"Software": None})
    # A file name of its own without a path: what results call a kernel or a response must not leave the folder.
    stem = re.sub(r"[^\w+=@-]", "_", name)[:MAX_STEM]
    stem += "" if stem == name else f"-{sha256(name.encode(errors='replace')).hexdigest()[:8]}"
    write_atomically(folder / f"{stem}.svg", svg.getvalue())
    write_atomically(folder / f"{stem}.png", png.getvalue())
    data = base64.b64encode(svg.getvalue().encode()).decode()
    return "figure", {"caption": caption, "image": f"data:image/svg+xml;base64,{data}"}


def _about(results: Results) -> Iterable[Part]:
    study = results.study
    bad = [row for row in results.rows if row["status"] != "ok"]
    settings = "; ".join(
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in study["configuration"].items()
        if value != ""
    )
    versions = ", ".join(f"{name} {value}" for name, value in study["versions"].items() if value)
    yield "text", f"{len(results.rows)} rows, {len(bad)} of them not ok. {settings}."
    yield "text", f"biasgp {study['biasgp']}, {versions}; {study['machine']['cores']} cores."
    if bad:
        identity = ("dataset", "kernel", "scenario", "regime", "response", "share", "replicate", "method")
        names = [" ".join(str(row[name]) for name in identity if name in row) for row in bad[:MAX_BAD]]
        lines = [[name, row["status"], row["message"]] for name, row in zip(names, bad, strict=False)]
        yield "claims", ResultTable("Tasks that did not end well", ["task", "status", "reason"], lines)


def _simulated(results: Results) -> Iterable[Part]:
    rows = results.rows
    yield "heading", "What the paper claims"
    yield "claims", claims(rows)
    yield "table", table1(rows)
    yield "heading", "Ranking"
    for dataset, kernel in dict.fromkeys((row["dataset"], row["kernel"]) for row in rows):
        here = where(rows, dataset=dataset, kernel=kernel)
        for measure in ("mse", "nlpd"):
            yield from _ranking(results.folder, here, measure, f"{dataset}, {kernel}", f"{dataset}-{kernel}")
    yield "heading", "Means over replicates (standard deviation)"
    for measure, form in _FORMS.items():
        for table in means(rows, measure, form):
            yield "table", table


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


_LABELS = {"nlpd_dirty": "NLPD of dirty readings"}
_RATIOS = ("mse", "mae", "crps")
"""Measures that are never negative, so that a ratio of them says something."""


def _ranking(folder: Path, rows: Sequence[Row], measure: str, name: str, stem: str) -> Iterable[Part]:
    found = Ranking.of(rows, measure)
    if len(found.ranks) < 2:
        return
    title = f"{_LABELS.get(measure, measure.upper())}, {name}: {found.blocks} data sets"
    yield _figure(ranking_figure(title, found), folder / "figures", f"ranking-{stem}-{measure}", title)
    yield "table", _ranking_table(rows, measure, found, title)


def _ranking_table(rows: Sequence[Row], measure: str, found: Ranking, title: str) -> ResultTable:
    best = found.ranks[0].method
    lines = []
    for rank in found.ranks:
        middle, low, high = ratio(rows, rank.method, best, measure)
        shown = f"{middle:.3f} [{low:.3f}, {high:.3f}]" if measure in _RATIOS and math.isfinite(middle) else ""
        lines.append([rank.method, f"{rank.rank:.2f}", f"{rank.low:.2f} – {rank.high:.2f}", shown])
    note = (
        "Ranks are of methods on the same data; intervals by bootstrap over replicates within scenarios. Two mean "
        f"ranks less than {found.critical:.2f} apart cannot be told apart (Nemenyi, 5 %)."
    )
    return ResultTable(title, ["method", "mean rank", "95 % interval", f"mean ÷ {best}'s, 95 % interval"], lines, note)


def _sensor(results: Results) -> Iterable[Part]:
    rows = results.rows
    replaced = [row for row in rows if row["share"] > 0.0]
    yield "table", _table2(replaced)
    yield "table", _beside_the_oracle(replaced)
    yield "table", _as_recorded([row for row in rows if row["share"] == 0.0 and row["status"] == "ok"])
    for response in unique(rows, "response"):
        here = where(replaced, response=response)
        yield from _ranking(results.folder, here, "mse", str(response), str(response))


def _dirty_tables(results: Results) -> Iterable[Part]:
    rows = results.rows
    yield "table", summary(rows)
    yield (
        "table",
        split_by(rows, "regime", "By regime: MAE ÷ the oracle's (geometric mean); NLPD − the oracle's (median)"),
    )
    yield "table", split_by(rows, "dataset", "By table: the same")
    yield "heading", "Ranking"
    ranked = [row for row in rows if row["method"] != ORACLE]
    for measure in RANKED:
        yield from _ranking(results.folder, ranked, measure, "all tables and regimes", "tables")


_PARTS = {"simulated": _simulated, "sensor": _sensor, "tables": _dirty_tables}
"""What is said of each kind of study."""


def _table2(rows: Sequence[Row]) -> ResultTable:
    """The paper's Table 2 beside ours."""
    methods = [str(name) for name in unique(rows, "method")]
    lines = []
    for response, share in dict.fromkeys((row["response"], row["share"]) for row in rows):
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
    return ResultTable("Table 2: MSE, NLPD and TIME", ["response, share replaced", *methods], lines, note)


_TABLE2 = (
    ("mse", "MSE", ".4g"),
    ("nlpd", "NLPD", ".3f"),
    ("fit_s", "TIME, s", ".3g"),
    ("nlpd_exact", "exact NLPD", ".3f"),
    ("coverage95", "coverage of 95 %", ".3f"),
    ("precision", "precision", ".3f"),
    ("recall", "recall", ".3f"),
)


def _beside_the_oracle(rows: Sequence[Row]) -> ResultTable:
    """Mean MSE over the oracle's on the same draws with its interval, and the difference in NLPD."""
    methods = [str(name) for name in unique(rows, "method") if name != "oracle"]
    lines = []
    for response, share in dict.fromkeys((row["response"], row["share"]) for row in rows):
        here = where(rows, response=response, share=share)
        line = [f"{response}, {100 * share:g} %"]
        for method in methods:
            middle, low, high = ratio(here, method, "oracle") if where(here, method="oracle") else (math.nan,) * 3
            gap = mean(where(here, method=method), "nlpd") - mean(where(here, method="oracle"), "nlpd")
            line.append("–" if math.isnan(middle) else f"{middle:.3f} [{low:.3f}, {high:.3f}]; {gap:+.3f}")
        lines.append(line)
    return ResultTable("MSE ÷ the oracle's [95 % interval]; NLPD − the oracle's", ["response, share", *methods], lines)


def _as_recorded(rows: Sequence[Row]) -> ResultTable:
    """How the lists of outliers compare with the flags where nothing was replaced."""
    lines = [[f"{row['response']}, {row['method']}", *(digits(row[name], ".3g") for name in _RECORDED)] for row in rows]
    note = (
        "Gross: flagged, and more than 8 standard deviations from a plain GP's fit of the unflagged readings. "
        "Flagged unflagged: share of the readings without a flag that the method flags."
    )
    header = ["response, method", "precision", "recall", "gross flags", "of them found", "flagged unflagged", "TIME, s"]
    return ResultTable("As recorded, nothing replaced", header, lines, note)


_RECORDED = ("precision", "recall", "n_gross", "gross_found", "clean_flagged", "fit_s")
