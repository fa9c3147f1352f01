"""`dragoman sessions`: list, show, search, fork, export, delete and repair."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.cli import main, sessions
from dragoman.cli.commands import completion
from dragoman.cli.ui.format import format_age
from dragoman.config.paths import user_paths
from dragoman.store.contract import Draft, Summary
from dragoman.store.export import export_session
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from tests.cli.process import OnScreen, dragoman

ROOF, LOFT = "0f0e0d0c-roof", "0f0e0d0c-loft"

Dragoman = Callable[..., int]


def chunk(text: str, role: str = "agent_message_chunk") -> tuple[str, object]:
    """Return one chunk of an answer."""
    return "update", {"sessionUpdate": role, "content": {"type": "text", "text": text}}


def prompted(text: str) -> tuple[str, object]:
    """Return one prompt."""
    return "prompt", {"prompt": [{"type": "text", "text": text}]}


def store_session(
    id: str, *entries: tuple[str, object], name: str | None = None, days: float = 0, cwd: str = "/"
) -> Summary:
    """Store a session that is this many days old."""
    time = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    opened = ("opened", {"sessionId": "s", "cwd": cwd, "agent": {"name": "parrot"}})
    drafts = [
        Draft(kind=kind, actor="agent", time=time, body=body)
        for kind, body in (opened, ("turn_started", {}), *entries, ("turn_ended", {"stopReason": "end_turn"}))
    ]

    async def work() -> Summary:
        store = await SqliteStore.open(user_paths().sessions)
        try:
            await store.append(id, drafts)
            return await store.rename(id, name) if name else await store.find(id)
        finally:
            await store.close()

    return asyncio.run(work())


@pytest.fixture
def two(tmp_path: Path) -> None:
    """A session with a name, and one without."""
    tool = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "Climb up",
        "status": "completed",
        "kind": "other",
    }
    store_session(LOFT, prompted("the loft is dark"), ("turn_ended", {"stopReason": "refusal"}), days=3)
    store_session(
        ROOF,
        prompted("the roof leaks"),
        chunk("hmm", "agent_thought_chunk"),
        ("update", tool),
        chunk("Then **mend** "),
        chunk("it.\x1b[31m"),
        name="roof",
        cwd=str(tmp_path),
    )


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Dragoman:
    """Run the command in this process; return the exit code."""

    def call(*arguments: str) -> int:
        capfd.readouterr()
        try:
            return main.main(["sessions", *arguments])
        except SystemExit as end:
            return int(end.code or 0)

    return call


@pytest.mark.usefixtures("two")
def test_sessions_are_listed_with_name_or_id_prefix(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    first, second = capfd.readouterr().out.splitlines()
    assert first.split() == ["roof", "just", "now", "1", "turn", "parrot", "the", "roof", "leaks"]
    assert second.split()[:4] == ["0f0e0d0c-l", "3", "days", "ago"]  # eight characters would be ambiguous
    assert run("list", "--names") == 0
    assert capfd.readouterr().out.split() == ["roof", "0f0e0d0c-l"]
    assert run("list", "--json", "--last", "1") == 0
    (result,) = json.loads(capfd.readouterr().out)
    assert (result["sessionId"], result["name"], result["turns"]) == (ROOF, "roof", 1)


@pytest.mark.usefixtures("two")
def test_here_lists_only_sessions_of_this_folder(
    run: Dragoman, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--here", "--names") == 0
    assert capfd.readouterr().out == "roof\n"


def test_an_archived_session_is_listed_with_all(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    store_session(LOFT, ("update", {"sessionUpdate": "session_info_update", "_meta": {"dragoman": {"archived": True}}}))
    assert run("--names") == 0
    assert capfd.readouterr().out == ""
    assert run("--names", "--all") == 0
    assert capfd.readouterr().out == "0f0e0d0c\n"


def test_without_a_store_nothing_is_listed_and_nothing_created(
    run: Dragoman, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    assert capfd.readouterr().out == "no sessions are stored yet\n"
    assert run("show", "roof") == 1
    assert capfd.readouterr().err == (
        "dragoman sessions show: there is no session 'roof'; `dragoman sessions` lists all sessions\n"
    )
    assert run("repair") == 0
    assert not os.path.exists(user_paths().sessions)


@pytest.mark.usefixtures("two")
def test_a_session_is_shown_without_control_characters(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("show", "roof") == 0
    output = capfd.readouterr().out
    assert "> the roof leaks\n\n✓ Climb up\n\nThen **mend** it.␛[31m\n" in output
    assert "hmm" not in output
    assert run("show", "roof", "--thoughts") == 0
    assert "\nhmm\n" in capfd.readouterr().out
    assert run("show", LOFT) == 0
    assert "\nthe turn ended: refusal\n" in capfd.readouterr().out


@pytest.mark.usefixtures("two")
def test_a_session_on_a_terminal_has_styles(tmp_path: Path) -> None:
    with OnScreen("sessions", "show", "roof", cwd=tmp_path) as terminal:
        assert terminal.end() == 0
        assert terminal.style_of("mend").bold
        assert terminal.style_of("✓ Climb up").fg == "green"
    with OnScreen("sessions", cwd=tmp_path, columns=60) as terminal:
        assert terminal.end() == 0
        assert terminal.style_of("roof").bold
        assert all(len(line) < 60 for line in terminal.text.splitlines())


@pytest.mark.usefixtures("two")
def test_search_shows_hits_with_their_context(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("search", "ROOF", "leak*") == 0
    assert capfd.readouterr().out.splitlines() == ["roof, just now: the roof leaks", "     3 user: the roof leaks"]
    assert run("search", "the", "--json", "--limit", "1") == 0
    (hit,) = json.loads(capfd.readouterr().out)
    assert set(hit) == {"sessionId", "seq", "role", "snippet", "marks"}
    assert run("search", "the", "--session", "0f0e0d0c-l") == 0
    assert "roof" not in capfd.readouterr().out
    assert run("search", "nowhere") == 1
    assert capfd.readouterr().err == "dragoman sessions search: nothing was found\n"
    assert run("search", "***") == 1


@pytest.mark.usefixtures("two")
def test_a_fork_can_end_earlier_and_names_are_unique(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("fork", "roof", "attic", "--upto", "3", "--json") == 0
    copy = json.loads(capfd.readouterr().out)
    assert (copy["name"], copy["entries"], copy["forkedFrom"]) == ("attic", 3, ROOF)
    assert run("fork", "roof", "attic") == 1
    assert "there is already a session attic" in capfd.readouterr().err
    assert run("rename", "attic", "roof") == 1
    assert run("rename", "attic", "top") == 0
    assert run("rename", "top") == 0
    run("list", "--json")
    assert len(json.loads(capfd.readouterr().out)) == 3


@pytest.mark.usefixtures("two")
def test_delete_checks_all_names_first(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("delete", "roof", "nosuch") == 1
    assert run("delete", "0f0e") == 1  # four characters are too few
    assert run("delete", "roof", LOFT, "--json") == 0
    assert json.loads(capfd.readouterr().out) == {"deleted": [ROOF, LOFT]}
    assert run() == 0
    assert capfd.readouterr().out == "no sessions are stored yet\n"


@pytest.mark.usefixtures("two")
def test_expire_deletes_old_unnamed_sessions(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("expire") == 2
    assert run("expire", "--older", "soon") == 2
    assert run("expire", "--keep", "0", "--dry-run") == 0
    assert capfd.readouterr().out.endswith("1 session would be deleted, 1 kept\n")
    assert run("expire", "--older", "4d") == 0
    assert capfd.readouterr().out == "0 sessions deleted, 2 kept\n"
    assert run("expire", "--older", "2d", "--json") == 0
    assert json.loads(capfd.readouterr().out) == {"expired": [LOFT], "dryRun": False}
    assert run("show", LOFT, "--json") == 1
    assert json.loads(capfd.readouterr().out)["error"]["kind"] == "session_expired"


def exported(file: Path, session_id: str, name: str | None = None, body: Any = None) -> Path:
    """Return a session exported on another machine."""

    async def main() -> bytes:
        store, out = MemoryStore(), io.BytesIO()
        await store.append(session_id, [Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body=body)])
        if name is not None:
            await store.rename(session_id, name)
        await export_session(store, session_id, out, "2026-01-01T00:00:00Z")
        return out.getvalue()

    file.write_bytes(asyncio.run(main()))
    return file


@pytest.mark.parametrize(("id", "name", "called"), [("x", None, "x"), ("x", "the roof", "the roof")])
def test_a_printed_command_quotes_the_session_name(
    run: Dragoman, capfd: pytest.CaptureFixture[str], tmp_path: Path, id: str, name: str | None, called: str
) -> None:
    assert run("import", str(exported(tmp_path / "s.session", id, name))) == 0
    imported = capfd.readouterr().out.partition("continue with: ")[2].partition(" (in ")[0]
    assert run("fork", called) == 0
    assert run("fork", called, "a copy") == 0
    forked = capfd.readouterr().out.splitlines()[-1].partition("continue it with: ")[2]
    for command, session in ((imported, called), (forked, "a copy")):
        assert shlex.split(command) == ["dragoman", "run", "--session", session, "PROMPT"]


def test_a_deeply_nested_import_is_refused_with_a_reason(
    run: Dragoman, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = msgspec.Raw(b"[" * 100_000 + b"]" * 100_000)
    assert run("import", str(exported(tmp_path / "s.session", "deep", body=body))) == 1
    assert capfd.readouterr().err.endswith("this file cannot be imported: an entry is nested too deeply\n")


@pytest.mark.usefixtures("two")
def test_an_exported_session_can_be_imported_unless_changed(
    run: Dragoman, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "roof.session"
    assert run("export", "roof", str(file)) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("export", "roof", str(file)) == 2  # it exists already
    assert run("export", "roof") == 0
    piped = capfd.readouterr().out
    assert run("import", str(file)) == 1  # so is the session
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert dragoman("sessions", "import", "-", cwd=tmp_path, text=piped).returncode == 0
    assert run("show", "roof") == 0
    assert "> the roof leaks" in capfd.readouterr().out
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "third"))
    assert run("import", str(file), "--name", "attic") == 0
    assert f"(in {tmp_path})" in capfd.readouterr().out
    file.write_bytes(file.read_bytes().replace(b"leaks", b"holds"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "fourth"))
    assert run("import", str(file)) == 1
    assert "the file was changed or truncated" in capfd.readouterr().err
    assert run("import", str(tmp_path / "nosuch")) == 1
    assert capfd.readouterr().err.endswith("nosuch: No such file or directory\n")


@pytest.mark.usefixtures("two")
def test_a_damaged_log_shows_intact_entries_and_can_be_repaired(
    run: Dragoman, capfd: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(user_paths().sessions)) as connection, connection:
        connection.execute("UPDATE entries SET entry = replace(entry, 'Climb', 'Fall!') WHERE entry LIKE '%Climb%'")
    assert run("show", "roof") == 1
    output = capfd.readouterr()
    assert "Then **mend** it." in output.out
    assert f"run `dragoman sessions repair {ROOF}`" in output.err
    assert run("repair") == 0
    assert capfd.readouterr().out.splitlines() == [
        f"{ROOF}: 7 entries kept; lost: 5",
        "1 session intact, 1 repaired",
    ]
    assert run("show", "roof") == 0
    assert "entry 5 is lost" in capfd.readouterr().out


@pytest.mark.usefixtures("two")
def test_an_unreadable_file_is_rebuilt_and_the_old_one_kept(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    path = Path(user_paths().sessions)
    with open(path, "r+b") as file:
        file.write(b"x" * 100)
    assert run() == 10
    assert "run `dragoman sessions repair`" in capfd.readouterr().err
    assert run("repair", "--json") == 0
    result = json.loads(capfd.readouterr().out)
    assert {report["sessionId"] for report in result["sessions"]} == {ROOF, LOFT}
    assert Path(result["old"]).read_bytes()[:4] == b"xxxx"
    assert run("show", "roof") == 0


@pytest.mark.parametrize("action", sessions.ACTIONS)
def test_every_action_has_examples(action: str, run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(action, "--help") == 0
    output = capfd.readouterr().out
    assert f"\n  dragoman sessions {action if action != 'list' else ''}" in output.partition("examples:")[2]
    assert "exit codes:" in output
    assert run("--help") == 0
    assert f"\n  {sessions.ACTIONS[action].usage}" in capfd.readouterr().out


def test_an_unknown_action_is_wrong_usage(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("nosuch") == 2
    assert "there is no action 'nosuch'; choose one of: list, show, search" in capfd.readouterr().err
    assert run("show") == 2


def test_session_arguments_are_completed() -> None:
    known = completion.argument_table()
    for command in ("run", "chat", "sessions"):
        assert any(taken.flag == "--session" and taken.value_kind == "sessions" for taken in known[command])
    assert any(not taken.flag and taken.value_kind == "sessions" for taken in known["sessions"])
    for shell in (completion.bash_script, completion.zsh_script, completion.fish_script):
        assert "dragoman sessions list --names" in shell(known)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (7200, "2 hours ago"),
        (86400, "1 day ago"),
        (29 * 86400, "29 days ago"),
        (40 * 86400, "2026-01-20"),
    ],
)
def test_ages_are_formatted_for_people(seconds: int, expected: str) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert format_age((now - timedelta(seconds=seconds)).isoformat(), now) == expected
    assert format_age("yesterday-ish", now) == "at some time"


def test_a_session_name_that_is_almost_right_is_answered_with_the_right_one(
    run: Dragoman, two: None, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("show", "rooof") == 1
    assert capfd.readouterr().err == "dragoman sessions show: there is no session 'rooof'; did you mean roof?\n"
    assert run("export", "roof1") == 1
    assert "did you mean roof?" in capfd.readouterr().err
