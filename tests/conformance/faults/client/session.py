"""Faults in how a client opens sessions and prompts."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from tests.conformance.faults.edits import disconnect_on, edit_calls, edit_params, with_, without
from tests.conformance.faults.fault import FaultContext, Json, seed

HTTP = {"type": "http", "name": "search", "url": "https://mcp.example", "headers": []}
PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def _session_result(message: Json) -> dict[str, Json]:
    result = message.get("result") if isinstance(message, dict) else None
    return result if isinstance(result, dict) and "sessionId" in result else {}


def _odd_option(message: Json) -> bool:
    options = _session_result(message).get("configOptions") or []
    return any(each.get("type") not in ("select", "boolean") for each in options)


def _url_mode(message: Json) -> bool:
    return "://" in str((_session_result(message).get("modes") or {}).get("currentModeId", ""))


def _twice(_: FaultContext, message: Json) -> Iterable[Json]:
    return [message, {**message, "id": "second"}]


def _quoted(params: Json) -> Json:
    return {**params, "sessionId": quote(params["sessionId"])}


def _numbered(params: Json) -> Json:
    id = params["sessionId"]
    return {**params, "sessionId": int(id) if id.isdigit() else id}


seed("client.session.01", edit_params("session/new", with_(cwd=".")))
seed("client.session.02", edit_params("session/new", without("mcpServers")))
seed("client.session.03", edit_params("session/prompt", _quoted))
seed("client.session.04", edit_params("session/prompt", _numbered))
seed("client.session.05", disconnect_on(lambda message: _session_result(message).get("modes", 0) is None))
seed("client.session.06", disconnect_on(lambda message: "models" in _session_result(message)))
seed("client.session.07", disconnect_on(_odd_option))
seed("client.session.08", disconnect_on(_url_mode))
seed("client.session.09", edit_params("session/new", with_(mcpServers=[HTTP])))
seed("client.session.10", edit_params("session/new", with_(additionalDirectories=["/tmp"])))
seed("client.session.11", edit_params("session/prompt", with_(prompt="Hello")))
seed("client.session.12", edit_params("session/prompt", lambda params: params["prompt"].append(PICTURE)))
seed("client.session.13", edit_calls("session/prompt", _twice))
seed("client.session.14", edit_params("session/prompt", with_(_meta="none")))
seed("client.session.15", edit_params("session/prompt", with_(session_id="another")))
