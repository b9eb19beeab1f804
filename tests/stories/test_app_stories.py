"""What a person does at the page of `biasgp app`, in a real browser against a real server."""

from __future__ import annotations

import io
import json
import re
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from app_desk import EVERYTHING, assert_calm, table
from playwright.sync_api import expect

from barriers import grave


def german() -> str:
    """Semicolons, decimal commas, days first, and a mark for what is missing."""
    values = [f"{15.0 + 3.0 * np.sin(i / 9.0):.2f}".replace(".", ",") for i in range(90)]
    values[3] = "n/v"
    days = pd.date_range("2024-05-01", periods=90).strftime("%d.%m.%Y")
    lines = [f"{day};{i % 7},5;{value}" for i, (day, value) in enumerate(zip(days, values, strict=True))]
    return "\n".join(["Zeit;Tiefe;Temperatur", *lines]) + "\n"


def test_a_table_is_dropped_understood_and_corrected(serve, person):
    server = serve()
    someone = person(server)
    page = someone.open(server)
    expect(page.locator("#drop")).to_contain_text("Drop a table here")
    expect(page.locator("#fit")).to_be_disabled()
    someone.drop("messung.csv", german())
    expect(page.locator("#problem")).to_contain_text("'Temperatur', row 4: 'n/v' is not a number")
    expect(page.locator("#fit")).to_be_disabled()
    page.get_by_role("button", name="Treat n/v as missing").click()
    page.wait_for_selector("#glance[data-drawn='89']")
    understood = server.get("api/project")["understood"]
    assert (understood["target"], understood["separator"], understood["decimal"]) == ("Temperatur", ";", "comma")
    rows = page.locator("#columns tbody tr")
    expect(rows).to_have_count(3)
    expect(page.locator("#columns tr.target")).to_contain_text("Temperatur")
    expect(page.locator("#preview tbody tr")).to_have_count(20)
    expect(page.locator("#understood")).to_contain_text("89 readings in 90 rows")

    page.get_by_label("Use of the column Tiefe").select_option("unused")
    expect(page.locator("#columns tr.unused")).to_contain_text("Tiefe")
    assert server.get("api/project")["options"]["features"] == ["Zeit"]
    page.get_by_label("Use of the column Tiefe").select_option("target")
    expect(page.locator("#columns tr.target")).to_contain_text("Tiefe")
    expect(page.locator("#glance")).to_have_attribute("aria-label", re.compile("Tiefe over"))
    page.get_by_label("Decimal mark").select_option("point")
    expect(page.locator("#alarm, #problem").filter(has_text=re.compile("Tiefe|decimal"))).not_to_have_count(0)
    page.get_by_label("Decimal mark").select_option("")
    expect(page.locator("#problem")).to_be_hidden()
    # The answer to this change, not one to the change before, which may be on its way still.
    with page.expect_response(lambda answer: "kernel" in (answer.request.post_data or "")):
        page.get_by_label("Kernel").select_option("se")
    assert server.get("api/project")["options"]["kernel"] == "se"
    someone.complaints = [text for text in someone.complaints if "422" not in text]


@pytest.mark.parametrize("kind", ["parquet", "xlsx"])
def test_other_kinds_of_tables_are_taken(kind, tables, person):
    if kind == "xlsx" and find_spec("biasgp.data.workbook") is None:
        pytest.skip("no reader of workbooks")
    server, stream = tables, io.BytesIO()
    readings = table(60).assign(time=lambda frame: pd.to_datetime(frame["time"]))
    readings.to_parquet(stream) if kind == "parquet" else readings.to_excel(stream, index=False)
    someone = person(server)
    page = someone.open(server)
    page.set_input_files("#file", {"name": f"a.{kind}", "mimeType": "", "buffer": stream.getvalue()})
    page.wait_for_selector("#glance[data-drawn='60']")
    expect(page.locator("#source")).to_have_text(f"a.{kind} · 60 rows")


