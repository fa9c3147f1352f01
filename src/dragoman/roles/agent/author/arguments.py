"""What an author passes in a turn: texts, words of the protocol, paths, commands."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_args

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import Unknown
from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.permission import PermissionOption, PermissionOptionKind
from dragoman.schema.prompt import StopReason
from dragoman.schema.toolcall import Diff, ToolCallBlock, ToolCallContent, ToolCallLocation, ToolCallUpdate
from dragoman.schema.update import AvailableCommand, KnownUpdate

_BLOCKS = (msgspec.Struct, Unknown)  # made once: messages of streams are checked
_UPDATES = frozenset((*get_args(KnownUpdate), Unknown))

_RUN_EXAMPLE = "run('echo', ['-n', 'hello'])"


@cache
def words_of(enum: type) -> list[str]:
    """Return the words of an open enum."""
    return [value for name, value in vars(enum).items() if name.isupper()]


def check_word(noun: str, word: str, enum: type) -> None:
    """Raise if the protocol does not know a word; one that begins with "_" is an extension."""
    known = words_of(enum)
    if word not in known and not str(word).startswith("_"):
        raise ValueError(f"there is no {noun} {word!r}; choose one of: {', '.join(known)}")


def check_permission_options(options: Any) -> None:
    """Raise if one of the answers that are offered is no permission option."""
    for option in [options] if isinstance(options, str) else options:
        if not isinstance(option, PermissionOption):
            wanted = 'PermissionOption(option_id="yes", name="Yes", kind="allow_once")'
            raise TypeError(f"a permission option is not {option!r:.80}; write: options=[{wanted}, ...]")
        check_word("kind of permission option", option.kind, PermissionOptionKind)


def check_content(block: Any) -> Any:
    """Return what an author sends as a message, if it is a content block or text."""
    if isinstance(block, str):
        return TextContent(text=str(block))
    if not isinstance(block, _BLOCKS):
        raise TypeError(f"a message is text or a content block, not {block!r:.80}; use str(...)")
    return block


def check_numbers(kind: type, **values: Any) -> None:
    """Raise if one of these values, named as the author names it, is no number of this kind, or is negative."""
    noun = "a whole number" if kind is int else "a number"
    allowed: Any = int | kind
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, allowed):
            raise TypeError(f"{name} is {noun}, not {value!r:.80}; use {kind.__name__}(...)")
        if value < 0:
            raise ValueError(f"{name} is {noun} that is not negative, not {value}")


def check_update(update: Any) -> None:
    """Raise if an author sends as a session update what is none."""
    if type(update) not in _UPDATES:
        wanted = 'Notice(severity="info", title="...") of dragoman.schema.update'
        raise TypeError(f"a session update is not {update!r:.80}; use an object such as {wanted}")


def check_permission_subject(tool: Any) -> None:
    """Raise if a permission request is about what is no tool call on the wire."""
    if tool is not None and not isinstance(tool, ToolCallUpdate):
        raise TypeError(f"tool is a ToolCallUpdate, not {tool!r:.80}; to ask for a tool call: call.ask_permission()")


def check_text(noun: str, text: Any) -> None:
    """Raise if an author's text is none."""
    if not isinstance(text, str):
        raise TypeError(f"{noun} is text, not {text!r:.80}; use str(...)")


def check_commands(commands: Any) -> None:
    """Raise if one of the slash commands is none."""
    for command in [commands] if isinstance(commands, str) else commands:
        if not isinstance(command, AvailableCommand):
            name = command if isinstance(command, str) else "undo"
            wanted = f'AvailableCommand(name="{name}", description="...")'
            raise TypeError(f"a slash command is not {command!r:.80}; write: {wanted}")


def check_tool_content(content: Any) -> Any:
    """Return what an author adds to a tool call: a content block or text becomes a part of its content."""
    if isinstance(content, str | ContentBlock):
        return ToolCallBlock(content=check_content(content))
    if not isinstance(content, ToolCallContent | Unknown):
        wanted = "text, a content block, a ToolCallBlock, a Diff or a TerminalEmbed"
        raise TypeError(f"the content of a tool call is {wanted}, not {content!r:.80}")
    return content


def path_text(path: Any) -> str:
    """Return a path as text; raise if it is neither text nor a Path."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(f"a path is a str or a Path, not {path!r:.80}")
    return text


def tool_locations(paths: Any) -> list[ToolCallLocation]:
    """Return the files that a tool call is about."""
    if isinstance(paths, str | bytes | os.PathLike):
        raise TypeError(f"paths is a list: paths=[{os.fspath(paths)!r}]")
    return [path if isinstance(path, ToolCallLocation) else ToolCallLocation(path=path_text(path)) for path in paths]


def tool_diff(path: Any, old: Any, new: Any) -> Diff:
    """Return a file change as content of a tool call; `old` is None for a new file."""
    if old is not None:
        check_text("the old text of a diff", old)
    check_text("the new text of a diff", new)
    return Diff(path=path_text(path), old_text=old, new_text=new)


def command_words(command: Any, args: Any) -> tuple[str, list[str]]:
    """Return a program and its arguments as text; a Path is text too."""
    if not isinstance(command, str | os.PathLike):
        raise TypeError(f"command is the name of a program, not {command!r:.80}: {_RUN_EXAMPLE}")
    if isinstance(args, str | bytes):
        raise TypeError(f"args is a list: {_RUN_EXAMPLE}")
    words = [os.fspath(each) if isinstance(each, os.PathLike) else each for each in (command, *args)]
    for each in words:
        if not isinstance(each, str):
            raise TypeError(f"an argument of a command is text, not {each!r:.80}; use str(...)")
    return words[0], words[1:]


def check_environment(env: Any) -> dict[str, str] | None:
    """Return variables for a command; raise if they are no mapping of text to text."""
    if env is not None and not isinstance(env, Mapping):
        raise TypeError(f"env is a mapping, not {env!r:.80}: env={{'CI': '1'}}")
    for name, value in (env or {}).items():
        check_text("the name of a variable", name)
        check_text(f"the value of the variable {name}", value)
    return None if env is None else dict(env)


def check_size(names: str, size: Any) -> None:
    """Raise if the size of a terminal is no pair of numbers."""
    is_pair = isinstance(size, Sequence) and len(size) == 2 and all(type(each) is int and each > 0 for each in size)
    if size is not None and not is_pair:
        raise TypeError(f"size is {names}, two whole numbers, not {size!r:.80}")


def check_stop_reason(source: str, reason: Any) -> str:
    """Return what the author's code returned or set (`source` says which), if it is a stop reason."""
    known = words_of(StopReason)
    if not isinstance(reason, str) or (reason not in known and not reason.startswith("_")):
        text = f"{source} {reason!r:.80}, which is no stop reason ({', '.join(known)})"
        raise ProtocolError(Kind.INTERNAL_ERROR, f"{text}; to send text, use: await turn.say(...)")
    return reason
