"""The upgrade from HTTP to WebSocket as a client sees it: what to ask, and what the answer means.

Takes an Address and headers, then the bytes of the answer; gives the headers of the 101 and what stood behind them, or
an error that says what to do. The rules are those of `websockets`, without its I/O; ours is only what a refusal means.
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

# The head of an HTTP answer; more is no handshake.
_MAX_RESPONSE_HEAD = 64 * 1024


class Handshake:
    """One upgrade, from the request to its answer."""

    def __init__(self, address: RemoteAddress, headers: Sequence[tuple[str, str]]) -> None:
        self.name = address.display_url
        self._protocol = ClientProtocol(parse_uri(address.url))
        request = self._protocol.connect()
        for name, value in (*address.headers, *headers):
            request.headers[name] = value
        self.request = request.serialize()
        self._head = b""
        self._is_refused = False  # the head of another answer than 101 was there; its body follows

    def feed(self, data: bytes) -> tuple[dict[str, list[str]], bytes] | None:
        """Take the next bytes: the headers of the 101 and the rest, None while there is none. Raises Unreachable."""
        if self._is_refused:
            self._protocol.receive_data(data)
            self._check_answer()
            return None
        data = self._head + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._head = data
            if len(data) > _MAX_RESPONSE_HEAD or not b"HTTP/".startswith(data[:5]):
                raise self._not_http_error()
            return None
        self._head = b""
        is_switched = data[: end + 4].split(b" ", 2)[1:2] == [b"101"]
        self._is_refused = not is_switched
        self._protocol.receive_data(data[: end + 4] if is_switched else data)
        headers = self._check_answer()
        return None if headers is None else (headers, data[end + 4 :])

    def finish(self) -> None:
        """The server hung up: raises what that means."""
        if self._head or not self._protocol.reader.eof:
            self._protocol.receive_eof()
            if not self._head:
                self._check_answer()
        raise network_error(self.name, ConnectionResetError(0, "it hung up before it had answered"))

    def _check_answer(self) -> dict[str, list[str]] | None:
        """Look whether the answer is whole, and what it is."""
        answers = [event for event in self._protocol.events_received() if isinstance(event, Response)]
        error = self._protocol.handshake_exc
        if error is not None:
            raise self._handshake_error(error, answers)
        if not answers or self._protocol.state is not State.OPEN:
            return None
        said: dict[str, list[str]] = {}
        for name, value in answers[0].headers.raw_items():
            said.setdefault(name.lower(), []).append(value)
        return said

    def _handshake_error(self, error: Exception, answers: list[Response]) -> Unreachable:
        if not answers:
            if isinstance(error.__cause__, EOFError):
                return network_error(self.name, ConnectionResetError(0, "it hung up before it had answered"))
            return self._not_http_error()
        answer = answers[0]
        if answer.status_code == 101 or not isinstance(error, InvalidHandshake):
            return Unreachable(f"{self.name}: it does not upgrade to WebSocket properly ({error})")
        headers = {name.lower(): value for name, value in answer.headers.raw_items()}
        if answer.status_code == 200:
            return Unreachable(f"{self.name}: a web server answers there, but no WebSocket; check the path", status=200)
        return status_error(self.name, answer.status_code, headers, bytes(answer.body or b""))

    def _not_http_error(self) -> Unreachable:
        return Unreachable(f"{self.name}: what answers there does not speak HTTP; check the address and the port")
