"""The page for everybody: screen readers, light and dark, a phone, and no more than the policy allows."""

from __future__ import annotations

from pathlib import Path

import esprima
import pytest
import tinycss2
from app_desk import PHONE, READY, table
from playwright.sync_api import expect

import biasgp.app
from barriers import grave

APP = Path(biasgp.app.__file__).parent
VIEWS = ("data", "readings", "changes", "sensors", "download")


def test_axe_finds_nothing_serious_in_any_view(desk, person):
    someone = person(desk)
    page = someone.plot(desk)
    desk.mark(rows=[20, 21], verdict="good")
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    found = {}
    for many in (True, False):  # questions about several readings, and about one
        one = next(each for each in desk.get("api/queue", n=20) if (each["count"] > 1) == many)
        page.click(f"#queue-{one['row']}" + (f"-{one['count']}" if many else ""))
        expect(page.locator("#explanation")).to_contain_text("If they are bad" if many else "expected without it")
        found["several" if many else "one"] = grave(page)
    for view in VIEWS:
        page.goto(f"{desk.url}#{view}")
        page.wait_for_selector(f"#view-{view}:not([hidden])")
        found[view] = grave(page)
    assert found == {name: [] for name in found}


def test_an_alarm_is_readable_and_the_dark_has_other_colours(tables, person):
    someone = person(color_scheme="dark")
    page = someone.open(tables, "data")
    someone.drop("good.csv", table(40).to_csv(index=False))
    page.wait_for_selector("#glance[data-drawn='40']")
    colour = "getComputedStyle(document.querySelector('#glance .xtick text')).fill"
    dark = page.evaluate(colour)
    page.emulate_media(color_scheme="light")
    someone.until(f"document.querySelector('#glance .xtick text') && {colour} !== {dark!r}")
    someone.drop("nothing.csv", "")
    expect(page.locator("#alarm button")).to_be_visible()
    assert grave(page) == []


def test_on_a_phone_nothing_is_wider_than_it_and_a_tap_selects(desk, person):
    someone = person(desk, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    page = someone.plot(desk)
    page.touchscreen.tap(*someone.at(100))
    expect(page.locator("#selected")).to_contain_text("Row ")
    page.locator("button[data-verdict=good]").tap()
    someone.says("1 reading marked good.")
    for view in VIEWS:
        page.goto(f"{desk.url}#{view}")
        page.wait_for_selector(f"#view-{view}:not([hidden])")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], view
    heights = page.evaluate(
        "[...document.querySelectorAll('button, select, nav a')].map(at => at.offsetHeight).filter(height => height)"
    )
    assert min(heights) >= 24


def test_an_old_address_opens_nothing(desk, browser):
    page = browser.new_page()
    answer = page.goto(desk.url.rsplit("/", 2)[0] + "/" + "A" * 43 + "/")
    assert answer.status == 404
    assert page.query_selector(READY) is None
    page.close()


@pytest.mark.parametrize("path", sorted((APP / "static").iterdir()), ids=lambda path: path.name)
def test_every_file_parses_and_makes_no_markup_of_a_text(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        esprima.parseModule(text)
    else:
        assert text.count("{") == text.count("}")
        assert [rule.message for rule in tinycss2.parse_stylesheet(text) if rule.type == "error"] == []
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "DOMParser",
        "eval(",
        "document.write",
        "http:",
        "https:",
        "@import",
        "url(",
    ):
        assert word not in text


def test_the_template_holds_no_code_and_leads_nowhere_else():
    text = (APP / "templates" / "app.html").read_text(encoding="utf-8")
    assert "style=" not in text and "http" not in text and " on" not in text.replace(" on ", " ").replace(" one", " ")
    assert text.count("<script") == text.count("<script src=") + text.count('<script type="module" src=') == 2
