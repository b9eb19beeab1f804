"""What the page of each estimator says of the paper: its section, and rows of GLOSSARY.md."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import biasgp

GLOSSARY = Path(__file__).resolve().parents[1] / "GLOSSARY.md"
WHERE = {
    "GaussianGP": "The model without biases, of :ref:`Section 2 <paper-model>`.",
    "ConstantBiasGP": "The constant bias (COB) of :ref:`Section 2.1 <paper-cob>`; its λ is in "
    ":ref:`Section 2.3 <paper-tuning>`.",
    "RandomBiasGP": "The random bias (RAB) of :ref:`Section 2.2 <paper-rab>`; its λ are in "
    ":ref:`Section 2.3 <paper-tuning>`.",
    "SparseBiasGP": "Not in the paper: it joins what is good in both of its models (:ref:`beyond the paper "
    "<paper-sparse>`).",
    "StudentTGP": "The rival EP of the paper's :ref:`Section 3 <paper-simulated>`.",
    "ScaleMixtureGP": "The rival MCMC of the paper's :ref:`Section 3 <paper-simulated>`.",
    "RobustConjugateGP": "Not in the paper: a later method, for comparison (:doc:`models </models>`).",
}
"""In reStructuredText; the labels are in paper.md."""
EVERYWHERE = {"X", "y"}
"""Parameters of `fit`, which all have."""


def glossary() -> list[tuple[str, str, str]]:
    """Symbol, names in the code, meaning."""
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [(symbol, code, meaning) for symbol, code, meaning in rows[2:]]


def names_of(estimator: type) -> set[str]:
    """Its parameters and fitted attributes, as its docstring has them."""
    documented = re.findall(r"^(\w[\w, ]*) :", inspect.getdoc(estimator) or "", flags=re.MULTILINE)
    return EVERYWHERE | {name for names in documented for name in names.split(", ")}


def symbols_of(estimator: type) -> list[tuple[str, str, str]]:
    """The rows of the glossary that name a parameter or an attribute of this estimator, in reStructuredText."""
    names = names_of(estimator)
    return [
        tuple(re.sub(r"`([^`]+)`", r"``\1``", cell) for cell in row)  # type: ignore[misc]
        for row in glossary()
        if names & set(re.findall(r"`(\w+)`", row[1]))
    ]


def paper() -> dict[str, dict[str, Any]]:
    """By the name of the estimator."""
    return {name: {"where": where, "symbols": symbols_of(getattr(biasgp, name))} for name, where in WHERE.items()}
