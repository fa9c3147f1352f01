"""Compare the records with the logs: nothing acknowledged is lost, doubled or out of order.

Takes the lines of a recorder and the folder with the files of the client and the agent; returns findings. Acknowledged
is what a client received or answered, an entry whose number it received, and what the store reported to the writer.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec

from dragoman.store.contract import EntryKind
from dragoman.store.sqlite import SqliteStore
from tests.store.kill_run.paths import AGENT_FILE, CLIENT_FILE, FILES, store_file
from tests.store.kill_run.records import NOTHING, Records, StoredLogs, Turn

# So many descriptors more than at its first agent a client may have at a later one: those of an agent that is ending.
FDS = 6

# So many faults are printed; the others are repetitions.
TOLD = 20


class Findings(msgspec.Struct):
    """What a comparison found."""

    acknowledged: int = 0
    found: int = 0
    turns: int = 0
    answered: int = 0
    questions: int = 0
    sessions: int = 0
    loaded: int = 0
    killed: dict[str, int] = {}
    in_turn: dict[str, int] = {}
    refused: dict[str, int] = {}
    lost: int = 0
    doubled: int = 0
    disordered: int = 0
    faults: list[str] = []


async def read(folder: str, file: str, findings: Findings) -> StoredLogs:
    """All logs of a file."""
    logs = StoredLogs()
    store = await SqliteStore.open(store_file(folder, file))
    try:
        for summary in await store.sessions():
            report = await store.verify(summary.session_id)
            if not report.is_intact:
                findings.faults.append(f"{file} {summary.session_id} is damaged: {report.lost}")
            logs.take(summary.session_id, await store.read(summary.session_id, intact=True))
            if summary.agent_session is not None:
                logs.agent_sessions[summary.session_id] = summary.agent_session
    finally:
        await store.close()
    return logs


async def compare(folder: str, records: Records) -> Findings:
    """Compare everything that was recorded with the logs."""
    findings = Findings(refused=dict(records.refused), faults=[*records.faults])
    files = {file: await read(folder, file, findings) for file in FILES}
    _numbers(files, records, findings)
    _deliveries(files[CLIENT_FILE], records, findings)
    _both_ends(files[CLIENT_FILE], files[AGENT_FILE], records, findings)
    _loads(files[CLIENT_FILE], files[AGENT_FILE], records, findings)
    _kills(files, records, findings)
    for name, counts in records.fds.items():
        if max(counts) > counts[0] + FDS:
            findings.faults.append(f"{name} gathers descriptors: {counts}")
    findings.sessions = len(files[CLIENT_FILE].agent_sessions)
    findings.found = sum(len(entries) for shown in files.values() for entries in shown.logs.values())
    del findings.faults[TOLD:]
    return findings


def _numbers(files: dict[str, StoredLogs], records: Records, findings: Findings) -> None:
    """Check that every acknowledged entry is in the log, and that the numbers have no gaps."""
    for file, shown in files.items():
        for log, entries in shown.logs.items():
            if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
                _fault(findings, "disordered", f"{file} {log} has gaps, or is out of order")
    for file, log, seq, kind in records.kept:
        _entry(files[file], log, seq, kind, lambda entry: entry.kind, findings)
    for file, log, seq, text in records.wrote:
        _entry(files[file], log, seq, text, lambda entry: entry.body, findings)
    for file, shown in files.items():
        for log, entries in shown.logs.items():
            texts = [entry.body for entry in entries if isinstance(entry.body, str)]
            if len(set(texts)) != len(texts):
                _fault(findings, "doubled", f"{file} {log} has something twice")
    acknowledged = {(file, log, seq) for file, log, seq, _ in records.kept + records.wrote}
    findings.acknowledged = len(acknowledged) + sum(map(len, records.given.values())) + len(records.answered)
    findings.questions = sum(map(len, records.asked.values()))
    findings.acknowledged += findings.questions + sum(map(len, records.received.values()))


def _entry(stored: StoredLogs, log: str, seq: int, wanted: str, what: Any, findings: Findings) -> None:
    entries = stored.logs.get(log, [])
    if seq > len(entries):
        _fault(findings, "lost", f"{log} {seq} was acknowledged and is not there")
    elif what(entries[seq - 1]) != wanted:
        _fault(findings, "lost", f"{log} {seq} was acknowledged as {wanted}, and is {what(entries[seq - 1])}")


def _deliveries(client: StoredLogs, records: Records, findings: Findings) -> None:
    """Check that a client received the beginning of a turn in its log, and all of it if the turn ended."""
    given: dict[tuple[str, str], list[str]] = defaultdict(list)
    for log, texts in records.given.items():
        for text in texts:
            given[log, text.partition(":")[0]].append(text)
    for (log, turn), texts in given.items():
        kept = client.turns.get(log, {}).get(turn, NOTHING).texts
        if texts != kept[: len(texts)]:
            missing, twice = set(texts) - set(kept), len(set(texts)) != len(texts)
            _fault(
                findings,
                "lost" if missing else "doubled" if twice else "disordered",
                f"{log}: given of {turn}: {texts[0]} to {texts[-1]}; kept: {kept[:1]} to {kept[-1:]}",
            )
    for log, turns in client.turns.items():
        for turn, turn_text in turns.items():
            if turn_text.texts != [f"{turn}:{number}" for number in range(len(turn_text.texts))]:
                _fault(findings, "disordered", f"{log}: {turn} is not whole: {_odd(turn_text.texts, turn)}")
    for turn, log in records.began.items():
        prompts = client.turns.get(log, {}).get(turn, NOTHING).prompts
        if len(prompts) != 1:
            _fault(
                findings, "doubled" if prompts else "lost", f"{log}: the prompt {turn} is there {len(prompts)} times"
            )
    for turn, log in records.answered.items():
        turn_text = client.turns.get(log, {}).get(turn, NOTHING)
        if [end.get("stopReason") for end in turn_text.ends] != ["end_turn"]:
            _fault(findings, "lost", f"{log}: {turn} was answered, its log has {turn_text.ends}")
        if given[log, turn] != turn_text.texts:
            _fault(findings, "lost", f"{log}: {turn} was answered, and not all of it was given")
    for what, known in (("asked", records.asked), ("decided", records.received)):
        _questions(client, what, known, records, findings)
    findings.turns, findings.answered = len(records.began), len(records.answered)


def _questions(
    stored: StoredLogs, what: str, known: dict[str, list[str]], records: Records, findings: Findings
) -> None:
    """What the user was asked, and the answer that the agent received, was in the log before."""
    for turn, questions in known.items():
        kept = getattr(_turn(stored, records, turn), what)
        if questions != kept[: len(questions)]:
            _fault(findings, "lost", f"{turn}: {what} {questions}, kept {kept}")


def _turn(stored: StoredLogs, records: Records, turn: str) -> Turn:
    """Return a turn from the log in which it started; if the start was not recorded, from any log."""
    logs = [stored.turns.get(records.began[turn], {})] if turn in records.began else stored.turns.values()
    return next((turns[turn] for turns in logs if turn in turns), NOTHING)


def _both_ends(client: StoredLogs, agent: StoredLogs, records: Records, findings: Findings) -> None:
    """Check that the client's part of a turn is the beginning of the turn in the agent's log."""
    for log, turns in client.turns.items():
        there = agent.turns.get(client.agent_sessions.get(log, ""), {})
        for turn, shown in turns.items():
            kept = there.get(turn, NOTHING)
            if shown.texts != kept.texts[: len(shown.texts)]:
                _fault(findings, "lost", f"{log}: the client has more of {turn} than the agent")
            if turn in records.answered and (shown.texts != kept.texts or len(kept.ends) != 1):
                _fault(findings, "lost", f"{log}: {turn} was answered, and the agent has {kept.ends} and other texts")
            received = records.received.get(turn, [])
            if received != kept.decided[: len(received)] or shown.decided[: len(kept.decided)] != kept.decided:
                _fault(
                    findings, "lost", f"{log}: {turn} heard {received}, agent {kept.decided}, client {shown.decided}"
                )
            if len(kept.prompts) > 1:
                _fault(findings, "doubled", f"{log}: the agent has the prompt {turn} {len(kept.prompts)} times")


def _loads(client: StoredLogs, agent: StoredLogs, records: Records, findings: Findings) -> None:
    """Check that a new process that loads a session receives what is in the agent's log."""
    for session in client.agent_sessions.values():
        kept = [text for turn in agent.turns.get(session, {}).values() for text in turn.texts]
        if records.loaded.get(session) == kept:
            findings.loaded += 1
        else:
            _fault(findings, "lost", f"{session} does not load as it is kept")


