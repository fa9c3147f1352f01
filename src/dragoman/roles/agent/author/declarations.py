"""What an author declares: functions under a decorator, and the arguments of an Agent."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sized
from functools import partial
from typing import Any, TypeVar

from dragoman.dialect.dialects import OFFICIAL_VERSIONS, PACKAGES
from dragoman.roles.agent.author.arguments import check_commands, check_text
from dragoman.schema.auth import AuthMethod
from dragoman.schema.config import SessionConfigOption, SessionMode
from dragoman.schema.initialize import AgentCapabilities

F = TypeVar("F", bound=Callable[..., Any])

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
