"""Recordings replayed as mock peers to real clients and agents, in strict and lenient mode."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import connect
from dragoman.inspect.replay import ReplayScript
from tests.inspect.conversation import DRAGOMAN, TALK, TIMEOUT, answer, call, inspect, recorded, write

EVERYTHING = [*DRAGOMAN, "agent", "everything"]


def script(we: str = "a2c", strict: bool = True, talk: list[tuple[str, Any]] = TALK) -> ReplayScript:
    return ReplayScript(recorded(talk), we, strict)


def replies(lines: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(line.data) for line in lines]


def receive(play: ReplayScript, message: dict[str, Any]) -> list[dict[str, Any]]:
    reaction = play.receive(json.dumps(message).encode())
    assert reaction.problem == ""
    return replies(reaction.frames)


def test_the_replayed_agent_uses_the_ids_of_the_client() -> None:
    play = script()
    assert play.begin() == []
    assert receive(play, {**TALK[0][1], "id": "one"}) == [{**TALK[1][1], "id": "one"}]
    assert receive(play, {**call(77, "session/new", {"cwd": "/elsewhere", "mcpServers": []})})[0]["id"] == 77
    updates = receive(play, {**TALK[4][1], "id": 78})
    assert updates == [message for _, message in TALK[5:9]]
    assert receive(play, TALK[9][1])[-1] == {**TALK[11][1], "id": 78}
    assert play.missing_messages() == []


def test_strict_mode_reports_what_differs() -> None:
    play = script()
    other = call(0, "initialize", {"protocolVersion": 2, "clientCapabilities": {}})
    reaction = play.receive(json.dumps(other).encode())
    assert "params.protocolVersion: 2 instead of 1" in reaction.problem
    assert "line 2" in reaction.problem
    assert replies(reaction.frames)[0]["error"]["code"] == -32600


def test_strict_mode_requires_the_recorded_order() -> None:
    assert "received session/new" in script().receive(json.dumps(TALK[2][1]).encode()).problem


BROKEN, UNREADABLE = b"{broken", {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}


@pytest.mark.parametrize("strict", [True, False])
def test_recordings_with_an_error_without_an_id_play_against_each_other(strict: bool) -> None:
    talk: list[tuple[str, Any]] = [*TALK[:2], ("c2a", BROKEN), ("a2c", UNREADABLE), *TALK[2:4]]
    client, agent = script("c2a", strict, talk), script("a2c", strict, talk)
    to_agent, to_client = [line.data for line in client.begin()], [line.data for line in agent.begin()]
    received: list[bytes] = []
    while to_agent or to_client:
        received += to_client
        to_agent += [line.data for data in to_client for line in client.receive(data).frames]
        to_client = [line.data for data in to_agent for line in agent.receive(data).frames]
        to_agent = []
    assert (client.missing_messages(), agent.missing_messages()) == ([], [])
    assert UNREADABLE in [json.loads(data) for data in received]


def test_lenient_mode_does_not_wait_for_an_error_without_an_id() -> None:
    play = script("c2a", False, [*TALK[:2], ("c2a", BROKEN), ("a2c", UNREADABLE), *TALK[2:4]])
    play.begin()
    sent = [line.data for line in play.receive(json.dumps(TALK[1][1]).encode()).frames]
    assert [sent[0], json.loads(sent[1])["method"]] == [BROKEN, "session/new"]


def test_lenient_mode_accepts_requests_in_any_order_and_repeated() -> None:
    play = script(strict=False)
    assert receive(play, {**TALK[2][1], "id": 5})[0] == {**TALK[3][1], "id": 5}
    assert receive(play, {**TALK[0][1], "id": 6})[0] == {**TALK[1][1], "id": 6}
    assert receive(play, {**TALK[2][1], "id": 7})[0] == {**TALK[3][1], "id": 7}


def test_lenient_mode_refuses_a_request_that_was_never_recorded() -> None:
    (refusal,) = receive(script(strict=False), call(9, "session/list", {}))
    assert refusal["error"]["code"] == -32601


def test_the_replayed_client_uses_the_session_ids_of_the_agent() -> None:
    play = script("c2a")
    assert replies(play.begin()) == [TALK[0][1]]
    assert receive(play, TALK[1][1]) == [TALK[2][1]]
    (prompt,) = receive(play, answer(1, {"sessionId": "real"}))
    assert prompt["params"]["sessionId"] == "real"


@pytest.mark.parametrize("way", ["--strict", "--lenient"])
def test_a_real_client_works_with_a_replayed_agent(way: str, tmp_path: Path) -> None:
    path = write(tmp_path / "r")

    async def converse() -> str:
        command = [*DRAGOMAN, "inspect", "replay", str(path), "--as", "agent", way, "--ignore", "params"]
        serve = {"fs/read_text_file": lambda params: {"content": "text"}}
        async with connect(command, dialect="v1", on=serve) as agent:
            session = await agent.open_session(str(tmp_path))
            return await session.ask("hello")

    assert asyncio.run(asyncio.wait_for(converse(), TIMEOUT)) == "Hello "


def test_a_real_agent_is_compared_with_its_recording(tmp_path: Path) -> None:
    path, talk = tmp_path / "r", tmp_path / "in"
    frames = [
        call(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
        call(1, "session/new", {"cwd": str(tmp_path), "mcpServers": []}),
    ]
    talk.write_bytes(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
    with talk.open("rb") as source:
        command = [*DRAGOMAN, "inspect", "run", "--out", str(path), "--", *EVERYTHING]
        subprocess.run(command, stdin=source, capture_output=True, timeout=TIMEOUT, check=True)
    same = inspect("replay", path, "--as", "client", "--strict", "--", *EVERYTHING)
    assert (same.returncode, same.stderr) == (0, b"")
    other = inspect("replay", path, "--as", "client", "--strict", "--", *EVERYTHING, "--dialect", "draft")
    assert other.returncode == 3
    assert b"agentCapabilities" in other.stderr


def test_an_agent_that_disconnects_early_is_reported(tmp_path: Path) -> None:
    done = inspect("replay", write(tmp_path / "r"), "--as", "client", "--", sys.executable, "-c", "pass")
    assert done.returncode == 3
    assert b"the peer disconnected before it sent an answer (line 3" in done.stderr


def test_with_original_timing_an_answer_is_not_sent_earlier(tmp_path: Path) -> None:
    play = script()
    play.begin()
    reaction = play.receive(json.dumps(TALK[0][1]).encode())
    assert [line.delay for line in reaction.frames] == [1000]
