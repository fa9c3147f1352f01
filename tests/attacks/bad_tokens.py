"""Every route of a host with every method and tokens that are none: nobody is let in."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from dragoman.host.http.api import _ROUTES
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.web import assets
from tests.host.http.test_app import Caller, hosted_app

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PUBLIC = ("/healthz", "/readyz")


class Outcome(NamedTuple):
    """How many requests there were, their statuses, and those that were served."""

    requests: int
    statuses: dict[int, int]
    escapes: list[str]


def _bad_tokens(good: str, dice: random.Random) -> list[str]:
    index = dice.randrange(len(good))
    changed = good[:index] + ("x" if good[index] != "x" else "y") + good[index + 1 :]
    return [
        changed, good[:-1], good + "x", good.swapcase(), f" {good} x", "null", "undefined", "0", "../../etc/passwd",
        "' OR 1=1 --", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.", "x" * 5000,
    ]  # fmt: skip


async def attack(folder: Path, seed: str) -> Outcome:
    """Send all requests."""
    dice = random.Random(seed)
    statuses: Counter[int] = Counter()
    escapes: list[str] = []
    count = 0
    async with hosted_app(folder, limits=ServerLimits(anonymous_requests=1e9, rate=1e9, burst=10**9)) as at:
        good, page = at.tokens.create("ann", "admin")[0], assets.page().body
        patterns = {pattern for _, pattern, _ in _ROUTES}
        paths = [
            "/",
            "/status",
            "/metrics",
            "/acp",
            "/none",
            *(f"/api/{_filled(each, at.session)}" for each in sorted(patterns)),
        ]
        for path in paths:
            for method in METHODS:
                for token in ["", *_bad_tokens(good, dice)]:
                    count += 1
                    answer = await Caller(at.app, token)(method, path)
                    statuses[answer.status] += 1
                    # OPTIONS says only what may be asked for; the page is the same file for everybody.
                    is_public = method == "OPTIONS" or (path == "/" and answer.body in (page, b""))
                    if answer.status < 400 and not is_public:
                        escapes.append(f"{method} {path} with {token[:40]!r}: {answer.status}")
    return Outcome(count, dict(statuses), escapes)


def _filled(pattern: str, session: str) -> str:
    """Return a path for the pattern of a route."""
    path = ""
    depth = 0
    for character in pattern:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "(" and depth == 1:
            path += session
        elif depth == 0 and character not in "()\\?":
            path += character
    return path
