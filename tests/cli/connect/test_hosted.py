"""`--host` of run and chat: the same as without it, and --lend, which gives an agent on a host a local folder."""

from __future__ import annotations

import asyncio
import getpass
import json
import re
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dragoman import connect
from dragoman.cli.chat import command as chat
from dragoman.cli.commands import run as run_command
from dragoman.cli.connect.json_output import LogFollower
from dragoman.cli.connect.options import SessionOptions, read_session_options
from dragoman.cli.connect.path_mapping import build_path_mapper
from dragoman.cli.host_client.api import resolve_host
from dragoman.cli.parser import Parser, capture_parser
from dragoman.config.config_file import NamedAgent
from dragoman.schema.content import ResourceLink
from dragoman.store.contract import Entry
from tests.cli.process import DRAGOMAN, TIMEOUT, in_process
from tests.cli.serve_process import Served
from tests.process_start import started

PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

SMALL = [sys.executable, str(Path(__file__).parents[1] / "small_agent.py")]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A host that works in one folder only."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "root").mkdir()
    host = Served(folder, "--bind", "127.0.0.1:0", "--root", str(folder / "root"), agent=SMALL)
    yield host
    host.end(signal.SIGKILL)


@pytest.fixture
def shared_folder(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the host can use too; also the current one."""
    folder = served.folder / "root" / tmp_path.name
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    (folder / "mcp.json").write_text('{"mcpServers": {"files": {"command": "mcp-files", "args": []}}}')
    monkeypatch.chdir(folder)
    return folder


def run(*arguments: str, text: str | None = None) -> Ran:
    """Run `dragoman run` in this process."""
    ran = in_process("run", *arguments, text=text)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


# Ids, times and names differ from run to run; the store and the asking policy, between host and local.
_MASKS = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\bs\d+-[0-9a-f]{8}|\bs\d+\b", "ID"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r',"connection":"ID","promptId":"ID"|,"configured":"[^"]+"', ""),
    (r'"actor":"(?!agent)\w+"', '"actor":"somebody"'),
    (r"--host \S+ ", ""),
    (r"\((mode default: ask \w+|the host asks); ", "(WHY; "),
    (r"longer than [\d.]+ s", "longer than N s"),
    (r'"seq":\d+', '"seq":N'),  # a host also stores and counts members who join and leave
)


def masked(ran: Ran) -> Ran:
    out, err = ran.out, ran.err
    for pattern, mask in _MASKS:
        out, err = re.sub(pattern, mask, out), re.sub(pattern, mask, err)
    return Ran(ran.code, out, err)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("hello",), 0),
        (("--json", "hello"), 0),
        (("--quiet", "--yes", "write b.txt two"), 0),
        (("write b.txt two",), 6),
        (("--json", "--yes", "write b.txt two"), 0),
        (("--yes", "run pwd"), 0),
        (("stop refusal",), 3),
        (("--json", "stop max_tokens"), 4),
        (("fail",), 1),
        (("--json", "fail"), 1),
        (("crash",), 7),
        (("--json", "crash"), 7),
        (("--json", "--timeout", "3", "slow"), 9),
        (("late",), 0),
        (("--file", "a.txt", "look"), 0),
        (("--model", "loud", "hello"), 0),
        (("--json", "--model", "nosuch", "hello"), 1),
        (("--option", "nosuch=1", "hello"), 1),
        (("--mcp", "mcp.json", "hello"), 6),
        (("--trace", "trace.jsonl", "hello"), 0),
        (("--session", "/no", "hello"), 2),
        (("--mcp", "nosuch.json", "hello"), 2),
        (("--timeout", "0", "hello"), 2),
        ((), 0),
        (("with",), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_prompt_on_a_host_ends_as_it_does_locally(
    served: Served, shared_folder: Path, arguments: tuple[str, ...], code: int
) -> None:
    text = "from a pipe" if arguments in ((), ("with",)) else None
    local_run = run(*arguments, "--", *SMALL, text=text)
    (shared_folder / "b.txt").unlink(missing_ok=True)
    (shared_folder / "trace.jsonl").unlink(missing_ok=True)
    host_run = run(*arguments, "--host", served.url, text=text)
    assert local_run.code == code
    assert masked(host_run).out.splitlines() == masked(local_run).out.splitlines()
    assert masked(host_run) == masked(local_run)


def test_a_session_on_a_host_continues_and_prints_only_new_entries(served: Served, shared_folder: Path) -> None:
    assert run("--host", served.url, "--session", "roof", "hello").code == 0
    again = run("--host", served.url, "--session", "roof", "--json", "again")
    kinds = [json.loads(line)["kind"] for line in again.out.splitlines()]
    assert kinds == ["turn_started", "prompt", "update", "turn_ended", "result"]
    assert f"joined roof in {shared_folder}" in run("--host", served.url, "--session", "roof", "more").err
    moved = run("--host", served.url, "--session", "roof", "--cwd", "/", "more").err
    assert f"joined roof in {shared_folder}; --cwd does not count" in moved
    wrong = run("--host", served.url, "--cwd", "nosuch", "hello")
    assert (wrong.code, wrong.err) == (2, f"dragoman run: --cwd {shared_folder}/nosuch is not a folder on the host\n")


@pytest.mark.parametrize("on_host", [False, True], ids=["here", "in a host"])
def test_entries_are_printed_as_they_are_stored_and_ctrl_c_ends_the_turn(
    served: Served, shared_folder: Path, on_host: bool
) -> None:
    where = ("--host", served.url) if on_host else ("--", *SMALL)
    with started([*DRAGOMAN, "run", "--json", "--prompt", "slow", *where], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        lines = (json.loads(line) for line in running.stdout)
        for line in lines:
            if line["kind"] == "update" and line["body"].get("content", {}).get("text") == "slowly":
                break
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        *_, ended, result = lines
        assert (ended["kind"], ended["body"]) == ("turn_ended", {"stopReason": "cancelled"})
        assert result["body"] == {"exitCode": 5, "stopReason": "cancelled", "text": "slowly"}
        assert running.wait(TIMEOUT) == 5


def test_turns_of_other_members_are_not_in_the_answer(served: Served, shared_folder: Path) -> None:
    arguments = [*DRAGOMAN, "run", "--host", served.url, "--session", "queue", "--prompt"]
    with started([*arguments, "await go"], text=True, **PIPES) as first:
        assert first.stdout is not None
        assert first.stdout.read(7) == "waiting"
        with started([*arguments, "mine"], text=True, **PIPES) as second:
            assert second.stderr is not None
            while "queued at position 1" not in second.stderr.readline():
                assert second.poll() is None
            (shared_folder / "go").touch()
            assert second.communicate(timeout=TIMEOUT)[0] == "mine\n"
        assert first.wait(TIMEOUT) == 0


async def test_a_run_without_a_terminal_leaves_questions_to_other_members(served: Served, shared_folder: Path) -> None:
    is_left = asyncio.Event()

    async def permission(_: Any) -> str:
        await is_left.wait()
        return "yes"

    async with connect(f"{served.url}/acp", upgrade=True, permission=permission) as remote:
        session = await remote.open_session(str(shared_folder))
        async with session.prompt("write b.txt two") as turn:
            await anext(aiter(turn))  # it is about to ask
            arguments = ["run", "--host", served.url, "--session", session.id, "--prompt", "mine"]
            ran = await asyncio.create_subprocess_exec(*DRAGOMAN, *arguments, stdin=subprocess.DEVNULL, **PIPES)
            assert ran.stderr is not None
            async with asyncio.timeout(TIMEOUT):
                while b"left to other members: Write b.txt" not in await ran.stderr.readline():
                    assert ran.returncode is None
                is_left.set()
                out, _ = await ran.communicate()
    assert out == b"mine\n"
    assert (shared_folder / "b.txt").read_text() == "two"


def test_the_audit_log_of_a_host_names_the_member_who_decided(served: Served, shared_folder: Path) -> None:
    ran = run("--host", served.url, "--yes", "--prompt", "write c.txt three")
    assert (ran.code, (shared_folder / "c.txt").read_text()) == (0, "three")
    command = [*DRAGOMAN, "audit", "show", "--json"]
    shown = subprocess.run(command, env=served.environ, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    entries = json.loads(shown.stdout)
    decided = [each for each in entries if each["what"] == "decided" and "c.txt" in str(each.get("resource"))]
    assert decided[0]["reason"] == "the user said allow (once)"
    assert decided[0]["detail"]["user"] == getpass.getuser()


# --- --lend -------------------------------------------------------------------------------------------------


@pytest.fixture
def client_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the host does not know; also the current one."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "a.txt").write_text("mine\n")
    monkeypatch.chdir(folder)
    return folder


def test_an_agent_on_a_host_uses_the_clients_folder_under_the_users_policy(served: Served, client_folder: Path) -> None:
    root = served.folder / "root"
    (root / "a.txt").write_text("the host's\n")
    host = ("--host", served.url)
    assert run(*host, "read a.txt").out == "the host's\n"
    read = run(*host, "read a.txt", "--lend")
    assert (read.code, read.out) == (0, "mine\n")
    assert f"files: yours, in {client_folder}\n" in read.err
    refused = run(*host, "--lend=.", "write b.txt two")
    assert (refused.code, "(mode default: ask file_write; use --yes to allow it)" in refused.err) == (6, True)
    denied = run(*host, "--lend=.", "--yes", "--mode", "plan", "write b.txt two")
    assert (denied.code, "mode plan: deny file_write" in denied.err) == (6, True)
    assert run(*host, "--lend=.", "--yes", "write b.txt two").code == 0
    ran = run(*host, "--lend=.", "--yes", "run pwd")
    assert f"\n    {client_folder}\n" in ran.err
    assert (client_folder / "b.txt").read_text() == "two"
    assert not (root / "b.txt").exists()


async def test_access_to_the_clients_folder_ends_with_its_connection(served: Served, client_folder: Path) -> None:
    received: asyncio.Queue[Any] = asyncio.Queue()
    on = {"_dragoman/workspace": lambda params: received.put_nowait(params["files"])}
    announce = {"host": {"presence": True}}
    async with connect(f"{served.url}/acp", upgrade=True, on=on, extra_capabilities=announce) as remote:
        session = await remote.open_session(str(served.folder / "root"))
        arguments = ["run", "--host", served.url, "--session", session.id, "--lend", "--prompt", "read a.txt"]
        ran = await asyncio.create_subprocess_exec(*DRAGOMAN, *arguments, stdout=subprocess.PIPE)
        async with asyncio.timeout(TIMEOUT):
            assert (await ran.communicate())[0] == b"mine\n"
            assert (await received.get())["client"] == "dragoman"
            assert await received.get() == "host"


@pytest.mark.parametrize(
    ("frame", "renamed"),
    [
        ({"path": "/srv/work/a.txt"}, {"path": "/me/a b/a.txt"}),
        ({"cwd": "/srv/work"}, {"cwd": "/me/a b"}),
        ({"uri": "file:///srv/work/a.txt"}, {"uri": "file:///me/a%20b/a.txt"}),
        ({"args": ["-c", "cd /srv/work && make"]}, {"args": ["-c", "cd /me/a b && make"]}),
        ({"title": "Write /srv/work/a.txt"}, {"title": "Write /me/a b/a.txt"}),
        ({"path": "/srv/workshop/a.txt"}, {"path": "/srv/workshop/a.txt"}),
        ({"path": "/data/srv/work/a.txt"}, {"path": "/data/srv/work/a.txt"}),
        ({"content": {"type": "text", "text": "/srv/work"}}, {"content": {"type": "text", "text": "/srv/work"}}),
        ({"content": "/srv/work"}, {"content": "/srv/work"}),
    ],
)
def test_paths_are_mapped_and_texts_are_unchanged(frame: Any, renamed: Any) -> None:
    assert json.loads(build_path_mapper("/srv/work", "/me/a b")(json.dumps(frame).encode())) == renamed


def test_an_invalid_frame_is_unchanged() -> None:
    assert build_path_mapper("/srv/work", "/me")(b'{"path": "/srv/work') == b'{"path": "/srv/work'


# --- the flags ------------------------------------------------------------------------------------------------

# Every flag of run and chat, and the error with --host; empty where the flag works.
FLAGS: dict[str, tuple[tuple[str, ...], str]] = {
    "agent": (("--agent", "other"), ""),
    "agent_mode": (("--agent-mode", "code"), ""),
    "cwd": (("--cwd", "/"), ""),
    "dialect": (("--dialect", "v1"), "the host decides this"),
    "file": (("--file", "a.txt"), ""),
    "image": (("--image", "a.txt"), ""),
    "json": (("--json",), ""),
    "lend": (("--lend",), ""),
    "lsp": (("--lsp",), "the host decides this"),
    "mcp": (("--mcp", "mcp.json"), ""),
    "mode": (("--mode", "plan"), "the host decides this"),
    "model": (("--model", "x"), ""),
    "no_store": (("--no-store",), "the host decides this"),
    "option": (("--option", "a=b"), ""),
    "place": (("--place", "git:https://git.example/x"), ""),
    "policy": (("--policy", "p.toml"), "the host decides this"),
    "prompt": (("--prompt", "x"), ""),
    "prompt_file": (("--prompt-file", "a.txt"), ""),
    "quiet": (("--quiet",), ""),
    "sandbox": (("--sandbox",), "the host decides this"),
    "sandbox_env": (("--sandbox-env", "X"), "the host decides this"),
    "sandbox_limit": (("--sandbox-limit", "memory=1"), "the host decides this"),
    "sandbox_net": (("--sandbox-net", "none"), "the host decides this"),
    "sandbox_read": (("--sandbox-read", "/"), "the host decides this"),
    "sandbox_write": (("--sandbox-write", "/"), "the host decides this"),
    "full": (("--full",), ""),
    "session": (("--session", "roof"), ""),
    "timeout": (("--timeout", "1"), ""),
    "token_file": (("--token-file", "token"), ""),
    "trace": (("--trace", "t"), ""),
    "verbose": (("--verbose",), ""),
    "workspace_tools": (("--workspace-tools",), "the host decides this"),
    "yes": (("--yes",), ""),
}


@pytest.mark.parametrize("command", [run_command.main, chat.main], ids=["run", "chat"])
def test_every_flag_works_with_a_host_or_is_refused_with_a_reason(
    command: Callable[[list[str]], int], shared_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = capture_parser(command)
    assert isinstance(parser, Parser)
    (shared_folder / "token").write_text("dgm_x")
    (shared_folder / "token").chmod(0o600)
    flags = {action.dest for action in parser._actions if action.option_strings} - {"help", "host"}
    assert flags <= FLAGS.keys()  # a new flag has to define what it does with a host
    for name in flags:
        arguments, reason = FLAGS[name]
        options: Namespace = parser.parse_args(["--host", "http://127.0.0.1:1", *arguments])
        try:
            read_session_options(parser, options, [])
            assert reason == "", name
        except SystemExit:
            assert reason, name
            assert reason in capsys.readouterr().err


def test_a_linked_file_is_unreachable_on_another_machine() -> None:
    link = ResourceLink(name="a.bin", uri="file:///here/a.bin")
    agent = NamedAgent(name="a", command="")
    near, far = (
        SessionOptions(agent=agent, host=resolve_host(url)) for url in ("http://127.0.0.1:1", "https://office.example")
    )
    assert run_command.unreachable_files([link], near) == []
    assert run_command.unreachable_files([link], far) == ["a.bin"]
    assert run_command.unreachable_files([link], SessionOptions(agent=agent, host=far.host, lend="/here")) == []


# --- following a log ------------------------------------------------------------------------------------------


async def test_entries_of_other_turns_are_left_out_even_if_the_own_turn_is_known_late() -> None:
    def entry(seq: int, turn: str | None) -> Entry:
        return Entry(seq=seq, kind="update", actor="agent", time="", turn=turn, body={})

    class Log:
        def __init__(self, *entries: Entry) -> None:
            self.entries = list(entries)

        async def read(self, _: str, after: int) -> list[Entry]:
            return self.entries[after:]

    own, seen = "", []
    log = Log(entry(1, None), entry(2, "theirs"), entry(3, None), entry(4, "mine"))
    has_entry = asyncio.Event()

    def on_entry(_: str, entry: Entry) -> None:
        seen.append(entry.seq)
        has_entry.set()

    follower = LogFollower(log, on_entry, lambda: own)  # type: ignore[arg-type]
    follower.start("s", 0)
    async with asyncio.timeout(TIMEOUT):
        await has_entry.wait()
    assert seen == [1]
    own = "mine"
    log.entries.append(entry(5, "next"))
    await follower.finish()
    assert seen == [1, 3, 4]
