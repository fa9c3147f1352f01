"""Create the streams, and check before anything is stored that the servers keep what they acknowledge."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Sequence
from typing import Any

import msgspec

from dragoman.errors import StoreFault
from dragoman.store.nats.client import STREAM_NOT_FOUND, Conflict, NatsClient
from dragoman.store.nats.messages import META, Shards, stream_name

# Older servers lost streams after kills, or lack what the store uses.
MIN_VERSION = (2, 12, 3)

# The streams of logs of a new store: a power of two, kept with the store. More spread the load of large fleets.
DEFAULT_SHARDS = 4

# How long to wait for the leader of a stream, and how often it is asked for. Seconds.
LEADER_TIMEOUT = 20.0
RETRY_DELAY = 0.2

# Errors of the server about replicas: it is alone, or the others are not there (yet).
_ALONE = 10074
_NO_PEERS = 10005

# How long a server that is behind may take to catch up, before it counts as damaged. Seconds.
CATCH_UP_DELAY = 1.0

# The last message of a stream at one server, and how many there are.
_Size = tuple[int, int]

# How long a monitoring page may take. Seconds.
MONITOR_TIMEOUT = 3.0

_NANOSECONDS = 1_000_000_000


def check_version(client: NatsClient) -> None:
    """Raise StoreFault if the server is too old."""
    parts = client.version.split("-")[0].split(".")
    numbers = tuple(int(part) for part in parts if part.isdigit())
    if numbers < MIN_VERSION:
        needed = ".".join(map(str, MIN_VERSION))
        raise StoreFault("unusable", f"{client.where} is NATS {client.version}; Dragoman needs {needed} or newer")


async def check_account(client: NatsClient) -> None:
    """Raise StoreFault if JetStream is not there for this user."""
    answer = await client.call("INFO")
    if error := answer.get("error"):
        message = f"{client.where}: {error.get('description')}; enable JetStream: a jetstream {{}} block, or -js"
        raise StoreFault("unusable", message)


async def check_sync(client: NatsClient, monitors: Sequence[str], *, is_own: bool, trusts_engine: bool) -> list[str]:
    """Return what is known of the servers' syncs, in words; raise StoreFault if entries could be lost."""
    if is_own:
        return ["it syncs every entry"]
    if not monitors:
        if not trusts_engine:
            raise StoreFault(
                "unusable",
                f"{client.where}: whether its servers sync what they acknowledge cannot be seen; name a monitoring "
                "address (?monitor=http://HOST:8222), or say with --trust-engine that sync_interval is always",
            )
        return ["trusted by --trust-engine: nobody checked that its servers sync every entry"]
    silent: list[str] = []
    for monitor in monitors:
        try:
            settings = await asyncio.to_thread(_fetch, monitor, "/varz")
        except StoreFault as fault:
            silent.append(fault.message)
            continue
        if settings.get("jetstream", {}).get("config", {}).get("sync_always") is not True:
            if trusts_engine:
                return [f"NOT SAFE, trusted by --trust-engine: {monitor} acknowledges what is not on its disk"]
            raise StoreFault(
                "unusable",
                f"{monitor} acknowledges entries before they are on its disk; set sync_interval: always in its "
                "jetstream block (or start with --trust-engine where that is wanted, as in a test)",
            )
    if len(silent) == len(monitors):
        raise StoreFault("away", silent[0])
    seen = len(monitors) - len(silent)  # a node must start while a server is away: that is what three are for
    return [f"{seen} servers sync every entry" if len(monitors) > 1 else "it syncs every entry", *silent]


