"""What an agent of a team may do: one policy for all, and each question says which agent asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.roles.client.callbacks import AskElicitation, AskPermission, choose_option
from dragoman.roles.client.workspace import Approve, WorkspaceAccess, WorkspaceUse
from dragoman.schema.permission import RequestPermissionParams

if TYPE_CHECKING:
    from dragoman.engine.incoming import Handler
    from dragoman.roles.client.permission.guard import Guard
    from dragoman.roles.client.remote_agent import RemoteAgent

# The tools of `tools.py`, as agents name them.
TOOL_NAMES = ("list_agents", "ask", "tell", "read", "done")
OWN_TOOLS = frozenset(f"mcp__team__{name}" for name in TOOL_NAMES)

# Kinds of tool calls that a message to another agent never has.
_ACTING_KINDS = frozenset({"edit", "delete", "move", "execute", "fetch"})

# Returns the guard of an agent by its name in the team.
MakeGuard = Callable[[str], "Guard"]
Route = Callable[[str, "Handler"], "Handler"]


class ChildAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The permission and the workspace of one agent."""

    permission: AskPermission | str
    workspace: WorkspaceAccess
    elicit: AskElicitation | None = None
    guard: Any = None
    name: str = ""

    def bind(self, remote: RemoteAgent) -> None:
        """Guard this agent."""
        if self.guard is not None:
            self.guard.set_agent(remote, self.name)

    async def close(self) -> None:
        """Stop guarding."""
        if self.guard is not None:
            await self.guard.close()


def guarded_access(name: str, make_guard: MakeGuard, elicit: AskElicitation | None, route: Route) -> ChildAccess:
    """Return the access of an agent whose uses are decided by a guard."""
    guard = make_guard(name)
    workspace = guard.workspace_access(route=route)
    workspace.display_name = name
    permission = _with_own_tools(guard.request_permission)
    return ChildAccess(permission=permission, workspace=workspace, elicit=elicit, guard=guard, name=name)


def plain_access(
    name: str,
    permission: AskPermission | str,
    approve: Approve | None,
    elicit: AskElicitation | None,
    route: Route,
) -> ChildAccess:
    """Return the access of an agent whose requests go to functions, with the agent's name."""
    workspace = WorkspaceAccess(approve=_named_approval(name, permission, approve))
    workspace.display_name = name
    workspace.wrap_handler = route
    asked = _with_own_tools(permission if isinstance(permission, str) else _named_permission(name, permission))
    return ChildAccess(permission=asked, workspace=workspace, elicit=elicit, name=name)


def _with_own_tools(permission: AskPermission | str) -> AskPermission:
    """Allow the team's own tools: a message to another agent does nothing that is not asked for again there."""

    def decide(params: RequestPermissionParams) -> Awaitable[str | None] | str | None:
        call = params.tool_call
        if call.name in OWN_TOOLS and not call.locations and call.kind not in _ACTING_KINDS:
            return choose_option(params, "allow")
        return choose_option(params, permission) if isinstance(permission, str) else permission(params)

    return decide


def titled(name: str, params: RequestPermissionParams) -> RequestPermissionParams:
    """Return a permission request whose title says which agent asks."""
    call = params.tool_call
    title = f"{name}: {call.title}" if call.title else f"{name} asks for permission"
    return msgspec.structs.replace(params, tool_call=msgspec.structs.replace(call, title=title))


def _named_permission(name: str, permission: AskPermission) -> AskPermission:
    return lambda params: permission(titled(name, params))


def _named_approval(name: str, permission: AskPermission | str, approve: Approve | None) -> Approve:
    """Without a function, reading is allowed, and the rest if all permissions are."""

    def decide(use: WorkspaceUse) -> Awaitable[bool] | bool:
        if approve is not None:
            return approve(msgspec.structs.replace(use, agent=name))
        return use.operation == "read" or permission == "allow"

    return decide
