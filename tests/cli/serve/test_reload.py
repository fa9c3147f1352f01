"""SIGHUP: certificates, settings and the access log of a running host are loaded again."""

from __future__ import annotations

import json
import signal
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.tokens import Tokens
from tests.cli.process import TIMEOUT
from tests.cli.serve_process import Served
from tests.transport.remote.certificate import certificate

CONFIG = '[host]\nroots = ["{root}"]\naccess_log = "{log}"\n{more}'


class ReloadedHost:
    """A host with TLS, a token and an access log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "access.log"
        (folder / "config" / "dragoman").mkdir(parents=True)
        for root in ("one", "two"):
            (folder / root).mkdir()
        self.configure("one")
        store = folder / "sessions.db"
        with HostDatabase(f"{store}.host", "owner") as database:
            self.token, _ = Tokens(database).create("ann", "admin")
        self.cert, key = certificate(folder)
        arguments = ("--bind", "127.0.0.1:0", "--store", str(store), "--tls", str(self.cert), str(key))
        self.served = Served(folder, *arguments, "--log", "json", "--no-local")

    def configure(self, root: str, more: str = "") -> None:
        path = self.folder / "config" / "dragoman" / "config.toml"
        path.write_text(CONFIG.format(root=self.folder / root, log=self.log, more=more))

    def get(self, path: str) -> Any:
        context = ssl.create_default_context(cafile=str(self.cert))
        request = urllib.request.Request(self.served.url + path, headers={"authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, context=context, timeout=TIMEOUT) as response:
            return json.load(response)

    def certificate(self) -> str:
        port = int(self.served.url.rsplit(":", 1)[1])
        return ssl.get_server_certificate(("127.0.0.1", port))

    def reload(self) -> list[dict[str, str]]:
        """Send SIGHUP; return the lines of the log until it is done."""
        self.served.process.send_signal(signal.SIGHUP)
        assert self.served.process.stderr is not None
        lines = []
        while line := self.served.process.stderr.readline():
            lines.append(json.loads(line))
            if lines[-1]["message"].startswith("loaded again: "):
                return lines
        raise AssertionError("the host ended")


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_sighup_loads_settings_certificate_and_access_log_again(tmp_path: Path) -> None:
    host = ReloadedHost(tmp_path)
    try:
        assert host.get("/api/host")["roots"] == [str(tmp_path / "one")]
        before = host.certificate()
        host.configure("two")
        certificate(tmp_path)  # another key under the same name
        host.log.rename(tmp_path / "access.log.1")
        lines = host.reload()
        assert any(line["message"] == "changed: roots" for line in lines), lines
        assert lines[-1]["message"] == "loaded again: settings, certificate, access log, tokens"
        assert host.certificate() != before
        assert host.certificate() == host.cert.read_text()
        assert host.get("/api/host")["roots"] == [str(tmp_path / "two")]
        wait_until(lambda: "/api/host" in host.log.read_text())
        assert "/api/host" in (tmp_path / "access.log.1").read_text()
    finally:
        assert host.served.end() == 0


def test_what_cannot_be_loaded_leaves_the_old_in_use(tmp_path: Path) -> None:
    host = ReloadedHost(tmp_path)
    try:
        before = host.certificate()
        host.configure("missing")
        host.cert.write_text("no certificate")
        lines = host.reload()
        errors = [line["message"] for line in lines if line["level"] == "error"]
        assert any("host.roots" in each for each in errors), errors
        assert any("certificate" in each for each in errors), errors
        assert lines[-1]["message"] == "loaded again: access log, tokens"
        assert host.certificate() == before
        host.cert.write_text(before)
        assert host.get("/api/host")["roots"] == [str(tmp_path / "one")]
        host.configure("one", 'bind = "127.0.0.1:1"\nshare = "user"\nworkspace_tools = true\n')
        restarts = [line["message"] for line in host.reload() if "next start" in line["message"]]
        expected = [f"{name} changes with the next start" for name in ("share", "workspace_tools")]
        assert restarts == expected, "--bind overrides the file"
    finally:
        assert host.served.end() == 0


def test_the_access_log_has_users_and_statuses_and_no_tokens(tmp_path: Path) -> None:
    host = ReloadedHost(tmp_path)
    try:
        host.get("/api/sessions")
        host.get(f"/api/host?token={host.token}")
        with pytest.raises(urllib.error.HTTPError):
            host.get("/api/nothing")
        wait_until(lambda: host.log.read_text().count("\n") >= 3)
    finally:
        assert host.served.end() == 0
    lines = [json.loads(line) for line in host.log.read_text().splitlines()]
    assert [(line["user"], line["method"], line["path"], line["status"]) for line in lines] == [
        ("ann", "GET", "/api/sessions", 200),
        ("ann", "GET", "/api/host", 200),
        ("ann", "GET", "/api/nothing", 404),
    ]
    assert all(line["bytes"] > 0 and line["ms"] >= 0 and line["address"] == "127.0.0.1" for line in lines)
    assert host.token not in host.log.read_text()
