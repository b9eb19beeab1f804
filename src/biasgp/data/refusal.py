"""How a table is refused: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TableError(ValueError):
    """The table cannot be used as it is; the message says why and what to do."""


def nearest(name: str, names: Iterable[str]) -> str:
    """A remark that names what was probably meant, or lists what there is."""
    known = list(names)
    lowered = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {lowered[close[0]]!r}?"
    shown = ", ".join(repr(clip(other)) for other in known[:12])
    return f"There is {shown}{' and more' if len(known) > 12 else ''}."


def quoted(text: str) -> str:
    """A piece of the user's text as it would be given on the command line."""
    return repr(text) if text != "\t" else "tab"


def clip(text: str, length: int = 60) -> str:
    """The text, cut where it would fill the line."""
    return text if len(text) <= length else text[: length - 1] + "…"


def first_line(error: BaseException) -> str:
    """What an exception says, in one line."""
    lines = str(error).strip().splitlines()
    return clip(lines[0], 120) if lines else type(error).__name__
