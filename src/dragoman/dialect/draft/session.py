"""The draft's calls and results for authentication, session setup, prompts, modes and options.

Takes and gives one JSON object each. The emulator adds what needs memory (creation times, previous values, message
counts) as side data before lowering.
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import quote

from dragoman.dialect.blocks import lift_server, lower_server
from dragoman.dialect.draft.content import lift_block, lower_block
from dragoman.dialect.draft.tables import NEAREST_STOP_REASONS
from dragoman.dialect.guesses import last_segment
from dragoman.dialect.mapping import ObjectMapping, apply_to_list, apply_to_object
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Object, json_side_data
from dragoman.dialect.side_data import begin_lowering
from dragoman.errors import Kind, ProtocolError

AUTHENTICATE: Final = ObjectMapping(
    renames={"method": "methodId"}, side_data=("credentials",), defaults={"credentials": {}}
)
AUTHENTICATE_RESULT: Final = ObjectMapping(side_data=("expiresAt", "error"), defaults={"success": True})
NEW: Final = ObjectMapping(
    renames={"workingDirectory": "cwd"},
    side_data=("initialMode", "configOptions"),
    inferred={"mcpServers": []},
    unsupported=("additionalDirectories",),
)
NEW_RESULT: Final = ObjectMapping(side_data=("createdAt",), unsupported=("modes", "configOptions"))
LOAD: Final = ObjectMapping(
    inferred={"cwd": "", "mcpServers": []},
    unsupported=("cwd", "mcpServers", "additionalDirectories", "systemPrompt"),
)
LOAD_RESULT: Final = ObjectMapping(
    side_data=("sessionId", "workingDirectory", "mode", "configOptions", "messageCount"),
    unsupported=("modes", "configOptions"),
)
CANCEL: Final = ObjectMapping(side_data=("reason",))
SET_MODE: Final = ObjectMapping(renames={"mode": "modeId"})
SET_MODE_RESULT: Final = ObjectMapping(side_data=("previousMode", "currentMode"))
SET_OPTION: Final = ObjectMapping(renames={"key": "configId"})
SET_OPTION_RESULT: Final = ObjectMapping(
    side_data=("key", "previousValue", "currentValue"), inferred={"configOptions": []}, unsupported=("configOptions",)
)
USAGE: Final = ObjectMapping(
    inferred={"totalTokens": 0},
    unsupported=("totalTokens", "thoughtTokens", "cachedReadTokens", "cachedWriteTokens"),
)


def lift_authenticate_result(result: Object) -> Object:
    """Lift the result of `authenticate`; the draft returns a failure as a result, other dialects as an error."""
    if result.get("success") is False:
        error = result.get("error")
        raise ProtocolError(Kind.AUTH_REQUIRED, error if isinstance(error, str) else "")
    lifted = AUTHENTICATE_RESULT.begin_lifting(result)
    if lifted.rest.get("success") is True:
        lifted.take("success")
    return lifted.build()


def lift_new(params: Object) -> Object:
    """Lift session/new, with MCP servers and system prompt in v1's form."""
    lifted = NEW.begin_lifting(params)
    if "mcpServers" in lifted.rest:
        lifted.put("mcpServers", apply_to_list(lift_server, lifted.take("mcpServers")))
    prompt = lifted.take("systemPrompt")
    if isinstance(prompt, str):
        prompt = {"mode": "append", "content": [{"type": "text", "text": prompt}]}
    lifted.put("systemPrompt", prompt)
    return lifted.build()


def lower_new(params: Object) -> Object:
    """Lower session/new."""
    lowered = NEW.begin_lowering(params)
    lowered.put("mcpServers", apply_to_list(lower_server, lowered.take("mcpServers")))
    prompt = lowered.take("systemPrompt")
    text = _system_prompt_text(prompt)
    lowered.put("systemPrompt", text)
    if prompt is not ABSENT and (text is ABSENT or len(prompt["content"]) != 1 or len(prompt) != 2):
        lowered.side_data["systemPrompt"] = prompt
    return lowered.build(NEW.unsupported)


def _system_prompt_text(prompt: Json) -> Json:
    """Return the text of a system prompt that is appended to the agent's own; the draft cannot replace that."""
    if not isinstance(prompt, dict) or prompt.get("mode") != "append":
        return ABSENT
    blocks = prompt.get("content")
    if not isinstance(blocks, list) or not blocks:
        return ABSENT
    texts: list[Json] = [block.get("text") if isinstance(block, dict) else None for block in blocks]
    return "\n".join(texts) if all(isinstance(text, str) for text in texts) else ABSENT


