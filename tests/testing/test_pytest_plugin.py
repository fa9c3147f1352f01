"""The pytest plug-in: plain test functions for agents and clients, and no effect on runs that do not use it."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import dragoman
import dragoman.inspect.recorded_peer
from dragoman import testing
from dragoman.testing import pytest_plugin

pytest_plugins = ["pytester"]

# pytester forgets the modules that were first imported in a run inside this one; ours are to be the same in all.
for _door in (dragoman, testing):
    for _name in _door.__all__:
        getattr(_door, _name)

ROOT = Path(__file__).parents[2]

ECHO = """
    import asyncio
    from dragoman import Agent

    agent = Agent("echo")

    @agent.prompt
    async def repeat(turn):
        if turn.text == "wait":
            await asyncio.Event().wait()
        async with turn.tool("Think", kind="think"):
            await turn.say(turn.text)

    if __name__ == "__main__":
        agent.run()
"""

TESTS = """
    def test_it_repeats(acp_session):
        assert acp_session.ask("hello") == "hello"
        assert [call.status for call in acp_session.tool_calls] == ["completed"]

    def test_a_turn_is_seen_whole(acp_agent, tmp_path):
        session = acp_agent.open()
        assert session.cwd == str(tmp_path)
        seen = session.turn("again")
        assert (seen.text, seen.stop_reason) == ("again", "end_turn")
        assert len(seen.updates) >= 3
"""


def expect_outcomes(pytester: pytest.Pytester, *arguments: str, **outcomes: int) -> pytest.RunResult:
    """Run pytest in the folder of the test; it must have these outcomes."""
    result = pytester.runpytest_inprocess("--strict-markers", "-p", "no:cacheprovider", *arguments)
    result.assert_outcomes(**outcomes)
    return result


def test_the_plug_in_has_a_pytest_entry_point() -> None:
    announced = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = {point.name: point.value for point in entry_points(group="pytest11")}
    assert announced.items() <= installed.items(), "install the package again: pip install -e ."


def test_an_unrelated_run_imports_nothing_of_dragoman_but_the_plug_in(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_came_along():
            ours = {name for name in sys.modules if name.partition(".")[0] == "dragoman"}
            assert ours == {
                "dragoman", "dragoman.testing", "dragoman.testing.pytest_plugin",
                "dragoman.inspect", "dragoman.inspect.pytest_plugin",
            }
            assert "msgspec" not in sys.modules

        def test_nothing_is_done_to_a_test(request):
            assert not [name for name in request.fixturenames if name.startswith("acp")]
        """
    )
    result = pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)
    assert "warning" not in result.stdout.str()


def test_the_plug_in_can_be_disabled(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(acp_session): pass")
    result = expect_outcomes(pytester, "-p", "no:dragoman", "-p", "no:dragoman_recordings", errors=1)
    result.stdout.fnmatch_lines(["*fixture 'acp_session' not found*"])


def test_the_agent_under_test_is_an_object_of_conftest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(echo=ECHO, test_echo=TESTS)
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def acp_target():
            from echo import agent
            return agent
        """
    )
    expect_outcomes(pytester, passed=2)


@pytest.mark.parametrize("way", ["option", "ini", "mark"])
def test_the_agent_under_test_is_a_command(pytester: pytest.Pytester, way: str) -> None:
    path = pytester.makepyfile(echo=ECHO)
    command = f"{sys.executable} {path}"
    mark = f"import pytest\npytestmark = pytest.mark.acp_agent({command!r})\n" if way == "mark" else ""
    pytester.path.joinpath("test_echo.py").write_text(mark + TESTS.replace("\n    ", "\n"))
    if way == "ini":
        pytester.makeini(f"[pytest]\nacp_agent = {command}\n")
    expect_outcomes(pytester, *(["--acp-agent", command] if way == "option" else []), passed=2)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python agents/mine.py --acp", "python /here/agents/mine.py --acp"),
        (["agents/mine.py", "--config", "mine.toml"], "/here/agents/mine.py --config /here/mine.toml"),
        ("tool agents", "tool agents"),  # a word that happens to be a folder
        ("mine.toml agents/gone.py --file=mine.toml", "mine.toml agents/gone.py --file=mine.toml"),
        ("./agents/mine.py other.py", "/here/./agents/mine.py /here/root/other.py"),
    ],
)
def test_files_in_a_command_are_searched_where_pytest_was_started(
    command: str | list[str], found: str, tmp_path: Path
) -> None:
    for name in ("agents/mine.py", "mine.toml", "root/other.py", "root/mine.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    words = pytest_plugin.with_full_paths(command, [str(tmp_path), str(tmp_path / "root")])
    command_line = words if isinstance(words, str) else " ".join(words)
    assert command_line.replace(str(tmp_path), "/here") == found


def test_files_in_a_mark_are_searched_where_pytest_was_started(pytester: pytest.Pytester) -> None:
    pytester.mkdir("mine").joinpath("echo.py").write_text(ECHO.replace("\n    ", "\n"))
    pytester.makepyfile(
        """
        import sys
        import pytest

        @pytest.mark.acp_agent([sys.executable, "mine/echo.py"])
        def test_it(acp_session):
            assert acp_session.ask("hello") == "hello"
        """
    )
    expect_outcomes(pytester, passed=1)


def test_the_option_overrides_the_mark(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.acp_agent("no-such-agent-anywhere")
        def test_it(acp_agent):
            assert acp_agent.remote.info.name == "everything"
        """
    )
    expect_outcomes(pytester, "--acp-agent", f"{sys.executable} -m dragoman agent everything", passed=1)
    expect_outcomes(pytester, errors=1).stdout.fnmatch_lines(["*StartFailed*no-such-agent-anywhere*"])


