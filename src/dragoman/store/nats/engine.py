"""Open the engine at a NATS address: connect, check the servers, create the streams, start to listen."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dragoman.errors import ConfigFault, StoreFault
from dragoman.store.fleet import Engine, EngineOptions
from dragoman.store.nats.client import NatsClient
from dragoman.store.nats.fleet import NatsNodes, NatsSignals
from dragoman.store.nats.guards import (
    DEFAULT_SHARDS,
    check_account,
    check_sync,
    check_version,
    disagreements,
    prepare_streams,
)
from dragoman.store.nats.index import Index, NatsRecords
from dragoman.store.nats.server import OwnServer
from dragoman.store.nats.store import NatsStore
from dragoman.store.sealing import Sealer

# The options of an address, besides its servers.
_OPTIONS = ("creds", "ca", "monitor", "replicas", "shards")

# Where a token comes from: never from an address on a command line.
TOKEN_VARIABLE = "NATS_TOKEN"

# The replicas of a cluster: it goes on with two of three servers.
CLUSTER_REPLICAS = 3


async def open_nats(url: str, options: EngineOptions) -> Engine:
    """Open the servers at an address, nats://A,B,C?creds=FILE&monitor=URL, or a server of our own (nats:)."""
    own: OwnServer | None = None
    client = NatsClient(url.rstrip(":"))  # "nats:" before a colon reads as a mistake
    try:
        if not urlsplit(url).netloc:
            own = OwnServer(_own_folder(url))
            await own.start()
            servers, given = [own.url], dict[str, str]()
            login: dict[str, Any] = {"token": own.token}
        else:
            servers, given = _parse(url)
            login = _login(given)
        await client.connect(servers, **login)
        return await _open(client, own, servers, given, options)
    except BaseException:
        await client.close()
        if own is not None:
            await own.stop()
        raise


async def _open(
    client: NatsClient, own: OwnServer | None, servers: list[str], given: dict[str, str], options: EngineOptions
) -> Engine:
    check_version(client)
    await check_account(client)
    monitors = [each for each in given.get("monitor", "").split(",") if each]
    synced = await check_sync(client, monitors, is_own=own is not None, trusts_engine=options.trusts_engine)
    replicas = int(given.get("replicas", CLUSTER_REPLICAS if len(servers) >= CLUSTER_REPLICAS else 1))
    if replicas < CLUSTER_REPLICAS and own is None and not options.trusts_engine:
        raise StoreFault(
            "unusable",
            f"{client.where}: one server is one disk; name three servers of a cluster (nats://a,b,c), or start with "
            "--trust-engine",
        )
    shards = await prepare_streams(client, replicas=replicas, shards=int(given.get("shards", DEFAULT_SHARDS)))
    index, signals = Index(client), NatsSignals(client)
    await signals.start()
    majority = replicas // 2 + 1
    kept = f"on {majority} of {replicas} servers" if replicas > 1 else "on one server, which is one disk"
    means = f"NATS {client.version}; acknowledged means: stored {kept}"
    return Engine(
        name="nats",
        store=NatsStore(client, shards, Sealer(options.secrets_key)),
        nodes=NatsNodes(client, index),
        signals=signals,
        records=NatsRecords(index),
        guarantees=[means, *synced, "sessions cannot be searched"],
        is_shared=True,
        disagreements=partial(disagreements, monitors),
        after_close=client.close if own is None else own.stop,
    )


def _own_folder(url: str) -> Path:
    """Return the folder of our own server: named after the colon, or in the state folder of the user."""
    path = url.removeprefix("nats:")
    if path:
        return Path(os.path.abspath(os.path.expanduser(path)))
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state) / "dragoman" / "nats"


def _parse(url: str) -> tuple[list[str], dict[str, str]]:
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(given.keys() - set(_OPTIONS)):
        raise ConfigFault([f"store: {url}: unknown option {unknown[0]!r}; there are {', '.join(_OPTIONS)}"])
    servers = [f"nats://{each}" if ":" in each else f"nats://{each}:4222" for each in parts.netloc.split(",") if each]
    return servers, given


def _login(given: dict[str, str]) -> dict[str, Any]:
    login: dict[str, Any] = {}
    if file := given.get("creds"):
        login["user_credentials"] = os.path.expanduser(file)
    elif token := os.environ.get(TOKEN_VARIABLE):
        login["token"] = token
    if file := given.get("ca"):
        import ssl

        login["tls"] = ssl.create_default_context(cafile=os.path.expanduser(file))
    return login
