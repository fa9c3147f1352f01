"""The answers of the fake model: a pure function from a conversation to a reply.

The user's words hold an order, `[[say TEXT]]`, `[[write PATH TEXT]]`, `[[run COMMAND]]`, `[[slow SECONDS]]`,
`[[recall]]` or `[[drive FOLDER TEXT]]` (open a session of another agent and prompt it); agents wrap prompts in much
else, so it may stand anywhere. The last order counts. Above are the four spellings of model providers, which read their
requests into a Conversation and write a Reply out.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import Any

ORDER = re.compile(r"\[\[(say|write|run|slow|recall|drive)(?: ([^\]]*))?\]\]")

# Names that tools for writing files and for running commands have in the agents we know, in lower case.
WRITERS = ("write_file", "write", "create", "create_file")
RUNNERS = ("run_shell_command", "bash", "shell", "exec_command", "terminal", "execute", "run_command")

# The value of a property of a tool's input, by words in its name; the first match.
PATHS = ("path", "file_name", "filename")
TEXTS = ("content", "text")
COMMANDS = ("command", "cmd")

# codex asks its user only if the model wants to leave the sandbox, with a reason.
ESCALATION = ((("sandbox_permissions",), "require_escalated"), (("justification",), "May I?"))

SLOW_PAUSE = 0.1  # seconds between the chunks of a slow answer: short enough to be noticed, long enough to be cancelled
SLOW_MOST = 120.0  # no answer takes longer
QUOTED = 200  # characters of a tool result that are repeated


@dataclass(frozen=True)
class Tool:
    """A tool the agent offers: its name and the JSON schema of its input."""

    name: str
    schema: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChatMessage:
    """One message of the conversation; `who` is user, model or tool."""

    who: str
    text: str


@dataclass(frozen=True)
class Conversation:
    """The content of a request of any API; `wanted` is the schema of a requested JSON answer."""

    said: tuple[ChatMessage, ...] = ()
    tools: tuple[Tool, ...] = ()
    wanted: dict[str, Any] | None = None


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """The text of the model in chunks, `pause` seconds apart, or the tool that it calls."""

    chunks: tuple[str, ...] = ()
    call: Call | None = None
    pause: float = 0.0

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.chunks)


def answer(conversation: Conversation) -> Reply:
    """Follow the last order; after a tool result, repeat the result."""
    if conversation.wanted is not None:
        return say(_json(conversation.wanted))
    at, verb, rest = _order(conversation)
    after = conversation.said[at + 1 :]
    results = [said.text for said in after if said.who == "tool"]
    if verb == "drive" and len(results) < 2:
        return _drive(conversation, rest, results)
    if results:
        return say(f"The tool answered: {results[-1][:QUOTED]}")
    return _ACTS[verb](conversation, rest)


def say(text: str) -> Reply:
    """A text, one chunk per word."""
    return Reply(chunks=tuple(re.findall(r"\S+\s*|\s+", text)))


def _order(conversation: Conversation) -> tuple[int, str, str]:
    for at in range(len(conversation.said) - 1, -1, -1):
        said = conversation.said[at]
        if said.who == "user" and (found := ORDER.findall(said.text)):
            return at, *found[-1]
    return len(conversation.said), "none", ""


def _drive(conversation: Conversation, rest: str, results: list[str]) -> Reply:
    """Call the tools of `dragoman mcp`: first `open` in a folder, then `prompt` with the session that it answered."""
    folder, _, text = rest.partition(" ")
    found = re.search(r'"session"\s*:\s*"([^"]+)"', results[0].replace('\\"', '"')) if results else None
    wanted = "prompt" if results else "open"
    tool = next((each for each in conversation.tools if each.name.lower().endswith(f"_{wanted}")), None)
    if tool is None or (results and found is None):
        return say(f"I cannot {wanted}; tools: {[each.name for each in conversation.tools]}, results: {results}")
    return Reply(call=Call(tool.name, {"session": found[1], "text": text} if found else {"cwd": folder}))


def _say(_: Conversation, text: str) -> Reply:
    return say(text)


def _none(_: Conversation, text: str) -> Reply:
    return say("I was told nothing that I understand.")


def _write(conversation: Conversation, rest: str) -> Reply:
    path, _, text = rest.partition(" ")
    if not any(tool.name.lower() in WRITERS for tool in conversation.tools):  # codex has only a shell
        return _run(conversation, f"printf %s {shlex.quote(text)} > {shlex.quote(path)}")
    return _use(conversation, WRITERS, ((PATHS, path), (TEXTS, text)))


def _run(conversation: Conversation, command: str) -> Reply:
    return _use(conversation, RUNNERS, ((COMMANDS, command), *ESCALATION))


def _slow(conversation: Conversation, seconds: str) -> Reply:
    if not conversation.tools:  # a request for a title: do not delay it
        return say("Something slow")
    count = int(min(float(seconds or 10), SLOW_MOST) / SLOW_PAUSE)
    return Reply(chunks=tuple(f"{number} " for number in range(1, count + 1)), pause=SLOW_PAUSE)


def _recall(conversation: Conversation, _: str) -> Reply:
    earlier = [rest for said in conversation.said if said.who == "user" for verb, rest in ORDER.findall(said.text)]
    received = list(dict.fromkeys(text for text in earlier if text))
    return say(f"Earlier I was told: {'; '.join(received)}" if received else "I was told nothing earlier.")


_ACTS = {"say": _say, "none": _none, "write": _write, "run": _run, "slow": _slow, "recall": _recall}


def _use(conversation: Conversation, names: tuple[str, ...], values: tuple[tuple[tuple[str, ...], str], ...]) -> Reply:
    offered = {tool.name.lower(): tool for tool in conversation.tools}
    for name in names:
        if name in offered:
            tool = offered[name]
            return Reply(call=Call(tool.name, fill_arguments(tool.schema, values)))
    return say(f"I have no tool for that; there are: {', '.join(offered) or 'none'}")


def fill_arguments(schema: dict[str, Any], values: tuple[tuple[tuple[str, ...], str], ...]) -> dict[str, Any]:
    """Arguments for a tool: our values if a name matches, minimal values for other required members."""
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
                arguments[name] = minimal_value(property)
    return arguments


def minimal_value(schema: dict[str, Any]) -> Any:
    """The minimal value of a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = next((one for one in kind if one != "null"), "string") if isinstance(kind, list) else kind
    if kind.lower() == "object":
        required = schema.get("required") or ()
        return {
            name: minimal_value(part) for name, part in (schema.get("properties") or {}).items() if name in required
        }
    empty: dict[str, Any] = {"boolean": False, "integer": 1, "number": 1, "array": []}
    return empty.get(kind.lower(), "as told")


def _json(schema: dict[str, Any]) -> str:
    return json.dumps(minimal_value(schema) if schema else {})
