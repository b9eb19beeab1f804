"""The routes of the page, and the server. What they ask for is done in threads, so that the page stays alive."""

from __future__ import annotations

import json
import math
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from biasgp.app import views
from biasgp.app.downloads import command_text, events_csv, report_html, result_file, verdicts_csv
from biasgp.app.guard import Guard
from biasgp.app.job import Job, Workers
from biasgp.app.journal import REDO, UNDO, WORDS
from biasgp.app.loaded import Rows
from biasgp.app.options import EVENTS
from biasgp.app.project import LONGEST_REASON, ConflictError, MissingError, Project
from biasgp.app.understanding import preview
from biasgp.messages import TableError, WrongUseError, clip

HOST = "127.0.0.1"
TOKEN_BYTES = 32
MOST_QUEUED = 1000
MOST_DIGITS = 12
"""Of a row."""
LARGEST = 1e300
"""Of a place on the axis."""
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


@dataclass
class Desk:
    """A project at work: what the routes share."""

    project: Project
    job: Job | None = None
    workers: Workers = field(default_factory=Workers)
    static: dict[str, bytes] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """The project, for the page."""
        with self.project.lock:
            return views.project_view(self.project, None if self.job is None else self.job.told())

    def start(self) -> dict[str, Any]:
        """Begin a fit."""
        project = self.project
        with project.lock:
            if self.job is not None and self.job.is_running:
                raise ConflictError("A fit is running. Wait for it, or cancel it.")
            project.readable()
            current = project.current()
            request = {
                "folder": str(project.folder.resolve()),
                "fit": project.next_id(),
                "table": str(project.table_path.relative_to(project.folder)),
                "sha256": project.sha256,
                "options": project.options.plain(),
                "version": project.journal.version,
                "before": None if current is None else current.id,
            }
            self.job = Job(self.workers.take(), request, self._finished)
            return self.job.told()

    def _finished(self) -> None:
        self.project.forget_fits()
        self.workers.prepare()

    def cancel(self) -> dict[str, Any]:
        """End the fit that runs."""
        job = self.job
        if job is None:
            raise MissingError("No fit was started.")
        if job.is_running:
            job.cancel()
            self.workers.prepare()
        return job.told()

    def close(self) -> None:
        """End what was started."""
        if self.job is not None and self.job.is_running:
            self.job.cancel()
        self.workers.close()

    def asset(self, name: str) -> bytes:
        """A file of the page, by its name in the list of those that there are."""
        if name == "plotly.min.js" and name not in self.static:
            self.static[name] = (files("plotly") / "package_data" / name).read_bytes()
        if name == "report.css" and name not in self.static:
            self.static[name] = (files("biasgp.report") / "static" / name).read_bytes()
        if name in self.static:
            return self.static[name]
        found = _own_assets().get(name)
        if found is None:
            raise MissingError("There is no such file.")
        return found.read_bytes()


def _own_assets() -> dict[str, Path]:
    """Names of the files in static/, as the page asks for them."""
    folder = Path(str(files("biasgp.app"))) / "static"
    return {str(path.relative_to(folder)).replace("\\", "/"): path for path in folder.rglob("*") if path.is_file()}


Handler = Callable[[Desk, Request, Any], Any]


def make_app(desk: Desk, token: str, port: int) -> ASGIApp:
    """The page of a project, behind its door."""
    errors: dict[Any, Any] = {
        HTTPException: _refused,
        WrongUseError: _error(422),
        TableError: _error(422),
        MissingError: _error(404),
        ConflictError: _error(409),
    }
    routes = [
        Route("/", _page(desk)),
        Route("/static/{name:path}", _route(desk, _asset)),
        Route("/api/project", _route(desk, lambda desk, *_: desk.told())),
        Route("/api/preview", _route(desk, _preview)),
        Route("/api/table", _upload(desk), methods=["POST"]),
        Route("/api/options", _route(desk, _put_options, body=True), methods=["PUT"]),
        Route("/api/fit", _route(desk, _fit, body=True), methods=["POST"]),
        Route("/api/job", _route(desk, _job)),
        Route("/api/job", _route(desk, lambda desk, *_: desk.cancel()), methods=["DELETE"]),
        Route("/api/plot", _route(desk, _plot)),
        Route("/api/verdicts", _route(desk, _judge, body=True), methods=["POST"]),
        Route("/api/undo", _route(desk, _step(UNDO), body=True), methods=["POST"]),
        Route("/api/redo", _route(desk, _step(REDO), body=True), methods=["POST"]),
        Route("/api/explain", _route(desk, _explain)),
        Route("/api/queue", _route(desk, _queue)),
        Route("/api/changes", _route(desk, _changes)),
        Route("/api/sensors", _route(desk, lambda desk, *_: views.sensors_view(desk.project))),
        Route("/download/{name}", _route(desk, _download)),
    ]
    return Guard(Starlette(routes=routes, exception_handlers=errors), token, port)


