"""What one server bears, each limit with a name and a reason; and the count of requests in time.

Takes nothing but numbers and a clock. Above are the endpoint and the host, which may pass their own.
"""

from __future__ import annotations

from msgspec import Struct

MIB = 1024 * 1024


class ServerLimits(Struct, frozen=True, kw_only=True):
    """How much a remote client may ask for; all of them can be set."""

    # A prompt with a few photographs; what is larger belongs into a file.
    body: int = 32 * MIB
    # One WebSocket message: the same, for the two ways carry the same messages.
    frame: int = 32 * MIB
    # All header lines of a request together: long tokens and cookies fit, a flood does not.
    headers: int = 32 * 1024
    # Connections of one user: every window of an editor has one, and tests of people have dozens.
    connections: int = 256
    # Sockets of everybody, known or not: half of the file descriptors a process usually has.
    sockets: int = 4096
    # Those of one other machine among them, so that no single one can keep the rest out; all that a proxy passes on are
    # its own. This machine may have all of them: proxies run here, and so do tests with thousands of clients.
    sockets_each: int = 2048
    # Frames of one socket in a second that bring little or nothing: HTTP/2 has pings, settings, windows, and a message
    # is four or five of them; WebSocket has pings and pieces. Twice as many may come at once; more only keeps us busy.
    frames: float = 5000.0
    # Requests of one HTTP/2 socket in a second that its client takes back, for each has cost us its work; at once four
    # times as many, as when a window with many sessions closes.
    resets: float = 50.0
    # Streams of one HTTP connection: one for each session that its client has open.
    streams: int = 1024
    # Requests of one user in a second, and how many may come at once: far above what people and editors do.
    rate: float = 1000.0
    burst: int = 2000
    # Bytes that wait for one client or are not acknowledged by it; then it is dropped, for others need the memory.
    buffered: int = 16 * MIB
    # Bytes of each HTTP stream that are kept after they were sent, for clients that acknowledge nothing.
    kept: int = 4 * MIB
    # Seconds a connection outlives its sockets: a laptop changes its network, a proxy restarts.
    linger: float = 120.0
    # Seconds without a message in either direction: a window that was forgotten.
    idle: float = 24 * 3600.0
    # Seconds in which a client, let in or not, must take some of the bytes that wait for it.
    stall: float = 60.0
    # Seconds until TLS is agreed on, and then until all headers of a request have come: a slow line needs two.
    header_patience: float = 10.0
    # Seconds until the body of a request has come: a large prompt over a slow line.
    body_patience: float = 60.0
    # Seconds until initialize is answered: an agent may have to be started first.
    introduction: float = 60.0
    # Seconds between two signs of life on a quiet stream or socket; proxies cut quiet lines after thirty and more.
    keepalive: float = 15.0


class TokenBucket:
    """What one socket may still send: it holds so many, and fills again by `rate` a second."""

    __slots__ = ("_capacity", "_counted_at", "_rate", "_tokens")

    def __init__(self, rate: float, capacity: float) -> None:
        self._rate = rate
        self._capacity = self._tokens = capacity
        self._counted_at = 0.0

    def take(self, count: int, now: float) -> bool:
        """Take so many out; False when there are not as many."""
        self._tokens = min(self._capacity, self._tokens + (now - self._counted_at) * self._rate) - count
        self._counted_at = now
        return self._tokens >= 0


class RateLimiter:
    """Counts what each user asks for, with a bucket that fills again by `rate` a second."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when they were counted

    def take(self, user: str, now: float, count: int = 1) -> float:
        """Take so many tokens; 0.0 when they were there, else the seconds until they are, and none is taken."""
        left, since = self._buckets.get(user, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < count:
            self._buckets[user] = (left, now)
            return max((count - left) / self._rate, 0.001)
        self._buckets[user] = (left - count, now)
        return 0.0

    def drop_full_buckets(self, now: float) -> None:
        """Drop the buckets that are full again, so that names do not pile up."""
        for user, (left, since) in list(self._buckets.items()):
            if left + (now - since) * self._rate >= self._burst:
                del self._buckets[user]
