"""A language server in the sandbox of its session can read the project and write nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman import Sandbox
from dragoman.bridge.lsp.language_servers import LanguageServers
from dragoman.errors import SandboxUnavailable
from dragoman.transport.sandbox.plan import detect_support, plan_sandbox
from tests.bridge.lsp.projects import PATIENCE, QUICK, broken, write


@pytest.mark.item("BR-23")
async def test_a_server_is_confined_as_the_commands_of_the_agent_are(tmp_path: Path) -> None:
    session = tmp_path / "session"
    path = write(session, "a.txt", "bad\n")
    sandbox = Sandbox(read=(str(Path(__file__).parent),))
    try:
        plan_sandbox(sandbox, [str(session)], detect_support())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    inside, outside = session / "log", tmp_path / "log"
    for log, notices in ((inside, list[str]()), (outside, list[str]())):
        servers = LanguageServers(
            [str(session)], [broken("well", log)], sandbox=sandbox, report=notices.append, settings=QUICK
        )
        try:
            reports = await servers.diagnose({path: "bad"}, PATIENCE)
        finally:
            await servers.close()
        if log is inside:
            assert (len(reports[0].after), notices) == (1, [])
        else:
            assert ("off for this session" in notices[0], log.exists()) == (True, False)
