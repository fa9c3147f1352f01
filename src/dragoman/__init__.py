"""Dragoman: the Agent Client Protocol in Python. Agents, clients and proxies in a dozen lines each.

The one public door. A name is imported when it is first asked for, so that an agent, which every editor starts and
waits for, never loads what only clients and proxies need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.errors import AgentExited as AgentExited
    from dragoman.errors import ConnectionFailed as ConnectionFailed
    from dragoman.errors import DragomanError as DragomanError
    from dragoman.errors import Kind as Kind
    from dragoman.errors import Overloaded as Overloaded
    from dragoman.errors import ProtocolError as ProtocolError
    from dragoman.errors import SandboxUnavailable as SandboxUnavailable
    from dragoman.errors import StartFailed as StartFailed
    from dragoman.errors import TransportClosed as TransportClosed
    from dragoman.errors import Unreachable as Unreachable
    from dragoman.errors import WriteStalled as WriteStalled
    from dragoman.roles.agent import Agent as Agent
    from dragoman.roles.client import RemoteAgent as RemoteAgent
    from dragoman.roles.client_turn import ClientTurn as ClientTurn
    from dragoman.roles.connect import connect as connect
    from dragoman.roles.conversation import Conversation as Conversation
    from dragoman.roles.elicit import Elicited as Elicited
    from dragoman.roles.lending import Lending as Lending
    from dragoman.roles.lending import Question as Question
    from dragoman.roles.option import Option as Option
    from dragoman.roles.providers import Provider as Provider
    from dragoman.roles.proxy import Forward as Forward
    from dragoman.roles.proxy import Proxy as Proxy
    from dragoman.roles.recovery import Recovery as Recovery
    from dragoman.roles.recovery import Trouble as Trouble
    from dragoman.roles.saying import Saying as Saying
    from dragoman.roles.sessions import Session as Session
    from dragoman.roles.signin import SignIn as SignIn
    from dragoman.roles.signin import in_this_terminal as in_this_terminal
    from dragoman.roles.tool import Tool as Tool
    from dragoman.roles.turn import Answer as Answer
    from dragoman.roles.turn import Turn as Turn
    from dragoman.session.message import Message as Message
    from dragoman.session.minutes import Minutes as Minutes
    from dragoman.session.place import Place as Place
    from dragoman.session.toolcall import ToolCall as ToolCall
    from dragoman.store.address import open_store as open_store
    from dragoman.transport.sandbox import Limits as Limits
    from dragoman.transport.sandbox import Sandbox as Sandbox

__version__ = "0.1.0"

_HOMES = {
    "Agent": "roles.agent",
    "AgentExited": "errors",
    "Answer": "roles.turn",
    "ClientTurn": "roles.client_turn",
    "ConnectionFailed": "errors",
    "Conversation": "roles.conversation",
    "DragomanError": "errors",
    "Elicited": "roles.elicit",
    "Forward": "roles.proxy",
    "Kind": "errors",
    "Lending": "roles.lending",
    "Limits": "transport.sandbox",
    "Message": "session.message",
    "Minutes": "session.minutes",
    "Option": "roles.option",
    "Overloaded": "errors",
    "Place": "session.place",
    "ProtocolError": "errors",
    "Provider": "roles.providers",
    "Proxy": "roles.proxy",
    "Question": "roles.lending",
    "Recovery": "roles.recovery",
    "RemoteAgent": "roles.client",
    "Sandbox": "transport.sandbox",
    "SandboxUnavailable": "errors",
    "Saying": "roles.saying",
    "Session": "roles.sessions",
    "SignIn": "roles.signin",
    "StartFailed": "errors",
    "Tool": "roles.tool",
    "ToolCall": "session.toolcall",
    "TransportClosed": "errors",
    "Trouble": "roles.recovery",
    "Turn": "roles.turn",
    "Unreachable": "errors",
    "WriteStalled": "errors",
    "connect": "roles.connect",
    "in_this_terminal": "roles.signin",
    "open_store": "store.address",
}

__all__ = [
    "Agent",
    "AgentExited",
    "Answer",
    "ClientTurn",
    "ConnectionFailed",
    "Conversation",
    "DragomanError",
    "Elicited",
    "Forward",
    "Kind",
    "Lending",
    "Limits",
    "Message",
    "Minutes",
    "Option",
    "Overloaded",
    "Place",
    "ProtocolError",
    "Provider",
    "Proxy",
    "Question",
    "Recovery",
    "RemoteAgent",
    "Sandbox",
    "SandboxUnavailable",
    "Saying",
    "Session",
    "SignIn",
    "StartFailed",
    "Tool",
    "ToolCall",
    "TransportClosed",
    "Trouble",
    "Turn",
    "Unreachable",
    "WriteStalled",
    "connect",
    "in_this_terminal",
    "open_store",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    value = getattr(import_module(f"dragoman.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
