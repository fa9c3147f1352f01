"""Clients with faulty files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from tests.conformance.faults.edits import edit_params, edit_replies
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed

READ, WRITE = "fs/read_text_file", "fs/write_text_file"

# Takes the request and the answer; returns the new answer.
Answering = Callable[[dict[str, Json], Json], Json]


def _on(method: str, answer: Answering) -> ClientFault:
    """Change the answer to this method."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        return [answer(context.request(message).get("params") or {}, message)]

    return ClientFault(outgoing=edit_replies(method, edit_message).outgoing)


def given(message: Json, **result: Json) -> Json:
    """Return the answer with this result."""
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _content(message: Json) -> str:
    result = message.get("result")
    return str(result.get("content", "")) if isinstance(result, dict) else ""


def _disk(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def _from_zero(request: dict[str, Json], message: Json) -> Json:
    if request.get("line", -1) < 0 or "limit" in request:
        return message
    return given(message, content="".join(_disk(request["path"]).splitlines(True)[request["line"] :]))


def _unlimited(request: dict[str, Json], message: Json) -> Json:
    if "line" not in request or "limit" not in request:
        return message
    return given(message, content="".join(_disk(request["path"]).splitlines(True)[request["line"] - 1 :]))


def _needs_line(request: dict[str, Json], message: Json) -> Json:
    error = {"code": -32602, "message": "line is missing"}
    is_bare = "limit" in request and "line" not in request
    return {"jsonrpc": "2.0", "id": message["id"], "error": error} if is_bare else message


def _missing_is_empty(request: dict[str, Json], message: Json) -> Json:
    path = str(request.get("path", ""))
    there = os.path.lexists(path) or not os.path.isabs(path)
    return message if there else given(message, content="")


def _resolves(request: dict[str, Json], message: Json) -> Json:
    return message if os.path.isabs(str(request.get("path", "/"))) else given(message, content="here")


def _pretends(request: dict[str, Json], message: Json) -> Json:
    """Leave the file as it was before."""
    if request.get("content") == "after" and "result" in message:
        with open(request["path"], "w", encoding="utf-8") as file:
            file.write("before")
    return message


def _makes_nothing(request: dict[str, Json], message: Json) -> Json:
    if request.get("content") == "fresh" and os.path.exists(request["path"]):
        os.unlink(request["path"])
    return message


def _reaches(matches: Callable[[str], bool]) -> Answering:
    def answer(request: dict[str, Json], message: Json) -> Json:
        path = str(request.get("path"))
        return given(message, content=_disk(path)) if matches(path) and os.path.isfile(path) else message

    return answer


def _plants(request: dict[str, Json], message: Json) -> Json:
    if request.get("content") == "planted":
        with open(request["path"], "w", encoding="utf-8") as file:
            file.write("planted")
    return message


def _folder(request: dict[str, Json], message: Json) -> Json:
    return given(message, content="a\nb\n") if os.path.isdir(str(request.get("path"))) else message


def _cut(request: dict[str, Json], message: Json) -> Json:
    text = _content(message)
    return given(message, content=text[:65536]) if len(text) > 65536 else message


def _unix(request: dict[str, Json], message: Json) -> Json:
    text = _content(message)
    return given(message, content=text.replace("\r\n", "\n")) if "\r\n" in text else message


def _no_reading(params: Json) -> None:
    params["clientCapabilities"]["fs"]["readTextFile"] = False


def _no_writing(params: Json) -> None:
    params["clientCapabilities"]["fs"]["writeTextFile"] = False


def _from_the_end(request: dict[str, Json], message: Json) -> Json:
    return given(message, content="last line") if request.get("line") == -1 else message


def _empty_is_null(request: dict[str, Json], message: Json) -> Json:
    result = message.get("result")
    return given(message, content=None) if isinstance(result, dict) and result.get("content") == "" else message


def _wrong(request: dict[str, Json], message: Json) -> Json:
    is_whole = "line" not in request and "limit" not in request
    return given(message, content="line one\n") if is_whole and _content(message).startswith("line one") else message


seed("client.files.01", _on(READ, _wrong))
seed("client.files.02", _on(READ, _from_zero))
seed("client.files.03", _on(READ, _unlimited))
seed("client.files.04", _on(READ, _needs_line))
seed("client.files.05", _on(READ, _missing_is_empty))
seed("client.files.06", _on(READ, _resolves))
seed("client.files.07", _on(WRITE, _pretends))
seed("client.files.08", _on(WRITE, _makes_nothing))
seed("client.files.09", _on(WRITE, lambda _, message: {"jsonrpc": "2.0", "id": message["id"], "result": True}))
seed("client.files.10", _on(READ, _reaches(lambda path: "dragoman-outside-" in path and ".." not in path)))
seed("client.files.11", _on(READ, _reaches(os.path.islink)))
seed("client.files.12", _on(WRITE, _plants))
seed("client.files.13", _on(READ, _unix))
seed("client.files.14", _on(READ, _folder))
seed("client.files.15", _on(READ, _cut))
seed("client.files.16", edit_params("initialize", _no_reading))
seed("client.files.17", _on(READ, _empty_is_null))
seed("client.files.19", edit_params("initialize", _no_writing))
seed("client.files.20", _on(READ, _from_the_end))
seed("client.files.18", _on(READ, _reaches(lambda path: ".." in path)))
