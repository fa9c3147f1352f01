"""The limits of a server, each with its reason; rate limiters; and the detection of floods on HTTP/2 sockets. Pure."""

from __future__ import annotations

from msgspec import Struct

MIB = 1024 * 1024

# How often sockets and connections are checked for timeouts. Seconds; every timeout is far above.
SWEEP_INTERVAL = 1.0

# How long the input of a refused client is discarded, so that it can read why. Seconds.
DRAIN_TIMEOUT = 1.0

# The first bytes of every HTTP/2 client, also without TLS (RFC 9113 section 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# The header of a frame: three bytes of length, its type, flags, four bytes of stream (section 4.1).
_FRAME_HEADER_SIZE = 9
_RST_STREAM = 3

# Larger frames need no limit, since bandwidth limits their number. Bytes.
SMALL_FRAME = 4096

# How many seconds' worth of frames, and of resets, may come at once.
BURST_SECONDS = 2.0
RESET_BURST_SECONDS = 4.0


class ServerLimits(Struct, frozen=True, kw_only=True):
    """How much a remote client may use; every limit can be set."""

    # A prompt with a few photographs; larger content belongs in a file.
    body: int = 32 * MIB
    # One WebSocket message: the same, since both transports carry the same messages.
    frame: int = 32 * MIB
    # All header lines of a request together: long tokens and cookies fit, a flood does not.
    headers: int = 32 * 1024
    # Connections of one user: every window of an editor has one, and test suites have dozens.
    connections: int = 256
    # Sockets of all clients, authenticated or not: half of the usual file descriptors of a process.
    sockets: int = 4096
    # Sockets of one other machine, so that it cannot lock out the rest; those of a proxy count as its own. This machine
    # may have all of them: proxies run here, and so do tests with thousands of clients.
    sockets_each: int = 2048
    # Small frames of one socket per second: HTTP/2 has pings, settings, windows, and a message is four or five of them;
    # WebSocket has pings and fragments. Twice as many may come at once.
    frames: float = 5000.0
    # Requests of one HTTP/2 socket per second that its client cancels, since each has cost work; at once four times as
    # many, as when a window with many sessions closes.
    resets: float = 50.0
    # Streams of one HTTP connection: one for each session that its client has open.
    streams: int = 1024
    # Requests of one user per second, and how many may come at once: far above what people and editors do.
    rate: float = 1000.0
    burst: int = 2000
    # Bytes that wait for one client or are not acknowledged by it; above this it is disconnected to save memory.
    buffered: int = 16 * MIB
    # Bytes of each HTTP stream that are kept after they were sent, for clients that acknowledge nothing.
    kept: int = 4 * MIB
    # Seconds a connection outlives its sockets: a laptop changes its network, a proxy restarts.
    linger: float = 120.0
    # Seconds without a message in either direction: a forgotten window.
    idle: float = 24 * 3600.0
    # Seconds in which a client, authenticated or not, must take some of the bytes that wait for it.
    stall: float = 60.0
    # Seconds for the TLS handshake, and then for all headers of a request: a slow network needs two.
    header_patience: float = 10.0
    # Seconds for the body of a request: a large prompt over a slow network.
    body_patience: float = 60.0
    # Seconds until initialize is answered: an agent may have to be started first.
    introduction: float = 60.0
    # Seconds between two keep-alives on a quiet stream or socket; proxies cut quiet ones after thirty or more.
    keepalive: float = 15.0


class TokenBucket:
    """Limits one socket: holds a number of tokens, refilled by `rate` per second."""

    __slots__ = ("_capacity", "_counted_at", "_rate", "_tokens")

    def __init__(self, rate: float, capacity: float) -> None:
        self._rate = rate
        self._capacity = self._tokens = capacity
        self._counted_at = 0.0

    def take(self, count: int, now: float) -> bool:
        """Take tokens; return False when there are too few."""
        self._tokens = min(self._capacity, self._tokens + (now - self._counted_at) * self._rate) - count
        self._counted_at = now
        return self._tokens >= 0


class RateLimiter:
    """Limits each user, with a bucket that is refilled by `rate` per second."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and the time they were counted

    def take(self, user: str, now: float, count: int = 1) -> float:
        """Take tokens and return 0.0, or take none and return the seconds until there are enough."""
        left, counted_at = self._buckets.get(user, (self._burst, now))
        left = min(self._burst, left + (now - counted_at) * self._rate)
        if left < count:
            self._buckets[user] = (left, now)
            return max((count - left) / self._rate, 0.001)
        self._buckets[user] = (left - count, now)
        return 0.0

    def drop_full_buckets(self, now: float) -> None:
        """Drop the buckets that are full again, so that users do not pile up."""
        for user, (left, counted_at) in list(self._buckets.items()):
            if left + (now - counted_at) * self._rate >= self._burst:
                del self._buckets[user]


class FloodMeter:
    """Counts the frames of one HTTP/2 socket before anything is processed.

    Small frames (pings, settings, priorities, windows, headers, tiny parts of a body) and cancelled requests cost far
    more to process than to send. This finds where frames begin and parses nothing else.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._frame_bucket = TokenBucket(limits.frames, limits.frames * BURST_SECONDS)
        self._reset_bucket = TokenBucket(limits.resets, limits.resets * RESET_BURST_SECONDS)
        self._skip = len(PREFACE)  # bytes until the next frame begins
        self._head = b""  # the beginning of a frame header that came in pieces

    def accept(self, data: bytes, now: float) -> bool:
        """Count the bytes; return False when it is too much."""
        frames = resets = 0
        position, end = self._skip, len(data)
        if self._head:
            data = self._head + data
            end, self._head = len(data), b""
        while end - position >= _FRAME_HEADER_SIZE:
            size = int.from_bytes(data[position : position + 3], "big")
            frames += size < SMALL_FRAME
            resets += data[position + 3] == _RST_STREAM
            position += _FRAME_HEADER_SIZE + size
        if position < end:
            self._head, position = data[position:], end
        self._skip = position - end
        return self._frame_bucket.take(frames, now) and self._reset_bucket.take(resets, now)
