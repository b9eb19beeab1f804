"""Generated conditions for --where: hostile ones, damaged ones, and valid ones against an evaluator of another kind.

`run` is what `make fuzz` calls; the checks of one condition are here too.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hostile_where import CANARY, KNOWN

from biasgp.data.table import Table, TableError

SECONDS = 1.0
"""Processor time that a condition may take."""
LONGEST_MESSAGE = 500
FORBIDDEN = ("exec", "os.", "subprocess.", "socket.", "shutil.", "open", "pickle.", "ctypes.", "tempfile.", "marshal.")
"""Events of Python's audit that a condition must never cause."""

X = (1.0, 2.0, None, 4.0, -5.5, None, 0.0, 2.0)
Y = (0.0, 2.0, 2.0, 0.0, 0.25, 1.0, None, -1.0)
NAME = ("a", "b", "", "NA", "Ab", "a`b", "it's", "Ж")
DAY = (1, 2, None, 4, 5, 6, 6, 2)
"""Of March 2026."""
ROWS = [dict(zip(("x", "y z", "name", "time"), row, strict=True)) for row in zip(X, Y, NAME, DAY, strict=True)]


def make_table() -> Table:
    """The rows above, with types as from a Parquet file: quicker to read again and again than text."""
    cells = {
        "x": np.array(X, dtype=float),
        "y z": np.array(Y, dtype=float),
        "name": list(NAME),
        "time": pd.to_datetime([f"2026-03-{day:02d}" if day else None for day in DAY]),
        "y": np.ones(len(X)),
        "my col": np.ones(len(X)),
    }
    return Table("t.parquet", pd.DataFrame(cells))


# ---- what may not happen

_watched: list[str] | None = None
_installed = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _watched is not None and event.startswith(FORBIDDEN):
        _watched.append(f"{event}{args!r}"[:200])


@contextmanager
def watched() -> Iterator[list[str]]:
    """Everything inside that runs code, starts processes or touches files, as text."""
    global _watched, _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True
    events: list[str] = []
    _watched = events
    try:
        yield events
    finally:
        _watched = None


def trouble(table: Table, expression: str, *, must_refuse: bool) -> str:
    """What is wrong with how a condition ended; empty where nothing is."""
    failure, began = "", time.thread_time()
    with warnings.catch_warnings(), watched() as events:
        warnings.simplefilter("error")
        try:
            found = table.rows_where(expression)
            wrong = found.dtype != bool or found.shape != (len(table),)
            failure = "was accepted" if must_refuse else "gave no mask" if wrong else ""
        except TableError as refusal:
            message = str(refusal)
            if not message.isprintable() or len(message) > LONGEST_MESSAGE or not message.strip():
                failure = f"message is not one short line: {message!r}"
            elif "_q" in message and "_q" not in expression:
                failure = f"message shows a placeholder: {message!r}"
        except BaseException as error:
            failure = f"ended in {type(error).__name__}: {error}"
    seconds = time.thread_time() - began
    if events:
        failure = f"did {events[0]}"
    elif seconds > SECONDS:
        failure = f"took {seconds:.1f} s"
    return f"{expression[:200]!r} {failure}" if failure else ""


# ---- hostile conditions: one forbidden piece in an otherwise fair one

FRAMES = (
    "{}",
    "{} > 1",
    "1 < {}",
    "x > 1 and {}",
    "{} or x > 1",
    "not {}",
    "(x + {}) * 2 > 1",
    "x in [1, {}]",
    "0 < x < {} < 5",
    "-{} < 1",
    "({})",
    "`y z` == {}",
    "name == 'a' or ({}) == 'b'",
)
PIECES: tuple[Callable[[str], str], ...] = (
    lambda a: f"{a}.to_csv('{CANARY}')",
    lambda a: f"{a}.__class__",
    lambda a: f"open('{CANARY}', 'w').write({a})",
    lambda a: f"__import__('os').system('touch {CANARY}', {a})",
    lambda a: f"eval({a!r})",
    lambda a: f"getattr({a}, 'to_csv')('{CANARY}')",
    lambda a: f"({a})[0]",
    lambda a: f"({a}) ** 9 ** 9 ** 9",
    lambda a: f"({a}) << 999999999",
    lambda a: f"({a}) & 1",
    lambda a: f"({a}) | 1",
    lambda a: f"~({a})",
    lambda a: f"({a}) % 2",
    lambda a: f"({a}) // 2",
    lambda a: f"({a}) @ 2",
    lambda a: f"(lambda: {a})()",
    lambda a: f"(q := {a})",
    lambda a: f"[{a} for i in x]",
    lambda a: f"({a} for i in x)",
    lambda a: f"{{{a}: 1}}",
    lambda a: f"{{{a}, 1}}",
    lambda a: f"(1 if {a} else 2)",
    lambda a: f"f'{{{a}}}'",
    lambda a: f"[*{a}]",
    lambda a: f"({a} is 1)",
    lambda a: f"(await {a})",
    lambda a: f"(yield {a})",
    lambda a: f"@{a}",
    lambda a: f"{a}; import os",
    lambda a: f"{a} # ",
    lambda a: f"{a}\x00",
    lambda a: f"b'{a}'",
    lambda a: f"({a} + 1j)",
    lambda a: f"({a} + {'9' * 400})",
)
ATOMS = ("x", "`y z`", "name", "1", "'a'", "x + 1", "(x > 1)")


