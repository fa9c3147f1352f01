"""Tools to test agents and clients: in-memory and scripted peers, scenarios, faults, contract checks.

Names are imported on first use: pytest loads the plug-in of this package in every run, so importing it must be cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.testing.connections import connect_in_memory, run_scenario, scripted_client
    from dragoman.testing.contracts import check_store, check_transport
    from dragoman.testing.dialect_contract import check_dialect
    from dragoman.testing.fake_agents import CompletedClient, FakeAgent, fake_agent, run_client
    from dragoman.testing.faults import (
        Delay,
        Disconnect,
        Drop,
        Duplicate,
        Fault,
        Garble,
        Junk,
        Merge,
        Reorder,
        Split,
        Stall,
        Truncate,
        faulty,
    )
    from dragoman.testing.fleet_contract import check_fleet
    from dragoman.testing.matching import ANYTHING, exact_mismatch, mismatch, one_of, regex, variable, where
    from dragoman.testing.scenario import (
        Step,
        any_number,
        disconnect,
        eventually,
        expect_disconnect,
        expect_error,
        expect_notification,
        expect_request,
        expect_result,
        expect_update,
        send_error,
        send_frame,
        send_notification,
        send_request,
        send_result,
        unordered,
    )
    from dragoman.testing.scripted_peer import ScenarioFailed, ScriptedAgent, ScriptedClient, ScriptedPeer
    from dragoman.testing.under_test import AgentUnderTest, ClientTester, SessionUnderTest, TurnResult, WireClient
    from dragoman.transport.memory import memory_pair

_HOMES = {
    "testing.connections": "connect_in_memory run_scenario scripted_client",
    "testing.contracts": "check_store check_transport",
    "testing.dialect_contract": "check_dialect",
    "testing.fake_agents": "CompletedClient FakeAgent fake_agent run_client",
    "testing.faults": "Delay Disconnect Drop Duplicate Fault Garble Junk Merge Reorder Split Stall Truncate faulty",
    "testing.fleet_contract": "check_fleet",
    "testing.matching": "ANYTHING exact_mismatch mismatch one_of regex variable where",
    "testing.scenario": "Step any_number disconnect eventually expect_disconnect expect_error expect_notification "
    "expect_request expect_result expect_update send_error send_frame send_notification send_request send_result "
    "unordered",
    "testing.scripted_peer": "ScenarioFailed ScriptedAgent ScriptedClient ScriptedPeer",
    "testing.under_test": "AgentUnderTest ClientTester SessionUnderTest TurnResult WireClient",
    "transport.memory": "memory_pair",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "ANYTHING", "AgentUnderTest", "ClientTester", "CompletedClient", "Delay", "Disconnect", "Drop", "Duplicate",
    "FakeAgent", "Fault", "Garble", "Junk", "Merge", "Reorder", "ScenarioFailed", "ScriptedAgent", "ScriptedClient",
    "ScriptedPeer", "SessionUnderTest", "Split", "Stall", "Step", "Truncate", "TurnResult", "WireClient",
    "any_number", "check_dialect", "check_fleet", "check_store", "check_transport", "connect_in_memory", "disconnect",
    "eventually", "exact_mismatch", "expect_disconnect", "expect_error", "expect_notification", "expect_request",
    "expect_result", "expect_update", "fake_agent", "faulty", "memory_pair", "mismatch", "one_of", "regex",
    "run_client", "run_scenario", "scripted_client", "send_error", "send_frame", "send_notification",
    "send_request", "send_result", "unordered", "variable", "where",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'dragoman.testing' has no attribute {name!r}")
    value = getattr(import_module(f"dragoman.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
