"""Dragoman: the Agent Client Protocol in Python. Agents, clients and proxies in a dozen lines each."""

from dragoman.errors import (
    AgentExited,
    ConnectionFailed,
    DragomanError,
    Kind,
    Overloaded,
    ProtocolError,
    StartFailed,
    TransportClosed,
    WriteStalled,
)
from dragoman.roles.agent import Agent
from dragoman.roles.client import RemoteAgent, connect
from dragoman.roles.conversation import ClientTurn, Conversation
from dragoman.roles.lending import Lending, Question
from dragoman.roles.proxy import Proxy
from dragoman.roles.sessions import Session
from dragoman.roles.tool import Tool
from dragoman.roles.turn import Answer, Turn

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentExited",
    "Answer",
    "ClientTurn",
    "ConnectionFailed",
    "Conversation",
    "DragomanError",
    "Kind",
    "Lending",
    "Overloaded",
    "ProtocolError",
    "Proxy",
    "Question",
    "RemoteAgent",
    "Session",
    "StartFailed",
    "Tool",
    "TransportClosed",
    "Turn",
    "WriteStalled",
    "connect",
]