def hostile(rng: random.Random) -> str:
    """A condition with at least one piece that the language has not."""
    text = rng.choice(ATOMS)
    for _ in range(rng.randint(1, 4)):
        text = rng.choice(PIECES)(text)
    for _ in range(rng.randint(0, 3)):
        text = rng.choice(FRAMES).replace("{}", text, 1)
    return text


# ---- damaged conditions

SPLINTERS = (
    *("`", "'", '"', "\\", "(", ")", "[", "]", "{", "}", "#", ".", ",", ":", ";", "@", "=", "!", "~", "&", "|", "**"),
    *("\x00", "\n", "\x1b", "\u200b", "\ud800", "ｘ", "µ", "💣", " ", "0", "9" * 320, "e308", "_", "__", "j"),
    *(
        " not ",
        " in ",
        " is ",
        " if ",
        " else ",
        " lambda ",
        " for ",
        " and ",
        " or ",
        ":=",
        "//",
        "->",
        "r'",
        "f'",
        "b'",
    ),
)


def damaged(rng: random.Random) -> str:
    """A valid condition with characters lost, doubled, swapped or put in."""
    text = render(condition(rng, 3))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.randint(0, 4))
        text = rng.choice(
            (
                text[:at] + rng.choice(SPLINTERS) + text[at:],
                text[:at] + text[to:],
                text[:to] + text[at:to] + text[to:],
                text[:at] + text[at:to][::-1] + text[to:],
                text[at:] + text[:at],
            )
        )
    return text


# ---- valid conditions, as trees of tuples; rendered for the command, evaluated row by row

OR, AND, NOT, COMPARE, SUM, PRODUCT, SIGN, ATOM = range(8)
"""How tightly things bind."""
ORDER = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
NUMBERS = (0.0, 1.0, 2.0, -1.0, 0.25, 1e300, 4.0)
TEXTS = (*NAME, "`x`", 'say "a"', "z", "\\")
DAYS = (1, 2, 3, 5, 6)


