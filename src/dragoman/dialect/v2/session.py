"""Sessions in v2: MCP servers, config options, commands, and `session/resume`, which also replays."""

from __future__ import annotations

from typing import Final

from dragoman.dialect.reshape import ABSENT, Json, Lifted, Object, with_json_side_data
from dragoman.dialect.side_data import begin_lowering
from dragoman.dialect.v2.tables import INSERTED, MODE_CATEGORY, MODE_ID, NAME, REPLAY_START
from dragoman.errors import Kind, ProtocolError

# Side data of a result: commands that v2 sends with it and v1 in an update.
COMMANDS: Final = "availableCommands"

_SERVER_TYPES: Final = ("stdio", "http", "acp")


# --- MCP servers ------------------------------------------------------------------------------------------------------


def lift_server(server: Json) -> Json:
    """Lift an MCP server; raise for a transport that nobody defines."""
    if not isinstance(server, dict):
        return server
    kind = server.get("type")
    _check_server_type(kind)
    lists = {"stdio": ("args", "env"), "http": ("headers",)}.get(kind or "stdio", ())
    out = {name: value for name, value in server.items() if not (name == "type" and value == "stdio")}
    return {**out, **{name: [] for name in lists if out.get(name) is None}}


def lower_server(server: Json) -> Json:
    """Lower an MCP server; raise for `sse`, which v2 does not have."""
    if not isinstance(server, dict):
        return server
    kind = server.get("type") or "stdio"
    if kind == "sse":
        raise ProtocolError(
            Kind.INVALID_PARAMS,
            f"the MCP server {server.get('name', '')} uses sse, which {NAME} agents cannot; use http or stdio",
            {"type": kind, "name": server.get("name")},
        )
    _check_server_type(kind)
    return {**{name: value for name, value in server.items() if value is not None}, "type": kind}


def _check_server_type(kind: Json) -> None:
    if kind is not None and (not isinstance(kind, str) or kind not in _SERVER_TYPES):
        raise ProtocolError(
            Kind.INVALID_PARAMS, f"MCP servers of type {kind} are not supported; use stdio or http", {"type": kind}
        )


def _lift_servers(lifted: Lifted) -> None:
    servers = lifted.take("mcpServers", None)
    lifted.put("mcpServers", [lift_server(server) for server in servers] if isinstance(servers, list) else [])
    if lifted.rest.get("additionalDirectories", ABSENT) is None:
        lifted.take("additionalDirectories")


def lift_open(params: Object) -> Object:
    """Lift session/new, session/fork or session/resume."""
    lifted = Lifted(params)
    _lift_servers(lifted)
    lifted.take("replayFrom")
    return lifted.build()


def lower_open(params: Object) -> Object:
    """Lower session/new, session/fork or session/resume."""
    lowered = begin_lowering(params)
    servers = lowered.take("mcpServers")
    lowered.put("mcpServers", [lower_server(server) for server in servers] if isinstance(servers, list) else ABSENT)
    return lowered.build()


def lower_load(params: Object) -> Object:
    """Lower session/load to session/resume with a replay."""
    return {**lower_open(params), "replayFrom": {"type": REPLAY_START}}


def is_load(params: Object) -> bool:
    """Return whether session/resume asks for a replay; raise for a place that is not the start."""
    place = params.get("replayFrom")
    kind = place.get("type") if isinstance(place, dict) else place
    if kind is None and place is None:
        return False
    if kind != REPLAY_START:
        raise ProtocolError(
            Kind.INVALID_PARAMS, f'replayFrom {kind!r} is not supported; use "{REPLAY_START}"', {"type": kind}
        )
    return True


# --- config options ---------------------------------------------------------------------------------------------------


def lift_option(option: Json) -> Json:
    """`configId` and `groupId` become v1's `id` and `group`."""
    if not isinstance(option, dict):
        return option
    out = {("id" if name == "configId" else name): value for name, value in option.items()}
    if isinstance(out.get("options"), list):
        out["options"] = [_rename(choice, "groupId", "group") for choice in out["options"]]
    return out


def lower_option(option: Json) -> Json:
    """v1's `id` and `group` become `configId` and `groupId`; null is absence."""
    if not isinstance(option, dict):
        return option
    out = {("configId" if name == "id" else name): value for name, value in option.items() if value is not None}
    if isinstance(out.get("options"), list):
        out["options"] = [_rename(choice, "group", "groupId") for choice in out["options"]]
    return out


def _rename(item: Json, old: str, new: str) -> Json:
    if not isinstance(item, dict) or old not in item:
        return item
    return {(new if name == old else name): value for name, value in item.items()}


