"""A real nginx or HAProxy in front of a host, from the files in docs/operations with other ports and paths."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

FILES = Path(__file__).parents[3] / "docs" / "operations"

# How long a proxy may take to listen, on a machine under load. Seconds.
START_TIMEOUT = 30.0


def find_program(name: str) -> str:
    """Return a program, or skip the test."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed here: apt-get install {name}")
    return found


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class Proxy:
    """A proxy as a process, until `stop`."""

    def __init__(self, command: list[str], port: int, log: Path) -> None:
        self.port = port
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_listening():
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)

    def _is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(START_TIMEOUT)


def start_nginx(folder: Path, certificate: Path, key: Path, host_port: int) -> Proxy:
    """Start nginx with docs/operations/nginx.conf."""
    program, port = find_program("nginx"), free_port()
    site = (FILES / "nginx.conf").read_text()
    for old, new in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/dragoman/tls/tls.crt": str(certificate),
        "/etc/dragoman/tls/tls.key": str(key),
        "127.0.0.1:7437": f"127.0.0.1:{host_port}",
        "dragoman.example.org": "localhost",
    }.items():
        assert old in site
        site = site.replace(old, new)
    temporary = "\n".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx-all.conf"
    config.write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}\n{site}\n}}\n"
    )
    return Proxy([program, "-p", str(folder), "-c", str(config)], port, folder / "nginx.log")


def start_haproxy(folder: Path, certificate: Path, key: Path, host_ports: list[int], *, interval: str = "2s") -> Proxy:
    """Start HAProxy with docs/operations/haproxy.cfg, with a server line for each host, looked at this often."""
    program, port = find_program("haproxy"), free_port()
    both = folder / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    config = (FILES / "haproxy.cfg").read_text()
    servers = "\n".join(f"    server n{at} 127.0.0.1:{each} check" for at, each in enumerate(host_ports, 1))
    config = re.sub(r"    server n1 .*", servers, config).replace("maxconn 20000", "maxconn 200")
    config = config.replace("bind :443", f"bind 127.0.0.1:{port}").replace("/etc/dragoman/tls/both.pem", str(both))
    assert "inter 2s" in config
    config = config.replace("inter 2s", f"inter {interval}").replace("timeout check 5s", "timeout check 60s")
    path = folder / "haproxy.cfg"
    path.write_text(config)
    subprocess.run([program, "-c", "-f", str(path)], check=True, capture_output=True)
    return Proxy([program, "-db", "-f", str(path)], port, folder / "haproxy.log")
