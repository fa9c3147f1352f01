"""Tools to test agents and clients: in-memory and scripted peers, scenarios, faults, contract checks.

Names are imported on first use: pytest loads the plug-in of this package in every run, so importing it must be cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.testing.contracts import check_store as check_store
    from dragoman.testing.contracts import check_transport as check_transport
    from dragoman.testing.dialect_contract import check_dialect as check_dialect
    from dragoman.testing.faults import Delay as Delay
    from dragoman.testing.faults import Disconnect as Disconnect
    from dragoman.testing.faults import Drop as Drop
    from dragoman.testing.faults import Duplicate as Duplicate
    from dragoman.testing.faults import Fault as Fault
    from dragoman.testing.faults import Garble as Garble
    from dragoman.testing.faults import Junk as Junk
    from dragoman.testing.faults import Merge as Merge
    from dragoman.testing.faults import Reorder as Reorder
    from dragoman.testing.faults import Split as Split
    from dragoman.testing.faults import Stall as Stall
    from dragoman.testing.faults import Truncate as Truncate
    from dragoman.testing.faulty_transport import faulty as faulty
    from dragoman.testing.matching import ANYTHING as ANYTHING
    from dragoman.testing.matching import exactly as exactly
    from dragoman.testing.matching import like as like
    from dragoman.testing.matching import matches as matches
    from dragoman.testing.matching import named as named
    from dragoman.testing.matching import one_of as one_of
    from dragoman.testing.matching import where as where
    from dragoman.testing.pairs import joined as joined
    from dragoman.testing.scenario import Step as Step
    from dragoman.testing.scenario import answer as answer
    from dragoman.testing.scenario import answered as answered
    from dragoman.testing.scenario import any_number as any_number
    from dragoman.testing.scenario import ask as ask
    from dragoman.testing.scenario import asked as asked
    from dragoman.testing.scenario import eventually as eventually
    from dragoman.testing.scenario import leave as leave
    from dragoman.testing.scenario import left as left
    from dragoman.testing.scenario import refuse as refuse
    from dragoman.testing.scenario import refused as refused
    from dragoman.testing.scenario import say as say
    from dragoman.testing.scenario import tell as tell
    from dragoman.testing.scenario import told as told
    from dragoman.testing.scenario import unordered as unordered
    from dragoman.testing.scenario import updated as updated
    from dragoman.testing.scenario_runner import Departure as Departure
    from dragoman.testing.scripted_peer import ScriptedAgent as ScriptedAgent
    from dragoman.testing.scripted_peer import ScriptedClient as ScriptedClient
    from dragoman.testing.scripted_peer import ScriptedPeer as ScriptedPeer
    from dragoman.testing.stand_ins import Finished as Finished
    from dragoman.testing.stand_ins import StandIn as StandIn
    from dragoman.testing.stand_ins import rehearse as rehearse
    from dragoman.testing.stand_ins import run_client as run_client
    from dragoman.testing.stand_ins import scripted_client as scripted_client
    from dragoman.testing.stand_ins import stand_in as stand_in
    from dragoman.testing.under_test import AgentUnderTest as AgentUnderTest
    from dragoman.testing.under_test import ClientTester as ClientTester
    from dragoman.testing.under_test import SessionUnderTest as SessionUnderTest
    from dragoman.testing.under_test import TurnSeen as TurnSeen
    from dragoman.testing.under_test import WireClient as WireClient
    from dragoman.transport.memory import memory_pair as memory_pair

_HOMES = {
    "testing.contracts": ("check_store", "check_transport"),
    "testing.dialect_contract": ("check_dialect",),
    "testing.faults": (
        "Delay", "Disconnect", "Drop", "Duplicate", "Fault", "Garble", "Junk", "Merge", "Reorder", "Split", "Stall",
        "Truncate",
    ),
    "testing.faulty_transport": ("faulty",),
    "testing.scenario_runner": ("Departure",),
    "testing.matching": ("ANYTHING", "exactly", "like", "matches", "named", "one_of", "where"),
    "testing.pairs": ("joined",),
    "testing.scenario": (
        "Step", "answer", "answered", "any_number", "ask", "asked", "eventually", "leave", "left", "refuse", "refused",
        "say", "tell", "told", "unordered", "updated",
    ),
    "testing.scripted_peer": ("ScriptedAgent", "ScriptedClient", "ScriptedPeer"),
    "testing.stand_ins": ("Finished", "StandIn", "rehearse", "run_client", "scripted_client", "stand_in"),
    "testing.under_test": ("AgentUnderTest", "ClientTester", "SessionUnderTest", "TurnSeen", "WireClient"),
    "transport.memory": ("memory_pair",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ANYTHING",
    "AgentUnderTest",
    "ClientTester",
    "Delay",
    "Departure",
    "Disconnect",
    "Drop",
    "Duplicate",
    "Fault",
    "Finished",
    "Garble",
    "Junk",
    "Merge",
    "Reorder",
    "ScriptedAgent",
    "ScriptedClient",
    "ScriptedPeer",
    "SessionUnderTest",
    "Split",
    "Stall",
    "StandIn",
    "Step",
    "Truncate",
    "TurnSeen",
    "WireClient",
    "answer",
    "answered",
    "any_number",
    "ask",
    "asked",
    "check_dialect",
    "check_store",
    "check_transport",
    "eventually",
    "exactly",
    "faulty",
    "joined",
    "leave",
    "left",
    "like",
    "matches",
    "memory_pair",
    "named",
    "one_of",
    "refuse",
    "refused",
    "rehearse",
    "run_client",
    "say",
    "scripted_client",
    "stand_in",
    "tell",
    "told",
    "unordered",
    "updated",
    "where",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'dragoman.testing' has no attribute {name!r}")
    value = getattr(import_module(f"dragoman.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
