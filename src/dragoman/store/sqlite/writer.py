"""The one thread that writes: it takes what tasks hand over, makes batches, and tells the tasks when they are kept.

Appends that come in the same pass of the loop, or while a commit runs, share the next commit: it begins at once when
nothing runs. Other work (a fork, a delete) is done between batches, in the order it came. Tasks of a batch are woken
by one call into their loop. Above is the store; below is the log.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from dragoman.errors import Kind, ProtocolError
from dragoman.store.sqlite.faults import fault
from dragoman.store.sqlite.log import Append, Log

# A commit takes no more entries than this (but never parts of an append), so that who waits for the first of them does
# not wait for thousands; the cost of a commit is shared by enough of them.
BATCH = 256

Work = Callable[[sqlite3.Connection], Any]

# What to do for a session in which a turn ended, when there is nothing else to do; whether there is more of it.
Idle = Callable[[sqlite3.Connection, str], bool]


class Task:
    """Something to do for a task of a loop, which waits for `future`."""

    __slots__ = ("error", "future", "loop", "result", "work")

    def __init__(self, work: Append | Work, loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: Exception | None = None


class Writer:
    """The thread and its inbox."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: str, idle: Idle) -> None:
        self._connect = connect
        self._path = path
        self._idle = idle
        self._inbox: SimpleQueue[list[Task] | None] = SimpleQueue()
        self._gathered: list[Task] = []
        self._ended = False
        self._connection = connect()
        self._log = Log(self._connection)
        self._thread = threading.Thread(target=self._run, name="dragoman-store", daemon=True)
        self._thread.start()

    # --- the loop's side --------------------------------------------------------------------------------------

    def put(self, work: Append | Work) -> asyncio.Future[Any]:
        """Hand something over; the future is done when it is kept, or cannot be."""
        if self._ended:
            raise closed()
        loop = asyncio.get_running_loop()
        task = Task(work, loop)
        gathered = self._gathered
        gathered.append(task)
        if len(gathered) == 1:
            loop.call_soon(self._send)
        return task.future

    def _send(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._inbox.put(gathered)

    async def close(self) -> None:
        """Do all that was handed over, then end."""
        if not self._ended:
            self._ended = True
            self._send()
            self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)

    # --- the thread's side ------------------------------------------------------------------------------------

    def _run(self) -> None:
        waiting: list[Task] = []
        is_ending = False
        while waiting or not is_ending:
            is_ending = self._receive(waiting, block=not self._log.ended) or is_ending
            if waiting:
                self._do(waiting)
            elif not is_ending:
                self._rest()
        self._connection.close()

    def _receive(self, waiting: list[Task], *, block: bool) -> bool:
        """Take what is there, waiting for the first if there is nothing else to do; whether the end has come."""
        try:
            arrived = self._inbox.get(block and not waiting)
            while arrived is not None:
                waiting += arrived
                arrived = self._inbox.get(False)
        except Empty:
            return False
        return True

    def _do(self, waiting: list[Task]) -> None:
        """One batch, or one other thing; what was done leaves the list."""
        count = entries = 0
        while count < len(waiting) and entries < BATCH and isinstance(append := waiting[count].work, Append):
            entries += len(append.texts)
            count += 1
        done = waiting[: max(count, 1)]
        del waiting[: len(done)]
        try:
            if count:
                self._log.append([task.work for task in done])  # type: ignore[misc]
            else:
                self._work(done[0])
        except Exception as error:
            told = error if isinstance(error, ProtocolError) else fault(error, self._path)
            for task in done:
                task.error = told
            self._recover()
        self._tell(done)

    def _work(self, task: Task) -> None:
        self._log.forget()
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            task.result = task.work(connection)  # type: ignore[operator]
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _rest(self) -> None:
        session_id = next(iter(self._log.ended))
        try:
            if self._idle(self._connection, session_id):
                return
        except Exception:
            self._recover()  # it is done when it is needed, and tells then
        self._log.ended.discard(session_id)

    def _recover(self) -> None:
        """After something failed: a connection that is still in the middle of it is of no use."""
        self._log.forget()
        try:
            if self._connection.in_transaction:
                self._connection.rollback()
        except sqlite3.Error:
            self._renew()

    def _renew(self) -> None:
        try:
            self._connection.close()
            self._connection = self._connect()
        except (sqlite3.Error, ProtocolError):
            return  # the next batch fails in the same way, tells, and tries this again
        ended = self._log.ended
        self._log = Log(self._connection)
        self._log.ended = ended

    @staticmethod
    def _tell(done: list[Task]) -> None:
        """Wake those who wait, all of a loop at once."""
        for loop in {task.loop for task in done}:
            try:
                loop.call_soon_threadsafe(_settle, [task for task in done if task.loop is loop])
            except RuntimeError:
                pass  # the loop has ended, and nobody waits any more


def _settle(done: list[Task]) -> None:
    for task in done:
        if task.future.done():
            continue  # cancelled meanwhile; what it wanted is done all the same
        error = task.error or (task.work.error if isinstance(task.work, Append) else None)
        if error is not None:
            task.future.set_exception(_copy(error))
        else:
            task.future.set_result(task.work.first if isinstance(task.work, Append) else task.result)


def _copy(error: Exception) -> Exception:
    """Each who waits gets an error of their own: one that is raised twice gathers the traces of both."""
    told = error.__class__.__new__(error.__class__, *error.args)
    told.__dict__.update(error.__dict__)
    return told


def closed() -> ProtocolError:
    """The error for whoever uses a store that was closed."""
    return ProtocolError(Kind.INVALID_STATE, "this store is closed")
