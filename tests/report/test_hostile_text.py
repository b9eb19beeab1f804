"""A user's text on a page is text: whatever it holds, the page has the elements it has with harmless words."""

from __future__ import annotations

import html
import re
import tempfile
from pathlib import Path
from unittest.mock import patch
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from samples import fleet, parsed, record, sensor, simulated, with_text

from biasgp.report.fit_figures import MAX_LABEL, _label
from biasgp.report.fit_page import fit_page
from biasgp.report.fleet_page import fleet_page
from biasgp.report.pages import plotly_script, visible
from biasgp.report.study_page import write_page

pytest_plugins = ["chromium"]
PIECES = (
    *("<img src=x onerror='window.hacked=1'>", "<script>window.hacked=2</script>", "</script>", "</style>", "</title>"),
    *("<!--", "-->", "]]>", "<svg/onload=window.hacked=3>", '" onmouseover="window.hacked=4', "' autofocus onfocus='x"),
    *("{{7*7}}", "{% raw %}", "{# x #}", "%{customdata}", "%{x}<extra></extra>", "${7*7}", "$x^{$", "$$", "\\$", "\\"),
    *("javascript:window.hacked=5", "//example.org/x", "../../x", "C:\\x", "data:text/html,x", "?a#b", "&lt;", "&#60;"),
    *("<a href='javascript:window.hacked=6'>a</a>", "<br>", "<b>", "&quot;", "\u202e", "\u2066", "\u2028", "\u2029"),
    *("\x00", "\x1b[31m", "\r\n", "\t", "\x85", "\udc80", "\uffff", "=1+1", "µ", "方", "🙂", "a", " ", "/", "ok"),
)
EVERYTHING = "".join(PIECES)
hostile = st.one_of(
    st.sampled_from(PIECES),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join),
    st.text(min_size=1, max_size=80),
)
SHORT = record(40, 4, doubts=("doubt",))


def leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in (key, *leaves(item))]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


@given(text=hostile)
@example(text=EVERYTHING)
def test_the_page_of_a_fit(text):
    plain, found = (
        parsed(fit_page(with_text(SHORT, lambda _, text=t: text), "plotly.min.js").encode().decode())
        for t in ("word", text)
    )
    assert found.shape == plain.shape
    assert found.policy == plain.policy
    assert found.codes == plain.codes
    if text.strip():
        assert len(found.words) == len(plain.words)
        assert found.words[0] == visible(text)
    drawn, before = leaves(found.figures), leaves(plain.figures)
    assert len(drawn) == len(before)
    users = [now for now, then in zip(drawn, before, strict=True) if then != now]
    # Only titles of axes hold a user's text, and these have been through `label`.
    allowed = {_label(text), _label(f"bias ({text})"), _label(f"estimated truth ({text})")}
    assert set(users) <= allowed


@given(text=hostile)
@example(text=EVERYTHING)
def test_a_label_of_plotly_holds_no_markup_and_reads_as_the_text(text):
    made = _label(text)
    assert not re.search(r"[<>\"'{}$]|&(?!#\d+;)", made)
    assert html.unescape(made) == visible(text, MAX_LABEL)


@given(text=hostile)
@example(text=EVERYTHING)
@example(text="javascript:window.hacked=5")
@example(text="//example.org/x")
@example(text="/")
def test_the_page_of_a_fleet(text):
    def made(text: str) -> str:
        return fleet_page(text, text, text, with_text(fleet(), lambda _: text)).encode().decode()

    plain, found = parsed(made("word")), parsed(made(text))
    assert found.shape == plain.shape
    assert found.codes == plain.codes
    assert len(found.links) == len(fleet())
    for link in found.links:
        assert re.fullmatch(r"(?!/)[\w.~/%-]+", link, re.ASCII), link