def condition(rng: random.Random, depth: int) -> tuple[Any, ...]:
    """A random condition."""
    kind = rng.choice(("and", "or", "not", "compare", "member")) if depth else rng.choice(("compare", "member"))
    if kind in ("and", "or"):
        return kind, *(condition(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    if kind == "not":
        return kind, condition(rng, depth - 1)
    term = {"number": number, "text": text, "time": day}[rng.choice(("number", "number", "text", "time"))]
    first = ("column", "time") if term is day else term(rng, depth)
    if kind == "member":
        constant = {number: plain_number, text: plain_text, day: plain_day}[term]
        return kind, first, [constant(rng) for _ in range(rng.randint(0, 4))], rng.random() < 0.5
    count = 1 if term is day else rng.randint(1, 3)
    return kind, [first, *(term(rng, depth) for _ in range(count))], [rng.choice(list(ORDER)) for _ in range(count)]


def number(rng: random.Random, depth: int) -> tuple[Any, ...]:
    if depth and rng.random() < 0.5:
        if rng.random() < 0.25:
            return "sign", rng.choice("+-"), number(rng, depth - 1)
        return "compute", rng.choice("+-*/"), number(rng, depth - 1), number(rng, depth - 1)
    return ("column", rng.choice(("x", "y z"))) if rng.random() < 0.7 else ("constant", abs(rng.choice(NUMBERS)))


def text(rng: random.Random, depth: int) -> tuple[Any, ...]:
    return ("column", "name") if rng.random() < 0.5 else plain_text(rng)


def day(rng: random.Random, depth: int) -> tuple[Any, ...]:
    return ("column", "time") if rng.random() < 0.2 else plain_day(rng)


def plain_number(rng: random.Random) -> tuple[Any, ...]:
    return "constant", rng.choice(NUMBERS)


def plain_text(rng: random.Random) -> tuple[Any, ...]:
    return "constant", rng.choice(TEXTS)


def plain_day(rng: random.Random) -> tuple[Any, ...]:
    return "day", rng.choice(DAYS)


def render(tree: tuple[Any, ...], around: int = OR) -> str:
    """The text of a tree, with parentheses only where they are needed."""
    binds, text = _render(tree)
    return f"({text})" if binds < around else text


def _render(tree: tuple[Any, ...]) -> tuple[int, str]:
    match tree:
        case ("or", *parts):
            return OR, " or ".join(render(part, AND) for part in parts)
        case ("and", *parts):
            return AND, " and ".join(render(part, NOT) for part in parts)
        case ("not", part):
            return NOT, f"not {render(part, NOT)}"
        case ("compare", terms, signs):
            pairs = zip(signs, terms[1:], strict=True)
            return COMPARE, render(terms[0], SUM) + "".join(f" {sign} {render(term, SUM)}" for sign, term in pairs)
        case ("member", term, members, wanted):
            shown = ", ".join(render(member) for member in members)
            return COMPARE, f"{render(term, SUM)} {'' if wanted else 'not '}in [{shown}]"
        case ("compute", sign, left, right):
            binds = SUM if sign in "+-" else PRODUCT
            return binds, f"{render(left, binds)} {sign} {render(right, binds + 1)}"
        case ("sign", sign, operand):
            return SIGN, f"{sign}{render(operand, SIGN)}"
        case ("column", name):
            return ATOM, name if name.isidentifier() else f"`{name}`"
        case ("day", value):
            return ATOM, f"'2026-03-{value:02d}'"
        case ("constant", value):
            return (SIGN, f"-{-value:g}") if isinstance(value, float) and value < 0 else (ATOM, _literal(value))
    raise AssertionError(tree)


def _literal(value: float | str) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def holds(tree: tuple[Any, ...], row: dict[str, Any]) -> bool:
    """Whether a condition holds for one row; None is a missing value."""
    match tree:
        case ("or", *parts):
            return any(holds(part, row) for part in parts)
        case ("and", *parts):
            return all(holds(part, row) for part in parts)
        case ("not", part):
            return not holds(part, row)
        case ("compare", terms, signs):
            found = [value_of(term, row) for term in terms]
            pairs = zip(signs, found, found[1:], strict=False)
            return all(a is not None and b is not None and ORDER[sign](a, b) for sign, a, b in pairs)
        case ("member", term, members, wanted):
            value = value_of(term, row)
            return value is not None and any(value == value_of(member, row) for member in members) == wanted
    raise AssertionError(tree)


def value_of(tree: tuple[Any, ...], row: dict[str, Any]) -> Any:
    match tree:
        case ("column", name):
            return row[name]
        case ("constant" | "day", value):
            return value
        case ("sign", sign, operand):
            value = value_of(operand, row)
            return None if value is None else -value if sign == "-" else value
        case ("compute", sign, left, right):
            a, b = value_of(left, row), value_of(right, row)
            if a is None or b is None or (sign == "/" and b == 0.0):
                return None
            result = a + b if sign == "+" else a - b if sign == "-" else a * b if sign == "*" else a / b
            return result if np.isfinite(result) else None
    raise AssertionError(tree)


def disagreement(table: Table, tree: tuple[Any, ...]) -> str:
    """Where the command and the row-by-row evaluator differ about a valid condition; empty where they do not."""
    expression = render(tree)
    expected = [holds(tree, row) for row in ROWS]
    try:
        found = table.rows_where(expression).tolist()
    except TableError as refusal:
        return f"{expression!r} was refused: {refusal}"
    return "" if found == expected else f"{expression!r}: {found} instead of {expected}"


def names_a_column(tree: Any) -> bool:
    if isinstance(tree, tuple) and tree and tree[0] == "column":
        return True
    return isinstance(tree, tuple | list) and any(names_a_column(part) for part in tree)


# ---- all of it


def run(count: int, seed: int) -> list[str]:
    """Every known hostile condition, and `count` generated ones; what went wrong, a line each."""
    rng, table = random.Random(seed), make_table()
    table.rows_where("x > 1 and time > '2026-03-01' and name in ['a']")  # what is imported late, now
    with tempfile.TemporaryDirectory() as folder:
        canary = str(Path(folder) / "canary")
        found = [trouble(table, text.replace(CANARY, canary), must_refuse=True) for text in KNOWN]
        for i in range(count):
            if i % 3 == 0:
                found.append(trouble(table, hostile(rng).replace(CANARY, canary), must_refuse=True))
            elif i % 3 == 1:
                found.append(trouble(table, damaged(rng), must_refuse=False))
            else:
                tree = condition(rng, 3)
                if names_a_column(tree):
                    found.append(disagreement(table, tree))
        if Path(canary).exists():
            found.append("a file was written")
    return [text for text in found if text]
