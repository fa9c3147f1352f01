"""The life of a language server: started by the first file, restarted after crashes, bounded in all that it does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.bridge.lsp import client, framing
from dragoman.bridge.lsp.connection import Document, ServerConnection
from dragoman.bridge.lsp.language_servers import LanguageServers
from dragoman.bridge.lsp.server import MAX_RESTARTS, ServerState
from dragoman.transport.process.process_tree import read_process_stat
from tests.bridge.lsp.projects import PATIENCE, broken, language_servers, prepare_all, wait_for, write


def starts(log: Path) -> int:
    """Return how often the server was started."""
    return log.read_text().count("start") if log.exists() else 0


async def hover(servers: LanguageServers, path: str, timeout: float = PATIENCE) -> Any:
    """Send one request about a file."""

    async def work(connection: ServerConnection, document: Document, left: float) -> Any:
        params = {"textDocument": {"uri": document.uri}, "position": {"line": 0, "character": 0}}
        return await connection.client.request("textDocument/hover", params, timeout=left)

    return await servers.with_document(path, "hoverProvider", work, timeout)


@pytest.mark.item("BR-23")
async def test_a_server_starts_with_the_first_file_of_its_language_and_ends_with_the_session(tmp_path: Path) -> None:
    log, path = tmp_path / "log", write(tmp_path, "a.txt", "fine\n")
    async with language_servers(tmp_path, [broken("well", log)]) as servers:
        servers.prepare(write(tmp_path, "a.other", "bad\n"))
        assert (servers.status(), starts(log)) == ([], 0)
        await prepare_all(servers, path)
        assert await hover(servers, path)
        assert starts(log) == 1
    assert log.read_text().splitlines()[-2:] == ["shutdown False", "exit"]


@pytest.mark.item("BR-23")
async def test_every_request_of_a_server_is_answered_and_its_own_edits_are_declined(tmp_path: Path) -> None:
    log, path = tmp_path / "log", write(tmp_path, "a.txt", "fine\n")
    row = broken("well", log, settings={"a": {"b": "${workspaceFolder}/x"}})
    async with language_servers(tmp_path, [row]) as servers:
        await prepare_all(servers, path)
        await wait_for(lambda: log.read_text().count("answer") == 4, "four answers")
    answers = dict(line.split(" ", 2)[1:] for line in log.read_text().splitlines() if line.startswith("answer"))
    values = {id: json.loads(text) for id, text in answers.items()}
    assert values["s0"] is None
    assert values["s1"] == [f"{tmp_path}/x", {"a": {"b": f"{tmp_path}/x"}}]
    assert values["s3"]["applied"] is False


async def test_each_root_has_its_own_server_and_a_file_outside_has_none(tmp_path: Path) -> None:
    log = tmp_path / "log"
    session = tmp_path / "session"
    one, two = write(session, "one/a.txt", "bad"), write(session, "two/deep/b.txt", "fine")
    write(session, "one/mark", "")
    write(session, "two/mark", "")
    outside = write(tmp_path, "c.txt", "bad")
    async with language_servers(session, [broken("well", log, roots=("mark",))]) as servers:
        reports = await servers.diagnose({one: "bad", two: "fine", outside: "bad"}, PATIENCE)
        assert sorted(each["root"] for each in servers.status()) == [str(session / "one"), str(session / "two")]
    assert [(report.path, len(report.after)) for report in reports] == [(one, 1), (two, 0)]


@pytest.mark.item("BR-23")
async def test_a_server_that_crashes_is_restarted_three_times_then_off_with_one_notice(tmp_path: Path) -> None:
    log, notices = tmp_path / "log", list[str]()
    path, other = write(tmp_path, "a.txt", "crash\n"), write(tmp_path, "b.txt", "fine")
    async with language_servers(tmp_path, [broken("crash", log)], notices) as servers:
        assert (await servers.diagnose({other: "bad"}, PATIENCE))[0].after
        await servers.diagnose({path: "crash"}, PATIENCE)
        assert servers.status()[0]["state"] == ServerState.OFF
        assert starts(log) == 1 + MAX_RESTARTS
        assert await servers.diagnose({other: "bad"}, PATIENCE) != []
        assert starts(log) == 1 + MAX_RESTARTS
    assert len(notices) == 1
    assert "broken is off for this session" in notices[0]


async def test_after_one_crash_the_same_request_is_answered_by_the_restarted_server(tmp_path: Path) -> None:
    log, path = tmp_path / "log", write(tmp_path, "a.txt", "bad\n")
    async with language_servers(tmp_path, [broken("well", log)]) as servers:
        await prepare_all(servers, path)
        os.kill(servers.status()[0]["pid"], signal.SIGKILL)
        report = (await servers.diagnose({path: "bad\nbad\n"}, PATIENCE))[0]
        assert (len(report.after), starts(log), servers.status()[0]["crashes"]) == (2, 2, 1)


async def test_a_server_that_cannot_start_makes_way_for_the_next_of_its_group(tmp_path: Path) -> None:
    log, path, notices = tmp_path / "log", write(tmp_path, "a.txt", "bad\n"), list[str]()
    rows = [broken("exit", log, name="first"), broken("well", log, name="second")]
    async with language_servers(tmp_path, rows, notices) as servers:
        report = (await servers.diagnose({path: "bad"}, PATIENCE))[0]
        assert (len(report.after), servers.status()[0]["name"]) == (1, "second")
    assert notices == []


async def test_a_language_whose_servers_are_not_installed_is_reported_once(tmp_path: Path) -> None:
    log, path, notices = tmp_path / "log", write(tmp_path, "a.txt", "bad\n"), list[str]()
    row = broken("well", log, command=("no-such-language-server",))
    async with language_servers(tmp_path, [row], notices) as servers:
        servers.prepare(path)
        assert await servers.diagnose({path: "bad", write(tmp_path, "b.txt", "bad"): "bad"}, PATIENCE) == []
    assert notices == ["no language server for *.txt is installed; see `dragoman lsp status`"]


async def test_a_server_that_exits_at_once_is_off_and_the_notice_has_its_error(tmp_path: Path) -> None:
    log, path, notices = tmp_path / "log", write(tmp_path, "a.txt", "bad\n"), list[str]()
    async with language_servers(tmp_path, [broken("exit", log)], notices) as servers:
        await servers.diagnose({path: "bad"}, PATIENCE)
    assert len(notices) == 1
    assert "cannot read its configuration" in notices[0]


async def test_a_server_that_never_answers_initialize_is_off_and_late_is_said(tmp_path: Path) -> None:
    log, path, notices = tmp_path / "log", write(tmp_path, "a.txt", "bad\n"), list[str]()
    async with language_servers(tmp_path, [broken("mute", log)], notices, initialize_timeout=0.3) as servers:
        report = (await servers.diagnose({path: "bad"}, 0.2))[0]
        assert (report.after, report.late) == ([], ["broken"])
        await wait_for(lambda: notices, "the notice")
    assert "did not answer initialize" in notices[0]


@pytest.mark.item("BR-24")
async def test_diagnostics_that_do_not_come_are_late_and_the_write_does_not_wait_for_them(tmp_path: Path) -> None:
    log, path = tmp_path / "log", write(tmp_path, "a.txt", "bad\n")
    async with language_servers(tmp_path, [broken("silent", log)]) as servers:
        report = (await servers.diagnose({path: "bad"}, 0.5))[0]
        assert report.late == ["broken"]


async def test_a_server_that_hangs_is_restarted(tmp_path: Path) -> None:
    log, path = tmp_path / "log", write(tmp_path, "a.txt", "fine\n")
    async with language_servers(tmp_path, [broken("hang", log)]) as servers:
        await prepare_all(servers, path)
        for _ in range(3):
            with pytest.raises(LookupError, match="did not answer"):
                await hover(servers, path, 0.2)
        assert await wait_for(lambda: starts(log) == 2, "the restart")


@pytest.mark.parametrize("how", ["noise", "versionless", "positions", "well"])
async def test_noise_missing_versions_and_wrong_positions_are_tolerated(tmp_path: Path, how: str) -> None:
    log, path = tmp_path / "log", write(tmp_path, "a.txt", "fine\n")
    async with language_servers(tmp_path, [broken(how, log)]) as servers:
        await prepare_all(servers, path)
        report = (await servers.diagnose({path: "fine\n  bad\n"}, PATIENCE))[0]
        assert (len(report.after), report.new) == (1, {0})
        place = report.after[0].line, report.after[0].column
        assert place == ((3, 1) if how == "positions" else (2, 3))


async def test_a_huge_answer_fails_its_own_request_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing.HeaderSplitter.__init__, "__defaults__", (1_000_000, 1_000_000))
    log, path = tmp_path / "log", write(tmp_path, "a.txt", "fine\n")
    async with language_servers(tmp_path, [broken("huge", log)]) as servers:
        with pytest.raises(LookupError, match="too large"):
            await hover(servers, path)
        assert (await servers.diagnose({path: "bad"}, PATIENCE))[0].after
        assert starts(log) == 1


@pytest.mark.parametrize("how", ["flood", "babble"])
async def test_a_server_that_floods_is_ended(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_MESSAGES", 500)
    log, path, notices = tmp_path / "log", write(tmp_path, "a.txt", "fine\n"), list[str]()
    async with language_servers(tmp_path, [broken(how, log)], notices) as servers:
        with pytest.raises(LookupError):
            await hover(servers, path)
        assert servers.status()[0]["state"] == ServerState.OFF
        assert ("messages" in notices[0], len(notices)) == (True, 1)


async def test_a_server_that_ignores_exit_is_killed_with_its_group(tmp_path: Path) -> None:
    log, path = tmp_path / "log", write(tmp_path, "a.txt", "fine\n")
    async with language_servers(tmp_path, [broken("stubborn", log)]) as servers:
        await prepare_all(servers, path)
        pid = servers.status()[0]["pid"]
    assert (found := read_process_stat(pid)) is None or not found.is_alive


async def test_an_idle_server_is_stopped_and_started_again_by_the_next_use(tmp_path: Path) -> None:
    log, path = tmp_path / "log", write(tmp_path, "a.txt", "fine\n")
    async with language_servers(tmp_path, [broken("well", log)], idle_timeout=0.1) as servers:
        await prepare_all(servers, path)
        await wait_for(lambda: servers.status()[0]["state"] == ServerState.STOPPED, "the stop")
        assert (await servers.diagnose({path: "bad"}, PATIENCE))[0].after
        assert (starts(log), servers.status()[0]["crashes"]) == (2, 0)


@pytest.mark.item("BR-23")
async def test_a_server_dies_with_us_even_if_we_are_killed(tmp_path: Path) -> None:
    log, path = tmp_path / "log", write(tmp_path, "a.txt", "fine\n")
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.bridge.lsp.projects import broken, prepare_all\n"
        "from dragoman.bridge.lsp.language_servers import LanguageServers\n"
        "async def main():\n"
        "    servers = LanguageServers([sys.argv[1]], [broken('stubborn', Path(sys.argv[2]))])\n"
        "    await prepare_all(servers, sys.argv[3])\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path), str(log), path, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert await process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    await process.wait()
    pid = int(log.read_text().split()[1])
    assert await wait_for(lambda: (found := read_process_stat(pid)) is None or not found.is_alive, "its end")
