"""Mistakes in what an agent declares and registers are refused before a client connects."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman import Agent, Option
from dragoman.roles.agent.author.declarations import HOOKS
from dragoman.schema.config import SessionMode
from dragoman.store.memory import MemoryStore

# Decorators with a name in parentheses.
NAMED = {"authenticate": "token", "on": "_acme/ask"}


def register(agent: Any, hook: str, function: Any) -> Any:
    """Register a function for a hook."""
    decorator = HOOKS[hook][0].removeprefix("@agent.").removesuffix("(METHOD)")
    place = getattr(agent, decorator)
    return place(NAMED[decorator])(function) if decorator in NAMED else place(function)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_with_other_parameters_is_refused_where_it_is_decorated(hook: str) -> None:
    async def surprise(one: Any, two: Any, three: Any, four: Any) -> None:
        pass

    wanted = f"async def surprise({', '.join(HOOKS[hook][1:])})"
    agent = Agent("hooked")
    with pytest.raises(TypeError) as caught:
        register(agent, hook, surprise)
    line = surprise.__code__.co_firstlineno
    expected = f"{HOOKS[hook][0]} needs other parameters; write: {wanted} (test_author_setup.py:{line})"
    assert str(caught.value) == expected
    assert [agent._hooks, agent._auth_hooks, agent._method_handlers, agent._middleware_chain] == [{}, {}, {}, []]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_with_its_parameters_is_taken_in_every_form(hook: str) -> None:
    async def taking(*arguments: Any) -> None:
        pass

    class Handlers:
        async def taking(self, *arguments: Any) -> None:
            pass

    for function in (taking, lambda *_: taking(), partial(taking, *HOOKS[hook][2:]), Handlers().taking):
        assert register(Agent("hooked"), hook, function) is function


def test_the_error_shows_how_the_function_is_written() -> None:
    class Handlers:
        def change(self, session: Any) -> None:
            pass

    def change(session: Any) -> None:
        pass

    agent = Agent("hooked")
    with pytest.raises(TypeError, match=r"write: def change\(session, mode_id\) \(test_author_setup.py:\d+\)"):
        agent.on_mode_changed(change)
    with pytest.raises(TypeError, match=r"write: def change\(self, session, mode_id\) \(test_author_setup.py:\d+\)"):
        agent.on_mode_changed(Handlers().change)
    with pytest.raises(TypeError, match=r"on_logout needs other parameters; write: \(\) \(test_author_setup.py:\d+\)"):
        agent.on_logout(lambda session: None)


def test_a_hook_that_yields_or_is_no_function_is_refused() -> None:
    async def stream(session: Any) -> Any:
        yield session

    agent = Agent("hooked")
    with pytest.raises(
        TypeError, match=r"@agent.on_session_opened: stream must not yield \(test_author_setup.py:\d+\)"
    ):
        agent.on_session_opened(stream)
    with pytest.raises(TypeError, match=r"@agent.on_logout stands directly above a function, not 5"):
        agent.on_logout(cast(Any, 5))


@pytest.mark.parametrize("decorator", ["authenticate", "on", "responder"])
def test_a_decorator_without_its_name_is_refused(decorator: str) -> None:
    async def answer(turn: Any) -> None:
        pass

    with pytest.raises(TypeError) as caught:
        getattr(Agent("hooked"), decorator)(answer)
    assert str(caught.value) == f'@agent.{decorator} needs a name; write: @agent.{decorator}("...")'


def read_file() -> None:
    """Stand for a tool."""


MODES = 'modes=["ask", SessionMode(id="code", name="Code")]'
OPTIONS = 'options=[Option.select("style", ["short", "long"]), Option.switch("loud")]'
TOOLS = 'tools=["read_file", "search"]'
COMMANDS = 'commands=[AvailableCommand(name="undo", description="...")]'


@pytest.mark.parametrize(
    ("argument", "value", "kind", "said"),
    [
        ("modes", "code", TypeError, f"modes is a list, not 'code'; write: {MODES}"),
        ("modes", [{"id": "x"}], TypeError, f"a mode is not {{'id': 'x'}}; write: {MODES}"),
        ("modes", ["a", "a"], ValueError, "two modes have the id 'a'; give each its own"),
        ("options", "x", TypeError, f"options is a list, not 'x'; write: {OPTIONS}"),
        ("options", ["x"], TypeError, f"an option is not 'x'; write: {OPTIONS}"),
        ("options", Option.switch("x"), TypeError, "options is a list, not SessionConfigOption(id='x'"),
        (
            "options",
            [Option.switch("x"), Option.select("x", ["a"])],
            ValueError,
            "two options have the id 'x'; give each its own",
        ),
        ("commands", "x", TypeError, f"commands is a list, not 'x'; write: {COMMANDS}"),
        ("commands", ["x"], TypeError, "a slash command is not 'x'; write: AvailableCommand(name=\"x\", description="),
        ("tools", "read_file", TypeError, f"tools is a list, not 'read_file'; write: {TOOLS}"),
        ("tools", [read_file], TypeError, "tools has the names of tools, not <function read_file"),
        ("tools", [read_file], TypeError, f"; write: {TOOLS}; to offer a function, use: agent.offers(NAME, function)"),
        ("versions", (3,), ValueError, "there is no version 3 of the protocol; write: versions=(1, 2)"),
        ("versions", ("1",), ValueError, "there is no version '1' of the protocol; write: versions=(1, 2)"),
        ("versions", (), ValueError, "an agent needs a version of the protocol; write: versions=(1, 2)"),
        ("versions", 1, TypeError, "versions is a list, not 1; write: versions=(1, 2)"),
        ("dialect", "v3", ValueError, "unknown dialect 'v3'; choose one of auto, v1, v2"),
        ("dialect", ["v1"], ValueError, "unknown dialect ['v1']; choose one of auto, v1, v2"),
        ("store", "/tmp/x.db", TypeError, "store is not a path; write: store=SqliteStore('/tmp/x.db')"),
        ("store", Path("/tmp/x.db"), TypeError, "store is not a path; write: store=SqliteStore('/tmp/x.db')"),
        ("store", MemoryStore, TypeError, "store is not <class 'dragoman.store.memory.MemoryStore'>; write: store="),
        ("store", 5, TypeError, "store is not 5; write: store=SqliteStore(PATH)"),
        ("name", 3, TypeError, "the name of an agent is text, not 3; use str(...)"),
        ("version", 1.0, TypeError, "the version of an agent is text, not 1.0; use str(...)"),
        ("title", 3, TypeError, "the title of an agent is text, not 3; use str(...)"),
        ("auth_methods", ["token"], TypeError, "an auth method is not 'token'; write: auth_methods=[AuthMethod(id="),
        ("auth_methods", "token", TypeError, "auth_methods is a list, not 'token'; write: auth_methods=[AuthMethod("),
        ("providers", ["main"], TypeError, "a provider is not 'main'; write: providers=[Provider(id="),
        ("providers", 5, TypeError, "providers is a list, not 5; write: providers=[Provider(id="),
        ("capabilities", {"loadSession": True}, TypeError, "capabilities is an AgentCapabilities, not {'loadSession'"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_by_the_constructor(
    argument: str, value: Any, kind: type[Exception], said: str
) -> None:
    arguments: Any = {"name": "setup", argument: value}
    with pytest.raises(kind) as caught:
        Agent(**arguments)
    assert said in str(caught.value)


def test_what_is_made_by_an_iterator_is_declared_whole() -> None:
    made: Any = (Option.switch(id) for id in ("a", "b"))
    modes: Any = (mode for mode in ("ask", SessionMode(id="code", name="Code")))
    agent = Agent("setup", options=made, modes=modes)
    assert [option.id for option in agent.options] == ["a", "b"]
    assert [mode.id for mode in agent.modes] == ["ask", "code"]


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            lambda option: option.switch("x", "on"),
            "option 'x' is True or False, not 'on'; for other values use Option.select",
        ),
        (
            lambda option: option.models("small"),
            "the choices of option 'model' are a list, not 'small'; write: ['small']",
        ),
        (lambda option: option.select("x", 5), "the choices of option 'x' are a list, not 5; write: ['5']"),
        (
            lambda option: option.select("x", {"Group": "small"}),
            "the choices of option 'x' are a list, not 'small'; write: ['small']",
        ),
        (
            lambda option: option.select("x", [1, 2]),
            'a choice of option \'x\' is text, or a value and its name ("a", "A"), not 1',
        ),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_where_it_is_made(build: Any, said: str) -> None:
    with pytest.raises(TypeError) as caught:
        build(Option)
    assert str(caught.value) == said


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook != "middleware"])
def test_a_second_function_for_a_hook_is_refused(hook: str) -> None:
    async def first(*arguments: Any) -> None:
        pass

    async def second(*arguments: Any) -> None:
        pass

    agent = Agent("hooked")
    register(agent, hook, first)
    register(agent, hook, first)  # again, as when a module is loaded again
    with pytest.raises(TypeError) as caught:
        register(agent, hook, second)
    assert str(caught.value) == f"{HOOKS[hook][0]}: first is registered already; call both from one function"


@pytest.mark.parametrize(
    ("offered", "kind", "said"),
    [
        ((read_file,), TypeError, "offers needs the name of a server and its functions; write: agent.offers("),
        (("notes",), TypeError, "offers needs the name of a server and its functions; write: agent.offers("),
        (
            ("notes", "read_file"),
            TypeError,
            "a tool is a function with a name, not 'read_file'; write: def",
        ),
        (("notes", lambda: 3), TypeError, "a tool is a function with a name, not <function"),
        (("notes", read_file, read_file), ValueError, "two functions named read_file are offered"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_where_it_is_offered(offered: Any, kind: type[Exception], said: str) -> None:
    agent = Agent("offering")
    with pytest.raises(kind) as caught:
        agent.offers(*offered)
    assert said in str(caught.value)
    assert agent._hosted == {}
