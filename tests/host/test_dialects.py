"""Clients of several dialects in one room, with an agent of another: all see the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.config.config_file import NamedAgent
from tests.host.memory_host import messages_of, open_session, running_host, talker, until


def agent_config(dialect: str) -> NamedAgent:
    return NamedAgent(name="talker", command="talker", dialect=dialect)


@pytest.mark.item("004-76")
@pytest.mark.parametrize("behind", ["2025.1", "draft", "crow"])
async def test_three_dialects_see_one_transcript(behind: str, tmp_path: Path) -> None:
    async with (
        running_host(lambda: talker(dialect=behind), agents=(agent_config(behind),)) as hosted,
        hosted.client("ann", dialect="v1") as ann,
        hosted.client("ann", dialect="draft") as ben,
        hosted.client("ann", dialect="crow") as cem,
    ):
        one = await open_session(ann, tmp_path)
        await one.ask("first")
        two = await ben.load_session(one.id, str(tmp_path))
        three = await cem.load_session(one.id, str(tmp_path))
        await two.ask("second")
        await three.ask("third")
        for session in (one, two, three):
            await until(lambda session=session: messages_of(session)[-1:] == [("agent", "heard third")])  # type: ignore[misc]
        expected = [
            (who, text)
            for word in ("first", "second", "third")
            for who, text in (("user", word), ("agent", f"heard {word}"))
        ]
        assert messages_of(one) == messages_of(two) == messages_of(three) == expected


@pytest.mark.parametrize("dialect_name", ["v1", "banjo", "draft", "crow", "2025.1"])
async def test_every_dialect_opens_prompts_and_answers_questions(dialect_name: str, tmp_path: Path) -> None:
    async with (
        running_host() as hosted,
        hosted.client("ann", dialect=dialect_name, permission="allow", cwd=str(tmp_path)) as ann,
    ):
        session = await open_session(ann, tmp_path)
        assert await session.ask("hello") == "heard hello"
        answer = await session.ask("ask")
        assert answer == ("no" if dialect_name == "2025.1" else "yes")  # without files there, nothing is allowed


@pytest.mark.parametrize("dialect_name", ["v1", "banjo", "draft", "crow", "2025.1"])
async def test_every_update_has_its_number_in_every_dialect(dialect_name: str, tmp_path: Path) -> None:
    frames: list[bytes] = []
    async with running_host() as hosted:
        options: dict[str, Any] = {
            "dialect": dialect_name,
            "cwd": str(tmp_path),
            "trace": lambda transport: RecordingTransport(transport, frames),
        }
        async with hosted.client("ann", **options) as ann:
            session = await open_session(ann, tmp_path)
            await session.ask("many 3")
        log = await hosted.host.store.read((await hosted.host.store.sessions())[0].session_id)
    updates = [json.loads(frame) for frame in frames if b'"session/update"' in frame]
    numbers = [frame["params"]["_meta"]["dragoman"]["seq"] for frame in updates]
    assert numbers == [entry.seq for entry in log if entry.kind == "update"]


class RecordingTransport:
    """A transport that records what it is sent."""

    def __init__(self, transport: Any, frames: list[bytes]) -> None:
        self._transport = transport
        self._frames = frames

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def receive(self) -> list[Any]:
        came: list[Any] = await self._transport.receive()
        self._frames.extend(came)
        return came
