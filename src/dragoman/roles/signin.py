"""Signing in at an agent in a terminal (reference 1.4): its own command, run once more, with a person before it.

Takes the command that starts the agent and the method it offers, gives the command to run. Who runs it is the client's
business: only a program that has a terminal to show may offer this. Exit code 0 is success, anything else is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from dragoman.errors import Kind, ProtocolError, StartFailed
from dragoman.schema.auth import AuthMethod


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A command that lets a person sign in; `env` is its whole environment."""

    method: AuthMethod
    command: list[str]
    cwd: str
    env: dict[str, str]


# Runs the command where a person sees it and can type; gives its exit code.
Runner = Callable[[SignIn], Awaitable[int] | int]


def prepared(method: AuthMethod, command: Sequence[str], cwd: str, environ: Mapping[str, str]) -> SignIn:
    """The agent's command with the method's arguments after it and its variables on top."""
    words = [*command, *(method.args or ())]
    return SignIn(method=method, command=words, cwd=cwd, env={**environ, **(method.env or {})})


async def sign_in(signing: SignIn, runner: Runner) -> None:
    """Let the person sign in; raises auth_required when that fails."""
    answer = runner(signing)
    code = await answer if isinstance(answer, Awaitable) else answer
    if code != 0:
        raise ProtocolError(
            Kind.AUTH_REQUIRED,
            f"signing in ({signing.method.name}) ended with exit code {code}; try again, or another way",
            {"methodId": signing.method.id},
        )


async def in_this_terminal(signing: SignIn) -> int:
    """A runner for programs that run in a terminal: the command gets it for as long as it runs."""
    try:
        process = await asyncio.create_subprocess_exec(*signing.command, cwd=signing.cwd, env=signing.env)
    except OSError as error:
        raise StartFailed(f"cannot start {signing.command[0]!r}: {error.strerror or error}") from None
    try:
        return await process.wait()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
