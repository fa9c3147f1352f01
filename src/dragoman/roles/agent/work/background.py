"""Work of a session that goes on without a turn: background work, and turns that no prompt began."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.side_data import OWN_STATE, with_side_data
from dragoman.engine.incoming import to_protocol_error
from dragoman.errors import Kind, ProtocolError
from dragoman.ids import now
from dragoman.roles.agent.author.declarations import check_handler
from dragoman.schema.prompt import StopReason
from dragoman.schema.update import SessionState, SessionStateUpdate
from dragoman.store.contract import EntryKind
from dragoman.store.session_log import turn_ended_body

if TYPE_CHECKING:
    from dragoman.roles.agent.session import Session
    from dragoman.roles.agent.turn import Turn
    from dragoman.roles.agent.turn_parts import Tool

BackgroundFunction = Callable[["Tool"], Awaitable[Any]]

# How long background work may clean up when its session is closed. Seconds.
CLOSE_TIMEOUT = 5.0


class Background:
    """The background work of one session: a task for each tool call that goes on after its turn."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by the ids of their tool calls

    def __bool__(self) -> bool:
        return bool(self._tasks)

    @property
    def items(self) -> list[dict[str, str]]:
        """What goes on, as a state lists it."""
        return [{"type": "tool_call", "toolCallId": id} for id in self._tasks]

    async def start(self, tool: Tool, function: BackgroundFunction) -> None:
        """Announce a tool call, list it, and run the function in a task of its own."""
        if not callable(function):
            raise TypeError("write the name of the function, without a call: turn.run_in_background(TITLE, function)")
        check_handler("turn.run_in_background", function, "call")
        announced = asyncio.get_running_loop().create_future()
        task = asyncio.get_running_loop().create_task(self._run(tool, function, announced))
        self._tasks[tool.id] = task
        await asyncio.wait({announced, task}, return_when=asyncio.FIRST_COMPLETED)
        tell_state(self._session)

    async def _run(self, tool: Tool, function: BackgroundFunction, announced: asyncio.Future[None]) -> None:
        try:
            async with tool:
                tool.turn._open_tools.pop(tool.id, None)  # it does not end with the turn
                await tool.start()
                announced.set_result(None)
                await function(tool)
        except Exception as error:  # the client sees the failed call; nobody awaits this task
            self._session.connection.sender.log_failure(f"background work {tool.title!r}", error)
        finally:
            self._tasks.pop(tool.id, None)
            if self._session.is_bound and self._session.connection.failure is None:
                tell_state(self._session)

    async def close(self) -> None:
        """Cancel everything: the session is closed."""
        tasks = set(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)


def tell_state(session: Session, **members: Any) -> None:
    """Send the state of the session with its background work, to a client that knows states."""
    if not session.connection.dialect.is_wide:
        return
    background = UNSET if session._background is None else session._background.items
    state = SessionStateUpdate(state=session.state, background=background, **members)
    session.send_update(with_side_data(state, **{OWN_STATE: True}))


@asynccontextmanager
async def own_work(session: Session) -> AsyncIterator[Turn]:
    """Run a turn that no prompt began, after the one that runs. The client sees it by the state of the session."""
    from dragoman.roles.agent.turn import Turn

    task = asyncio.current_task()
    assert task is not None
    while session.turn is not None:
        if session.turn._running is not None and session.turn._running[0] is task:
            raise ProtocolError(
                Kind.INVALID_STATE,
                "this code runs in a turn, and session.work() would wait for its end; use the turn itself, or run the"
                " work in a task of its own",
            )
        await session.turn._ended.wait()
    session.turn_count += 1
    session.turn = turn = Turn(session, [])
    turn._running = (task, lambda result, error: None)
    turn._is_own_work = True
    session.history.end_message()
    log = session.log
    if log.store is not None:
        log.turn = f"turn_{session.turn_count}"
        log.append(EntryKind.TURN_STARTED, {})
    tell_state(session)
    cancelling = task.cancelling()
    failure: BaseException | None = None
    try:
        yield turn
    except asyncio.CancelledError as error:
        if not turn.cancelled or task.uncancel() > cancelling:
            failure = error
    except Exception as error:
        failure = None if turn.cancelled else error
    finally:
        _end_own_work(session, turn, failure)
    if failure is not None:
        raise failure


def _end_own_work(session: Session, turn: Turn, failure: BaseException | None) -> None:
    turn._finish()
    session.turn = turn._running = None
    session.updated_at = now()
    session.history.end_message()
    if session.log.store is not None:
        error = failure if isinstance(failure, Exception) else None
        session.log.append(EntryKind.TURN_ENDED, turn_ended_body(turn._result(), error))
        session.log.turn = None
    members: dict[str, Any] = {"stop_reason": turn._result().stop_reason, "usage": turn.token_usage or UNSET}
    if isinstance(failure, Exception):
        said = to_protocol_error(failure)
        code = session.connection.dialect.error_codes.get(said.kind, -32603)
        members = {"stop_reason": StopReason.ERROR, "error": {"code": code, "message": said.message}}
    elif failure is not None:
        members = {"stop_reason": StopReason.CANCELLED}
    if session.connection.failure is None:
        tell_state(session, **members)
    turn._mark_ended()


def state_of(session: Session) -> str:
    """Return what a session is doing."""
    if session.turn is None:
        return SessionState.IDLE
    return SessionState.REQUIRES_ACTION if session._open_questions else SessionState.RUNNING
