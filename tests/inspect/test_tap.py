"""A tap reports the frames of a client: as a recording, and as OpenTelemetry spans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman import connect
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.otel import Spans
from dragoman.inspect.reader import RecordingReader
from dragoman.transport.recording.tap import trace_to
from tests.inspect.conversation import DRAGOMAN, TALK, TIMEOUT, call, inspect

EVERYTHING = [*DRAGOMAN, "agent", "everything"]


async def test_a_client_records_what_it_sends_and_receives(tmp_path: Path) -> None:
    path = tmp_path / "trace"

    with trace_to(str(path), EVERYTHING, print) as tap:
        async with connect(EVERYTHING, trace=tap) as agent:
            session = await agent.open_session(str(tmp_path))
            await session.ask("/echo hello")
    reader, observer = RecordingReader(), Analyzer()
    events = [observer.analyze_line(each) for each in reader.read(path.read_bytes().splitlines(keepends=True))]
    assert [event.method for event in events][:4] == ["initialize", "initialize", "session/new", "session/new"]
    assert [(turn.prompt, turn.stop_reason) for turn in observer.turns] == [("/echo hello", "end_turn")]
    assert observer.pending == {}
    assert [str(fault) for event in events for fault in event.faults] == []
    assert reader.ending is not None


async def test_trace_takes_the_name_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "talk.ndjson"
    async with connect(EVERYTHING, trace=path) as agent:
        await (await agent.open_session(str(tmp_path))).ask("/echo hello")
    assert inspect("validate", path).returncode == 0
    assert b"session/prompt" in inspect("show", path).stdout
    with pytest.warns(UserWarning, match=r"talk\.ndjson exists; recording to .*talk-2\.ndjson"):
        async with connect(EVERYTHING, trace=str(path)):
            pass
    assert (tmp_path / "talk-2.ndjson").exists()


async def test_a_trace_tells_why_the_client_ended(tmp_path: Path) -> None:
    path, reader = tmp_path / "talk.ndjson", RecordingReader()
    with pytest.raises(KeyError):
        async with connect(EVERYTHING, trace=path):
            raise KeyError("a mistake of the program")
    list(reader.read(path.read_bytes().splitlines(keepends=True)))
    assert reader.ending is not None
    assert reader.ending.reason == "the client ended: KeyError"


def test_run_records_with_trace(tmp_path: Path) -> None:
    import subprocess

    path = tmp_path / "trace"
    command = [*DRAGOMAN, "run", "--prompt", "/echo hi", "--trace", str(path), "--", *EVERYTHING]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert inspect("validate", path).returncode == 0
    assert b"session/prompt" in inspect("show", path).stdout


def spans(*talk: tuple[str, Any]) -> list[Any]:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    import json

    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    taker = Spans(provider)
    for way, message in talk:
        taker(way, json.dumps(message).encode())
    taker.close()
    return list(exporter.get_finished_spans())


def test_requests_and_turns_become_spans() -> None:
    found = {span.name: span for span in spans(*TALK)}
    assert list(found) == ["initialize", "session/new", "fs/read_text_file", "acp turn"]
    turn, file = found["acp turn"], found["fs/read_text_file"]
    assert turn.attributes["acp.stop_reason"] == "end_turn"
    assert turn.attributes["acp.turn.tool_calls"] == 1
    assert file.parent.span_id == turn.context.span_id
    assert file.attributes["acp.tool_call.id"] == "t1"


def test_a_span_continues_the_trace_of_the_message() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    params = {"protocolVersion": 1, "clientCapabilities": {}, "_meta": {"traceparent": parent}}
    (span,) = spans(("c2a", call(0, "initialize", params)), TALK[1])
    assert f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"


def test_failed_and_unanswered_requests_are_error_spans() -> None:
    error = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32603, "message": "broken"}}
    found = spans(TALK[0], ("a2c", error), TALK[2])
    assert [(span.name, span.status.description) for span in found] == [
        ("initialize", "-32603 broken"),
        ("session/new", "never answered"),
    ]
