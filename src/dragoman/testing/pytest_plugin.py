"""The pytest plug-in: fixtures to test agents and clients from plain test functions.

pytest loads it in every run, so it imports nothing but pytest until a fixture is used. The agent under test comes from
`--acp-agent 'CMD'`, else the mark `acp_agent`, else the fixture `acp_target`, else the ini option `acp_agent`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dragoman.testing.connections import Target, Wrap
    from dragoman.testing.exchange import Exchange
    from dragoman.testing.under_test import AgentUnderTest, ClientTester, Loop, SessionUnderTest, WireClient

NOTHING_TO_TEST = (
    "no agent to test: give one with --acp-agent 'CMD', @pytest.mark.acp_agent(...), a fixture acp_target in "
    "conftest.py, or acp_agent in the pytest configuration"
)

_EXCHANGE: pytest.StashKey[Exchange] = pytest.StashKey()

MARKS = (
    "acp_agent(target, **options): the agent under test, an Agent, a command or a list of arguments; options "
    "are those of dragoman.connect",
    "acp_timeout(seconds): how long one call of this test may take",
)


class Hooks:
    """Hooks that other plug-ins may implement."""

    @pytest.hookspec(firstresult=True)
    def pytest_acp_trace(self, node: pytest.Item, side: str) -> Any:
        """Return a function that wraps the transports of this test, as `trace=` of `dragoman.connect` does, or None.

        `side` is the user of the transport, "client" or "agent".
        """


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hook that lets other plug-ins record the traffic."""
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --acp-agent and --acp-timeout, and the same as ini options."""
    group = parser.getgroup("acp", "testing agents and clients of the Agent Client Protocol (dragoman)")
    group.addoption("--acp-agent", metavar="CMD", help="the command of the agent under test; overrides marks")
    group.addoption("--acp-timeout", metavar="SECONDS", type=float, help="how long one call may take (30)")
    parser.addini("acp_agent", "the command of the agent under test")
    parser.addini("acp_timeout", "how long one call may take, in seconds (30)")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, for --strict-markers."""
    for mark in MARKS:
        config.addinivalue_line("markers", mark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the messages of `acp_agent` and `acp_session` to the report of a failure."""
    report = yield
    exchange = item.stash.get(_EXCHANGE, None)
    if exchange is not None and report.failed and call.when != "teardown" and (text := str(exchange)):
        from dragoman.testing.exchange import TITLE

        report.sections.append((TITLE, text))
    return report


@pytest.fixture
def acp_target() -> Target | None:
    """The agent under test, for a conftest.py to override: an Agent, a command, or a list of arguments."""
    return None


@pytest.fixture
def acp_options() -> dict[str, Any]:
    """The options of `dragoman.connect` for the agent under test, for a conftest.py to override."""
    return {}


@pytest.fixture
def acp_loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    """The event loop of this test: `acp_loop.run(...)` waits for any awaitable."""
    from dragoman.testing.under_test import TIMEOUT, Loop

    mark = request.node.get_closest_marker("acp_timeout")
    chosen = (
        mark.args[0] if mark and mark.args else None,
        request.config.getoption("acp_timeout"),
        request.config.getini("acp_timeout"),
    )
    loop = Loop(float(next((each for each in chosen if each), TIMEOUT)))
    try:
        yield loop
    finally:
        loop.close()


@pytest.fixture
def acp_agent(
    request: pytest.FixtureRequest, acp_loop: Loop, acp_target: Any, acp_options: dict[str, Any], tmp_path: Any
) -> AgentUnderTest:
    """The agent under test, started and initialized; `open` opens a session."""
    __tracebackhide__ = True
    from dragoman.testing.exchange import Exchange
    from dragoman.testing.under_test import AgentUnderTest

    target, options = agent_under_test(request, acp_target)
    exchange = request.node.stash[_EXCHANGE] = Exchange()
    trace = exchange.tap(transport_wrapper(request))
    return AgentUnderTest.start(acp_loop, target, cwd=str(tmp_path), options={**acp_options, **options}, trace=trace)


@pytest.fixture
def acp_session(acp_agent: AgentUnderTest) -> SessionUnderTest:
    """A session of the agent under test, in the test's temporary directory: `acp_session.ask("...")`."""
    __tracebackhide__ = True
    return acp_agent.open()


@pytest.fixture
def acp_client(request: pytest.FixtureRequest, acp_loop: Loop, acp_target: Any, tmp_path: Any) -> WireClient:
    """A scripted client connected to the agent under test: `acp_client.run_scenario([send_request(...), ...])`."""
    __tracebackhide__ = True
    from dragoman.testing.under_test import WireClient

    target, _ = agent_under_test(request, acp_target)
    return WireClient.start(acp_loop, target, cwd=str(tmp_path), trace=transport_wrapper(request))


@pytest.fixture
def acp_fake_agent(request: pytest.FixtureRequest, acp_loop: Loop) -> ClientTester:
    """An agent that plays a scenario for a client under test: `acp_fake_agent.run_client("my-client", [...])`."""
    from dragoman.testing.under_test import ClientTester

    return ClientTester(acp_loop, transport_wrapper(request, "agent"))


def agent_under_test(request: pytest.FixtureRequest, target: Any) -> tuple[Any, dict[str, Any]]:
    """Return the agent for this test, with full paths, and the options of its mark."""
    mark = request.node.get_closest_marker("acp_agent")
    marked = mark.args[0] if mark and mark.args else None
    found = (request.config.getoption("acp_agent"), marked, target, request.config.getini("acp_agent"))
    chosen = next((each for each in found if each), None)
    if chosen is None:
        pytest.fail(NOTHING_TO_TEST, pytrace=False)
    config = request.config
    folders = [str(config.invocation_params.dir), str(config.rootpath), str(request.path.parent)]
    return with_full_paths(chosen, folders), dict(mark.kwargs) if mark else {}


def with_full_paths(target: Any, folders: Sequence[str]) -> Any:
    """Return a command with full paths, because it is started in a temporary directory.

    `folders` are searched in order: where pytest was started, the root of the project, the directory of the test.
    """
    if not isinstance(target, str | list | tuple):
        return target
    argv = shlex.split(target) if isinstance(target, str) else [os.fspath(each) for each in target]
    full = [_full_path(each, folders, is_program=not place) for place, each in enumerate(argv)]
    return target if full == argv else full  # a string may also be an address


def _full_path(word: str, folders: Sequence[str], is_program: bool) -> str:
    has_folder = os.sep in word
    if word.startswith("-") or (is_program and not has_folder):  # like a shell: search a bare name only in PATH
        return word
    is_there = (
        os.path.exists if has_folder else os.path.isfile
    )  # `agent` may be a directory, and still only an argument
    places = (os.path.join(folder, word) for folder in folders)
    return next((place for place in places if is_there(place)), word)


def transport_wrapper(request: pytest.FixtureRequest, side: str = "client") -> Wrap | None:
    """Return the function of another plug-in that wraps the transports, if any."""
    found: Wrap | None = request.config.hook.pytest_acp_trace(node=request.node, side=side)
    return found