def test_a_table_that_is_none_is_refused_in_words(tables, person):
    server = tables
    someone = person(server)
    page = someone.open(server)
    someone.drop("picture.csv", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(200))
    expect(page.locator("#alarm, #problem").filter(has_text=re.compile(r"\w+ \w+"))).not_to_have_count(0)
    someone.drop("good.csv", table(40).to_csv(index=False))
    page.wait_for_selector("#glance[data-drawn='40']")
    expect(page.locator("#alarm")).to_be_empty()
    someone.complaints.clear()  # the browser notes a refusal


def test_a_fit_is_watched_cancelled_and_done_while_one_works_on(serve, person, tmp_path):
    source = tmp_path / "readings.csv"
    table(150).to_csv(source, index=False)
    server = serve(None, str(source))
    someone = person(server)
    page = someone.open(server, "readings")
    page.wait_for_selector("#plot[data-drawn='150']")
    page.click("#fit")
    expect(page.locator("#job")).to_be_visible()
    expect(page.locator("#left")).to_contain_text(re.compile(r"so far, about \S+ s left"))
    page.click("#cancel")
    someone.says("cancelled")
    assert server.get("api/project")["fits"] == []
    page.click("#fit")
    expect(page.locator("#job")).to_be_visible()
    someone.click(40)
    page.keyboard.press("g")
    someone.says("1 reading marked good.")
    assert server.verdicts() == {40: "good"}
    someone.fitted()
    expect(page.locator("#state")).to_contain_text("flagged")
    page.wait_for_selector("#queue button")
    assert "Refit" in page.inner_text("#fit")
    assert server.verdicts() == {40: "good"}


