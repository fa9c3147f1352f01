"""The client's handshake from HTTP to WebSocket: the request, and what the response means.

The rules are those of `websockets`, without its I/O. The errors are ours and say what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from dragoman.errors import Unreachable
from dragoman.transport.remote.address import RemoteAddress
from dragoman.transport.remote.errors import network_error, status_error
from dragoman.transport.remote.headers import MAX_RESPONSE_HEAD


class Handshake:
    """One handshake, from the request to its response."""

    def __init__(self, address: RemoteAddress, headers: Sequence[tuple[str, str]]) -> None:
        self.name = address.display_url
        self._protocol = ClientProtocol(parse_uri(address.url))
        request = self._protocol.connect()
        for name, value in (*address.headers, *headers):
            request.headers[name] = value
        self.request = request.serialize()
        self._head = b""
        self._is_refused = False  # the head of a response other than 101 is complete; its body follows

    def feed(self, data: bytes) -> tuple[dict[str, list[str]], bytes] | None:
        """Add bytes; return the headers of the 101 and the rest, None while incomplete. Raise Unreachable."""
        if self._is_refused:
            self._protocol.receive_data(data)
            self._check_answer()
            return None
        data = self._head + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._head = data
            if len(data) > MAX_RESPONSE_HEAD or not b"HTTP/".startswith(data[:5]):
                raise self._not_http_error()
            return None
        self._head = b""
        is_switched = data[: end + 4].split(b" ", 2)[1:2] == [b"101"]
        self._is_refused = not is_switched
        self._protocol.receive_data(data[: end + 4] if is_switched else data)
        headers = self._check_answer()
        return None if headers is None else (headers, data[end + 4 :])

    def finish(self) -> None:
        """Raise what it means that the server disconnected."""
        if self._head or not self._protocol.reader.eof:
            self._protocol.receive_eof()
            if not self._head:
                self._check_answer()
        raise network_error(self.name, ConnectionResetError(0, "it closed the connection before it answered"))

    def _check_answer(self) -> dict[str, list[str]] | None:
        """Check whether the response is complete, and what it is."""
        answers = [event for event in self._protocol.events_received() if isinstance(event, Response)]
        error = self._protocol.handshake_exc
        if error is not None:
            raise self._handshake_error(error, answers)
        if not answers or self._protocol.state is not State.OPEN:
            return None
        headers: dict[str, list[str]] = {}
        for name, value in answers[0].headers.raw_items():
            headers.setdefault(name.lower(), []).append(value)
        return headers

    def _handshake_error(self, error: Exception, answers: list[Response]) -> Unreachable:
        if not answers:
            if isinstance(error.__cause__, EOFError):
                return network_error(self.name, ConnectionResetError(0, "it closed the connection before it answered"))
            return self._not_http_error()
        answer = answers[0]
        if answer.status_code == 101 or not isinstance(error, InvalidHandshake):
            return Unreachable(f"{self.name}: it does not upgrade to WebSocket properly ({error})")
        headers = {name.lower(): value for name, value in answer.headers.raw_items()}
        if answer.status_code == 200:
            return Unreachable(f"{self.name}: a web server answers there, but no WebSocket; check the path", status=200)
        return status_error(self.name, answer.status_code, headers, bytes(answer.body or b""))

    def _not_http_error(self) -> Unreachable:
        return Unreachable(f"{self.name}: the server there does not speak HTTP; check the address and the port")
