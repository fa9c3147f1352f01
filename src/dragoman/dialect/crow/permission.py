"""Crow permission requests: an update `permission_request`, answered by `permission_response`
(docs/protocol/extensions.md#crow-permission).

Converts the update to v1's request and back, and renames the answer. The emulator matches answers to requests.
"""

from __future__ import annotations

import json

from dragoman.dialect.crow.tables import OPTION_NAMES, RESPONSE_NAMES, TOOL_NAMES
from dragoman.dialect.crow.update import move_to_side_data
from dragoman.dialect.guesses import guess_option_kind, lower_status
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Lowered, Object
from dragoman.dialect.side_data import begin_lowering
from dragoman.errors import Kind, ProtocolError

REQUEST_TYPE = "permission_request"


def is_request(params: Object) -> bool:
    """Return whether these params of session/update are a permission request."""
    update = params.get("update")
    return type(update) is dict and update.get("@type") == REQUEST_TYPE


def lift_request(params: Object) -> Object:
    """session/update with a permission_request -> session/request_permission."""
    lifted = Lifted(params)
    call = Lifted(lifted.take("update"))
    call.take("@type")
    call.rename({**TOOL_NAMES, "title": "title", "arguments": "rawInput"})
    options = call.take("permission_options")
    lifted.put("toolCall", call.build())
    lifted.put("options", [_lift_option(each) for each in options] if isinstance(options, list) else options)
    return lifted.build()


def lower_request(params: Object) -> Object:
    """session/request_permission -> session/update with a permission_request."""
    lowered = begin_lowering(params)
    call = begin_lowering(lowered.take("toolCall"))
    call.put("@type", REQUEST_TYPE)
    call.rename(TOOL_NAMES)
    title = call.take("title")
    call.put("title", call.take("name") if title is ABSENT or title is None else title)
    call.put("arguments", _arguments_text(call))
    options = lowered.take("options")
    call.put("permission_options", [_lower_option(o) for o in options] if isinstance(options, list) else options)
    lower_status(call)
    if "status" in call.out:
        # A request has no status; the given one stays in the side data.
        call.side_data.setdefault("status", call.out.pop("status"))
    move_to_side_data(call, ("name", "kind", "content", "locations", "rawOutput"))
    lowered.put("update", call.build())
    return lowered.build()


def lift_response(params: Object) -> Object:
    """Lift permission_response; some clients send `id` for `option_id`."""
    lifted = Lifted(params)
    lifted.rename(RESPONSE_NAMES)
    if "optionId" not in lifted.out and "optionId" not in lifted.rest:
        lifted.rename({"id": "optionId"})
    return lifted.build()


def lower_response(params: Object) -> Object:
    """Lower permission_response to the form of docs/protocol/extensions.md#crow-permission."""
    lowered = begin_lowering(params)
    lowered.rename(RESPONSE_NAMES)
    return lowered.build()


def _lift_option(option: Json) -> Json:
    if not isinstance(option, dict):
        return option
    lifted = Lifted(option)
    lifted.rename(OPTION_NAMES)
    if "kind" not in option:
        identity, name = lifted.out.get("optionId", ""), lifted.out.get("name", "")
        lifted.infer("kind", guess_option_kind(*(word if isinstance(word, str) else "" for word in (identity, name))))
    lifted.move_to_side_data({"is_primary": "primary"})
    return lifted.build()


def _lower_option(option: Json) -> Json:
    if not isinstance(option, dict):
        return option
    lowered = Lowered(option)
    lowered.rename(OPTION_NAMES)
    lowered.move_from_side_data({"is_primary": "primary"})
    return lowered.build(("kind",))


def _arguments_text(call: Lowered) -> str:
    """Return one text that describes the tool call; the input stays in the side data unless it is that text."""
    given = call.take("rawInput", _first_path(call))
    if isinstance(given, str):
        return given
    call.side_data["rawInput"] = given
    command = given.get("command") if isinstance(given, dict) else None
    if isinstance(command, str):
        return command
    try:
        return json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError) as why:
        raise ProtocolError(Kind.INVALID_PARAMS, f"rawInput cannot be written as text: {why}") from why


def _first_path(call: Lowered) -> str:
    """Return the first path of a call without input: users should see which file they allow to change."""
    places = call.rest.get("locations")
    first = places[0] if isinstance(places, list) and places else None
    path = first.get("path") if isinstance(first, dict) else None
    return path if isinstance(path, str) else ""
