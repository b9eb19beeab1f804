"""One look per method in all figures: a colour that colour-blind people can tell, and a marker and line for print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Okabe and Ito's colours; grey and black for the two references.
_LOOKS = {
    "gp": ("#7f7f7f", "s", (0, (1, 1))),
    "oracle": ("#000000", "+", (0, (5, 1))),
    "cob": ("#0072B2", "o", "solid"),
    "rab": ("#E69F00", "^", (0, (4, 2))),
    "sparse": ("#009E73", "D", (0, (6, 1, 1, 1))),
    "sparse@auto": ("#009E73", "d", (0, (2, 1))),
    "ep": ("#D55E00", "v", (0, (3, 1, 1, 1, 1, 1))),
    "mcmc": ("#CC79A7", "P", (0, (1, 2))),
}
_OTHERS = [("#56B4E9", "X", (0, (2, 2))), ("#F0E442", "*", (0, (5, 3))), ("#44546A", "p", (0, (1, 3)))]


@dataclass(frozen=True)
class Look:
    """How a method is drawn."""

    color: str
    marker: str
    line: object


def looks(methods: Sequence[str]) -> dict[str, Look]:
    """A look for each; methods that are not ours take the spare ones in turn."""
    spare = [name for name in methods if name not in _LOOKS]
    found = {}
    for name in methods:
        found[name] = Look(*(_LOOKS[name] if name in _LOOKS else _OTHERS[spare.index(name) % len(_OTHERS)]))
    return found
