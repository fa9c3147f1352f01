"""What a recorder received in a kill run, and what the logs contain: both turn by turn, to be compared."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from dragoman.store.contract import Entry, EntryKind
from tests.store.kill_run.paths import CLIENT_FILE


class Records:
    """The lines of a recorder, by kind."""

    def __init__(self) -> None:
        self.given: dict[str, list[str]] = defaultdict(list)  # by log of the client
        self.kept: list[tuple[str, str, int, str]] = []  # file, log, number, kind
        self.wrote: list[tuple[str, str, int, str]] = []  # file, log, number, text
        self.began: dict[str, str] = {}  # turn: log
        self.answered: dict[str, str] = {}
        self.asked: dict[str, list[str]] = defaultdict(list)  # by turn
        self.received: dict[str, list[str]] = defaultdict(list)
        self.killed: list[tuple[str, str]] = []  # role, name
        self.loaded: dict[str, list[str]] = {}
        self.refused: dict[str, int] = defaultdict(int)
        self.fds: dict[str, list[int]] = defaultdict(list)
        self.faults: list[str] = []

    def note(self, words: list[str]) -> None:
        """Record one line."""
        match words:
            case ["given", log, text]:
                self.given[log].append(text)
            case ["kept", log, seq, kind]:
                self.kept.append((CLIENT_FILE, log, int(seq), kind))
            case ["wrote", file, log, seq, text]:
                self.wrote.append((file, log, int(seq), text))
            case ["began", turn, log]:
                self.began[turn] = log
            case ["answered", log, turn, _]:
                self.answered[turn] = log
            case ["asked", question]:
                self.asked[question.partition("?")[0]].append(question)
            case ["heard", question]:
                self.received[question.partition("?")[0]].append(question)
            case ["killed", role, name]:
                self.killed.append((role, name))
            case ["loaded", session, *texts]:
                self.loaded[session] = texts
            case ["refused", who, why]:
                self.refused[f"{who}: {why}"] += 1
            case ["fds", name, count]:
                self.fds[name].append(int(count))
            case ["fault", *what]:
                self.faults.append(" ".join(what))


class Turn(NamedTuple):
    """A turn in a log."""

    prompts: list[int]  # where its prompt stands
    texts: list[str]
    ends: list[Any]
    asked: list[str]
    decided: list[str]


NOTHING = Turn([], [], [], [], [])


class StoredLogs:
    """One file: its logs, turn by turn."""

    def __init__(self) -> None:
        self.logs: dict[str, list[Entry]] = {}
        self.turns: dict[str, dict[str, Turn]] = {}  # by log, then by the text of the prompt
        self.agent_sessions: dict[str, str] = {}

    def take(self, log: str, entries: list[Entry]) -> None:
        """Fold one log."""
        self.logs[log] = entries
        turns: dict[str, Turn] = defaultdict(lambda: Turn([], [], [], [], []))
        prompts: dict[str | None, str] = {}  # by turn: one that died late may end after another began
        questions: dict[str, str] = {}  # by tool call
        for entry in entries:
            body = entry.body
            match entry.kind:
                case EntryKind.PROMPT:
                    prompts[entry.turn] = body["prompt"][-1]["text"]
                    turns[prompts[entry.turn]].prompts.append(entry.seq)
                case EntryKind.UPDATE if isinstance(body, dict) and body["sessionUpdate"] == "agent_message_chunk":
                    text = body["content"]["text"].strip()
                    turns[text.partition(":")[0]].texts.append(text)
                case EntryKind.ASKED:
                    questions[body["toolCall"]["toolCallId"]] = question = body["toolCall"]["title"]
                    turns[question.partition("?")[0]].asked.append(question)
                case EntryKind.DECIDED:
                    question = questions[body["toolCallId"]]
                    turns[question.partition("?")[0]].decided.append(question)
                case EntryKind.TURN_ENDED if entry.turn in prompts:
                    turns[prompts[entry.turn]].ends.append(body)
        self.turns[log] = dict(turns)
