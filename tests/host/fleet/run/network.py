"""Machines on one network, as network namespaces: each has an address, and what one sends to another can be dropped.

Needs root and `ip` (iproute2). Cuts are blackhole routes, so no firewall is needed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess

# Addresses of the machines: nodes, servers of the engine, and this process, which is the first.
SUBNET = "10.201.77"


def can_use_namespaces() -> bool:
    """Tell whether this process may make network namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"dgm{secrets.token_hex(3)}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return False
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return True


class Network:
    """The machines of one run."""

    def __init__(self) -> None:
        self._mark = f"dgm{secrets.token_hex(2)}"
        self._bridge = f"{self._mark}b"
        self.addresses: dict[str, str] = {}
        self._cuts: set[tuple[str, str]] = set()
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("address", "add", f"{SUBNET}.1/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")

    def add(self, machine: str) -> str:
        """Add a machine; return its address."""
        number = len(self.addresses) + 2
        address, space, link = f"{SUBNET}.{number}", self._space(machine), f"{self._mark}v{number}"
        self.addresses[machine] = address
        _ip("netns", "add", space)
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", link, "master", self._bridge, "up")
        _ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", space, "link", "set", device, "up")
        return address

    def prefix(self, machine: str) -> list[str]:
        """Return the start of a command that runs on a machine."""
        return ["ip", "netns", "exec", self._space(machine)]

    def cut(self, sender: str, receiver: str) -> None:
        """Drop what one machine sends to another."""
        if (sender, receiver) not in self._cuts:
            self._cuts.add((sender, receiver))
            _ip("-n", self._space(sender), "route", "add", "blackhole", f"{self.addresses[receiver]}/32")

    def mend(self, *machines: str) -> None:
        """Let everything pass again that these machines send or are sent."""
        for sender, receiver in list(self._cuts):
            if sender in machines or receiver in machines:
                self._cuts.discard((sender, receiver))
                _ip("-n", self._space(sender), "route", "delete", "blackhole", f"{self.addresses[receiver]}/32")

    def remove(self) -> None:
        """Remove all machines. What runs on them has to be ended before."""
        for machine in self.addresses:
            subprocess.run(["ip", "netns", "delete", self._space(machine)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", self._bridge], capture_output=True, check=False)

    def _space(self, machine: str) -> str:
        return f"{self._mark}-{machine}"


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
