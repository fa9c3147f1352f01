"""Parse WebSocket frames as a client: bytes in any chunking become messages, in order.

Control frames go to `control_frames`. The parser of `websockets` takes nine times as long (decision 0017).
"""

from __future__ import annotations

from dragoman.wire.frames import EXCERPT_SIZE, MAX_FRAME, Frame, Oversize

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
_CONTINUED, _BINARY = 0, 2
_FINAL_TEXT = 0x80 | TEXT

# The largest control frame (RFC 6455 section 5.5).
_MAX_CONTROL_PAYLOAD = 125


class WebSocketProtocolError(Exception):
    """The peer violated the WebSocket protocol; `code` is the close code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class FragmentedMessage:
    """A message in fragments; above the limit only its size and both ends are kept."""

    __slots__ = ("_head", "_limit", "_parts", "_size", "_tail", "is_text")

    def __init__(self, limit: int, is_text: bool) -> None:
        self.is_text = is_text
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._head = self._tail = b""

    def add(self, part: bytes) -> None:
        """Add the next part."""
        self._size += len(part)
        if self._size <= self._limit:
            self._parts.append(part)
            return
        if self._parts or not self._head:
            part = b"".join([*self._parts, part])
            self._parts.clear()
        if len(self._head) < EXCERPT_SIZE:
            self._head = (self._head + part[:EXCERPT_SIZE])[:EXCERPT_SIZE]
        self._tail = (self._tail + part[-EXCERPT_SIZE:])[-EXCERPT_SIZE:]

    def to_frame(self) -> Frame:
        """Return the complete message."""
        if self._size > self._limit:
            return Oversize(self._size, self._head, self._tail)
        return b"".join(self._parts)


def join_lines(frame: Frame) -> Frame:
    """Return a message on one line: line ends in JSON are only between tokens."""
    if isinstance(frame, bytes) and (b"\n" in frame or b"\r" in frame):
        return frame.replace(b"\r", b" ").replace(b"\n", b" ")
    return frame


class FrameParser:
    """Splits a byte stream into messages; holds at most one unfinished frame."""

    __slots__ = (
        "_limit",
        "_message",
        "_needed_size",
        "_parts",
        "_size",
        "_skip_is_final",
        "_skip_left",
        "control_frames",
    )

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.control_frames: list[tuple[int, bytes]] = []  # opcode and payload
        self._limit = limit
        self._parts: list[bytes] = []  # of an unfinished frame, with its header
        self._size = 0
        self._needed_size = 0
        self._message: FragmentedMessage | None = None  # a message in fragments, or one too large to hold
        self._skip_left = -1  # remaining bytes of a frame that is too large to hold; -1: none
        self._skip_is_final = True  # whether that frame ends its message

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes and return the messages they complete. Raise WebSocketProtocolError."""
        frames: list[Frame] = []
        if self._skip_left >= 0:
            data = self._skip_payload(data, frames)
        if self._parts:
            self._parts.append(data)
            self._size += len(data)
            if self._size < self._needed_size:
                return frames
            data = b"".join(self._parts)
            self._parts.clear()
        at, end, need = 0, len(data), 0
        while end - at >= 2:
            first, size = data[at], data[at + 1]
            if size < 126:
                begin = at + 2
            elif size == 126:
                begin = at + 4
                if begin > end:
                    break
                size = data[at + 2] << 8 | data[at + 3]
            elif size == 127:
                begin = at + 10
                if begin > end:
                    break
                size = int.from_bytes(data[at + 2 : begin], "big")
            else:
                raise WebSocketProtocolError(1002, "its frames are masked")
            stop = begin + size
            if first == _FINAL_TEXT and size <= self._limit and self._message is None:
                if stop > end:
                    need = stop - at
                    break
                frames.append(data[begin:stop])
            elif size > self._limit:
                self._begin_skipping(first, size)
                rest = self._skip_payload(data[begin:], frames)
                at = end - len(rest)
                continue
            elif stop > end:
                need = stop - at
                break
            else:
                self._parse_other_frame(first, data[begin:stop], frames)
            at = stop
        if at < end:
            self._parts.append(data[at:] if at else data)
            self._size, self._needed_size = end - at, need
        if b"\n" in data or b"\r" in data:
            frames = [join_lines(frame) for frame in frames]
        return frames

    def _parse_other_frame(self, first: int, payload: bytes, frames: list[Frame]) -> None:
        """Handle a frame that is not one whole text message."""
        if first & 0x70:
            raise WebSocketProtocolError(1002, "it uses an extension that was not negotiated")
        opcode, is_last = first & 0x0F, bool(first & 0x80)
        if opcode >= CLOSE:
            if opcode > PONG or not is_last or len(payload) > _MAX_CONTROL_PAYLOAD:
                raise WebSocketProtocolError(1002, "it sent an invalid control frame")
            self.control_frames.append((opcode, payload))
            return
        self._begin_message(opcode)
        assert self._message is not None
        self._message.add(payload)
        if is_last:
            self._finish_message(frames)

    def _begin_message(self, opcode: int) -> None:
        if opcode == _CONTINUED:
            if self._message is None:
                raise WebSocketProtocolError(1002, "it continued a message that it never began")
        elif opcode not in (TEXT, _BINARY) or self._message is not None:
            raise WebSocketProtocolError(1002, "it began a message in the middle of another, or of no known kind")
        else:
            self._message = FragmentedMessage(self._limit, opcode == TEXT)

    def _finish_message(self, frames: list[Frame]) -> None:
        assert self._message is not None
        if self._message.is_text:  # binary messages are ignored (docs/protocol/http.md#websocket)
            frames.append(join_lines(self._message.to_frame()))
        self._message = None

    def _begin_skipping(self, first: int, size: int) -> None:
        if first & 0x70 or first & 0x0F >= CLOSE:
            raise WebSocketProtocolError(1002, "it sent an invalid control frame")
        self._begin_message(first & 0x0F)
        self._skip_left, self._skip_is_final = size, bool(first & 0x80)

    def _skip_payload(self, data: bytes, frames: list[Frame]) -> bytes:
        """Skip the bytes of a frame too large to hold; return the rest."""
        assert self._message is not None
        part, rest = data[: self._skip_left], data[self._skip_left :]
        self._message.add(part)
        self._skip_left -= len(part)
        if self._skip_left == 0:
            self._skip_left = -1
            if self._skip_is_final:
                self._finish_message(frames)
        return rest
