"""Errors for the user: who made them."""

from __future__ import annotations

import asyncio
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from dragoman import Kind, ProtocolError
from dragoman.cli.host_client.api import request_json, resolve_host
from dragoman.cli.messages import error_text
from tests.cli.process import in_process


def test_a_file_that_is_no_image_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("text")
    (tmp_path / "folder.png").mkdir()
    for name, problem in (("README.md", "is not an image"), ("folder.png", "is not a regular file")):
        ran = in_process("run", "--image", name, "hi", "--", "no-such-agent", cwd=tmp_path)
        assert ran.returncode == 2
        assert f"dragoman run: --image: {name} {problem}" in ran.stderr
        assert "answered" not in ran.stderr


def test_a_missing_login_is_one_sentence_with_what_to_do() -> None:
    text = error_text(ProtocolError(Kind.AUTH_REQUIRED, "The API key is missing."))
    assert text.endswith(
        "The API key is missing; log in with the agent's own command first, or choose a login in: dragoman chat"
    )


class _Broken(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"error": {"kind": "internal_error", "message": "the index is gone"}}'
        self.send_response(500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_an_error_of_the_host_is_not_called_one_of_its_agent() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Broken) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        host = resolve_host(f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(ProtocolError) as raised:
            asyncio.run(request_json(host, "GET", "/api/host"))
        server.shutdown()
    assert error_text(raised.value) == "the host answered with an error (internal_error): the index is gone"
    interrupted = ProtocolError(Kind.INTERNAL_ERROR, "this turn was interrupted", {"interrupted": True})
    assert error_text(interrupted).startswith("the host answered with an error")
    full = ProtocolError(Kind.INTERNAL_ERROR, "the disk of a.db is full; free some space", {"store": "full"})
    assert error_text(full) == "the session store failed (full): the disk of a.db is full; free some space"
    assert error_text(ProtocolError("timeout", "late")).startswith("the agent answered with an error")
