"""Requests from outside, against a server in a process of its own: none gets in, none breaks it."""

from __future__ import annotations

import io
import json
import re
import socket
import zipfile
from collections.abc import Iterator

import pytest
from app_pages import Served, readings, serve

SECRET = "a secret beside the project"
BOUNDARY = "edge"
TRAVERSALS = (
    "../secret.txt",
    "../../secret.txt",
    "..%2fsecret.txt",
    "..%2Fsecret.txt",
    "%2e%2e/secret.txt",
    "%2e%2e%2fsecret.txt",
    "..%252fsecret.txt",
    "..%c0%afsecret.txt",
    "..%ef%bc%8fsecret.txt",
    "..\\secret.txt",
    "..%5csecret.txt",
    "....//secret.txt",
    "./.././secret.txt",
    "..;/secret.txt",
    "..%00/secret.txt",
    "app.css%00.txt",
    "/etc/passwd",
    "//etc/passwd",
    "%2fetc%2fpasswd",
    "C:%5cwindows%5cwin.ini",
    "file:%2f%2f%2fetc%2fpasswd",
    ".",
    "..",
    "%",
    "%zz",
    "a" * 5000,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "secret.txt").write_text(SECRET)
    table = folder / "readings.csv"
    table.write_text(readings().to_csv(index=False))
    found = serve(folder / "project", str(table))
    yield found
    found.process.terminate()
    found.process.wait(20.0)
    assert found.process.stdout is not None
    told = found.process.stdout.read()
    found.process.stdout.close()
    assert "Traceback" not in told


def is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return bool(end and length and len(body) >= int(length[1]))


