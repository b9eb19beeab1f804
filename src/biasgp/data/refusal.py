"""How a table is refused: one line that says what is wrong, where, and what to do."""

from __future__ import annotations


class TableError(ValueError):
    """The table cannot be used as it is; the message says why and what to do."""


def clip(text: str, length: int = 60) -> str:
    """The text, cut where it would fill the line."""
    return text if len(text) <= length else text[: length - 1] + "…"
