"""Start an installed agent once, with an empty home and no network where the sandbox can, for its introduction."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence

from dragoman.config.agent_choice import AgentFacts, facts_from_initialize
from dragoman.errors import DragomanError, SandboxUnavailable
from dragoman.ids import now
from dragoman.registry.fault import RegistryFault
from dragoman.roles.client.connect import connect
from dragoman.schema.base import to_json
from dragoman.transport.sandbox.spec import Sandbox

# The limit of the registry's own check. Seconds.
TIMEOUT = 120.0
# Lines of stderr that are shown.
TAIL = 12


def try_agent(command: Sequence[str], env: Mapping[str, str], read: Sequence[str]) -> AgentFacts:
    """Return what the agent says of itself; raise RegistryFault with its last lines if it says nothing.

    An agent that does not start in the sandbox is tried again without it, since that is how it is started later.
    """
    confined = Sandbox(read=tuple(read), net="none")
    try:
        return asyncio.run(_initialize(command, env, confined))
    except _Silent:
        pass
    try:
        return asyncio.run(_initialize(command, env, None))
    except _Silent as silent:
        raise RegistryFault(
            "silent",
            f"the agent does not answer initialize, and nothing was kept; to keep it and look, add --no-try\n{silent}",
        ) from None


class _Silent(Exception):
    """The agent did not introduce itself."""


async def _initialize(command: Sequence[str], env: Mapping[str, str], sandbox: Sandbox | None) -> AgentFacts:
    errors = bytearray()

    def keep(data: bytes) -> None:
        errors.extend(data)
        del errors[:-65536]

    with tempfile.TemporaryDirectory(prefix="dragoman-try-") as home:
        own = {**env, "HOME": home, **{f"XDG_{name}_HOME": home for name in ("CONFIG", "DATA", "STATE", "CACHE")}}
        folder = os.path.realpath(home)
        agent = connect(
            list(command),
            cwd=folder,
            env=env if sandbox is not None else own,
            sandbox=sandbox,
            stderr=keep,
            initialize_timeout=TIMEOUT,
        )
        try:
            async with asyncio.timeout(TIMEOUT + 5), agent as remote:
                return facts_from_initialize(to_json(remote.initialize_result), now())
        except SandboxUnavailable as error:
            raise _Silent(str(error)) from None
        except (DragomanError, TimeoutError, OSError) as error:
            lines = errors.decode("utf-8", "replace").strip().splitlines()[-TAIL:]
            why = str(error).partition("; stderr: ")[0]  # its lines follow, more of them
            said = "".join(f"\n  {line}" for line in lines)
            raise _Silent(f"{why or 'no answer in time'}{said}") from None
