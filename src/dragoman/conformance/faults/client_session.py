"""Faults in how a client asks for sessions and prompts."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from dragoman.conformance.client_seeding import dies
from dragoman.conformance.seeding import calls, params, with_, without
from dragoman.conformance.twin import Json, Tape, seeded

HTTP = {"type": "http", "name": "search", "url": "https://mcp.example", "headers": []}
PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def _opened(message: Json) -> dict[str, Json]:
    result = message.get("result") if isinstance(message, dict) else None
    return result if isinstance(result, dict) and "sessionId" in result else {}


def _odd_option(message: Json) -> bool:
    options = _opened(message).get("configOptions") or []
    return any(each.get("type") not in ("select", "boolean") for each in options)


def _url_mode(message: Json) -> bool:
    return "://" in str((_opened(message).get("modes") or {}).get("currentModeId", ""))


def _twice(_: Tape, message: Json) -> Iterable[Json]:
    return [message, {**message, "id": "second"}]


def _quoted(told: Json) -> Json:
    return {**told, "sessionId": quote(told["sessionId"])}


def _numbered(told: Json) -> Json:
    id = told["sessionId"]
    return {**told, "sessionId": int(id) if id.isdigit() else id}


seeded("client.session.01", params("session/new", with_(cwd=".")))
seeded("client.session.02", params("session/new", without("mcpServers")))
seeded("client.session.03", params("session/prompt", _quoted))
seeded("client.session.04", params("session/prompt", _numbered))
seeded("client.session.05", dies(lambda message: _opened(message).get("modes", 0) is None))
seeded("client.session.06", dies(lambda message: "models" in _opened(message)))
seeded("client.session.07", dies(_odd_option))
seeded("client.session.08", dies(_url_mode))
seeded("client.session.09", params("session/new", with_(mcpServers=[HTTP])))
seeded("client.session.10", params("session/new", with_(additionalDirectories=["/tmp"])))
seeded("client.session.11", params("session/prompt", with_(prompt="Hello")))
seeded("client.session.12", params("session/prompt", lambda told: told["prompt"].append(PICTURE)))
seeded("client.session.13", calls("session/prompt", _twice))
seeded("client.session.14", params("session/prompt", with_(_meta="none")))
seeded("client.session.15", params("session/prompt", with_(session_id="another")))
