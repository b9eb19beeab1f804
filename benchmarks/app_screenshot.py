"""Makes docs/img/app.png, the README's picture of `biasgp app`.

    python benchmarks/app_screenshot.py [--out docs/img/app.png] [--dark] [--phone]

Fits 400 simulated readings, judges a few, asks why one is flagged, and takes the picture. Needs chromium on the PATH.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from app_page import fit, page_of, readings

DESKTOP, PHONE = {"width": 1240, "height": 880}, {"width": 375, "height": 812}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "img" / "app.png")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--phone", action="store_true")
    given = parser.parse_args()
    look = {"viewport": PHONE if given.phone else DESKTOP, "color_scheme": "dark" if given.dark else "light"}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "station-7.csv"
        readings(400).to_csv(table, index=False)
        with page_of(Path(folder) / "project", str(table), **look) as page:
            fit(page)
            page.click("nav a[data-view=readings]")
            page.wait_for_selector("#queue button")
            flagged = page.evaluate("document.getElementById('plot').data[4].customdata.map(each => each[1])")
            for rows, verdict in ((flagged[1:4], "bad"), ([140, 141, 142], "good")):
                page.evaluate("rows => { document.getElementById('rows').value = rows }", ", ".join(map(str, rows)))
                page.evaluate("document.getElementById('by-row').requestSubmit()")
                page.click(f"button[data-verdict={verdict}]")
                page.wait_for_timeout(300)
            page.evaluate("row => { document.getElementById('rows').value = row }", str(flagged[5]))
            page.evaluate("document.getElementById('by-row').requestSubmit()")
            page.wait_for_selector("#explanation .pairs")
            page.wait_for_timeout(500)
            given.out.parent.mkdir(parents=True, exist_ok=True)
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=given.out)
    print(given.out)


if __name__ == "__main__":
    main()