class TestSelecting:
    def test_one_by_a_click_several_with_shift_undo_and_redo(self, desk, person):
        someone = person(desk)
        page = someone.plot(desk)
        someone.click(30)
        expect(page.locator("#selected")).to_contain_text("Row 30, 2024-05-02 05:00")
        page.keyboard.down("Shift")
        someone.click(50)
        page.keyboard.up("Shift")
        expect(page.locator("#selected")).to_contain_text("2 readings")
        page.fill("#why", "a truck passed")
        someone.judge("bad")
        someone.says("2 readings marked bad: a truck passed.")
        assert desk.verdicts() == {30: "bad", 50: "bad"}
        assert desk.get("api/explain", row=30)["why"] == "a truck passed"

        someone.click(12)
        page.keyboard.press("b")
        someone.says("marked bad")
        someone.judge("open")
        someone.says("marked undecided")
        assert 12 not in desk.verdicts()
        page.keyboard.press("Control+z")
        someone.says("Undone: 1 reading.")
        assert desk.verdicts()[12] == "bad"
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("#state")).to_contain_text("0 judged good, 2 bad.")
        assert 12 not in desk.verdicts()
        page.keyboard.press("Control+Shift+z")
        someone.says("Done again: 1 reading.")
        assert desk.verdicts()[12] == "bad"

    def test_zoom_a_box_a_lasso_and_an_interval(self, desk, person):
        someone = person(desk)
        page = someone.plot(desk)
        (x, y), (far, _) = someone.at(60), someone.at(100)
        someone.drag((x, y - 60), (far, y + 60))
        ends = "document.getElementById('plot').layout.xaxis.range.map(end => Date.parse(end + 'Z') / 36e5)"
        span = f"(([a, b]) => b - a)({ends})"
        someone.until("document.getElementById('plot').layout.xaxis.autorange !== true")
        assert page.evaluate(span) == pytest.approx(40, abs=1)
        page.get_by_role("button", name="All readings", exact=True).click()
        someone.until(f"{span} > 190")
        page.get_by_role("button", name="Scale to the curve").click()
        flagged = max(desk.get("api/plot")["y"])
        someone.until(f"document.getElementById('plot').layout.yaxis.range[1] < {flagged}")
        page.get_by_role("button", name="All readings", exact=True).click()
        someone.until(f"document.getElementById('plot').layout.yaxis.range[1] > {flagged}")

        (x, y), (far, _) = someone.at(80), someone.at(90)
        someone.choose("Box")
        someone.drag((x - 3, y - 12), (far + 3, y + 12))
        expect(page.locator("#selected")).to_contain_text(re.compile("readings|Row 80"))
        page.keyboard.press("b")
        someone.says("marked bad")
        boxed = desk.verdicts()
        assert 80 in boxed and set(boxed) <= set(range(80, 91))
        page.keyboard.press("Escape")
        expect(page.locator("#selected")).to_have_text("Nothing is selected.")

        someone.choose("Lasso")
        x, y = someone.at(120)
        someone.drag((x - 12, y - 12), (x + 12, y - 12), (x + 12, y + 12), (x - 12, y + 12), (x - 12, y - 10))
        expect(page.locator("#selected")).to_contain_text(re.compile("Row 120|readings"))
        page.keyboard.press("g")
        someone.says("marked good")
        assert desk.verdicts()[120] == "good"

        someone.choose("Interval")
        (x, y), (far, _) = someone.at(150), someone.at(160)
        someone.drag((x - 1, y), (far + 1, y))
        expect(page.locator("#selected")).to_contain_text("All readings from 2024-05-07")
        someone.judge("bad")
        someone.says("11 readings marked bad.")
        assert {row for row in desk.verdicts() if row > 140} == set(range(150, 161))

    def test_without_a_mouse(self, desk, person):
        """Tab to the plot, arrows, shift, space, letters; an interval by its ends; rows by their numbers."""
        someone = person(desk)
        page = someone.plot(desk)
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "plot":
                break
        page.keyboard.press("Home")
        someone.says("row 1, 2024-05-01")
        page.keyboard.press("ArrowRight")
        someone.says("row 2,")
        for _ in range(3):
            page.keyboard.press("Shift+ArrowRight")
        someone.says("4 readings selected. row 5,")
        page.keyboard.press("Control+ArrowRight")
        page.keyboard.press("Control+ArrowRight")
        someone.says("row 7,")
        page.keyboard.press("Space")
        expect(page.locator("#selected")).to_contain_text("5 readings")
        page.keyboard.press("b")
        someone.says("5 readings marked bad.")
        assert set(desk.verdicts()) == {2, 3, 4, 5, 7}
        page.keyboard.press("ArrowDown")
        someone.says("flagged, probability")
        page.keyboard.press("+")
        someone.until("document.getElementById('plot').layout.xaxis.autorange !== true")
        page.keyboard.press("0")
        page.locator("summary", has_text="Select by row").press("Enter")
        page.fill("#rows", "100, 110-112")
        page.locator("#rows").press("Enter")
        someone.says("4 readings")
        page.fill("#from", "2024-05-06")
        page.fill("#to", "2024-05-06 05:00")
        page.locator("#to").press("Enter")
        someone.says("All readings from 2024-05-06 to 2024-05-06 05:00: 6")
        page.locator("button[data-verdict=good]").press("Enter")
        someone.says("6 readings marked good.")
        assert {row for row, said in desk.verdicts().items() if said == "good"} == set(range(121, 127))
        page.locator("summary", has_text="Keyboard").press("Enter")
        page.get_by_label("Letters alone are orders").uncheck()
        page.locator("#plot").focus()
        page.keyboard.press("Home")
        page.keyboard.press("b")
        page.keyboard.press("ArrowRight")
        someone.says("row 2")
        assert 1 not in desk.verdicts()


def test_why_and_the_queue_of_those_worth_a_look(desk, person):
    someone = person(desk)
    page = someone.plot(desk)
    queue = desk.get("api/queue", n=20)
    first, second = [each for each in queue if each["count"] == 1][:2]
    expect(page.locator(f"#queue-{first['row']}")).to_contain_text(f"Row {first['row']}")
    for _ in range(queue.index(first) + 1):
        page.keyboard.press("n")
    expect(page.locator("#explanation")).to_contain_text(f"Row {first['row']}")
    told = desk.get("api/explain", row=first["row"])
    expect(page.locator("#explanation")).to_contain_text(told["words"][0][:60])
    expect(page.locator("#explanation")).to_contain_text("expected without it")
    expect(page.locator("#explanation")).to_contain_text("prior")
    page.locator(f"#queue-{second['row']}").click()
    expect(page.locator("#queue button[aria-current=true]")).to_contain_text(f"Row {second['row']}")
    page.keyboard.press("g")
    someone.says("marked good")
    expect(page.locator(f"#queue-{second['row']}")).to_have_count(0)
    expect(page.locator("#explanation .tag")).to_have_text("judged good")
    page.locator("#explanation button.link").first.click()
    expect(page.locator("#explanation")).not_to_contain_text(f"Row {second['row']} ·")


