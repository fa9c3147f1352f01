"""Faults in the terminals of a v2 agent."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed
from tests.conformance.faults.v2_edits import PROMPT, add_after, during, edit_update, text_of

TERMINAL, OUTPUT, PRINT = "terminal_update", "terminal_output_chunk", during("/terminal printf")


def _has_exit(update: Json) -> bool:
    return "exitStatus" in update


def _begins(update: Json) -> bool:
    return "command" in update


def _more(update: Json) -> Json:
    return {"sessionUpdate": OUTPUT, "terminalId": update["terminalId"], "data": ""}


def _ask_for_files(context: FaultContext, message: Json) -> Iterable[Json]:
    is_prompt = isinstance(message, dict) and message.get("method") == PROMPT
    if is_prompt and text_of(message["params"]).startswith("/read"):
        params = {"sessionId": message["params"]["sessionId"], "path": "/etc/hostname"}
        context.send({"jsonrpc": "2.0", "id": "file", "method": "fs/read_text_file", "params": params})
    return (message,)


def _ghost(update: Json) -> Json:
    items = [{**each, "terminalId": "ghost"} if each["type"] == "terminal" else each for each in update["content"]]
    return {**update, "content": items}


seed("agent.v2terminal.01", add_after(TERMINAL, {"sessionUpdate": TERMINAL, "command": "x"}, PRINT, _begins))
seed("agent.v2terminal.02", edit_update(TERMINAL, with_(cwd="work"), PRINT, _begins))
seed("agent.v2terminal.03", edit_update(OUTPUT, with_(data="#hello#"), PRINT))
seed("agent.v2terminal.04", edit_update(OUTPUT, with_(terminalId="ghost"), PRINT))
seed("agent.v2terminal.05", edit_update(TERMINAL, without("exitStatus"), PRINT))
seed("agent.v2terminal.06", edit_update(TERMINAL, with_(exitStatus={"exitCode": "0"}), PRINT, _has_exit))
seed("agent.v2terminal.07", add_after(TERMINAL, _more, PRINT, _has_exit))
seed("agent.v2terminal.08", Fault(incoming=_ask_for_files))
seed("agent.v2terminal.09", edit_update("tool_call_update", _ghost, PRINT, lambda update: bool(update.get("content"))))
seed("agent.v2terminal.10", edit_update(OUTPUT, with_(data="Ynll"), PRINT))
