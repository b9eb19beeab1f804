"""Pages from templates. A user's text is always escaped; code of our own enters a page by `_code` alone."""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any, SupportsFloat

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

# Control characters, orders to write backwards (which would turn the words around a text), and what UTF-8 or XML
# cannot hold, such as the halves of a file name's undecodable bytes.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_ENDS_CODE = re.compile(r"</(script|style)|<!--", re.IGNORECASE)

_BESIDE = "'self' file:"
"""In a content policy: scripts that lie beside the page."""


@dataclass(frozen=True)
class Cell:
    """What is read, what it is sorted by where that is a number ("" for a missing one), and where it leads."""

    text: str
    sort: str | None = None
    href: str = ""

    @classmethod
    def number(cls, value: SupportsFloat | None, form: str) -> Cell:
        """A number in a format, or a dash for none."""
        number = math.nan if value is None else float(value)
        return cls(form.format(number), f"{number:.7g}") if math.isfinite(number) else cls("–", "")


def visible(text: str, limit: int | None = None) -> str:
    """The text with a sign in place of each character that cannot be shown, or would disturb what stands around it.

    At most `limit` characters of it, the last a sign that there are more.
    """
    clipped = text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
    return _UNFIT.sub("\ufffd", clipped)


def _finalize(value: Any) -> Any:
    """What a template's {{ … }} writes before it is escaped."""
    return value if isinstance(value, Markup) else visible(str(value))


_TEMPLATES = Environment(
    loader=PackageLoader("biasgp.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_finalize,
)
_TEMPLATES.filters["thousands"] = "{:,}".format
# For data in a page: `tojson` writes "<", ">", "&" and all that is not ASCII as \uXXXX, so nothing can end the data.
_TEMPLATES.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}


def render(template: str, *, style: str, script: str = "", plotly: str | None = None, **values: Any) -> str:
    """A page in one file. `plotly` is None without figures, "" to have plotly in the page, or where its script lies."""
    scripts = [plotly_script()] if plotly == "" else []
    scripts += [_static(script)] if script else []
    look = _static(style)
    return _TEMPLATES.get_template(template).render(
        policy=_policy(look, scripts, plotly),
        style=_code(look),
        scripts=[_code(text) for text in scripts],
        library=plotly,
        **values,
    )


def standalone(page: str, plotly: str) -> str:
    """A page whose plotly lies beside it, at `plotly`, as one file that holds all it needs."""
    script = plotly_script()
    element, allowed = _piece("library.html", library=plotly), str(escape(_BESIDE))
    if page.count(element) != 1 or allowed not in page:
        raise ValueError(f"the page does not take plotly from {plotly!r}")
    page = page.replace(allowed, str(escape(_hash(script))), 1)
    return page.replace(element, _piece("script.html", script=_code(script)))


def _piece(template: str, **values: Any) -> str:
    return _TEMPLATES.get_template(template).render(**values)


def plotly_script() -> str:
    """Plotly's own script."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def _static(name: str) -> str:
    return (files("biasgp.report") / "static" / name).read_text(encoding="utf-8")


def _code(text: str) -> Markup:
    """CSS or JavaScript of our own, for inside its element, which it must not end."""
    if ended := _ENDS_CODE.search(text):
        raise ValueError(f"{ended[0]!r} would end the element that holds this code")
    return Markup(text)


def _policy(style: str, scripts: Sequence[str], plotly: str | None) -> str:
    """The content policy: nothing is fetched, and no code runs but ours, whatever the page holds."""
    # A fleet's pages share one copy of plotly, which lies beside them.
    allowed = [*map(_hash, scripts), *([_BESIDE] if plotly else [])]
    # Plotly makes <style> elements as it loads, whose text, and so whose hash, changes with its version.
    looks = _hash(style) if plotly is None else "'unsafe-inline'"
    return (
        f"default-src 'none'; script-src {' '.join(allowed) or repr('none')}; style-src {looks}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(code: str) -> str:
    return f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'"
