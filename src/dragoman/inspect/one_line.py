"""One-line summaries of messages, for timelines, trees and the page.

The result is untrusted text of a peer: escape it before printing. Unlisted methods show their first scalar members.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dragoman.wire.envelope import WireError

# The updates with a piece of text; where a peer splits its text is random.
CHUNK_UPDATES = frozenset({"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"})

# Characters of a summary.
MAX_LENGTH = 240

_SPACES = re.compile(r"\s+")
_SCALARS = (str, int, float, bool)


def message_line(method: str, values: Any, is_result: bool = False) -> str:
    """Summarize a call or a result in one line."""
    if not isinstance(values, dict):
        return shorten(str(values)) if values not in (None, {}) else ""
    render = (_RESULTS if is_result else _CALLS).get(method, _scalar_members)
    return shorten(render(values))


def error_line(error: WireError) -> str:
    """Summarize an error in one line."""
    return shorten(f"{error.code} {error.message}")


def stop_reason_of(method: str, result: Any) -> str:
    """Return the stop reason of a prompt result, else an empty string."""
    if method != "session/prompt" or not isinstance(result, dict):
        return ""
    return str(result.get("stopReason", ""))


def trace_context_of(params: Any) -> tuple[str, str]:
    """Return the W3C trace context in `_meta`: traceparent and tracestate."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict):
        return "", ""
    parent, state = meta.get("traceparent"), meta.get("tracestate")
    return parent if isinstance(parent, str) else "", state if isinstance(state, str) else ""


def shorten(text: str) -> str:
    """Collapse white space and cut the text to the maximum length."""
    text = _SPACES.sub(" ", text)  # keep one at either end: chunks are joined later
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"


def content_text(content: Any) -> str:
    """Return the text of a content block, or its type."""
    if isinstance(content, list):
        return " ".join(content_text(each) for each in content)
    if not isinstance(content, dict):
        return content if isinstance(content, str) else ""
    kind = content.get("type")
    if kind == "text":
        return str(content.get("text", ""))
    if kind == "content":
        return content_text(content.get("content"))
    if kind == "diff":
        return f"[diff {content.get('path', '')}]"
    if kind in ("terminal", "agent_terminal"):
        return f"[terminal {content.get('terminalId', '')}]"
    if kind == "patch":
        changes = [f"{each.get('operation', '')} {each.get('path', '')}" for each in _objects(content.get("changes"))]
        return f"[patch {', '.join(changes)}]"
    inner = content.get("resource")
    uri = content.get("uri") or (inner.get("uri") if isinstance(inner, dict) else "")
    return f"[{kind} {uri or content.get('mimeType', '')}]"


def _objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; peers may send anything."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _update(params: dict[str, Any]) -> str:
    update = params.get("update")
    if not isinstance(update, dict):
        return ""
    return _UPDATES.get(str(update.get("sessionUpdate")), _scalar_members)(update)


def _tool_call(update: dict[str, Any]) -> str:
    parts = [update.get("title") or update.get("toolCallId"), update.get("kind"), update.get("status")]
    text = " · ".join(str(part) for part in parts if part)
    content = content_text(update.get("content") or [])
    return f"{text} · {content}" if content else text


def _terminal(update: dict[str, Any]) -> str:
    """Return the members of a terminal, and how its command ended."""
    ended = update.get("exitStatus")
    text = _scalar_members(update)
    return f"{text} {_scalar_members(ended)}" if isinstance(ended, dict) else text


def _message(update: dict[str, Any]) -> str:
    """Return the text of a whole message, or that it is empty."""
    return content_text(update.get("content")) or "(empty)"


def _plan(update: dict[str, Any]) -> str:
    entries = _objects(update.get("entries"))
    done = sum(each.get("status") == "completed" for each in entries)
    return f"{done}/{len(entries)} " + "; ".join(str(each.get("content", "")) for each in entries)


def _initialize(params: dict[str, Any]) -> str:
    info = params.get("clientInfo") or params.get("agentInfo")
    info = info if isinstance(info, dict) else {}
    return f"version {params.get('protocolVersion')} {info.get('name', '')} {info.get('version', '')}"


def _permission(params: dict[str, Any]) -> str:
    call = params.get("toolCall")
    title = _tool_call(call) if isinstance(call, dict) else ""
    names = [str(each.get("optionId")) for each in _objects(params.get("options"))]
    return f"{title} [{' | '.join(names)}]"


def _permission_outcome(result: dict[str, Any]) -> str:
    outcome = result.get("outcome")
    if not isinstance(outcome, dict):
        return ""
    return str(outcome.get("optionId") or outcome.get("outcome", ""))


def _command(params: dict[str, Any]) -> str:
    args = params.get("args")
    return " ".join([str(params.get("command", "")), *(map(str, args) if isinstance(args, list) else ())])


def _content_size(result: dict[str, Any]) -> str:
    content = result.get("content")
    return f"{len(content)} characters" if isinstance(content, str) else _scalar_members(result)


def _scalar_members(values: dict[str, Any]) -> str:
    """Return the first scalar members, without the common ids."""
    skipped = ("sessionId", "sessionUpdate", "_meta")
    plain = [f"{name}={value}" for name, value in values.items() if isinstance(value, _SCALARS) and name not in skipped]
    return " ".join(plain[:6])


Render = Callable[[dict[str, Any]], str]

_CALLS: dict[str, Render] = {
    "initialize": _initialize,
    "session/new": lambda params: str(params.get("cwd", "")),
    "session/prompt": lambda params: content_text(params.get("prompt") or []),
    "session/update": _update,
    "session/request_permission": _permission,
    "fs/read_text_file": lambda params: str(params.get("path", "")),
    "fs/write_text_file": lambda params: f"{params.get('path', '')} ({len(str(params.get('content', '')))} characters)",
    "terminal/create": _command,
}

_RESULTS: dict[str, Render] = {
    "initialize": _initialize,
    "session/new": lambda result: str(result.get("sessionId", "")),
    "session/prompt": lambda result: str(result.get("stopReason", "")),
    "session/request_permission": _permission_outcome,
    "fs/read_text_file": _content_size,
}

_UPDATES: dict[str, Render] = {
    **dict.fromkeys(CHUNK_UPDATES, lambda update: content_text(update.get("content"))),
    "tool_call": _tool_call,
    "tool_call_update": _tool_call,
    "terminal_update": _terminal,
    **dict.fromkeys(("user_message", "agent_message", "agent_thought"), _message),
    "plan": _plan,
    "available_commands_update": lambda update: " ".join(
        f"/{each.get('name', '')}" for each in _objects(update.get("availableCommands"))
    ),
    "current_mode_update": lambda update: str(update.get("currentModeId", "")),
    "session_info_update": lambda update: str(update.get("title", "")),
}