def ask(server: Served, request: bytes) -> tuple[int, bytes]:
    """Send bytes as they are; the status, 0 where the connection was closed without one, and the rest of the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20.0) as line:
        line.sendall(request)
        answer = b""
        try:
            while not is_whole(answer) and (piece := line.recv(65536)):
                answer += piece
        except ConnectionResetError:
            pass
    return (int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0), answer


def message(server: Served, line: str, *headers: str, body: bytes = b"", host: str | None = None) -> bytes:
    """A request with {token} and {port} filled in."""
    host = "127.0.0.1:{port}" if host is None else host
    lines = [f"{line} HTTP/1.1", *([f"Host: {host}"] if host else []), *headers, "Connection: close"]
    if body or line.startswith(("POST", "PUT")):
        lines.append(f"Content-Length: {len(body)}")
    text = "\r\n".join(lines).replace("{token}", server.token).replace("{port}", str(server.port))
    return text.encode("latin-1") + b"\r\n\r\n" + body


def check(server: Served, answer: tuple[int, bytes], *expected: int) -> None:
    status, content = answer
    assert status in expected, content[:500]
    assert SECRET.encode() not in content and b"Traceback" not in content and b"root:x" not in content
    if status in (403, 404):
        assert server.token.encode() not in content


def still_works(server: Served) -> None:
    status, answer = ask(server, message(server, "GET /{token}/api/project"))
    assert status == 200
    said = json.loads(answer.split(b"\r\n\r\n", 1)[1])
    assert said["table"]["name"] == "readings.csv" and said["problem"] is None
    assert said["verdicts"] == {"good": 0, "bad": 0, "can_undo": False, "can_redo": False, "version": 0}


@pytest.mark.parametrize(
    ("line", "headers", "host", "status"),
    [
        # Without the token, with a wrong one, or with the right one in a wrong place.
        ("GET /", (), None, 404),
        ("GET /api/project", (), None, 404),
        ("GET /static/app.css", (), None, 404),
        ("GET /download/model.skops", (), None, 404),
        ("POST /api/fit", (), None, 404),
        ("DELETE /api/job", (), None, 404),
        ("GET /favicon.ico", (), None, 404),
        ("GET /wrong/api/project", (), None, 404),
        ("GET /" + "A" * 43 + "/api/project", (), None, 404),
        ("GET /{token}x/api/project", (), None, 404),
        ("GET /x{token}/api/project", (), None, 404),
        ("GET /{token}", (), None, 404),
        ("GET //{token}/api/project", (), None, 404),
        ("GET /api/project?token={token}", (), None, 404),
        ("GET /api/project/{token}", (), None, 404),
        ("GET /api/{token}/project", (), None, 404),
        ("GET /?{token}", (), None, 404),
        ("GET /api/project", ("Authorization: Bearer {token}",), None, 404),
        ("GET /api/project", ("Authorization: token {token}",), None, 404),
        ("GET /api/project", ("Cookie: token={token}",), None, 404),
        ("GET /api/project", ("X-Token: {token}",), None, 404),
        ("GET /api/project", ("Referer: http://127.0.0.1:{port}/{token}/",), None, 404),
        ("GET /api/project", ("X-Original-URL: /{token}/api/project",), None, 404),
        ("GET /api/project", ("X-Forwarded-Prefix: /{token}",), None, 404),
        ("GET /%00{token}/api/project", (), None, 404),
        ("GET /../{token}/api/project", (), None, 404),
        # From elsewhere: another Host, as after DNS rebinding, or another Origin.
        ("GET /{token}/api/project", (), "evil.example", 403),
        ("GET /{token}/api/project", (), "evil.example:{port}", 403),
        ("GET /{token}/api/project", (), "127.0.0.1.evil.example:{port}", 403),
        ("GET /{token}/api/project", (), "localhost.evil.example:{port}", 403),
        ("GET /{token}/api/project", (), "127.0.0.1:1", 403),
        ("GET /{token}/api/project", (), "127.0.0.1", 403),
        ("GET /{token}/api/project", (), "localhost", 403),
        ("GET /{token}/api/project", (), "0.0.0.0:{port}", 403),
        ("GET /{token}/api/project", (), "[::1]:{port}", 403),
        ("GET /{token}/api/project", (), "2130706433:{port}", 403),
        ("GET /{token}/api/project", (), "127.1:{port}", 403),
        ("GET /{token}/api/project", (), "user@127.0.0.1:{port}", 403),
        ("GET /{token}/api/project", (), "127.0.0.1:{port}@evil.example", 403),
        ("GET /{token}/api/project", (), "127.0.0.1:{port}, evil.example", 403),
        ("GET /{token}/api/project", (), "127.0.0.1:{port}#", 403),
        ("GET /{token}/api/project", ("X-Forwarded-Host: 127.0.0.1:{port}",), "evil.example", 403),
        ("GET /{token}/api/project", ("Forwarded: host=127.0.0.1:{port}",), "evil.example", 403),
        ("GET http://evil.example/{token}/api/project", (), "evil.example", 403),
        ("POST /{token}/api/undo", ("Origin: http://evil.example",), None, 403),
        ("POST /{token}/api/undo", ("Origin: null",), None, 403),
        ("POST /{token}/api/undo", ("Origin: ",), None, 403),
        ("POST /{token}/api/undo", ("Origin: https://127.0.0.1:{port}",), None, 403),
        ("POST /{token}/api/undo", ("Origin: http://127.0.0.1:1",), None, 403),
        ("POST /{token}/api/undo", ("Origin: http://127.0.0.1",), None, 403),
        ("POST /{token}/api/undo", ("Origin: http://localhost:{port}",), None, 403),
        ("POST /{token}/api/undo", ("Origin: http://127.0.0.1:{port}.evil.example",), None, 403),
        ("POST /{token}/api/undo", ("Origin: http://127.0.0.1:{port}", "Origin: http://evil.example"), None, 403),
        ("GET /{token}/api/project", ("Origin: http://evil.example",), None, 403),
        ("OPTIONS /{token}/api/options", ("Origin: http://evil.example",), None, 403),
        ("GET /{token}/api/project", ("Sec-Fetch-Site: cross-site",), None, 403),
        ("GET /{token}/api/project", ("Sec-Fetch-Site: same-site",), None, 403),
        ("GET /{token}/", ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"), None, 403),
        ("POST /{token}/api/undo", ("Sec-Fetch-Site: cross-site", "Origin: http://127.0.0.1:{port}"), None, 403),
        ("GET /{token}/api/project", ("Sec-Fetch-Site: whatever",), None, 403),
        # Ways that are none.
        ("POST /{token}/api/project", (), None, 405),
        ("GET /{token}/api/fit", (), None, 405),
        ("GET /{token}/api/undo", (), None, 405),
        ("GET /{token}/api/verdicts", (), None, 405),
        ("PUT /{token}/api/job", (), None, 405),
        ("DELETE /{token}/api/project", (), None, 405),
        ("PATCH /{token}/api/options", (), None, 405),
        ("OPTIONS /{token}/api/options", (), None, 405),
        ("TRACE /{token}/api/project", (), None, 405),
        ("DELETE /{token}/download/cleaned.csv", (), None, 405),
        ("PROPFIND /{token}/", (), None, 405),
        ("GET /{token}/api/project/../../..", (), None, 404),
        ("GET /{token}/api", (), None, 404),
        ("GET /{token}/project.json", (), None, 404),
        ("GET /{token}/verdicts.jsonl", (), None, 404),
        ("GET /{token}/.server.json", (), None, 404),
        ("GET /{token}/docs", (), None, 404),
        ("GET /{token}/openapi.json", (), None, 404),
    ],
)
def test_whoever_is_outside_stays_outside(server, line, headers, host, status):
    check(server, ask(server, message(server, line, *headers, host=host)), status)
    still_works(server)


@pytest.mark.parametrize("where", ["static", "download", "api"])
@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_outside_the_project(server, where, path):
    request = message(server, f"GET /{{token}}/{where}/{path}")
    check(server, ask(server, request), 404, 400)


@pytest.mark.parametrize("sensor", [*TRAVERSALS[:8], "%00", "a" * 5000, "%F0%9F%92%A9"])
def test_no_sensor_is_a_path(server, sensor):
    for route in ("api/plot", "api/queue", "api/changes", "download/cleaned.csv"):
        check(server, ask(server, message(server, f"GET /{{token}}/{route}?sensor={sensor}")), 404)


@pytest.mark.parametrize(
    "query",
    [
        "plot?from=nan",
        "plot?from=inf&to=-inf",
        "plot?from=1e999",
        "plot?from=%00",
        "plot?from=0x10&to=",
        "plot?to=" + "9" * 6000,
        "plot?from[]=1",
        "explain",
        "explain?row=1e3",
        "explain?row=-1",
        "explain?row=" + "9" * 6000,
        "explain?row=1&row=x",
        "queue?n=1e9",
        "queue?n=-5",
        "queue?n=%D9%A3",
    ],
)
def test_numbers_that_are_none_are_refused(server, query):
    expected = (200,) if query == "plot?from[]=1" else (422,)
    check(server, ask(server, message(server, f"GET /{{token}}/api/{query}")), *expected)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b"\xff\xfe\x00",
        b"\x00",
        b"[]",
        b'"text"',
        b"1",
        b"null",
        b"NaN",
        b'{"rows": [1], "verdict": "bad", "why": NaN}',
        b'{"from": -Infinity, "to": Infinity, "verdict": "bad"}',
        b'{"from": 1e999, "to": 1, "verdict": "bad"}',
        b'{"rows": [' + b"9" * 5000 + b'], "verdict": "bad"}',
        b'{"rows": [99999999999], "verdict": "bad"}',
        b'{"rows": [1], "verdict": "bad", "why": "\\ud800"}',
        b'{"rows": [1], "verdict": "bad", "why": "\\u0000"}',
        b'{"rows": [1], "verdict": "bad", "sensor": "../.."}',
        b'{"rows": [1], "verdict": "bad", "__proto__": {}}',
        b'{"target": {"$ne": 1}}',
        b'{"target": "\\u0000"}',
        b"{\"where\": \"__import__('os').system('id')\"}",
        b'{"where": "' + b"(" * 1900 + b'"}',
        b'{"features": [null]}',
        b'{"na": [1e400]}',
        b'{"encoding": "../../secret"}',
        b"[" * 100_000,
        b'{"a":' * 20_000,
        b'{"why": "' + b"x" * 900_000 + b'"}',
        b'{"why": "' + b"x" * 1_100_000 + b'"}',
    ],
)
@pytest.mark.parametrize("route", ["POST /{token}/api/verdicts", "PUT /{token}/api/options", "POST /{token}/api/fit"])
def test_bodies_that_are_none_are_refused(server, route, body):
    request = message(server, route, "Content-Type: application/json", body=body)
    check(server, ask(server, request), 400, 404, 413, 422)


def form(name: bytes, data: bytes, field: bytes = b"file") -> bytes:
    head = b'--edge\r\nContent-Disposition: form-data; name="' + field + b'"; filename="' + name + b'"\r\n\r\n'
    return head + data + b"\r\n--edge--\r\n"


def bomb(n: int, size: int) -> bytes:
    """A workbook, by its look, whose sheets are zeros without end."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        for i in range(n):
            archive.writestr(f"xl/worksheets/sheet{i}.xml", b"0" * size)
    return out.getvalue()


