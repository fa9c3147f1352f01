"""Mistakes of an agent's author, reported at once with the line: no async def, a missing await, an unknown word."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from functools import cache, partial
from typing import Any, TextIO, TypeVar, get_args
from weakref import WeakKeyDictionary

import msgspec

from dragoman.dialect.dialects import OFFICIAL_VERSIONS, PACKAGES
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.auth import AuthMethod
from dragoman.schema.base import Unknown
from dragoman.schema.config import SessionConfigOption, SessionMode
from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.initialize import AgentCapabilities
from dragoman.schema.permission import PermissionOption, PermissionOptionKind
from dragoman.schema.prompt import StopReason
from dragoman.schema.toolcall import Diff, ToolCallBlock, ToolCallContent, ToolCallLocation, ToolCallUpdate
from dragoman.schema.update import AvailableCommand, KnownUpdate

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# The classes whose calls an author may forget to await, or call with other arguments.
_AUTHOR_CLASSES = (
    "Turn|Tool|TurnPlan|TurnCompaction|TurnTerminal|MessageStream|Session|SessionTools"
    "|ClientFiles|ClientTerminals|ClientTerminal"
)
_UNAWAITED = re.compile(rf"coroutine '(?:{_AUTHOR_CLASSES})\.(\w+)' was never")
_WRONG_CALL = re.compile(rf"({_AUTHOR_CLASSES})\.(\w+)\(\) (?:takes|missing|got) ")
_LIBRARY_FOLDER = os.path.abspath(__file__).removesuffix(os.path.join("roles", "agent", os.path.basename(__file__)))

# Hook -> its decorator, and what the function is called with.
HOOKS: dict[str, tuple[str, ...]] = {
    "steer": ("@agent.steer", "turn", "prompt"),
    "opened": ("@agent.on_session_opened", "session"),
    "reopened": ("@agent.on_session_reopened", "session"),
    "forked": ("@agent.on_session_forked", "session", "origin"),
    "closed": ("@agent.on_session_closed", "session"),
    "deleted": ("@agent.on_session_deleted", "session"),
    "mode_changed": ("@agent.on_mode_changed", "session", "mode_id"),
    "option_changed": ("@agent.on_option_changed", "session", "option_id", "value"),
    "provider_changed": ("@agent.on_provider_changed", "provider"),
    "authenticate": ("@agent.authenticate(METHOD)", "credentials"),
    "logged_in": ("@agent.check_login",),
    "logout": ("@agent.on_logout",),
    "accounts": ("@agent.list_accounts",),
    "sample": ("@agent.sample", "session", "params"),
    "on": ("@agent.on(METHOD)", "params"),
    "middleware": ("@agent.middleware", "message", "call_next"),
}

_BLOCKS = (msgspec.Struct, Unknown)  # made once: messages of streams are checked
_UPDATES = frozenset((*get_args(KnownUpdate), Unknown))

_RUN_EXAMPLE = "run('echo', ['-n', 'hello'])"

# What the code of a turn called without await, by its task. Empty unless an author made the mistake.
_calls_without_await: WeakKeyDictionary[asyncio.Task[Any], list[str]] = WeakKeyDictionary()
_show_other_warning: Callable[..., None] = warnings.showwarning


@cache
def words_of(enum: type) -> list[str]:
    """Return the words of an open enum."""
    return [value for name, value in vars(enum).items() if name.isupper()]


def check_word(noun: str, word: str, enum: type) -> None:
    """Raise if the protocol does not know a word; one that begins with "_" is an extension."""
    known = words_of(enum)
    if word not in known and not str(word).startswith("_"):
        raise ValueError(f"there is no {noun} {word!r}; choose one of: {', '.join(known)}")


def check_handler(decorator: str, function: Any, *parameters: str, known: Any = None) -> None:
    """Raise if a function that answers prompts is not asynchronous or does not take these parameters.

    `known` is the function that has this place already; the one that calls responders may be replaced.
    """
    if not callable(function):
        raise TypeError(f"{decorator} stands directly above an async function, without parentheses")
    if known is not None and known is not function and not isinstance(known, partial):
        name = getattr(known, "__name__", "a function")
        raise TypeError(
            f"{decorator}: {name} answers prompts already; for several functions, use: @agent.responder(NAME)"
        )
    plain = inspect.unwrap(function) if inspect.isfunction(function) else None
    if plain is None or plain.__name__ == "<lambda>":
        return  # a lambda cannot be asynchronous, but it can return a coroutine
    where = _line_of(plain)
    if inspect.isasyncgenfunction(plain) or inspect.isgeneratorfunction(plain):
        raise TypeError(
            f"{decorator}: {plain.__name__} must not yield; to send text, use: await turn.say(...) ({where})"
        )
    if not inspect.iscoroutinefunction(plain):
        raise TypeError(f"{decorator} needs an async function; write: async def {plain.__name__}(...) ({where})")
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError:
        wanted = f"async def {plain.__name__}({', '.join(parameters)})"
        raise TypeError(f"{decorator} needs other parameters; write: {wanted} ({where})") from None


def check_hook(name: str, function: F, known: Any = None) -> F:
    """Return a function that is registered as a hook, if it takes what the hook is called with.

    `known` is the function that has this place already.
    """
    decorator, *parameters = HOOKS[name]
    if known is not None and known is not function:
        name = getattr(known, "__name__", "a function")
        raise TypeError(f"{decorator}: {name} is registered already; call both from one function")
    if name == "steer":  # it answers a prompt, so it must be asynchronous
        check_handler(decorator, function, *parameters)
    if not callable(function):
        raise TypeError(f"{decorator} stands directly above a function, not {function!r:.80}")
    plain: Any = inspect.unwrap(function.__func__ if inspect.ismethod(function) else function)
    where = f" ({_line_of(plain)})" if inspect.isfunction(plain) else ""
    if inspect.isasyncgenfunction(plain) or inspect.isgeneratorfunction(plain):
        raise TypeError(f"{decorator}: {plain.__name__} must not yield{where}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions in C do not tell
        return function
    try:
        signature.bind(*parameters)
    except TypeError:
        wanted = f"({', '.join(['self', *parameters] if inspect.ismethod(function) else parameters)})"
        if inspect.isfunction(plain) and plain.__name__ != "<lambda>":
            wanted = f"{'async ' if inspect.iscoroutinefunction(plain) else ''}def {plain.__name__}{wanted}"
        raise TypeError(f"{decorator} needs other parameters; write: {wanted}{where}") from None
    return function


def _line_of(function: Any) -> str:
    return f"{os.path.basename(function.__code__.co_filename)}:{function.__code__.co_firstlineno}"


def check_name(decorator: str, name: Any) -> None:
    """Raise if a decorator that needs a name stands directly above a function."""
    if not isinstance(name, str):
        raise TypeError(f'{decorator} needs a name; write: {decorator}("...")')


def check_setup(
    dialect: Any, versions: Any, *, tools: Any, modes: Any, options: Any, commands: Any, store: Any
) -> None:
    """Raise if an argument of an Agent is of the wrong kind, and say what to write."""
    if dialect != "auto" and dialect not in tuple(PACKAGES):
        raise ValueError(f"unknown dialect {dialect!r:.80}; choose one of auto, {', '.join(PACKAGES)}")
    example = f"versions={OFFICIAL_VERSIONS}"
    if not _check_list("versions", versions, example):
        raise ValueError(f"an agent needs a version of the protocol; write: {example}")
    for version in _elements(versions):
        if version not in OFFICIAL_VERSIONS:
            raise ValueError(f"there is no version {version!r:.80} of the protocol; write: {example}")
    _check_tool_names(() if tools is None else tools)
    _check_members("modes", modes, str | SessionMode, "a mode", '["ask", SessionMode(id="code", name="Code")]')
    _check_ids("modes", [mode if isinstance(mode, str) else mode.id for mode in _elements(modes)])
    example = '[Option.select("style", ["short", "long"]), Option.switch("loud")]'
    _check_members("options", options, SessionConfigOption, "an option", example)
    _check_ids("options", [option.id for option in _elements(options)])
    _check_list("commands", commands, 'commands=[AvailableCommand(name="undo", description="...")]')
    check_commands(_elements(commands))
    if isinstance(store, str | os.PathLike):
        raise TypeError(f"store is not a path; write: store=SqliteStore({os.fspath(store)!r})")
    if store is not None and (isinstance(store, type) or not hasattr(store, "append")):
        raise TypeError(f"store is not {store!r:.80}; write: store=SqliteStore(PATH)")


def check_identity(name: Any, version: Any, title: Any) -> None:
    """Raise if an agent introduces itself with anything but text."""
    check_text("the name of an agent", name)
    check_text("the version of an agent", version)
    check_text("the title of an agent", title or "")


def check_logins(auth_methods: Any, providers: Any, capabilities: Any) -> None:
    """Raise if an auth method, a provider or the capabilities of an Agent are of the wrong kind."""
    _check_members("auth_methods", auth_methods, AuthMethod, "an auth method", '[AuthMethod(id="token", name="Token")]')
    if not isinstance(providers, Collection) or len(providers):
        from dragoman.roles.agent.providers import Provider  # few agents need it

        _check_members("providers", providers, Provider, "a provider", '[Provider(id="main", supported=["openai"])]')
    if capabilities is not None and not isinstance(capabilities, AgentCapabilities):
        raise TypeError(f"capabilities is an AgentCapabilities, not {capabilities!r:.80}; leave it out if in doubt")


def _check_members(noun: str, values: Any, kind: Any, member: str, example: str) -> None:
    _check_list(noun, values, f"{noun}={example}")
    for value in _elements(values):
        if not isinstance(value, kind):
            raise TypeError(f"{member} is not {value!r:.80}; write: {noun}={example}")


def _check_tool_names(tools: Any) -> None:
    example = 'tools=["read_file", "search"]'
    _check_list("tools", tools, example)
    for tool in _elements(tools):
        if not isinstance(tool, str):
            advice = "; to offer a function, use: agent.offers(NAME, function)" if callable(tool) else ""
            raise TypeError(f"tools has the names of tools, not {tool!r:.80}; write: {example}{advice}")


def _check_list(noun: str, values: Any, example: str) -> bool:
    """Return whether there are values; raise if they are one text, or nothing that can be iterated."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{noun} is a list, not {values!r:.80}; write: {example}")
    return not isinstance(values, Sized) or len(values) > 0


