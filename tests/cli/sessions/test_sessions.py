"""`dragoman sessions`: what is kept is listed, shown, found, copied, carried, forgotten and mended."""

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
from dragoman.cli.sessions.open_store import format_age
from dragoman.config.paths import user_paths
from dragoman.store.contract import Draft, Summary
from dragoman.store.export import export_session
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from tests.cli.process import OnScreen, dragoman

ROOF, LOFT = "0f0e0d0c-roof", "0f0e0d0c-loft"

Dragoman = Callable[..., int]


def said(text: str, role: str = "agent_message_chunk") -> tuple[str, object]:
    """One piece of an answer."""
    return "update", {"sessionUpdate": role, "content": {"type": "text", "text": text}}


def prompted(text: str) -> tuple[str, object]:
    """One prompt."""
    return "prompt", {"prompt": [{"type": "text", "text": text}]}


def keep(id: str, *entries: tuple[str, object], name: str | None = None, days: float = 0, cwd: str = "/") -> Summary:
    """Put a session into the user's store, so many days old."""
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
    keep(LOFT, prompted("the loft is dark"), ("turn_ended", {"stopReason": "refusal"}), days=3)
    keep(
        ROOF,
        prompted("the roof leaks"),
        said("hmm", "agent_thought_chunk"),
        ("update", tool),
        said("Then **mend** "),
        said("it.\x1b[31m"),
        name="roof",
        cwd=str(tmp_path),
    )


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Dragoman:
    """Call the command in this process; the exit code."""

    def call(*words: str) -> int:
        capfd.readouterr()
        try:
            return main.main(["sessions", *words])
        except SystemExit as end:
            return int(end.code or 0)

    return call


