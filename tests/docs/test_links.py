"""Links between pages of the repository lead somewhere; `make docs` holds those of the site, but not the README's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="the pages are in the repository")


def anchors(page: Path) -> set[str]:
    """What a heading is called in an address: small letters, digits and hyphens."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def source_of(target: Path) -> Path:
    """The file itself, or the script of which a page of the gallery is made."""
    return target.parents[1] / "examples" / f"{target.stem}.py" if target.parent.name == "gallery" else target


def broken_in(page: Path) -> list[str]:
    """Links of a page to a file or a heading that is not there."""
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):  # elsewhere
            continue
        path, _, anchor = link.partition("#")
        target = source_of((page.parent / path).resolve()) if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def test_links_between_pages_lead_somewhere():
    assert len(PAGES) > 15
    assert not {page.name: broken for page in PAGES if (broken := broken_in(page))}


def test_links_that_lead_nowhere_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Here it is\n[a](#here-it-is) [b](#gone) [c](gone.md) [d](page.md#gone) [e](gallery/plot_gone.rst)\n"
    )
    assert broken_in(page) == ["#gone", "gone.md", "page.md#gone", "gallery/plot_gone.rst"]
