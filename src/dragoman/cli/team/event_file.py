"""The events of teams in files, one for each session: what `team log`, `files` and `leases` show."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.ids import now
from dragoman.policy.redaction import Redactor, environment_secrets

if TYPE_CHECKING:
    from dragoman.bridge.team.events import TeamEvent
    from dragoman.config.paths import UserPaths

# Characters of a text in the file; the sessions themselves are in the store.
MAX_TEXT = 500

# Sessions whose events are kept; the oldest are removed.
MAX_FILES = 200


class EventFiles:
    """Writes the events of one process."""

    def __init__(self, paths: UserPaths, team: str) -> None:
        self._folder = os.path.join(paths.state, "teams")
        self._team = team
        self._redactor = Redactor(environment_secrets(os.environ))
        self._known: set[str] = set()

    def write(self, session_id: str, event: TeamEvent) -> None:
        """Append an event to the file of its session; a disk that is full does not stop the team."""
        record = msgspec.to_builtins(event)
        record["text"] = self._redactor.redact_text(event.text[:MAX_TEXT])
        try:
            if session_id not in self._known:
                self._begin(session_id)
            self._append(session_id, record)
        except OSError:
            self._known.add(session_id)

    def _begin(self, session_id: str) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._known.add(session_id)
        for path in event_files(self._folder)[MAX_FILES - 1 :]:
            os.unlink(path)
        start = {"time": now(), "kind": "started", "agent": self._team, "pid": os.getpid(), "cwd": os.getcwd()}
        self._append(session_id, start)

    def _append(self, session_id: str, record: dict[str, Any]) -> None:
        name = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in session_id)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(os.path.join(self._folder, f"{name}.jsonl"), flags, 0o600)
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode({name: value for name, value in record.items() if value != ""}) + b"\n")


def event_files(folder: str) -> list[str]:
    """Return the files, the latest first."""
    try:
        found = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".jsonl")]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda path: -os.stat(path).st_mtime_ns)


def read_events(path: str) -> Iterator[dict[str, Any]]:
    """Return the events of a file; a line that cannot be read is left out."""
    with open(path, "rb") as file:
        for line in file:
            try:
                event = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue  # the last line of a process that was killed
            if isinstance(event, dict):
                yield event


def is_running(events: list[dict[str, Any]]) -> bool:
    """Tell whether the process that wrote the events still runs."""
    pids = [event["pid"] for event in events if isinstance(event.get("pid"), int)]
    return bool(pids) and os.path.exists(f"/proc/{pids[-1]}") if os.path.isdir("/proc/self") else bool(pids)
