"""The tools of a session: what its MCP servers offer, used in a turn through the same door as everything else.

Each call is a tool call of the turn. It asks for permission under its name (mcp__SERVER__TOOL, which policy reads as
`mcp_tool`), shows progress, ends with the turn, and has a timeout. Nothing of MCP is imported before the first server.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.turn_parts import Tool
from dragoman.schema import update as updates
from dragoman.schema.content import EmbeddedResource, TextContent
from dragoman.schema.toolcall import ToolCallBlock
from dragoman.schema.toolcall import ToolCallStatus as Status

if TYPE_CHECKING:
    from dragoman.mcp.results import McpPrompt, McpResource, McpResult, McpTool, PromptMessage
    from dragoman.mcp.sdk import ServerFailed
    from dragoman.mcp.toolbox import ServerStatus, Toolbox
    from dragoman.roles.agent.agent import Agent
    from dragoman.roles.agent.session import Session
    from dragoman.roles.agent.turn import Turn
    from dragoman.schema.mcp import McpServer

# How the reading of a resource is called in permission rules: mcp__SERVER__read_resource.
READ_RESOURCE = "read_resource"


class SessionTools:
    """The tools, resources and prompts of the MCP servers of a session; false if it has no servers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._toolbox: Toolbox | None = None
        self._failures: list[ServerFailed] = []  # not shown to the user yet
        self._prompts: list[McpPrompt] = []
        self._allowed: set[str] = set()  # names of tools that the user allowed for the whole session
        self._is_announced = False  # whether the client knows the session
        self.sample: Callable[[dict[str, Any]], Awaitable[Any]] | None = None  # answers a server that asks the model

    def __bool__(self) -> bool:
        return self._toolbox is not None

    # --- the servers ------------------------------------------------------------------------------------------

    async def open(self, servers: Sequence[McpServer], agent: Agent) -> None:
        """Open these servers instead of the ones before. A server that fails is shown to the user and left out."""
        if agent._has_hook("sample"):
            self.sample = partial(agent._call_hook, "sample", self._session)
        if self._toolbox is not None and self._toolbox.entries == list(servers):
            return
        await self.close()
        if not servers:
            return
        from dragoman.roles.agent.mcp_servers import open_toolbox

        self._toolbox = await open_toolbox(self._session, servers, self._on_failed, self._on_changed)
        await self._update_prompts(self._toolbox)

    async def close(self) -> None:
        """Close all servers and end what they started."""
        toolbox, self._toolbox = self._toolbox, None
        self._prompts = []
        self._failures.clear()
        if toolbox is not None:
            await toolbox.close()

    @property
    def servers(self) -> list[ServerStatus]:
        """The state of each server."""
        return [] if self._toolbox is None else self._toolbox.status()

    # --- what they offer --------------------------------------------------------------------------------------

    async def list_tools(self) -> list[McpTool]:
        """Return the tools of all servers, with names, descriptions and schemas as a model takes them."""
        return [] if self._toolbox is None else await self._toolbox.list_tools()

    async def list_resources(self) -> list[McpResource]:
        """Return the resources of all servers."""
        return [] if self._toolbox is None else await self._toolbox.list_resources()

    async def list_prompts(self) -> list[McpPrompt]:
        """Return the prompts of all servers. They are slash commands too: /SERVER:PROMPT."""
        return [] if self._toolbox is None else await self._toolbox.list_prompts()

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> list[PromptMessage]:
        """Return the messages of a prompt."""
        return await self._require_toolbox(server).get_prompt(server, name, arguments or {})

    # --- calls ------------------------------------------------------------------------------------------------

    async def call(
        self,
        server: str,
        tool: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        id: str | None = None,
    ) -> McpResult:
        """Call a tool by server and name, or by the name that a model uses (`mcp__SERVER__TOOL`), in the running turn.

        The user is asked unless they allowed the tool for the session. What goes wrong is a result with `is_error`,
        for the model to read. Raises resource_not_found for a tool that does not exist.
        """
        from dragoman.mcp.results import McpResult
        from dragoman.mcp.sdk import ServerFailed

        turn = self._turn()
        toolbox = self._require_toolbox(server)
        try:
            known = await toolbox.find_tool(server, tool)
        except ServerFailed as error:
            return McpResult(content=[TextContent(text=str(error))], is_error=True)
        given = dict(arguments or {})
        call = self._tool_call(turn, known.title or known.tool, known.name, known.kind, given, id)
        async with call:
            if not await self._is_allowed(call):
                return McpResult(content=[TextContent(text="the user did not allow this call")], is_error=True)
            await call.start()
            progress = _ProgressText(call)
            try:
                result = await toolbox.call(known, given, timeout=timeout, on_progress=progress)
            except ServerFailed as error:
                result = McpResult(content=[TextContent(text=str(error))], is_error=True)
            await _finish(call, result.content, result.is_error, result.structured)
        return result

    async def read(self, server: str, uri: str) -> list[EmbeddedResource]:
        """Read a resource of a server in the running turn, after asking the user. Raises permission_denied."""
        from dragoman.mcp.names import tool_name
        from dragoman.mcp.sdk import ServerFailed

        turn = self._turn()
        toolbox = self._require_toolbox(server)
        name = tool_name(toolbox.key_of(server), READ_RESOURCE)
        async with self._tool_call(turn, f"Read {uri}", name, "read", {"uri": uri}, None) as call:
            if not await self._is_allowed(call):
                raise ProtocolError(Kind.PERMISSION_DENIED, f"the user did not allow reading {uri} of {server}")
            await call.start()
            try:
                contents = await toolbox.read(server, uri)
            except ServerFailed as error:
                raise ProtocolError(Kind.RESOURCE_NOT_FOUND, str(error), {"server": server, "uri": uri}) from None
            await _finish(call, contents, False, UNSET)
        return contents

    def _turn(self) -> Turn:
        turn = self._session.turn
        if turn is None:
            raise ProtocolError(
                Kind.INVALID_STATE, "MCP tools are used in a turn, where the user sees them and can be asked"
            )
        return turn

    def _require_toolbox(self, server: str) -> Toolbox:
        if self._toolbox is None:
            raise ProtocolError(
                Kind.RESOURCE_NOT_FOUND,
                f"this session has no MCP servers, so there is no {server!r}; the client names them in session/new",
                {"server": server},
            )
        return self._toolbox

    def _tool_call(self, turn: Turn, title: str, name: str, kind: Any, given: Any, id: str | None) -> Tool:
        turn._tool_count += 1
        return Tool(
            turn,
            id or f"call_{self._session.turn_count}_{turn._tool_count}",
            title,
            kind=kind,
            name=name,
            input=given,
            requires_permission=name not in self._allowed,
            starts_at_once=name in self._allowed,
        )

    async def _is_allowed(self, call: Tool) -> bool:
        """Ask for permission, unless the user allowed this tool for the session."""
        name = str(call.name)
        if name in self._allowed:
            return True
        answer = await call.ask_permission()
        if answer and answer.kind == "allow_always":
            self._allowed.add(name)
        return bool(answer)

    # --- prompts as slash commands ----------------------------------------------------------------------------

    @property
    def commands(self) -> list[updates.AvailableCommand]:
        """The prompts as slash commands."""
        return [
            updates.AvailableCommand(
                name=f"{prompt.server}:{prompt.name}",
                description=prompt.description or prompt.title or f"Prompt of the MCP server {prompt.server}",
                input=_command_input(prompt),
            )
            for prompt in self._prompts
        ]

    async def expand_command(self, prompt: list[Any]) -> list[Any]:
        """Replace a prompt that is /SERVER:PROMPT with the messages of that prompt; others stay as they are."""
        from dragoman.roles.agent.mcp_servers import parse_command

        first = prompt[0] if prompt else None
        if self._toolbox is None or not isinstance(first, TextContent) or not first.text.lstrip().startswith("/"):
            return prompt
        found = parse_command(first.text, self._prompts)
        if found is None:
            return prompt
        from dragoman.mcp.sdk import ServerFailed

        known, arguments = found
        try:
            messages = await self._toolbox.get_prompt(known.server, known.name, arguments)
        except ServerFailed as error:
            raise ProtocolError(Kind.INVALID_PARAMS, f"/{known.server}:{known.name}: {error}") from None
        return [message.content for message in messages] + prompt[1:]

    def _on_changed(self, name: str) -> None:
        """Send the commands again when the prompts of a server changed, or a slow server is open at last."""
        if name == "prompts" and self._toolbox is not None and self._is_announced:
            from dragoman.engine.background import run_in_background

            run_in_background(self._update_prompts(self._toolbox))

    async def _update_prompts(self, toolbox: Toolbox) -> None:
        before = self._prompts
        prompts = await toolbox.list_open_prompts()
        if toolbox is self._toolbox:
            self._prompts = prompts
            if self._is_announced and prompts != before and self._session.is_bound:
                self._session.send_commands()

    # --- failures ---------------------------------------------------------------------------------------------

    def _on_failed(self, failure: ServerFailed) -> None:
        self._failures.append(failure)
        if self._is_announced and self._session.is_bound:
            self.show_failures(self._session.turn)

    def show_failures(self, turn: Turn | None = None) -> None:
        """Tell the user which servers failed: as a notice, or in a turn as failed tool calls."""
        self._is_announced = True
        connection = self._session.connection
        has_notices = connection.offers("client.session.notices")
        if not has_notices and turn is None:
            return
        failures, self._failures[:] = list(self._failures), []
        for number, failure in enumerate(failures, 1):
            title = f"MCP server {failure.server} is not available"
            if has_notices:
                self._session.send_update(updates.Notice(severity="warning", title=title, description=failure.why))
                continue
            id = f"mcp_{self._session.turn_count}_{number}"
            content: Any = [ToolCallBlock(content=TextContent(text=failure.why))]
            self._session.send_update(
                updates.ToolCallStart(tool_call_id=id, title=title, kind="other", status=Status.PENDING)
            )
            for status, members in ((Status.IN_PROGRESS, {}), (Status.FAILED, {"content": content})):
                self._session.send_update(updates.ToolCallProgress(tool_call_id=id, status=status, **members))


class _ProgressText:
    """Shows the progress of a call as its content, not more often than anybody can read."""

    def __init__(self, call: Tool) -> None:
        self._call = call
        self._shown_at = 0.0

    async def __call__(self, done: float, total: float | None, message: str) -> None:
        from dragoman.mcp.limits import PROGRESS_INTERVAL

        now = time.monotonic()
        if now - self._shown_at < PROGRESS_INTERVAL or self._call.status != Status.IN_PROGRESS:
            return
        self._shown_at = now
        count = f"{done:g} of {total:g}" if total else f"{done:g}"
        text = f"{message} ({count})" if message else count
        await self._call._send_progress(content=[ToolCallBlock(content=TextContent(text=text))])


async def _finish(call: Tool, content: Sequence[Any], is_error: bool, output: Any) -> None:
    blocks = [ToolCallBlock(content=block) for block in content]
    await call._set_status(Status.FAILED if is_error else Status.COMPLETED, content=blocks, raw_output=output)


def _command_input(prompt: McpPrompt) -> Any:
    if not prompt.arguments:
        return UNSET
    words = [each.name if each.is_required else f"[{each.name}]" for each in prompt.arguments]
    return updates.CommandInput(hint=" ".join(words))