def lift_prompt(params: Object) -> Object:
    """Lift a prompt; attachments become blocks at its end."""
    lifted = Lifted(params)
    blocks = apply_to_list(lift_block, lifted.take("content"))
    attached = lifted.rest.get("attachments")
    if isinstance(attached, list) and isinstance(blocks, list):
        made = [_lift_attachment(item, number) for number, item in enumerate(attached, 1)]
        if all(block is not None for block in made):
            lifted.take("attachments")
            blocks = blocks + made
            if not made:
                lifted.side_data["attachments"] = []
    lifted.put("prompt", blocks)
    return lifted.build()


def lower_prompt(params: Object) -> Object:
    """Lower a prompt; blocks that came as attachments become attachments again."""
    lowered = begin_lowering(params)
    lowered.move_from_side_data(("attachments",))
    blocks = lowered.take("prompt")
    if isinstance(blocks, list):
        attached = [json_side_data(block)["attachment"] for block in blocks if "attachment" in json_side_data(block)]
        if attached:
            lowered.put("attachments", attached)
            blocks = [block for block in blocks if "attachment" not in json_side_data(block)]
    lowered.put("content", apply_to_list(lower_block, blocks))
    return lowered.build()


def _lift_attachment(item: Json, number: int) -> Object | None:
    """Return the block for an attachment `{name?, path | uri | data, mimeType?}`
    (docs/protocol/extensions.md#attachments).
    """
    if not isinstance(item, dict):
        return None
    name, path, uri, data = (item.get(key) for key in ("name", "path", "uri", "data"))
    block = Lifted({})
    block.side_data["attachment"] = item
    if isinstance(path, str):
        uri = _file_uri(path)
    if isinstance(uri, str):
        block.put("type", "resource_link")
        block.put("uri", uri)
        if isinstance(name, str):
            block.put("name", name)
        else:
            block.infer("name", last_segment(uri))
        block.put("mimeType", item.get("mimeType", ABSENT))
        return block.build()
    if not isinstance(data, str):
        return None
    inner = {"uri": f"attachment:{_quote(name) if isinstance(name, str) else number}", "blob": data}
    if "mimeType" in item:
        inner["mimeType"] = item["mimeType"]
    block.put("type", "resource")
    block.put("resource", inner)
    return block.build()


def _file_uri(path: str) -> str:
    # A relative path stays relative: only the emulator knows its folder.
    return f"file://{_quote(path)}" if path.startswith("/") else f"file:{_quote(path)}"


def _quote(text: str) -> str:
    return quote(text, errors="replace")


def lift_prompt_result(result: Object) -> Object:
    """Lift the end of a turn."""
    lifted = Lifted(result)
    lifted.put("usage", apply_to_object(_lift_usage, lifted.take("usage")))
    return lifted.build()


def _lift_usage(usage: Object) -> Object:
    lifted = Lifted(usage)
    counts = [usage.get("inputTokens"), usage.get("outputTokens")]
    if "totalTokens" not in usage and all(type(count) is int for count in counts):
        lifted.infer("totalTokens", sum(count for count in counts if type(count) is int))
    return lifted.build()


def lower_prompt_result(result: Object) -> Object:
    """Lower the end of a turn; a stop reason that the draft lacks becomes the nearest one."""
    lowered = begin_lowering(result)
    usage = lowered.take("usage")
    lowered.put("usage", ABSENT if usage is None else apply_to_object(USAGE.lower, usage))  # codex sends null
    reason = lowered.take("stopReason")
    if reason == "auth_required":
        raise ProtocolError(Kind.AUTH_REQUIRED, f"the agent ended the turn with {reason!r}", {"stopReason": reason})
    said = NEAREST_STOP_REASONS.get(reason) if isinstance(reason, str) else None
    if said:
        lowered.side_data["stopReason"] = reason
    lowered.put("stopReason", said or reason)
    return lowered.build()


def lift_set_option(params: Object) -> Object:
    """Lift an option value; v1 has strings and booleans, the draft any JSON value."""
    lifted = SET_OPTION.begin_lifting(params)
    value = lifted.take("value")
    if isinstance(value, bool):
        lifted.put("type", "boolean")
    elif value is not ABSENT and not isinstance(value, str):
        lifted.side_data["value"] = value
        value = _compact_json(value)
    lifted.put("value", value)
    return lifted.build()


def lower_set_option(params: Object) -> Object:
    """Lower an option value to the JSON value it was or is."""
    lowered = SET_OPTION.begin_lowering(params)
    value = lowered.take("value")
    if isinstance(value, bool) and lowered.rest.get("type") == "boolean":
        lowered.take("type")
    lowered.put("value", lowered.take_side_data("value", value))
    return lowered.build(("type",))


def _compact_json(value: Json) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError) as error:
        raise ProtocolError(Kind.INVALID_PARAMS, f"the value of the option cannot be sent: {error}") from None
