"""Several sessions on one tree: no write is lost silently. Real sessions and real files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from dragoman import ProtocolError, Turn, WorkspaceAccess
from dragoman.errors import Kind
from dragoman.roles.client import tree_members
from dragoman.roles.client.workspace import WorkspaceUse
from dragoman.schema.update import Notice
from dragoman.store.memory import MemoryStore
from dragoman.workspace import leases
from dragoman.workspace.coordination import PROCESS_COORDINATOR, FileCoordinator
from dragoman.workspace.tree_member import TreeMember
from tests.workspace.tree import TreeAgent, agents_on

BOUND = 20.0


@pytest.fixture
def coordinator() -> FileCoordinator:
    return FileCoordinator(wait=0.0)


async def refusal(agent: TreeAgent, path: Path, text: str) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        await agent.write(path, text)
    assert caught.value.kind == Kind.INVALID_STATE
    return caught.value


@pytest.mark.item("BR-27")
async def test_a_stale_write_is_refused_and_names_who_changed_the_file(
    tmp_path: Path, coordinator: FileCoordinator
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code):
        await plan.read(file)
        await code.read(file)
        await code.write(file, "two")
        error = await refusal(plan, file, "three")
        assert "was changed by code since this session last read it; read it again" in error.message
        assert error.data is not None
        assert error.data["changedBy"] == "code"
        assert error.data["path"] == str(file)
        assert file.read_text() == "two"
        await refusal(plan, file, "three")  # still: it was not read again
        await plan.read(file)
        await plan.write(file, "three")
        assert file.read_text() == "three"


@pytest.mark.item("BR-27")
async def test_a_question_that_shows_the_file_to_the_user_is_not_a_read_of_the_session(
    tmp_path: Path, coordinator: FileCoordinator
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    shown: list[str | None] = []

    def approve(use: WorkspaceUse) -> bool:
        shown.append(None if use.read_current is None else use.read_current())
        return True

    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator, approve=approve) as (plan, code):
        await plan.read(file)
        await code.read(file)
        await code.write(file, "two")
        assert "was changed by code" in (await refusal(plan, file, "three")).message
    assert shown[-1] == "two"
    assert file.read_text() == "two"


async def test_a_file_that_a_session_never_read_is_refused_once(tmp_path: Path, coordinator: FileCoordinator) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code):
        await plan.write(tmp_path / "new.txt", "new files are free")
        await code.write(tmp_path / "other.txt", "")
        error = await refusal(code, file, "two")
        assert "this session has not read it" in error.message
        await code.write(file, "two")
        assert "was written by code, and this session has not read it" in (await refusal(plan, file, "x")).message


async def test_a_session_that_reads_elsewhere_is_not_locked_out(tmp_path: Path, coordinator: FileCoordinator) -> None:
    """Some agents read files by themselves and only write through the client."""
    file = tmp_path / "a.txt"
    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code):
        await plan.write(file, "1")
        await code.read(file)
        await code.write(file, "2")
        await refusal(plan, file, "3")
        await plan.write(file, "3")
        assert file.read_text() == "3"


async def test_one_session_alone_is_never_refused(tmp_path: Path, coordinator: FileCoordinator) -> None:
    file = tmp_path / "a.txt"
    async with agents_on(tmp_path, "code", coordinator=coordinator) as (code,):
        await code.write(file, "1")
        file.write_text("2")
        await code.write(file, "3")
        assert file.read_text() == "3"


async def test_sessions_in_folders_apart_do_not_meet(tmp_path: Path, coordinator: FileCoordinator) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "ab").mkdir()
    async with (
        agents_on(tmp_path / "a", "one", coordinator=coordinator) as (one,),
        agents_on(tmp_path / "ab", "two", coordinator=coordinator) as (two,),
    ):
        for agent, folder in ((one, "a"), (two, "ab")):
            (tmp_path / folder / "x").write_text("old")
            await agent.write(tmp_path / folder / "x", "new")
            assert (tmp_path / folder / "x").read_text() == "new"


async def test_a_session_in_a_folder_of_another_meets_it(tmp_path: Path, coordinator: FileCoordinator) -> None:
    (tmp_path / "inner").mkdir()
    file = tmp_path / "inner" / "x"
    async with (
        agents_on(tmp_path, "outer", coordinator=coordinator) as (outer,),
        agents_on(tmp_path / "inner", "inner", coordinator=coordinator) as (inner,),
    ):
        await inner.write(file, "1")
        await outer.read(file)
        await outer.write(file, "2")
        assert (await refusal(inner, file, "3")).data["changedBy"] == "outer"  # type: ignore[index]


def test_workspaces_share_the_coordinator_of_the_process_unless_told() -> None:
    assert WorkspaceAccess().coordinates
    assert WorkspaceAccess().coordinator is None
    assert not WorkspaceAccess(coordinate=False).coordinates
    assert PROCESS_COORDINATOR.wait == 20.0


async def test_a_workspace_that_is_not_coordinated_refuses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    async with agents_on(tmp_path, "plan", "code", coordinate=False) as (plan, code):
        await plan.write(tmp_path / "b.txt", "")
        await code.write(file, "1")
        await plan.write(file, "2")
        assert file.read_text() == "2"


# --- leases ---------------------------------------------------------------------------------------------------


async def hold(agent: TreeAgent, path: Path, entered: asyncio.Event, leave: asyncio.Event) -> None:
    async def work(turn: Turn) -> None:
        await turn.files.write(str(path), f"by {agent.name}")
        entered.set()
        await leave.wait()

    await agent.run(work)


@pytest.mark.item("BR-27")
async def test_the_first_write_of_a_turn_takes_a_lease_that_ends_with_the_turn(
    tmp_path: Path, coordinator: FileCoordinator
) -> None:
    file, entered, leave = tmp_path / "a.txt", asyncio.Event(), asyncio.Event()
    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code):
        await code.write(tmp_path / "b.txt", "")
        turn = asyncio.create_task(hold(plan, file, entered, leave))
        await entered.wait()
        assert [(each.path, each.holder.name) for each in coordinator.leases()] == [(str(file), "plan")]  # type: ignore[attr-defined]
        error = await refusal(code, file, "mine")
        assert error.data is not None
        assert (error.data["path"], error.data["heldBy"]) == (str(file), "plan")
        assert "is being changed by plan; try again when its turn is over" in error.message
        leave.set()
        await turn
        assert coordinator.leases() == []
        await code.read(file)
        await code.write(file, "mine")


async def test_a_write_waits_for_the_end_of_the_other_turn(tmp_path: Path) -> None:
    coordinator = FileCoordinator(wait=BOUND)
    file, entered, leave = tmp_path / "a.txt", asyncio.Event(), asyncio.Event()
    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code):
        await code.write(tmp_path / "b.txt", "")
        turn = asyncio.create_task(hold(plan, file, entered, leave))
        await entered.wait()
        waiting = asyncio.create_task(code.write(file, "mine"))
        while not any(each.waits_for for each in coordinator.members_at(str(file))):  # noqa: ASYNC110  (no event for it)
            await asyncio.sleep(0)
        leave.set()
        await turn
        with pytest.raises(ProtocolError, match="was written by plan, and this session has not read it"):
            await waiting  # it waited, and then it was stale


async def test_several_files_are_leased_together_or_not_at_all(tmp_path: Path, coordinator: FileCoordinator) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    first, second = tmp_path / "1.txt", tmp_path / "2.txt"
    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code):
        await code.write(tmp_path / "b.txt", "")
        turn = asyncio.create_task(hold(plan, second, entered, leave))
        await entered.wait()

        async def write_both(turn: Turn) -> None:
            try:
                await turn.files.write_many({str(first): "a", str(second): "b"})
            finally:
                assert [each.path for each in coordinator.leases()] == [str(second)]

        with pytest.raises(ProtocolError, match="is being changed by plan; nothing was written"):
            await code.run(write_both)
        assert not first.exists()
        assert second.read_text() == "by plan"
        leave.set()
        await turn


async def test_two_sessions_that_wait_for_each_other_are_refused_at_once(tmp_path: Path) -> None:
    coordinator = FileCoordinator(wait=BOUND)
    one, two = tmp_path / "1.txt", tmp_path / "2.txt"
    ready: dict[str, asyncio.Event] = {name: asyncio.Event() for name in ("plan", "code")}

    def cross(own: Path, other: Path, name: str, peer: str) -> object:
        async def work(turn: Turn) -> None:
            await turn.files.write(str(own), name)
            ready[name].set()
            await ready[peer].wait()
            await turn.files.write(str(other), name)

        return work

    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code):
        await code.write(tmp_path / "b.txt", "")
        start = asyncio.get_running_loop().time()
        results = await asyncio.gather(
            plan.run(cross(one, two, "plan", "code")),  # type: ignore[arg-type]
            code.run(cross(two, one, "code", "plan")),  # type: ignore[arg-type]
            return_exceptions=True,
        )
        assert asyncio.get_running_loop().time() - start < BOUND / 2
        messages = sorted(str(each) for each in results)
        assert all(isinstance(each, ProtocolError) for each in results)
        assert any("is being changed by" in message for message in messages)


def test_a_lease_expires_when_its_turn_shows_no_sign_of_life() -> None:
    clock, activity = [0.0], [1]
    coordinator = FileCoordinator(wait=0.0, clock=lambda: clock[0])
    holder = TreeMember(lambda: "plan", ["/tree"], activity=lambda: activity[0])
    other = TreeMember(lambda: "code", ["/tree"], activity=lambda: 0)
    for member in (holder, other):
        coordinator.join(member)
    asyncio.run(coordinator.lease(holder, ["/tree/a"]))
    clock[0] += leases.LEASE_SECONDS - 1
    activity[0] += 1  # an update of its turn
    with pytest.raises(ProtocolError):
        asyncio.run(coordinator.lease(other, ["/tree/a"]))
    clock[0] += leases.LEASE_SECONDS - 1
    with pytest.raises(ProtocolError):
        asyncio.run(coordinator.lease(other, ["/tree/a"]))
    clock[0] += 1
    asyncio.run(coordinator.lease(other, ["/tree/a"]))
    assert [each.holder for each in coordinator.leases()] == [other]


def test_who_is_asked_may_use_the_leases_of_who_asks() -> None:
    coordinator = FileCoordinator(wait=0.0)
    asker, asked = (TreeMember(lambda: "x", ["/tree"], activity=lambda: 1) for _ in range(2))
    for member in (asker, asked):
        coordinator.join(member)
    asyncio.run(coordinator.lease(asker, ["/tree/a"]))
    asked.asker = asker
    asyncio.run(coordinator.lease(asked, ["/tree/a", "/tree/b"]))
    asked.asker = None
    with pytest.raises(ProtocolError):
        asyncio.run(coordinator.lease(asked, ["/tree/a"]))
    coordinator.leave(asker)
    asyncio.run(coordinator.lease(asked, ["/tree/a"]))


async def test_an_agent_that_is_gone_holds_nothing(tmp_path: Path, coordinator: FileCoordinator) -> None:
    file, entered = tmp_path / "a.txt", asyncio.Event()
    async with agents_on(tmp_path, "code", coordinator=coordinator) as (code,):
        await code.write(tmp_path / "b.txt", "")
        async with agents_on(tmp_path, "plan", coordinator=coordinator) as (plan,):
            turn = asyncio.create_task(hold(plan, file, entered, asyncio.Event()))
            await entered.wait()
        await asyncio.gather(turn, return_exceptions=True)
        assert coordinator.leases() == []
        assert coordinator.members_at(str(tmp_path)) != set()
    assert coordinator.members_at(str(tmp_path)) == set()


# --- at the same moment ---------------------------------------------------------------------------------------


@pytest.mark.item("BR-27")
async def test_of_two_writes_in_the_same_millisecond_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    async with agents_on(tmp_path, "plan", "code", coordinator=FileCoordinator(wait=BOUND)) as agents:
        for number in range(20):
            file.write_text(f"round {number}")
            for agent in agents:
                await agent.read(file)
            results = await asyncio.gather(*(agent.write(file, agent.name) for agent in agents), return_exceptions=True)
            refused = [each for each in results if each is not None]
            assert len(refused) == 1
            assert isinstance(refused[0], ProtocolError)
            winner = agents[results.index(None)].name
            assert file.read_text() == winner
            assert f"changed by {winner}" in refused[0].message


async def test_the_writes_of_one_session_at_the_same_moment_all_count(
    tmp_path: Path, coordinator: FileCoordinator
) -> None:
    file = tmp_path / "a.txt"
    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code):
        await code.write(tmp_path / "b.txt", "")

        async def write_often(turn: Turn) -> None:
            await asyncio.gather(*(turn.files.write(str(file), str(number)) for number in range(20)))

        await plan.run(write_often)
        assert file.read_text() in map(str, range(20))


# --- from outside ---------------------------------------------------------------------------------------------


@pytest.mark.item("BR-27")
async def test_a_change_by_a_command_is_refused_and_told_with_the_name_of_its_agent(
    tmp_path: Path, coordinator: FileCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_members, "LOOK_INTERVAL", 0.01)
    file, looking, store = tmp_path / "a.txt", asyncio.Event(), MemoryStore()
    file.write_text("one\n")
    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator, store=store) as (plan, code):
        seen: asyncio.Queue[str] = asyncio.Queue()

        async def wait_for_notice(turn: Turn) -> None:
            await turn.files.read(str(file))
            looking.set()
            async with asyncio.timeout(BOUND):
                assert await seen.get() == f"{file} was changed by a command of code"

        def note(update: object) -> None:
            if isinstance(update, Notice):
                seen.put_nowait(update.title)

        plan.session.on_update = note
        waiting = asyncio.create_task(plan.run(wait_for_notice))
        await looking.wait()
        await code.execute("echo two >> a.txt", tmp_path)
        await waiting
        assert seen.empty()
        assert (await refusal(plan, file, "three")).data["changedBy"] == "a command of code"  # type: ignore[index]
        log = await store.read(plan.session.log_id or "")
        told = [entry for entry in log if entry.actor == tree_members.OUTSIDE_ACTOR]
        assert [entry.body["path"] for entry in told] == [str(file)]


async def test_a_change_by_another_program_is_told_as_such(
    tmp_path: Path, coordinator: FileCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code):
        await code.write(tmp_path / "b.txt", "")
        await plan.read(file)
        file.write_text("two")
        assert "was changed by another program" in (await refusal(plan, file, "three")).message
        await plan.read(file)
        os.unlink(file)
        await refusal(plan, file, "three")


async def test_what_a_command_appends_while_a_file_is_replaced_is_not_lost(
    tmp_path: Path, coordinator: FileCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write is refused if a command wrote to the old file between the check and the rename."""
    from dragoman.workspace import atomic_write

    file, real = tmp_path / "a.txt", atomic_write.rename
    file.write_text("one\n")

    def append_then_rename(target: object, old: str, new: str) -> None:
        if new == file.name and old.endswith(".tmp") and "late" not in file.read_text():
            with open(file, "a") as stream:
                stream.write("late\n")
        real(target, old, new)  # type: ignore[arg-type]

    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code):
        await code.execute("true", tmp_path)
        for member in coordinator.members_at(str(tmp_path)):
            member.start_command("a server that runs on")
        await plan.read(file)
        monkeypatch.setattr(atomic_write, "_lease_file", lambda target: None)  # as where the kernel has no leases
        monkeypatch.setattr(atomic_write, "rename", append_then_rename)
        error = await refusal(plan, file, "one\ntwo\n")
        assert "was written by a command at the same moment" in error.message
        assert file.read_text() == "one\nlate\n"
        assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


