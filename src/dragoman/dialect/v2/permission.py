"""Permission requests in v2: a title, a description and a subject, which need not be a tool call."""

from __future__ import annotations

import hashlib
from typing import Final

from dragoman.dialect.reshape import Json, Lifted, Object
from dragoman.dialect.side_data import begin_lowering
from dragoman.dialect.v2.update import lift_tool_call, lower_tool_call
from dragoman.schema.base import encode

DEFAULT_TITLE: Final = "Permission needed"

# The start of the id of a tool call that stands for a question without one.
INVENTED_ID: Final = "permission:"

_KNOWN_OUTCOMES: Final = ("selected", "cancelled")


def lift_request(params: Object) -> Object:
    """Lift a question; one without a tool call gets one that says the same."""
    lifted = Lifted(params)
    subject = lifted.take("subject", None)
    kind = subject.get("type") if isinstance(subject, dict) else None
    if kind == "tool_call" and isinstance(subject.get("toolCall"), dict):
        lifted.put("toolCall", lift_tool_call(subject["toolCall"]))
        lifted.put("subject", {name: value for name, value in subject.items() if name != "toolCall"})
        return lifted.build()
    call: Object = {"toolCallId": _invented_id(params), "kind": "other", "title": params.get("title")}
    if kind == "command":
        call = {
            "toolCallId": subject.get("toolCallId") or call["toolCallId"],
            "kind": "execute",
            "title": params.get("title"),
            "rawInput": {"command": subject.get("command"), "cwd": subject.get("cwd")},
        }
    elif isinstance(params.get("description"), str):
        text = {"type": "text", "text": params["description"]}
        call["content"] = [{"type": "content", "content": text}]
    lifted.put("toolCall", call)
    if isinstance(subject, dict):
        lifted.put("subject", subject)
    return lifted.build()


def _invented_id(params: Object) -> str:
    return INVENTED_ID + hashlib.sha256(encode(params)).hexdigest()[:12]


def lower_request(params: Object) -> Object:
    """Lower a question: its title is that of the tool call unless it has one."""
    lowered = begin_lowering(params)
    call, subject, title = lowered.take("toolCall", {}), lowered.take("subject", None), lowered.take("title", None)
    call = call if isinstance(call, dict) else {}
    if not isinstance(title, str) or not title:
        title = call.get("title") or call.get("name") or DEFAULT_TITLE
    lowered.put("title", title)
    kind = subject.get("type") if isinstance(subject, dict) else None
    if kind == "tool_call" or (kind is None and not str(call.get("toolCallId", "")).startswith(INVENTED_ID)):
        lowered.put("subject", {**(subject or {}), "type": "tool_call", "toolCall": lower_tool_call(call)})
    elif isinstance(subject, dict):
        lowered.put("subject", subject)
    return lowered.build()


def lift_answer(result: Object) -> Object:
    """Lift an answer; an outcome that nobody defines is not an approval."""
    outcome = result.get("outcome")
    if isinstance(outcome, dict) and outcome.get("outcome") not in _KNOWN_OUTCOMES:
        return {**result, "outcome": {"outcome": "cancelled"}}
    return result


def lower_answer(result: Object) -> Json:
    """Lower an answer."""
    return result
