"""Probes of an agent's logins."""

from __future__ import annotations

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.json_shape import fault
from dragoman.conformance.probe import probe


@probe("agent.auth.01")
async def unknown_logins_are_refused(stage: AgentStage) -> None:
    """Success would mean: logged in."""
    await _offered(stage)
    stage.refused(await stage.asked("authenticate", {"methodId": "no-such-login"}), "a login that is not offered")


@probe("agent.auth.02")
async def the_want_of_a_login_has_a_number(stage: AgentStage) -> None:
    """A client shows its logins at that number."""
    await stage.initialized()
    heard = await stage.asked("session/new", hello.new_session(stage.dialect, stage.cwd, "one"))
    error = heard.message.get("error") if heard else None
    if not isinstance(error, dict):
        stage.skip("the agent opens sessions without a login")
    assert isinstance(error, dict)
    if "auth" not in str(error).lower():
        stage.unsure("the session was refused for another reason", heard)
    wanted = stage.code("auth_required")
    stage.require(
        error.get("code") == wanted, f"the want of a login is told as {error.get('code')!r}, not {wanted}", heard
    )


async def _logins(stage: AgentStage, capabilities: Json = None) -> list[Json]:
    result = await stage.initialized(capabilities)
    found = result.get("authMethods")
    every = found if isinstance(found, list) else []
    return [login for login in every if isinstance(login, dict) and isinstance(login.get("id"), str)]


async def _offered(stage: AgentStage) -> None:
    """An agent that needs no login may take any."""
    if not await _logins(stage):
        stage.skip("the agent offers no login")


@probe("agent.auth.03")
async def terminal_logins_are_announced(stage: AgentStage) -> None:
    """A client without a terminal cannot show one."""
    found = [login for login in await _logins(stage, hello.NOTHING["v1"]) if login.get("type") == "terminal"]
    stage.require(not found, "a login in a terminal is offered to a client that announced none", stage.introduction)


@probe("agent.auth.04")
async def logging_out_is_there(stage: AgentStage) -> None:
    """It is answered with a result."""
    await stage.initialized()
    stage.granted(await stage.asked("logout", {}), "logout")


@probe("agent.auth.05")
async def logins_are_named(stage: AgentStage) -> None:
    """Nothing in it says which."""
    await _offered(stage)
    stage.refused(await stage.asked("authenticate", {}), "authenticate without a method")


@probe("agent.auth.06")
async def logins_differ(stage: AgentStage) -> None:
    """Else the client cannot say which."""
    ids = [login.get("id") for login in await _logins(stage)]
    stage.require(len(set(ids)) == len(ids), f"two logins have the same id: {ids}", stage.introduction)


@probe("agent.auth.07")
async def logins_are_a_list(stage: AgentStage) -> None:
    """Absent is read as none, and a list says it."""
    result = await stage.initialized()
    stage.require(isinstance(result.get("authMethods"), list), "authMethods is no list", stage.introduction)


@probe("agent.auth.08")
async def terminal_logins_are_whole(stage: AgentStage) -> None:
    """The client runs the agent's own command with them."""
    capabilities = {**hello.ALL["v1"], "auth": {"terminal": True}}
    found = [login for login in await _logins(stage, capabilities) if login.get("type") == "terminal"]
    if not found:
        stage.skip("the agent offers no login in a terminal")
    for login in found:
        words = fault(login, {"name": str, "args?": [str], "env?": dict}, "login")
        stage.require(not words, words, stage.introduction)