def zipped(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return out.getvalue()


LAUGHS = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no form at all",
        b"--edge",
        b"--edge\r\n\r\n",
        b"--edge--\r\n",
        b"--other\r\n" + form(b"a.csv", b"x"),
        form(b"a.csv", b"")[:-12],
        b"--edge\r\nContent-Disposition: form-data\r\n\r\nx\r\n--edge--\r\n",
        b"--edge\r\nContent-Disposition\r\n\r\nx\r\n--edge--\r\n",
        b"--edge\r\n" + b"X-Header: y\r\n" * 5000 + b"\r\nx\r\n--edge--\r\n",
        b'--edge\r\nContent-Disposition: form-data; name="file"\r\n\r\nnot a file\r\n--edge--\r\n',
        b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a"\r\nContent-Transfer-Encoding: x\r\n\r\n',
        form(b"a.csv", b"time,y\n1,2\n", b"other"),
        form(b"a.csv", b"time,y\n1,2\n").removesuffix(b"--edge--\r\n") + form(b"b.csv", b"y"),
        form(b"empty.csv", b""),
        form(b"blank.csv", b"\n\n \n"),
        form(b"a.pdf", b"%PDF-1.7 nothing"),
        form(b"a.gz", b"\x1f\x8b" + bytes(100)),
        form(b"a.parquet", b"PAR1" + bytes(100) + b"PAR1"),
        form(b"a.xlsx", b"PK\x03\x04" + bytes(200)),
        form(b"bomb.xlsx", bomb(3, 30_000_000)),
        form(b"many.xlsx", bomb(3000, 10)),
        form(b"laughs.xlsx", zipped(**{"[Content_Types].xml": LAUGHS + "]><Types>&i;</Types>"})),
        form(b"slip.xlsx", zipped(**{"..__..__secret.txt": "x", "xl__workbook.xml": "<workbook/>"})),
    ],
)
def test_uploads_that_are_none_leave_the_table_as_it_is(server, body):
    kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
    check(server, ask(server, message(server, "POST /{token}/api/table", kind, body=body)), 400, 413, 422)
    still_works(server)


