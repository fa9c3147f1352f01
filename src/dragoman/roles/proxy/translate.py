"""The interpreter as a program: an agent to the editor that starts it, a client to the agent it starts.

Joins standard input and output with a command through a Relay, and says on stderr, once, what it found out and what it
decided. Gives the exit code.
"""

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
    """Interpret between the client on stdio and the agent that the command starts, until one leaves."""
    if is_login_run(os.environ):
        return await run_agent_login(command, os.environ)
    if transport is None:
        from dragoman.transport.stdio import stdio

        transport = stdio()
    say = report or _on_stderr
    dial = Dialer(
        command,
        dialect=agent_dialect,
        cwd=os.getcwd(),
        report=say,
        stderr=write_stderr,
        detection=detection,
        permission=permission,
        sandbox=sandbox,
    )
    relay = Relay(transport, dial, client_dialect=client_dialect, permission=permission, report=say)
    reason = await relay.run()
    if isinstance(reason, AgentExited) or not isinstance(reason, TransportClosed):
        return 1 if isinstance(reason, ConnectionFailed) else 0
    return 0


def _on_stderr(text: str) -> None:
    print(f"dragoman translate: {text}", file=sys.stderr, flush=True)
