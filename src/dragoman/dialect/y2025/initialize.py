"""The 2025.1 connection setup: initialize, MCP servers, authenticate (docs/protocol/dialects.md#y2025-connection).

Working directory and MCP servers belong to the connection; they become side data of initialize, and the emulator adds
them to each session.
"""

from __future__ import annotations

from dragoman.dialect.blocks import lift_pairs, lower_pairs
from dragoman.dialect.mapping import apply_to_list, apply_to_object
from dragoman.dialect.reshape import ABSENT, Lifted, Lowered, Object, json_side_data
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
    """Lift initialize of a 2025.1 client."""
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
    lifted.put("clientCapabilities", apply_to_object(_lift_client, lifted.take("capabilities")))
    lifted.move_to_side_data({"working_directory": "workingDirectory"})
    servers = lifted.take("mcp_servers")
    if servers is not ABSENT:
        lifted.side_data["mcpServers"] = apply_to_list(lift_server, servers)
    return lifted.build()


def lower_initialize(params: Object) -> Object:
    """Lower initialize for a 2025.1 agent."""
    lowered = Lowered(params)
    lowered.take("protocolVersion")
    version = lowered.take_side_data("version")
    if "protocolVersion" not in lowered.inferred:
        lowered.put("protocol_version", version if isinstance(version, str) else VERSION)
    lowered.rename({"client_info": "clientInfo"})
    lowered.put("capabilities", apply_to_object(_lower_client, lowered.take("clientCapabilities")))
    lowered.move_from_side_data({"working_directory": "workingDirectory"})
    servers = lowered.take_side_data("mcpServers")
    lowered.put("mcp_servers", servers if servers is ABSENT else apply_to_list(lower_server, servers))
    return lowered.build()


def _lift_client(capabilities: Object) -> Object:
    lifted = Lifted(capabilities)
    lifted.side_data = dict(json_side_data(capabilities))
    files = lifted.take("text_files")
    if files is not ABSENT:
        lifted.put("fs", {"readTextFile": files, "writeTextFile": files})
    lifted.move_to_side_data(CLIENT_SIDE_DATA)
    return lifted.build()


def _lower_client(capabilities: Object) -> Object:
    lowered = Lowered(capabilities)
    files = lowered.take("fs")
    if isinstance(files, dict):
        lowered.put("text_files", files.get("readTextFile") is True and files.get("writeTextFile") is True)
        if files != {"readTextFile": lowered.out["text_files"], "writeTextFile": lowered.out["text_files"]}:
            more = lowered.side_data.get("fs")
            lowered.side_data["fs"] = {**(more if isinstance(more, dict) else {}), **files}
    elif files is not ABSENT:
        lowered.put("text_files", files)
    lowered.move_from_side_data(CLIENT_SIDE_DATA)
    return lowered.build(CLIENT_UNSUPPORTED)


def lift_initialize_result(result: Object) -> Object:
    """Lift the initialize result of a 2025.1 agent; it can always load sessions
    (docs/protocol/extensions.md#choices-for-20251).
    """
    lifted = Lifted(result)
    lifted.infer("protocolVersion", 1)
    lifted.move_to_side_data({"protocol_version": "version", "instructions": "instructions"})
    lifted.rename({"agent_info": "agentInfo"})
    capabilities = lifted.take("capabilities")
    if capabilities is ABSENT:
        lifted.infer("agentCapabilities", _lift_agent({}))
    else:
        lifted.put("agentCapabilities", apply_to_object(_lift_agent, capabilities))
    return lifted.build()


def lower_initialize_result(result: Object) -> Object:
    """Lower the initialize result for a 2025.1 client."""
    lowered = Lowered(result)
    lowered.take("protocolVersion")
    lowered.move_from_side_data({"protocol_version": "version", "instructions": "instructions"})
    lowered.rename({"agent_info": "agentInfo"})
    capabilities = lowered.take("agentCapabilities")
    if "agentCapabilities" not in lowered.inferred:
        lowered.put("capabilities", apply_to_object(_lower_agent, capabilities or {}))
    return lowered.build(("authMethods",))


def _lift_agent(capabilities: Object) -> Object:
    lifted = Lifted(capabilities)
    lifted.infer("loadSession", True)
    prompt = Lifted(None)
    prompt.put("image", lifted.take("image"))
    prompt.infer("embeddedContext", True)
    if isinstance(capabilities.get("audio"), bool):
        prompt.infer("audio", capabilities["audio"])  # applies to the whole agent
    lifted.put("promptCapabilities", prompt.build())
    lifted.move_to_side_data(AGENT_SIDE_DATA)
    return lifted.build()


def _lower_agent(capabilities: Object) -> Object:
    lowered = Lowered(capabilities)
    prompt = Lowered(lowered.take("promptCapabilities"))
    lowered.move_from_side_data(AGENT_SIDE_DATA)
    lowered.put("image", prompt.take("image"))
    # Only our own lifting marks loadSession as inferred: what a 2025.1 agent omitted stays omitted.
    if "loadSession" not in lowered.inferred:
        hears = prompt.rest.get("audio") is True
        streams = prompt.take_side_data("streaming", True)  # where the draft has it
        lowered.out = {"streaming": streams, "audio": hears, "image": False, **lowered.out}
        modes = json_side_data(lowered.rest.get("sessionCapabilities")).get("modes")
        if isinstance(modes, list) and modes:
            lowered.out.setdefault("supported_modes", modes)
    if rest := prompt.build():
        lowered.side_data["promptCapabilities"] = rest
    return lowered.build(AGENT_UNSUPPORTED)


def lift_server(server: Object) -> Object:
    """Convert an MCP server URL to v1's form; credentials become environment or headers."""
    if not isinstance(server.get("url"), str):
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
    else:
        lifted.put(member, lift_pairs(credentials))
    return lifted.build()


def lower_server(server: Object) -> Object:
    """Convert a v1 MCP server to its URL; arguments are unsupported."""
    lowered = Lowered(server)
    lowered.put("name", lowered.take("name"))
    command = lowered.take("command")
    if isinstance(command, str):
        lowered.put("url", _STDIO_SCHEME + command)
        lowered.put("credentials", lower_pairs(lowered.take("env")))
    else:
        lowered.put("command", command)
        lowered.put("url", lowered.take("url"))
        lowered.put("credentials", lower_pairs(lowered.take("headers")))
    if lowered.rest.get("args") == []:
        lowered.take("args")
    if lowered.rest.get("type") == "http":
        lowered.take("type")
    return lowered.build(("args", "type", "serverId"))


def lift_authenticate(params: Object) -> Object:
    """Lift authenticate {type, token, ...}: everything but the type is a credential."""
    lifted = Lifted(params)
    lifted.put("methodId", lifted.take("type"))
    if lifted.rest:
        lifted.side_data["credentials"] = lifted.rest
        lifted.rest = {}
    return lifted.build()


def lower_authenticate(params: Object) -> Object:
    """Lower authenticate, with the credentials next to the type."""
    lowered = Lowered(params)
    credentials = lowered.take_side_data("credentials")
    if isinstance(credentials, dict):
        lowered.out.update(credentials)
    lowered.put("type", lowered.take("methodId"))
    return lowered.build()
