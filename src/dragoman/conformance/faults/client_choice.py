"""Faults in how a client takes up what its agent offers."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.client_seeding import dies
from dragoman.conformance.client_twin import ClientFault
from dragoman.conformance.faults.client_update import update
from dragoman.conformance.harness.client import OLDER
from dragoman.conformance.seeding import listens, params, with_, without
from dragoman.conformance.twin import Json, Tape, seeded


def _is_refused(tape: Tape, message: Json, method: str) -> bool:
    """Whether this is an error in answer to a request of ours."""
    asked = [each["id"] for each in tape.asked.values() if each["method"] == method]
    return isinstance(message, dict) and "error" in message and message.get("id") in asked


def _dies_of_refused_modes(tape: Tape, message: Json) -> Iterable[Json]:
    if _is_refused(tape, message, "session/set_mode"):
        tape.die()
        return ()
    return (message,)


def _notes_refused_loads(tape: Tape, message: Json) -> Iterable[Json]:
    if _is_refused(tape, message, "session/load"):
        tape.notes["refused"] = True
    return (message,)


def _prompts_all_the_same(tape: Tape, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and message.get("method") == "session/prompt" and tape.notes.get("refused"):
        return [{**message, "params": {**message["params"], "sessionId": OLDER}}]
    return [message]


def _tidied(told: Json) -> Json:
    return {**told, "cursor": told["cursor"].strip("=")} if "cursor" in told else told


seeded("client.choice.01", params("session/set_mode", with_(modeId="Code")))
seeded("client.choice.02", ClientFault(hears=_dies_of_refused_modes))
seeded("client.choice.03", params("session/set_config_option", with_(value="Large")))
seeded("client.choice.04", params("session/load", with_(cwd=".")))
seeded("client.choice.05", dies(lambda message: "user_message" in str(update(message)) and OLDER in str(message)))
seeded("client.choice.06", ClientFault(hears=listens(_notes_refused_loads).hears, says=_prompts_all_the_same))
seeded("client.choice.07", params("session/list", _tidied))
seeded("client.choice.08", params("session/resume", without("cwd")))
