"""Faults of clients in what they lend beyond v1 in the draft."""

from __future__ import annotations

import os
from collections.abc import Iterable

from dragoman.conformance.client_seeding import dies
from dragoman.conformance.faults.client_turn import result
from dragoman.conformance.seeding import calls, dropped, hears, params, results, with_, without
from dragoman.conformance.twin import Fault, Json, Tape, seeded


def _ignoring(method: str, name: str) -> Fault:
    """This member of the params is not looked at."""
    return hears(method, lambda _, message: [{**message, "params": without(name)(message["params"])}])


def _typeless(listed: Json) -> None:
    for entry in listed.get("entries") or []:
        entry["type"] = "file"


def _one_by_one(tape: Tape, message: Json) -> Iterable[Json]:
    """The files that can be written are."""
    for each in message["params"].get("files") or []:
        if os.path.isdir(os.path.dirname(str(each.get("path")))):
            with open(each["path"], "w", encoding="utf-8") as file:
                file.write(str(each.get("content", "")))
    yield message


def _two_terminals(told: Json) -> None:
    told["capabilities"]["terminal"]["maxConcurrent"] = 2


def _gently(tape: Tape, message: Json) -> Iterable[Json]:
    """Force is promised and not used."""
    if not message["params"].get("force"):
        yield message
        return
    tape.say({"jsonrpc": "2.0", "id": message["id"], "result": {"killed": True}})


def _swapped(told: Json) -> Json:
    return {**told, "stream": "stdout"} if "stream" in told else told


def _hastily(tape: Tape, message: Json) -> Iterable[Json]:
    """A prompt that was refused as too soon is said again."""
    error = message.get("error") if isinstance(message, dict) else None
    if isinstance(error, dict) and error.get("code") == -32008:
        asked = next(each for each in tape.asked.values() if each["method"] == "session/prompt")
        tape.say({**asked, "id": "again"})
    yield message


seeded("client.draft.20", _ignoring("fs/write_text_file", "createDirectories"))
seeded("client.draft.21", _ignoring("terminal/create", "timeout"))
seeded("client.draft.22", hears("terminal/kill", _gently))
seeded("client.draft.23", params("initialize", _two_terminals))
seeded("client.draft.24", dies(lambda message: "_custom" in (result(message).get("capabilities") or {})))
seeded("client.draft.25", Fault(hears=_hastily))
seeded("client.draft.26", results("fs/read_binary_file", with_(data="AAAA")))
seeded("client.draft.27", results("fs/list_directory", _typeless))
seeded("client.draft.28", results("fs/create_directory", with_(created=False)))
seeded("client.draft.29", calls("fs/changed", dropped))
seeded("client.draft.30", hears("fs/write_files", _one_by_one))
seeded("client.draft.31", results("fs/read_text_file", with_(totalLines=0)))
seeded("client.draft.32", params("terminal/output", _swapped))
seeded("client.draft.33", params("session/new", with_(mcpServers=[{"name": "tools", "command": "tools"}])))
