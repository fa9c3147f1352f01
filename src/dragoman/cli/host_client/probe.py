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
from dragoman.cli.messages import advised
from dragoman.errors import ConfigFault, ConnectionFailed, ProtocolError

# How long a host may take to say how it is: somebody looks at a list and waits for it. Seconds.
PATIENCE = 3.0


class Reached(NamedTuple):
    """What one host said, or why it said nothing."""

    milliseconds: int | None = None  # of the whole call, the handshake with it
    about: Mapping[str, Any] = {}
    error: str = ""

    @property
    def told(self) -> dict[str, Any]:
        """For machines."""
        return {
            "reachable": not self.error,
            "milliseconds": self.milliseconds,
            "version": self.about.get("dragoman"),
            "agents": self.about.get("agents"),
            "user": self.about.get("user"),
            "role": self.about.get("role"),
            "error": self.error or None,
        }

    @property
    def said(self) -> str:
        """For people."""
        if self.error:
            return self.error
        agents = self.about.get("agents")
        names = ", ".join(map(str, agents)) if isinstance(agents, list) else ""
        who = f"you are {self.about.get('user')} ({self.about.get('role')})"
        return f"{self.milliseconds} ms, dragoman {self.about.get('dragoman')}, {who}, agents: {names or 'none'}"


def reached(
    hosts: Mapping[str, Callable[[], api.Afar]], progress: Callable[[int], None], patience: float = PATIENCE
) -> dict[str, Reached]:
    """Ask all of them; `progress` hears how many have not said anything yet."""
    found: dict[str, Reached] = {}
    changed = threading.Condition()

    def ask(name: str, host: Callable[[], api.Afar]) -> None:
        result = _asked(host, patience)
        with changed:
            found[name] = result
            changed.notify()

    for name, host in hosts.items():
        # Not a thread that the program waits for at its end: a resolver may take as long as it likes.
        threading.Thread(target=ask, args=(name, host), daemon=True).start()
    end = time.monotonic() + patience
    with changed:
        while len(found) < len(hosts) and time.monotonic() < end:
            progress(len(hosts) - len(found))
            changed.wait(max(0.0, end - time.monotonic()))
        late = Reached(error=f"it did not answer within {patience:g} s")
        return {name: found.get(name, late) for name in hosts}


def _asked(host: Callable[[], api.Afar], patience: float) -> Reached:
    begun = time.monotonic()
    try:
        about = api.call(host(), "GET", "/api/host", patience=patience)
    except (ConnectionFailed, ProtocolError, ConfigFault) as error:
        return Reached(error=advised(str(error)))
    if not isinstance(about, dict):
        return Reached(error="this is no Dragoman host")
    return Reached(round((time.monotonic() - begun) * 1000), about)
