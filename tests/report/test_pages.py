"""What pages are built of: templates, styles and scripts as files, and the doors by which code enters a page."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import esprima
import pytest
import tinycss2
from jinja2 import UndefinedError
from samples import fleet, parsed, record, simulated

from biasgp.report import pages
from biasgp.report.fit_page import fit_page
from biasgp.report.fleet_page import fleet_page
from biasgp.report.study_page import write_page

REPORT = Path(pages.__file__).parent
FILES = sorted(path for folder in ("templates", "static") for path in (REPORT / folder).iterdir())
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
# What would make markup or code of a text, or fetch something.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|DOMParser|\beval\b|\bFunction\s*\(|document\.write"
    r"|https?:|@import|\burl\(|\|\s*safe\b|\bMarkup\b|autoescape|<[^>]*\s(on\w+|style)\s*="
)


def javascript_faults(text: str) -> list[str]:
    try:
        esprima.parseScript(text)
    except esprima.Error as error:
        return [str(error)]
    return []


def css_faults(text: str) -> list[str]:
    # A parser of CSS forgives a block that nobody closes.
    unclosed = [] if text.count("{") == text.count("}") else ["braces do not match"]
    return unclosed + rule_faults(tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True))


def rule_faults(rules: list[Any]) -> list[str]:
    faults = []
    for rule in rules:
        if rule.type == "error":
            faults.append(rule.message)
        elif rule.type == "at-rule":
            faults += rule_faults(tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True))
        elif rule.type == "qualified-rule":
            inside = tinycss2.parse_declaration_list(rule.content, skip_comments=True, skip_whitespace=True)
            faults += [item.message for item in inside if item.type == "error"]
    return faults


def faults(name: str, text: str) -> list[str]:
    """What is wrong with a file of templates/ or static/."""
    language = {".js": javascript_faults, ".css": css_faults, ".html": lambda text: []}[Path(name).suffix]
    return language(text) + [found[0] for found in FORBIDDEN.finditer(text)]


@every_file
def test_every_file_parses_and_keeps_the_rules(path):
    assert faults(path.name, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.js", "function f( { return 1 }"),
        ("a.js", "var a = 'never closed;"),
        ("a.js", "at.innerHTML = words;"),
        ("a.js", "eval(words)"),
        ("a.js", "var at = 'https://example.org/a.js';"),
        ("a.css", "p { color red }"),
        ("a.css", "p { color: red"),
        ("a.css", "@media print { p { color: red } q { margin } }"),
        ("a.css", "p { background: url(http://example.org/a.png) }"),
        ("a.html", "<p>{{ words | safe }}</p>"),
        ("a.html", '<p onclick="go()">'),
        ("a.html", "{% autoescape false %}"),
    ],
)
def test_a_broken_file_is_found(name, text):
    assert faults(name, text)


def test_no_module_writes_markup_and_one_line_lets_code_in():
    """HTML is for the templates; plotly's own line breaks in hover texts are no part of a page."""
    markup = re.compile(r"</?(?!br>|extra>)[a-z]+[ >/]")
    doors = []
    for path in REPORT.glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        assert [text for text in texts if markup.search(text)] == [], path
        assert not any(isinstance(node, ast.Attribute) and node.attr == "Markup" for node in nodes), path
        doors += [ast.unparse(node) for node in nodes if isinstance(node, ast.Call) and "Markup(" in ast.unparse(node)]
    assert doors == ["Markup(text)"]


def test_the_package_takes_every_file_along():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    globs = project["tool"]["setuptools"]["package-data"]["biasgp.report"]
    left_behind = [p for p in FILES if not any(fnmatch(p.relative_to(REPORT).as_posix(), glob) for glob in globs)]
    assert len(FILES) >= 8 and left_behind == []


def test_a_template_escapes_whatever_its_name_and_refuses_what_it_was_not_given():
    shown = pages._TEMPLATES.from_string("<p title='{{ x }}'>{{ x }}</p>").render(x="<b>'\"&")
    assert shown == "<p title='&lt;b&gt;&#39;&#34;&amp;'>&lt;b&gt;&#39;&#34;&amp;</p>"
    with pytest.raises(UndefinedError):
        pages._TEMPLATES.from_string("{{ forgotten }}").render()


@pytest.mark.parametrize("code", ["a = '</script>'", "</SCRIPT >", "p::after { content: '</style>' }", "<!-- a"])
def test_code_that_would_end_its_element_is_refused(code):
    with pytest.raises(ValueError, match="would end the element"):
        pages._code(code)


def test_data_in_a_page_cannot_end_it_and_come_back_the_same():
    hostile = {"</script><!--": ["<script>", "]]>", "\u2028\u2029", "'\"&\\", "\ud800", "{{ 7 * 7 }}"]}
    text = pages._TEMPLATES.from_string("{{ x | tojson }}").render(x=hostile)
    assert text.isascii() and not set("<>&'") & set(text)
    assert json.loads(text) == hostile
    with pytest.raises(ValueError, match="JSON compliant"):
        pages._TEMPLATES.from_string("{{ x | tojson }}").render(x=float("nan"))


def digest(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


@pytest.mark.parametrize("kind", ["fit", "fit of a fleet", "fleet", "study"])
def test_a_page_may_run_its_own_scripts_and_no_other(kind, tmp_path):
    page = {
        "fit": lambda: fit_page(record()),
        "fit of a fleet": lambda: fit_page(record(), "../../plotly.min.js"),
        "fleet": lambda: fleet_page("a", "b", "c", fleet()),
        "study": lambda: write_page(simulated(tmp_path, "a")).read_text(encoding="utf-8"),
    }[kind]()
    found = parsed(page)
    policy = dict(rule.split(" ", 1) for rule in found.policy.split("; "))
    scripts = [digest(code) for tag, code in found.codes if tag == "script"]
    assert len(scripts) == {"fit": 2, "study": 0}.get(kind, 1)
    beside = ["'self'", "file:"] if kind == "fit of a fleet" else []
    assert policy["script-src"].split() == ([*scripts, *beside] or ["'none'"])
    styles = [digest(code) for tag, code in found.codes if tag == "style"]
    assert policy["style-src"].split() == (["'unsafe-inline'"] if kind.startswith("fit") else styles)
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["img-src"] == "data: blob:"
