"""One browser, one fitted project and one server for as many stories as can share them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from app_desk import EVERYTHING, FIT_PATIENCE, Person, Server, assert_calm, table
from playwright.sync_api import Browser, sync_playwright

from barriers import BINARY, MISSING

READINGS = 200


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if BINARY is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BINARY, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def fitted(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a table and one fit, made once for all workers; not to be changed."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder, done = base / "stories" / "readings-biasgp", base / "stories" / "done"
    try:
        (base / "stories").mkdir()
    except FileExistsError:
        until = time.monotonic() + FIT_PATIENCE
        while not done.exists():
            assert time.monotonic() < until, "the other worker never finished the project"
            time.sleep(0.1)
        return folder
    source = base / "stories" / "readings.csv"
    table(READINGS).to_csv(source, index=False)
    server = Server(folder, str(source))
    try:
        # Which kernel is chosen is not what the stories are about, and takes a while.
        assert server.http.put("api/options", json={"kernel": "matern32"}).is_success
        server.fit()
    finally:
        server.close()
    done.touch()
    return folder


@pytest.fixture(scope="session")
def shared(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server on a copy of the fitted project."""
    folder = tmp_path_factory.mktemp("shared") / fitted.name
    shutil.copytree(fitted, folder)
    server = Server(folder)
    yield server
    server.close()


@pytest.fixture
def desk(shared: Server) -> Server:
    """The shared server, with no reading judged."""
    shared.mark(**EVERYTHING, verdict="open")
    return shared


@pytest.fixture(scope="session")
def one_for_tables(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("tables") / "project")
    yield server
    server.close()


@pytest.fixture
def tables(one_for_tables: Server) -> Server:
    """A shared server for stories that bring a table and fit nothing; all options are as at the start."""
    options = one_for_tables.get("api/project")["options"]
    usual = dict.fromkeys(set(options) - {"kernel", "method", "response"}) | {"na": []}
    assert one_for_tables.http.put("api/options", json=usual).is_success
    return one_for_tables


@pytest.fixture
def serve(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Servers of a story's own: `serve()` on an empty project, `serve(folder)` on a copy of one."""
    servers: list[Server] = []

    def start(project: Path | None = None, *arguments: str) -> Server:
        folder = tmp_path / (project.name if project else "project")
        if project is not None and not folder.exists():
            shutil.copytree(project, folder)
        servers.append(Server(folder, *arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def person(browser: Browser) -> Iterator[Callable[..., Person]]:
    """People at the page. When a story ends, nothing may have been complained of."""
    people: list[tuple[Person, Server | None]] = []

    def arrive(server: Server | None = None, **look: Any) -> Person:
        found = Person(browser, **look)
        people.append((found, server))
        return found

    yield arrive
    for found, server in people:
        found.close()
        if server is not None:
            assert_calm(found, server)
