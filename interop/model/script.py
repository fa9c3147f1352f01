"""What the fake model answers: a pure function from a conversation to a reply.

The user's words hold an order, `[[say TEXT]]`, `[[write PATH TEXT]]`, `[[run COMMAND]]`, `[[slow SECONDS]]` or
`[[recall]]`; agents wrap prompts in much else, so it may stand anywhere. The last order counts. Above are the four
spellings of model providers, which read their requests into a Conversation and write a Reply out.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

ORDER = re.compile(r"\[\[(say|write|run|slow|recall)(?: ([^\]]*))?\]\]")

# Names that tools for writing files and for running commands have in the agents we know, in lower case.
WRITERS = ("write_file", "write", "create", "create_file")
RUNNERS = ("run_shell_command", "bash", "shell", "execute", "run_command")

# What a property of a tool's input is given, by words in its name; the first that matches.
PATHS = ("path", "file_name", "filename")
TEXTS = ("content", "text")
COMMANDS = ("command", "cmd")

SLOW_BEAT = 0.1  # seconds between the pieces of a slow answer: quick enough to be seen, slow enough to be cancelled
SLOW_MOST = 120.0  # no answer takes longer, whoever asks for it
QUOTED = 200  # characters of a tool's result that are said back


@dataclass(frozen=True)
class Tool:
    """A tool the agent offers: its name and the JSON schema of its input."""

    name: str
    schema: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Said:
    """One message of the conversation; `who` is user, model or tool."""

    who: str
    text: str


@dataclass(frozen=True)
class Conversation:
    """What a request holds, whichever provider's words it came in; `wanted` is the schema of a wanted JSON answer."""

    said: tuple[Said, ...] = ()
    tools: tuple[Tool, ...] = ()
    wanted: dict[str, Any] | None = None


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What the model says, in pieces, `beat` seconds apart; or the tool it calls."""

    pieces: tuple[str, ...] = ()
    call: Call | None = None
    beat: float = 0.0

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)


def answer(conversation: Conversation) -> Reply:
    """Do what the last order says; once a tool has answered, say what it answered."""
    if conversation.wanted is not None:
        return say(_json(conversation.wanted))
    at, verb, rest = _order(conversation)
    after = conversation.said[at + 1 :]
    results = [said.text for said in after if said.who == "tool"]
    if results:
        return say(f"The tool answered: {results[-1][:QUOTED]}")
    return _ACTS[verb](conversation, rest)


def say(text: str) -> Reply:
    """A text, a word a piece."""
    return Reply(pieces=tuple(re.findall(r"\S+\s*|\s+", text)))


def _order(conversation: Conversation) -> tuple[int, str, str]:
    for at in range(len(conversation.said) - 1, -1, -1):
        said = conversation.said[at]
        if said.who == "user" and (found := ORDER.findall(said.text)):
            return at, *found[-1]
    return len(conversation.said), "none", ""


def _say(_: Conversation, text: str) -> Reply:
    return say(text)


def _none(_: Conversation, text: str) -> Reply:
    return say("I was told nothing that I understand.")


def _write(conversation: Conversation, rest: str) -> Reply:
    path, _, text = rest.partition(" ")
    return _use(conversation, WRITERS, ((PATHS, path), (TEXTS, text)))


def _run(conversation: Conversation, command: str) -> Reply:
    return _use(conversation, RUNNERS, ((COMMANDS, command),))


def _slow(conversation: Conversation, seconds: str) -> Reply:
    if not conversation.tools:  # somebody wants a title for the conversation: that is none of ours to delay
        return say("Something slow")
    count = int(min(float(seconds or 10), SLOW_MOST) / SLOW_BEAT)
    return Reply(pieces=tuple(f"{number} " for number in range(1, count + 1)), beat=SLOW_BEAT)


def _recall(conversation: Conversation, _: str) -> Reply:
    earlier = [rest for said in conversation.said if said.who == "user" for verb, rest in ORDER.findall(said.text)]
    told = list(dict.fromkeys(text for text in earlier if text))
    return say(f"Earlier I was told: {'; '.join(told)}" if told else "I was told nothing earlier.")


_ACTS = {"say": _say, "none": _none, "write": _write, "run": _run, "slow": _slow, "recall": _recall}


def _use(conversation: Conversation, names: tuple[str, ...], values: tuple[tuple[tuple[str, ...], str], ...]) -> Reply:
    offered = {tool.name.lower(): tool for tool in conversation.tools}
    for name in names:
        if name in offered:
            tool = offered[name]
            return Reply(call=Call(tool.name, filled(tool.schema, values)))
    return say(f"I have no tool for that; there are: {', '.join(offered) or 'none'}")


def filled(schema: dict[str, Any], values: tuple[tuple[tuple[str, ...], str], ...]) -> dict[str, Any]:
    """Arguments for a tool: our values where a name fits, the least its schema takes where something is required."""
    arguments: dict[str, Any] = {}
    left = list(values)
    required = schema.get("required") or ()
    for name, property in (schema.get("properties") or {}).items():
        for value in left:
            if any(word in name.lower() for word in value[0]) and property.get("type", "string") in (
                "string",
                "STRING",
            ):
                arguments[name] = value[1]
                left.remove(value)
                break
        else:
            if name in required:
                arguments[name] = least(property)
    return arguments


def least(schema: dict[str, Any]) -> Any:
    """The least value of a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = next((one for one in kind if one != "null"), "string") if isinstance(kind, list) else kind
    if kind.lower() == "object":
        required = schema.get("required") or ()
        return {name: least(part) for name, part in (schema.get("properties") or {}).items() if name in required}
    empty: dict[str, Any] = {"boolean": False, "integer": 1, "number": 1, "array": []}
    return empty.get(kind.lower(), "as told")


def _json(schema: dict[str, Any]) -> str:
    return json.dumps(least(schema) if schema else {})
