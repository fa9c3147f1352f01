"""Clients that lend files badly."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from dragoman.conformance.client_twin import ClientFault
from dragoman.conformance.seeding import params, replies
from dragoman.conformance.twin import Json, Tape, seeded

READ, WRITE = "fs/read_text_file", "fs/write_text_file"

# What was asked and the answer; gives the answer in its place.
Answering = Callable[[dict[str, Json], Json], Json]


def _on(method: str, answer: Answering) -> ClientFault:
    """Where this method is answered, the answer is this."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        return [answer(tape.request(message).get("params") or {}, message)]

    return ClientFault(says=replies(method, whole).says)


def given(message: Json, **result: Json) -> Json:
    """The answer with this result."""
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _content(message: Json) -> str:
    result = message.get("result")
    return str(result.get("content", "")) if isinstance(result, dict) else ""


def _disk(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def _from_zero(asked: dict[str, Json], message: Json) -> Json:
    if asked.get("line", -1) < 0 or "limit" in asked:
        return message
    return given(message, content="".join(_disk(asked["path"]).splitlines(True)[asked["line"] :]))


def _unlimited(asked: dict[str, Json], message: Json) -> Json:
    if "line" not in asked or "limit" not in asked:
        return message
    return given(message, content="".join(_disk(asked["path"]).splitlines(True)[asked["line"] - 1 :]))


def _needs_line(asked: dict[str, Json], message: Json) -> Json:
    error = {"code": -32602, "message": "line is missing"}
    is_bare = "limit" in asked and "line" not in asked
    return {"jsonrpc": "2.0", "id": message["id"], "error": error} if is_bare else message


def _missing_is_empty(asked: dict[str, Json], message: Json) -> Json:
    path = str(asked.get("path", ""))
    there = os.path.lexists(path) or not os.path.isabs(path)
    return message if there else given(message, content="")


def _resolves(asked: dict[str, Json], message: Json) -> Json:
    return message if os.path.isabs(str(asked.get("path", "/"))) else given(message, content="here")


def _pretends(asked: dict[str, Json], message: Json) -> Json:
    """The file is as it was before."""
    if asked.get("content") == "after" and "result" in message:
        with open(asked["path"], "w", encoding="utf-8") as file:
            file.write("before")
    return message


def _makes_nothing(asked: dict[str, Json], message: Json) -> Json:
    if asked.get("content") == "fresh" and os.path.exists(asked["path"]):
        os.unlink(asked["path"])
    return message


def _reaches(meant: Callable[[str], bool]) -> Answering:
    def answer(asked: dict[str, Json], message: Json) -> Json:
        path = str(asked.get("path"))
        return given(message, content=_disk(path)) if meant(path) and os.path.isfile(path) else message

    return answer


def _plants(asked: dict[str, Json], message: Json) -> Json:
    if asked.get("content") == "planted":
        with open(asked["path"], "w", encoding="utf-8") as file:
            file.write("planted")
    return message


def _folder(asked: dict[str, Json], message: Json) -> Json:
    return given(message, content="a\nb\n") if os.path.isdir(str(asked.get("path"))) else message


def _cut(asked: dict[str, Json], message: Json) -> Json:
    text = _content(message)
    return given(message, content=text[:65536]) if len(text) > 65536 else message


def _unix(asked: dict[str, Json], message: Json) -> Json:
    text = _content(message)
    return given(message, content=text.replace("\r\n", "\n")) if "\r\n" in text else message


def _no_reading(told: Json) -> None:
    told["clientCapabilities"]["fs"]["readTextFile"] = False


def _no_writing(told: Json) -> None:
    told["clientCapabilities"]["fs"]["writeTextFile"] = False


def _from_the_end(asked: dict[str, Json], message: Json) -> Json:
    return given(message, content="last line") if asked.get("line") == -1 else message


def _empty_is_null(asked: dict[str, Json], message: Json) -> Json:
    result = message.get("result")
    return given(message, content=None) if isinstance(result, dict) and result.get("content") == "" else message


def _wrong(asked: dict[str, Json], message: Json) -> Json:
    whole = "line" not in asked and "limit" not in asked
    return given(message, content="line one\n") if whole and _content(message).startswith("line one") else message


seeded("client.files.01", _on(READ, _wrong))
seeded("client.files.02", _on(READ, _from_zero))
seeded("client.files.03", _on(READ, _unlimited))
seeded("client.files.04", _on(READ, _needs_line))
seeded("client.files.05", _on(READ, _missing_is_empty))
seeded("client.files.06", _on(READ, _resolves))
seeded("client.files.07", _on(WRITE, _pretends))
seeded("client.files.08", _on(WRITE, _makes_nothing))
seeded("client.files.09", _on(WRITE, lambda _, message: {"jsonrpc": "2.0", "id": message["id"], "result": True}))
seeded("client.files.10", _on(READ, _reaches(lambda path: "dragoman-outside-" in path and ".." not in path)))
seeded("client.files.11", _on(READ, _reaches(os.path.islink)))
seeded("client.files.12", _on(WRITE, _plants))
seeded("client.files.13", _on(READ, _unix))
seeded("client.files.14", _on(READ, _folder))
seeded("client.files.15", _on(READ, _cut))
seeded("client.files.16", params("initialize", _no_reading))
seeded("client.files.17", _on(READ, _empty_is_null))
seeded("client.files.19", params("initialize", _no_writing))
seeded("client.files.20", _on(READ, _from_the_end))
seeded("client.files.18", _on(READ, _reaches(lambda path: ".." in path)))
