"""initialize in v2: `info` and `capabilities` on both sides, objects instead of booleans."""

from __future__ import annotations

from typing import Final

from dragoman.dialect.reshape import ABSENT, Json, Lifted, Lowered, Object, json_side_data
from dragoman.dialect.side_data import begin_lowering
from dragoman.dialect.v1.models import check_version_range
from dragoman.dialect.v2.tables import VERSION
from dragoman.errors import Kind, ProtocolError

_UNKNOWN_PROGRAM: Final = {"name": "unknown", "version": "unknown"}

# What v1 clients have to announce and every v2 client can show.
_BASELINE: Final[Object] = {
    "session": {"compaction": {}, "configOptions": {"boolean": {}}, "notices": {}},
    "plan": {},
    "subagents": {},
}

# Session capabilities with the same name and form in both versions.
_SAME_SESSION: Final = ("delete", "additionalDirectories", "fork", "archive", "status", "title", "systemPrompt")
_PROMPT_KINDS: Final = ("image", "audio", "embeddedContext")

# Calls that every v2 agent with sessions serves.
_ALWAYS_SERVED: Final = ("list", "resume", "close")

# Side data of an agent's capabilities: which of v2's own capabilities are missing, so that calls can be refused.
NO_SESSIONS: Final = "noSessions"
NO_STDIO: Final = "noStdio"


def lift_initialize(params: Object) -> Object:
    """Lift a v2 client's initialize; the v1 members of a client that offers both are ignored."""
    _check_version(params)
    lifted = Lifted(params)
    for name in ("clientInfo", "clientCapabilities"):
        lifted.take(name)
    lifted.put("clientInfo", lifted.take("info"))
    tree = lifted.take("capabilities", {})
    lifted.put("clientCapabilities", _lift_client(tree) if isinstance(tree, dict) else tree)
    return lifted.build()


def _check_version(params: Object) -> None:
    """Raise for a version below v2, and for a v2 client without a name; one of a later version may lack it."""
    version = params.get("protocolVersion")
    if isinstance(version, bool) or not isinstance(version, int):
        return  # reported with the other members
    check_version_range(version)
    if version < VERSION:
        raise ProtocolError(
            Kind.UNSUPPORTED_VERSION,
            f"version {version} is not supported; use {VERSION}",
            {"requested": version, "supported": [VERSION]},
        )
    if version == VERSION and not isinstance(params.get("info"), dict):
        raise ProtocolError(
            Kind.INVALID_PARAMS,
            "info is missing; send the name and version of the client",
            {"errors": [{"path": "info", "message": "is missing"}]},
        )


def lower_initialize(params: Object) -> Object:
    """Lower a client's initialize; with v1's members too, for an agent that answers in v1."""
    lowered = begin_lowering(params)
    info, tree = lowered.take("clientInfo"), lowered.take("clientCapabilities")
    lowered.out["protocolVersion"] = VERSION
    lowered.rest.pop("protocolVersion", None)
    lowered.put("info", info if isinstance(info, dict) else dict(_UNKNOWN_PROGRAM))
    lowered.put("capabilities", _lower_client(tree) if isinstance(tree, dict) else {})
    lowered.put("clientInfo", info)
    lowered.put("clientCapabilities", tree)
    return lowered.build()


def _lift_client(tree: Object) -> Object:
    lifted = Lifted(tree)
    lifted.side_data.update(json_side_data(tree))
    auth = lifted.take("auth")
    if isinstance(auth, dict):
        lifted.put("auth", {**auth, "terminal": _is_there(auth.get("terminal"))})
    for name, value in _BASELINE.items():
        lifted.out[name] = value
    lifted.inferred.extend(_BASELINE)
    return lifted.build()


def _lower_client(tree: Object) -> Object:
    lowered = Lowered(tree)
    for name in (*_BASELINE, "fs", "terminal"):
        lowered.take(name)
        lowered.take_side_data(name, None)
    auth = lowered.take("auth")
    if isinstance(auth, dict):
        rest = {name: value for name, value in auth.items() if name != "terminal"}
        lowered.put("auth", {**rest, "terminal": {}} if auth.get("terminal") else rest)
    return _without_nulls(lowered.build())


def is_v1_result(result: Object) -> bool:
    """Return whether an agent answered in v1, whatever version it says."""
    v1_names = ("agentInfo", "agentCapabilities", "agent_info", "agent_capabilities")
    return "info" not in result and ("capabilities" not in result or any(name in result for name in v1_names))


def lift_initialize_result(result: Object) -> Object:
    """Lift an agent's answer; one in the form of v1 is left as it is, with version 1."""
    if is_v1_result(result):
        return {**result, "protocolVersion": 1}
    lifted = Lifted(result)
    lifted.put("agentInfo", lifted.take("info"))
    methods = lifted.take("authMethods", [])
    tree = lifted.take("capabilities", {})
    lifted.put("agentCapabilities", _lift_agent(tree, bool(methods)) if isinstance(tree, dict) else tree)
    lifted.put("authMethods", [_lift_auth_method(item) for item in methods] if isinstance(methods, list) else methods)
    return lifted.build()


