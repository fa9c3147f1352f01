"""Clients that crash on an update that real agents send."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.faults.edits import answer_on, disconnect_on
from tests.conformance.faults.fault import Json, seed, trait

Sees = Callable[[dict[str, Json]], object]


def update(message: Json) -> dict[str, Json]:
    """Return the update in a message, or {}."""
    params = message.get("params") if isinstance(message, dict) else None
    found = params.get("update") if isinstance(params, dict) else None
    return found if isinstance(found, dict) else {}


def kind(name: str) -> Sees:
    """Match updates of this kind."""
    return lambda update: update.get("sessionUpdate") == name


def part(update: dict[str, Json]) -> dict[str, Json]:
    """Return the first content of a tool call."""
    found = update.get("content")
    return found[0] if isinstance(found, list) and found else {}


def block(update: dict[str, Json]) -> dict[str, Json]:
    """Return the block of a chunk."""
    found = update.get("content")
    return found if isinstance(found, dict) else {}


CALLS = ("tool_call", "tool_call_update")

# What such a client crashes on.
AT: dict[str, Sees] = {
    "01": kind("vendor_weather"),
    "03": lambda update: update.get("sessionUpdate") == "tool_call" and "kind" not in update and "status" not in update,
    "04": lambda update: (
        update.get("sessionUpdate") == "tool_call_update" and update["toolCallId"] == "never-announced"
    ),
    "05": lambda update: update.get("sessionUpdate") == "tool_call" and update.get("content") == [],
    "06": lambda update: update.get("sessionUpdate") == "tool_call" and update["toolCallId"] == "twice",
    "07": lambda update: "oldText" in part(update) and part(update)["oldText"] is None,
    "08": lambda update: any(not each.get("line") for each in update.get("locations") or []),
    "09": lambda update: part(update).get("type") == "terminal",
    "10": lambda update: update.get("sessionUpdate") == "usage_update" and update.get("used") is None,
    "11": lambda update: set(update) == {"sessionUpdate", "_meta"},
    "12": lambda update: block(update).get("text") == "",
    "13": lambda update: "_meta" in block(update),
    "14": lambda update: any("priority" not in each for each in update.get("entries") or []),
    "15": lambda update: any("input" in each and not each["input"] for each in update.get("availableCommands") or []),
    "16": kind("config_option_update"),
    "17": lambda update: update.get("sessionUpdate") == "user_message_chunk" and block(update).get("text") == "Hello",
    "18": lambda update: block(update).get("type") == "hologram",
    "19": lambda update: update.get("kind") == "teleport",
    "20": lambda update: block(update).get("type") in ("image", "audio"),
    "21": lambda update: "rawInput" in update and update["rawInput"] is None,
    "25": lambda update: part(update).get("type") == "text",
    "26": lambda update: "timestamp" in update,
    "27": lambda update: "messageId" in update,
}


def _sees(matches: Sees) -> Callable[[Json], bool]:
    return lambda message: bool(update(message) and matches(update(message)))


for _number, _meant in AT.items():
    seed(f"client.update.{_number}", disconnect_on(_sees(_meant)))

seed("client.update.02", trait("prints a trace"))
seed(
    "client.update.22",
    disconnect_on(lambda message: bool(update(message)) and message["params"].get("sessionId") == "another-session"),
)
seed(
    "client.update.23",
    disconnect_on(
        lambda message: isinstance(message, dict) and message.get("method") == "session/update" and not update(message)
    ),
)
seed("client.update.24", answer_on(lambda message: isinstance(update(message).get("title"), int), None, code=-32602))
