"""Logins of an agent."""

from __future__ import annotations

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.requirement import may, must, should


@must("agent.auth.01", "auth.md#authenticate", "v1")
async def unknown_logins_are_refused(agent: AgentUnderTest) -> None:
    """Where logins are offered, an unknown one is refused."""
    await _offered_methods(agent)
    await agent.require_refused("authenticate", {"methodId": "no-such-login"}, "a login that is not offered")


@must("agent.auth.02", "auth.md#required, errors.md#kinds", "v1 banjo draft")
async def a_needed_login_has_its_error_code(agent: AgentUnderTest) -> None:
    """A session refused because a login is needed has the error code for that."""
    await agent.initialize()
    frame = await agent.request_session()
    error = agent.skip_unless(frame and frame.error, "the agent opens sessions without a login")
    agent.assume("auth" in str(error).lower(), "the session was refused for another reason", frame)
    code, wanted = error.get("code"), agent.error_code("auth_required")
    agent.require(code == wanted, f"the login requirement is reported as {code!r}, not {wanted}", frame)


async def _login_methods(agent: AgentUnderTest, capabilities: Json = None) -> list[Json]:
    found = (await agent.initialize(capabilities)).get("authMethods")
    logins = found if isinstance(found, list) else []
    return [login for login in logins if isinstance(login, dict) and isinstance(login.get("id"), str)]


async def _offered_methods(agent: AgentUnderTest) -> None:
    """An agent that needs no login may accept any."""
    agent.skip_unless(await _login_methods(agent), "the agent offers no login")


@must("agent.auth.03", "auth.md#terminal-methods", "v1")
async def terminal_logins_are_announced(agent: AgentUnderTest) -> None:
    """Terminal logins are offered only to clients that announced support for them."""
    found = [login for login in await _login_methods(agent, hello.NOTHING["v1"]) if login.get("type") == "terminal"]
    agent.require(not found, "a login in a terminal is offered to a client that announced none", agent.initialize_reply)


@must("agent.auth.04", "auth.md#logout", "v1", needs="agent.auth.logout")
async def logging_out_is_there(agent: AgentUnderTest) -> None:
    """logout works where it is offered."""
    await agent.initialize()
    agent.skip_unless(agent.settings.allows_logout, "it may log you out; --allow-logout tests it")
    agent.require_result(await agent.request("logout", {}), "logout")


@must("agent.auth.05", "auth.md#authenticate", "v1")
async def logins_are_named(agent: AgentUnderTest) -> None:
    """Where logins are offered, authenticate without a method is refused."""
    await _offered_methods(agent)
    await agent.require_refused("authenticate", {}, "authenticate without a method")


@must("agent.auth.06", "auth.md#methods", "v1 banjo")
async def logins_differ(agent: AgentUnderTest) -> None:
    """No two logins have the same id."""
    ids = [login.get("id") for login in await _login_methods(agent)]
    agent.require(len(set(ids)) == len(ids), f"two logins have the same id: {ids}", agent.initialize_reply)


@should("agent.auth.07", "auth.md#methods, peers.md#absent-members", "v1")
async def logins_are_a_list(agent: AgentUnderTest) -> None:
    """Logins are offered as a list, an empty one if none is needed."""
    await agent.require_initialize_shape({"authMethods": list})


@may("agent.auth.08", "auth.md#methods, auth.md#terminal-methods", "v1")
async def terminal_logins_are_complete(agent: AgentUnderTest) -> None:
    """Terminal logins may be offered to clients that support them, with args as a list and env as a map."""
    capabilities = {**hello.ALL["v1"], "auth": {"terminal": True}}
    found = [login for login in await _login_methods(agent, capabilities) if login.get("type") == "terminal"]
    for login in agent.skip_unless(found, "the agent offers no login in a terminal"):
        agent.require_shape(login, {"name": str, "args?": [str], "env?": dict}, agent.initialize_reply, "login")


@must("agent.auth.09", "auth.md#authenticate, auth.md#required", "v1")
async def a_login_is_enough(agent: AgentUnderTest) -> None:
    """After a login, a session is not refused for the lack of one."""
    agent.skip_unless(agent.settings.auth_method, "a login may need you; --auth-method ID tests it")
    await agent.initialize()
    frame = agent.assume(await agent.request_session(seconds=agent.timeouts.start), "session/new was not answered")
    code, required = frame.error.get("code"), agent.error_code("auth_required")
    agent.require(code != required, "a session after a login was refused for the lack of one", frame)