def lower_initialize_result(result: Object) -> Object:
    """Lower an agent's answer for a v2 client."""
    lowered = begin_lowering(result)
    info, tree, methods = (lowered.take(name) for name in ("agentInfo", "agentCapabilities", "authMethods"))
    lowered.out["protocolVersion"] = VERSION
    lowered.rest.pop("protocolVersion", None)
    lowered.put("info", info if isinstance(info, dict) else dict(_UNKNOWN_PROGRAM))
    lowered.put("capabilities", _lower_agent(tree if isinstance(tree, dict) else {}))
    if isinstance(methods, list) and methods:
        lowered.put("authMethods", [_lower_auth_method(item) for item in methods])
    return lowered.build()


def _lift_agent(tree: Object, has_login: bool) -> Object:
    lifted = Lifted(tree)
    lifted.side_data.update({name: value for name, value in json_side_data(tree).items() if name in ("attach", "host")})
    session = lifted.take("session")
    if isinstance(session, dict):
        inner = dict(session)
        prompt, mcp = inner.pop("prompt", None), inner.pop("mcp", None)
        mcp = dict(mcp) if isinstance(mcp, dict) else {}
        has_stdio = _is_there(mcp.pop("stdio", None))
        lifted.put("loadSession", True)
        lifted.put("sessionCapabilities", {**inner, **{name: {} for name in _ALWAYS_SERVED}})
        lifted.put("promptCapabilities", _as_booleans(prompt, _PROMPT_KINDS))
        lifted.put("mcpCapabilities", {**_as_booleans(mcp, ("http", "acp"))})
        if not has_stdio:
            lifted.side_data[NO_STDIO] = True
    else:
        lifted.side_data[NO_SESSIONS] = True
    auth = lifted.take("auth")
    if isinstance(auth, dict) or has_login:
        auth = auth if isinstance(auth, dict) else {}
        lifted.put("auth", {**auth, "logout": {}} if has_login else auth)
    return lifted.build()


def _lower_agent(tree: Object) -> Object:
    lowered = Lowered(tree)
    lowered.take("loadSession")
    sessions, prompt, mcp = (
        lowered.take(name, {}) for name in ("sessionCapabilities", "promptCapabilities", "mcpCapabilities")
    )
    sessions = sessions if isinstance(sessions, dict) else {}
    session = {name: sessions[name] for name in sessions if name not in _ALWAYS_SERVED}
    session["prompt"] = _as_objects(prompt, _PROMPT_KINDS)
    has_stdio = lowered.take_side_data(NO_STDIO, None) is not True
    session["mcp"] = {**({"stdio": {}} if has_stdio else {}), **_as_objects(mcp, ("http", "acp"))}
    if lowered.take_side_data(NO_SESSIONS, None) is not True:
        lowered.put("session", _without_nulls(session))
    auth = lowered.take("auth")
    if isinstance(auth, dict):
        lowered.put("auth", {name: value for name, value in auth.items() if name != "logout"})
    return _without_nulls(lowered.build())


def _lift_auth_method(item: Json) -> Json:
    if not isinstance(item, dict):
        return item
    lifted = Lifted(item)
    lifted.put("id", lifted.take("methodId"))
    env = lifted.take("env")
    if isinstance(env, list):
        env = {each["name"]: each.get("value", "") for each in env if isinstance(each, dict) and "name" in each}
    lifted.put("env", env)
    return lifted.build()


def _lower_auth_method(item: Json) -> Json:
    if not isinstance(item, dict):
        return item
    lowered = begin_lowering(item)
    lowered.put("methodId", lowered.take("id"))
    kind, env = lowered.take("type"), lowered.take("env")
    lowered.put("type", kind if isinstance(kind, str) else "agent")
    if isinstance(env, dict):
        env = [{"name": name, "value": value} for name, value in env.items()]
    lowered.put("env", env)
    return _without_nulls(lowered.build())


def _is_there(value: Json) -> bool:
    return value is not None and value is not False


def _as_booleans(tree: Json, names: tuple[str, ...]) -> Object:
    tree = tree if isinstance(tree, dict) else {}
    return {**tree, **{name: _is_there(tree.get(name)) for name in names}}


def _as_objects(tree: Json, names: tuple[str, ...]) -> Object:
    tree = tree if isinstance(tree, dict) else {}
    rest = {name: value for name, value in tree.items() if name not in (*names, "sse")}
    return {**rest, **{name: {} for name in names if tree.get(name)}}


def _without_nulls(tree: Object) -> Object:
    return {name: value for name, value in tree.items() if value is not None and value is not ABSENT}
