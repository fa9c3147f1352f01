"""A server of the official SDK whose one tool asks the client for its folders, a form and a sample.

It speaks both eras: to a client of the handshake era it sends requests, to one of 2026-07-28 it answers that it needs
input. python asking_server.py [old] serves stdio; an old one knows the handshake era only.
"""

import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

FORM = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
SAMPLE = types.CreateMessageRequestParams(
    messages=[types.SamplingMessage(role="user", content=types.TextContent(text="a word?"))], max_tokens=10
)


def needs() -> dict[str, Any]:
    """Return the questions of the second round."""
    asked = types.ElicitRequestFormParams(message="Which color?", requested_schema=FORM)
    return {"form": types.ElicitRequest(params=asked)}


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    """List the tools."""
    return types.ListToolsResult(
        tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in ("ask", "sample")]
    )


async def call_tool(context: Any, params: types.CallToolRequestParams) -> Any:
    """Ask in two rounds, or sample."""
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    if params.name == "sample":
        return await sample(context, params, is_modern)
    if not is_modern:
        roots = await context.session.list_roots()
        form = await context.session.elicit_form("Which color?", FORM)
        return done(roots.roots[0].uri, form.action, form.content)
    given: Any = params.input_responses or {}
    if params.request_state is None:
        return types.InputRequiredResult(input_requests={"roots": types.ListRootsRequest()}, request_state="one")
    if params.request_state == "one":
        state = f"two {given['roots'].roots[0].uri}"
        return types.InputRequiredResult(input_requests=needs(), request_state=state)
    return done(params.request_state.removeprefix("two "), given["form"].action, given["form"].content)


async def sample(context: Any, params: types.CallToolRequestParams, is_modern: bool) -> Any:
    """Ask the model of the client."""
    if not is_modern:
        answer = await context.session.create_message(SAMPLE.messages, max_tokens=10)
        return done(answer.content.text)
    given: Any = params.input_responses or {}
    if not given:
        asked = types.CreateMessageRequest(params=SAMPLE)
        return types.InputRequiredResult(input_requests={"sample": asked}, request_state="one")
    return done(given["sample"].content.text)


def done(*words: Any) -> types.CallToolResult:
    """Return the result: all words in one line."""
    return types.CallToolResult(content=[types.TextContent(text=" ".join(map(str, words)))])


SERVER: Any = Server("asking", on_list_tools=list_tools, on_call_tool=call_tool)


async def refuse_discovery(messages: Any, to_server: Any, to_client: Any) -> None:
    """Pass messages on as a server of the handshake era would see them: it does not know server/discover."""
    async with to_server:
        async for item in messages:
            message = item.message
            if getattr(message, "method", "") != "server/discover":
                await to_server.send(item)
                continue
            error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="Method not found")
            await to_client.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error)))


async def main(is_old: bool) -> None:
    """Serve stdio."""
    async with stdio_server() as (read, write), anyio.create_task_group() as tasks:
        messages: Any = read
        if is_old:
            to_server, messages = anyio.create_memory_object_stream[Any](0)
            tasks.start_soon(refuse_discovery, read, to_server, write)
        await SERVER.run(messages, write, SERVER.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, "old" in sys.argv)
