"""The thread that keeps the search index up to date.

Takes sessions in which a turn ended, and searches that wait for the index. Reads and decodes on its own connection; the
writer runs small transactions, after every other commit. What is left when the store closes is indexed by the next
process in which a turn ends, or that searches.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue

from dragoman.errors import ProtocolError
from dragoman.store.sqlite import search_index
from dragoman.store.sqlite.errors import to_store_fault
from dragoman.store.sqlite.search_index import Stretch
from dragoman.store.sqlite.writer import Work, closed_error

# Passes a transaction to the writer.
Hand = Callable[[Work], "Future[list[str]]"]

# A range is read again if another process indexed it meanwhile; limited, because a damaged file may report that every
# time.
TRIES = 8


class Indexer:
    """The indexing thread and its queue."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: str, hand: Hand) -> None:
        """`connect` returns a connection to read with."""
        self._connect = connect
        self._path = path
        self._hand = hand
        self._inbox: SimpleQueue[set[str] | Future[None] | None] = SimpleQueue()
        self._closed = False
        self._connection: sqlite3.Connection | None = connect()
        self._is_behind = True  # an earlier process may have left work
        self._thread = threading.Thread(target=self._run, name="dragoman-store-index", daemon=True)
        self._thread.start()

    def note(self, session_ids: set[str]) -> None:
        """Report that a turn ended in these sessions. Thread-safe; does not block."""
        self._inbox.put(session_ids)

    async def catch_up(self) -> None:
        """Return when everything logged before this call is indexed; raise StoreFault."""
        if self._closed:
            raise closed_error()
        done: Future[None] = Future()
        self._inbox.put(done)
        await asyncio.wrap_future(done)

    async def close(self) -> None:
        """Stop after the current entry or transaction. Call before the writer ends."""
        self._closed = True
        self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)

    # --- the thread's side ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (wanted := self._inbox.get()) is not None:
            if isinstance(wanted, Future):
                if wanted.set_running_or_notify_cancel():
                    self._answer(wanted)
                continue
            try:
                self._catch_up(None if self._is_behind else wanted)
            except ProtocolError:
                pass  # retried and reported by the next search
        if self._connection is not None:
            self._connection.close()

    def _answer(self, done: Future[None]) -> None:
        try:
            self._catch_up(None)
            if self._closed:
                raise closed_error()
        except ProtocolError as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    def _catch_up(self, session_ids: set[str] | None) -> None:
        """Index these sessions, or all that are behind, up to their current end."""
        tries: Counter[str] = Counter()
        try:
            if self._connection is None:
                self._connection = self._connect()
            waiting = deque(search_index.index_next_session(self._connection) if session_ids is None else session_ids)
            while waiting and not self._closed:
                found = self._read(self._connection, waiting)
                if found and not self._closed:
                    missed = self._hand(partial(search_index.write, stretches=found)).result()
                    tries.update(missed)
                    waiting += [session_id for session_id in missed if tries[session_id] < TRIES]
        except ProtocolError:
            self._drop_connection()
            raise
        except Exception as error:
            self._drop_connection()
            raise to_store_fault(error, self._path) from error
        if session_ids is None:
            self._is_behind = False

    def _read(self, connection: sqlite3.Connection, waiting: deque[str]) -> list[Stretch]:
        connection.execute("BEGIN")
        try:
            return search_index.gather(connection, waiting, lambda: not self._closed)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")  # it only reads

    def _drop_connection(self) -> None:
        """Close a connection that failed; a new one is opened later."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
