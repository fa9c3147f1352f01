"""What a chat shows of the other members of a session."""

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


def create_presence() -> tuple[Presence, list[str]]:
    lines: list[str] = []
    presence = Presence("ann", lambda text, _: lines.append(text))
    presence.session_id = "roof"
    return presence, lines


def notify(presence: Presence, method: str, **params: Any) -> None:
    presence.notification_handlers()[method]({"sessionId": "roof", **params})


def test_a_change_of_the_workspace_owner_is_shown() -> None:
    presence, lines = create_presence()
    notify(presence, "_dragoman/workspace", files="host")
    notify(presence, "_dragoman/workspace", files={"user": "ben", "client": "an\x1beditor"}, terminals="host")
    notify(presence, "_dragoman/workspace", files={"user": "ben", "client": "an\x1beditor"}, terminals="host")
    notify(presence, "_dragoman/workspace", files="host", terminals={"user": "ben", "client": ""})
    assert lines == ["files: of ben (an␛editor)", "files: on the host", "terminals: of ben"]


def test_notifications_of_another_session_are_ignored() -> None:
    presence, lines = create_presence()
    presence.notification_handlers()["_dragoman/workspace"](
        {"sessionId": "cellar", "files": {"user": "ben", "client": ""}}
    )
    assert lines == []


@pytest.mark.parametrize(
    ("states", "is_own", "is_others"),
    [
        ((), False, False),
        (("started",), False, True),
        (("started", "yours"), True, False),
        (("started", "yours", "running"), True, False),  # a client that joins just then gets "running"
        (("running",), False, True),
        (("started", "yours", "ended"), False, False),
    ],
)
def test_a_turn_is_our_own_from_the_hosts_notice_to_its_end(
    states: tuple[str, ...], is_own: bool, is_others: bool
) -> None:
    presence, _ = create_presence()
    for state in states:
        notify(presence, "_dragoman/turn", state=state, turn="t", by="ann")
    assert (presence.is_own_turn, presence.is_others_turn) == (is_own, is_others)


def test_a_late_notice_of_an_earlier_turn_changes_nothing() -> None:
    presence, _ = create_presence()
    notify(presence, "_dragoman/turn", state="yours", turn="ours", by="ann")
    notify(presence, "_dragoman/turn", state="running", turn="theirs", by="ben")
    assert (presence.is_own_turn, presence.is_others_turn) == (True, False)


def test_of_two_own_clients_only_the_other_is_shown() -> None:
    presence, _ = create_presence()
    mine = {"user": "ann", "role": "admin", "client": "dragoman"}
    notify(presence, "_dragoman/presence", members=[{**mine, "state": "typing"}, {**mine, "state": "here"}])
    assert presence.status_text == "with ann (admin, typing)"
    presence.own_state = "typing"
    assert presence.status_text == "with ann (admin)"


async def test_a_notice_during_a_question_is_shown_above_its_last_line() -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen, (master, slave) = Screen(), pty.openpty()
    prompter = Prompter(OutputStream(screen, {"TERM": "xterm"}), slave)
    try:
        assert not prompter.show_above_question("ben came", "dim")
        asking = asyncio.create_task(prompter.choose([StyledLine("May I?")], [KeyChoice("y", "yes", "allowed")]))
        await asyncio.sleep(0)  # the question is open now
        assert prompter.show_above_question("ben came", "")
        os.write(master, b"y")
        async with asyncio.timeout(20):
            assert await asking == "allowed"
    finally:
        os.close(master)
        os.close(slave)
    output = screen.getvalue()
    assert "\r\x1b[Kben came\n" in output
    assert output.count("ben came") == 1


def test_an_interrupted_own_turn_is_reported() -> None:
    presence, lines = create_presence()
    notify(presence, "_dragoman/turn", state="started", turn="t", by="ann")
    notify(presence, "_dragoman/turn", state="yours", turn="t")
    notify(
        presence, "_dragoman/turn", state="ended", turn="t", error={"kind": "interrupted", "message": "its host ended"}
    )
    assert (lines, presence.interrupted_turn_id) == (["the turn failed: its host ended"], "t")


DIED = "agent x exited with status 3; stderr: it was\nthe \x1bend"


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (("started", "ended"), ["the turn failed: agent x exited with status 3; stderr:\nit was\nthe ␛end"]),
        (("started", "yours", "ended"), []),  # the answer to the prompt reports it
        ((), ["the agent exited: agent x exited with status 3; stderr:\nit was\nthe ␛end"]),
    ],
    ids=["in another's turn", "in one's own", "between turns"],
)
def test_an_agent_exit_is_reported_once_with_its_stderr(turns: tuple[str, ...], expected: list[str]) -> None:
    presence, lines = create_presence()
    for state in turns:
        error = {"error": {"kind": "internal_error", "message": DIED}} if state == "ended" else {}
        notify(presence, "_dragoman/turn", state=state, turn="t", by="ann", **error)
    notify(presence, "_dragoman/agent", state="exited", message=DIED, status=3)
    assert lines == expected
