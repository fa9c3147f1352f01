"""What an operator does with a fleet, from any machine that reaches its engine: status, drain, move."""

from __future__ import annotations

import asyncio
from typing import Any

from dragoman.errors import Kind, ProtocolError
from dragoman.host.fleet import places
from dragoman.host.fleet.fleet_format import read_fleet_format
from dragoman.host.room.agent import INTERRUPTED
from dragoman.ids import new_id, now
from dragoman.store.contract import Draft, EntryKind, Store, decode_raw_entry
from dragoman.store.fleet import Engine, NodeStatus
from dragoman.store.session_state import SessionState

# How long a node may take to say that it drains, and between two looks. Seconds.
DRAIN_ANSWER_TIMEOUT, LOOK_INTERVAL = 20.0, 0.25

# Entries read at once.
PAGE_SIZE = 500


def node_to_json(status: NodeStatus) -> dict[str, Any]:
    """Return a node as `fleet status --json` shows it."""
    info = status.info
    state = "away" if not status.is_alive else "draining" if info.state.get("draining") else "alive"
    return {
        "node": info.node,
        "state": state,
        "url": info.url,
        "version": info.version,
        "labels": list(info.labels),
        "age": round(status.age, 1),
        "lease": status.seconds,
        **{name: info.state.get(name) for name in ("sessions", "awake", "clients", "config", "formats")},
    }


async def fleet_status(engine: Engine) -> dict[str, Any]:
    """Return the nodes, the engine with its guarantees in words, and what is wrong."""
    nodes = [node_to_json(status) for status in await engine.nodes.list_nodes()]
    alive = [node for node in nodes if node["state"] != "away"]
    problems = [
        f"node {node['node']} has been away for {node['age']:.0f} s" for node in nodes if node["state"] == "away"
    ]
    if len({node["config"] for node in alive}) > 1:
        problems.append("the nodes have different settings")
    if len({node["version"] for node in alive}) > 1:
        problems.append("the nodes have different versions: finish the update")
    problems += await engine.disagreements()
    written = (await read_fleet_format(engine.records))[0].write
    return {
        "engine": {"name": engine.name, "guarantees": engine.guarantees},
        "format": written,
        "nodes": nodes,
        "problems": problems,
    }


async def request_drain(engine: Engine, node: str, grace: float) -> None:
    """Let a node drain. Raise if it is not alive, or does not say that it drains."""
    status = await engine.nodes.node(node)
    if status is None or not status.is_alive:
        raise ProtocolError(Kind.RESOURCE_NOT_FOUND, f"there is no living node {node!r}; see dragoman fleet status")
    deadline = asyncio.get_running_loop().time() + DRAIN_ANSWER_TIMEOUT
    while not status.info.state.get("draining"):
        if asyncio.get_running_loop().time() > deadline:
            raise ProtocolError(Kind.TIMEOUT, f"node {node} did not answer; send it SIGTERM, with --grace at its start")
        await engine.signals.send("drain", {"target": node, "grace": grace})  # again: a signal may be lost
        await asyncio.sleep(LOOK_INTERVAL * 4)
        status = await engine.nodes.node(node) or status


async def wait_drained(engine: Engine, node: str, timeout: float) -> bool:
    """Wait until a node owns no session. Return whether it does not."""
    deadline = asyncio.get_running_loop().time() + timeout
    while asyncio.get_running_loop().time() < deadline:
        status = await engine.nodes.node(node)
        if status is None or not status.is_alive or not status.info.state.get("sessions"):
            return True
        await asyncio.sleep(LOOK_INTERVAL)
    return False


async def move_session(engine: Engine, name: str, node: str, cwd: str, by: str) -> str:
    """Bind a session to another node and folder. Return its id.

    Its owner must be gone, or must have let it go: a running agent cannot be moved.
    """
    store = engine.store
    status = await engine.nodes.node(node)
    if status is None or not status.is_alive:
        raise ProtocolError(Kind.RESOURCE_NOT_FOUND, f"there is no living node {node!r}; see dragoman fleet status")
    session = (await store.find(name)).session_id
    owner = await store.owner(session)
    holder = await engine.nodes.node(owner.node) if owner.node else None
    if holder is not None and holder.is_alive:
        message = f"node {owner.node} runs this session now; drain the node, or let everybody leave the session first"
        raise ProtocolError(Kind.INVALID_STATE, message, {"node": owner.node})
    claim = await store.claim(session, f"move-{new_id()[:8]}", epoch=owner.epoch)
    try:
        state = await _read_state(store, session)
        drafts = []
        if state.open_turn is not None:
            error = {"kind": INTERRUPTED, "message": "this turn was not finished: its node is gone"}
            drafts.append(
                Draft(
                    kind=EntryKind.TURN_ENDED, actor="dragoman", time=now(), body={"error": error}, turn=state.open_turn
                )
            )
        moved = {"node": node, "cwd": cwd, "place": places.NODE}
        drafts.append(Draft(kind=EntryKind.MEMBER, actor=by, time=now(), body={"moved": moved}))
        await store.append(session, drafts, claim=claim)
    finally:
        await store.release(claim)
    return session


async def _read_state(store: Store, session: str) -> SessionState:
    state = SessionState((await store.find(session)).imported)
    while lines := await store.lines(session, state.seq, PAGE_SIZE, intact=True):
        for line in lines:
            state.apply(decode_raw_entry(line))
    return state