@pytest.mark.usefixtures("two")
def test_they_are_listed_by_what_one_types_to_mean_them(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    first, second = capfd.readouterr().out.splitlines()
    assert first.split() == ["roof", "just", "now", "1", "turn", "parrot", "the", "roof", "leaks"]
    assert second.split()[:4] == ["0f0e0d0c-l", "3", "days", "ago"]  # eight characters would mean both
    assert run("list", "--names") == 0
    assert capfd.readouterr().out.split() == ["roof", "0f0e0d0c-l"]
    assert run("list", "--json", "--last", "1") == 0
    (told,) = json.loads(capfd.readouterr().out)
    assert (told["sessionId"], told["name"], told["turns"]) == (ROOF, "roof", 1)


@pytest.mark.usefixtures("two")
def test_those_of_this_folder_can_be_listed_alone(
    run: Dragoman, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--here", "--names") == 0
    assert capfd.readouterr().out == "roof\n"


def test_one_that_was_put_away_is_listed_when_asked_for(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    keep(LOFT, ("update", {"sessionUpdate": "session_info_update", "_meta": {"dragoman": {"archived": True}}}))
    assert run("--names") == 0
    assert capfd.readouterr().out == ""
    assert run("--names", "--all") == 0
    assert capfd.readouterr().out == "0f0e0d0c\n"


def test_where_nothing_is_kept_that_is_said_and_nothing_made(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert capfd.readouterr().out == "nothing is kept yet\n"
    assert run("show", "roof") == 1
    assert capfd.readouterr().err == "dragoman sessions show: there is no session 'roof' in this store\n"
    assert run("repair") == 0
    assert not os.path.exists(user_paths().sessions)


@pytest.mark.usefixtures("two")
def test_one_is_shown_without_letting_anything_in_it_act(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("show", "roof") == 0
    shown = capfd.readouterr().out
    assert "> the roof leaks\n\n✓ Climb up\n\nThen **mend** it.␛[31m\n" in shown
    assert "hmm" not in shown
    assert run("show", "roof", "--thoughts") == 0
    assert "\nhmm\n" in capfd.readouterr().out
    assert run("show", LOFT) == 0
    assert "\nthe turn ended: refusal\n" in capfd.readouterr().out


@pytest.mark.usefixtures("two")
def test_on_a_terminal_it_has_ink(tmp_path: Path) -> None:
    with OnScreen("sessions", "show", "roof", cwd=tmp_path) as terminal:
        assert terminal.end() == 0
        assert terminal.style_of("mend").bold
        assert terminal.style_of("✓ Climb up").fg == "green"
    with OnScreen("sessions", cwd=tmp_path, columns=60) as terminal:
        assert terminal.end() == 0
        assert terminal.style_of("roof").bold
        assert all(len(line) < 60 for line in terminal.text.splitlines())


@pytest.mark.usefixtures("two")
def test_words_are_found_with_what_stands_around_them(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
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
def test_a_copy_can_end_earlier_and_names_are_given_once(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("fork", "roof", "attic", "--upto", "3", "--json") == 0
    copy = json.loads(capfd.readouterr().out)
    assert (copy["name"], copy["entries"], copy["forkedFrom"]) == ("attic", 3, ROOF)
    assert run("fork", "roof", "attic") == 1
    assert "there is a session attic already" in capfd.readouterr().err
    assert run("rename", "attic", "roof") == 1
    assert run("rename", "attic", "top") == 0
    assert run("rename", "top") == 0
    run("list", "--json")
    assert len(json.loads(capfd.readouterr().out)) == 3


@pytest.mark.usefixtures("two")
def test_what_is_deleted_is_meant_and_all_of_it_is_there(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("delete", "roof", "nosuch") == 1
    assert run("delete", "0f0e") == 1  # four characters may be anything
    assert run("delete", "roof", LOFT, "--json") == 0
    assert json.loads(capfd.readouterr().out) == {"deleted": [ROOF, LOFT]}
    assert run() == 0
    assert capfd.readouterr().out == "nothing is kept yet\n"


@pytest.mark.usefixtures("two")
def test_what_is_old_and_has_no_name_goes(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("expire") == 2
    assert run("expire", "--older", "soon") == 2
    assert run("expire", "--keep", "0", "--dry-run") == 0
    assert capfd.readouterr().out.endswith("1 session would be gone, 1 kept\n")
    assert run("expire", "--older", "4d") == 0
    assert capfd.readouterr().out == "0 sessions are gone, 2 kept\n"
    assert run("expire", "--older", "2d", "--json") == 0
    assert json.loads(capfd.readouterr().out) == {"expired": [LOFT], "dryRun": False}
    assert run("show", LOFT, "--json") == 1
    assert json.loads(capfd.readouterr().out)["error"]["kind"] == "session_expired"


def exported(file: Path, session_id: str, name: str | None = None, body: Any = None) -> Path:
    """A session as another machine may have made it."""

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
def test_a_command_to_paste_holds_the_name_as_one_word(
    run: Dragoman, capfd: pytest.CaptureFixture[str], tmp_path: Path, id: str, name: str | None, called: str
) -> None:
    assert run("import", str(exported(tmp_path / "s.session", id, name))) == 0
    imported = capfd.readouterr().out.partition("go on with: ")[2].partition(" (it works")[0]
    assert run("fork", called) == 0
    assert run("fork", called, "a copy") == 0
    forked = capfd.readouterr().out.splitlines()[-1].partition("go on with: ")[2]
    for command, session in ((imported, called), (forked, "a copy")):
        assert shlex.split(command) == ["dragoman", "run", "--session", session, "PROMPT"]


def test_a_file_that_is_nested_without_end_is_refused_with_a_reason(
    run: Dragoman, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = msgspec.Raw(b"[" * 100_000 + b"]" * 100_000)
    assert run("import", str(exported(tmp_path / "s.session", "deep", body=body))) == 1
    assert capfd.readouterr().err.endswith("this file cannot be imported: an entry is nested too deeply\n")


@pytest.mark.usefixtures("two")
def test_it_is_carried_in_one_file_that_nobody_may_change(
    run: Dragoman, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "roof.session"
    assert run("export", "roof", str(file)) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("export", "roof", str(file)) == 2  # it is there already
    assert run("export", "roof") == 0
    piped = capfd.readouterr().out
    assert run("import", str(file)) == 1  # so is the session
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert dragoman("sessions", "import", "-", cwd=tmp_path, text=piped).returncode == 0
    assert run("show", "roof") == 0
    assert "> the roof leaks" in capfd.readouterr().out
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "third"))
    assert run("import", str(file), "--name", "attic") == 0
    assert f"(it works in {tmp_path})" in capfd.readouterr().out
    file.write_bytes(file.read_bytes().replace(b"leaks", b"holds"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "fourth"))
    assert run("import", str(file)) == 1
    assert "it was changed or cut" in capfd.readouterr().err
    assert run("import", str(tmp_path / "nosuch")) == 1
    assert capfd.readouterr().err.endswith("nosuch: No such file or directory\n")


@pytest.mark.usefixtures("two")
def test_what_is_intact_of_a_damaged_log_is_shown_and_a_repair_makes_it_whole(
    run: Dragoman, capfd: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(user_paths().sessions)) as connection, connection:
        connection.execute("UPDATE entries SET entry = replace(entry, 'Climb', 'Fall!') WHERE entry LIKE '%Climb%'")
    assert run("show", "roof") == 1
    shown = capfd.readouterr()
    assert "Then **mend** it." in shown.out
    assert f"run `dragoman sessions repair {ROOF}`" in shown.err
    assert run("repair") == 0
    assert capfd.readouterr().out.splitlines() == [
        f"{ROOF}: 7 entries are kept; lost: 5",
        "1 session in order, 1 repaired",
    ]
    assert run("show", "roof") == 0
    assert "entry 5 is lost" in capfd.readouterr().out


@pytest.mark.usefixtures("two")
def test_a_file_that_cannot_be_read_is_made_anew_and_the_old_one_kept(
    run: Dragoman, capfd: pytest.CaptureFixture[str]
) -> None:
    path = Path(user_paths().sessions)
    with open(path, "r+b") as file:
        file.write(b"x" * 100)
    assert run() == 10
    assert "run `dragoman sessions repair`" in capfd.readouterr().err
    assert run("repair", "--json") == 0
    told = json.loads(capfd.readouterr().out)
    assert {report["sessionId"] for report in told["sessions"]} == {ROOF, LOFT}
    assert Path(told["old"]).read_bytes()[:4] == b"xxxx"
    assert run("show", "roof") == 0


@pytest.mark.parametrize("action", sessions.ACTIONS)
def test_every_action_teaches_by_example(action: str, run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(action, "--help") == 0
    shown = capfd.readouterr().out
    assert f"\n  dragoman sessions {action if action != 'list' else ''}" in shown.partition("examples:")[2]
    assert "exit codes:" in shown
    assert run("--help") == 0
    assert f"dragoman sessions {sessions.ACTIONS[action].usage}" in capfd.readouterr().out


def test_another_word_is_wrong_usage(run: Dragoman, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("nosuch") == 2
    assert "there is no 'nosuch'; try: list, show, search" in capfd.readouterr().err
    assert run("show") == 2


def test_sessions_are_completed_wherever_one_is_wanted() -> None:
    known = completion.argument_table()
    for command in ("run", "chat", "sessions"):
        assert any(taken.flag == "--session" and taken.value_kind == "sessions" for taken in known[command])
    assert any(not taken.flag and taken.value_kind == "sessions" for taken in known["sessions"])
    for shell in (completion.bash_script, completion.zsh_script, completion.fish_script):
        assert "dragoman sessions list --names" in shell(known)


@pytest.mark.parametrize(
    ("seconds", "said"),
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
def test_times_are_said_as_people_say_them(seconds: int, said: str) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert format_age((now - timedelta(seconds=seconds)).isoformat(), now) == said
    assert format_age("yesterday-ish", now) == "at some time"
