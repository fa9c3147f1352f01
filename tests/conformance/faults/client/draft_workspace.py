"""Faults of clients in files and terminals of the draft that v1 lacks."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tests.conformance.faults.client.turn import result
from tests.conformance.faults.edits import (
    disconnect_on,
    drop,
    edit_calls,
    edit_incoming,
    edit_params,
    edit_results,
    with_,
    without,
)
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed


def _ignoring(method: str, name: str) -> Fault:
    """Ignore this member of the params."""
    return edit_incoming(method, lambda _, message: [{**message, "params": without(name)(message["params"])}])


def _typeless(listed: Json) -> None:
    for entry in listed.get("entries") or []:
        entry["type"] = "file"


def _one_by_one(context: FaultContext, message: Json) -> Iterable[Json]:
    """Write the files that can be written."""
    for each in message["params"].get("files") or []:
        if os.path.isdir(os.path.dirname(str(each.get("path")))):
            with open(each["path"], "w", encoding="utf-8") as file:
                file.write(str(each.get("content", "")))
    yield message


def _two_terminals(params: Json) -> None:
    params["capabilities"]["terminal"]["maxConcurrent"] = 2


def _gently(context: FaultContext, message: Json) -> Iterable[Json]:
    """Promise force and do not use it."""
    if not message["params"].get("force"):
        yield message
        return
    context.send({"jsonrpc": "2.0", "id": message["id"], "result": {"killed": True}})


def _swapped(params: Json) -> Json:
    return {**params, "stream": "stdout"} if "stream" in params else params


def _hastily(context: FaultContext, message: Json) -> Iterable[Json]:
    """Send a prompt that was refused as too early again."""
    error = message.get("error") if isinstance(message, dict) else None
    if isinstance(error, dict) and error.get("code") == -32008:
        request = next(each for each in context.requests_out.values() if each["method"] == "session/prompt")
        context.send({**request, "id": "again"})
    yield message


seed("client.draft.20", _ignoring("fs/write_text_file", "createDirectories"))
seed("client.draft.21", _ignoring("terminal/create", "timeout"))
seed("client.draft.22", edit_incoming("terminal/kill", _gently))
seed("client.draft.23", edit_params("initialize", _two_terminals))
seed("client.draft.24", disconnect_on(lambda message: "_custom" in (result(message).get("capabilities") or {})))
seed("client.draft.25", Fault(incoming=_hastily))
seed("client.draft.26", edit_results("fs/read_binary_file", with_(data="AAAA")))
seed("client.draft.27", edit_results("fs/list_directory", _typeless))
seed("client.draft.28", edit_results("fs/create_directory", with_(created=False)))
seed("client.draft.29", edit_calls("fs/changed", drop))
seed("client.draft.30", edit_incoming("fs/write_files", _one_by_one))
seed("client.draft.31", edit_results("fs/read_text_file", with_(totalLines=0)))
seed("client.draft.32", edit_params("terminal/output", _swapped))
seed("client.draft.33", edit_params("session/new", with_(mcpServers=[{"name": "tools", "command": "tools"}])))
