"""The language of `--where`: a condition on the columns of a table. Python's parser reads it, and its tree is evaluated
here, node by node, over a whitelist. Nothing in it can call, import, read or write.

A condition is made of columns (in `backticks` where the name is not a plain word; a backtick in a name is doubled),
numbers, quoted text, `== != < <= > >=` and chains of them, `in [...]` and `not in [...]` with constants in the list,
`and`, `or`, `not`, `+ - * /` and parentheses, with Python's precedence.

- A time column is compared with quoted ISO text, '2026-03-05' or '2026-03-05T13:00+01:00'; a column of times of day
  with '13:00'. Where the times have a zone the text needs one too, unless they are of UTC.
- A comparison with a missing cell is false, `!=` and `not in` as well. `not` is ordinary negation: `not x == 3` holds
  where x is missing, and `not x == x` finds the missing cells. A result that is no finite number, as after a division
  by zero, is missing.
- A text column has no missing cells: an empty cell equals '', and a word such as NA is that word. Text is ordered by
  its code points. A column that holds nothing at all can be compared with numbers, times and text alike.
"""

from __future__ import annotations

import ast
import operator
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biasgp._typing import Mask
from biasgp.data.times import parse_times_of_day
from biasgp.data.where_text import ALLOWED, Source, parse
from biasgp.messages import TableError

if TYPE_CHECKING:
    from biasgp.data.column import Column
    from biasgp.data.table import Table

