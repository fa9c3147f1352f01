"""The one thread that writes: it takes what tasks hand over, makes batches, and tells the tasks when they are kept.

Appends that come in the same pass of the loop, or while a commit runs, share the next commit: it begins at once when
nothing runs. Other work (a fork, a delete) is done between batches, in the order it came. Work that can wait (for the
index) is done when nobody waits for anything else. Tasks of a batch are woken by one call into their loop. Above is the
store; below is the log.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from dragoman.errors import Kind, ProtocolError
from dragoman.store.sqlite.append import AppendRequest, LogWriter
from dragoman.store.sqlite.errors import FAILURES, to_store_fault
from dragoman.store.sqlite.file_check import Place

# A commit takes no more entries than this (but never parts of an append), so that who waits for the first of them does
# not wait for thousands; the cost of a commit is shared by enough of them.
MAX_BATCH = 256

# Work that can wait lets so many batches go first while they come without a pause, so that it is done some day on a
# busy host too; each of them has entries of many tasks, which wait for it a little longer once.
YIELDS = 16

Work = Callable[[sqlite3.Connection], Any]


class WriteTask:
    """Something to do for a task of a loop, which waits for `future`."""

    __slots__ = ("error", "future", "loop", "result", "work")

    def __init__(self, work: AppendRequest | Work, loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: Exception | None = None


class Later:
    """Work that can wait, for a thread that waits for `future`."""

    __slots__ = ("future", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.future: Future[Any] = Future()


class Writer:
    """The thread and its inbox."""

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], path: str, ended: Callable[[set[str]], None] = lambda _: None
    ) -> None:
        """`ended` is called in the thread with the sessions in which a turn ended; it must not block."""
        self._connect = connect
        self._path = path
        self._tell_ended = ended
        self._inbox: SimpleQueue[list[WriteTask] | Later | None] = SimpleQueue()
        self._unsent: list[WriteTask] = []
        self._later: deque[Later] = deque()
        self._yielded = 0
        self._closed = False
        self._connection = connect()
        self._place = Place(path)
        self._log = LogWriter(self._connection)
        self._thread = threading.Thread(target=self._run, name="dragoman-store", daemon=True)
        self._thread.start()

    # --- the loop's side --------------------------------------------------------------------------------------

    def submit(self, work: AppendRequest | Work) -> asyncio.Future[Any]:
        """Hand something over; the future is done when it is kept, or cannot be."""
        if self._closed:
            raise closed_error()
        loop = asyncio.get_running_loop()
        task = WriteTask(work, loop)
        gathered = self._unsent
        gathered.append(task)
        if len(gathered) == 1:
            loop.call_soon(self._hand_over)
        return task.future

    def _hand_over(self) -> None:
        gathered, self._unsent = self._unsent, []
        if gathered:
            self._inbox.put(gathered)

    def put_later(self, work: Work) -> Future[Any]:
        """Hand over work that can wait, from any thread but the writer's; not after `close`."""
        later = Later(work)
        self._inbox.put(later)
        return later.future

    async def close(self) -> None:
        """Do all that was handed over, then end."""
        if not self._closed:
            self._closed = True
            self._hand_over()
            self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)

    # --- the thread's side ------------------------------------------------------------------------------------

    def _run(self) -> None:
        waiting: list[WriteTask] = []
        is_ending = False
        while waiting or self._later or not is_ending:
            is_ending = self._receive(waiting) or is_ending
            if waiting and (not self._later or self._yielded < YIELDS):
                self._run_batch(waiting)
                self._yielded += 1
            elif self._later:
                self._do_later(self._later.popleft())
                self._yielded = 0
        self._connection.close()

    def _receive(self, waiting: list[WriteTask]) -> bool:
        """Take what is there, waiting for the first if there is nothing else to do; whether the end has come."""
        block = not waiting and not self._later
        try:
            while (arrived := self._inbox.get(block)) is not None:
                if isinstance(arrived, Later):
                    self._later.append(arrived)
                else:
                    waiting += arrived
                block = False
        except Empty:
            return False
        return True

    def _run_batch(self, waiting: list[WriteTask]) -> None:
        """One batch, or one other thing; what was done leaves the list."""
        count = entries = 0
        while count < len(waiting) and entries < MAX_BATCH and isinstance(append := waiting[count].work, AppendRequest):
            entries += len(append.texts)
            count += 1
        done = waiting[: max(count, 1)]
        del waiting[: len(done)]
        try:
            if count:
                # Before, so that nothing goes into a file that is elsewhere; after, so that nothing is said to be kept.
                self._place.check()
                self._log.append([task.work for task in done])  # type: ignore[misc]
                self._place.check()
                if self._log.ended_turns:
                    self._tell_ended(self._log.taken_ended())
            else:
                self._log.clear_cache()
                done[0].result = self._transact(done[0].work)  # type: ignore[arg-type]
        except Exception as error:
            told = error if isinstance(error, ProtocolError) else to_store_fault(error, self._path)
            for task in done:
                task.error = told
            self._recover()
        self._notify_waiters(done)

    def _transact(self, work: Work) -> Any:
        connection = self._connection
        self._place.check()
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._place.check()
        return result

    def _do_later(self, later: Later) -> None:
        try:
            result = self._transact(later.work)
        except Exception as error:
            self._recover()
            later.future.set_exception(error if isinstance(error, ProtocolError) else to_store_fault(error, self._path))
        else:
            later.future.set_result(result)

    def _recover(self) -> None:
        """After something failed: a connection that is still in the middle of it is of no use."""
        self._log.clear_cache()
        try:
            if self._connection.in_transaction:
                self._connection.rollback()
        except FAILURES:
            self._reconnect()

    def _reconnect(self) -> None:
        try:
            self._connection.close()
            self._connection = self._connect()
        except (*FAILURES, ProtocolError):
            return  # the next batch fails in the same way, tells, and tries this again
        self._log = LogWriter(self._connection)

    @staticmethod
    def _notify_waiters(done: list[WriteTask]) -> None:
        """Wake those who wait, all of a loop at once."""
        for loop in {task.loop for task in done}:
            try:
                loop.call_soon_threadsafe(_resolve_futures, [task for task in done if task.loop is loop])
            except RuntimeError:
                pass  # the loop has ended, and nobody waits any more


def _resolve_futures(done: list[WriteTask]) -> None:
    for task in done:
        if task.future.done():
            continue  # cancelled meanwhile; what it wanted is done all the same
        error = task.error or (task.work.error if isinstance(task.work, AppendRequest) else None)
        if error is not None:
            task.future.set_exception(_copy_error(error))
        else:
            task.future.set_result(task.work.first if isinstance(task.work, AppendRequest) else task.result)


def _copy_error(error: Exception) -> Exception:
    """Each who waits gets an error of their own: one that is raised twice gathers the traces of both."""
    told = error.__class__.__new__(error.__class__, *error.args)
    told.__dict__.update(error.__dict__)
    return told


def closed_error() -> ProtocolError:
    """The error for whoever uses a store that was closed."""
    return ProtocolError(Kind.INVALID_STATE, "this store is closed")
