"""The documentation as it was built: links that lead somewhere, no serious barrier for anybody. `make docs` runs it.

BIASGP_SITE=docs/_build/html python -m pytest tests/docs/test_built_site.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Page, sync_playwright

from barriers import BINARY, MISSING, grave

SITE = Path(os.environ.get("BIASGP_SITE", ""))
KINDS = {
    "start": "index.html",
    "guide": "guide.html",
    "guide with formulas": "paper.html",
    "gallery": "gallery/index.html",
    "gallery page": "gallery/plot_first_fit.html",
    "API": "api/generated/biasgp.SparseBiasGP.html",
    "API of a package": "api/kernels.html",
    "wide tables": "benchmarks.html",
}
"""One page of each kind."""
pytestmark = pytest.mark.skipif("BIASGP_SITE" not in os.environ, reason="make docs looks at the site that it has built")


class Links(HTMLParser):
    """Where a page leads, and the places in it that can be led to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.to: set[str] = set()
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.to.add(value)
            elif value and name in ("id", "name"):
                self.ids.add(value)


@cache
def links_of(page: Path) -> Links:
    return Links(page.read_text(encoding="utf-8"))


def broken_in(page: Path) -> list[str]:
    """Links of a page within the site to a file or a place that is not there."""
    broken = []
    for link in links_of(page).to:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        target = target / "index.html" if target.is_dir() else target
        place = unquote(parts.fragment)
        if not target.exists() or (target.suffix == ".html" and place and place not in links_of(target).ids):
            broken.append(link)
    return sorted(broken)


def test_links_within_the_site_lead_somewhere():
    pages = [page for page in sorted(SITE.resolve().rglob("*.html")) if "_static" not in page.parts]
    assert len(pages) > 50
    assert not {str(page.relative_to(SITE.resolve())): found for page in pages if (found := broken_in(page))}


def test_links_that_lead_nowhere_are_found(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<a href="#here" id="here">a</a><a href="#gone">b</a><img src="gone.png"><a href="https://x.org">c</a>'
    )
    assert broken_in(page) == ["#gone", "gone.png"]


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Page]:
    if BINARY is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BINARY, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.route("http*://**", lambda route: route.abort())  # what is elsewhere (MathJax) is not ours to look at
        yield page
        browser.close()


@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing_serious(browser_page, kind):
    browser_page.goto((SITE / KINDS[kind]).resolve().as_uri(), wait_until="load")
    assert grave(browser_page) == []
