"""Log in to an agent in a terminal (docs/protocol/auth.md#terminal-login): run its command again, with other
arguments, in front of the user. Exit code 0 is success.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.errors import Kind, ProtocolError, StartFailed
from dragoman.schema.auth import AuthForm, AuthMethod


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


# --- with a translator or proxy in between: the client starts that one, with the agent's arguments appended ----------

# Tells a program between client and agent that it was started for a login to the agent behind it.
LOGIN_VARIABLE = "DRAGOMAN_SIGN_IN"


def mark_login_methods(initialize_result: Any) -> Any:
    """Mark the login commands in an initialize result, so that a program in between recognizes them."""
    methods = initialize_result.get("authMethods") if isinstance(initialize_result, dict) else None
    if not isinstance(methods, list):
        return initialize_result
    return {**initialize_result, "authMethods": [_mark_login_method(method) for method in methods]}


def _mark_login_method(method: Any) -> Any:
    if not isinstance(method, dict) or method.get("type") != AuthForm.TERMINAL:
        return method
    return {**method, "env": {**(method.get("env") or {}), LOGIN_VARIABLE: "1"}}


def is_login_run(environ: Mapping[str, str]) -> bool:
    """Return whether this program was started for a login to the agent behind it."""
    return bool(environ.get(LOGIN_VARIABLE))


async def run_agent_login(command: str | Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the agent's login command in this terminal and return its exit code."""
    arguments = shlex.split(command) if isinstance(command, str) else command
    return await _run_command(arguments, os.getcwd(), environ)
