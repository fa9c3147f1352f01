"""The fake model as a server: HTTP on loopback, in a separate thread; the path selects one of four APIs.

Each agent has its own first path segment, so that what it asked can be told apart in the log. Takes requests, gives
whole answers or streams of events; stops a stream when whoever asked hangs up. Knows nothing of agents.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from interop.model import anthropic, gemini, openai
from interop.model.script import Conversation, Reply, answer
from interop.model.stream import Event

START = 10.0  # seconds for the thread to bind its port
BODY_MOST = 64 * 1024 * 1024  # agents send whole conversations, never this much


class Api(NamedTuple):
    """How the API of a provider reads a request, streams an answer, and sends it at once."""

    read: Callable[[dict[str, Any]], Conversation]
    stream: Callable[[Reply, dict[str, Any], str], Iterator[Event]]
    whole: Callable[[Reply, dict[str, Any], str], dict[str, Any]]


CHAT = Api(openai.read_chat, openai.stream_chat, openai.chat_body)
RESPONSES = Api(openai.read_responses, openai.stream_responses, openai.responses_body)
ANTHROPIC = Api(anthropic.read, anthropic.stream, anthropic.response_body)
GEMINI = Api(gemini.read, gemini.stream, gemini.response_body)

# By the end of the path: the API, and whether the path requests a stream.
ROUTES: tuple[tuple[str, Api, bool], ...] = (
    ("/chat/completions", CHAT, False),
    ("/responses", RESPONSES, False),
    ("/messages", ANTHROPIC, False),
    (":streamGenerateContent", GEMINI, True),
    (":generateContent", GEMINI, False),
)

# Fixed answers.
FIXED: tuple[tuple[str, Any], ...] = (
    ("/messages/count_tokens", anthropic.COUNTED),
    (":countTokens", gemini.COUNTED),
    ("/models", {"object": "list", "data": [{"id": "fake-model", "object": "model", "created": 0, "owned_by": "us"}]}),
)


class Model:
    """A running fake model; use it with `with`. `log` is a folder that gets a file for each agent."""

    def __init__(self, log: Path | None = None) -> None:
        self.port = 0
        self._log = log
        self._numbers = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="fake model", daemon=True)
        self._ready = threading.Event()
        self._end: asyncio.Event | None = None

    def url(self, who: str) -> str:
        """The URL of the model for this agent."""
        return f"http://127.0.0.1:{self.port}/{who}"

    def __enter__(self) -> Model:
        self._thread.start()
        if not self._ready.wait(START):
            raise RuntimeError(f"the fake model found no port on 127.0.0.1 within {START:g} s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._end is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(START)

    def _serve(self) -> None:
        self._loop.run_until_complete(self._run())
        self._loop.close()

    async def _run(self) -> None:
        self._end = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            method, path, body = await _request(reader)
            await self._answer(method, path, body, writer)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass  # no answer after a disconnect or invalid HTTP
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, raw: bytes, writer: asyncio.StreamWriter) -> None:
        _, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        who = path.lstrip("/").partition("/")[0]
        for ending, fixed in FIXED:
            if rest.endswith(ending.lstrip("/")):
                self._note(who, method, path, None, None)
                return await _send(writer, 200, fixed)
        for ending, api, streams in ROUTES:
            if rest.endswith(ending.lstrip("/")) and method == "POST":
                body = json.loads(raw)
                reply = answer(api.read(body))
                self._note(who, method, path, body, reply)
                id = f"{next(self._numbers):06d}"
                if streams or body.get("stream"):
                    return await _stream(writer, api.stream(reply, body, id))
                return await _send(writer, 200, api.whole(reply, body, id))
        self._note(who, method, path, None, None)
        return await _send(writer, 404, {"error": {"message": f"there is nothing at {path}", "type": "not_found"}})

    def _note(self, who: str, method: str, path: str, body: Any, reply: Reply | None) -> None:
        if self._log is not None:
            line = {
                "time": round(time.time(), 3),
                "request": f"{method} {path}",
                "body": body,
                "reply": str(reply)[:2000],
            }
            with (self._log / f"{who}.model.ndjson").open("a") as file:
                file.write(json.dumps(line) + "\n")


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return method, path, await _chunks(reader)
    length = int(headers.get("content-length") or 0)
    if length > BODY_MOST:
        raise ValueError("too large")
    return method, path, await reader.readexactly(length)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
        if len(body) > BODY_MOST:
            raise ValueError("too large")
    await reader.readline()
    return bytes(body)


async def _send(writer: asyncio.StreamWriter, status: int, body: Any) -> None:
    data = json.dumps(body).encode()
    reason = {200: "OK", 404: "Not Found"}[status]
    head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
    writer.write(head.encode() + b"connection: close\r\n\r\n" + data)
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, events: Iterator[Event]) -> None:
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    writer.write(head.encode() + b"connection: close\r\n\r\n")
    for event in events:
        if event.pause:
            await asyncio.sleep(event.pause)
        if writer.is_closing():
            return
        writer.write(event.encode())
        await writer.drain()
