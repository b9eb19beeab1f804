"""Kernels as text, such as "matern32(time) + periodic(time, 1d) + linear(temperature)"; nothing in it is run.

    sum      = product { "+" product }
    product  = factor { "*" factor }
    factor   = "(" sum ")" | kernel [ "(" [ argument { "," argument } ] ")" ]
    argument = column | value | name "=" ( value | column | "(" several ")" )
    value    = number | duration, as 6h or 1d 12h | True | False | None

Columns come first, by name, in `backticks` or quotes where a name has spaces or signs. One value may follow them: the
length-scale (of `linear` and `constant`, the variance; of `periodic`, the period). Everything else has a name. As in
Python, values are where the search starts; `fixed=period`, or `fixed=(period, variance)`, keeps them. What `repr` shows
of a kernel can be parsed too.

A name without parentheses, as in "matern32 + linear", is a kernel of all columns with one length-scale per column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from biasgp.kernels.base import Kernel
from biasgp.kernels.category import Same
from biasgp.kernels.durations import to_seconds
from biasgp.kernels.leaf import Leaf
from biasgp.kernels.linear import Constant, Linear
from biasgp.kernels.periodic import Periodic
from biasgp.kernels.stationary import Exponential, Matern32, Matern52, SquaredExponential
from biasgp.messages import clip, printable

MAX_LENGTH = 2_000
"""Characters of a kernel: more than anyone writes by hand, and little enough to bound the work."""
MAX_DEPTH = 20
"""Levels of parentheses; far below where Python's own recursion ends."""
MAX_KERNELS = 50
"""Kernels in one text. A sum is a tree as deep as it has terms, and every step of a search walks it."""

_STATIONARY = ("length_scale", "variance", "ard", "columns", "fixed")


class _Form(NamedTuple):
    """How a kernel is made: its class, the names of its arguments, and what a value without a name is."""

    kind: type[Leaf]
    arguments: tuple[str, ...]
    value: str


_FORMS = {
    "exponential": _Form(Exponential, _STATIONARY, "length_scale"),
    "matern32": _Form(Matern32, _STATIONARY, "length_scale"),
    "matern52": _Form(Matern52, _STATIONARY, "length_scale"),
    "se": _Form(SquaredExponential, _STATIONARY, "length_scale"),
    "squaredexponential": _Form(SquaredExponential, _STATIONARY, "length_scale"),
    "periodic": _Form(Periodic, ("period", *_STATIONARY), "period"),
    "linear": _Form(Linear, ("variance", "ard", "center", "columns", "fixed"), "variance"),
    "constant": _Form(Constant, ("variance", "fixed"), "variance"),
    "same": _Form(Same, ("variance", "each", "columns", "fixed"), "variance"),
}
"""By their names without capitals and underscores."""
_KNOWN = "exponential, matern32, matern52, se, periodic, linear, constant, same"
_WORDS = {"true": True, "false": False, "none": None}

_NUMBER = r"(?>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"  # whole: the e of 2e-1 is no unit
_UNIT = r"[A-Za-zµμ]+"
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<duration>(?:{_NUMBER}\s*{_UNIT}\s*)+)|(?P<number>{_NUMBER})|(?P<name>[^\W\d]\w*)"
    r"|(?P<backticks>`(?:[^`]|``)*`)|(?P<quoted>'[^']*'|\"[^\"]*\")|(?P<sign>[-+*(),=])|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True)
class _Token:
    """A piece of the text, and where it begins."""

    kind: str
    text: str
    at: int

    @property
    def name(self) -> str:
        """What a column's name is: without its quotes."""
        if self.kind == "backticks":
            return self.text[1:-1].replace("``", "`")
        return self.text[1:-1] if self.kind == "quoted" else self.text

    def refuse(self, why: str) -> NoReturn:
        what = f"{printable(clip(self.text))!r}" if self.text else "the end"
        raise ValueError(f"kernel, character {self.at + 1}, {what}: {why}")


