"""Parse HTTP/1.1 responses: bytes in, status, headers and parts of the body out. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dragoman.transport.remote.headers import MAX_RESPONSE_HEAD

# The longest line between two chunks; some servers write extensions there.
MAX_CHUNK_LINE = 4096

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?\Z")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;|\Z)")
_LENGTH = re.compile(r"[0-9]{1,15}")

# How many interim responses (1xx) may come before the real one.
MAX_INTERIM = 16

# Statuses whose responses have no body.
_BODILESS = frozenset({204, 304})


class MalformedResponse(Exception):
    """What came is no HTTP response."""


class ResponseHeaders(Mapping[str, str]):
    """The headers of a response. Names are case-insensitive; values of headers with the same name are joined."""

    def __init__(self, lines: list[bytes]) -> None:
        self._values: dict[str, str] = {}
        self.cookies: list[str] = []  # Set-Cookie, which cannot be joined
        for line in lines:
            name, colon, raw = line.partition(b":")
            if not colon or not _NAME.fullmatch(name) or b"\r" in raw or b"\n" in raw:
                raise MalformedResponse("a header of its response is malformed")
            key, value = name.decode("ascii").lower(), raw.strip(b" \t").decode("latin-1")
            if key == "set-cookie":
                self.cookies.append(value)
            self._values[key] = f"{self._values[key]}, {value}" if key in self._values else value

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class ResponseParser:
    """One response after the other; `start` before each request."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Expect a response."""
        self.status = 0  # until its head is there
        self.headers = ResponseHeaders([])
        self.parts: list[bytes] = []  # of the body, until they are taken
        self.is_complete = False
        self.keeps_alive = False  # whether the socket can be used again then
        self._rest = b""  # an incomplete head, or line between chunks
        self._left: int | None = None  # bytes of the body or of its chunk; None: until the socket ends
        self._is_chunked = self._in_trailers = self._is_after_chunk = False
        self._interim_count = self._trailer_bytes = 0

    def feed(self, data: bytes) -> None:
        """Add bytes. Raise MalformedResponse."""
        while not self.status:
            data, self._rest = self._rest + data, b""
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > MAX_RESPONSE_HEAD or not b"HTTP/1.".startswith(data[:7]):
                    raise MalformedResponse("its response is not HTTP; check the address and the port")
                self._rest = data
                return
            self._parse_head(data[:end])
            data = data[end + 4 :]
        if self._is_chunked and not self.is_complete:
            self._feed_chunks(data)
        elif data:
            self._feed_body(data)

    def end(self) -> bool:
        """Note the end of the socket; return whether the response is complete."""
        if self.status and not self._is_chunked and self._left is None:
            self.is_complete = True
        return self.is_complete

    def _parse_head(self, head: bytes) -> None:
        status_line, *lines = head.split(b"\r\n")
        found = _STATUS_LINE.match(status_line)
        if found is None:
            raise MalformedResponse("its response is not HTTP; check the address and the port")
        status = int(found[2])
        if status < 200 and status != 101:
            self._interim_count += 1
            if self._interim_count > MAX_INTERIM:
                raise MalformedResponse("its response does not begin")
            return  # the real response follows
        self.status = status
        self.headers = headers = ResponseHeaders(lines)
        connection = headers.get("connection", "").lower()
        self.keeps_alive = found[1] == b"1" and "close" not in connection and "upgrade" not in connection
        length = headers.get("content-length")
        if status in _BODILESS:
            self._left = 0
        elif "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked":
                raise MalformedResponse("its response has an unknown transfer encoding")
            if length is not None:  # where it ends would depend on who reads it
                raise MalformedResponse("its response has two lengths")
            self._is_chunked, self._left = True, 0
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise MalformedResponse("the length of its response is malformed")
            self._left = int(length)
        else:
            self.keeps_alive = False
        self.is_complete = self._left == 0 and not self._is_chunked

    def _feed_body(self, data: bytes) -> None:
        if self._left is not None:
            if len(data) > self._left:
                raise MalformedResponse("more came than its response has")
            self._left -= len(data)
            self.is_complete = self._left == 0
        self.parts.append(data)

    def _feed_chunks(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        position = 0
        while position < len(data):
            if self.is_complete:
                raise MalformedResponse("more came than its response has")
            if self._left:
                part = data[position : position + self._left]
                self.parts.append(part)
                position += len(part)
                self._left -= len(part)
                self._is_after_chunk = self._left == 0
                continue
            end = data.find(b"\r\n", position)
            if end < 0:
                self._rest = data[position:]
                if len(self._rest) > MAX_CHUNK_LINE:
                    raise MalformedResponse("a chunk of its response is malformed")
                return
            self._parse_chunk_line(data[position:end])
            position = end + 2

    def _parse_chunk_line(self, line: bytes) -> None:
        """Parse what is between two chunks: the end of one, the size of the next, or a trailer."""
        if b"\r" in line or b"\n" in line:  # some readers would end the line there
            raise MalformedResponse("a chunk of its response is malformed")
        if self._in_trailers:
            self._trailer_bytes += len(line) + 2
            if self._trailer_bytes > MAX_RESPONSE_HEAD:
                raise MalformedResponse("the end of its response is too long")
            self.is_complete = not line
        elif self._is_after_chunk:
            if line:
                raise MalformedResponse("a chunk of its response is longer than it says")
            self._is_after_chunk = False
        else:
            size = _CHUNK_SIZE.match(line)
            if size is None:
                raise MalformedResponse("a chunk of its response is malformed")
            self._left = int(size[1], 16)
            self._in_trailers = self._left == 0