def _route(desk: Desk, handler: Handler, *, body: bool = False) -> Callable[[Request], Any]:
    """A route: the body read and checked, the work done in a thread, the answer as JSON unless it is one already."""

    async def endpoint(request: Request) -> Response:
        given = _parsed(await request.body()) if body else None
        found = await run_in_threadpool(handler, desk, request, given)
        return found if isinstance(found, Response) else JSONResponse(found)

    return endpoint


def _parsed(body: bytes) -> dict[str, Any]:
    """A JSON object; nothing counts as an empty one."""
    try:
        found = json.loads(body or b"{}", parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise HTTPException(400, "The request is no JSON.") from None
    if not isinstance(found, dict):
        raise HTTPException(400, "The request must be a JSON object.")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _error(status: int) -> Callable[[Request, Exception], Response]:
    def answer(_: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error.args[0] if error.args else error)}, status)

    return answer


async def _refused(_: Request, error: HTTPException) -> Response:
    words = {404: "There is no such page.", 405: "This cannot be done here."}
    return JSONResponse({"error": words.get(error.status_code, error.detail)}, error.status_code, error.headers)


def _page(desk: Desk) -> Callable[[Request], Any]:
    async def endpoint(_: Request) -> Response:
        template = Path(str(files("biasgp.app"))) / "templates" / "app.html"
        if not template.is_file():
            raise HTTPException(404, "There is no page.")
        return Response(template.read_bytes(), media_type="text/html; charset=utf-8")

    return endpoint


def _upload(desk: Desk) -> Callable[[Request], Any]:
    """A table, streamed to disk and then taken into the project."""

    async def endpoint(request: Request) -> Response:
        if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
            raise HTTPException(400, "Send the table as a form with one file in the field 'file'.")
        try:
            async with request.form(max_files=1, max_fields=4) as form:
                file = form.get("file")
                if not isinstance(file, UploadFile):
                    raise HTTPException(400, "Send the table as a form with one file in the field 'file'.")
                await run_in_threadpool(_take, desk, file)
        except ClientDisconnect:
            raise HTTPException(400, "The upload ended early.") from None
        return JSONResponse(await run_in_threadpool(desk.told))

    return endpoint


def _take(desk: Desk, file: UploadFile) -> None:
    if desk.job is not None and desk.job.is_running:
        raise ConflictError("A fit is running. Wait for it, or cancel it.")
    name = file.filename or ""
    with tempfile.TemporaryDirectory(dir=desk.project.folder, prefix=".upload-") as folder:
        # With the ending that was given, by which some kinds of tables are told apart.
        place = Path(folder) / f"table{Path(name).suffix if Path(name).suffix.isascii() and len(name) < 200 else ''}"
        with place.open("wb") as out:
            shutil.copyfileobj(file.file, out)
        desk.project.take_table(place, name)


def _asset(desk: Desk, request: Request, _: Any) -> Response:
    name = request.path_params["name"]
    kind = TYPES.get(Path(name).suffix, "application/octet-stream")
    return Response(desk.asset(name), media_type=kind)


def _preview(desk: Desk, *_: Any) -> Any:
    table = desk.project.loaded().table
    if table is None:
        raise MissingError("The table cannot be read yet, so there is no preview.")
    return preview(table)


def _put_options(desk: Desk, _: Request, body: dict[str, Any]) -> Any:
    desk.project.change_options(body)
    return desk.told()


def _fit(desk: Desk, _: Request, body: dict[str, Any]) -> Response:
    if body:
        raise WrongUseError("A fit takes no options of its own: change those of the project.")
    return JSONResponse(desk.start(), 202)


def _job(desk: Desk, *_: Any) -> Any:
    if desk.job is None:
        raise MissingError("No fit was started.")
    return desk.job.told()


def _plot(desk: Desk, request: Request, _: Any) -> Any:
    ends = [_place(request, name, usual) for name, usual in (("from", -math.inf), ("to", math.inf))]
    return views.plot_view(desk.project, _sensor(request), *ends)


