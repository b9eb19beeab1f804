"""The index page of a fleet: a row for each group, with a link to its own page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from biasgp.report.pages import Cell, render

Row = Mapping[str, Any]


def fleet_page(title: str, source: str, unit: str, rows: Sequence[Row]) -> str:
    """The whole page. Rows are those of results.csv, with None for what a group without a fit has not."""
    ok = [row for row in rows if row["status"] == "ok"]
    doubtful = [row for row in ok if row["trustworthy"] is False]
    lasting = ["episodes"] if any("episodes" in row for row in rows) else []
    return render(
        "fleet.html",
        style="report.css",
        script="report.js",
        title=title,
        source=source,
        counts=[
            ("groups", f"{len(rows):,}"),
            ("fitted", f"{len(ok):,}"),
            ("not fitted", f"{len(rows) - len(ok):,}"),
            ("fits that doubt themselves", f"{len(doubtful):,}"),
            ("flagged readings", f"{sum(row['flagged'] or 0 for row in ok):,}"),
            *((name, f"{sum(row[name] or 0 for row in ok):,}") for name in lasting),
        ],
        heads=[
            "group",
            "readings",
            "flagged",
            "share",
            *lasting,
            f"noise{f' ({unit})' if unit else ''}",
            "s",
            "status",
        ],
        rows=[_cells(row) for row in rows],
        # Why groups were not fitted, or what their fits say against themselves.
        reasons=[row for row in rows if row["message"]],
        figures={},
    )


def _cells(row: Row) -> list[Cell]:
    share = row["flagged"] / row["readings"] if row["flagged"] is not None and row["readings"] else None
    doubtful = row["status"] == "ok" and row["trustworthy"] is False
    return [
        Cell(row["group"], href=_link(row["file"])),
        Cell.number(row["readings"], "{:,.0f}"),
        Cell.number(row["flagged"], "{:,.0f}"),
        Cell.number(share, "{:.1%}"),
        *([Cell.number(row["episodes"], "{:,.0f}")] if "episodes" in row else []),
        Cell.number(row["noise_std"], "{:.3g}"),
        Cell.number(row["seconds"], "{:.1f}"),
        Cell("look at it" if doubtful else row["status"]),
    ]


def _link(path: str) -> str:
    """A link relative to the page: never to another host, nor to a script."""
    link = quote(path, errors="replace")
    return f".{link}" if link.startswith("/") else link
