"""The shortest clients of the official SDKs under `dragoman check client`: their known faults are found."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from dragoman.conformance.harness.client_process import CommandClient
from dragoman.conformance.harness.peer import PROCESS
from dragoman.conformance.requirement import requirements
from dragoman.conformance.runner import check
from dragoman.conformance.verdict import Outcome, Verdict
from tests.interop.commands import peer

# What never comes is not waited for as long as that of a stranger.
FAST = msgspec.structs.replace(PROCESS, answer=4.0, exit=4.0)

# By the numbers of docs/protocol/peers.md: what is wrong, and the requirement that finds it.
PYTHON = {
    "P1 unread stderr": "client.process.01",
    "P2 orphaned behind a wrapper": "client.process.04",
    "P3 handlers out of order": "client.order.04",
    "P4 unknown stop reason": "client.turn.05",
    "P5 unknown update": "client.update.02",
    "P6 a number on a line": "client.rpc.10",
    "P12 environment": "client.process.10",
    "27 unknown kind of option": "client.permission.04",
}
TYPESCRIPT = {
    "handlers out of order": "client.order.04",
    "orphaned behind a wrapper": "client.process.04",
    "unknown kind of option": "client.permission.04",
}
# Those that they do right: no alarm.
SOUND = ("client.update.01",)


def checked(name: str, ids: list[str]) -> dict[str, Verdict]:
    """Check one of the clients."""

    async def work() -> dict[str, Verdict]:
        client = CommandClient(peer(name), "v1", timeouts=FAST)
        client.exits_after_turn = True
        wanted = [requirements()[id] for id in ids]
        return {verdict.requirement: verdict async for verdict in check(client, wanted, 2)}

    return asyncio.run(work())


@pytest.mark.parametrize(("name", "faults"), [("py_plain", PYTHON), ("ts_plain", TYPESCRIPT)])
def test_check_finds_the_known_faults_of_the_official_sdks(name: str, faults: dict[str, str]) -> None:
    verdicts = checked(name, [*faults.values(), *SOUND])
    missed = {known: verdicts[id].why for known, id in faults.items() if verdicts[id].outcome is not Outcome.FAIL}
    assert not missed
    assert all(verdicts[id].evidence for id in faults.values())
    assert [id for id in SOUND if verdicts[id].outcome is not Outcome.PASS] == []