def _fetch(monitor: str, path: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(monitor.rstrip("/") + path, timeout=MONITOR_TIMEOUT) as answer:
            return msgspec.json.decode(answer.read(), type=dict[str, Any])
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise StoreFault("away", f"the monitoring address {monitor} does not answer: {error}") from error


async def disagreements(monitors: Sequence[str]) -> list[str]:
    """Return which servers do not answer, or have other messages in a stream than the others, in words.

    A server that is behind and catches up is no problem, so they are asked again where they differ.
    """
    before, silent = await _stream_sizes(monitors)
    if all(len(set(sizes.values())) < 2 for sizes in before.values()):
        return silent
    await asyncio.sleep(CATCH_UP_DELAY)
    after, silent = await _stream_sizes(monitors)
    return silent + [
        f"stream {name}: " + ", ".join(f"{monitor} has {size[1]:,} messages" for monitor, size in sorted(sizes.items()))
        for name, sizes in sorted(after.items())
        if _is_damaged(before.get(name, {}), sizes)
    ]


def _is_damaged(before: dict[str, _Size], after: dict[str, _Size]) -> bool:
    """Tell whether servers have the same last message but others differ, or one is behind and does not move."""
    newest = max(after.values())[0]
    has_gaps = len({messages for last, messages in after.values() if last == newest}) > 1
    return has_gaps or any(size[0] < newest and before.get(monitor) == size for monitor, size in after.items())


async def _stream_sizes(monitors: Sequence[str]) -> tuple[dict[str, dict[str, _Size]], list[str]]:
    """Return the last message and the number of messages of each stream by server, and which servers are silent."""
    sizes: dict[str, dict[str, _Size]] = {}
    silent = []
    for monitor in monitors:
        try:
            page = await asyncio.to_thread(_fetch, monitor, "/jsz?streams=true")
        except StoreFault as fault:
            silent.append(fault.message)
            continue
        for account in page.get("account_details", ()):
            for stream in account.get("stream_detail", ()):
                if str(stream.get("name", "")).startswith("DGM-"):
                    state = stream["state"]
                    size = (int(state["last_seq"]), int(state["messages"]))
                    sizes.setdefault(stream["name"], {})[monitor] = size
    return sizes, silent


async def prepare_streams(client: NatsClient, *, replicas: int, shards: int) -> Shards:
    """Create the streams that are missing; raise StoreFault if one of that name is not as we make it.

    A new stream, or a cluster that was just started, has no leader for a moment: then it is tried again.
    """
    deadline = time.monotonic() + LEADER_TIMEOUT
    while True:
        try:
            return await _prepare(client, replicas, shards)
        except StoreFault as fault:
            if fault.why not in ("away", "unknown") or time.monotonic() > deadline:
                raise
        except Conflict:
            pass  # another node was faster
        await asyncio.sleep(RETRY_DELAY)


async def _prepare(client: NatsClient, replicas: int, shards: int) -> Shards:
    await _ensure(client, META, _config(META, ["dgm.meta.>"], replicas, max_msgs_per_subject=1, allow_msg_ttl=True))
    known = await client.last(META, "dgm.meta.shards")
    if known is None:
        await client.publish("dgm.meta.shards", b"%d" % shards, expected=0)
        count = shards
    else:
        count = int(known.data)
    for shard in range(count):
        name = stream_name(shard)
        await _ensure(client, name, _config(name, [f"dgm.log.{shard}.>", f"dgm.page.{shard}.>"], replicas))
        await client.last(name, f"dgm.log.{shard}.none")  # raises if it has no leader yet
    return Shards(count)


def _config(name: str, subjects: list[str], replicas: int, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "subjects": subjects,
        "retention": "limits",
        "storage": "file",
        "num_replicas": replicas,
        "discard": "new",
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "duplicate_window": 2 * _NANOSECONDS,
        "allow_direct": True,
        "compression": "s2",
        "description": "sessions of Dragoman",
        **more,
    }


# What must be as we made it. The size may be limited by whoever runs the servers.
_FIXED = ("subjects", "retention", "storage", "discard", "max_age", "max_msgs", "sealed", "mirror", "sources")


def stream_error(what: str, error: dict[str, Any]) -> StoreFault:
    """Return the fault for a stream that a server could not look up or create; `away` if it may succeed later.

    A cluster that elects, does not know its servers yet, or still removes a stream of that name is such a case.
    """
    code = error.get("err_code")
    why = "away" if code == _NO_PEERS or (int(error.get("code", 400)) >= 500 and code != _ALONE) else "unusable"
    advice = "; three replicas need three servers" if code in (_NO_PEERS, _ALONE) else ""
    return StoreFault(why, f"{what}: {error.get('description')}{advice}")


async def _ensure(client: NatsClient, name: str, config: dict[str, Any]) -> None:
    answer = await client.call(f"STREAM.INFO.{name}")
    if answer.get("error", {}).get("err_code") == STREAM_NOT_FOUND:
        answer = await client.call(f"STREAM.CREATE.{name}", config)
    if error := answer.get("error"):
        raise stream_error(f"{client.where}: stream {name}", error)
    there = answer["config"]
    wrong = [key for key in _FIXED if there.get(key) != config.get(key) and there.get(key)]
    if config["num_replicas"] > there["num_replicas"]:
        wrong.append(f"num_replicas ({there['num_replicas']} instead of {config['num_replicas']})")
    if there.get("persist_mode") == "async":
        wrong.append("persist_mode")
    if wrong:
        raise StoreFault(
            "unusable",
            f"{client.where}: the stream {name} is not as Dragoman makes it: {', '.join(wrong)}; use another account, "
            "or change it back",
        )
