"""The user's store for commands that look at it: opened, its faults told in one line, sessions named and dated.

Takes what to do with a store, gives the exit code. Above are the actions of `dragoman sessions`; below is the store.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, cast

from dragoman.cli import exit_codes
from dragoman.cli.connect import record
from dragoman.cli.messages import advised
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import single, visible
from dragoman.config.paths import places
from dragoman.engine.loop import run
from dragoman.errors import ConnectionFailed, ProtocolError, StoreFault
from dragoman.store.contract import Store, Summary
from dragoman.store.memory import MemoryStore
from dragoman.store.summary import missing

CODES = """\
exit codes:
   0  done
   1  there is no such session, nothing was found, or a file cannot be used
   2  wrong usage
   7  the host cannot be reached
  10  the store cannot be used: locked, full, read-only, newer or damaged"""

# How long ago something was: below this many seconds, counted in that many, called so.
_UNITS = ((3600, 60, "minute"), (86400, 3600, "hour"), (30 * 86400, 86400, "day"))


def work(
    parser: Parser,
    options: argparse.Namespace,
    act: Callable[[Store], Awaitable[int]],
    *,
    makes: bool = False,
    afar: bool = False,
) -> int:
    """Do something with the user's store; where there is none yet, with an empty one, unless it `makes` one.

    With --host, or where it can only be done `afar`, with what a host keeps.
    """
    try:
        if afar or getattr(options, "host", None) or getattr(options, "token_file", None):
            return run(_borrow(options, act))
        return run(_work(act, makes))
    except ProtocolError as error:
        return failed(parser, options, error)
    except ConnectionFailed as error:
        if getattr(options, "json", False):
            put({"error": {"kind": "connection_failed", "message": str(error)}})
        print(f"{parser.prog}: {visible(advised(str(error)))}", file=sys.stderr)
        return exit_codes.DIED


async def _borrow(options: argparse.Namespace, act: Callable[[Store], Awaitable[int]]) -> int:
    from dragoman.cli.host_client.api import meant as host
    from dragoman.cli.host_client.store import Borrowed

    return await act(cast(Store, Borrowed(host(options.host, options.token_file))))


async def _work(act: Callable[[Store], Awaitable[int]], makes: bool) -> int:
    path = places().sessions
    if not makes and not os.path.exists(path):
        return await act(MemoryStore())
    from dragoman.store.sqlite import SqliteStore

    store = await SqliteStore.open(path)
    try:
        return await act(store)
    finally:
        await store.close()


def failed(parser: Parser, options: argparse.Namespace, error: ProtocolError) -> int:
    """Say what went wrong: one line, and JSON for who wants that."""
    kind = f"store_{error.why}" if isinstance(error, StoreFault) else error.kind
    if getattr(options, "json", False):
        put({"error": {"kind": kind, "message": error.message}})
    print(f"{parser.prog}: {visible(error.message)}", file=sys.stderr)
    return exit_codes.NO_STORE if isinstance(error, StoreFault) else exit_codes.FAILED


async def meant(store: Store, name: str) -> Summary:
    """The session with this name or id, or whose id begins so (with eight characters at least)."""
    summary = await store.find(name)
    if name in (summary.name, summary.session_id) or len(name) >= record.BEGINNING:
        return summary
    raise missing(name)


def called(summary: Summary, others: Iterable[Summary] = ()) -> str:
    """What a person types to mean this session: its name, else as much of its id as it takes."""
    if summary.name is not None:
        return single(summary.name)
    id = summary.session_id
    ids = [other.session_id for other in others if other.session_id != id]
    length = record.BEGINNING
    while length < len(id) and any(other.startswith(id[:length]) for other in ids):
        length += 1
    return single(id[:length])


def ago(time: str, now: datetime | None = None) -> str:
    """When that was, as people say it."""
    try:
        then = datetime.fromisoformat(time)
    except ValueError:
        return "at some time"
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    if seconds < 60:
        return "just now"
    for below, unit, word in _UNITS:
        if seconds < below:
            return counted(int(seconds // unit), word) + " ago"
    return f"{then:%Y-%m-%d}"


def until(time: float | None) -> str:
    """How long something holds, as people say it."""
    return "for ever" if time is None else f"until {datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def counted(number: int, what: str) -> str:
    """A number of things."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def put(value: Any) -> None:
    """Something for machines."""
    print(json.dumps(value, indent=1, ensure_ascii=False))
