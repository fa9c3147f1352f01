"""The writer thread: batches the work of tasks into transactions, and wakes the tasks when it is stored.

Appends during a commit share the next one. Other work runs between batches, the index when nothing else waits.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import msgspec

from dragoman.errors import ProtocolError, StoreFault
from dragoman.store.sqlite.append import AppendRequest, LogWriter
from dragoman.store.sqlite.errors import FAILURES, to_store_fault
from dragoman.store.summary import closed_error

# The most entries per commit (an append is never split), so that the first does not wait for thousands and the cost is
# still shared.
MAX_BATCH = 256

# Low-priority work lets this many batches go first under constant load, so that it still runs on a busy host.
YIELDS = 16

Work = Callable[[sqlite3.Connection], Any]


class WriteTask(msgspec.Struct, eq=False):
    """Work for a task of an event loop, which waits for `future`."""

    work: AppendRequest | Work
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class Later(NamedTuple):
    """Low-priority work, for a thread that waits for `future`."""

    work: Work
    future: Future[Any]


# The file and its write-ahead log, which exists as long as a connection does.
_FILES = ("", "-wal")


class FileCheck:
    """Checks that the files of an open store are still in place. Thread-safe.

    SQLite keeps writing to an unlinked file, and its content is lost when the process ends. A check costs microseconds.
    """

    def __init__(self, path: str) -> None:
        """Call after connecting. A file that does not exist now is not checked."""
        identities = [(path + end, _identity(path + end)) for end in _FILES]
        self._files = [(file, identity) for file, identity in identities if identity is not None]

    def check(self) -> None:
        """Raise StoreFault if a file was moved; succeed again when it is put back."""
        for path, identity in self._files:
            if _identity(path) != identity:
                raise StoreFault(
                    "moved",
                    f"{path} was moved, removed or replaced while in use, so nothing can be stored; "
                    "put it back or restart Dragoman",
                )


def _identity(path: str) -> tuple[int, int] | None:
    """Return the identity of the file at a path; None if there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


class Writer:
    """The writer thread and its queue."""

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], path: str, ended: Callable[[set[str]], None] = lambda _: None
    ) -> None:
        """The callback gets the sessions in which a turn ended, in this thread; it must not block."""
        self._connect = connect
        self._path = path
        self._note_ended = ended
        self._inbox: SimpleQueue[list[WriteTask] | Later | None] = SimpleQueue()
        self._unsent: list[WriteTask] = []
        self._later: deque[Later] = deque()
        self._yielded = 0
        self._closed = False
        self._connection = connect()
        self._files = FileCheck(path)
        self._log = LogWriter(self._connection)
        self._thread = threading.Thread(target=self._run, name="dragoman-store", daemon=True)
        self._thread.start()

    # --- the loop's side --------------------------------------------------------------------------------------

    def submit(self, work: AppendRequest | Work) -> asyncio.Future[Any]:
        """Submit work; the future completes when it is stored or has failed."""
        if self._closed:
            raise closed_error()
        loop = asyncio.get_running_loop()
        task = WriteTask(work, loop, loop.create_future())
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
        """Submit low-priority work from any thread but the writer's; not after `close`."""
        later = Later(work, Future())
        self._inbox.put(later)
        return later.future

    async def close(self) -> None:
        """Finish all submitted work, then stop."""
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
        """Take what is queued, waiting for the first if there is nothing to do; return whether to stop."""
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
        """Run one batch or one other task, and remove it from the list."""
        count = entries = 0
        while count < len(waiting) and entries < MAX_BATCH and isinstance(append := waiting[count].work, AppendRequest):
            entries += len(append.texts)
            count += 1
        done = waiting[: max(count, 1)]
        del waiting[: len(done)]
        try:
            if count:
                # Before, so that nothing goes to a moved file, and after, so that nothing is falsely acknowledged.
                self._files.check()
                self._log.append([task.work for task in done])  # type: ignore[misc]
                self._files.check()
                if self._log.ended_turns:
                    self._note_ended(self._log.take_ended_turns())
            else:
                self._log.clear_cache()
                done[0].result = self._transact(done[0].work)  # type: ignore[arg-type]
        except Exception as error:
            failure = error if isinstance(error, ProtocolError) else to_store_fault(error, self._path)
            for task in done:
                task.error = failure
            self._recover()
        self._notify_waiters(done)

    def _transact(self, work: Work) -> Any:
        connection = self._connection
        self._files.check()
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._files.check()
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
        """Replace a connection that failed in the middle of a transaction."""
        self._log.clear_cache()
        try:
            if self._connection.in_transaction:
                self._connection.rollback()
        except FAILURES:
            try:
                self._connection.close()
                self._connection = self._connect()
            except (*FAILURES, ProtocolError):
                return  # the next batch fails the same way, reports it, and retries this
            self._log = LogWriter(self._connection)

    @staticmethod
    def _notify_waiters(done: list[WriteTask]) -> None:
        """Wake the waiting tasks, all of a loop at once."""
        for loop in {task.loop for task in done}:
            try:
                loop.call_soon_threadsafe(_resolve_futures, [task for task in done if task.loop is loop])
            except RuntimeError:
                pass  # the loop has closed and nobody waits


def _resolve_futures(done: list[WriteTask]) -> None:
    for task in done:
        if task.future.done():
            continue  # cancelled meanwhile; the work is done anyway
        error = task.error or (task.work.error if isinstance(task.work, AppendRequest) else None)
        if error is not None:
            # A new error for each waiter: one that is raised twice collects both tracebacks.
            copy = error.__class__.__new__(error.__class__, *error.args)
            copy.__dict__.update(error.__dict__)
            task.future.set_exception(copy)
        else:
            task.future.set_result(task.work.first if isinstance(task.work, AppendRequest) else task.result)