def test_several_readings_are_judged_as_one(desk, person):
    someone = person(desk)
    page = someone.plot(desk)
    queue = desk.get("api/queue", n=20)
    one = next(each for each in queue if each["count"] > 1)
    rows = {row for first, last in one["rows"] for row in range(first, last + 1)}
    line = page.locator(f"#queue-{one['row']}-{one['count']}")
    expect(line).to_contain_text(one["if_bad"])
    for _ in range(queue.index(one) + 1):
        page.keyboard.press("n")
    expect(line).to_have_attribute("aria-current", "true")
    expect(page.locator("#explanation")).to_contain_text(one["if_good"])
    expect(page.locator("#selected")).to_contain_text(f"{one['count']} readings, judged as one")
    page.keyboard.press("b")
    someone.says(f"{one['count']} readings marked bad.")
    assert desk.verdicts() == dict.fromkeys(rows, "bad")
    expect(line).to_have_count(0)
    page.keyboard.press("Control+z")
    someone.says("Undone")
    # Undecided: it is not asked again, but perhaps its parts.
    line.click()
    someone.judge("open")
    expect(line).to_have_count(0)
    assert desk.verdicts() == {}
    page.keyboard.press("Control+z")
    expect(line).to_have_count(1)


def test_a_table_grows_and_has_dates_of_service(tables, person):
    someone = person(tables)
    page = someone.open(tables, "data")
    someone.drop("growing.csv", table(40).to_csv(index=False))
    page.wait_for_selector("#glance[data-drawn='40']")
    tables.mark(rows=[3, 7], verdict="bad", why="cleaning")
    grown = table(50)
    grown.loc[:39] = table(40)
    grown.loc[6, "temperature_C"] += 0.5
    someone.drop("growing.csv", grown.to_csv(index=False))
    someone.says("1 verdict was carried over from the table before. 1 was not (row 7 of that table)")
    expect(page.locator("#understood")).to_contain_text("1 verdict was carried over")
    assert tables.verdicts() == {3: "bad"}
    page.fill("#events", "2024-05-01 12:00")
    page.press("#events", "Enter")
    someone.says("Changed.")
    assert tables.get("api/project")["options"]["events"] == ["2024-05-01 12:00"]
    services = b"who,time\nme,2024-05-01 20:00\nyou,2024-05-02 06:00\n"
    page.set_input_files("#events-file", {"name": "services.csv", "mimeType": "text/csv", "buffer": services})
    expect(page.locator("#events")).to_have_value("2024-05-01 20:00, 2024-05-02 06:00")
    page.fill("#events", "yesterday")
    page.press("#events", "Enter")
    expect(page.locator("#alarm")).to_contain_text("'yesterday'")
    expect(page.locator("#events")).to_have_value("2024-05-01 20:00, 2024-05-02 06:00")
    someone.complaints.clear()  # the browser notes a refusal