async def test_a_write_waits_for_a_command_that_has_the_file_open(tmp_path: Path, coordinator: FileCoordinator) -> None:
    file, ready, go = tmp_path / "a.txt", tmp_path / "ready", tmp_path / "go"
    file.write_text("one\n")
    command = "exec 3>>a.txt; touch ready; while ! test -e go; do sleep 0.01; done; echo late >&3"
    async with agents_on(tmp_path, "plan", "code", coordinator=coordinator) as (plan, code), asyncio.timeout(BOUND):
        await plan.read(file)
        running = asyncio.create_task(code.execute(command, tmp_path))
        while not ready.exists():  # noqa: ASYNC110  (another process makes it)
            await asyncio.sleep(0.01)
        writing = asyncio.create_task(refusal(plan, file, "one\ntwo\n"))
        while not any(each.name.startswith(".dragoman-") for each in tmp_path.iterdir()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        go.touch()
        assert (await writing).data["changedBy"] == "a command of code"  # type: ignore[index]
        await running
        assert file.read_text() == "one\nlate\n"
        await plan.read(file)
        await plan.write(file, "one\nlate\ntwo\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.txt", "go", "ready"]


async def test_a_write_while_a_command_runs_does_not_reach_other_names_of_the_file(
    tmp_path: Path, coordinator: FileCoordinator
) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    tree.mkdir()
    outside.write_text("one\n")
    os.link(outside, tree / "a.txt")
    async with agents_on(tree, "plan", "code", coordinator=coordinator) as (plan, code):
        await code.execute("true", tree)
        for member in coordinator.members_at(str(tree)):
            member.start_command("a server that runs on")
        await plan.read(tree / "a.txt")
        await plan.write(tree / "a.txt", "two\n")
        assert (tree / "a.txt").read_text() == "two\n"
    assert outside.read_text() == "one\n"
