"""How large the house is, and how far it is to its core: the figures that CONTRIBUTING's structure is judged by.

    python benchmarks/house.py

Lines and modules; functions with more than six parameters (constructors and `fit` of estimators, and commands,
excepted); class names that occur in several modules; public functions and classes; frames from SparseBiasGP.fit to the
first Cholesky.
"""

from __future__ import annotations

import ast
import traceback
from collections import Counter
from pathlib import Path

from biasgp import SparseBiasGP
from biasgp.covariance import dense
from biasgp.data import simulate

SOURCE = Path(__file__).parents[1] / "src" / "biasgp"
MAX_PARAMETERS = 6
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def wide_functions(path: Path, tree: ast.Module) -> list[str]:
    """Functions with more than six parameters; commands, constructors and fits of estimators are a user's to write."""
    if path.parent.name == "cli":
        return []
    return [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and not (path.parent.name == "estimators" and node.name in ("__init__", "fit"))
        and sum(a.arg not in ("self", "cls") for a in node.args.args + node.args.kwonlyargs) > MAX_PARAMETERS
    ]


def frames_to_the_first_factorisation() -> list[str]:
    """Names of the functions between SparseBiasGP.fit and the first Cholesky, both included."""
    found: list[str] = []
    original = dense.lapack.dpotrf

    def spy(*args: object, **options: object) -> object:
        if not found:
            found.extend(
                f"{Path(frame.filename).relative_to(SOURCE)}:{frame.name}"
                for frame in traceback.extract_stack()
                if str(SOURCE) in frame.filename
            )
        return original(*args, **options)

    class Spying:
        dpotrf = staticmethod(spy)

        def __getattr__(self, name: str) -> object:
            return getattr(lapack, name)

    lapack, dense.lapack = dense.lapack, Spying()
    try:
        data = simulate("1d", 8)
        SparseBiasGP().fit(data.X, data.y)
    finally:
        dense.lapack = lapack
    return found


def main() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    top = [(path, node) for path, tree in trees.items() for node in tree.body if isinstance(node, DEFINITIONS)]
    classes = Counter(node.name for _, node in top if isinstance(node, ast.ClassDef))
    wide = [found for path, tree in trees.items() for found in wide_functions(path, tree)]
    walk = frames_to_the_first_factorisation()
    print(f"lines of Python {lines}")
    print(f"modules under models {sum('models' in path.parts for path in files)}")
    print(f"functions with more than {MAX_PARAMETERS} parameters {len(wide)}", *wide, sep="\n  ")
    print(f"class names in several modules {[name for name, count in classes.items() if count > 1]}")
    print(f"public functions and classes {sum(not node.name.startswith('_') for _, node in top)}")
    print(f"frames to the first Cholesky {len(walk)}", *walk, sep="\n  ")


if __name__ == "__main__":
    main()
