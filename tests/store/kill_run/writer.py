"""The writer of a kill run: a third process that writes turns into the files of the client and of the agent.

    python -m tests.store.kill_run.writer FOLDER NAME

It reports every acknowledged entry to the recorder, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from datetime import UTC, datetime

from dragoman.errors import StoreFault
from dragoman.store.contract import Draft, EntryKind
from dragoman.store.sqlite import SqliteStore
from tests.store.kill_run.paths import FILES, store_file
from tests.store.kill_run.report import RecordWriter, when_input_ends

# How many logs of its own it has in each file.
LOGS = 2

# The longest pause between two appends, and the pause when the store refused one. Seconds.
PAUSE = 0.01
RETRY = 0.05


def draft(kind: str, text: str, turn: str) -> Draft:
    """An entry whose body is one word."""
    return Draft(kind=kind, actor="agent", time=datetime.now(UTC).isoformat(), body=text, turn=turn)


async def write(
    store: SqliteStore, file: str, log: str, name: str, records: RecordWriter, ending: asyncio.Event
) -> None:
    """Write turns, in appends of different sizes."""
    dice = random.Random(f"{name} {file} {log}")
    number = 0
    while not ending.is_set():
        turn = f"{name}.{file}.{log}.{number}"
        kinds = [EntryKind.TURN_STARTED, *[EntryKind.UPDATE] * dice.randint(20, 80), EntryKind.TURN_ENDED]
        drafts = [draft(kind, f"{turn}:{place}", turn) for place, kind in enumerate(kinds)]
        records.say("began", name)
        while drafts:
            some, drafts = drafts[: (size := dice.randint(1, 5))], drafts[size:]
            try:
                entries = await store.append(log, some)
            except StoreFault as fault:
                records.say("refused", "writer", fault.why)
                await asyncio.sleep(RETRY)
                break  # the turn stays as it is: nobody may receive a gap
            for entry in entries:
                records.say("wrote", file, log, entry.seq, entry.body)
            await asyncio.sleep(dice.random() * PAUSE)
        number += 1


async def main(folder: str, name: str) -> None:
    """Write all logs at once, until the input ends."""
    records = RecordWriter(os.environ["KILLING_RECORDER"], "writer", name)
    ending = asyncio.Event()
    stores = {file: await SqliteStore.open(store_file(folder, file)) for file in FILES}
    when_input_ends(ending.set)
    await asyncio.gather(
        *(
            write(store, file, f"writer{number}", name, records, ending)
            for file, store in stores.items()
            for number in range(LOGS)
        )
    )
    for store in stores.values():
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
