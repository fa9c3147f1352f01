"""The vocabulary holds everything the official schema names: members, variants, values and methods.

tests/data/schema_members.json is the official schema without its prose; tables here say where names differ.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dragoman.schema
from dragoman.schema.base import Model
from dragoman.schema.introspect import shape_of
from dragoman.schema.methods import METHODS, find_method
from dragoman.schema.side import Side

OFFICIAL = json.loads((Path(__file__).parents[1] / "data" / "schema_members.json").read_text())


def _names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for info in pkgutil.iter_modules(dragoman.schema.__path__):
        module = importlib.import_module(f"dragoman.schema.{info.name}")
        found.update({name: item for name, item in vars(module).items() if not name.startswith("_")})
    return found


NAMES = _names()
MODELS = sorted(
    {item for item in NAMES.values() if isinstance(item, type) and issubclass(item, Model)},
    key=lambda model: model.__name__,
)

# The vocabulary is wider than v1: variants that only v2 has, or that v2 gives another meaning under the same name.
ONLY_V2 = {
    "SessionUpdate": {
        "user_message",
        "agent_message",
        "agent_thought",
        "state_update",
        "tool_call_content_chunk",
        "terminal_update",
        "terminal_output_chunk",
    },
    "ToolCallContent": {"patch", "agent_terminal"},
}

# Official name -> ours, where ours does not follow from it. Several official forms can be one Struct of ours.
RENAMED = {
    "SessionNotification": "UpdateParams",
    "WaitForTerminalExitRequest": "WaitForExitParams",
    "WaitForTerminalExitResponse": "WaitForExitResult",
    "SetSessionTitleRequest": "SetTitleParams",
    "SetSessionTitleResponse": "SetTitleResult",
    "SetSessionModeRequest": "SetModeParams",
    "SetSessionModeResponse": "SetModeResult",
    "SetSessionConfigOptionRequest": "SetConfigOptionParams",
    "SetSessionConfigOptionResponse": "SetConfigOptionResult",
    "ProxySuccessorRequest": "SuccessorParams",
    "ProxySuccessorNotification": "SuccessorParams",
    "ToolCall": "ToolCallStart",
    "ContentChunk": "AgentMessageChunk",
    "Content": "ToolCallBlock",
    "Terminal": "TerminalEmbed",
    "TextResourceContents": "ResourceContents",
    "BlobResourceContents": "ResourceContents",
    "EnvVariable": "NameValue",
    "HttpHeader": "NameValue",
    "ElicitationSessionScope": "CreateElicitationParams",
    "ElicitationRequestScope": "CreateElicitationParams",
    "ElicitationFormMode": "CreateElicitationParams",
    "ElicitationUrlMode": "CreateElicitationParams",
    "ElicitationAcceptAction": "CreateElicitationResult",
    "StringPropertySchema": "StringProperty",
    "NumberPropertySchema": "NumberProperty",
    "IntegerPropertySchema": "IntegerProperty",
    "BooleanPropertySchema": "BooleanProperty",
    "MultiSelectPropertySchema": "MultiSelectProperty",
    "StringMultiSelectItems": "MultiSelectItems",
    "TitledMultiSelectItems": "MultiSelectItems",
    "AuthMethodTerminal": "AuthMethod",
    "AuthMethodAgent": "AuthMethod",
    "McpServerHttp": "McpServer",
    "McpServerSse": "McpServer",
    "McpServerAcp": "McpServer",
    "McpServerStdio": "McpServer",
    "SessionConfigSelectOption": "ConfigChoice",
    "SessionConfigSelectGroup": "ConfigChoice",
    "SessionConfigSelect": "SessionConfigOption",
    "SessionConfigBoolean": "SessionConfigOption",
    "UnstructuredCommandInput": "CommandInput",
    "SelectedPermissionOutcome": "SelectedOutcome",
    "RunningStateUpdate": "StateUpdate",
    "IdleStateUpdate": "StateUpdate",
    "RequiresActionStateUpdate": "StateUpdate",
    "UnknownStateUpdate": "StateUpdate",
    "ErrorStopReason": "StateUpdate",
    "AuthCapabilities": "ClientAuthCapabilities",
    "SessionConfigOptionsCapabilities": "ConfigOptionsCapabilities",
    "SessionSystemPromptCapabilities": "SystemPromptCapabilities",
    "SessionSystemPromptModeCapabilities": "SystemPromptModeCapabilities",
    "Role": "Audience",
    "SessionConfigOptionCategory": "ConfigCategory",
    "SessionArchiveFilter": "ArchiveFilter",
    "RequestPermissionOutcome": "PermissionOutcome",
    "ElicitationPropertySchema": "ElicitationProperty",
    "InitializeProxyRequest": "InitializeParams",
    "InitializeProxyResponse": "InitializeResult",
}
# Required officially in one form of what is ONE Struct here.
BY_FORM = {
    "ResourceContents",
    "CreateElicitationParams",
    "MultiSelectItems",
    "McpServer",
    "ConfigChoice",
    "SessionConfigOption",
    "MessageMcpParams",
}
# Values that are no constants of ours: the only value there is.
WITHOUT_CONSTANTS = {"ElicitationSchemaType"}


def ours(official: str) -> Any:
    """What we call an official definition."""
    name = RENAMED.get(official, official)
    for end, our_end in (("Request", "Params"), ("Notification", "Params"), ("Response", "Result")):
        if name == official and name.endswith(end):
            name = name.removesuffix(end) + our_end
    if name not in NAMES and official.endswith("Capabilities") and set(OFFICIAL["objects"][official]) <= {"_meta"}:
        name = "Marker"
    return NAMES[name]


def _members(official: str) -> dict[str, bool]:
    members: dict[str, bool] = OFFICIAL["objects"][official]
    return members


@pytest.mark.parametrize("official", [name for name in OFFICIAL["objects"] if name not in OFFICIAL["unions"]])
def test_every_official_member_is_a_member_of_ours(official: str) -> None:
    model = ours(official)
    fields = {field.encode_name: field for field in msgspec.structs.fields(model)}
    for member, required in _members(official).items():
        assert member in fields
        if model.__name__ not in BY_FORM:
            assert fields[member].required is required, member


@pytest.mark.parametrize("official", OFFICIAL["unions"])
def test_every_official_variant_is_known(official: str) -> None:
    union = OFFICIAL["unions"][official]
    shape = shape_of(ours(official))
    if not shape.variants:  # ONE Struct: its tag is an ordinary member
        assert union["field"] in {member.key for member in shape.members}
        return
    assert shape.tag_field == union["field"]
    assert set(shape.variants) - ONLY_V2.get(official, set()) == set(union["variants"])
    for tag, variant in union["variants"].items():
        members = {member.key for member in shape.variants[tag].members}
        assert set(_members(variant) if variant else ()) <= members


@pytest.mark.parametrize("official", [name for name in OFFICIAL["values"] if name not in WITHOUT_CONSTANTS])
def test_every_official_value_has_a_constant(official: str) -> None:
    constants = {value for name, value in vars(ours(official)).items() if name.isupper()}
    assert set(OFFICIAL["values"][official]) <= constants


@pytest.mark.parametrize("key", OFFICIAL["methods"])
def test_every_official_method_has_a_row_with_its_types(key: str) -> None:
    where, name = key.split(" ")
    sides = {"agent": [Side.AGENT], "client": [Side.CLIENT], "protocol": list(Side), "proxy": [Side.AGENT]}
    official = OFFICIAL["methods"][key]
    for side in sides[where]:
        row = find_method(side, name)
        assert row is not None
        assert row.params is ours(official["params"])
        assert row.request is ("result" in official) or row.either
        if "result" in official and row.result is not Any:
            assert row.result is ours(official["result"])


def test_no_method_of_ours_passes_as_official() -> None:
    official = {key.split(" ")[1] for key in OFFICIAL["methods"]}
    for row in METHODS.values():
        if row.stability == "stable":
            assert row.name in official
        if row.stability in ("seed", "dragoman"):
            assert (row.side, row.name) == (Side.AGENT, "terminal/output") or row.name not in official


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_type_is_keyword_only_and_documented(model: type[Model]) -> None:
    assert model.__doc__
    with pytest.raises(TypeError):
        model("positional")  # type: ignore[call-arg, arg-type]
    msgspec.json.Decoder(model)  # all annotations resolve to what msgspec can decode


def test_every_optional_member_tells_absent_from_null() -> None:
    for model in MODELS:
        for field in msgspec.structs.fields(model):
            if not field.required:
                assert field.default is msgspec.UNSET, f"{model.__name__}.{field.name}"
                shape = shape_of(field.type)
                assert shape.nullable or shape.anything, f"{model.__name__}.{field.name}"
