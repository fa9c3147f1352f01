"""What a chat says of the others in a session of a host."""

from __future__ import annotations

import asyncio
import io
import os
import pty
from typing import Any

import pytest

from dragoman.cli.connect.presence import Presence
from dragoman.cli.ui.key_prompt import KeyChoice, Prompter
from dragoman.cli.ui.terminal import OutputStream, StyledLine


def company() -> tuple[Presence, list[str]]:
    told: list[str] = []
    others = Presence("ann", lambda text, _: told.append(text))
    others.session_id = "roof"
    return others, told


def hear(others: Presence, method: str, **params: Any) -> None:
    others.notification_handlers()[method]({"sessionId": "roof", **params})


def test_whose_files_the_agent_uses_is_said_when_it_changes() -> None:
    others, told = company()
    hear(others, "_dragoman/workspace", files="host")
    hear(others, "_dragoman/workspace", files={"user": "ben", "client": "an\x1beditor"}, terminals="host")
    hear(others, "_dragoman/workspace", files={"user": "ben", "client": "an\x1beditor"}, terminals="host")
    hear(others, "_dragoman/workspace", files="host", terminals={"user": "ben", "client": ""})
    assert told == ["files: those of ben (an␛editor)", "files: those of the host", "terminals: those of ben"]


def test_what_is_said_of_another_session_is_not_for_this_chat() -> None:
    others, told = company()
    others.notification_handlers()["_dragoman/workspace"](
        {"sessionId": "cellar", "files": {"user": "ben", "client": ""}}
    )
    assert told == []


@pytest.mark.parametrize(
    ("states", "is_ours", "is_theirs"),
    [
        ((), False, False),
        (("started",), False, True),
        (("started", "yours"), True, False),
        (("started", "yours", "running"), True, False),  # who came just then is told that it runs
        (("running",), False, True),
        (("started", "yours", "ended"), False, False),
    ],
)
def test_a_turn_is_ones_own_from_when_the_host_says_so_to_its_end(
    states: tuple[str, ...], is_ours: bool, is_theirs: bool
) -> None:
    others, _ = company()
    for state in states:
        hear(others, "_dragoman/turn", state=state, turn="t", by="ann")
    assert (others.is_own_turn, others.is_others_turn) == (is_ours, is_theirs)


def test_of_two_windows_of_ones_own_the_other_is_shown() -> None:
    others, _ = company()
    mine = {"user": "ann", "role": "admin", "client": "dragoman"}
    hear(others, "_dragoman/presence", members=[{**mine, "state": "typing"}, {**mine, "state": "here"}])
    assert others.status_text == "with ann (admin, typing)"
    others.own_state = "typing"
    assert others.status_text == "with ann (admin)"


async def test_who_comes_while_a_question_stands_is_said_above_its_last_line() -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen, (master, slave) = Screen(), pty.openpty()
    person = Prompter(OutputStream(screen, {"TERM": "xterm"}), slave)
    try:
        assert not person.show_above_question("ben came", "dim")
        asking = asyncio.create_task(person.choose([StyledLine("May I?")], [KeyChoice("y", "yes", "allowed")]))
        await asyncio.sleep(0)  # it stands there now
        assert person.show_above_question("ben came", "")
        os.write(master, b"y")
        async with asyncio.timeout(20):
            assert await asking == "allowed"
    finally:
        os.close(master)
        os.close(slave)
    shown = screen.getvalue()
    assert "\r\x1b[Kben came\n" in shown
    assert shown.count("ben came") == 1


def test_a_turn_that_its_host_could_not_finish_is_told_also_to_who_asked() -> None:
    others, told = company()
    hear(others, "_dragoman/turn", state="started", turn="t", by="ann")
    hear(others, "_dragoman/turn", state="yours", turn="t")
    hear(others, "_dragoman/turn", state="ended", turn="t", error={"kind": "interrupted", "message": "its host ended"})
    assert (told, others.interrupted_turn_id) == (["the turn failed: its host ended"], "t")


DIED = "agent x exited with status 3; last words: it was\nthe \x1bend"


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        (("started", "ended"), ["the turn failed: agent x exited with status 3; it said:\nit was\nthe ␛end"]),
        (("started", "yours", "ended"), []),  # the answer to the prompt says it
        ((), ["the agent ended: agent x exited with status 3; it said:\nit was\nthe ␛end"]),
    ],
    ids=["in another's turn", "in one's own", "between turns"],
)
def test_the_death_of_an_agent_is_told_once_and_its_last_words_line_by_line(
    turns: tuple[str, ...], said: list[str]
) -> None:
    others, told = company()
    for state in turns:
        error = {"error": {"kind": "internal_error", "message": DIED}} if state == "ended" else {}
        hear(others, "_dragoman/turn", state=state, turn="t", by="ann", **error)
    hear(others, "_dragoman/agent", state="exited", message=DIED, status=3)
    assert told == said
