"""What users and our own tests test with: joined peers, scripted peers, contract checks."""

from dragoman.testing.pairs import joined
from dragoman.testing.script import ScriptedPeer, matches

__all__ = ["ScriptedPeer", "joined", "matches"]
