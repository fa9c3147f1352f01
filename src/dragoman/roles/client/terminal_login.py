"""Signing in at an agent in a terminal (reference 1.4): its own command, run once more, with a person before it.

Takes the command that starts the agent and the method it offers, gives the command to run. Who runs it is the client's
business: only a program that has a terminal to show may offer this. Exit code 0 is success, anything else is not.
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
    """A command that lets a person sign in; `env` is its whole environment."""

    method: AuthMethod
    command: list[str]
    cwd: str
    env: dict[str, str]


# Runs the command where a person sees it and can type; gives its exit code.
LoginRunner = Callable[[TerminalLogin], Awaitable[int] | int]


def build_login(method: AuthMethod, command: Sequence[str], cwd: str, environ: Mapping[str, str]) -> TerminalLogin:
    """The agent's command with the method's arguments after it and its variables on top."""
    words = [*command, *(method.args or ())]
    return TerminalLogin(method=method, command=words, cwd=cwd, env={**environ, **(method.env or {})})


async def run_login(login: TerminalLogin, runner: LoginRunner) -> None:
    """Let the person sign in; raises auth_required when that fails."""
    answer = runner(login)
    code = await answer if isinstance(answer, Awaitable) else answer
    if code != 0:
        raise ProtocolError(
            Kind.AUTH_REQUIRED,
            f"signing in ({login.method.name}) ended with exit code {code}; try again, or another way",
            {"methodId": login.method.id},
        )


async def run_in_terminal(login: TerminalLogin) -> int:
    """A runner for programs that run in a terminal: the command gets it for as long as it runs."""
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


# --- with an interpreter or a proxy between: the client starts that, with the agent's arguments after its own --------

# Says to a program between client and agent that it was started for a person who signs in at the agent behind it.
LOGIN_VARIABLE = "DRAGOMAN_SIGN_IN"


def mark_login_methods(initialize_result: Any) -> Any:
    """An agent's answer to initialize, whose sign-in commands tell the program between what they are started for."""
    methods = initialize_result.get("authMethods") if isinstance(initialize_result, dict) else None
    if not isinstance(methods, list):
        return initialize_result
    return {**initialize_result, "authMethods": [_mark_login_method(method) for method in methods]}


def _mark_login_method(method: Any) -> Any:
    if not isinstance(method, dict) or method.get("type") != AuthForm.TERMINAL:
        return method
    return {**method, "env": {**(method.get("env") or {}), LOGIN_VARIABLE: "1"}}


def is_login_run(environ: Mapping[str, str]) -> bool:
    """Whether this program was started for a person who signs in at the agent behind it."""
    return bool(environ.get(LOGIN_VARIABLE))


async def run_agent_login(command: str | Sequence[str], environ: Mapping[str, str]) -> int:
    """Let the agent behind have the terminal; gives its exit code. It may be another program between, so it is told."""
    words = shlex.split(command) if isinstance(command, str) else command
    return await _run_command(words, os.getcwd(), environ)