def test_a_refit_says_what_changed_and_nothing_is_lost_when_the_server_is_killed(serve, fitted, person):
    server = serve(fitted)
    someone = person()
    page = someone.plot(server)
    plot = server.get("api/plot")
    flagged = [row for row, is_flagged in zip(plot["row"], plot["flagged"], strict=True) if is_flagged]
    server.mark(rows=[flagged[0]], verdict="good")
    expect(page.locator("#state")).to_contain_text("Something changed since: refit")
    page.get_by_role("button", name="Refit").click()
    someone.fitted()
    page.get_by_role("link", name="Changes").click()
    change = page.locator("#changes tbody tr").filter(
        has=page.get_by_role("button", name=f"Row {flagged[0]}", exact=True)
    )
    expect(change).to_contain_text("good")
    expect(page.locator("#fits tbody tr")).to_have_count(2)
    assert grave(page) == []
    change.get_by_role("button").click()
    expect(page.locator("#selected")).to_contain_text(f"Row {flagged[0]},")
    expect(page.locator("#state")).not_to_contain_text("refit")
    assert_calm(someone, server)

    page.click("#fit")  # it will be killed in the middle of it
    expect(page.locator("#job")).to_be_visible()
    someone.click(77)
    page.fill("#why", "calibration")
    someone.judge("bad")
    someone.says("1 reading marked bad: calibration.")
    server.kill()
    someone.click(78)
    someone.judge("bad")
    expect(page.locator("#alarm")).to_contain_text("The server does not answer. Nothing that was marked is lost")
    expect(page.locator("#selected")).to_contain_text("Row 78")

    again = serve(fitted)
    later = person(again)
    page = later.plot(again)
    assert again.verdicts() == {77: "bad", flagged[0]: "good"}
    expect(page.locator("#state")).to_contain_text("1 judged good, 1 bad.")
    later.click(77)
    expect(page.locator("#explanation")).to_contain_text("Reason: calibration")
    assert len(again.get("api/project")["fits"]) == 2
    page.keyboard.press("Control+z")
    later.says("Undone")
    assert again.verdicts() == {flagged[0]: "good"}


def test_two_tabs_see_each_other(desk, browser, person):
    one = person(desk)
    first = one.plot(desk)
    other = type(one)(browser, context=one.context)
    second = other.plot(desk)
    one.click(33)
    first.keyboard.press("b")
    one.says("marked bad")
    first.bring_to_front()
    ring = "document.querySelector('#rings .bad').getAttribute('d').length > 10"
    second.bring_to_front()
    other.until(ring)
    other.click(34)
    second.keyboard.press("g")
    other.says("marked good")
    first.bring_to_front()
    expect(first.locator("#state")).to_contain_text("1 judged good, 1 bad.")
    assert desk.verdicts() == {33: "bad", 34: "good"}
    assert other.complaints == []
    other.close()


def test_everything_can_be_taken_home(desk, person):
    someone = person(desk)
    desk.mark(rows=[5], verdict="bad", why="=HYPERLINK(1)")
    page = someone.open(desk, "download")
    found = {}
    for name in ("cleaned.csv", "verdicts.csv", "report.html", "model.skops", "command.txt"):
        with page.expect_download() as waiting:
            page.locator(f"#files a[download='{name}']").click()
        assert waiting.value.suggested_filename == name
        found[name] = waiting.value.path().read_bytes()
    cleaned = pd.read_csv(io.BytesIO(found["cleaned.csv"]))
    assert len(cleaned) == len(desk.get("api/plot")["row"])
    assert b"HYPERLINK" in found["verdicts.csv"]
    assert b"<!doctype html>" in found["report.html"] and found["model.skops"][:2] == b"PK"
    assert found["command.txt"].startswith(b"biasgp fit")
    expect(page.locator("#command")).to_contain_text("biasgp fit")


def test_the_sensors_of_a_fleet_worst_first(serve, person, tmp_path):
    parts = [table(70, seed, share).assign(site=f"site {seed}") for seed, share in ((1, 0.0), (2, 0.25))]
    source = tmp_path / "fleet.csv"
    pd.concat(parts).to_csv(source, index=False)
    server = serve(None, str(source))
    someone = person(server)
    page = someone.open(server, "data")
    page.get_by_label("Use of the column site").select_option("group")
    expect(page.get_by_role("link", name="Sensors")).to_be_visible()
    page.click("#fit")
    someone.fitted()
    page.get_by_role("link", name="Sensors").click()
    names = page.locator("#sensors tbody th")
    expect(names).to_have_text(["site 2", "site 1"])
    assert grave(page) == []
    page.get_by_role("button", name="site 1").click()
    expect(page.locator("#sensor")).to_have_value("site 1")
    page.wait_for_selector("#plot[data-drawn='70']")
    someone.click(10)
    page.keyboard.press("b")
    someone.says("1 reading marked bad.")
    page.get_by_label("Sensor", exact=True).select_option("site 2")
    expect(page.locator("#selected")).to_have_text("Nothing is selected.")
    page.keyboard.press("Escape")
    someone.page.locator("#plot").focus()
    page.keyboard.press("Home")
    someone.says("row 71,")


