"""A reverse proxy as small as can be: takes a prefix off the path and passes bytes on, as nginx or HAProxy would."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self


class PrefixRelay:
    """Relays connections to a port of this machine, one request a connection, upgrades included."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.encode()
        self.target = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            data = client.recv(65536)
            if not data:
                client.close()
                return
            head += data
        line, _, rest = head.partition(b"\r\n")
        method, path, version = line.split(b" ")
        if not path.startswith(self.prefix + b"/"):
            client.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            client.close()
            return
        if b"upgrade: websocket" not in rest.lower():
            rest = b"Connection: close\r\n" + b"\r\n".join(
                each for each in rest.split(b"\r\n") if not each.lower().startswith(b"connection:")
            )
        server = socket.create_connection(("127.0.0.1", self.target))
        forwarded = b"X-Forwarded-For: 127.0.0.1\r\n"
        server.sendall(b" ".join((method, path.removeprefix(self.prefix), version)) + b"\r\n" + forwarded + rest)
        threading.Thread(target=_pump, args=(client, server), daemon=True).start()
        _pump(server, client)


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (target, source):
        try:
            end.shutdown(socket.SHUT_WR)
        except OSError:
            pass
