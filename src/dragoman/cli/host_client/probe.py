"""Probe hosts in parallel, for `dragoman hosts`: whether they answer, how fast, and the user's role.

Each host gets a limited time; a slow DNS server delays nobody.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dragoman.cli.host_client import api
from dragoman.cli.messages import with_cli_advice
from dragoman.errors import ConfigFault, ConnectionFailed, ProtocolError

# Somebody looks at the list and waits. Seconds.
PROBE_TIMEOUT = 3.0


class ProbeResult(NamedTuple):
    """The answer of one host, or the error."""

    milliseconds: int | None = None  # of the whole request, with the handshake
    host_info: Mapping[str, Any] = {}
    error: str = ""

    @property
    def to_json(self) -> dict[str, Any]:
        """The result for --json."""
        return {
            "reachable": not self.error,
            "milliseconds": self.milliseconds,
            "version": self.host_info.get("dragoman"),
            "agents": self.host_info.get("agents"),
            "user": self.host_info.get("user"),
            "role": self.host_info.get("role"),
            "error": self.error or None,
        }

    @property
    def summary_line(self) -> str:
        """The result in one line."""
        if self.error:
            return self.error
        agents = self.host_info.get("agents")
        names = ", ".join(map(str, agents)) if isinstance(agents, list) else ""
        who = f"you are {self.host_info.get('user')} ({self.host_info.get('role')})"
        return f"{self.milliseconds} ms, dragoman {self.host_info.get('dragoman')}, {who}, agents: {names or 'none'}"


def probe_hosts(
    hosts: Mapping[str, Callable[[], api.HostTarget]], progress: Callable[[int], None], timeout: float = PROBE_TIMEOUT
) -> dict[str, ProbeResult]:
    """Probe all hosts; `progress` gets the number of missing answers."""
    results: dict[str, ProbeResult] = {}
    changed = threading.Condition()

    def ask(name: str, host: Callable[[], api.HostTarget]) -> None:
        result = _probe_host(host, timeout)
        with changed:
            results[name] = result
            changed.notify()

    for name, host in hosts.items():
        # Daemon threads: the program must not wait for a slow resolver at exit.
        threading.Thread(target=ask, args=(name, host), daemon=True).start()
    end = time.monotonic() + timeout
    with changed:
        while len(results) < len(hosts) and time.monotonic() < end:
            progress(len(hosts) - len(results))
            changed.wait(max(0.0, end - time.monotonic()))
        timed_out = ProbeResult(error=f"no answer within {timeout:g} s")
        return {name: results.get(name, timed_out) for name in hosts}


def _probe_host(host: Callable[[], api.HostTarget], timeout: float) -> ProbeResult:
    started = time.monotonic()
    try:
        answer = api.request_json_blocking(host(), "GET", "/api/host", timeout=timeout)
    except (ConnectionFailed, ProtocolError, ConfigFault) as error:
        return ProbeResult(error=with_cli_advice(str(error)))
    if not isinstance(answer, dict):
        return ProbeResult(error="this is not a Dragoman host")
    return ProbeResult(round((time.monotonic() - started) * 1000), answer)
