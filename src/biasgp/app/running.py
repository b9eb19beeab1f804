"""A server for a project, from its start to its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from biasgp.app.project import Project, alone, announced
from biasgp.app.server import HOST, Desk, listening, make_app, new_token
from biasgp.messages import WrongUseError


class _Server(uvicorn.Server):
    """One that Ctrl-C and SIGTERM end as they should end a server: with nothing to complain about."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(folder: Path, table: Path | None, port: int, ready: Callable[[str], None]) -> None:
    """Serve a project until it is asked to end; `ready` is called with the address, which holds the token."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise WrongUseError(
            f"The project {str(folder)!r} cannot be made ({reason}). Choose another --project."
        ) from error
    with alone(folder):
        project = Project(folder)
        if table is not None:
            project.take_table(table, table.name)
        place = listening(port)
        number, token = place.getsockname()[1], new_token()
        url = f"http://{HOST}:{number}/{token}/"
        desk = Desk(project)
        config = uvicorn.Config(
            make_app(desk, token, number),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        server = _Server(config)
        with place, announced(folder, url):
            ready(url)
            desk.workers.prepare()
            try:
                server.run(sockets=[place])
            finally:
                desk.close()