def _kills(files: dict[str, StoredLogs], records: Records, findings: Findings) -> None:
    """Count the kills during a turn: one that started and never ended, by the log."""
    open_turns: list[str] = []
    for turn, log in records.began.items():
        kept = files[CLIENT_FILE].turns.get(log, {}).get(turn)
        if kept is not None and not any("stopReason" in end for end in kept.ends):
            open_turns.append(turn)
    for shown in files.values():
        for entries in shown.logs.values():
            kinds: dict[str, set[str]] = defaultdict(set)
            for entry in entries:
                if isinstance(entry.body, str) and entry.turn is not None:
                    kinds[entry.turn].add(entry.kind)
            open_turns += [turn for turn, seen in kinds.items() if EntryKind.TURN_ENDED not in seen]
    lives = {turn.partition(".")[0] for turn in open_turns}
    lives |= {life.partition("-")[0] for life in lives}
    # A client may have lost agents before, in the middle of turns that were open then; only its last agent counts.
    last = {
        name.partition("-")[0]: name for name in sorted({turn.partition(".")[0] for turn in records.began}, key=_age)
    }
    findings.killed = dict.fromkeys(("agent", "client", "writer"), 0)
    findings.in_turn = dict(findings.killed)
    for role, name in records.killed:
        findings.killed[role] += 1
        findings.in_turn[role] += (last.get(name, name) if role == "client" else name) in lives


def _age(name: str) -> tuple[str, int]:
    life, _, number = name.partition("-")
    return life, int(number or 0)


def _odd(texts: list[str], turn: str) -> str:
    """Describe what is wrong with a turn."""
    for number, text in enumerate(texts):
        if text != f"{turn}:{number}":
            return f"{text} stands at {number}"
    return ""


def _fault(findings: Findings, what: str, sentence: str) -> None:
    setattr(findings, what, getattr(findings, what) + 1)
    findings.faults.append(sentence)
