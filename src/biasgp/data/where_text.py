"""Text of `--where` to a tree of the nodes that its language has; all else is refused with the offending piece named.
`biasgp.data.where` describes the language and evaluates the tree."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import NoReturn

from biasgp.messages import TableError, clip, printable

MAX_LENGTH = 2_000
"""Characters of a condition: more than anyone writes by hand, and little enough to bound the work on every table."""
MAX_DEPTH = 50
"""Levels of nested operations; a sum of so many terms is as deep. Far below where Python's own recursion ends."""
SHOWN = 60
"""Characters of the offending piece that a refusal repeats."""

ALLOWED = "Use columns, numbers, quoted text, comparisons, in [...], and, or, not, + - * / and parentheses."
_ADVICE = "Write it like \"temperature_c > 0 and flag == ''\", with `backticks` around names with spaces or signs."

_WHITELIST = (
    *(ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.BinOp, ast.Compare),
    *(ast.In, ast.NotIn, ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Add, ast.Sub, ast.Mult, ast.Div),
)
_WHY_NOT: dict[type[ast.AST], str] = {
    ast.Call: "calls are not allowed",
    ast.Attribute: "attributes are not allowed",
    ast.Subscript: "subscripts are not allowed",
    ast.Lambda: "functions are not allowed",
    ast.IfExp: "if and else are not allowed",
    ast.NamedExpr: "assignments are not allowed; write == to compare",
    ast.JoinedStr: "formatted text is not allowed",
    ast.Pow: "powers are not allowed",
    ast.BitAnd: "& is not allowed; write and",
    ast.BitOr: "| is not allowed; write or",
    ast.BitXor: "^ is not allowed",
    ast.Invert: "~ is not allowed; write not",
    ast.FloorDiv: "// is not allowed",
    ast.Mod: "% is not allowed",
    ast.MatMult: "@ is not allowed",
    ast.Is: "is is not allowed; write ==",
    ast.IsNot: "is not is not allowed; write !=",
}

_STRING = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_TOKEN = re.compile(
    rf"(?P<triple>'''|\"\"\")|(?P<string>{_STRING})|(?P<name>`(?:[^`]|``)*`)|(?P<space>\s+)|(?P<other>.)", re.DOTALL
)
_ASSIGNS = re.compile(r"(?<![=<>!:])=(?!=)")


def parse(expression: str) -> tuple[ast.expr, Source]:
    """The tree of a condition, of nodes of the language alone, and what it was made from."""
    source = _source(expression)
    tree = _tree(source)
    _refuse_foreign(tree, source)
    if not any(isinstance(node, ast.Name) for node in ast.walk(tree)):
        raise TableError(f"--where {Source.shown(expression)!r} names no column. {_ADVICE}")
    return tree.body, source


@dataclass(frozen=True)
class Source:
    """The user's text, and the same with a plain identifier in the place of each name in backticks."""

    written: str
    python: str
    prefix: str
    """How the identifiers begin; it occurs nowhere in the user's text."""
    names: tuple[str, ...]

    def piece(self, node: ast.AST) -> str:
        """What the user wrote for a node."""
        return self.as_written(ast.get_source_segment(self.python, node) or self.python)

    def as_written(self, python: str) -> str:
        def quoted(found: re.Match[str]) -> str:
            return "`" + self.names[int(found[1])].replace("`", "``") + "`"

        return re.sub(rf" ?{self.prefix}(\d+)_ ?", quoted, python).strip()

    def name(self, node: ast.Name) -> str:
        """The column as it was written: Python's own form of an identifier is normalised, and may be another column."""
        segment = ast.get_source_segment(self.python, node) or node.id
        if segment.startswith(self.prefix):
            return self.names[int(segment[len(self.prefix) : -1])]
        return segment

    @staticmethod
    def shown(text: str, length: int = SHOWN) -> str:
        """Text of the user, cut and fit to print."""
        return printable(clip(text, length))

    def refuse(self, node: ast.AST, why: str, advice: str = ALLOWED) -> NoReturn:
        piece = self.shown(self.piece(node))
        marked = piece if "`" in piece else f"`{piece}`"
        raise TableError(f"--where: {marked}: {why}. {advice}".strip())


def _source(expression: str) -> Source:
    if len(expression) > MAX_LENGTH:
        raise TableError(f"--where has {len(expression):,} characters; at most {MAX_LENGTH:,} are allowed.")
    prefix = "_q"
    while prefix in expression:
        prefix += "q"
    names: list[str] = []
    pieces: list[str] = []
    before = ""
    for token in _TOKEN.finditer(expression):
        kind, text = token.lastgroup, token[0]
        if kind == "triple":
            raise TableError(f"--where: {text}: text is written in single or double quotes, each once.")
        if kind == "string" and before == "string":
            raise TableError(f"--where: {Source.shown(text)}: text directly after text. Is a comma missing?")
        if text == "#":
            raise TableError("--where: #: comments are not allowed. Put `backticks` around a name that has a # in it.")
        if kind == "name":
            pieces.append(f" {prefix}{len(names)}_ ")
            names.append(text[1:-1].replace("``", "`"))
        else:
            pieces.append(" " if kind == "space" else text)
        before = before if kind == "space" else str(kind)
    return Source(expression, "".join(pieces).strip(), prefix, tuple(names))


def _tree(source: Source) -> ast.Expression:
    try:
        with warnings.catch_warnings():
            # Python warns of what is probably a slip, such as '\d'; here it is an error like any other.
            warnings.simplefilter("error")
            return ast.parse(source.python, mode="eval")
    except SyntaxError as error:
        reason = source.as_written(error.msg or "invalid syntax")
    except (RecursionError, MemoryError):
        reason = "it is nested too deeply"
    except (ValueError, Warning) as error:  # zero bytes, lone surrogates
        reason = str(error)
    if _ASSIGNS.search(re.sub(_STRING, "", source.python)):
        reason = "= assigns; write == to compare"
    reason = Source.shown(" ".join(reason.split()), 2 * SHOWN)
    raise TableError(f"--where {Source.shown(source.written)!r} cannot be read ({reason}). {_ADVICE}")


def _refuse_foreign(tree: ast.Expression, source: Source) -> None:
    """Refuse every node that is not of the language, before any column is read."""
    waiting: list[tuple[ast.AST, ast.AST, int]] = [(tree.body, tree.body, 1)]
    while waiting:
        node, placed, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise TableError(
                f"--where is nested more than {MAX_DEPTH} levels deep (a sum of so many terms counts as well). "
                "Write it more simply."
            )
        if not isinstance(node, _WHITELIST):
            source.refuse(placed, _WHY_NOT.get(type(node), "this is not allowed"))
        # Operators have no place of their own in the text; that of their operation is shown.
        children = [(child, child if hasattr(child, "lineno") else node) for child in ast.iter_child_nodes(node)]
        waiting += [(child, where, depth + hasattr(child, "lineno")) for child, where in reversed(children)]
