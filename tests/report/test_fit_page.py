"""report.html: as text, and in a real browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from samples import NASTY, parsed, record

from biasgp.analysis.record import FitRecord
from biasgp.report.fit_figures import MAX_POINTS, SHADES
from biasgp.report.fit_page import MAX_TABLE_ROWS, fit_page

pytest_plugins = ["chromium"]
MEGABYTE = 1e6


def test_the_page_holds_all_it_needs_and_is_small_enough():
    page = fit_page(record(3000))
    assert len(page.encode()) < 6 * MEGABYTE
    own = page.replace(re.search(r"<script>/\*\*.*?</script>", page, re.DOTALL)[0], "")
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", own)
    assert "Flagged readings: 9" in page


def test_a_large_table_is_thinned_and_no_flagged_reading_lost():
    large = record(60_000, 500)
    rows = large.thinned(MAX_POINTS)
    assert len(rows) <= MAX_POINTS
    assert large.points.flagged[rows].sum() == 500
    assert np.all(np.diff(large.axis.values[rows]) >= 0)
    assert len(fit_page(large).encode()) < 6 * MEGABYTE


def test_more_flagged_readings_than_can_be_drawn():
    huge = record(20_000, 9_000)
    assert len(huge.thinned(MAX_POINTS)) <= MAX_POINTS
    page = fit_page(huge)
    assert len(page.encode()) < 6 * MEGABYTE
    assert page.count("<tr>") < MAX_TABLE_ROWS + 20
    assert "9,000; cleaned.csv has all of them" in page


def test_text_of_the_user_is_escaped_everywhere():
    page = fit_page(record(target=NASTY, doubts=(NASTY,)))
    assert "<script>window" not in page
    assert "<img" not in page.split("<script")[0]
    data = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])
    assert "<" not in data["readings"]["layout"]["yaxis"]["title"]["text"]


def test_doubts_come_first_and_their_absence_is_told():
    doubtful, sure = fit_page(record(doubts=("Too many are flagged.",))), fit_page(record())
    assert doubtful.index("Too many are flagged.") < doubtful.index("The readings and the estimated truth")
    assert "no reason to doubt" in sure and "no reason to doubt" not in doubtful


def test_a_fit_that_flags_nothing_and_knows_no_residuals_still_has_a_page():
    plain = record(n_flagged=0)
    points = replace(plain.points, residual=np.full(300, np.nan), probability=np.full(300, np.nan))
    page = fit_page(replace(plain, points=points, effects=()))
    assert "None." in page
    assert 'id="calibration"' not in page


def test_episodes_are_shaded_by_kind_and_listed_and_the_notes_are_told():
    made = record()
    page = fit_page(made)
    shapes = parsed(page).figures["readings"]["layout"]["shapes"]
    assert [shape["name"] for shape in shapes] == ["ramp", "stuck", "stuck", "shift", "step"], "the most certain first"
    assert [shape["name"] for shape in shapes if shape["showlegend"]] == ["ramp", "stuck", "shift", "step"]
    looks = {(shape["fillcolor"], shape["line"]["color"], shape["line"]["dash"]) for shape in shapes}
    assert len(looks) == 4 and len({dash for *_, dash in looks}) == 4
    assert [shapes[2]["x0"], shapes[2]["x1"]] == pytest.approx(made.episodes[0].span, rel=1e-12)
    assert "Episodes: 5" in page and page.count("+2.5 ± 0.4") == 5 and page.count("<td>words</td>") == 5
    assert page.index("no_ppb may have changed.") < page.index("The readings and the estimated truth")


def test_a_page_without_a_search_for_episodes_does_not_mention_them():
    page = fit_page(replace(record(), episodes=None, notes=()), "plotly.min.js")
    assert "pisode" not in page and "cannot tell" not in page
    assert parsed(page).figures["readings"]["layout"]["shapes"] == []
    assert "Episodes: 0" in fit_page(replace(record(), episodes=()), "plotly.min.js")


@pytest.fixture
def write(tmp_path):
    def write(made: FitRecord):
        path = tmp_path / "report.html"
        path.write_text(fit_page(made), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def usual_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "usual.html"
    path.write_text(fit_page(record()), encoding="utf-8")
    return path


@pytest.fixture
def usual(chromium, usual_page):
    """The browser with the page of the usual record, drawn once for the tests that only look at it or click there."""
    chromium.size(1200, 900)
    if chromium.js("location.pathname") != str(usual_page):
        chromium.open(usual_page)
    return chromium


def test_in_a_browser_each_kind_of_episode_is_in_the_legend(usual):
    chromium = usual
    legend = chromium.js("Array.from(document.querySelectorAll('#readings .legendtext')).map(t => t.textContent)")
    assert [name for name in legend if name in SHADES] == ["ramp", "stuck", "shift", "step"]
    assert chromium.js("document.querySelectorAll('#readings .shapelayer path').length") >= 5
    listed = chromium.js("Array.from(document.querySelectorAll('.plain tbody tr')).map(r => r.cells[0].textContent)")
    assert listed == ["stuck", "shift", "step", "ramp", "stuck"]
    assert chromium.complaints == []


def test_in_a_browser_no_figure_offers_to_send_the_readings_away(usual):
    """Plotly has a button that uploads a chart through a window of its own, which no content policy forbids."""
    chromium = usual
    buttons = chromium.js("Array.from(document.querySelectorAll('.modebar-btn')).map(b => b.dataset.title)")
    assert len(buttons) >= 5
    assert not [title for title in buttons if "share" in title.lower() or "cloud" in title.lower()]
    context = "Array.from(document.querySelectorAll('.plot')).map(p => p._context)"
    assert chromium.js(f"{context}.filter(c => c.showSendToCloud || c.plotlyServerURL).length") == 0


def test_in_a_browser_the_table_sorts_both_ways_and_copies(usual):
    chromium = usual
    column = "Array.from(document.querySelectorAll('#flagged tbody tr')).map(r => Number(r.cells[3].dataset.value))"
    heading = "document.querySelectorAll('#flagged th button')[3].click()"
    chromium.js(heading)
    up = chromium.js(column)
    chromium.js(heading)
    down = chromium.js(column)
    assert up == sorted(up) and down == up[::-1] and len(set(up)) > 5
    assert chromium.js("document.querySelectorAll('#flagged th')[3].getAttribute('aria-sort')") == "descending"
    chromium.js(
        "var copied; document.execCommand = function () { copied = document.activeElement.value; return true };"
    )
    chromium.js("void Object.defineProperty(window, 'isSecureContext', { value: false })")
    chromium.js("document.getElementById('copy').click()")
    chromium.wait("document.getElementById('copied').textContent === 'Copied.'")
    lines = chromium.js("copied").splitlines()
    assert len(lines) == 10 and all(line.count("\t") == 6 for line in lines)


def test_in_a_browser_the_buttons_rescale_the_readings(usual):
    chromium = usual
    top = "document.getElementById('readings')._fullLayout.yaxis.range[1]"
    everything = chromium.js(top)
    chromium.js("document.getElementById('curve').click()")
    chromium.wait(f"{top} < {everything} - 3")
    chromium.js("document.getElementById('all').click()")
    chromium.wait(f"{top} > {everything} - 0.01")


def test_in_a_browser_everything_is_drawn_without_a_complaint_or_a_request(chromium, write):
    path = write(record(1400, 45))
    chromium.size(1200, 900)
    chromium.open(path)
    # A page that hangs, not a machine that is slow: it takes well under three seconds where nobody else works.
    assert chromium.js("performance.getEntriesByName('interactive')[0].startTime") < 30_000
    assert chromium.complaints == []
    assert [url for url in chromium.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    plots = chromium.js("Array.from(document.querySelectorAll('.plot')).map(p => p.querySelectorAll('.trace').length)")
    assert len(plots) == 6 and min(plots) >= 1
    assert chromium.js("document.querySelectorAll('#readings .points path').length") >= 1400


def test_in_a_browser_nothing_of_the_user_runs(chromium, write):
    chromium.size(1200, 900)
    chromium.open(write(record(target=NASTY, doubts=(NASTY,))))
    assert chromium.js("window.hacked") is None
    assert chromium.js("document.querySelectorAll('img').length") == 0
    assert "<script>" in chromium.js("document.querySelector('h1').textContent")


@pytest.mark.parametrize("width", [320, 390])
def test_at_phone_width_nothing_sticks_out(chromium, write, width):
    chromium.size(width, 800, mobile=True)
    chromium.open(write(record(target="a_long_name_without_a_space_" * 4)))
    assert chromium.js("document.documentElement.scrollWidth") <= width
    assert (
        chromium.js("Math.max(...Array.from(document.querySelectorAll('.plot svg')).map(s => s.clientWidth))") <= width
    )
    chromium.call("Emulation.clearDeviceMetricsOverride")


def test_on_paper_the_whole_table_is_there(chromium, write):
    chromium.size(1200, 900)
    chromium.open(write(record(n_flagged=60)))
    chromium.call("Emulation.setEmulatedMedia", media="print")
    assert chromium.js("getComputedStyle(document.querySelector('.bar')).display") == "none"
    assert chromium.js("getComputedStyle(document.querySelector('.scroll')).maxHeight") == "none"
    chromium.call("Emulation.setEmulatedMedia", media="")
