"""The English of docs, docstrings, messages and pages: no phrase of the list in old_phrases.txt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import biasgp

HERE = Path(__file__).parent
ROOT, SOURCE = HERE.parents[1], Path(biasgp.__file__).parent
KINDS = {".css", ".html", ".js", ".md", ".py", ".toml", ".yml", ".yaml"}


def phrases() -> dict[str, str]:
    """What to look for, and what to write instead."""
    lines = (HERE / "old_phrases.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.partition(" => ") for line in lines if line and not line.startswith("#")]
    return {pattern: instead for pattern, _, instead in pairs}


def texts() -> list[Path]:
    """The package, and the docs, benchmarks and pages at the top of the repository where there is one."""
    places = [SOURCE, *(ROOT / name for name in ("docs", "benchmarks", "examples", ".github"))]
    below = [path for place in places if place.exists() for path in place.rglob("*")]
    return [path for path in (*below, *ROOT.glob("*.md")) if path.suffix in KINDS and path.is_file()]


def found_in(text: str) -> list[tuple[str, str]]:
    """Phrases of the list in a text, over the ends of lines too."""
    flat = " ".join(text.split())
    return [
        (match[0], instead) for old, instead in phrases().items() for match in re.finditer(old, flat, re.IGNORECASE)
    ]


def test_no_text_has_a_phrase_of_the_list():
    read = texts()
    assert len(read) > 150
    hits = {str(path): found for path in read if (found := found_in(path.read_text(encoding="utf-8")))}
    assert not hits


@pytest.mark.parametrize(
    "text",
    ["Kernels with one length-scale an input", "a table with a row\n    a reading", "one value a row of X"],
)
def test_the_list_finds_what_it_is_for(text):
    assert found_in(text)


def test_the_list_passes_what_is_meant():
    assert not found_in(
        "One length-scale per input; which group of outliers a reading is of, and which sensor a reading is from."
    )
