"""A server for a project, from its start to its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from biasgp.app.project import Project, alone, announced
from biasgp.app.server import HOST, Desk, listening, make_app, new_token


def serve(folder: Path, table: Path | None, port: int, ready: Callable[[str], None]) -> None:
    """Serve a project until it is asked to end; `ready` is called with the address, which holds the token."""
    import uvicorn

    folder.mkdir(parents=True, exist_ok=True)
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
        server = uvicorn.Server(config)
        with place, announced(folder, url):
            ready(url)
            try:
                server.run(sockets=[place])
            finally:
                if desk.job is not None and desk.job.is_running:
                    desk.job.cancel()