def test_a_test_without_an_agent_fails_and_shows_how_to_set_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(acp_session): pass")
    expect_outcomes(pytester, errors=1).stdout.fnmatch_lines(["*no agent to test: give one with --acp-agent 'CMD'*"])


def test_options_of_the_mark_and_of_conftest_reach_the_connection(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from dragoman import Agent, WorkspaceAccess

        agent = Agent("asking")

        @agent.prompt
        async def ask(turn):
            async with turn.tool("Write", kind="edit") as call:
                allowed = await call.ask_permission()
            await turn.say("allowed" if allowed else "denied")

        @pytest.fixture
        def acp_target():
            return agent

        @pytest.fixture
        def acp_options():
            return {"permission": "allow"}

        def test_conftest(acp_session):
            assert acp_session.ask("?") == "allowed"

        @pytest.mark.acp_agent(permission="deny")
        def test_mark(acp_session):
            assert acp_session.ask("?") == "denied"
        """
    )
    expect_outcomes(pytester, passed=2)


@pytest.mark.parametrize("way", ["option", "mark", "ini"])
def test_a_call_that_never_ends_fails_after_the_timeout(pytester: pytest.Pytester, way: str) -> None:
    pytester.makepyfile(echo=ECHO)
    mark = "@pytest.mark.acp_timeout(1.5)" if way == "mark" else ""
    pytester.makepyfile(
        f"""
        import pytest
        from echo import agent

        {mark}
        @pytest.mark.acp_agent(agent)
        def test_it(acp_session):
            acp_session.ask("wait")
        """
    )
    if way == "ini":
        pytester.makeini("[pytest]\nacp_timeout = 1.5\n")
    result = expect_outcomes(pytester, *(["--acp-timeout=1.5"] if way == "option" else []), failed=1)
    result.stdout.fnmatch_lines(["*not finished after 1.5 seconds; *@pytest.mark.acp_timeout*"])


def test_a_turn_is_cancelled_at_the_given_update(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from dragoman import Agent

        agent = Agent("endless")

        @agent.prompt
        async def talk(turn):
            while True:
                await turn.say("on and ")

        @pytest.mark.acp_agent(agent)
        def test_it(acp_session):
            assert acp_session.turn("talk", cancel_at="agent_message_chunk").stop_reason == "cancelled"
        """
    )
    expect_outcomes(pytester, passed=1)


def test_a_scenario_shows_the_exchange_when_it_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(echo=ECHO)
    pytester.makepyfile(
        """
        import pytest
        from echo import agent
        from dragoman.testing import expect_result, send_request

        pytestmark = pytest.mark.acp_agent(agent)

        def test_right(acp_client):
            acp_client.run_scenario([send_request("initialize", protocolVersion=1), expect_result(protocolVersion=1)])
            assert len(acp_client.exchange) == 2

        def test_wrong(acp_client):
            acp_client.run_scenario([send_request("initialize", protocolVersion=1), expect_result(protocolVersion=2)])
        """
    )
    result = expect_outcomes(pytester, passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*deviated from the scenario at step 2 of 2",
            "*because   protocolVersion: expected 2, received 1",
            "*-> {*initialize*",
        ]
    )


