"""The folders of a session are checked before each start of its agent: unchanged, and under the roots."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.config.config_file import NamedAgent
from dragoman.errors import Kind
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.host.host import Host
from dragoman.policy.decide import Policy
from dragoman.roles.client.permission.guard import Guard
from dragoman.schema.config import SessionMode
from dragoman.schema.mcp import McpServer, NameValue
from dragoman.store.contract import Draft, Store
from dragoman.store.export import export_session, import_session
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from dragoman.transport.remote.server.auth import Principal
from tests.host.auth.test_roles import denied
from tests.host.http.test_app import hosted_app
from tests.host.memory_host import TIMEOUT, Hosted, open_session, running_host, talker
from tests.host.pool.test_pool import REAL
from tests.host.pool.test_process_limits import agents
from tests.host.room.test_workspace import free_guard

REMOTE = {"is_local": False}


def own_folders(base: Path) -> Callable[[Principal], Sequence[str] | None]:
    """Return the roots: any for the owner, a folder of their name for others."""
    for user in ("ann", "ben"):
        (base / user / "x").mkdir(parents=True, exist_ok=True)
        (base / user / "more").mkdir(exist_ok=True)
    (base / "private").mkdir(exist_ok=True)
    (base / "private" / "note.txt").write_text("PRIVATE")
    return lambda principal: None if principal.is_local else (str(base / principal.user),)


def swap(folder: Path, target: Path) -> Callable[[], None]:
    """Put a link in the place of a folder. Return how to undo it."""
    aside = folder.with_name(f"{folder.name}-aside")
    folder.rename(aside)
    folder.symlink_to(target)

    def back() -> None:
        folder.unlink()
        aside.rename(folder)

    return back


def last(hosted: Hosted) -> Any:
    """Return the session that was opened last, as the agent that was started last sees it."""
    return [*hosted.agents[-1].sessions.values()][-1]


@pytest.mark.parametrize("ends", ["asleep", "dead"])
@pytest.mark.parametrize("which", ["cwd", "above", "additional"])
async def test_an_agent_is_not_started_in_a_folder_that_became_a_link(which: str, ends: str, tmp_path: Path) -> None:
    roots = own_folders(tmp_path)
    (tmp_path / "ben" / "x" / "deep").mkdir()
    (tmp_path / "private" / "deep").mkdir()
    folder = {"above": "x", "cwd": "x/deep", "additional": "more"}[which]

    async with running_host(roots_of=roots) as hosted, hosted.client("ben", principal=REMOTE) as ben:
        more = [str(tmp_path / "ben" / "more")]
        session = await open_session(ben, tmp_path / "ben" / "x" / "deep", directories=more)
        assert await session.ask("one") == "heard one"
        if ends == "dead":
            await denied(session.ask("die"))
        else:
            await hosted.room.agent.stop()
        back = swap(tmp_path / "ben" / folder, tmp_path / "private")
        before = len(hosted.started)
        refused = await denied(session.ask("two"))
        assert refused.kind == Kind.PERMISSION_DENIED
        assert "a link" in refused.message
        assert "private" not in refused.message
        for work in (session.set_mode("ask"), ben.request("_any", {"sessionId": session.id})):
            assert (await denied(work)).kind == Kind.PERMISSION_DENIED
        assert len(hosted.started) == before
        back()
        assert await session.ask("three") == "heard three"
        assert last(hosted).directories == more


async def test_a_folder_that_became_a_link_is_refused_after_a_restart_of_the_host_too(tmp_path: Path) -> None:
    roots, directory = own_folders(tmp_path), MemorySessionRoles("owner")

    store = await SqliteStore.open(str(tmp_path / "log.db"))
    async with running_host(roots_of=roots, store=store, session_roles=directory) as hosted:
        async with hosted.client("ben", principal=REMOTE) as ben:
            session = await open_session(ben, tmp_path / "ben" / "x")
    back = swap(tmp_path / "ben" / "x", tmp_path / "private")
    async with running_host(roots_of=roots, store=store, session_roles=directory) as hosted:
        async with hosted.client("ben", principal=REMOTE) as ben:
            again = await ben.load_session(session.id, "/")  # reading it is allowed
            assert (await denied(again.ask("two"))).kind == Kind.PERMISSION_DENIED
            back()
            assert await again.ask("two") == "heard two"
    await store.close()


async def test_a_missing_folder_gives_an_error(tmp_path: Path) -> None:
    roots = own_folders(tmp_path)

    async with running_host(roots_of=roots) as hosted, hosted.client("ben", principal=REMOTE) as ben:
        session = await open_session(ben, tmp_path / "ben" / "x")
        await hosted.room.agent.stop()
        (tmp_path / "ben" / "x").rmdir()
        refused = await denied(session.ask("two"))
        assert (refused.kind, "does not exist" in refused.message) == (Kind.RESOURCE_NOT_FOUND, True)


async def test_an_unrestricted_user_may_use_a_link_that_still_leads_to_the_same_folder(
    tmp_path: Path,
) -> None:
    real, other, link = (tmp_path / name for name in ("real", "other", "link"))
    real.mkdir()
    other.mkdir()
    link.symlink_to(real)

    store = await SqliteStore.open(str(tmp_path / "log.db"))
    directory = MemorySessionRoles("ann")
    async with running_host(store=store, session_roles=directory) as hosted, hosted.client("ann") as ann:
        session = await open_session(ann, link)
        assert await session.ask("one") == "heard one"
        assert last(hosted).cwd == str(link)
    async with running_host(store=store, session_roles=directory) as hosted, hosted.client("ann") as ann:
        again = await ann.load_session(session.id, str(link))
        assert await again.ask("two") == "heard two"
        assert last(hosted).cwd == str(link)
        await hosted.room.agent.stop()
        link.unlink()
        link.symlink_to(other)
        assert (await denied(again.ask("three"))).kind == Kind.PERMISSION_DENIED
    await store.close()


@pytest.mark.parametrize("is_used", [False, True])
async def test_files_behind_a_folder_that_became_a_link_are_refused_while_the_agent_runs(
    is_used: bool, tmp_path: Path
) -> None:
    roots = own_folders(tmp_path)
    folder = tmp_path / "ben" / "x"
    (folder / "note.txt").write_text("OWN")

    async with (
        running_host(roots_of=roots, make_guard=free_guard) as hosted,
        hosted.client("ben", principal=REMOTE) as ben,
    ):
        session = await open_session(ben, folder)
        if is_used:
            assert await session.ask(f"read {folder}/note.txt") == "OWN"
        back = swap(folder, tmp_path / "private")
        error = await denied(session.ask(f"read {folder}/note.txt"))
        assert "PRIVATE" not in error.message
        await denied(session.ask(f"write {folder}/new.txt x"))
        assert not (tmp_path / "private" / "new.txt").exists()
        back()
        assert await session.ask(f"read {folder}/note.txt") == "OWN"


async def test_commands_in_a_folder_that_became_a_link_are_refused_while_the_agent_runs(tmp_path: Path) -> None:
    roots = own_folders(tmp_path)

    def runner() -> Agent:
        agent = Agent("runner")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            stop_host = await turn.terminals.run("touch", ["made"])
            await turn.say(f"{stop_host.exit_code}")

        return agent

    async with running_host(runner, roots_of=roots, make_guard=free_guard) as hosted:
        async with hosted.client("ben", principal=REMOTE) as ben:
            for is_used in (False, True):
                folder = tmp_path / "ben" / f"used-{is_used}"
                folder.mkdir()
                session = await open_session(ben, folder)
                if is_used:
                    assert await session.ask("run") == "0"
                    assert (folder / "made").exists()
                swap(folder, tmp_path / "private")
                await denied(session.ask("run"))
                assert not (tmp_path / "private" / "made").exists()


async def test_policy_does_not_treat_a_folder_that_became_a_link_as_workspace(tmp_path: Path) -> None:
    roots = own_folders(tmp_path)
    folder = tmp_path / "ben" / "x"

    def editor() -> Agent:
        agent = Agent("editor")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            async with turn.tool("Edit", kind="edit", paths=[f"{folder}/note.txt"]) as call:
                await turn.say("allowed" if await call.ask_permission() else "refused")

        return agent

    def guard(ask: Any) -> Guard:
        return Guard(Policy(mode="acceptEdits"), ask=ask)

    async with running_host(editor, roots_of=roots, make_guard=guard) as hosted:
        async with hosted.client("ben", principal=REMOTE, permission="deny") as ben:
            session = await open_session(ben, folder)
            assert await session.ask("edit") == "allowed"
            swap(folder, tmp_path / "private")
            assert await session.ask("edit") == "refused"


async def test_the_roots_of_the_opener_apply_when_the_agent_starts(tmp_path: Path) -> None:
    given, directory = own_folders(tmp_path), MemorySessionRoles("owner")

    store = MemoryStore()
    options: dict[str, Any] = {"store": store, "session_roles": directory}
    async with running_host(roots_of=given, **options) as hosted, hosted.client("ann", principal=REMOTE) as ann:
        session = await open_session(ann, tmp_path / "ann" / "x")
        await directory.set_role(session.id, "ben", "editor")
        await hosted.room.agent.stop()
        async with hosted.client("ben", principal=REMOTE) as ben:
            theirs = await ben.load_session(session.id, "/")
            assert await theirs.ask("two") == "heard two"  # it belongs to ann, who may work there
    async with running_host(roots_of=lambda _: (str(tmp_path / "ben"),), **options) as hosted:
        for user in ("ann", "ben"):
            async with hosted.client(user, principal=REMOTE) as remote:
                again = await remote.load_session(session.id, "/")
                refused = await denied(again.ask("three"))
                assert refused.kind == Kind.PERMISSION_DENIED
                assert "ann" in refused.message


async def test_without_the_opener_the_roots_of_the_admins_apply(tmp_path: Path) -> None:
    roots, directory = own_folders(tmp_path), MemorySessionRoles("owner")

    async with running_host(roots_of=roots, session_roles=directory) as hosted:
        async with hosted.client("ann", principal=REMOTE) as ann, hosted.client("ben", principal=REMOTE) as ben:
            session = await open_session(ann, tmp_path / "ann" / "x")
            await directory.set_role(session.id, "ben", "admin")
            theirs = await ben.load_session(session.id, "/")
            await directory.set_role(session.id, "ann", None)
            await hosted.room.agent.stop()
            assert (await denied(theirs.ask("two"))).kind == Kind.PERMISSION_DENIED


# --- forks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps", [False, True])
async def test_a_fork_into_a_folder_outside_the_users_roots_is_refused(keeps: bool, tmp_path: Path) -> None:
    roots, directory = own_folders(tmp_path), MemorySessionRoles("owner")
    own = MemoryStore()

    make = (lambda: talker(store=own)) if keeps else talker
    async with running_host(make, roots_of=roots, session_roles=directory) as hosted:
        async with hosted.client("ann", principal=REMOTE) as ann, hosted.client("ben", principal=REMOTE) as ben:
            hers = await open_session(ann, tmp_path / "ann" / "x")
            await hers.ask("one")
            await directory.set_role(hers.id, "ben", "editor")
            refused = await denied(ben.fork_session(hers.id, str(tmp_path / "ben")))
            assert refused.kind == Kind.PERMISSION_DENIED
            assert str(tmp_path / "ben") in refused.message
            assert len(await hosted.host.store.sessions()) == 1
            fork = await ann.fork_session(hers.id, "/")
            assert await fork.ask("two") == "heard two"
            async with hosted.client("owner") as owner:
                await directory.set_role(hers.id, "owner", "editor")
                assert await (await owner.fork_session(hers.id, "/")).ask("three") == "heard three"


async def test_a_fork_with_an_additional_folder_outside_the_roots_is_refused(tmp_path: Path) -> None:
    own_folders(tmp_path)
    directory = MemorySessionRoles("owner")

    def roots(principal: Principal) -> Sequence[str]:
        return tuple(str(tmp_path / name) for name in ("ann", "ben") if name == "ben" or principal.user == "ann")

    async with running_host(roots_of=roots, session_roles=directory) as hosted:
        async with hosted.client("ann", principal=REMOTE) as ann, hosted.client("ben", principal=REMOTE) as ben:
            folder, more = tmp_path / "ben" / "x", [str(tmp_path / "ann" / "more")]
            plain, wide = await open_session(ann, folder), await open_session(ann, folder, directories=more)
            for session in (plain, wide):
                await directory.set_role(session.id, "ben", "editor")
            assert (await denied(ben.fork_session(wide.id, "/"))).kind == Kind.PERMISSION_DENIED
            assert await (await ben.fork_session(plain.id, "/")).ask("x") == "heard x"


async def test_the_api_refuses_a_fork_outside_the_callers_roots(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        place = f"/api/sessions/{at.session}"
        await at.ann("POST", f"{place}/members", {"user": "ben", "role": "editor"})
        refused = await at.ben("POST", f"{place}/fork", {})
        assert (refused.status, refused.json["error"]["kind"]) == (403, Kind.PERMISSION_DENIED)
        assert len(await at.hosted.host.store.sessions()) == 1
        assert (await at.ann("POST", f"{place}/fork", {})).status == 200


@pytest.mark.parametrize("ends", ["awake", "asleep"])
async def test_the_api_names_no_files_behind_a_folder_that_became_a_link(tmp_path: Path, ends: str) -> None:
    folder = tmp_path / "work" / "x"
    folder.mkdir(parents=True)
    (folder / "own.txt").write_text("own")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "note.txt").write_text("PRIVATE")
    async with hosted_app(tmp_path) as at, at.hosted.client("ann") as remote:
        session = await open_session(remote, folder)
        assert await session.ask("one") == "heard one"
        place = f"/api/sessions/{session.id}/files"
        assert (await at.ann("GET", place)).json["files"] == ["own.txt"]
        if ends == "asleep":
            await at.hosted.host.rooms[session.id].agent.stop()
        swap(folder, tmp_path / "private")
        refused = await at.ann("GET", place)
        assert (refused.status, "note.txt" in str(refused.json)) == (403, False)


async def test_a_fork_is_not_started_where_its_owner_lost_access(tmp_path: Path) -> None:
    own_folders(tmp_path)
    allowed, directory = [str(tmp_path / "ann"), str(tmp_path / "ben")], MemorySessionRoles("owner")

    async with running_host(roots_of=lambda _: tuple(allowed), session_roles=directory) as hosted:
        async with hosted.client("ann", principal=REMOTE) as ann, hosted.client("ben", principal=REMOTE) as ben:
            hers = await open_session(ann, tmp_path / "ann" / "x")
            await directory.set_role(hers.id, "ben", "editor")
            his = await ben.fork_session(hers.id, "/")
            assert await his.ask("one") == "heard one"
            await hosted.host.rooms[his.id].agent.stop()
            allowed.remove(str(tmp_path / "ann"))
            assert (await denied(his.ask("two"))).kind == Kind.PERMISSION_DENIED


async def test_a_fork_has_no_servers_or_credentials_of_others(
    tmp_path: Path,
) -> None:
    roots, directory = own_folders(tmp_path), MemorySessionRoles("owner")
    known = McpServer(name="docs", command="/bin/docs", args=[], env=[])
    secret = [NameValue(name="TOKEN", value="s3cret")]
    private = McpServer(name="private", command="/bin/private", args=[], env=secret)

    async with running_host(roots_of=roots, session_roles=directory, mcp_servers={"docs": known}) as hosted:
        async with hosted.client("owner") as owner, hosted.client("ben", principal=REMOTE) as ben:
            hers = await open_session(owner, tmp_path / "ben" / "x", mcp_servers=[known, private])
            await directory.set_role(hers.id, "ben", "editor")
            his, own = await ben.fork_session(hers.id, "/"), await owner.fork_session(hers.id, "/")
            assert await his.ask("x") == "heard x"
            assert last(hosted).mcp_servers == [known]
            assert await own.ask("x") == "heard x"
            assert last(hosted).mcp_servers == [known, private]
            assert await hosted.host.store.credentials(his.id) == {}
            await hosted.host.rooms[hers.id].agent.stop()
            theirs = await ben.load_session(hers.id, "/")
            await theirs.ask("x")  # it belongs to the owner, whoever starts it
            assert last(hosted).mcp_servers == [known, private]


# --- imported sessions ------------------------------------------------------------------------------------------

MODES = [SessionMode(id="ask", name="Ask"), SessionMode(id="yolo", name="Yolo")]


def moded() -> Agent:
    return talker(modes=MODES)


async def imported(store: Store, cwd: str, **more: Any) -> str:
    """Store a session that another program wrote."""
    body = {
        "sessionId": "theirs",
        "by": "session/new",
        "cwd": cwd,
        "agent": {"name": "talker", "configured": "talker"},
        "additionalDirectories": ["/", "/etc"],
        "resolved": {cwd: "/"},
        "mcpServers": [{"name": "evil", "command": "/bin/sh", "args": ["-c", "evil"], "env": []}],
        "modes": {"currentModeId": "yolo", "availableModes": [{"id": "yolo", "name": "Yolo"}]},
    } | more
    elsewhere = MemoryStore()
    drafts = [
        Draft(kind="opened", actor="owner", time="2026-01-01T00:00:00Z", body=body),
        Draft(kind="member", actor="owner", time="2026-01-01T00:00:00Z", body={"owner": "owner"}),
    ]
    await elsewhere.append("theirs", drafts)
    file = io.BytesIO()
    await export_session(elsewhere, "theirs", file, "2026-01-02T00:00:00Z")
    file.seek(0)
    return (await import_session(store, file)).session_id


@asynccontextmanager
async def stored(tmp_path: Path, durable: bool) -> AsyncIterator[Store]:
    store: Any = await SqliteStore.open(str(tmp_path / "log.db")) if durable else MemoryStore()
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("way", ["itself", "fork", "fork in the store"])
async def test_an_imported_session_brings_no_servers_folders_or_mode(way: str, durable: bool, tmp_path: Path) -> None:
    async with stored(tmp_path, durable) as store:
        session = await imported(store, str(tmp_path))
        async with running_host(moded, store=store, session_roles=MemorySessionRoles("owner")) as hosted:
            async with hosted.client("owner") as owner:
                if way == "fork in the store":
                    session = (await store.fork(session, "copy")).session_id
                opening = (
                    owner.fork_session(session, "/") if way == "fork" else owner.load_session(session, str(tmp_path))
                )
                theirs = await opening
                for _ in range(2):
                    assert await theirs.ask("hello") == "heard hello"
                    seen = last(hosted)
                    assert (seen.cwd, seen.directories, seen.mcp_servers) == (str(tmp_path), [], [])
                    assert seen.mode == "ask"
                    await hosted.host.rooms[theirs.id].agent.stop()
                await theirs.set_mode("yolo")  # set here
                await hosted.host.rooms[theirs.id].agent.stop()
                await theirs.ask("hello")
                assert last(hosted).mode == "yolo"


@pytest.mark.parametrize("cwd", ["{base}/private", "{base}/ann/link", "{base}/ann/../private", ".", "/\0", "", None])
async def test_an_imported_session_works_only_under_its_owners_roots(cwd: str | None, tmp_path: Path) -> None:
    own_folders(tmp_path)
    (tmp_path / "ann" / "link").symlink_to(tmp_path / "private")
    place = cwd if cwd is None else cwd.format(base=tmp_path)

    store = MemoryStore()
    session = await imported(store, place, resolved={place or "": str(tmp_path / "ann")})  # type: ignore[arg-type]
    options: dict[str, Any] = {"store": store, "session_roles": MemorySessionRoles("owner")}
    async with running_host(roots_of=lambda _: (str(tmp_path / "ann"),), **options) as hosted:
        async with hosted.client("owner") as owner:
            theirs = await owner.load_session(session, "/")
            refused = await denied(theirs.ask("hello"))
            assert refused.kind in (Kind.PERMISSION_DENIED, Kind.INVALID_PARAMS)
            assert len(hosted.started) == 1  # for initialize


async def test_the_owner_named_in_an_imported_file_is_ignored(tmp_path: Path) -> None:
    roots = own_folders(tmp_path)

    store, directory = MemoryStore(), MemorySessionRoles("owner")
    session = await imported(store, str(tmp_path / "private"))
    async with (
        running_host(roots_of=roots, store=store, session_roles=directory) as hosted,
        hosted.client("owner") as owner,
    ):
        theirs = await owner.load_session(session, "/")
        assert hosted.room.opener != "owner"
        assert await hosted.room.agent.login_user() is None  # nobody's login
        await directory.set_role(session, "owner", "editor")
        await directory.set_role(session, "ben", "admin")
        assert (await denied(theirs.ask("x"))).kind == Kind.PERMISSION_DENIED  # ben may not work there


async def test_servers_named_in_session_load_are_not_started(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann:
        session = await open_session(ann, tmp_path)
        await hosted.room.agent.stop()
        evil = McpServer(name="evil", command="/bin/sh", args=["-c", "evil"], env=[])
        again = await ann.load_session(session.id, "/etc", mcp_servers=[evil], directories=["/"])
        await again.ask("x")
        seen = last(hosted)
        assert (seen.cwd, seen.directories, seen.mcp_servers) == (str(tmp_path), [], [])


async def test_a_session_of_another_program_is_started_for_the_owner_of_the_host(tmp_path: Path) -> None:
    store = MemoryStore()
    body = {"sessionId": "cli", "by": "session/new", "cwd": str(tmp_path), "agent": {"name": "talker"}}
    await store.append("cli", [Draft(kind="opened", actor="user", time="2026-01-01T00:00:00Z", body=body)])
    async with running_host(store=store, session_roles=MemorySessionRoles("owner")) as hosted:
        async with hosted.client("owner", principal=REMOTE) as owner:  # it is theirs, wherever they connect from
            assert await (await owner.load_session("cli", "/")).ask("x") == "heard x"
        async with hosted.client("ben", principal=REMOTE) as ben:
            assert (await denied(ben.load_session("cli", "/"))).kind == Kind.SESSION_NOT_FOUND


@pytest.mark.parametrize("shares", [False, True])
async def test_an_agent_is_not_started_in_a_folder_that_becomes_a_link_after_the_check(
    shares: bool, tmp_path: Path
) -> None:
    roots, starts = own_folders(tmp_path), []

    def reach(agent_config: NamedAgent) -> list[str]:
        """Record what is requested right before a process is started."""
        starts.append(agent_config.name)
        if len(starts) == 2:
            swap(tmp_path / "ben" / "x", tmp_path / "private")
        return agent_config.argv

    async with Host([REAL], store=MemoryStore(), roots_of=roots, target_of=reach, share_processes=shares) as host:
        hosted = Hosted(host, [], [])
        async with asyncio.timeout(TIMEOUT), hosted.client("ben", principal=REMOTE) as ben:
            refused = await denied(ben.open_session(str(tmp_path / "ben" / "x")))
            assert refused.kind == Kind.PERMISSION_DENIED
            assert starts == [REAL.name] * 2
            assert not agents()
            assert not host.rooms
