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
    from dragoman.roles.agent.agent import Agent as Agent
    from dragoman.roles.agent.elicitation import Elicited as Elicited
    from dragoman.roles.agent.options import Option as Option
    from dragoman.roles.agent.providers import Provider as Provider
    from dragoman.roles.agent.session import Session as Session
    from dragoman.roles.agent.tool import Tool as Tool
    from dragoman.roles.agent.turn import Answer as Answer
    from dragoman.roles.agent.turn import Turn as Turn
    from dragoman.roles.agent.turn_parts import Saying as Saying
    from dragoman.roles.client.connect import connect as connect
    from dragoman.roles.client.recovery import Recovery as Recovery
    from dragoman.roles.client.recovery import Trouble as Trouble
    from dragoman.roles.client.remote_agent import RemoteAgent as RemoteAgent
    from dragoman.roles.client.session import Conversation as Conversation
    from dragoman.roles.client.terminal_login import SignIn as SignIn
    from dragoman.roles.client.terminal_login import in_this_terminal as in_this_terminal
    from dragoman.roles.client.turn import ClientTurn as ClientTurn
    from dragoman.roles.client.workspace import Lending as Lending
    from dragoman.roles.client.workspace import Question as Question
    from dragoman.roles.proxy.proxy import Forward as Forward
    from dragoman.roles.proxy.proxy import Proxy as Proxy
    from dragoman.session.location import Place as Place
    from dragoman.session.message import Message as Message
    from dragoman.session.toolcall import ToolCall as ToolCall
    from dragoman.session.transcript import Minutes as Minutes
    from dragoman.store.urls import open_store as open_store
    from dragoman.transport.sandbox.spec import Limits as Limits
    from dragoman.transport.sandbox.spec import Sandbox as Sandbox

__version__ = "0.1.0"

_HOMES = {
    "Agent": "roles.agent.agent",
    "AgentExited": "errors",
    "Answer": "roles.agent.turn",
    "ClientTurn": "roles.client.turn",
    "ConnectionFailed": "errors",
    "Conversation": "roles.client.session",
    "DragomanError": "errors",
    "Elicited": "roles.agent.elicitation",
    "Forward": "roles.proxy.proxy",
    "Kind": "errors",
    "Lending": "roles.client.workspace",
    "Limits": "transport.sandbox.spec",
    "Message": "session.message",
    "Minutes": "session.transcript",
    "Option": "roles.agent.options",
    "Overloaded": "errors",
    "Place": "session.location",
    "ProtocolError": "errors",
    "Provider": "roles.agent.providers",
    "Proxy": "roles.proxy.proxy",
    "Question": "roles.client.workspace",
    "Recovery": "roles.client.recovery",
    "RemoteAgent": "roles.client.remote_agent",
    "Sandbox": "transport.sandbox.spec",
    "SandboxUnavailable": "errors",
    "Saying": "roles.agent.turn_parts",
    "Session": "roles.agent.session",
    "SignIn": "roles.client.terminal_login",
    "StartFailed": "errors",
    "Tool": "roles.agent.tool",
    "ToolCall": "session.toolcall",
    "TransportClosed": "errors",
    "Trouble": "roles.client.recovery",
    "Turn": "roles.agent.turn",
    "Unreachable": "errors",
    "WriteStalled": "errors",
    "connect": "roles.client.connect",
    "in_this_terminal": "roles.client.terminal_login",
    "open_store": "store.urls",
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
