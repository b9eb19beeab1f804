"""The index page of a fleet: a row for each group, with a link to its own page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from biasgp.report.fit_page import FILE_POLICY, document
from biasgp.report.fit_script import JS


@dataclass(frozen=True)
class FleetRow:
    """One group: numbers are None where there is no fit."""

    group: str
    status: str
    page: str
    readings: int | None
    flagged: int | None
    noise_std: float | None
    seconds: float | None
    trustworthy: bool | None
    message: str


def fleet_page(title: str, source: str, unit: str, rows: Sequence[FleetRow]) -> str:
    """The whole page."""
    ok = [row for row in rows if row.status == "ok"]
    doubtful = [row for row in ok if row.trustworthy is False]
    numbers = [
        ("groups", f"{len(rows):,}"),
        ("fitted", f"{len(ok):,}"),
        ("not fitted", f"{len(rows) - len(ok):,}"),
        ("fits that doubt themselves", f"{len(doubtful):,}"),
        ("flagged readings", f"{sum(row.flagged or 0 for row in ok):,}"),
    ]
    cells = "".join(f"<div><b>{value}</b><span>{what}</span></div>" for what, value in numbers)
    heads = ["group", "readings", "flagged", "share", f"noise{f' ({unit})' if unit else ''}", "s", "status"]
    head = "".join(f'<th scope="col"><button type="button">{escape(text)}</button></th>' for text in heads)
    body = "\n".join(_row(row) for row in rows)
    return document(
        title,
        f'<h1>{escape(title)}</h1><p class="source">{escape(source)}</p><div class="figures">{cells}</div>'
        '<div class="bar"><button id="copy" type="button">Copy the table</button><span class="hint" id="copied" '
        'role="status">Click a heading to sort, a name for its report.</span></div>'
        f'<div class="scroll"><table class="flagged" id="flagged"><thead><tr>{head}</tr></thead><tbody>\n{body}\n'
        f"</tbody></table></div>{_reasons(rows)}"
        f'<script type="application/json" id="figures">{json.dumps({})}</script><script>{JS}</script>',
        FILE_POLICY,
    )


def _row(row: FleetRow) -> str:
    name = escape(row.group)
    link = f'<a href="{escape(quote(row.page))}">{name}</a>' if row.page else name
    share = row.flagged / row.readings if row.flagged is not None and row.readings else None
    cells = [
        _number(row.readings, "{:,.0f}"),
        _number(row.flagged, "{:,.0f}"),
        _number(share, "{:.1%}"),
        _number(row.noise_std, "{:.3g}"),
        _number(row.seconds, "{:.1f}"),
    ]
    words = {True: "ok", False: "look at it", None: "ok"}[row.trustworthy] if row.status == "ok" else row.status
    return f"<tr><td>{link}</td>{''.join(cells)}<td>{escape(words)}</td></tr>"


def _reasons(rows: Sequence[FleetRow]) -> str:
    """Why groups were not fitted, or what their fits say against themselves."""
    items = [f"<li><b>{escape(row.group)}</b>: {escape(row.message)}</li>" for row in rows if row.message]
    return f"<h2>What to look at</h2><ul>{''.join(items)}</ul>" if items else ""


def _number(value: float | None, form: str) -> str:
    if value is None or value != value:
        return '<td data-value="">–</td>'
    return f'<td data-value="{float(value):.7g}">{form.format(value)}</td>'
