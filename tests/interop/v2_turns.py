"""What a client of version 2 must have seen after its turns with our agent, which spoke v1, through `translate`.

`peers/ts_client_v2.mjs` and its twins with the other SDKs (in `interop/peers`) print what they saw as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.pairs.words import Json


def check_seen(seen: Json, folder: Path) -> None:
    """Check hello, permission, cancel and load."""
    assert seen["introduced"]["protocolVersion"] == 2
    assert seen["introduced"]["info"]["name"] == "everything"

    turns = ("hello", "allowed", "refused", "cancelled", "again")
    assert [seen[name]["stopReason"] for name in turns] == ["end_turn"] * 3 + ["cancelled", "end_turn"]
    for name in turns:
        message = next(each for each in seen[name]["updates"] if each["sessionUpdate"] == "user_message")
        assert message["messageId"] == seen[name]["receipt"]["messageId"]
        states = [each["state"] for each in seen[name]["updates"] if each["sessionUpdate"] == "state_update"]
        assert states == ["running", *["requires_action", "running"] * len(seen[name]["asked"]), "idle"]
    assert [text_of(seen[name]["updates"]) for name in ("hello", "again")] == ["hello", "again"]
    assert [len(seen[name]["asked"]) for name in turns] == [0, 1, 1, 0, 0]
    assert (folder / "new.txt").read_text() == "text"
    assert not (folder / "other.txt").exists()
    said = [each for each in seen["replayed"] if each["sessionUpdate"].startswith("user_message")]
    assert "/echo hello" in json.dumps(said)
    assert seen["replayed"][-1] == {"sessionUpdate": "state_update", "state": "idle"}


def text_of(updates: list[Json]) -> str:
    """What the agent said."""
    return "".join(each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk")
