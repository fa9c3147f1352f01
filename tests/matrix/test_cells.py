"""How the cells of a session that goes on are judged, by runs made up by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interop.cells import WORD, Failed, load, resume
from interop.drive import Outcome

HERE = Path(".")


def line(kind: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"session": "s", "kind": kind, "body": body, **more}


def run(by: str, first: int, text: str = WORD, **wire: Any) -> Outcome:
    """One that ended well; `wire` has how the agent answered session/..., by the last word of it."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    entries = [
        line("opened", {"by": by}, seq=first),
        line("update", update, seq=first + 1),
        line("turn_ended", {"stopReason": "end_turn"}, seq=first + 2),
        line("result", {"exitCode": 0, "stopReason": "end_turn", "text": text}),
    ]
    frames: list[tuple[str, Any]] = []
    for number, (name, answer) in enumerate(wire.items()):
        frames += [("c2a", {"id": number, "method": f"session/{name}"}), ("a2c", {"id": number, **answer})]
    return Outcome(code=0, entries=entries, frames=frames)


ANSWERED: dict[str, Any] = {"result": {}}
ABSENT = {"error": {"code": -32601, "message": "Method not found"}}
BROKEN = {"error": {"code": -32603, "message": "Internal error"}}


def judged(cell: Any, second: Outcome) -> str:
    runs = iter([run("session/new", 1), second])
    return str(cell(lambda prompt, **how: next(runs), HERE))


def test_a_session_continues_by_the_method_of_the_cell() -> None:
    assert judged(load, run("session/load", 4, load=ANSWERED)) == "by session/load"
    assert judged(resume, run("session/resume", 4, resume=ANSWERED)) == "by session/resume"


def test_an_agent_that_advertises_resume_without_having_it_is_loaded() -> None:
    verdict = judged(resume, run("session/load", 4, resume=ABSENT, load=ANSWERED))
    assert verdict == "by session/load (session/resume is missing)"


@pytest.mark.parametrize(
    ("cell", "second"),
    [
        (load, run("session/new", 4, load=BROKEN)),
        (load, run("session/load", 4)),
        (load, run("session/load", 5, load=ANSWERED)),
        (load, run("session/load", 4, text="what?", load=ANSWERED)),
        (resume, run("session/load", 4, load=ANSWERED)),
        (resume, run("session/load", 4, resume=BROKEN, load=ANSWERED)),
        (resume, run("session/new", 4, resume=ABSENT)),
    ],
    ids=["a new session", "not on the wire", "a gap", "forgotten", "not resumed", "resume failed", "neither is there"],
)
def test_any_other_method_is_a_failure(cell: Any, second: Outcome) -> None:
    with pytest.raises(Failed):
        judged(cell, second)