def _place(request: Request, name: str, usual: float) -> float:
    text = request.query_params.get(name, "")
    if not text:
        return usual
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST:
        raise WrongUseError(f"{name!r} must be a number on the axis.")
    return value


def _sensor(request: Request) -> str | None:
    return request.query_params.get("sensor") or None


def _whole(request: Request, name: str, usual: int | None = None) -> int:
    text = request.query_params.get(name, "" if usual is None else str(usual))
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise WrongUseError(f"{name!r} must be a whole number from 1.")
    return int(text)


def _judge(desk: Desk, _: Request, body: dict[str, Any]) -> Any:
    _check_verdict(body)
    project = desk.project
    with project.lock:
        rows: Rows = views.judged_rows(project, body)
        changed = project.judge(rows, body["verdict"], body.get("why", ""))
        return {"changed": changed, "verdicts": views.verdicts_view(project), "stale": project.is_stale()}


def _check_verdict(body: dict[str, Any]) -> None:
    """Refuse a verdict that is none."""
    unknown = set(body) - {"rows", "from", "to", "verdict", "why", "sensor"}
    if unknown:
        raise WrongUseError(f"A verdict has no field {clip(min(unknown))!r}.")
    if not isinstance(body.get("verdict"), str) or body["verdict"] not in WORDS:
        raise WrongUseError("The verdict must be good, bad or open.")
    why, sensor = body.get("why", ""), body.get("sensor")
    if not isinstance(why, str) or len(why) > LONGEST_REASON or not why.isprintable():
        raise WrongUseError(f"The reason must be one line of at most {LONGEST_REASON} characters.")
    if not isinstance(sensor, str | None):
        raise WrongUseError("The sensor must be text.")
    if "rows" in body:
        rows = body["rows"]
        if "from" in body or "to" in body:
            raise WrongUseError("Name rows, or an interval, not both.")
        if not isinstance(rows, list) or not rows or not all(type(row) is int and 1 <= row < 10**12 for row in rows):
            raise WrongUseError("The rows must be a list of whole numbers from 1.")
        return
    ends: list[Any] = [body.get("from"), body.get("to")]
    if not all(type(end) in (int, float) and abs(end) <= LARGEST for end in ends):
        raise WrongUseError("Name rows, or an interval of the axis by two numbers, from and to.")


def _step(action: str) -> Handler:
    def handler(desk: Desk, _: Request, body: dict[str, Any]) -> Any:
        if body:
            raise WrongUseError(f"To {action} takes nothing more.")
        project = desk.project
        with project.lock:
            project.readable()
            changed = project.step(action)
            return {"changed": changed, "verdicts": views.verdicts_view(project), "stale": project.is_stale()}

    return handler


def _explain(desk: Desk, request: Request, _: Any) -> Any:
    wait = request.query_params.get("wait") == "1"
    return views.explain_view(desk.project, _whole(request, "row") - 1, with_neighbours=wait)


def _queue(desk: Desk, request: Request, _: Any) -> Any:
    return views.queue_view(desk.project, _sensor(request), min(_whole(request, "n", 20), MOST_QUEUED))


def _changes(desk: Desk, request: Request, _: Any) -> Any:
    return views.changes_view(desk.project, _sensor(request))


def _download(desk: Desk, request: Request, _: Any) -> Response:
    name, project = request.path_params["name"], desk.project
    project.readable()
    if name == "verdicts.csv":
        return _attached(verdicts_csv(project).encode(), "text/csv", name)
    if name == EVENTS:
        return _attached(events_csv(project).encode(), "text/csv", name)
    if name == "command.txt":
        return _attached(command_text(project).encode(), "text/plain", name)
    if name == "report.html":
        return _attached(report_html(project, _sensor(request)).encode(), "application/octet-stream", name)
    path = result_file(project, name, _sensor(request))
    return FileResponse(path, media_type="application/octet-stream", filename=name)


def _attached(content: bytes, kind: str, name: str) -> Response:
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def listening(port: int) -> socket.socket:
    """A socket on this machine alone, at a port or, with 0, at one that is free."""
    # With the protocol named, asyncio sends answers at once; otherwise each waits 40 ms for the browser to confirm.
    place = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((HOST, port))
        place.listen()  # whoever is told the address may come at once
    except OSError as error:
        place.close()
        raise WrongUseError(
            f"Port {port} cannot be used ({error.strerror or error}). Choose another --port."
        ) from error
    return place


def new_token() -> str:
    """What only the person who started the server knows."""
    return secrets.token_urlsafe(TOKEN_BYTES)
