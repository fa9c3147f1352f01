"""An agent that offers more than the least: modes, an option, and sessions that are listed, loaded and resumed.

What a client chooses, lists or takes up it does of its own accord, or because its command says so; the tester can only
offer it. Takes a stage before its client introduced itself. Above are the probes of choices and the first look.
"""

from __future__ import annotations

from typing import Final

from dragoman.conformance.harness.client import INTRODUCTION, SESSION, ClientStage
from dragoman.conformance.harness.peer import Json

# A session from before, the modes and the option by which a command line can name them.
OLDER: Final = "check-older-session"
MODES: Final[Json] = {
    "currentModeId": "check-ask",
    "availableModes": [{"id": "check-ask", "name": "Ask"}, {"id": "check-code", "name": "Code"}],
}
OPTION: Final = "check-model"
VALUES: Final = ("small", "large")
OPTIONS: Final[Json] = [
    {
        "id": OPTION,
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": VALUES[0],
        "options": [{"value": value, "name": value.title()} for value in VALUES],
    }
]


def offer_choices(stage: ClientStage) -> None:
    """Sessions come with modes and an option."""
    stage.answers["session/new"] = {"sessionId": SESSION, "modes": MODES, "configOptions": OPTIONS}
    stage.answers["session/set_mode"] = {}
    stage.answers["session/set_config_option"] = {"configOptions": OPTIONS}


def offer_sessions(stage: ClientStage, *, load: bool = True) -> None:
    """There is a session from before, which can be listed and loaded, or only resumed."""
    capabilities = {"loadSession": load, "sessionCapabilities": {"list": {}, **({} if load else {"resume": {}})}}
    stage.answers["initialize"] = {**INTRODUCTION, "agentCapabilities": capabilities}
    stage.answers["session/list"] = {"sessions": [{"sessionId": OLDER, "cwd": stage.cwd, "title": "An older one"}]}
    stage.answers["session/load"] = stage.answers["session/resume"] = {}
