"""Translate between the client on stdio and the agent that a command starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from dragoman.errors import AgentExited, ConnectionFailed, TransportClosed
from dragoman.roles.client.dial import Dialer
from dragoman.roles.client.terminal_login import is_login_run, run_agent_login
from dragoman.roles.proxy.relay import Relay, write_stderr
from dragoman.transport.base import Transport
from dragoman.transport.sandbox.spec import Sandbox


async def translate(
    command: Sequence[str],
    *,
    client_dialect: str = "auto",
    agent_dialect: str = "auto",
    permission: str = "ask",
    detection: str = "ladder",
    report: Callable[[str], None] | None = None,
    transport: Transport | None = None,
    sandbox: Sandbox | None = None,
) -> int:
    """Run a Relay until the client or the agent disconnects; return the exit code."""
    if is_login_run(os.environ):
        return await run_agent_login(command, os.environ)
    if transport is None:
        from dragoman.transport.stdio import stdio

        transport = stdio()
    report = report or _on_stderr
    dialer = Dialer(
        command,
        dialect=agent_dialect,
        cwd=os.getcwd(),
        report=report,
        stderr=write_stderr,
        detection=detection,
        permission=permission,
        sandbox=sandbox,
    )
    relay = Relay(transport, dialer, client_dialect=client_dialect, permission=permission, report=report)
    reason = await relay.run()
    if isinstance(reason, AgentExited) or not isinstance(reason, TransportClosed):
        return 1 if isinstance(reason, ConnectionFailed) else 0
    return 0


def _on_stderr(text: str) -> None:
    print(f"dragoman translate: {text}", file=sys.stderr, flush=True)
