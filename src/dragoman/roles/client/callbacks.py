"""What the user does for an agent: answer permission requests (docs/protocol/permission.md) and elicitations
(docs/protocol/elicitation.md), and log in with the agent's own command in a terminal
(docs/protocol/auth.md#terminal-login). Without callbacks, permission is denied and the rest not offered.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.engine.incoming import Handler, make_handler
from dragoman.errors import Kind, ProtocolError, StartFailed
from dragoman.roles.client.caller_errors import check_function
from dragoman.schema.auth import AuthForm, AuthMethod
from dragoman.schema.base import Marker
from dragoman.schema.elicitation import (
    CreateElicitationParams,
    CreateElicitationResult,
    ElicitationAction,
    ElicitationMode,
)
from dragoman.schema.initialize import ElicitationCapabilities
from dragoman.schema.permission import (
    CancelledOutcome,
    RequestPermissionParams,
    RequestPermissionResult,
    SelectedOutcome,
)

if TYPE_CHECKING:
    from dragoman.roles.client.session import ClientSession

# Returns the id of the chosen option, or None for "cancelled". A policy is an object that can be called like this.
AskPermission = Callable[[RequestPermissionParams], Awaitable[str | None] | str | None]

# The user's reply to a form or a link: the form's values, True (accepted), False (declined), None (closed).
ElicitationReply = dict[str, Any] | bool | CreateElicitationResult | None
AskElicitation = Callable[[CreateElicitationParams], Awaitable[ElicitationReply] | ElicitationReply]

# How long a question waits for the reader of its turn. Not longer: the reader itself may wait for the answer. Seconds.
READER_TIMEOUT = 1.0

ELICITATION_MODES = (ElicitationMode.FORM, ElicitationMode.URL)


class UserCallbacks:
    """The callbacks that answer an agent's questions."""

    def __init__(
        self, permission: AskPermission | str, elicit: AskElicitation | Mapping[str, AskElicitation] | None
    ) -> None:
        if not callable(permission) and permission not in ("allow", "deny"):
            raise ValueError(f"permission must be a function, 'allow' or 'deny', not {permission!r}")
        if callable(permission):
            check_function("permission", permission, "params")
        self._permission = permission
        self._elicit = (
            dict(elicit) if isinstance(elicit, Mapping) else dict.fromkeys(ELICITATION_MODES, elicit) if elicit else {}
        )
        if unknown := set(self._elicit) - set(ELICITATION_MODES):
            raise ValueError(f"elicit takes the modes form and url, not {', '.join(sorted(unknown))}")

    def capabilities(self) -> Any:
        """Return the elicitation capabilities: the modes that have a callback."""
        if not self._elicit:
            return UNSET
        form, url = (Marker() if mode in self._elicit else UNSET for mode in ELICITATION_MODES)
        return ElicitationCapabilities(form=form, url=url)

    def handlers(self, find_session: Callable[[str], ClientSession | None]) -> dict[str, Handler]:
        """Return the handlers of both methods. `find_session` returns a session by its id."""

        async def ask(params: RequestPermissionParams) -> RequestPermissionResult:
            return await self._ask_permission(params, find_session(params.session_id))

        async def elicit(params: CreateElicitationParams) -> CreateElicitationResult:
            session = find_session(params.session_id) if isinstance(params.session_id, str) else None
            return await self._ask_elicitation(params, session)

        return {"session/request_permission": make_handler(ask), "elicitation/create": make_handler(elicit)}

    async def _ask_permission(
        self, params: RequestPermissionParams, session: ClientSession | None
    ) -> RequestPermissionResult:
        if session is not None:
            await session._note_question("session/request_permission", params)
        if callable(self._permission):
            try:
                await _wait_for_reader(session)
                option = await _await_answer(self._permission(params), session)
            except asyncio.CancelledError:  # the agent takes the request back, or the connection ends
                if session is not None:
                    session.transcript.withdraw_permission_call(params.tool_call.tool_call_id)
                raise
            _check_option(option, params)
        else:
            option = choose_option(params, self._permission)
        if session is not None and session.is_turn_cancelled:
            option = None
        outcome = CancelledOutcome() if option is None else SelectedOutcome(option_id=option)
        result = RequestPermissionResult(outcome=outcome)
        if session is not None:
            await session._note_decision("session/request_permission", params, result)
        return result

    async def _ask_elicitation(
        self, params: CreateElicitationParams, session: ClientSession | None
    ) -> CreateElicitationResult:
        ask = self._elicit.get(params.mode)
        if ask is None:  # never announced: docs/protocol/elicitation.md#modes
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"this client does not support elicitation in the mode {params.mode!r}"
            )
        if session is not None:
            await session._note_question("elicitation/create", params)
        await _wait_for_reader(session)
        reply = await _await_answer(ask(params), session)
        if session is not None and session.is_turn_cancelled:
            reply = None
        result = _elicitation_result(params, reply)
        if session is not None:
            await session._note_decision("elicitation/create", params, result)
        return result


