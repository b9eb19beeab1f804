"""Numbers as people and instruments write them. What a comma or a point means is decided for a whole column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.messages import clip

POINT, COMMA = ".", ","
OTHER = {POINT: COMMA, COMMA: POINT}
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "---", "—", "?", "nil"})
"""Words that stand for nothing, in any column."""
MOSTLY = 0.8
"""A column with at least this share of numbers was meant to be numeric."""
FEW = 2
"""Cells that may be slips, where many others leave the decimal mark, or the order of day and month, open."""
DOUBTFUL_PER_PROOF = 5
"""Cells that one cell decides for, however few there are."""
WORDS = {POINT: "point", COMMA: "comma"}
# A typographic minus is a minus; a no-break, thin or figure space between digits is a space; 1’000 is Swiss.
_TYPOGRAPHY = str.maketrans("−–﹣－\u00a0\u202f\u2009\u2007’ʼ", "----    ''")
_SIMPLE = re.compile(r"[0-9.+\-eE\n]*")
_NOT_THREE_DIGITS = re.compile(r"\.(?![0-9]{3}$)|[eE]", re.MULTILINE)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_GROUPS = {POINT: re.compile("[ ',]"), COMMA: re.compile("[ '.]")}
"""Marks for thousands beside each decimal mark."""
_GROUP_WORDS = {" ": "spaces", "'": "apostrophes", COMMA: "commas", POINT: "points"}
_MAYBE = re.compile(r"[0-9]|inf", re.IGNORECASE)
_FIRST = frozenset("0123456789+-.,iI")
_DRESSED = re.compile(
    r"[<>≤≥~≈±$€£¥()\s]*[+-]?\d[\d.,_'\s]*(?:[eE][+-]?\d+)?\s*(?P<unit>[^\W\d]{0,8}[%‰°³²*)$€£¥]*)|(?P<hex>0[xX][0-9a-fA-F]+)"
)


def _pattern(decimal: str) -> re.Pattern[str]:
    """Numbers with this decimal mark; thousands marked by the other one, a space or an apostrophe, one of them."""
    point = re.escape(decimal)
    grouped = "|".join(rf"[1-9][0-9]{{0,2}}(?:{re.escape(mark)}[0-9]{{3}})+" for mark in (OTHER[decimal], " ", "'"))
    open_end = rf"|[0-9]+{point}" if decimal == POINT else ""
    ungrouped = rf"(?:[0-9]+(?:{point}[0-9]+)?|{point}[0-9]+{open_end})(?:[eE][+-]?[0-9]+)?"
    return re.compile(rf"[+-]?(?:(?:{grouped})(?:{point}[0-9]+)?|{ungrouped})")


_PATTERNS = {mark: _pattern(mark) for mark in OTHER}


def tidy(cell: str) -> str:
    """A cell without blanks around it and with typographic signs replaced by plain ones."""
    cell = cell.strip()
    return cell if cell.isascii() else cell.translate(_TYPOGRAPHY).strip()


def read_number(cell: str, decimal: str) -> float:
    """One tidy cell with this decimal mark; NaN where it is no number."""
    if not _PATTERNS[decimal].fullmatch(cell):
        return float(cell) if _INFINITE.fullmatch(cell) else float("nan")
    return float(_GROUPS[decimal].sub("", cell).replace(COMMA, POINT))


def is_strong(proofs: int, doubtful: int) -> bool:
    """Whether cells that can be read in one way only decide for `doubtful` ones: a few among many may be slips."""
    return proofs > FEW or (proofs > 0 and doubtful <= DOUBTFUL_PER_PROOF * proofs)


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
    na: Mapping[str, Sequence[float]]
    """Numbers that stand for a missing value, by the decimal mark."""

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
    def _marked(self) -> bool:
        return POINT in self._joined or COMMA in self._joined

    @cached_property
    def point(self) -> Array:
        return self._with(POINT) if self._simple is None else self._simple

    @cached_property
    def comma(self) -> Array:
        return self._with(COMMA) if self._marked else self.point

    def _with(self, decimal: str) -> Array:
        if not _MAYBE.search(self._joined):
            return np.full(len(self.cells), np.nan)
        nan = float("nan")
        values = [read_number(cell, decimal) if cell[0] in _FIRST else nan for cell in self.cells]
        return np.array(values, dtype=np.float64)

    def values(self, decimal: str) -> Array:
        """The cells with this decimal mark; NaN where they are no numbers."""
        return self.comma if decimal == COMMA else self.point

    def is_na(self, decimal: str) -> Mask:
        """Cells that stand for a missing value with this decimal mark."""
        if not self.na[decimal]:
            return np.zeros(len(self.cells), dtype=bool)
        return np.isin(self.values(decimal), self.na[decimal])

    @cached_property
    def _ignored(self) -> Mask:
        return self.is_na(POINT) | self.is_na(COMMA)

    @cached_property
    def readable(self) -> Mask:
        """Cells that are a number with one mark or the other."""
        if self._simple is not None:
            return np.ones(len(self.cells), dtype=bool)
        return ~np.isnan(self.point) | ~np.isnan(self.comma)

    @cached_property
    def share(self) -> float:
        """The share of readable cells; 0 where there is no cell."""
        return float(np.count_nonzero(self.readable)) / max(len(self.cells), 1)

    @cached_property
    def dressed(self) -> Mask:
        """Cells that are numbers with a sign or unit: 12%, $12, <0.5, 12 ppb (one unit in all of them)."""
        found = [_DRESSED.fullmatch(cell) for cell in self.cells]
        units = {match["unit"] for match in found if match and (match["unit"] or "").isalpha()}
        return np.array([match is not None and not (len(units) > 1 and match["unit"]) for match in found], dtype=bool)

    @cached_property
    def either(self) -> Mask:
        """Cells such as 1,010 that are another number with the other mark."""
        if not self._marked:
            return np.zeros(len(self.cells), dtype=bool)
        both = ~np.isnan(self.point) & ~np.isnan(self.comma) & ~self._ignored
        return np.asarray(both & (self.point != self.comma))

    @cached_property
    def evidence(self) -> tuple[str, bool]:
        """The mark that the cells themselves prove, "" where they do not, and whether enough of them do.

        1.5 and 1,234.5 have a decimal point. One such cell among many like 1.234 may be a slip.
        """
        if self._simple is not None:
            proofs = len(list(islice(_NOT_THREE_DIGITS.finditer(self._joined), FEW + 1)))
            if is_strong(proofs, self._joined.count(POINT)):
                return POINT, True
        if not self._marked:
            return "", False
        point = int((~np.isnan(self.point) & np.isnan(self.comma) & ~self._ignored).sum())
        comma = int((np.isnan(self.point) & ~np.isnan(self.comma) & ~self._ignored).sum())
        mark = "" if point == comma == 0 else POINT if point >= comma else COMMA
        return mark, is_strong(max(point, comma), int(self.either.sum()))

    def decide(self, given: str, usual: str, elsewhere: Callable[[], str]) -> Decision:
        """The decimal mark: the one given, what the cells prove, what is usual, or what all else agrees on."""
        if given:
            return Decision(given)
        mark, strong = self.evidence
        if strong or not self.either.any():
            return Decision(mark)
        known = usual or elsewhere()
        votes = {mark, known} - {""} if mark or usual else self._votes(known)
        if len(votes) != 1:
            return Decision(is_open=True)
        vote = votes.pop()
        return Decision(vote, assumed=vote != known or (vote == COMMA and not mark))

    def _votes(self, elsewhere: str) -> set[str]:
        """What the way of writing and the other columns of the table suggest where no cell proves anything.

        Where 950 has no decimals, 1.010 would have been written 1.01: thousands. Where 1500 has no mark for its
        thousands, 1.234 has decimals.
        """
        chosen = [self.cells[i] for i in np.flatnonzero(self.either).tolist()]
        marks = {mark for cell in chosen for mark in OTHER if mark in cell}
        if len(marks) > 1:
            return marks
        (mark,) = marks
        plain = self._plain_numbers()
        short = any(len(cell.lstrip("+-").split(mark)[0]) == 1 for cell in chosen)
        found = {elsewhere} if elsewhere else set()
        if len(plain) and any(cell.endswith("0") for cell in chosen):
            found.add(OTHER[mark])
        # With one digit before a mark for thousands, these begin at 1,000; with two or three, 1000 may go without.
        if np.any(np.abs(plain) >= (1e3 if short else 1e4)):
            found.add(mark)
        # A column of 1.250 and 3.725 alone has three decimals, as in most of the world's files.
        return found or ({POINT} if mark == POINT and len(plain) == 0 else set())

    def _plain_numbers(self) -> Array:
        """Numbers written without a mark, but for those that are written so in any column: 0, and -999 or 9999."""
        plain = self.point[~self.either & ~self._ignored & np.isfinite(self.point)]
        stand_in = np.array([set(f"{abs(value):.0f}") == {"9"} for value in plain], dtype=bool)
        if self.point[self.either].min() > 0.0:
            stand_in |= plain < 0.0
        return np.asarray(plain[(plain != 0.0) & ~stand_in])

    def note(self, decision: Decision) -> str:
        """Which marks were read as what, where that can be doubted."""
        decimal = decision.decimal or POINT
        found, groups = self.values(decimal), _GROUPS[decimal]
        if groups.search(self._joined):
            for i in np.flatnonzero(np.isfinite(found)).tolist():
                mark = groups.search(self.cells[i])
                if mark:
                    return self._told(i, mark[0], "thousands marks", decimal)
        if decision.assumed and self.either.any():
            return self._told(int(np.argmax(self.either)), decimal, "decimal marks", decimal)
        return ""

    def _told(self, i: int, mark: str, role: str, decimal: str) -> str:
        advice = f"; --decimal {WORDS[OTHER[decimal]]} reads them otherwise" if mark in OTHER else ""
        value = self.values(decimal)[i]
        return f"{_GROUP_WORDS[mark]} were read as {role} ({clip(self.cells[i])!r} is {value:.15g}){advice}."
