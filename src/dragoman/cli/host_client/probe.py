"""How hosts are, all asked at once: whether they answer, how fast, what they are, and who one is there.

Takes hosts, gives what each said within a bounded time; a name that no server resolves holds nobody up. Above is
`dragoman hosts`; below is afar.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dragoman.cli.host_client import api
from dragoman.cli.messages import with_cli_advice
from dragoman.errors import ConfigFault, ConnectionFailed, ProtocolError

# How long a host may take to say how it is: somebody looks at a list and waits for it. Seconds.
PROBE_TIMEOUT = 3.0


class ProbeResult(NamedTuple):
    """What one host said, or why it said nothing."""

    milliseconds: int | None = None  # of the whole call, the handshake with it
    host_info: Mapping[str, Any] = {}
    error: str = ""

    @property
    def to_json(self) -> dict[str, Any]:
        """For machines."""
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
        """For people."""
        if self.error:
            return self.error
        agents = self.host_info.get("agents")
        names = ", ".join(map(str, agents)) if isinstance(agents, list) else ""
        who = f"you are {self.host_info.get('user')} ({self.host_info.get('role')})"
        return f"{self.milliseconds} ms, dragoman {self.host_info.get('dragoman')}, {who}, agents: {names or 'none'}"


def probe_hosts(
    hosts: Mapping[str, Callable[[], api.HostTarget]], progress: Callable[[int], None], timeout: float = PROBE_TIMEOUT
) -> dict[str, ProbeResult]:
    """Ask all of them; `progress` hears how many have not said anything yet."""
    found: dict[str, ProbeResult] = {}
    changed = threading.Condition()

    def ask(name: str, host: Callable[[], api.HostTarget]) -> None:
        result = _probe_host(host, timeout)
        with changed:
            found[name] = result
            changed.notify()

    for name, host in hosts.items():
        # Not a thread that the program waits for at its end: a resolver may take as long as it likes.
        threading.Thread(target=ask, args=(name, host), daemon=True).start()
    end = time.monotonic() + timeout
    with changed:
        while len(found) < len(hosts) and time.monotonic() < end:
            progress(len(hosts) - len(found))
            changed.wait(max(0.0, end - time.monotonic()))
        late = ProbeResult(error=f"it did not answer within {timeout:g} s")
        return {name: found.get(name, late) for name in hosts}


def _probe_host(host: Callable[[], api.HostTarget], timeout: float) -> ProbeResult:
    begun = time.monotonic()
    try:
        about = api.request_json_blocking(host(), "GET", "/api/host", timeout=timeout)
    except (ConnectionFailed, ProtocolError, ConfigFault) as error:
        return ProbeResult(error=with_cli_advice(str(error)))
    if not isinstance(about, dict):
        return ProbeResult(error="this is no Dragoman host")
    return ProbeResult(round((time.monotonic() - begun) * 1000), about)
