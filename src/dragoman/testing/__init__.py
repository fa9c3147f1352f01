"""What users and our own tests test with: joined peers, scripted peers, contract checks."""

from dragoman.testing.contracts import check_store, check_transport
from dragoman.testing.pairs import joined
from dragoman.testing.script import ScriptedAgent, ScriptedClient, ScriptedPeer, exactly, matches

__all__ = [
    "ScriptedAgent",
    "ScriptedClient",
    "ScriptedPeer",
    "check_store",
    "check_transport",
    "exactly",
    "joined",
    "matches",
]
