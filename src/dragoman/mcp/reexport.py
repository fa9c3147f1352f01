"""A server that is reached over ACP, served again for an agent that cannot: every request is passed on to the server.

The SDK speaks the agent's era on one side and the server's on the other. The server is connected at the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from dragoman.mcp.channel import Channel
from dragoman.mcp.connection import ServerConnection, ServerSettings
from dragoman.mcp.names import server_key
from dragoman.mcp.offers import OfferedServer
from dragoman.mcp.sdk import CODE_NO_METHOD, ServerFailed
from dragoman.policy.redaction import Redactor

if TYPE_CHECKING:
    from mcp import Client


class Reexport:
    """One server of the peer on the other side, as a server of ours."""

    def __init__(self, name: str, make_channel: Callable[[], Channel]) -> None:
        self.server = _build(name, self._client)
        self._name = name
        self._make_channel = make_channel
        self._connection: ServerConnection | None = None
        self._lock = asyncio.Lock()

    async def _client(self) -> Client:
        """Return the client of the server, connected; a connection that ended is opened again."""
        from mcp.shared.exceptions import MCPError

        async with self._lock:
            if self._connection is None or not self._connection.is_open:
                name = self._name
                self._connection = ServerConnection(
                    name, server_key(name), self._make_channel(), ServerSettings(), Redactor()
                )
                try:
                    await self._connection.open()
                except ServerFailed as error:
                    raise MCPError(code=-32603, message=str(error)) from None
            return self._connection.client()

    async def close(self) -> None:
        """End the server and its connection."""
        if self._connection is not None:
            await self._connection.close()
        await self.server.close()


def _build(name: str, connect: Callable[[], Awaitable[Client]]) -> OfferedServer:
    """Return a server of the SDK whose handlers ask the client of another server."""
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    def listing(fetch: Callable[[Client, str | None], Awaitable[Any]], empty: Any) -> Callable[..., Awaitable[Any]]:
        async def handle(_: Any, params: Any) -> Any:
            try:
                return await fetch(await connect(), params.cursor if params is not None else None)
            except MCPError as error:
                if error.code != CODE_NO_METHOD:
                    raise
                return empty  # the server has none of these

        return handle

    async def call_tool(context: Any, params: Any) -> Any:
        client = await connect()
        return await client.session.call_tool(
            params.name,
            params.arguments,
            progress_callback=context.session.report_progress,
            input_responses=params.input_responses,
            request_state=params.request_state,
            allow_input_required=True,
        )

    async def read_resource(_: Any, params: Any) -> Any:
        return await (await connect()).read_resource(str(params.uri))

    async def get_prompt(_: Any, params: Any) -> Any:
        return await (await connect()).get_prompt(params.name, params.arguments)

    async def complete(_: Any, params: Any) -> Any:
        given = params.argument
        return await (await connect()).complete(params.ref, {"name": given.name, "value": given.value})

    server = Server(
        name,
        on_list_tools=listing(lambda client, at: client.list_tools(cursor=at), types.ListToolsResult(tools=[])),
        on_call_tool=call_tool,
        on_list_resources=listing(
            lambda client, at: client.list_resources(cursor=at), types.ListResourcesResult(resources=[])
        ),
        on_list_resource_templates=listing(
            lambda client, at: client.list_resource_templates(cursor=at),
            types.ListResourceTemplatesResult(resource_templates=[]),
        ),
        on_read_resource=read_resource,
        on_list_prompts=listing(lambda client, at: client.list_prompts(cursor=at), types.ListPromptsResult(prompts=[])),
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    return OfferedServer(name, server)
