"""The limits of a server, each with its reason; rate limiters, byte budgets, and the detection of floods. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

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

# What every socket may send before its first authenticated request, also while others of its address send too much: the
# frames around one request of HTTP/2, and that request.
FREE_FRAMES = 64
FREE_REQUESTS = 1

# How much the sockets of all addresses together may send before they are authenticated: this many times one address.
ALL_ADDRESSES = 4

# Where a socket's cache says that its last request was authenticated.
ADMITTED = "admitted"

# Bytes of an unfinished message that count for nobody: every socket has some. Prompts without images are smaller.
FREE_BYTES = 64 * 1024


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
    # Requests of one address per second before one is authenticated, besides the first of each socket, and new sockets
    # of one other machine: health checks and people who mistype a token. Twice as many may come at once.
    anonymous_requests: float = 100.0
    # Small frames of one socket per second; before its first authenticated request, of all sockets of its address.
    # HTTP/2 has pings, settings, windows, and a message is four or five of them; WebSocket has pings and fragments.
    # Twice as many may come at once.
    frames: float = 5000.0
    # Requests of one HTTP/2 socket per second that its client cancels, since each has cost work; at once four times as
    # many, as when a window with many sessions closes.
    resets: float = 50.0
    # Streams of one HTTP connection: one for each session that its client has open.
    streams: int = 1024
    # Requests of one user per second, and how many may come at once: far above what people and editors do.
    rate: float = 1000.0
    burst: int = 2000
    # Bytes of all unfinished messages and bodies of one user, and of all users: two of the largest, and four times it.
    unfinished: int = 64 * MIB
    unfinished_all: int = 256 * MIB
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
    header_timeout: float = 10.0
    # Seconds for the body of a request, or for one WebSocket message: a large prompt over a slow network.
    body_timeout: float = 60.0
    # Seconds until initialize is answered: an agent may have to be started first.
    initialize_timeout: float = 60.0
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


class Strangers:
    """Limits the sockets without an authenticated request: those of one address, and all together."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limiters = {
            name: (RateLimiter(rate, int(rate * BURST_SECONDS)), RateLimiter(all_rate, int(all_rate * BURST_SECONDS)))
            for name, rate in (("frames", limits.frames), ("anonymous_requests", limits.anonymous_requests))
            for all_rate in (rate * ALL_ADDRESSES,)
        }

    def take(self, name: str, address: str, count: int, now: float) -> bool:
        """Take frames or anonymous requests of an address; return False when there are too many."""
        each, all_addresses = self._limiters[name]
        return not each.take(address, now, count) and not all_addresses.take("", now, count)

    def drop_full_buckets(self, now: float) -> None:
        """Forget addresses that have been quiet."""
        for each, _ in self._limiters.values():
            each.drop_full_buckets(now)


class Stranger:
    """One socket among the strangers, as long as its cache does not say that its last request was authenticated."""

    def __init__(self, strangers: Strangers, address: str, cache: Mapping[str, Any]) -> None:
        self._strangers = strangers
        self._address = address
        self._cache = cache
        self._frames = self._requests = 0

    @property
    def is_admitted(self) -> bool:
        """Whether the last request of the socket was authenticated."""
        return bool(self._cache.get(ADMITTED))

    def may_send_frames(self, count: int, now: float) -> bool:
        """Count small frames; return whether the socket may send them."""
        self._frames += count
        is_free = self.is_admitted or self._frames <= FREE_FRAMES
        return is_free or self._strangers.take("frames", self._address, count, now)

    def may_request(self, now: float) -> bool:
        """Count a request; return whether the socket may make it."""
        self._requests += 1
        is_free = self.is_admitted or self._requests <= FREE_REQUESTS
        return is_free or self._strangers.take("anonymous_requests", self._address, 1, now)


class ByteBudget:
    """Bytes of unfinished messages, of each user and of all."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._sizes: Counter[str] = Counter()
        self.total = 0

    def add(self, user: str, size: int) -> bool:
        """Add bytes of a user, or remove them; return False when there are too many."""
        self.total += size
        self._sizes[user] += size
        if not self._sizes[user]:
            del self._sizes[user]
        return self._sizes[user] <= self._limits.unfinished and self.total <= self._limits.unfinished_all


class UnfinishedMessage:
    """What has come of one message of a user."""

    def __init__(self, budget: ByteBudget, user: str) -> None:
        self._budget = budget
        self._user = user
        self._counted = 0

    def resize(self, size: int) -> bool:
        """Set the number of bytes that have come; return False when all that is unfinished is too much."""
        counted = max(size - FREE_BYTES, 0)
        change, self._counted = counted - self._counted, counted
        return change == 0 or self._budget.add(self._user, change) or change < 0


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
        self.last_count = 0  # small frames in the last bytes

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
        self.last_count = frames
        return self._frame_bucket.take(frames, now) and self._reset_bucket.take(resets, now)
