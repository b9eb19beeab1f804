"""Numbers as people and instruments write them. What a comma or a point means is decided for a whole column."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from biasgp._typing import Array, Mask

POINT, COMMA = ".", ","
_NAMES = {"point": POINT, "dot": POINT, "period": POINT, ".": POINT, "comma": COMMA, ",": COMMA}
FEW = 2
"""Cells that may be slips, where many others leave the mark open."""
WORDS = {POINT: "point", COMMA: "comma"}
# A typographic minus is a minus; a no-break, thin or figure space between digits is a space; 1’000 is Swiss.
_TYPOGRAPHY = str.maketrans("−–﹣－\u00a0\u202f\u2009\u2007’ʼ", "----    ''")
_SIMPLE = re.compile(r"[0-9.+\-eE\n]*")
_NOT_THREE_DIGITS = re.compile(r"\.(?![0-9]{3}$)|[eE]", re.MULTILINE)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_GROUPS = re.compile(r"[ ']")
_MAYBE = re.compile(r"[0-9]|inf", re.IGNORECASE)
_FIRST = frozenset("0123456789+-.,iI")
_LIKE = re.compile(
    r"[<>≤≥~≈±$€£¥()\s]*[+-]?\d[\d.,_'\s]*(?:[eE][+-]?\d+)?\s*(?P<unit>[^\W\d]{0,8}[%‰°³²*)$€£¥]*)|(?P<hex>0[xX][0-9a-fA-F]+)"
)


def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    """Numbers with this decimal mark; thousands marked by the other one, a space or an apostrophe, one of them."""
    point = re.escape(decimal)
    grouped = "|".join(rf"[1-9][0-9]{{0,2}}(?:{re.escape(mark)}[0-9]{{3}})+" for mark in (thousands, " ", "'"))
    open_end = rf"|[0-9]+{point}" if decimal == POINT else ""
    ungrouped = rf"(?:[0-9]+(?:{point}[0-9]+)?|{point}[0-9]+{open_end})(?:[eE][+-]?[0-9]+)?"
    return re.compile(rf"[+-]?(?:(?:{grouped})(?:{point}[0-9]+)?|{ungrouped})")


_PATTERNS = {POINT: _pattern(POINT, COMMA), COMMA: _pattern(COMMA, POINT)}


def decimal_mark(name: str) -> str | None:
    """The mark that --decimal names: comma, point or the mark itself."""
    return _NAMES.get(name.strip().lower())


def tidy(cell: str) -> str:
    """A cell without blanks around it and with typographic signs replaced by plain ones."""
    cell = cell.strip()
    return cell if cell.isascii() else cell.translate(_TYPOGRAPHY).strip()


def read_number(cell: str, decimal: str) -> float:
    """One tidy cell with this decimal mark; NaN where it is no number."""
    if not _PATTERNS[decimal].fullmatch(cell):
        return float(cell) if _INFINITE.fullmatch(cell) else float("nan")
    bare = _GROUPS.sub("", cell).replace(COMMA if decimal == POINT else POINT, "")
    return float(bare.replace(COMMA, POINT))


def like_numbers(cells: Sequence[str]) -> Mask:
    """Which cells are numbers dressed up: 12%, $12, <0.5, 12 ppb (one unit in all of them)."""
    found = [_LIKE.fullmatch(cell) for cell in cells]
    units = {match["unit"] for match in found if match and (match["unit"] or "").isalpha()}
    return np.array([match is not None and not (len(units) > 1 and match["unit"]) for match in found], dtype=bool)


@dataclass(frozen=True)
class Decision:
    """What was taken for the decimal mark ("" where nothing depends on it), and whether it stays open."""

    decimal: str = ""
    is_open: bool = False
    assumed: bool = False
    """Whether it could have been the other one, so that it must be said."""


@dataclass(frozen=True)
class Written:
    """The tidy cells of a column, none of them empty, read with a decimal point and with a decimal comma."""

    cells: Sequence[str]

    @cached_property
    def _joined(self) -> str:
        return "\n".join(self.cells)

    @cached_property
    def _simple(self) -> Array | None:
        """All cells at once where none has a comma, a blank or an odd character."""
        if not _SIMPLE.fullmatch(self._joined):
            return None
        try:
            return np.array(self.cells, dtype=np.float64)
        except ValueError:
            return None

    @cached_property
    def point(self) -> Array:
        return self._with(POINT) if self._simple is None else self._simple

    @cached_property
    def comma(self) -> Array:
        return self._with(COMMA) if self._marked else self.point

    @cached_property
    def _marked(self) -> bool:
        return POINT in self._joined or COMMA in self._joined

    def _with(self, decimal: str) -> Array:
        if not _MAYBE.search(self._joined):
            return np.full(len(self.cells), np.nan)
        nan = float("nan")
        values = [read_number(cell, decimal) if cell[0] in _FIRST else nan for cell in self.cells]
        return np.array(values, dtype=np.float64)

    @cached_property
    def plain(self) -> bool:
        """Whether the cells have a decimal point beyond doubt, and nothing for thousands."""
        if self._simple is None:
            return False
        proofs = len(list(islice(_NOT_THREE_DIGITS.finditer(self._joined), FEW + 1)))
        return _is_strong(proofs, self._joined.count(POINT))

    @cached_property
    def readable(self) -> Mask:
        """Cells that are a number with one mark or the other."""
        if self._simple is not None:
            return np.ones(len(self.cells), dtype=bool)
        return ~np.isnan(self.point) | ~np.isnan(self.comma)

    @cached_property
    def share(self) -> float:
        """The share of readable cells; 0 where there is no cell."""
        if self._simple is not None:
            return 1.0 if self.cells else 0.0
        return float(np.count_nonzero(self.readable)) / max(len(self.cells), 1)

    def evidence(self, ignored: Mask) -> tuple[str, bool]:
        """The mark that the cells themselves prove, "" where they do not, and whether enough of them do.

        1.5 and 1,234.5 have a decimal point. One such cell among many like 1.234 may be a slip.
        """
        if self.plain:
            return POINT, True
        if not self._marked:
            return "", False
        point = int((~np.isnan(self.point) & np.isnan(self.comma) & ~ignored).sum())
        comma = int((np.isnan(self.point) & ~np.isnan(self.comma) & ~ignored).sum())
        mark = "" if point == comma == 0 else POINT if point >= comma else COMMA
        return mark, _is_strong(max(point, comma), int(self.either(ignored).sum()))

    def either(self, ignored: Mask) -> Mask:
        """Cells such as 1,010 that are another number with the other mark."""
        if not self._marked:
            return np.zeros(len(self.cells), dtype=bool)
        both = ~np.isnan(self.point) & ~np.isnan(self.comma) & ~ignored
        return np.asarray(both & (self.point != self.comma))

    def votes(self, either: Mask, ignored: Mask, elsewhere: str) -> set[str]:
        """What the way of writing and the other columns of the table suggest where no cell proves anything.

        Where 950 has no decimals, 1.010 would have been written 1.01: thousands. Where 1500 has no mark for its
        thousands, 1.234 has decimals.
        """
        chosen = [self.cells[i] for i in np.flatnonzero(either).tolist()]
        marks = {mark for cell in chosen for mark in (POINT, COMMA) if mark in cell}
        if len(marks) > 1:
            return marks
        (mark,) = marks
        plain = self._plain_numbers(either, ignored)
        short = any(len(cell.lstrip("+-").split(mark)[0]) == 1 for cell in chosen)
        found = {elsewhere} if elsewhere else set()
        if len(plain) and any(cell.endswith("0") for cell in chosen):
            found.add(COMMA if mark == POINT else POINT)
        if np.any(np.abs(plain) >= (1e3 if short else 1e4)):
            found.add(mark)
        # A column of 1.250 and 3.725 alone has three decimals, as in most of the world's files.
        return found or ({POINT} if mark == POINT and len(plain) == 0 else set())

    def _plain_numbers(self, either: Mask, ignored: Mask) -> Array:
        """Numbers written without a mark, but for those that are written so in any column: 0, and -999 or 9999."""
        plain = self.point[~either & ~ignored & np.isfinite(self.point)]
        stand_in = np.array([set(f"{abs(value):.0f}") == {"9"} for value in plain], dtype=bool)
        if self.point[either].min() > 0.0:
            stand_in |= plain < 0.0
        return np.asarray(plain[(plain != 0.0) & ~stand_in])


def _is_strong(proofs: int, doubtful: int) -> bool:
    return proofs > FEW or (proofs > 0 and doubtful <= 5 * proofs)


def decide(written: Written, ignored: Mask, usual: str, elsewhere: Callable[[], str]) -> Decision:
    """The decimal mark of a column: what its cells prove, what is usual for it, or what all else agrees on."""
    mark, strong = written.evidence(ignored)
    if strong:
        return Decision(mark)
    either = written.either(ignored)
    if not either.any():
        return Decision(mark)
    known = usual or elsewhere()
    votes = {mark, known} - {""} if mark or usual else written.votes(either, ignored, known)
    if len(votes) != 1:
        return Decision(is_open=True)
    vote = votes.pop()
    return Decision(vote, assumed=vote != known or (vote == COMMA and not mark))
