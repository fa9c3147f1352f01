"""Faults in an agent's lines. What only a reader of bytes would do wrong is recognized by the probe's id."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import edit_all_incoming, edit_all_outgoing
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed


def ignore_ids(id: str) -> Fault:
    """Lose requests whose id begins so."""

    def edit_message(_: FaultContext, message: Json) -> Iterable[Json]:
        if not str(message.get("id", "")).startswith(id):
            yield message

    return edit_all_incoming(edit_message)


def _write_log_line(context: FaultContext, message: Json) -> Iterable[Json]:
    if context.method(message) == "session/new":
        yield b"agent: opening a session"
    yield message


def _ignore_large(_: FaultContext, message: Json) -> Iterable[Json]:
    if len(str(message.get("params"))) < 900_000:
        yield message


def _disconnect_on_nesting(context: FaultContext, message: Json) -> Iterable[Json]:
    """The probe's nesting is too deep for the reader here as well, so it comes as bytes."""
    if isinstance(message, bytes) and b"[[[[" in message:
        context.disconnect()
    else:
        yield message


def _disconnect_on_invalid_utf8(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, bytes) and b"\xff" in message:
        context.disconnect()
    else:
        yield message


def _latin(_: FaultContext, message: Json) -> Iterable[Json]:
    text = str(message)
    yield b'{"jsonrpc":"2.0","method":"_agent/log","params":{"text":"Dragom\xe1n"}}' if "Dragomán" in text else message


def _stop_answering_after_flood(context: FaultContext, message: Json) -> Iterable[Json]:
    context.notes["said"] = context.notes.get("said", 0) + 1
    if "method" in message or context.notes["said"] < 1000:
        yield message


seed("agent.frame.01", edit_all_outgoing(_write_log_line))
seed("agent.frame.02", ignore_ids("in pieces"))
seed("agent.frame.03", ignore_ids("together 2"))
seed("agent.frame.04", ignore_ids("with CR"))
seed("agent.frame.05", ignore_ids("after empty"))
seed("agent.frame.06", edit_all_incoming(_ignore_large))
seed("agent.frame.07", Fault(incoming=_disconnect_on_nesting))
seed("agent.frame.08", Fault(incoming=_disconnect_on_invalid_utf8))
seed("agent.frame.09", ignore_ids("912"))
seed("agent.frame.10", edit_all_outgoing(_latin))
seed("agent.frame.11", Fault(ignores_eof=lambda context: not context.is_running()))
seed("agent.frame.12", Fault(ignores_eof=lambda context: context.is_running()))
seed("agent.frame.13", Fault(greeting=b'{"jsonrpc":"2.0","method":"_agent/ready","params":{}}'))
seed("agent.frame.14", edit_all_outgoing(_stop_answering_after_flood))
seed("agent.frame.15", ignore_ids("trickle"))
