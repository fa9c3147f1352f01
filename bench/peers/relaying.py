"""What a fleet costs: a short turn at the node that runs it and through another, and updates told by three nodes.

    python -m bench.peers.relaying '{"work": "turn", "count": 300, "cwd": "/tmp/x"}'

Nodes are processes of `dragoman serve` on a PostgreSQL of their own. Both sides take turns, and medians are compared.
"""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench.peers.hosting import WARM, Host
from bench.peers.ours_client import Editor
from bench.peers.texts import CHUNK_BYTES, Reader
from bench.peers.watchers import Watcher, watcher
from dragoman import connect
from tests.store.postgres import server

Figures = dict[str, float]

MANY = 1_000_000
LIMITS = f"[host.limits]\nconnections = {MANY}\nrate = {MANY}\nburst = {MANY}\nkeepalive = 600\n"

# Clients that come at once; more would wait for each other, not for the nodes.
TOGETHER = 50


@contextmanager
def fleet(folder: Path, count: int) -> Iterator[list[Host]]:
    """So many nodes on one database."""
    database = server.create_folder()
    server.init(database)
    postgres = server.start(database)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, database, ignore_errors=True)
        stack.callback(postgres.wait)
        stack.callback(postgres.kill)
        key = folder / "key"
        key.write_text("0f" * 32)
        key.chmod(0o600)
        store = server.Postgres(database).url("bench")
        yield [stack.enter_context(_node(folder, f"n{number + 1}", store, key)) for number in range(count)]


@contextmanager
def _node(folder: Path, name: str, store: str, key: Path) -> Iterator[Host]:
    home = folder / name
    (home / "dragoman").mkdir(parents=True)
    (home / "dragoman" / "config.toml").write_text(LIMITS)
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "dragoman", "serve", "--json", "--bind", "127.0.0.1:0", "--store", store]
    command += ["--secrets-key", str(key), "--node", name, "--labels", "shared:all=/", "--"]
    command += [sys.executable, "-m", "bench.peers.ours_agent"]
    environ = {"PYTHONPATH": root, "PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(home)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ, cwd=folder)
    assert process.stdout is not None
    try:
        yield Host(json.loads(process.stdout.readline())["url"], process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


async def turns(specification: dict[str, Any]) -> Figures:
    """Short turns in one session, in turns from a client of its node and from one of another."""
    folder = specification["cwd"]
    with fleet(Path(folder), 2) as (first, second):
        async with connect(first.socket_url) as near, connect(second.socket_url) as far:
            editors = Editor(near, folder), Editor(far, folder)
            own = await editors[0].open()
            relayed = await far.load_session(own.id, folder)
            taken: tuple[list[float], list[float]] = ([], [])
            for number in range(int(specification["count"])):
                at = number % 2
                started = perf_counter()
                await editors[at].prompt((own, relayed)[at], f"/stream 1 {CHUNK_BYTES}", lambda _: None)
                taken[at].append(perf_counter() - started)
    here, there = (median(times) * 1e6 for times in taken)
    return {"owned_p50_us": here, "relayed_p50_us": there, "ratio": there / here}


async def fan_out(specification: dict[str, Any]) -> Figures:
    """One prompt, whose updates go to so many clients: all at one node, then spread over three."""
    clients, folder = int(specification["clients"]), specification["cwd"]
    count = max(int(specification["count"]) // clients, 1)
    rates = []
    with fleet(Path(folder), 3) as nodes:
        for spread in (nodes[:1], nodes):
            async with connect(nodes[0].socket_url) as agent:
                editor = Editor(agent, folder)
                session = await editor.open()
                await editor.prompt(session, f"/stream {WARM} {CHUNK_BYTES}", lambda _: None)
                watchers = await _watch(spread, clients - 1, session.id)
                reader = Reader()
                reached = [each.expect(count) for each in watchers]
                started = perf_counter()
                await editor.prompt(session, f"/stream {count} {CHUNK_BYTES}", reader.take)
                await asyncio.gather(*reached)
                rates.append(count * clients / (perf_counter() - started))
                reader.expect(count)
                for each in watchers:
                    each.transport.abort()
    return {"one_node_per_second": rates[0], "three_nodes_per_second": rates[1], "ratio": rates[1] / rates[0]}


async def _watch(nodes: list[Host], count: int, session: str) -> list[Watcher]:
    gate = asyncio.Semaphore(TOGETHER)

    async def one(number: int) -> Watcher:
        async with gate:
            came = await watcher(nodes[number % len(nodes)].port)
            await came.attach(session)
            return came

    return list(await asyncio.gather(*map(one, range(count))))


WORKS: dict[str, Callable[[dict[str, Any]], Awaitable[Figures]]] = {"turn": turns, "told": fan_out}


async def main(specification: dict[str, Any]) -> Figures:
    """The figures of one work."""
    return await WORKS[specification["work"]](specification)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