NUMBER, TEXT, TIME, CLOCK, EMPTY = "number", "text", "time", "clock", "empty"
_HOLDS = {NUMBER: "numbers", TEXT: "text", TIME: "times", CLOCK: "times of day", EMPTY: "nothing but missing values"}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type, Any] = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide}
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d(?::\d\d(?::\d\d(?:[.,]\d{1,6})?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)


def rows_where(table: Table, expression: str) -> Mask:
    """Rows of the table for which the condition holds; TableError for all that is not a condition on its columns."""
    condition, source = parse(expression)
    found = _Evaluation(table, source).condition(condition)
    return np.array(np.broadcast_to(found, len(table)))


@dataclass(frozen=True)
class _Value:
    """A column, a constant or a result: its values, which of them are missing, and how to speak of it."""

    kind: str
    data: Any
    missing: Any
    told: str
    """As in "column 'x' holds numbers"."""
    constant: bool = False
    zoned: bool = False
    offset_hours: float = 0.0


@dataclass
class _Evaluation:
    """One condition on one table. Columns are read when they are met, once."""

    table: Table
    source: Source
    _columns: dict[str, _Value] = field(default_factory=dict)

    def condition(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BoolOp):
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return join.reduce([np.broadcast_to(self.condition(part), len(self.table)) for part in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return np.logical_not(self.condition(node.operand))
        if isinstance(node, ast.Compare):
            return self._chain(node)
        value = self._value(node)
        return self.source.refuse(node, f"{value.told}, which is not a condition", "Compare it with something.")

    def _chain(self, node: ast.Compare) -> Any:
        """0 < x <= 5 is 0 < x and x <= 5."""
        holds: Any = np.True_
        left = self._value(node.left)
        for how, comparator in zip(node.ops, node.comparators, strict=True):
            if isinstance(how, ast.In | ast.NotIn):
                holds = holds & self._member(left, comparator, isinstance(how, ast.In))
                if comparator is not node.comparators[-1]:
                    self.source.refuse(node, "a list cannot be compared")
                break
            right = self._value(comparator)
            one, other = self._alike(node, left, right)
            holds = holds & _COMPARISONS[type(how)](one.data, other.data) & ~(one.missing | other.missing)
            left = right
        return holds

    def _member(self, value: _Value, node: ast.expr, wanted: bool) -> Any:
        if not isinstance(node, ast.List | ast.Tuple):
            self.source.refuse(node, "in needs a list of numbers or text", "Write it like: x in [1, 2].")
        for item in node.elts:
            signed = isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.USub | ast.UAdd)
            if not isinstance(item.operand if signed else item, ast.Constant):  # type: ignore[attr-defined]
                self.source.refuse(item, "a list may hold numbers and text only", "")
        pairs = [self._alike(node, value, member) for member in map(self._value, node.elts)]
        same = pairs[0][0] if pairs else value
        found = pd.Series(np.atleast_1d(same.data)).isin([member.data for _, member in pairs]).to_numpy(dtype=bool)
        return (found if wanted else ~found) & ~np.asarray(same.missing)

    def _value(self, node: ast.expr) -> _Value:
        if isinstance(node, ast.Name):
            return self._column(self.source.name(node))
        if isinstance(node, ast.Constant):
            return self._literal(node)
        if isinstance(node, ast.BinOp):
            left, right = self._number(node.left), self._number(node.right)
            return self._result(node, _ARITHMETIC[type(node.op)], left, right)
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            operand = self._number(node.operand)
            sign = np.negative if isinstance(node.op, ast.USub) else np.positive
            return replace(self._result(node, sign, operand), constant=operand.constant)
        if isinstance(node, ast.List | ast.Tuple):
            return self.source.refuse(node, "a list may only stand after in")
        return self.source.refuse(node, "a condition is no value to compute with", "Join conditions by and, or, not.")

    def _literal(self, node: ast.Constant) -> _Value:
        value = node.value
        if isinstance(value, str):
            return _Value(TEXT, value, np.False_, f"{Source.shown(value)!r} is text", constant=True)
        if isinstance(value, bool) or not isinstance(value, int | float):
            truth = "Write 1 or 0 for a truth value, 'True' in quotes for text."
            advice = truth if isinstance(value, bool) else ALLOWED
            self.source.refuse(node, "only numbers and quoted text are constants", advice)
        if not value <= sys.float_info.max:
            self.source.refuse(node, "the number is too large", "")
        return _Value(NUMBER, np.float64(value), np.False_, f"{float(value):g} is a number", constant=True)

    def _number(self, node: ast.expr) -> _Value:
        value = self._value(node)
        if value.kind == EMPTY:
            return _Value(NUMBER, np.nan, np.True_, value.told)
        if value.kind != NUMBER:
            self.source.refuse(node, f"{value.told}, which cannot be computed with", "+ - * / are for numbers.")
        return value

    def _result(self, node: ast.expr, compute: Callable[..., Any], *operands: _Value) -> _Value:
        with np.errstate(all="ignore"):
            data = compute(*(operand.data for operand in operands))
        # Not infinite: one divided by that would be a number again.
        data = np.where(np.isfinite(data), data, np.nan)[()]  # of constants, a number and no array
        return _Value(NUMBER, data, np.isnan(data), f"{Source.shown(self.source.piece(node))} is a number")

    def _alike(self, node: ast.expr, left: _Value, right: _Value) -> tuple[_Value, _Value]:
        """Both as the same kind of value, so that they can be compared; a refusal where they are not."""
        kinds = {left.kind, right.kind}
        if EMPTY in kinds and TEXT not in kinds:
            return replace(left, data=np.nan, missing=np.True_), replace(right, data=np.nan, missing=np.True_)
        if kinds <= {TEXT, EMPTY} or (len(kinds) == 1 and left.zoned == right.zoned):
            return left, right
        for one, other in ((left, right), (right, left)):
            if one.kind in (TIME, CLOCK) and other.kind == TEXT and other.constant:
                read = self._time(node, one, other) if one.kind == TIME else self._clock_time(node, other)
                return (one, read) if one is left else (read, one)
        return self.source.refuse(node, f"{left.told}, but {right.told}", _mismatch(left, right))

    def _time(self, node: ast.expr, column: _Value, text: _Value) -> _Value:
        """A quoted date as the nanoseconds of the column's clock."""
        try:
            # Python alone would take any character between date and time, and digits without end.
            moment = datetime.fromisoformat(text.data if _ISO.fullmatch(text.data) else "")
        except ValueError:
            self.source.refuse(
                node, f"{Source.shown(text.data)!r} is no date", "Write it like '2026-03-05' or '2026-03-05T13:00'."
            )
        if moment.tzinfo is not None and not column.zoned:
            self.source.refuse(node, f"{column.told} without a time zone", f"Write {text.data!r} without one.")
        if moment.tzinfo is None and column.zoned and column.offset_hours != 0.0:
            zone = timezone(timedelta(minutes=round(60 * column.offset_hours)))
            advice = f"Write one here too, as in '{moment.replace(tzinfo=zone).isoformat()}'."
            self.source.refuse(node, f"{column.told} with a time zone", advice)
        # A date without a zone is of UTC, as the column is.
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        nanoseconds = 1000 * (since // timedelta(microseconds=1))
        limits = np.iinfo(np.int64)
        return replace(text, kind=TIME, data=np.int64(min(max(nanoseconds, limits.min + 1), limits.max)))

    def _clock_time(self, node: ast.expr, text: _Value) -> _Value:
        found = parse_times_of_day([text.data.strip()], np.zeros(1, dtype=bool))
        if found.unreadable.any():
            self.source.refuse(node, f"{Source.shown(text.data)!r} is no time of day", "Write it like '13:00'.")
        return replace(text, kind=CLOCK, data=_nanoseconds(found.values)[0])

    def _column(self, name: str) -> _Value:
        if name not in self._columns:
            if name not in self.table.columns:
                raise TableError(f"--where: there is no column {Source.shown(name)!r}. {self.table.nearest(name)}")
            self._columns[name] = _read(self.table.column(name))
        return self._columns[name]


def _read(column: Column) -> _Value:
    if pd.api.types.is_bool_dtype(column.cells.dtype):  # of a Parquet file
        truth = column.cells.to_numpy(dtype=float, na_value=np.nan)
        return _Value(NUMBER, truth, np.isnan(truth), f"column {column.name!r} holds truth values, 1 or 0")
    # What looks like numbers or times is read as such, and refused by its cell.
    kind = column.kind.removesuffix("?")
    told = f"column {column.name!r} holds {_HOLDS[kind]}"
    if kind == NUMBER:
        numbers = column.numbers()
        return _Value(kind, numbers, np.isnan(numbers), told)
    if kind == TIME:
        times = column.times()
        missing = np.isnat(times.values)
        return _Value(kind, _nanoseconds(times.values), missing, told, False, times.zoned, times.offset_hours)
    if kind == CLOCK:
        return _Value(kind, _nanoseconds(column.times_of_day().values), column.missing, told)
    text = column.cells.astype(object).where(column.cells.notna(), "")
    return _Value(kind, np.array([str(cell) for cell in text], dtype=object), np.False_, told)


def _nanoseconds(stamps: np.ndarray) -> Any:
    return stamps.astype("datetime64[ns]").view(np.int64)


def _mismatch(left: _Value, right: _Value) -> str:
    kinds = {left.kind: left, right.kind: right}
    if TIME in kinds and len(kinds) == 1:
        return "One has a time zone, the other has none."
    if TIME in kinds:
        return "Compare times with a date in quotes, as '2026-03-05'."
    if CLOCK in kinds:
        return "Compare times of day with one in quotes, as '13:00'."
    text = kinds[TEXT]
    if text.constant and text.data == "":
        return "Cells that are missing are found by: not x == x."
    if text.constant:
        return "Leave out the quotes of a number." if re.search(r"\d", text.data) else ""
    return "Put what it is compared with in quotes."
