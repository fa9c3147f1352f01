"""Contract checks for transports and stores, to call from a test.

Each check takes a factory, uses what it makes as the engine would, and raises AssertionError if a rule is broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.store.claims import Fenced
from dragoman.store.contract import (
    Claim,
    Draft,
    Entry,
    Feature,
    Retention,
    SavedState,
    Selection,
    Store,
    session_cursor,
)
from dragoman.transport.base import Transport

# Seconds that one step of a check may take; a step that takes longer hangs.
STEP_TIMEOUT = 60.0

MakePair = Callable[[], Awaitable[tuple[Transport, Transport]]]
MakeStore = Callable[[], Awaitable[Store]]


async def check_transport(make: MakePair) -> None:
    """Check that two connected transports deliver frames whole and in order, both ways, and close cleanly."""
    async with bounded("making a pair of transports"):
        left, right = await make()
    for one, other in ((left, right), (right, left)):
        sent = [b'{"n":%d}' % number for number in range(2000)]
        for frame in sent:
            one.send(frame)
        assert await _receive(other, sent) == sent, "frames were lost, changed or out of order"
    large = b'"' + b"x" * 3_000_000 + b'"'
    left.send(large)
    assert await _receive(right, [large]) == [large], "a large frame did not arrive whole"
    left.send(b'"last"')
    async with bounded("close, twice,"):
        await left.close("done")
        await left.close("again")
    assert await _receive(right, [b'"last"']) == [b'"last"'], "a frame sent before close did not arrive"
    async with bounded("receive, after the other end was closed,"):
        assert str(await _failure(right.receive())), "the error after close has no message"
    try:
        left.send(b"1")
    except ConnectionFailed:
        pass
    else:
        raise AssertionError("a closed transport accepted a frame")
    async with bounded("close of the other end"):
        await right.close()


@asynccontextmanager
async def bounded(step: str) -> AsyncIterator[None]:
    """Raise AssertionError that names the step if it takes too long."""
    limit = asyncio.timeout(STEP_TIMEOUT)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(f"{step} did not end within {STEP_TIMEOUT:g} seconds") from None


async def _receive(transport: Transport, sent: Sequence[bytes]) -> list[object]:
    frames: list[object] = []
    limit = asyncio.timeout(STEP_TIMEOUT)
    try:
        async with limit:
            while len(frames) < len(sent):
                frames.extend(await transport.receive())
    except TimeoutError:
        if not limit.expired():
            raise
        missing = next(number for number, frame in enumerate(sent) if frames[number : number + 1] != [frame])
        raise AssertionError(
            f"frames were lost: of {len(sent)} that were sent, {len(frames)} arrived within {STEP_TIMEOUT:g} seconds; "
            f"the first that is missing is number {missing + 1}, {sent[missing][:80]!r}"
        ) from None
    return frames


async def _failure(work: Awaitable[object]) -> Exception:
    try:
        await work
    except (ConnectionFailed, ProtocolError) as error:
        return error
    raise AssertionError("the call should have failed, but succeeded")


async def check_store(make: MakeStore) -> None:
    """Check that a store numbers entries from 1 without gaps, appends atomically, and reports missing sessions.

    Also check listing, finding, forking, importing, searching, expiring and deleting sessions, claims of logs, states
    kept with sessions, and that credentials stay out of the logs.
    """
    checks = (
        _check_log,
        _check_names,
        _check_pages,
        _check_claims,
        _check_states,
        _check_fork,
        _check_import,
        _check_search,
        _check_expiry,
        _check_credentials,
    )
    for check in checks:
        async with bounded(f"the check of {check.__name__.removeprefix('_check_')}"):
            store = await make()
            await check(store)
            await store.close()
            await store.close()
            await _refuses(store.read("one"), Kind.INVALID_STATE)
            await _refuses(store.append("one", [_draft(1)]), Kind.INVALID_STATE)


async def _check_log(store: Store) -> None:
    first = await store.append("one", [_draft(1), _draft(2)])
    second = await store.append("one", [_draft(3)])
    await store.append("two", [_draft(4)])
    assert [entry.seq for entry in [*first, *second]] == [1, 2, 3], "numbers have gaps or do not start at 1"
    assert await store.read("one") == [*first, *second], "read does not return what was appended"
    assert [entry.seq for entry in await store.read("one", after=1, limit=1)] == [2], "after or limit is wrong"
    assert await store.read("one", after=3) == [], "read returned entries after the end"
    lines = await store.lines("one", after=1)
    assert [msgspec.json.decode(line, type=Entry) for line in lines] == [first[1], *second], "lines are not the entries"
    body = first[0].body
    body["n"] = "changed"
    assert (await store.read("one"))[0].body == {"n": 1}, "a caller could change a stored entry"
    try:
        await store.append("one", [_draft(5), Draft(kind="update", actor="a", time="t", body=object())])
    except (TypeError, NotImplementedError, ValueError):
        pass
    assert len(await store.read("one")) == 3, "a failed append was stored in part"
    assert await store.append("one", []) == [], "an empty append returned entries"
    many = await asyncio.gather(*(store.append(f"s{n % 7}", [_draft(n)]) for n in range(500)))
    assert sorted(entries[0].seq for entries in many[::7]) == list(range(1, 73)), (
        "concurrent appends produced wrong numbers"
    )
    assert (await store.verify("one")).is_intact, "verify reports an intact log as damaged"
    assert (await store.repair("one")).kept == [(1, 3)], "repair changed an intact log"


async def _check_names(store: Store) -> None:
    opened = {"agent": {"name": "echo"}, "cwd": "/w"}
    prompt = {"prompt": [{"type": "text", "text": "Mend the  roof"}]}
    await store.append("one", [_draft(1, "opened", opened), _draft(2, "turn_started", {}), _draft(3, "prompt", prompt)])
    await store.append("two", [_draft(4)])
    listed = await store.sessions()
    assert [summary.session_id for summary in listed] == ["two", "one"], "the newest is not first"
    one = listed[1]
    assert (one.agent, one.cwd, one.title) == ("echo", "/w", "Mend the roof"), "the summary does not match the log"
    assert (one.entries, one.turns) == (3, 1), "entries or turns are counted wrong"
    assert one.created_at < one.updated_at, "the times are not those of the first and last entry"
    titled = {"sessionUpdate": "session_info_update", "title": "Roof"}
    await store.append("one", [_draft(5, "update", titled)])
    assert (await store.find("one")).title == "Roof", "a title that the agent sent is not listed"
    await store.rename("one", "roof work")
    assert (await store.find("roof work")).session_id == "one", "a session is not found by its name"
    assert (await store.find("tw")).session_id == "two", "a session is not found by the beginning of its id"
    await _refuses(store.rename("two", "roof work"), Kind.INVALID_PARAMS)
    await _refuses(store.rename("two", "a\nb"), Kind.INVALID_PARAMS)
    await _refuses(store.rename("two", "a$(b)"), Kind.INVALID_PARAMS)
    await _refuses(store.rename("three", "new"), Kind.SESSION_NOT_FOUND)
    await store.rename("one", None)
    await _refuses(store.find("roof work"), Kind.SESSION_NOT_FOUND)
    assert await store.delete("two"), "delete did not report that it deleted a log"
    assert not await store.delete("two"), "delete reported a deletion for a missing log"
    await _refuses(store.read("two"), Kind.SESSION_NOT_FOUND)
    assert [entry.seq for entry in await store.append("two", [_draft(6)])] == [1], "a deleted log left something"


async def _check_pages(store: Store) -> None:
    for number in range(1, 8):
        opened = _draft(number, "opened", {"cwd": "/even" if number % 2 == 0 else "/odd"})
        await store.append(f"s{number}", [opened])
    hidden = {"sessionUpdate": "session_info_update", "_meta": {"dragoman": {"archived": True}}}
    await store.append("s3", [_draft(3, "update", hidden)])
    seen: list[str] = []
    after = None
    while page := await store.sessions(Selection(after=after, limit=3)):
        assert len(page) <= 3, "a page has more sessions than its limit"
        seen += [summary.session_id for summary in page]
        after = session_cursor(page[-1])
    assert seen == [f"s{number}" for number in range(7, 0, -1)], "pages miss or repeat sessions, or are out of order"

    async def ids(**wanted: Any) -> list[str]:
        return [summary.session_id for summary in await store.sessions(Selection(**wanted))]

    assert await ids(cwd="/even") == ["s6", "s4", "s2"], "sessions are not listed by folder"
    assert await ids(archived=True) == ["s3"], "archived sessions are not listed alone"
    assert await ids(archived=False, limit=4, after=after) == [], "a list continues after its end"
    assert await ids(archived=False, cwd="/odd") == ["s7", "s5", "s1"], "archived sessions are not left out"
    assert await ids(ids=["s2", "s5", "none"]) == ["s5", "s2"], "sessions are not listed by their ids"
    assert await ids(ids=[]) == [], "a list of no ids has sessions"
    assert await ids(without=["s7", "s6"], limit=2) == ["s5", "s4"], "sessions are not left out"
    for number in (8, 8, 8):
        await store.append(f"t{len(seen)}", [_draft(number)])
        seen.append("")
    [first] = await store.sessions(Selection(limit=1))
    rest = await ids(after=session_cursor(first), limit=2)
    assert [first.session_id, *rest] == ["t9", "t8", "t7"], "sessions of one moment are missed or repeated"


async def _check_claims(store: Store) -> None:
    assert (await store.owner("one")).epoch == 0, "a log that does not exist has a claim"
    first = await store.claim("one", "a", epoch=0)
    assert (first.node, first.epoch, first.seq) == ("a", 1, 0), "the first claim of a log is wrong"
    assert await store.sessions() == [], "a log that only has a claim is listed"
    await _refuses(store.find("one"), Kind.SESSION_NOT_FOUND)
    assert [entry.seq for entry in await store.append("one", [_draft(1), _draft(2)], claim=first)] == [1, 2], (
        "an append with a claim is not stored"
    )
    await _is_fenced(store.append("one", [_draft(3)]), "a", 1)
    await _is_fenced(store.claim("one", "b", epoch=0), "a", 1)
    second = await store.claim("one", "b", epoch=1)
    assert (second.epoch, second.seq) == (2, 2), "a claim does not say where the log ends"
    await _is_fenced(store.append("one", [_draft(3)], claim=first), "b", 2)
    assert len(await store.read("one")) == 2, "an append of a former owner was stored"
    assert await store.owner("one") == second, "the owner is not the last who claimed"
    await store.append("one", [_draft(3)], claim=second)
    settled = await store.settle(second)
    assert (settled.node, settled.epoch, settled.seq) == ("b", 3, 3), "settle does not say what is stored"
    await _is_fenced(store.append("one", [_draft(4)], claim=second), "b", 3)
    assert (await store.settle(second)).epoch == 4, "an owner that lost the answer to settle cannot settle again"
    await _is_fenced(store.settle(first), "b", 4)
    await store.release(first)
    assert (await store.owner("one")).node == "b", "a former owner released the log of another"
    await store.release(await store.owner("one"))
    assert (await store.owner("one")).node == "", "a log was not released"
    assert [entry.seq for entry in await store.append("one", [_draft(4)])] == [4], "a released log cannot be written"
    third = await store.claim("one", "c", epoch=4)
    await store.delete("one")
    await _is_fenced(store.append("one", [_draft(5)], claim=third), "", 0)
    await store.release(await store.claim("two", "a", epoch=(await store.owner("two")).epoch))
    await _refuses(store.read("two"), Kind.SESSION_NOT_FOUND)
    await store.append("two", [_draft(1)])
    epoch = (await store.owner("two")).epoch
    claims = (store.claim("two", node, epoch=epoch) for node in "abcdefgh")
    results = await asyncio.gather(*claims, return_exceptions=True)
    won = [result for result in results if isinstance(result, Claim)]
    assert len(won) == 1, f"{len(won)} nodes own one log"
    told = {result.owner.node for result in results if isinstance(result, Fenced)}
    assert told == {won[0].node}, "the nodes that lost were not told who owns the log"


async def _is_fenced(work: Awaitable[object], node: str, epoch: int) -> None:
    error = await _failure(work)
    assert isinstance(error, Fenced), f"expected a refusal because of a later claim, got {error!r}"
    assert error.owner.node == node, f"the owner is {node!r}, but the error names {error.owner.node!r}"
    assert not node or error.owner.epoch == epoch, f"the epoch is {epoch}, but the error says {error.owner.epoch}"


async def _check_states(store: Store) -> None:
    await store.append("one", [_draft(1), _draft(2)])
    assert await store.saved_state("one") is None, "a session has a state before any was kept"
    await store.save_state("one", 1, b"\x00first")
    await store.save_state("one", 2, b"\x00second")
    assert await store.saved_state("one") == SavedState(2, b"\x00second"), "the last state is not the one kept"
    await store.append("one", [_draft(3)])
    assert await store.saved_state("one") == SavedState(2, b"\x00second"), "an append lost the state"
    await store.fork("one", "fork", upto=1)
    assert await store.saved_state("fork") is None, "a fork has a state of entries that it does not have"
    await store.delete("one")
    await store.append("one", [_draft(1)])
    assert await store.saved_state("one") is None, "a deleted session left its state"
    await _refuses(store.save_state("none", 1, b"x"), Kind.SESSION_NOT_FOUND)
    await _refuses(store.saved_state("none"), Kind.SESSION_NOT_FOUND)


async def _check_fork(store: Store) -> None:
    await store.append("one", [_draft(n) for n in range(1, 6)])
    forked = await store.fork("one", "fork", upto=3)
    assert (forked.session_id, forked.forked_from, forked.entries) == ("fork", "one", 3), "the fork summary is wrong"
    assert await store.read("fork") == (await store.read("one"))[:3], (
        "a fork does not start with the entries of its origin"
    )
    assert (await store.append("fork", [_draft(6)]))[0].seq == 4, "a fork does not continue its own numbers"
    assert len(await store.read("one")) == 5, "a fork changed its origin"
    await _refuses(store.fork("one", "fork"), Kind.INVALID_PARAMS)
    await _refuses(store.fork("none", "other"), Kind.SESSION_NOT_FOUND)
    assert (await store.fork("one", "whole")).entries == 5, "a fork without an end is not whole"


async def _check_import(store: Store) -> None:
    begun = await store.begin_import("one", 3)
    assert (begun.session_id, begun.entries, begun.imported) == ("one", 0, 3), "a new import is not empty"
    entries = await store.append("one", [_draft(n) for n in range(1, 4)])
    assert [entry.seq for entry in entries] == [1, 2, 3], "imported entries are not numbered from 1"
    await store.append("one", [_draft(4)])
    await store.rename("one", "roof")
    await store.repair("one")
    for summary in (await store.find("roof"), *await store.sessions()):
        assert (summary.entries, summary.imported) == (4, 3), "the number of imported entries is lost"
    assert (await store.fork("one", "whole")).imported == 3, "a fork of an imported session is not listed as imported"
    assert (await store.fork("whole", "part", upto=2)).imported == 2, "a fork has more imported entries than entries"
    assert (await store.find("part")).imported == 2, "the number of imported entries of a fork is lost"
    await _refuses(store.begin_import("one", 3), Kind.INVALID_PARAMS)
    await store.append("own", [_draft(5)])
    assert (await store.find("own")).imported == 0, "a session that was not imported is listed as imported"
    await _refuses(store.begin_import("own", 1), Kind.INVALID_PARAMS)
    await store.delete("one")
    await store.append("one", [_draft(6)])
    assert (await store.find("one")).imported == 0, "a deleted log left something"


async def _check_search(store: Store) -> None:
    def chunk(text: str) -> dict[str, object]:
        return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}

    def call(title: str) -> dict[str, object]:
        return {"sessionUpdate": "tool_call", "toolCallId": "c", "title": title}

    if Feature.SEARCH not in store.features:
        await _refuses(store.search("word"), Kind.CAPABILITY_UNSUPPORTED)
        return
    prompt = {"prompt": [{"type": "text", "text": "Where is the Überlauf?"}]}
    texts = ["It is in par", "se_line, ", "near the top."]
    await store.append("one", [_draft(1, "prompt", prompt), *(_draft(2, "update", chunk(text)) for text in texts)])
    await store.append("two", [_draft(3, "update", chunk("another matter")), _draft(4, "update", call("Read roof.py"))])
    hits = await store.search("parse_line")
    assert [(hit.session_id, hit.seq, hit.role) for hit in hits] == [("one", 2, "agent")], "a split word is not found"
    low, high = hits[0].marks[0]
    assert hits[0].snippet[low:high] == "parse_line", "the snippet does not show the search term"
    assert [hit.role for hit in await store.search("uberlauf")] == ["user"], (
        "the search does not ignore case and accents"
    )
    assert await store.search("matter roof") == [], "words of two passages match as one hit"
    assert [hit.role for hit in await store.search('"read roof" py*')] == ["tool"], "phrases or prefixes do not work"
    await store.append("one", [_draft(5, "update", chunk(" Go and see."))])
    assert [hit.seq for hit in await store.search('"top go and"')] == [2], "text appended to a passage is not found"
    assert await store.search("top", session_id="two") == [], "a search in one session returns hits of another"
    assert len(await store.search("the", limit=1)) == 1, "the search limit is ignored"
    await _refuses(store.search('" - *'), Kind.INVALID_PARAMS)
    await store.delete("one")
    assert await store.search("parse_line") == [], "a deleted session is still found"


async def _check_expiry(store: Store) -> None:
    for number in range(1, 6):
        await store.append(f"s{number}", [_draft(number)])
    await store.rename("s1", "kept")
    now = "2026-01-01T00:00:10Z"
    assert await store.expire(Retention(), now) == [], "a session expired without a limit"
    assert sorted(await store.expire(Retention(seconds=7.5), now)) == ["s2"], "sessions do not expire by age"
    await _refuses(store.read("s2"), Kind.SESSION_EXPIRED)
    await _refuses(store.find("s2"), Kind.SESSION_EXPIRED)
    await _refuses(store.append("s2", [_draft(6)]), Kind.SESSION_EXPIRED)
    assert await store.expire(Retention(count=2), now) == ["s3"], "the newest or the named sessions are not kept"
    assert sorted(await store.expire(Retention(bytes=1, spares_named=False), now)) == ["s1", "s4"], (
        "the limit on bytes is ignored"
    )
    assert [summary.session_id for summary in await store.sessions()] == ["s5"], "expired sessions are listed"


async def _check_credentials(store: Store) -> None:
    await store.append("one", [_draft(1)])
    assert await store.credentials("one") == {}, "a session has credentials before any were stored"
    await store.keep_credentials("one", {"mcp": {"env": {"TOKEN": "s3cret"}}})
    assert await store.credentials("one") == {"mcp": {"env": {"TOKEN": "s3cret"}}}, "credentials changed in the store"
    assert not any(b"s3cret" in line for line in await store.lines("one")), "credentials are in the log"
    await store.fork("one", "two")
    await store.delete("one")
    assert await store.credentials("one") == {}, "credentials remain after their session was deleted"
    assert await store.credentials("two") != {}, "a fork lost the credentials"


def _draft(number: int, kind: str = "update", body: object = None) -> Draft:
    time = f"2026-01-01T00:00:{number % 60:02}Z"
    return Draft(kind=kind, actor="agent", time=time, body={"n": number} if body is None else body, turn="t1")


async def _refuses(work: Awaitable[object], kind: str) -> None:
    error = await _failure(work)
    assert isinstance(error, ProtocolError), f"expected {kind}, got {error!r}"
    assert error.kind == kind, f"expected {kind}, got {error.kind}"
