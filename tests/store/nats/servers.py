"""Real NATS servers for the tests, from the wheel: one, or a cluster of three on this machine."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from dragoman.store.nats.server import find_program

# How long a cluster may take to elect its leaders on a loaded machine. Seconds.
START_TIMEOUT = 60.0

_CONFIG = """
server_name: n{number}
listen: "{address}:{port}"
http: "{address}:{monitor}"
jetstream {{ store_dir: "{folder}/data{number}", sync_interval: {sync} }}
{cluster}
"""

_CLUSTER = """
cluster {{ name: test, listen: "{address}:{route}", routes: [{routes}] }}
"""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Servers:
    """Servers of one folder."""

    def __init__(
        self,
        count: int = 1,
        sync: str = "always",
        *,
        folder: Path | None = None,
        addresses: Sequence[str] = (),
        prefixes: Sequence[Sequence[str]] = (),
    ) -> None:
        """`addresses` are those of their machines, by default this one; `prefixes` begin their commands."""
        self.folder = folder or Path(tempfile.mkdtemp(prefix="dragoman-nats-"))
        self.count = count
        ports = free_ports(count * 3)
        self.ports, self.monitors, self.routes = ports[:count], ports[count : 2 * count], ports[2 * count :]
        self.addresses = list(addresses) or ["127.0.0.1"] * count
        self._prefixes = list(prefixes) or [()] * count
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for number in range(count):
            ends = zip(self.addresses, self.routes, strict=True)
            routes = ", ".join(f'"nats://{address}:{port}"' for address, port in ends)
            address, route = self.addresses[number], self.routes[number]
            cluster = _CLUSTER.format(address=address, route=route, routes=routes) if count > 1 else ""
            values: dict[str, object] = {"number": number, "port": self.ports[number], "monitor": self.monitors[number]}
            values["address"] = address
            text = _CONFIG.format(folder=self.folder, sync=sync, cluster=cluster, **values)
            (self.folder / f"{number}.conf").write_text(text)
            self.start(number)

    def start(self, number: int) -> None:
        """Start one server, and wait until it accepts connections."""
        with open(self.folder / f"{number}.log", "ab") as log:
            command = [*self._prefixes[number], find_program(), "-c", str(self.folder / f"{number}.conf")]
            self.processes[number] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                socket.create_connection((self.addresses[number], self.ports[number]), 1).close()
                return
            except OSError:
                assert self.processes[number].poll() is None, (self.folder / f"{number}.log").read_text()
                assert time.monotonic() < deadline, "nats-server did not start in time"
                time.sleep(0.02)

    def stop(self, number: int, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop one server."""
        process = self.processes.pop(number)
        process.send_signal(how)
        process.wait(30)

    def url(self, **options: str) -> str:
        """Return the address of all servers, with their monitoring addresses."""
        monitors = ",".join(f"http://{each}:{port}" for each, port in zip(self.addresses, self.monitors, strict=True))
        query = "&".join(f"{name}={value}" for name, value in {"monitor": monitors, "shards": "1", **options}.items())
        ends = [f"{each}:{port}" for each, port in zip(self.addresses, self.ports, strict=True)]
        return f"nats://{','.join(ends)}?{query}"

    def end(self) -> None:
        """Kill all servers and remove their folder."""
        for number in list(self.processes):
            self.stop(number, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
