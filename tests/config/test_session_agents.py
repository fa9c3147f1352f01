"""The file that remembers which agent each stored session used last."""

from __future__ import annotations

import stat
from pathlib import Path

from dragoman.config.session_agents import MAX_SESSIONS, SessionAgent, SessionAgents, as_named_agent


def test_the_last_agent_of_a_session_is_remembered_until_it_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "session-agents.json"
    agents = SessionAgents(str(path))
    assert agents.find("s1") is None
    agents.note(SessionAgent(session="s1", name="opencode"))
    used = SessionAgent(session="s1", name="mine", command=("python", "mine.py"), dialect="crow")
    agents.note(used)
    assert SessionAgents(str(path)).find("s1") == used
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "a command line may contain secrets"
    assert as_named_agent(used).argv == ["python", "mine.py"]
    agents.forget("s1")
    assert agents.find("s1") is None
    assert "mine.py" not in path.read_text()


def test_only_the_newest_sessions_are_kept(tmp_path: Path) -> None:
    agents = SessionAgents(str(tmp_path / "session-agents.json"))
    for number in range(MAX_SESSIONS + 1):
        agents.note(SessionAgent(session=f"s{number}", name="mine"))
    assert agents.find("s0") is None
    assert agents.find(f"s{MAX_SESSIONS}") is not None