def test_a_client_runs_against_a_fake_agent(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        from dragoman import connect
        from dragoman.testing import expect_request, send_result

        PYTHON = {sys.executable!r}
        """
        """
        SCENARIO = [
            expect_request("initialize"),
            send_result(protocolVersion=1, agentInfo={"name": "fake", "version": "1"}),
            expect_request("session/new"),
            send_result(sessionId="s1"),
            expect_request("session/prompt", prompt=[{"type": "text", "text": "hello"}]),
            send_result(stopReason="refusal"),
        ]

        def test_a_command(acp_fake_agent):
            command = [PYTHON, "-m", "dragoman", "run", "--json", "hello", "--", "{agent}"]
            run = acp_fake_agent.run_client(command, SCENARIO)
            assert "refusal" in run.stdout

        def test_a_function(acp_fake_agent):
            async def client(transport):
                async with connect(transport) as remote:
                    session = await remote.open_session(cwd="/")
                    async with session.prompt("hello") as turn:
                        return (await turn.wait()).stop_reason

            assert acp_fake_agent.run_client(client, SCENARIO) == "refusal"
        """
    )
    expect_outcomes(pytester, passed=2)


def test_a_test_can_wait_for_any_awaitable(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(echo=ECHO)
    pytester.makepyfile(
        """
        import asyncio
        import pytest
        from echo import agent

        def test_the_loop(acp_loop):
            assert acp_loop.run(asyncio.sleep(0, "done")) == "done"

        @pytest.mark.acp_agent(agent)
        def test_the_connection(acp_agent):
            acp_agent.open()
            assert len(acp_agent.run(acp_agent.remote.list_sessions()).sessions) == 1
        """
    )
    expect_outcomes(pytester, passed=2)


# --- what a failure shows -------------------------------------------------------------------------------------


def test_a_failed_test_shows_the_messages_of_its_session(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(echo=ECHO)
    pytester.makepyfile(
        """
        import pytest
        import echo

        pytestmark = pytest.mark.acp_agent(echo.agent)

        def test_wrong(acp_session):
            assert acp_session.ask("hello") == "goodbye"

        def test_long(acp_session):
            for number in range(60):
                acp_session.ask(f"number {number}")
            assert False

        def test_right(acp_session):
            assert acp_session.ask("fine") == "fine"
        """
    )
    text = expect_outcomes(pytester, failed=2, passed=1).stdout.str()
    assert "ACP messages (-> to the agent, <- from it)" in text
    assert '-> {"jsonrpc":"2.0","id":2,"method":"session/prompt"' in text
    assert '"text":"hello"' in text
    assert '"text":"number 0"' in text
    assert '"text":"number 59"' in text
    assert '"text":"number 30"' not in text
    assert " more ..." in text
    assert '"text":"fine"' not in text


def test_an_agent_that_cannot_be_used_is_reported_without_our_frames(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.acp_agent("no-such-agent --acp")
        def test_missing(acp_session):
            pass

        @pytest.mark.acp_agent([{sys.executable!r}, "-c", "import sys; sys.exit(3)"])
        def test_exits(acp_client, acp_session):
            pass

        @pytest.mark.acp_agent([{sys.executable!r}, "-c", "import time; time.sleep(60)"])
        @pytest.mark.acp_timeout(0.5)
        def test_silent(acp_session):
            pass
        """
    )
    text = expect_outcomes(pytester, errors=3).stdout.str()
    assert "StartFailed: cannot start 'no-such-agent'" in text
    assert "exited with status 3" in text
    assert "AssertionError: not finished after 0.5 seconds" in text
    assert "under_test.py" not in text
    assert "pytest_plugin.py" not in text
    assert "dial.py" not in text


def test_an_error_in_a_coroutine_of_the_test_shows_its_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(echo=ECHO)
    pytester.makepyfile(
        """
        import pytest
        import echo

        @pytest.mark.acp_agent(echo.agent)
        def test_mode(acp_session):
            async def switch():
                await acp_session.session.set_mode("fast")  # a mode that it does not have

            acp_session.run(switch())
        """
    )
    text = expect_outcomes(pytester, failed=1).stdout.str()
    assert "# a mode that it does not have" in text
    assert "remote_agent.py" not in text
    assert "sender.py" not in text


def test_a_name_that_no_update_has_is_refused_for_cancel_at(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(echo=ECHO)
    pytester.makepyfile(
        """
        import pytest
        import echo

        @pytest.mark.acp_agent(echo.agent)
        def test_turn(acp_session):
            with pytest.raises(ValueError, match="no update 'message'; cancel_at is one of .*agent_message_chunk"):
                acp_session.turn("hello", cancel_at="message")
        """
    )
    expect_outcomes(pytester, passed=1)
