"""Tests with other Pythons and other versions of what biasgp needs.

    pipx run nox                    # every Python from 3.11 on that is at hand, then lowest, newest and outside
    pipx run nox -s lowest -- tests/unit

What follows `--` is for pytest.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
OLD_LIBRARIES = ["-W", "ignore::DeprecationWarning", "-W", "ignore::PendingDeprecationWarning"]
"""Old versions of libraries use what newer ones of others have deprecated: no fault of ours."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


def _pytest(session: nox.Session, *options: str) -> None:
    session.run(
        "python", "-m", "pytest", "-n", "auto", "--dist", "worksteal", *options, *session.posargs, env=ONE_THREAD
    )


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """With the pinned versions."""
    session.install("-c", "constraints.txt", ".[all,test]")
    _pytest(session)


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """With the oldest versions that pyproject.toml allows."""
    session.install("-c", "constraints-lowest.txt", ".[all,test]")
    _pytest(session, *OLD_LIBRARIES)


@nox.session(python=PYTHONS[-2])
def newest(session: nox.Session) -> None:
    """With the newest versions that there are."""
    session.install("--upgrade", ".[all,test]")
    _pytest(session)


@nox.session(python=PYTHONS[0])
def outside(session: nox.Session) -> None:
    """The wheel and the sdist: built, checked, the wheel installed, and tested where there is no repository."""
    session.install("build", "twine")
    dist = Path(session.create_tmp()).resolve()
    for old in dist.glob("biasgp-*"):
        old.unlink()
    session.run("python", "-m", "build", "--outdir", str(dist), ".", env={"PYTHONPATH": ""})
    found = sorted(map(str, dist.glob("biasgp-*")))
    session.run("twine", "check", "--strict", *found)
    (wheel,) = dist.glob("*.whl")
    session.install("-c", "constraints.txt", f"biasgp[all,test] @ {wheel.as_uri()}")
    away = dist / "away"
    shutil.rmtree(away, ignore_errors=True)
    away.mkdir()
    for name in ("tests", "benchmarks"):
        shutil.copytree(name, away / name)
    shutil.copy("pyproject.toml", away)
    session.chdir(away)
    _pytest(session)


@nox.session(python=PYTHONS[0])
def types(session: nox.Session) -> None:
    """What type checkers make of the installed package, from outside."""
    session.install("-c", "constraints.txt", ".", "basedpyright", "mypy")
    away = Path(session.create_tmp()).resolve() / "types"
    shutil.rmtree(away, ignore_errors=True)
    shutil.copytree("tests/typing", away)
    session.chdir(away)
    session.run("mypy", "--strict", "--ignore-missing-imports", "consumer.py")
    session.run("basedpyright")