def _elements(values: Any) -> Any:
    """Return values that can be iterated again, or nothing: an iterator is not used up."""
    return values if isinstance(values, Collection) else ()


def _check_ids(noun: str, ids: list[str]) -> None:
    for id in ids:
        if ids.count(id) > 1:
            raise ValueError(f"two {noun} have the id {id!r}; give each its own")


def check_outside_loop(call: str) -> None:
    """End the program with one line if an event loop runs already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    sys.exit(f"{call} starts its own event loop; call it outside of async code")


def check_permission_options(options: Any) -> None:
    """Raise if one of the answers that are offered is no permission option."""
    for option in [options] if isinstance(options, str) else options:
        if not isinstance(option, PermissionOption):
            wanted = 'PermissionOption(option_id="yes", name="Yes", kind="allow_once")'
            raise TypeError(f"a permission option is not {option!r:.80}; write: options=[{wanted}, ...]")
        check_word("kind of permission option", option.kind, PermissionOptionKind)


def needs_async_with(call: str) -> Callable[[type[T]], type[T]]:
    """Decorator: objects of the class refuse `with` and `await`, and say how they are used."""

    def refuse(self: Any, *_: Any) -> Any:
        raise TypeError(f"use: async with {call}")

    def add_refusals(kind: type[T]) -> type[T]:
        for name in ("__enter__", "__exit__", "__await__"):
            setattr(kind, name, refuse)
        return kind

    return add_refusals


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


def watch_awaits() -> None:
    """Note calls without await from now on."""
    global _show_other_warning
    if warnings.showwarning is not _show_warning:  # a test runner may have reset it
        _show_other_warning, warnings.showwarning = warnings.showwarning, _show_warning
        warnings.filterwarnings("always", message=_UNAWAITED.pattern, category=RuntimeWarning)


def check_awaits(task: asyncio.Task[Any]) -> None:
    """Raise if the code of a turn, which runs in this task, called something without await."""
    if _calls_without_await and (calls := _calls_without_await.pop(task, None)):
        raise ProtocolError(Kind.INTERNAL_ERROR, f"await is missing: {', '.join(calls)}")


def add_advice(error: Exception, task: asyncio.Task[Any]) -> None:
    """Add what to write to an error of Python about a call of ours: a missing await, or other arguments."""
    calls = _calls_without_await.pop(task, None) if _calls_without_await else None
    if len(error.args) != 1 or not isinstance(error, TypeError | AttributeError):
        return
    text = str(error)
    if calls:
        error.args = (f"{text}; await is missing: {', '.join(calls)}",)
    elif "'coroutine' object" in text:
        error.args = (f"{text}; await is missing where this value comes from",)
    elif call := _WRONG_CALL.match(text):
        error.args = (f"{text}; write: {call[2]}({_parameters_of(call[1], call[2])})",)


def _parameters_of(class_name: str, method: str) -> str:
    """Return the parameters of a method as they are written in a call."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("dragoman.roles.agent.")]
    owner = next((vars(module)[class_name] for module in modules if class_name in vars(module)), None)
    words: list[str] = []
    for parameter in list(inspect.signature(getattr(owner, method)).parameters.values())[1:]:
        is_optional = parameter.default is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY
        words.append(f"{parameter.name}=..." if is_optional else str(parameter).partition(":")[0])
    return ", ".join(words)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    found = _UNAWAITED.match(str(message))
    task = _current_task() if found else None
    if found and task is not None:
        # The coroutine may have been in a variable until the author's code had ended: then the line is one of ours.
        where = "" if filename.startswith(_LIBRARY_FOLDER) else f" ({os.path.basename(filename)}:{lineno})"
        _calls_without_await.setdefault(task, []).append(f"await ….{found[1]}(...){where}")
    else:
        _show_other_warning(message, category, filename, lineno, file, line)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop in this thread
        return None
