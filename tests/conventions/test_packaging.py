"""What ships the package agrees with pyproject.toml: the conda recipe, the Dockerfile, constraints and versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import biasgp

ROOT = Path(__file__).parents[2]
RECIPE, DOCKERFILE = ROOT / "conda.recipe" / "recipe.yaml", ROOT / "Dockerfile"
pytestmark = pytest.mark.skipif(not RECIPE.exists(), reason="the recipe is in the repository")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def needed(project: dict[str, Any], *extras: str) -> dict[str, str]:
    """Lower bounds of what the core and some extras need, by name; extras of ours are followed."""
    found: dict[str, str] = {}
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    for requirement in map(Requirement, lines):
        if requirement.name == "biasgp":
            found |= needed(project, *requirement.extras)
        else:
            found[requirement.name] = next(iter(requirement.specifier)).version if requirement.specifier else ""
    return found


def section(text: str, name: str) -> str:
    """The lines of a list in the recipe."""
    match = re.search(rf"^( *){name}:\n((?:\1  .*\n)+)", text, flags=re.MULTILINE)
    assert match
    return match[2]


def test_the_conda_recipe_needs_what_the_command_needs(project):
    text = RECIPE.read_text(encoding="utf-8")
    run = dict(re.findall(r"^    - ([\w-]+) >=([\d.]+)$", section(text, "run"), flags=re.MULTILINE))
    assert run.pop("python") == project["requires-python"].removeprefix(">=")
    assert run == needed(project, "cli")
    assert f'version: "{biasgp.__version__}"' in text
    entry = f"{next(iter(project['scripts']))} = {project['scripts']['biasgp']}"
    assert f"- {entry}\n" in text
    assert f"license: {project['license']}\n" in text
    assert f"homepage: {project['urls']['Homepage']}\n" in text


def test_the_dockerfile_installs_extras_that_there_are_and_runs_without_root(project):
    lines = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    text = "\n".join(lines)
    (extras,) = re.findall(r'"/source\[([\w,]+)\]"', text)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert {"jinja2", "uvicorn", "starlette"} <= set(needed(project, *extras.split(",")))
    assert 'ENTRYPOINT ["biasgp"]' in lines and "biasgp" in project["scripts"]
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users and users[-1] not in ("root", "0")
    assert text.index("USER ") > text.rindex("FROM ") and text.index("USER ") < text.index("ENTRYPOINT")
    for image in re.findall(r"^FROM python:(\d+\.\d+)-slim", text, flags=re.MULTILINE):
        assert f"Programming Language :: Python :: {image}" in project["classifiers"]
    # What is copied is what .dockerignore lets through.
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = {word for words in copies for word in words}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_the_lowest_constraints_are_the_lower_bounds(project):
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    bounds = needed(project, "all")
    assert set(bounds) <= set(pinned)
    other = {name: low for name, low in bounds.items() if Version(low) != Version(pinned[name])}
    assert not other


def test_the_version_is_the_same_everywhere():
    assert f"version: {biasgp.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## .*{re.escape(biasgp.__version__)}", changes, flags=re.MULTILINE)
