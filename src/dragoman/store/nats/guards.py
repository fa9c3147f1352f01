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
    for monitor in monitors:
        settings = await asyncio.to_thread(_fetch, monitor, "/varz")
        if settings.get("jetstream", {}).get("config", {}).get("sync_always") is not True:
            if trusts_engine:
                return [f"NOT SAFE, trusted by --trust-engine: {monitor} acknowledges what is not on its disk"]
            raise StoreFault(
                "unusable",
                f"{monitor} acknowledges entries before they are on its disk; set sync_interval: always in its "
                "jetstream block (or start with --trust-engine where that is wanted, as in a test)",
            )
    return [f"{len(monitors)} servers sync every entry" if len(monitors) > 1 else "it syncs every entry"]


def _fetch(monitor: str, path: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(monitor.rstrip("/") + path, timeout=MONITOR_TIMEOUT) as answer:
            return msgspec.json.decode(answer.read(), type=dict[str, Any])
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise StoreFault("away", f"the monitoring address {monitor} does not answer: {error}") from error


async def disagreements(monitors: Sequence[str]) -> list[str]:
    """Return which servers have another number of messages in a stream than the others, in words."""
    counts: dict[str, dict[str, int]] = {}
    for monitor in monitors:
        page = await asyncio.to_thread(_fetch, monitor, "/jsz?streams=true")
        for account in page.get("account_details", ()):
            for stream in account.get("stream_detail", ()):
                if str(stream.get("name", "")).startswith("DGM-"):
                    counts.setdefault(stream["name"], {})[monitor] = int(stream["state"]["messages"])
    return [
        f"stream {name}: " + ", ".join(f"{monitor} has {count:,} messages" for monitor, count in sorted(each.items()))
        for name, each in sorted(counts.items())
        if len(set(each.values())) > 1
    ]


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


async def _ensure(client: NatsClient, name: str, config: dict[str, Any]) -> None:
    answer = await client.call(f"STREAM.INFO.{name}")
    if answer.get("error", {}).get("err_code") == STREAM_NOT_FOUND:
        answer = await client.call(f"STREAM.CREATE.{name}", config)
    if error := answer.get("error"):
        message = f"{client.where}: stream {name}: {error.get('description')}; three replicas need three servers"
        raise StoreFault("unusable", message)
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