def parse(text: str) -> Kernel:
    """The kernel that a text describes; ValueError, with the place, where it describes none.

    Parameters
    ----------
    text : str
        Kernels joined by ``+`` and ``*``, each with its columns and, if you like, with values to start from. At most
        2,000 characters; nothing in it is run.

    Examples
    --------
    >>> from biasgp.kernels import parse
    >>> parse("matern32(time) + periodic(time, 1d) + linear(temperature)")
    Matern32(columns=('time',)) + Periodic(columns=('time',), period='1d') + Linear(columns=('temperature',))
    >>> parse("matern32(time, length_scale=6h, fixed=length_scale) * same(sensor)")
    Matern32(columns=('time',), length_scale='6h') * Same('sensor')
    """
    if not isinstance(text, str):
        raise ValueError(f"kernel must be text, got {type(text).__name__}.")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"kernel: {len(text):,} characters; at most {MAX_LENGTH:,} are allowed.")
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.next, self.depth, self.kernels = 0, 0, 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.next]

    def take(self) -> _Token:
        token = self.token
        self.next = min(self.next + 1, len(self.tokens) - 1)
        return token

    def met(self, sign: str) -> bool:
        """Whether the next token is this sign; it is taken then."""
        if self.token.kind == "sign" and self.token.text == sign:
            self.take()
            return True
        return False

    def whole(self) -> Kernel:
        if not self.token.text:
            raise ValueError(f'kernel: there is nothing in it. Write it like "matern32(time)"; there is {_KNOWN}.')
        kernel = self.sum()
        if self.token.text:
            self.token.refuse("a kernel ends before this. Join kernels by + or *.")
        return kernel

    def sum(self) -> Kernel:
        kernel = self.product()
        while self.met("+"):
            kernel = kernel + self.product()
        return kernel

    def product(self) -> Kernel:
        kernel = self.factor()
        while self.met("*"):
            kernel = kernel * self.factor()
        return kernel

    def factor(self) -> Kernel:
        token = self.token
        if not self.met("("):
            return self.kernel()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            token.refuse(f"parentheses are more than {MAX_DEPTH} levels deep. Write it more simply.")
        kernel = self.sum()
        if not self.met(")"):
            self.token.refuse(f"the parenthesis of character {token.at + 1} is not closed here.")
        self.depth -= 1
        return kernel

    def kernel(self) -> Kernel:
        token = self.take()
        form = _FORMS.get(token.text.replace("_", "").lower()) if token.kind == "name" else None
        if form is None:
            advice = " Write constant() for an unknown level." if token.kind == "number" else ""
            token.refuse(f"this is no kernel; there is {_KNOWN}.{advice}")
        self.kernels += 1
        if self.kernels > MAX_KERNELS:
            token.refuse(f"these are more than {MAX_KERNELS} kernels.")
        if not self.met("("):
            return _made(form, [], {"ard": True} if "ard" in form.arguments else {}, token)
        columns, given = self.arguments(form)
        return _made(form, columns, given, token)

    def arguments(self, form: _Form) -> tuple[list[Any], dict[str, Any]]:
        """Columns, and values by name."""
        columns: list[Any] = []
        given: dict[str, Any] = {}
        if self.met(")"):
            return columns, given
        while True:
            token = self.token
            following = self.tokens[min(self.next + 1, len(self.tokens) - 1)]
            if token.kind == "name" and following.text == "=":
                name, value = self.named(form)
                _once(given, name, token)
                given[name] = value
            elif token.kind in ("name", "backticks", "quoted"):
                if given:
                    token.refuse("columns come before values.")
                columns.append(self.take().name)
            else:
                value = self.value()
                if given:
                    token.refuse(f"this value needs its name: one of {', '.join(form.arguments)}.")
                given[form.value] = value
            if self.met(")"):
                return columns, given
            if not self.met(","):
                self.token.refuse("a comma or a closing parenthesis must be here.")

    def named(self, form: _Form) -> tuple[str, Any]:
        """An argument with its name."""
        token = self.take()
        if token.text not in form.arguments:
            token.refuse(f"{form.kind.__name__} has no such argument; it has {', '.join(form.arguments)}.")
        self.take()  # =
        if not self.met("("):
            value = self.word_or_value(token.text)
            return token.text, (value,) if token.text in ("columns", "fixed", "center") else value
        several: list[Any] = []
        while not self.met(")"):
            several.append(self.word_or_value(token.text))
            if not self.met(",") and self.token.text != ")":
                self.token.refuse("a comma or a closing parenthesis must be here.")
        return token.text, tuple(several)

    def word_or_value(self, argument: str) -> Any:
        """A column or a parameter's name, where that is what an argument takes; else a value."""
        token = self.token
        if argument in ("columns", "fixed"):
            if token.kind in ("name", "backticks", "quoted"):
                return self.take().name
            value = self.value()
            if argument == "fixed" or not isinstance(value, float) or value != int(value):
                token.refuse("a column is a name or a whole number, and what is fixed is a parameter's name.")
            return int(value)
        if token.kind == "quoted":
            _check_duration(token, token.name)
            return self.take().name
        value = self.value()
        wants_word = argument in ("ard", "each")
        if (isinstance(value, bool) or value is None) != wants_word and value is not None:
            token.refuse(f"{argument} must be {'True or False' if wants_word else 'a number or a duration'}.")
        return value

    def value(self) -> Any:
        negative = self.met("-")
        token = self.take()
        if token.kind == "number":
            return -float(token.text) if negative else float(token.text)
        if token.kind == "duration":
            text = token.text.strip()
            _check_duration(token, text)
            return text
        if token.kind != "name" or token.text.lower() not in _WORDS:
            token.refuse("a number or a duration, such as 6h, must be here.")
        return _WORDS[token.text.lower()]


def _tokens(text: str) -> Iterator[_Token]:
    """The pieces of a text, without spaces, and an empty one at its end."""
    for found in _TOKEN.finditer(text):
        token = _Token(str(found.lastgroup), found[0], found.start())
        if token.kind == "other":
            closing = " It is not closed." if token.text in "`'\"" else ""
            token.refuse(f"this has no meaning here.{closing}")
        if token.kind != "space":
            yield token
    yield _Token("end", "", len(text))


def _once(given: dict[str, Any], name: str, token: _Token) -> None:
    if name in given:
        token.refuse("this has a value already.")


def _check_duration(token: _Token, text: str) -> None:
    try:
        to_seconds(text)
    except ValueError as error:
        token.refuse(str(error))


def _made(form: _Form, columns: list[Any], given: dict[str, Any], token: _Token) -> Kernel:
    """The kernel of a form, with its columns and values."""
    fixed = given.pop("fixed", ())
    chosen = tuple(columns) or given.pop("columns", None)
    if columns and given.pop("columns", None) is not None:
        token.refuse("its columns are given twice.")
    if chosen is not None and form.kind is Constant:
        token.refuse("a constant has no columns.")
    given = {name: value for name, value in given.items() if value is not None}
    if "ard" in form.arguments and any(isinstance(given.get(name), tuple) for name in ("length_scale", "variance")):
        given.setdefault("ard", True)
    try:
        kernel = form.kind(columns=chosen, **given)
        return kernel.fix(*fixed) if fixed else kernel
    except ValueError as error:
        token.refuse(str(error))
