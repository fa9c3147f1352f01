"""What a chat says of the others in a session of a host."""

from __future__ import annotations

from typing import Any

from dragoman.cli.company import Company


def company() -> tuple[Company, list[str]]:
    told: list[str] = []
    others = Company("ann", lambda text, _: told.append(text))
    others.session = "roof"
    return others, told


def hear(others: Company, method: str, **params: Any) -> None:
    others.handlers()[method]({"sessionId": "roof", **params})


def test_whose_files_the_agent_uses_is_said_when_it_changes() -> None:
    others, told = company()
    hear(others, "_dragoman/workspace", files="host")
    hear(others, "_dragoman/workspace", files={"user": "ben", "client": "an\x1beditor"}, terminals="host")
    hear(others, "_dragoman/workspace", files={"user": "ben", "client": "an\x1beditor"}, terminals="host")
    hear(others, "_dragoman/workspace", files="host", terminals={"user": "ben", "client": ""})
    assert told == ["files: those of ben (an␛editor)", "files: those of the host", "terminals: those of ben"]


def test_what_is_said_of_another_session_is_not_for_this_chat() -> None:
    others, told = company()
    others.handlers()["_dragoman/workspace"]({"sessionId": "cellar", "files": {"user": "ben", "client": ""}})
    assert told == []
