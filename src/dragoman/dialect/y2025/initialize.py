"""How a 2025.1 connection starts: initialize, its MCP servers, authenticate (seed 000 Connection Lifecycle).

Working directory and MCP servers belong to the connection here; they become side data of initialize, and the
ledger gives them to each session.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.dialect.reshape import ABSENT, Json, Lifted, Lowered, Object, side_of
from dragoman.dialect.side_data import cleared_initialize
from dragoman.dialect.y2025.tables import AGENT_SIDE, AGENT_UNSAID, CLIENT_SIDE, CLIENT_UNSAID, VERSION

_STDIO = "stdio://"


def lift_initialize(params: Object) -> Object:
    """initialize of a 2025.1 client."""
    lifted = Lifted(cleared_initialize(params))
    version = lifted.take("protocol_version")
    if version is ABSENT:
        lifted.infer("protocolVersion", 1)
    elif isinstance(version, str):
        lifted.put("protocolVersion", 1)
        lifted.side["version"] = version
    else:
        lifted.put("protocolVersion", version)
    lifted.move({"client_info": "clientInfo"})
    lifted.put("clientCapabilities", _lift_client(lifted.take("capabilities")))
    lifted.keep({"working_directory": "workingDirectory"})
    servers = lifted.take("mcp_servers")
    if servers is not ABSENT:
        lifted.side["mcpServers"] = _each(lift_server, servers)
    return lifted.done()


def lower_initialize(params: Object) -> Object:
    """initialize for a 2025.1 agent."""
    low = Lowered(params)
    low.take("protocolVersion")
    version = low.recall("version")
    if "protocolVersion" not in low.inferred:
        low.put("protocol_version", version if isinstance(version, str) else VERSION)
    low.move({"client_info": "clientInfo"})
    low.put("capabilities", _lower_client(low.take("clientCapabilities")))
    low.restore({"working_directory": "workingDirectory"})
    servers = low.recall("mcpServers")
    low.put("mcp_servers", servers if servers is ABSENT else _each(lower_server, servers))
    return low.done()


def _lift_client(capabilities: Json) -> Json:
    if not isinstance(capabilities, dict):
        return capabilities
    lifted = Lifted(capabilities)
    lifted.side = dict(side_of(capabilities))
    files = lifted.take("text_files")
    if files is not ABSENT:
        lifted.put("fs", {"readTextFile": files, "writeTextFile": files})
    lifted.keep(CLIENT_SIDE)
    return lifted.done()


def _lower_client(capabilities: Json) -> Json:
    if not isinstance(capabilities, dict):
        return capabilities
    low = Lowered(capabilities)
    files = low.take("fs")
    if isinstance(files, dict):
        low.put("text_files", files.get("readTextFile") is True and files.get("writeTextFile") is True)
        if files != {"readTextFile": low.out["text_files"], "writeTextFile": low.out["text_files"]}:
            more = low.side.get("fs")
            low.side["fs"] = {**(more if isinstance(more, dict) else {}), **files}
    elif files is not ABSENT:
        low.put("text_files", files)
    low.restore(CLIENT_SIDE)
    return low.done(CLIENT_UNSAID)


def lift_initialized(result: Object) -> Object:
    """What a 2025.1 agent answers to initialize; it can always load sessions (reference 5.17)."""
    lifted = Lifted(result)
    lifted.infer("protocolVersion", 1)
    lifted.keep({"protocol_version": "version", "instructions": "instructions"})
    lifted.move({"agent_info": "agentInfo"})
    capabilities = lifted.take("capabilities")
    if capabilities is ABSENT:
        lifted.infer("agentCapabilities", _lift_agent({}))
    else:
        lifted.put("agentCapabilities", _lift_agent(capabilities))
    return lifted.done()


def lower_initialized(result: Object) -> Object:
    """The answer to initialize for a 2025.1 client."""
    low = Lowered(result)
    low.take("protocolVersion")
    low.restore({"protocol_version": "version", "instructions": "instructions"})
    low.move({"agent_info": "agentInfo"})
    capabilities = low.take("agentCapabilities")
    if "agentCapabilities" not in low.inferred:
        low.put("capabilities", _lower_agent({} if capabilities in (ABSENT, None) else capabilities))
    return low.done(("authMethods",))


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
    lifted.put("promptCapabilities", prompt.done())
    lifted.keep(AGENT_SIDE)
    return lifted.done()


def _lower_agent(capabilities: Json) -> Json:
    if not isinstance(capabilities, dict):
        return capabilities
    low = Lowered(capabilities)
    prompt = Lowered(low.take("promptCapabilities"))
    low.restore(AGENT_SIDE)
    low.put("image", prompt.take("image"))
    # Only our own reading notes loadSession as inferred: what a 2025.1 agent left out stays out.
    if "loadSession" not in low.inferred:
        hears = prompt.left.get("audio") is True
        streams = prompt.recall("streaming", True)  # where the draft says it
        low.out = {"streaming": streams, "audio": hears, "image": False, **low.out}
        modes = side_of(low.left.get("sessionCapabilities")).get("modes")
        if isinstance(modes, list) and modes:
            low.out.setdefault("supported_modes", modes)
    if rest := prompt.done():
        low.side["promptCapabilities"] = rest
    return low.done(AGENT_UNSAID)


def lift_server(server: Json) -> Json:
    """An MCP server by its URL, as v1 configures it; credentials are its environment or its headers."""
    if not isinstance(server, dict) or not isinstance(server.get("url"), str):
        return server
    lifted = Lifted(server)
    lifted.put("name", lifted.take("name"))
    url, local = server["url"], server["url"].startswith(_STDIO)
    if local:
        lifted.take("url")
        lifted.put("command", url.removeprefix(_STDIO))
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
    return lifted.done()


def lower_server(server: Json) -> Json:
    """A v1 MCP server by its URL; arguments cannot be said."""
    if not isinstance(server, dict):
        return server
    low = Lowered(server)
    low.put("name", low.take("name"))
    command = low.take("command")
    if isinstance(command, str):
        low.put("url", _STDIO + command)
        low.put("credentials", _as_map(low.take("env")))
    else:
        low.put("command", command)
        low.put("url", low.take("url"))
        low.put("credentials", _as_map(low.take("headers")))
    if low.left.get("args") == []:
        low.take("args")
    if low.left.get("type") == "http":
        low.take("type")
    return low.done(("args", "type", "serverId"))


def _as_map(pairs: Json) -> Json:
    """[{name, value}] -> {name: value}; anything else as it is."""
    if not isinstance(pairs, list):
        return pairs
    named = [pair for pair in pairs if isinstance(pair, dict) and isinstance(pair.get("name"), str)]
    return {pair["name"]: pair.get("value") for pair in named} if len(named) == len(pairs) else pairs


def lift_authenticate(params: Object) -> Object:
    """authenticate {type, token, ...}: all but the type is a credential."""
    lifted = Lifted(params)
    lifted.put("methodId", lifted.take("type"))
    if lifted.left:
        lifted.side["credentials"] = lifted.left
        lifted.left = {}
    return lifted.done()


def lower_authenticate(params: Object) -> Object:
    """authenticate with the credentials beside the type."""
    low = Lowered(params)
    credentials = low.recall("credentials")
    if isinstance(credentials, dict):
        low.out.update(credentials)
    low.put("type", low.take("methodId"))
    return low.done()


def _each(spell: Callable[[Json], Json], servers: Json) -> Json:
    return [spell(server) for server in servers] if isinstance(servers, list) else servers
