"""A room that is opened again reads only what came after the last turn, and knows what it knew."""

from __future__ import annotations

from pathlib import Path

from dragoman.store.memory import MemoryStore
from tests.host.memory_host import open_session, running_host


class ReadingStore(MemoryStore):
    """A store that counts the lines that are read."""

    read_lines = 0

    async def lines(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[bytes]:
        found = await super().lines(session_id, after, limit, intact=intact)
        self.read_lines += len(found)
        return found


async def test_a_session_wakes_from_the_state_of_its_last_turn(tmp_path: Path) -> None:
    store = ReadingStore()
    async with running_host(store=store) as hosted, hosted.client("ann") as ann:
        session = await open_session(ann, tmp_path)
        for number in range(20):
            await session.ask(f"text {number}")
        first = await hosted.host.session_state(session.id)
        entries = (await store.find(session.id)).entries
    async with running_host(store=store) as hosted:
        store.read_lines = 0
        state = await hosted.host.session_state(session.id)
        assert entries > 60
        assert store.read_lines < 10
        assert (state.cwd, state.owner, state.agent, state.open_turn) == (first.cwd, first.owner, first.agent, None)
        assert (await hosted.host.session_state(session.id, upto=3)).seq == 3
        saved = await store.saved_state(session.id)
        assert saved is not None
        await store.save_state(session.id, saved.seq, saved.state[:-1])  # damaged: the log is read instead
        again = await hosted.host.session_state(session.id)
        assert {**vars(again), "people": None} == {**vars(state), "people": None}
        assert store.read_lines > entries