@pytest.mark.parametrize("study", [simulated, sensor])
@settings(max_examples=8)
@given(text=hostile)
@example(text="x/../../../y")
def test_the_page_of_a_study(study, text):
    shapes = []
    # Figures are made, but not rendered, which would take most of the time.
    with tempfile.TemporaryDirectory() as above, patch.object(Figure, "savefig", lambda *_, **__: None):
        for name, words in (("plain", "word"), ("hostile", text)):
            folder = Path(above) / name
            folder.mkdir()
            found = parsed(write_page(study(folder, words)).read_text(encoding="utf-8"))
            shapes.append(found.shape)
            assert {path.name for path in folder.iterdir()} == {"report.html", "figures"}
            files = [path.suffix for path in (folder / "figures").iterdir()]
            assert (
                files.count(".svg")
                == files.count(".png")
                == len(files) / 2
                == sum(tag[0] == "img" for tag in found.shape)
            )
        assert {path.name for path in Path(above).iterdir()} == {"plain", "hostile"}
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("study", [simulated, sensor])
@pytest.mark.parametrize("text", ["$x^{$<script>", EVERYTHING])
def test_the_figures_of_a_study_are_drawn_and_sound(study, text, tmp_path):
    write_page(study(tmp_path, text))
    drawn = list((tmp_path / "figures").glob("*.svg"))
    assert len(drawn) >= 3
    for path in drawn:
        elements = list(ElementTree.parse(path).iter())
        assert {element.tag.rpartition("}")[2] for element in elements} <= {
            *("svg", "defs", "style", "g", "path", "use", "clipPath", "rect", "image", "metadata"),
            *("RDF", "Work", "type", "format", "creator", "Agent", "title"),
        }
        assert not [name for element in elements for name in element.attrib if name.startswith("on")]


def quiet(browser) -> bool:
    """Nothing ran, nothing was said, nothing was asked for."""
    asked = [url for url in browser.requests if not url.startswith(("file:", "data:", "blob:"))]
    assert browser.js("window.hacked") is None
    assert browser.complaints == []
    assert asked == []
    return True


@pytest.mark.parametrize("text", [EVERYTHING, *PIECES[:3], "%{customdata}<b>&quot;\"'$x$"])
def test_in_a_browser_the_page_of_a_fit_shows_the_text(chromium, tmp_path, text):
    path = tmp_path / "report.html"
    (tmp_path / "plotly.min.js").write_text(plotly_script(), encoding="utf-8")
    path.write_text(fit_page(with_text(SHORT, lambda _: text), "plotly.min.js"), encoding="utf-8")
    chromium.size(1200, 900)
    chromium.open(path)
    chromium.js("Plotly.Fx.hover('readings', [{ curveNumber: 2, pointNumber: 0 }])")
    assert quiet(chromium)
    assert chromium.js("document.querySelectorAll('img, svg a, .plot b').length") == 0
    shown = chromium.js("document.querySelector('#readings .ytitle').textContent")
    assert shown.split() == visible(text, MAX_LABEL).split()
    assert chromium.js("document.querySelector('h1').textContent").split() == visible(text).split()


def test_in_a_browser_the_links_of_a_fleet_stay_in_its_folder(chromium, tmp_path):
    path = tmp_path / "index.html"
    rows = [row for text in PIECES for row in with_text(fleet()[:1], lambda _, text=text: text)]
    path.write_text(fleet_page(EVERYTHING, EVERYTHING, EVERYTHING, rows), encoding="utf-8")
    chromium.open(path)
    chromium.js("document.querySelector('#flagged th button').click()")
    assert quiet(chromium)
    links = chromium.js("Array.from(document.querySelectorAll('a')).map(a => [a.protocol, a.host, a.hash, a.search])")
    assert len(links) == len(PIECES)
    assert {tuple(link) for link in links} == {("file:", "", "", "")}


@pytest.mark.parametrize("study", [simulated, sensor])
def test_in_a_browser_the_figures_of_a_study_are_shown(chromium, study, tmp_path):
    chromium.open(write_page(study(tmp_path, EVERYTHING)), "document.readyState === 'complete'")
    assert quiet(chromium)
    widths = chromium.js("Array.from(document.images).map(image => image.naturalWidth)")
    assert len(widths) >= 3 and min(widths) > 0


def test_in_a_browser_the_policy_holds_where_an_escape_is_forgotten(chromium, tmp_path):
    """As if a template had let markup through: the browser refuses to run it."""
    smuggled = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'><base href='file:///x'>"
    path = tmp_path / "report.html"
    path.write_text(fit_page(SHORT).replace("<h2>", smuggled + "<h2>", 1), encoding="utf-8")
    chromium.open(path)
    assert chromium.js("document.querySelectorAll('img').length") == 1
    assert chromium.js("window.hacked") is None
    assert chromium.js("document.baseURI") == path.as_uri()
    assert any("Content Security Policy" in said for said in chromium.complaints)
