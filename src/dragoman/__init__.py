"""Dragoman: the Agent Client Protocol in Python. Agents, clients and proxies in a dozen lines each.

The one public door. A name is imported when it is first asked for, so that an agent, which every editor starts and
waits for, never loads what only clients and proxies need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.bridge.team.bounds import TeamBounds as TeamBounds
    from dragoman.bridge.team.team import Team as Team
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
    from dragoman.roles.agent.elicitation import ElicitationAnswer as ElicitationAnswer
    from dragoman.roles.agent.options import Option as Option
    from dragoman.roles.agent.providers import Provider as Provider
    from dragoman.roles.agent.session import Session as Session
    from dragoman.roles.agent.turn import Answer as Answer
    from dragoman.roles.agent.turn import Turn as Turn
    from dragoman.roles.agent.turn_parts import MessageStream as MessageStream
    from dragoman.roles.agent.turn_parts import Tool as Tool
    from dragoman.roles.agent.work.terminal import TurnTerminal as TurnTerminal
    from dragoman.roles.client.callbacks import TerminalLogin as TerminalLogin
    from dragoman.roles.client.callbacks import run_in_terminal as run_in_terminal
    from dragoman.roles.client.connect import connect as connect
    from dragoman.roles.client.follow import Location as Location
    from dragoman.roles.client.recovery import FailedAttempt as FailedAttempt
    from dragoman.roles.client.recovery import Recovery as Recovery
    from dragoman.roles.client.remote_agent import RemoteAgent as RemoteAgent
    from dragoman.roles.client.session import ClientSession as ClientSession
    from dragoman.roles.client.turn import ClientTurn as ClientTurn
    from dragoman.roles.client.workspace import WorkspaceAccess as WorkspaceAccess
    from dragoman.roles.client.workspace import WorkspaceUse as WorkspaceUse
    from dragoman.roles.proxy.chain import Chain as Chain
    from dragoman.roles.proxy.component import Component as Component
    from dragoman.roles.proxy.proxy import Forward as Forward
    from dragoman.roles.proxy.proxy import Proxy as Proxy
    from dragoman.session.message import Message as Message
    from dragoman.session.toolcall import ToolCall as ToolCall
    from dragoman.session.transcript import Transcript as Transcript
    from dragoman.store.urls import open_store as open_store
    from dragoman.transport.sandbox.spec import Limits as Limits
    from dragoman.transport.sandbox.spec import Sandbox as Sandbox

__version__ = "0.1.0"

_HOMES = {
    "Agent": "roles.agent.agent",
    "AgentExited": "errors",
    "Answer": "roles.agent.turn",
    "Chain": "roles.proxy.chain",
    "ClientSession": "roles.client.session",
    "ClientTurn": "roles.client.turn",
    "Component": "roles.proxy.component",
    "ConnectionFailed": "errors",
    "DragomanError": "errors",
    "ElicitationAnswer": "roles.agent.elicitation",
    "FailedAttempt": "roles.client.recovery",
    "Forward": "roles.proxy.proxy",
    "Kind": "errors",
    "Limits": "transport.sandbox.spec",
    "Location": "roles.client.follow",
    "Message": "session.message",
    "MessageStream": "roles.agent.turn_parts",
    "Option": "roles.agent.options",
    "Overloaded": "errors",
    "ProtocolError": "errors",
    "Provider": "roles.agent.providers",
    "Proxy": "roles.proxy.proxy",
    "Recovery": "roles.client.recovery",
    "RemoteAgent": "roles.client.remote_agent",
    "Sandbox": "transport.sandbox.spec",
    "SandboxUnavailable": "errors",
    "Session": "roles.agent.session",
    "StartFailed": "errors",
    "Team": "bridge.team.team",
    "TeamBounds": "bridge.team.bounds",
    "TerminalLogin": "roles.client.callbacks",
    "Tool": "roles.agent.turn_parts",
    "ToolCall": "session.toolcall",
    "Transcript": "session.transcript",
    "TransportClosed": "errors",
    "Turn": "roles.agent.turn",
    "TurnTerminal": "roles.agent.work.terminal",
    "Unreachable": "errors",
    "WorkspaceAccess": "roles.client.workspace",
    "WorkspaceUse": "roles.client.workspace",
    "WriteStalled": "errors",
    "connect": "roles.client.connect",
    "open_store": "store.urls",
    "run_in_terminal": "roles.client.callbacks",
}

__all__ = [
    "Agent",
    "AgentExited",
    "Answer",
    "Chain",
    "ClientSession",
    "ClientTurn",
    "Component",
    "ConnectionFailed",
    "DragomanError",
    "ElicitationAnswer",
    "FailedAttempt",
    "Forward",
    "Kind",
    "Limits",
    "Location",
    "Message",
    "MessageStream",
    "Option",
    "Overloaded",
    "ProtocolError",
    "Provider",
    "Proxy",
    "Recovery",
    "RemoteAgent",
    "Sandbox",
    "SandboxUnavailable",
    "Session",
    "StartFailed",
    "Team",
    "TeamBounds",
    "TerminalLogin",
    "Tool",
    "ToolCall",
    "Transcript",
    "TransportClosed",
    "Turn",
    "TurnTerminal",
    "Unreachable",
    "WorkspaceAccess",
    "WorkspaceUse",
    "WriteStalled",
    "connect",
    "open_store",
    "run_in_terminal",
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