def lower_options(options: Json, modes: Json = None) -> Json:
    """Lower all options; v1's modes become one more unless an option has that category. Empty selects are left out."""
    listed = options if isinstance(options, list) else []
    known = [item for item in listed if isinstance(item, dict)]
    if isinstance(modes, dict) and not any(item.get("category") == MODE_CATEGORY for item in known):
        listed = [*listed, mode_option(modes, {str(item.get("id")) for item in known})]
    said = [lower_option(option) for option in listed]
    return [item for item in said if not (isinstance(item, dict) and item.get("options", ABSENT) == [])]


def mode_option(modes: Object, taken_ids: set[str]) -> Object:
    """v1's modes as a select option, with an id that no other option has."""
    number, id = 1, MODE_ID
    while id in taken_ids:
        number += 1
        id = f"{MODE_ID}_{number}"
    choices = [
        {"value": mode.get("id"), "name": mode.get("name"), "description": mode.get("description")}
        for mode in modes.get("availableModes") or ()
        if isinstance(mode, dict)
    ]
    return {
        "id": id,
        "name": "Mode",
        "category": MODE_CATEGORY,
        "type": "select",
        "currentValue": modes.get("currentModeId"),
        "options": [{name: value for name, value in choice.items() if value is not None} for choice in choices],
    }


def lift_set_option(params: Object) -> Object:
    """`type` is only for booleans in v1; raise for a type that nobody defines."""
    kind = params.get("type")
    if kind not in ("id", "boolean"):
        raise ProtocolError(
            Kind.INVALID_PARAMS, f'type must be "id" or "boolean", not {kind!r}', {"errors": [{"path": "type"}]}
        )
    return params if kind == "boolean" else {name: value for name, value in params.items() if name != "type"}


def lower_set_option(params: Object) -> Object:
    """Every value has a type."""
    return {**params, "type": "boolean" if isinstance(params.get("value"), bool) else "id"}


def lift_set_option_result(result: Object) -> Object:
    """Lift all options."""
    options = result.get("configOptions")
    return {**result, "configOptions": [lift_option(item) for item in options]} if isinstance(options, list) else result


def lower_set_option_result(result: Object) -> Object:
    """Lower all options."""
    return {**result, "configOptions": lower_options(result.get("configOptions"))}


# --- commands ---------------------------------------------------------------------------------------------------------


def lift_commands(commands: Json) -> Json:
    """Commands without their tags; a command of an unknown type keeps its name and description."""
    if not isinstance(commands, list):
        return commands
    out = []
    for command in commands:
        if isinstance(command, dict):
            command = {name: value for name, value in command.items() if name != "type"}
            given = command.get("input")
            if isinstance(given, dict):
                command["input"] = {name: value for name, value in given.items() if name != "type"}
                if not isinstance(command["input"].get("hint"), str):
                    del command["input"]
            elif given is None:
                command.pop("input", None)
        out.append(command)
    return out


def lower_commands(commands: Json) -> Json:
    """Commands with both tags: readers drop a command without them."""
    if not isinstance(commands, list):
        return commands
    out = []
    for command in commands:
        if isinstance(command, dict):
            command = {"type": "command", **{name: value for name, value in command.items() if value is not None}}
            if isinstance(command.get("input"), dict):
                command["input"] = {"type": "text", **command["input"]}
        out.append(command)
    return out


# --- results ----------------------------------------------------------------------------------------------------------


def lift_open_result(result: Object) -> Object:
    """Lift the result of session/new, session/fork or session/resume; commands become side data."""
    lifted = Lifted(result)
    options, commands = lifted.take("configOptions"), lifted.take("availableCommands", None)
    if isinstance(options, list):
        lifted.put("configOptions", [lift_option(option) for option in options])
    if commands is not None:
        lifted.side_data[COMMANDS] = lift_commands(commands)
    return lifted.build()


def lower_open_result(result: Object) -> Object:
    """Lower the result of session/new, session/fork, session/load or session/resume."""
    lowered = begin_lowering(result)
    options, modes = lowered.take("configOptions", None), lowered.take("modes", None)
    if options is not None or isinstance(modes, dict):
        lowered.put("configOptions", lower_options(options, modes))
    commands = lowered.take_side_data(COMMANDS, None)
    if commands is not None:
        lowered.put("availableCommands", lower_commands(commands))
    return lowered.build()


def lift_prompt_result(result: Object) -> Object:
    """Lift the receipt of a prompt; the emulator waits for the end of the turn."""
    return {**result, "stopReason": INSERTED}


def lower_prompt_result(result: Object) -> Object:
    """Lower the receipt of a prompt."""
    return {name: value for name, value in result.items() if name in ("messageId", "_meta")}


def with_commands(result: Json, commands: Json) -> Json:
    """Return a result with commands that came before it."""
    return with_json_side_data(result, **{COMMANDS: commands})
