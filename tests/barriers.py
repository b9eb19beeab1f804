"""Barriers that axe finds in a page, for the tests that open one in Chromium."""

from __future__ import annotations

import shutil
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

NAMES = ("chromium", "chromium-browser")
BINARY = next(filter(None, map(shutil.which, NAMES)), None)
MISSING = f"browser test: none of {', '.join(NAMES)} on the PATH"


def grave(page: Page) -> list[tuple[str, str, str]]:
    """What axe finds that is serious or critical in what is shown, in light and in dark, which is set back then."""
    found: list[tuple[str, str, str]] = []
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        # Without motion, since a colour that is still changing is neither.
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        results = Axe().run(page).response
        assert len(results["passes"]) > 10
        grave = (each for each in results["violations"] if each["impact"] in ("serious", "critical"))
        found += [(scheme, each["id"], each["nodes"][0]["html"][:120]) for each in grave]
    page.emulate_media(color_scheme=None, reduced_motion="reduce")
    return found