def _check_option(option: object, params: RequestPermissionParams) -> None:
    """Raise unless a permission function returned the id of an option of this question, or None."""
    ids = [each.option_id for each in params.options]
    if option is None or option in ids:
        return
    kind = ValueError if isinstance(option, str) else TypeError
    known = ", ".join(map(repr, ids))
    raise kind(f"the permission function returned {option!r:.80}; return one of {known}, or None")


async def _wait_for_reader(session: ClientSession | None) -> None:
    """Wait until the reader of the turn has seen what the agent sent before its question."""
    if session is not None and session.turn is not None and not session.turn.is_over:
        with suppress(TimeoutError):
            async with asyncio.timeout(READER_TIMEOUT):
                await session.turn.wait_consumed()


async def _await_answer(answer: Any, session: ClientSession | None) -> Any:
    """Await the user's answer; None if the turn is cancelled meanwhile."""
    if not isinstance(answer, Awaitable):
        return answer
    return await (answer if session is None else session._unless_cancelled(answer))


def _elicitation_result(params: CreateElicitationParams, reply: ElicitationReply) -> CreateElicitationResult:
    if isinstance(reply, CreateElicitationResult):
        return reply
    if reply is None:
        return CreateElicitationResult(action=ElicitationAction.CANCEL)
    if reply is False:
        return CreateElicitationResult(action=ElicitationAction.DECLINE)
    # Accepting a link has no content: the agent learns the outcome elsewhere.
    content = reply if isinstance(reply, dict) and params.mode == ElicitationMode.FORM else UNSET
    return CreateElicitationResult(action=ElicitationAction.ACCEPT, content=content)


def choose_option(params: RequestPermissionParams, verdict: str) -> str | None:
    """Return the id of the option for `allow` or `deny`, preferably for once; None means cancelled."""
    kinds = ("allow_once", "allow_always") if verdict == "allow" else ("reject_once", "reject_always")
    for kind in kinds:
        for option in params.options:
            if option.kind == kind:
                return option.option_id
    return None


class TerminalLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A command with which the user logs in. `env` is its whole environment."""

    method: AuthMethod
    command: list[str]
    cwd: str
    env: dict[str, str]


# Runs the command in a terminal that the user sees; returns its exit code.
LoginRunner = Callable[[TerminalLogin], Awaitable[int] | int]


def build_login(method: AuthMethod, command: Sequence[str], cwd: str, environ: Mapping[str, str]) -> TerminalLogin:
    """Return the agent's command with the arguments and variables of the auth method."""
    arguments = [*command, *(method.args or ())]
    return TerminalLogin(method=method, command=arguments, cwd=cwd, env={**environ, **(method.env or {})})


async def run_login(login: TerminalLogin, runner: LoginRunner) -> None:
    """Let the user log in. Raises auth_required if that fails."""
    answer = runner(login)
    code = await answer if isinstance(answer, Awaitable) else answer
    if code != 0:
        raise ProtocolError(
            Kind.AUTH_REQUIRED,
            f"the login command for {login.method.name} ended with exit code {code}; try again or use another method",
            {"methodId": login.method.id},
        )


async def run_in_terminal(login: TerminalLogin) -> int:
    """Run the login command in the terminal of this program."""
    return await _run_command(login.command, login.cwd, login.env)


async def _run_command(command: Sequence[str], cwd: str, env: Mapping[str, str]) -> int:
    try:
        process = await asyncio.create_subprocess_exec(*command, cwd=cwd, env=env)
    except OSError as error:
        raise StartFailed(f"cannot start {command[0]!r}: {error.strerror or error}") from None
    try:
        return await process.wait()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise


# Tells a program between client and agent that it was started for a login to the agent behind it.
LOGIN_VARIABLE = "DRAGOMAN_SIGN_IN"


def mark_login_methods(initialize_result: Any) -> Any:
    """Mark the login commands in an initialize result, so that a program in between recognizes them."""
    methods = initialize_result.get("authMethods") if isinstance(initialize_result, dict) else None
    if not isinstance(methods, list):
        return initialize_result
    marked = [
        {**method, "env": {**(method.get("env") or {}), LOGIN_VARIABLE: "1"}}
        if isinstance(method, dict) and method.get("type") == AuthForm.TERMINAL
        else method
        for method in methods
    ]
    return {**initialize_result, "authMethods": marked}


def is_login_run(environ: Mapping[str, str]) -> bool:
    """Return whether this program was started for a login to the agent behind it."""
    return bool(environ.get(LOGIN_VARIABLE))


async def run_agent_login(command: str | Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the agent's login command in this terminal and return its exit code."""
    arguments = shlex.split(command) if isinstance(command, str) else command
    return await _run_command(arguments, os.getcwd(), environ)
