"""The door: who may ask, how much they may send, and what every answer says to the browser."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEGABYTE = 1_000_000
MOST_JSON, MOST_UPLOAD = MEGABYTE, 500 * MEGABYTE
"""Bytes of a request's body; of one that brings a table, with what its form adds."""
UPLOAD = "/api/table"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""What the page may load: its own files. Plotly makes <style> elements as it loads, whose text is not known before."""
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
LOGGER = logging.getLogger("biasgp.app")


@dataclass(frozen=True)
class Guard:
    """Lets in whoever has the token, from a page of this server; all others see nothing of it."""

    app: ASGIApp
    token: str
    port: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                own = {name for name, _ in HEADERS}
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() not in own]
                # What was not read of a request that is too long must not be waited for.
                end = [(b"connection", b"close")] if message["status"] in (403, 413) else []
                message = {**message, "headers": [*kept, *HEADERS, *end]}
            await send(message)

        status = self._refusal(scope)
        if status:
            await _answer(with_headers, status)
            return
        # What is behind sees paths without the token.
        inner = {**scope, "path": scope["path"][len(self.token) + 1 :], "root_path": ""}
        limit = MOST_UPLOAD + MEGABYTE if inner["path"] == UPLOAD and scope["method"] == "POST" else MOST_JSON
        length = _values(scope, b"content-length")
        if length and (not length[0].isdigit() or int(length[0][:20]) > limit):
            await _answer(with_headers, 413, f"A request may have at most {limit // MEGABYTE:,} MB.")
            return
        try:
            await self.app(inner, _limited(receive, limit), with_headers)
        except Exception as error:
            LOGGER.error("%s %s: %s", scope["method"], inner["path"], type(error).__name__, exc_info=error)
            if not begun:
                await _answer(with_headers, 500, "Something went wrong here. The terminal of biasgp app says more.")

    def _refusal(self, scope: Scope) -> int:
        """403 for who comes from elsewhere, 404 for who has not the token, 0 for who may enter."""
        places = {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}
        hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
        if len(hosts) != 1 or hosts[0].lower() not in places:
            return 403
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return 403
        if any(site not in ("same-origin", "none") for site in _values(scope, b"sec-fetch-site")):
            return 403
        # With the slash after it: without, relative links on the page would lead astray.
        start = scope["path"][: len(self.token) + 2].encode(errors="surrogatepass")
        return 0 if hmac.compare_digest(start, f"/{self.token}/".encode()) else 404


def _values(scope: Scope, name: bytes) -> Sequence[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _limited(receive: Receive, limit: int) -> Receive:
    """The body, as far as it is not too long: a length that was announced may be false, or none."""
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > limit:
            raise HTTPException(413, f"A request may have at most {limit // MEGABYTE:,} MB.")
        return message

    return counted


async def _answer(send: Send, status: int, text: str | None = None) -> None:
    said: dict[str, Any] = {"error": text or ("Not found." if status == 404 else "Not allowed.")}
    body = json.dumps(said).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
