"""The client of a kill run: it prompts the agent in several sessions at once, and reports everything to the recorder.

    python -m tests.store.kill_run.client FOLDER NAME [--look]

When the agent dies it starts another and continues its sessions, by session/resume or session/load. It ends when its
standard input does. With --look it only loads every session and reports what the agent replays.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from contextlib import AsyncExitStack
from typing import Any

from dragoman import connect
from dragoman.errors import ConnectionFailed, DragomanError, ProtocolError, StoreFault
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.update import AgentMessageChunk
from dragoman.store.contract import Entry
from dragoman.store.sqlite import SqliteStore
from tests.store.kill_run.paths import CLIENT_FILE, command, store_file
from tests.store.kill_run.report import RecordWriter, when_input_ends

# Sessions that are talked in at once.
LANES = 2

# A session that had so many turns is left for a new one, so that loading stays quick.
TURNS = 25

# The pause after something was refused. Seconds.
RETRY = 0.05


class Client:
    """The client."""

    def __init__(self, folder: str, name: str, records: RecordWriter, store: SqliteStore) -> None:
        self.folder = folder
        self.name = name
        self.records = records
        self.store = store
        self.ending = asyncio.Event()
        self.dice = random.Random(name)

    async def run(self) -> None:
        """Start one agent after the other."""
        number = 0
        while not self.ending.is_set():
            number += 1
            try:
                async with AsyncExitStack() as stack:
                    agent = await stack.enter_async_context(self.connect(f"{self.name}-{number}"))
                    self.records.say("fds", self.name, len(os.listdir("/proc/self/fd")))
                    await asyncio.gather(*(self.talk(agent, lane, f"{self.name}-{number}") for lane in range(LANES)))
            except DragomanError as error:
                await self.refused(error)

    def connect(self, name: str) -> Any:
        """Connect to an agent with this name."""

        def kept(log: str, entry: Entry) -> None:
            self.records.say("kept", log, entry.seq, entry.kind)

        def ask(params: RequestPermissionParams) -> str:
            self.records.say("asked", params.tool_call.title)
            return params.options[0].option_id

        words = command("agent", self.folder, name)
        quiet: Any = lambda _: None  # noqa: E731
        return connect(words, store=self.store, on_entry=kept, permission=ask, cwd=os.getcwd(), stderr=quiet)

    async def talk(self, agent: Any, lane: int, name: str) -> None:
        """Run turns in one session, as long as the agent lives."""
        session, number = None, 0
        while not self.ending.is_set() and agent.connection.failure is None:
            try:
                session = session or await self.session(agent, f"lane{lane}")
                turn = f"{name}.{lane}.{number}"
                number += 1
                await self.take_turn(session, turn)
            except ConnectionFailed as error:
                self.records.say("broken", name, type(error).__name__)
                return
            except DragomanError as error:
                await self.refused(error)

    async def session(self, agent: Any, name: str) -> Any:
        """Continue the session of this name, or open a new one."""
        known = [summary for summary in await self.store.sessions() if summary.name == name]
        if known and known[0].turns < TURNS:
            how = self.dice.choice(("resume", "load"))
            if how == "resume":
                session, how, why = await agent.continue_session(name)
                if how != "session/resume":
                    self.records.say("fault", f"{known[0].session_id}-went-on-by-{how}:{why}".replace(" ", "_"))
            else:
                session = await agent.load_session(str(known[0].agent_session), known[0].cwd or "")
            self.records.say("opened", how, session.log_id)
            return session
        if known:
            await self.store.rename(known[0].session_id, None)
        session = await agent.open_session(self.folder)
        await self.store.rename(session.log_id, name)
        self.records.say("opened", "new", session.log_id)
        return session

    async def take_turn(self, session: Any, prompt: str) -> None:
        """Send one prompt, and report every update of its turn."""
        async with session.prompt(prompt) as turn:
            self.records.say("began", prompt, session.log_id)
            async for update in turn:
                if text := text_of(update):
                    self.records.say("given", session.log_id, text.strip())
        self.records.say("answered", session.log_id, prompt, turn.stop_reason)

    async def refused(self, error: DragomanError) -> None:
        """Report a failure; the client retries."""
        kind = error.why if isinstance(error, StoreFault) else getattr(error, "kind", type(error).__name__)
        who = "client" if isinstance(error, StoreFault) else "agent" if isinstance(error, ProtocolError) else "start"
        self.records.say("refused", who, kind)
        await asyncio.sleep(RETRY)

    async def look(self) -> None:
        """Load every session, and report what is replayed."""
        async with self.connect(self.name) as agent:
            for summary in await self.store.sessions():
                if summary.agent_session is not None:
                    session = await agent.load_session(summary.agent_session, summary.cwd or "")
                    pieces = map(text_of, session.updates_outside_turns)
                    self.records.say("loaded", summary.agent_session, *"".join(pieces).split())


def text_of(update: Any) -> str:
    """Return the agent's text in an update."""
    return update.content.text if isinstance(update, AgentMessageChunk) else ""  # type: ignore[union-attr]


async def main(folder: str, name: str, *, looks: bool) -> None:
    """Run the client until its input ends."""
    records = RecordWriter(os.environ["KILLING_RECORDER"], "client", name)
    store = await SqliteStore.open(store_file(folder, CLIENT_FILE))
    client = Client(folder, name, records, store)
    if looks:
        await client.look()
    else:
        when_input_ends(client.ending.set)
        await client.run()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], looks="--look" in sys.argv))
