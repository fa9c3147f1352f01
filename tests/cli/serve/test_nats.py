"""`dragoman serve --store nats:`: a fleet of one from the wheel, whose data survives the host, also a kill."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import EVERYTHING, TIMEOUT, dragoman
from tests.cli.serve_process import Served


def get(served: Served, path: str) -> Any:
    with urllib.request.urlopen(served.url + path, timeout=TIMEOUT) as response:
        return json.load(response)


@pytest.mark.item("FL-27")
def test_a_host_on_its_own_nats_server_is_ready_soon_and_keeps_its_sessions(tmp_path: Path) -> None:
    pytest.importorskip("nats")
    served = Served(tmp_path, "--bind", "127.0.0.1:0", "--store", "nats:", "--root", str(tmp_path), agent=EVERYTHING)
    try:
        done = dragoman("run", "--host", served.url, "--session", "roof", "hello there", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        served.end(signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT
        while any("nats-server" in command for command in commands_in(tmp_path)):
            assert time.monotonic() < deadline, "the server of a host that was killed still runs"
            time.sleep(0.05)
        served.arguments += ("--node", "other")  # the lease of the killed one counts for some seconds
        served.start()
        [session] = get(served, "/api/sessions")["sessions"]
        assert session["name"] == "roof"
        assert served.end() == 0
        assert served.process.stderr is not None
        assert "one server, which is one disk" in served.process.stderr.read()
    finally:
        if served.process.poll() is None:
            served.end()


def commands_in(folder: Path) -> list[str]:
    """Return the command lines of processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in text:
            found.append(text)
    return found
