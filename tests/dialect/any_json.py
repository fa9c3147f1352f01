"""Any JSON at all, made of the words that dialects look for, so that rules meet every odd shape of what they read."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import strategies as st

from dragoman.errors import ProtocolError
from dragoman.schema.side import Side

METHODS = (
    "initialize", "authenticate", "session/new", "session/load", "session/resume", "session/prompt", "cancel",
    "session/cancel", "session/update", "session/request_permission", "permission_response", "session/set_mode",
    "session/set_model", "session/set_config_option", "unstable_resumeSession", "fs/read_text_file",
    "fs/write_text_file", "terminal/create", "terminal/output", "terminal/wait_for_exit", "_team/hello", "other",
)  # fmt: skip

NAMES = (
    "_meta", "dragoman", "type", "@type", "sessionUpdate", "update", "data", "text", "content", "prompt", "format",
    "mimeType", "mime_type", "uri", "name", "title", "resource", "blob", "annotations", "session_id", "sessionId",
    "cwd", "mcpServers", "mcp_servers", "url", "credentials", "command", "args", "env", "headers", "line", "mode",
    "modeId", "modelId", "models", "availableModels", "currentModelId", "configOptions", "options", "category",
    "group", "value", "form", "legacy", "id", "status", "stopReason", "stop_reason", "result", "rawInput",
    "rawOutput", "toolCall", "toolCallId", "tool_call_id", "arguments", "permission_options", "is_primary",
    "steps", "entries", "description", "priority", "protocolVersion", "protocol_version", "capabilities",
    "client_capabilities", "clientCapabilities", "agent_capabilities", "agentCapabilities", "text_files", "fs",
    "prompt_capabilities", "promptCapabilities", "mcp_capabilities", "image", "loadSession", "exit_status",
    "exitStatus", "authMethods", "token", "version", "modelKey", "streaming", "modes",
)  # fmt: skip

WORDS = (
    "", "text", "image", "audio", "resource", "resource_link", "content", "diff", "terminal", "agent_message_chunk",
    "agent_message_text", "tool_call", "tool_call_start", "tool_call_update", "plan", "plan_update", "select",
    "config_option_update", "current_model_update", "permission_request", "model", "models", "set_model", "ok",
    "cancelled", "denied", "awaiting_permission", "error", "auth_required", "end_turn", "2025.1", "stdio:///x",
    "https://x/y", "png", "jpg", "/bin/sh", "-c", "weather", "\ud800", "ls 'a b'",
)  # fmt: skip

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(WORDS)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=16,
)
objects = st.dictionaries(st.sampled_from(NAMES), values, max_size=6)
updates = st.fixed_dictionaries(
    {},
    optional={
        "sessionId": scalars,
        "session_id": scalars,
        "type": st.sampled_from(WORDS),
        "data": objects | values,
        "update": st.builds(
            lambda kind, rest: {"@type": kind, "sessionUpdate": kind, **rest}, st.sampled_from(WORDS), objects
        ),
    },
)
messages = values | objects | updates


def check_accepts_anything(spelling: Any, side: Side, method: str, value: Any) -> None:
    """All four functions take any JSON: they give JSON or refuse by name, and leave their input as it was."""
    before = deepcopy(value)
    for spell in (spelling.lift_call, spelling.lower_call, spelling.lift_result, spelling.lower_result):
        try:
            spell(side, method, value)
        except ProtocolError:
            pass
        except Exception as why:
            pytest.fail(f"{spell.__name__} raised {why!r}")
        assert value == before, f"{spell.__name__} changed its input"


def check_round_trip(spelling: Any, side: Side, method: str, params: Any) -> None:
    """A call of a peer, lifted and lowered again, is what the peer said: nothing is lost, nothing added."""
    name, lifted = spelling.lift_call(side, method, params)
    assert spelling.lower_call(side, name, lifted) == (method, params)


texts = st.text(max_size=8)
# Members that no dialect knows; a relay carries them.
unknown = st.dictionaries(
    st.sampled_from(["x-note", "zeta", "unheard_of"]), scalars | st.lists(scalars, max_size=2), max_size=2
)


def shaped(required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    """Objects of a shape, with unknown members and metadata of the peer's own."""
    meta = {"_meta": st.dictionaries(st.sampled_from(["trace", "team"]), st.integers(), min_size=1)}
    shape = st.fixed_dictionaries(required, optional={**(optional or {}), **meta})
    return st.builds(lambda extra, obj: {**extra, **obj}, unknown, shape)
