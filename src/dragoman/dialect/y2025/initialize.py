"""How a 2025.1 connection starts: initialize, its MCP servers, authenticate (seed 000 Connection Lifecycle).

Working directory and MCP servers belong to the connection here; they become side data of initialize, and the
ledger gives them to each session.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.dialect.reshape import ABSENT, Json, Lifted, Lowered, Object, json_side_data
from dragoman.dialect.side_data import strip_initialize_side_data
from dragoman.dialect.y2025.tables import (
    AGENT_SIDE_DATA,
    AGENT_UNSUPPORTED,
    CLIENT_SIDE_DATA,
    CLIENT_UNSUPPORTED,
    VERSION,
)

_STDIO_SCHEME = "stdio://"


def lift_initialize(params: Object) -> Object:
    """initialize of a 2025.1 client."""
    lifted = Lifted(strip_initialize_side_data(params))
    version = lifted.take("protocol_version")
    if version is ABSENT:
        lifted.infer("protocolVersion", 1)
    elif isinstance(version, str):
        lifted.put("protocolVersion", 1)
        lifted.side_data["version"] = version
    else:
        lifted.put("protocolVersion", version)
    lifted.rename({"client_info": "clientInfo"})
    lifted.put("clientCapabilities", _lift_client(lifted.take("capabilities")))
    lifted.move_to_side_data({"working_directory": "workingDirectory"})
    servers = lifted.take("mcp_servers")
    if servers is not ABSENT:
        lifted.side_data["mcpServers"] = _apply_to_list(lift_server, servers)
    return lifted.build()


def lower_initialize(params: Object) -> Object:
    """initialize for a 2025.1 agent."""
    low = Lowered(params)
    low.take("protocolVersion")
    version = low.take_side_data("version")
    if "protocolVersion" not in low.inferred:
        low.put("protocol_version", version if isinstance(version, str) else VERSION)
    low.rename({"client_info": "clientInfo"})
    low.put("capabilities", _lower_client(low.take("clientCapabilities")))
    low.move_from_side_data({"working_directory": "workingDirectory"})
    servers = low.take_side_data("mcpServers")
    low.put("mcp_servers", servers if servers is ABSENT else _apply_to_list(lower_server, servers))
    return low.build()


def _lift_client(capabilities: Json) -> Json:
    if not isinstance(capabilities, dict):
        return capabilities
    lifted = Lifted(capabilities)
    lifted.side_data = dict(json_side_data(capabilities))
    files = lifted.take("text_files")
    if files is not ABSENT:
        lifted.put("fs", {"readTextFile": files, "writeTextFile": files})
    lifted.move_to_side_data(CLIENT_SIDE_DATA)
    return lifted.build()


def _lower_client(capabilities: Json) -> Json:
    if not isinstance(capabilities, dict):
        return capabilities
    low = Lowered(capabilities)
    files = low.take("fs")
    if isinstance(files, dict):
        low.put("text_files", files.get("readTextFile") is True and files.get("writeTextFile") is True)
        if files != {"readTextFile": low.out["text_files"], "writeTextFile": low.out["text_files"]}:
            more = low.side_data.get("fs")
            low.side_data["fs"] = {**(more if isinstance(more, dict) else {}), **files}
    elif files is not ABSENT:
        low.put("text_files", files)
    low.move_from_side_data(CLIENT_SIDE_DATA)
    return low.build(CLIENT_UNSUPPORTED)


def lift_initialize_result(result: Object) -> Object:
    """What a 2025.1 agent answers to initialize; it can always load sessions (reference 5.17)."""
    lifted = Lifted(result)
    lifted.infer("protocolVersion", 1)
    lifted.move_to_side_data({"protocol_version": "version", "instructions": "instructions"})
    lifted.rename({"agent_info": "agentInfo"})
    capabilities = lifted.take("capabilities")
    if capabilities is ABSENT:
        lifted.infer("agentCapabilities", _lift_agent({}))
    else:
        lifted.put("agentCapabilities", _lift_agent(capabilities))
    return lifted.build()


def lower_initialize_result(result: Object) -> Object:
    """The answer to initialize for a 2025.1 client."""
    low = Lowered(result)
    low.take("protocolVersion")
    low.move_from_side_data({"protocol_version": "version", "instructions": "instructions"})
    low.rename({"agent_info": "agentInfo"})
    capabilities = low.take("agentCapabilities")
    if "agentCapabilities" not in low.inferred:
        low.put("capabilities", _lower_agent({} if capabilities in (ABSENT, None) else capabilities))
    return low.build(("authMethods",))


def _lift_agent(capabilities: Json) -> Json:
    if not isinstance(capabilities, dict):
        return capabilities
    lifted = Lifted(capabilities)
    lifted.infer("loadSession", True)
    prompt = Lifted(None)
    prompt.put("image", lifted.take("image"))
    prompt.infer("embeddedContext", True)
    if isinstance(capabilities.get("audio"), bool):
        prompt.infer("audio", capabilities["audio"])  # said of the agent as a whole
    lifted.put("promptCapabilities", prompt.build())
    lifted.move_to_side_data(AGENT_SIDE_DATA)
    return lifted.build()


def _lower_agent(capabilities: Json) -> Json:
    if not isinstance(capabilities, dict):
        return capabilities
    low = Lowered(capabilities)
    prompt = Lowered(low.take("promptCapabilities"))
    low.move_from_side_data(AGENT_SIDE_DATA)
    low.put("image", prompt.take("image"))
    # Only our own reading notes loadSession as inferred: what a 2025.1 agent left out stays out.
    if "loadSession" not in low.inferred:
        hears = prompt.rest.get("audio") is True
        streams = prompt.take_side_data("streaming", True)  # where the draft says it
        low.out = {"streaming": streams, "audio": hears, "image": False, **low.out}
        modes = json_side_data(low.rest.get("sessionCapabilities")).get("modes")
        if isinstance(modes, list) and modes:
            low.out.setdefault("supported_modes", modes)
    if rest := prompt.build():
        low.side_data["promptCapabilities"] = rest
    return low.build(AGENT_UNSUPPORTED)


def lift_server(server: Json) -> Json:
    """An MCP server by its URL, as v1 configures it; credentials are its environment or its headers."""
    if not isinstance(server, dict) or not isinstance(server.get("url"), str):
        return server
    lifted = Lifted(server)
    lifted.put("name", lifted.take("name"))
    url, local = server["url"], server["url"].startswith(_STDIO_SCHEME)
    if local:
        lifted.take("url")
        lifted.put("command", url.removeprefix(_STDIO_SCHEME))
        lifted.put("args", [])
    else:
        lifted.put("type", "http")
    credentials = lifted.take("credentials")
    member = "env" if local else "headers"
    if credentials is ABSENT:
        lifted.infer(member, [])
    elif isinstance(credentials, dict):
        lifted.put(member, [{"name": name, "value": value} for name, value in credentials.items()])
    else:
        lifted.put(member, credentials)
    return lifted.build()


def lower_server(server: Json) -> Json:
    """A v1 MCP server by its URL; arguments cannot be said."""
    if not isinstance(server, dict):
        return server
    low = Lowered(server)
    low.put("name", low.take("name"))
    command = low.take("command")
    if isinstance(command, str):
        low.put("url", _STDIO_SCHEME + command)
        low.put("credentials", _pairs_to_map(low.take("env")))
    else:
        low.put("command", command)
        low.put("url", low.take("url"))
        low.put("credentials", _pairs_to_map(low.take("headers")))
    if low.rest.get("args") == []:
        low.take("args")
    if low.rest.get("type") == "http":
        low.take("type")
    return low.build(("args", "type", "serverId"))


def _pairs_to_map(pairs: Json) -> Json:
    """[{name, value}] -> {name: value}; anything else as it is."""
    if not isinstance(pairs, list):
        return pairs
    named = [pair for pair in pairs if isinstance(pair, dict) and isinstance(pair.get("name"), str)]
    return {pair["name"]: pair.get("value") for pair in named} if len(named) == len(pairs) else pairs


def lift_authenticate(params: Object) -> Object:
    """authenticate {type, token, ...}: all but the type is a credential."""
    lifted = Lifted(params)
    lifted.put("methodId", lifted.take("type"))
    if lifted.rest:
        lifted.side_data["credentials"] = lifted.rest
        lifted.rest = {}
    return lifted.build()


def lower_authenticate(params: Object) -> Object:
    """authenticate with the credentials beside the type."""
    low = Lowered(params)
    credentials = low.take_side_data("credentials")
    if isinstance(credentials, dict):
        low.out.update(credentials)
    low.put("type", low.take("methodId"))
    return low.build()


def _apply_to_list(convert: Callable[[Json], Json], servers: Json) -> Json:
    return [convert(server) for server in servers] if isinstance(servers, list) else servers