def test_a_hundred_thousand_rows_stay_usable(tables, person):
    server = tables
    n = 100_000
    someone = person(server)
    page = someone.open(server)
    content = table(n, share=0.01).to_csv(index=False)
    page.set_input_files("#file", {"name": "big.csv", "mimeType": "text/csv", "buffer": content.encode()})
    page.wait_for_selector("#glance[data-drawn]")
    page.get_by_role("link", name="Readings").click()
    expect(page.locator("#drawn")).to_contain_text("of 100,000 readings are drawn")
    drawn = int(page.get_attribute("#plot", "data-drawn"))
    assert 1000 < drawn <= 4000
    (x, y), (far, _) = [someone.at(row) for row in server.get("api/plot")["row"][1000:1101:100]]
    someone.drag((x, y), (far, y + 1))
    page.wait_for_selector("#plot:not([aria-busy])")
    expect(page.locator("#drawn")).to_be_empty()  # all readings of the range are there now
    assert int(page.get_attribute("#plot", "data-drawn")) != drawn
    page.get_by_role("button", name="All readings", exact=True).click()
    expect(page.locator("#drawn")).to_contain_text("are drawn")
    page.locator("summary", has_text="Select by row").click()
    page.fill("#from", "2024-06-01")
    page.fill("#to", "2024-06-30 23:00")
    page.locator("#to").press("Enter")
    someone.says("also those that are not drawn")
    someone.judge("bad")
    someone.says("720 readings marked bad.")
    assert server.get("api/project")["verdicts"]["bad"] == 720
    assert server.mark(**EVERYTHING, verdict="open")["changed"] == 720


HOSTILE = [
    "<img src=x onerror=window.hit=1>",
    '"><script>window.hit=2</script>',
    "\u202egnp.exe\u202c {{7*7}} %{x}",
    "javascript:window.hit=3 " + "very long " * 150,
]


def test_hostile_headers_and_cells_are_text(tables, person):
    readings = table(60)
    names = {"temperature_C": HOSTILE[0], "time": HOSTILE[1]}
    frame = readings.rename(columns=names).assign(
        **{HOSTILE[2]: HOSTILE[0], HOSTILE[3]: [HOSTILE[i % 4] for i in range(60)]}
    )
    server = tables
    someone = person(server)
    page = someone.open(server)
    someone.drop("<img src=x onerror=window.hit=4>.csv", frame.to_csv(index=False))
    page.wait_for_selector("#columns tbody tr")
    page.get_by_label("Use of the column <img").select_option("target")
    page.get_by_label("Use of the column javascript:").select_option("group")
    expect(page.locator("#to-sensors")).to_be_visible()
    page.get_by_role("link", name="Sensors").click()
    expect(page.locator("#sensors tbody tr")).to_have_count(4)
    page.locator("#sensors button").first.click()
    page.wait_for_selector("#plot[data-drawn='15']")
    someone.page.locator("#plot").focus()
    page.keyboard.press("Home")
    page.fill("#why", HOSTILE[0])
    someone.judge("bad")
    someone.says("marked bad: <img")
    x, y = someone.at(
        json.loads(page.evaluate("JSON.stringify(document.getElementById('plot').data[2].customdata[3][1])"))
    )
    page.mouse.move(x, y)
    page.wait_for_selector(".hoverlayer .hovertext")
    for view in ("data", "readings", "changes", "sensors", "download"):
        page.goto(f"{server.url}#{view}")
        assert page.evaluate(
            "window.hit === undefined && document.querySelectorAll('main img, main script').length === 0"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert "\u202e" not in page.evaluate("document.body.textContent")