@pytest.mark.parametrize(
    "header",
    [
        "Content-Type: multipart/form-data",
        "Content-Type: multipart/form-data; boundary=",
        "Content-Type: multipart/form-data; boundary=" + "x" * 5000,
        "Content-Type: multipart/form-data; boundary=\x01",
        "Content-Type: application/json",
        "Content-Type: text/csv",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Type: multipart/mixed; boundary=edge",
        "X-Nothing: at all",
    ],
)
def test_uploads_of_another_kind_are_refused(server, header):
    body = form(b"a.csv", b"time,y\n1,2\n")
    check(server, ask(server, message(server, "POST /{token}/api/table", header, body=body)), 400)


@pytest.mark.parametrize(
    "name",
    [
        b"../../secret.txt",
        b"..\\..\\secret.txt",
        b"/etc/passwd",
        b"C:\\windows\\win.ini",
        b"project.json",
        b".server.json",
        b".bashrc",
        b"nul",
        b"CON.csv",
        b"com1.csv.txt",
        b"a\x00.csv",
        b"a\x1b[31m.csv",
        b"",
        b".",
        b"..",
        b"   ",
        b"\xff\xfe.csv",
        "\u202evsc.exe".encode(),
        b"<img src=x onerror=alert(1)>.csv",
        b"x" * 3000 + b".csv",
        ("ü" * 300 + ".csv").encode(),
        b"-rf.csv",
        b"$(id).csv",
        b"~root.csv",
    ],
)
def test_a_name_is_only_a_name(server, name):
    """The table is taken (or refused); no file is made but in its place, and the right one can be put back."""
    data = readings(12).to_csv(index=False).encode()
    kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
    status, answer = ask(server, message(server, "POST /{token}/api/table", kind, body=form(name, data)))
    assert status in (200, 400, 422), answer[:300]
    if status == 200:
        taken = json.loads(answer.split(b"\r\n\r\n", 1)[1])["table"]["name"]
        assert not set(taken) & set('/\\\0<>:"|?*$~') and not taken.startswith(".") and len(taken) <= 110
    back = form(b"readings.csv", readings().to_csv(index=False).encode())
    assert ask(server, message(server, "POST /{token}/api/table", kind, body=back))[0] == 200
    still_works(server)


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"\x00\x01\x02\r\n\r\n", (0, 400)),
        (b"GET / HTTP/9.9\r\nConnection: close\r\n\r\n", (0, 400, 403, 505)),
        (b"GET\r\n\r\n", (0, 400)),
        (b"GET /{token}/api/project HTTP/1.1\r\n\r\n", (400, 403)),
        (b"GET /{token}/api/project HTTP/1.0\r\n\r\n", (400, 403)),
        (b"GET /{token}/api/project HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n", (400, 403)),
        (b"GET /{token}/api/project HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1:{port}\r\n\r\n", (400, 403)),
        (b"GET /{token}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", (0, 200, 400, 431)),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n", (0, 400, 404, 414)),
        (b"GET /{token}/static/a%0d%0aSet-Cookie:%20a=b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n", (404,)),
        (b"GET /{token}/download/a%0d%0aX-Injected:%20b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n", (404,)),
        (
            b"POST /{token}/api/undo HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 5\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
            (0, 400, 409),
        ),
        (b"POST /{token}/api/undo HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: -1\r\n\r\n", (0, 400, 413)),
        (b"POST /{token}/api/undo HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 9999999\r\n\r\n", (413,)),
        (b"POST /{token}/api/table HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 501999999\r\n\r\n", (413,)),
        (
            b"POST /{token}/api/undo HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"10000\r\n" + b"x" * 65536 + b"\r\n" + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 20 + b"0\r\n\r\n",
            (413,),
        ),
        (
            b"GET /{token}/api/project HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
            (200, 400, 403, 404),
        ),
        (b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", (0, 400, 403)),
    ],
)  # fmt: skip
def test_messages_that_are_none_end_the_connection_and_nothing_else(server, request_bytes, expected):
    filled = request_bytes.replace(b"{token}", server.token.encode()).replace(b"{port}", str(server.port).encode())
    status, answer = ask(server, filled)
    assert status in expected, answer[:300]
    head = answer.split(b"\r\n\r\n", 1)[0].lower()
    assert b"set-cookie" not in head and b"x-injected" not in head
    still_works(server)


def test_every_answer_tells_the_browser_to_run_and_show_nothing_from_elsewhere(server):
    for line in ("GET /{token}/", "GET /{token}/api/project", "GET /nothing", "GET /{token}/static/plotly.min.js"):
        _, answer = ask(server, message(server, line))
        head = answer.split(b"\r\n\r\n", 1)[0].decode().lower()
        assert "content-security-policy: default-src 'none'; script-src 'self';" in head
        for header in ("x-content-type-options: nosniff", "referrer-policy: no-referrer", "cache-control: no-store"):
            assert header in head
        assert "access-control-allow-origin" not in head and "\r\nserver:" not in head


def test_it_listens_on_this_machine_alone(server):
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        with pytest.raises(OSError):
            socket.create_connection((address, server.port), timeout=2.0)
