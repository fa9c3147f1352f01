"""A small HTTP server for the tests: files, redirects, ranges, and answers that never end."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Site:
    """What the server has: paths with bytes, or with a function that answers the request itself."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Callable[[Any], None]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.etags: dict[str, str] = {}
        self.url = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        self.site.requests.append((self.path, dict(self.headers)))
        page = self.site.pages.get(self.path)
        if callable(page):
            page(self)
        elif page is None:
            self.answer(404, b"not here")
        elif self.path in self.site.etags and self.headers.get("If-None-Match") == self.site.etags[self.path]:
            self.answer(304, b"")
        elif (range := self.headers.get("Range", "")).endswith("-"):
            start = int(range.removeprefix("bytes=").rstrip("-"))
            if start >= len(page):
                self.answer(416, b"")
            else:
                where = f"bytes {start}-{len(page) - 1}/{len(page)}"
                self.answer(206, page[start:], {"Content-Range": where})
        else:
            self.answer(200, page, {"ETag": self.site.etags[self.path]} if self.path in self.site.etags else {})

    do_HEAD = do_GET

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send a whole answer."""
        self.send_response(status)
        kind = "text/html" if self.path.startswith("/simple/") else "application/octet-stream"
        for name, value in {"Content-Length": str(len(body)), "Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    """Serve a site on this machine, with TLS if there is a context."""
    site = Site()
    handler = type("Handler", (_Handler,), {"site": site})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    site.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
