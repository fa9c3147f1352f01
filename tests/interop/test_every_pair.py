"""How clients of the official SDKs initialize our agent, use it without files, and disconnect during a turn."""

from __future__ import annotations

from pathlib import Path

from tests.interop import leftovers
from tests.interop.commands import EVERYTHING
from tests.interop.remote import RemoteClient


def test_initialize_returns_our_name_and_capabilities(client: RemoteClient, folder: Path) -> None:
    initialized = client("start", command=EVERYTHING, cwd=str(folder)).result
    assert initialized["protocolVersion"] == 1
    assert initialized["agentInfo"]["name"] == "everything"
    offered = initialized["agentCapabilities"]
    assert offered["loadSession"] is True
    assert offered["promptCapabilities"] == {"image": True, "audio": True, "embeddedContext": True}
    assert {"list", "resume", "close"} <= set(offered["sessionCapabilities"])


def test_a_client_without_files_and_terminals_gets_no_such_requests(client: RemoteClient, folder: Path) -> None:
    client("start", command=EVERYTHING, cwd=str(folder), offers_files=False)
    session = client("new", cwd=str(folder)).result["sessionId"]
    turn = client("prompt", session=session, text="/write new.txt text", answer="allow_once")
    assert turn.calls == []
    assert (folder / "new.txt").read_text() == "text"


def test_a_client_that_disconnects_during_a_turn_leaves_no_process(
    client: RemoteClient, folder: Path, mark: str
) -> None:
    before = set(leftovers.marked(mark))
    client("start", command=EVERYTHING, cwd=str(folder), offers_files=False)
    session = client("new", cwd=str(folder)).result["sessionId"]
    client("disconnect", session=session, text="/run echo > started; sleep 300", file=str(folder / "started"))
    leftovers.assert_nothing_left(mark, before)
