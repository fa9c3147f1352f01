"""The state that is kept with a session is the same as one folded from the whole log."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.store.contract import Draft, decode_raw_entry
from dragoman.store.memory import MemoryStore
from dragoman.store.session_state import SessionState, dump_state, load_state

_MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
_OPTION = {
    "id": "model", "name": "Model", "type": "select", "currentValue": "a",
    "options": [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}],
}  # fmt: skip
_OPENED = {
    "cwd": "/w", "agent": {"configured": "echo", "title": "Echo"}, "additionalDirectories": ["/more"],
    "resolved": {"/w": "/real"}, "modes": _MODES, "configOptions": [_OPTION],
}  # fmt: skip
_PERSON = {"user": "ann", "role": "admin", "client": "editor"}


def update(kind: str, **members: Any) -> tuple[str, dict[str, Any]]:
    return "update", {"sessionUpdate": kind, **members}


STORY: list[tuple[str, dict[str, Any]]] = [
    ("opened", _OPENED),
    ("member", {"came": [_PERSON, {**_PERSON, "user": "ben"}]}),
    ("turn_started", {}),
    update("agent_message_chunk", content={"type": "text", "text": "hello"}),
    update("current_mode_update", currentModeId="code"),
    update("available_commands_update", availableCommands=[{"name": "plan", "description": "Make a plan"}]),
    update("config_option_update", configOptions=[{**_OPTION, "currentValue": "b"}]),
    update("session_info_update", title="Roof"),
    ("member", {"went": [{**_PERSON, "user": "ben"}]}),
    update("state_update", state="running"),
    ("turn_ended", {"stopReason": "end_turn"}),
]


async def story_lines() -> list[bytes]:
    store = MemoryStore()
    drafts = [Draft(kind=kind, actor="ann", time="t", body=body, turn="t1") for kind, body in STORY]
    await store.append("s", drafts)
    return await store.lines("s")


def fold(lines: list[bytes], state: SessionState) -> SessionState:
    for line in lines:
        state.apply(decode_raw_entry(line))
    return state


@pytest.mark.parametrize("imported", [0, 3])
async def test_a_kept_state_goes_on_like_one_that_was_folded_from_the_start(imported: int) -> None:
    lines = await story_lines()
    whole = fold(lines, SessionState(imported))
    assert (len(whole.people), whole.title, whole.is_wide, whole.open_turn) == (1, "Roof", True, None)
    assert imported or (whole.modes is not None and whole.modes.current_mode_id == "code")
    for count in range(len(lines) + 1):
        kept = load_state(dump_state(fold(lines[:count], SessionState(imported))), imported)
        assert kept is not None
        assert vars(fold(lines[count:], kept)) == vars(whole), f"kept after {count} entries"


async def test_a_state_that_is_damaged_or_of_another_version_or_session_is_not_used() -> None:
    data = dump_state(fold(await story_lines(), SessionState()))
    assert load_state(data) is not None
    assert load_state(data, 2) is None
    assert load_state(data.replace(b"Roof", b"Root")) is None
    for bad in (b"", b"x", data[:-1], b"00000000{}", b"a3e9bd7c[]"):
        assert load_state(bad) is None, bad
