"""Mistakes of a program that uses an agent, reported at once with what to write."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dragoman.engine.connection import Connection
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.content import TextContent
from dragoman.schema.mcp import McpServer


def check_loop(connection: Connection) -> None:
    """Raise if another event loop runs than the one that reads this connection: the answer would never arrive."""
    if asyncio.get_running_loop() is not connection.loop:
        other = "this connection belongs to another event loop; await this where the connection was opened"
        raise ProtocolError(Kind.INVALID_STATE, f"{other} (in a test with acp_session, use acp_session.run(...))")


def content_blocks(content: Any) -> list[Any]:
    """Return the blocks of a prompt: text, one content block, or several."""
    if isinstance(content, str):
        return [TextContent(text=content)]
    if isinstance(content, msgspec.Struct):
        return [content]
    if isinstance(content, Sequence) and all(isinstance(block, msgspec.Struct | Mapping) for block in content):
        return list(content)
    raise TypeError(
        f'a prompt is text or content blocks, not {content!r:.80}; write: "..." or [TextContent(text="...")]'
    )


def check_seconds(**timeouts: Any) -> None:
    """Raise if one of these is neither a number of seconds nor None."""
    for name, value in timeouts.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"{name} is a number of seconds or None, not {value!r:.80}")


def check_servers(servers: Any) -> None:
    """Raise if this is no sequence of MCP servers."""
    if not isinstance(servers, Sequence) or not all(isinstance(server, McpServer) for server in servers):
        wanted = 'mcp_servers=[McpServer(name="files", command="...", args=[...])]'
        raise TypeError(f"mcp_servers is a list of McpServer objects, not {servers!r:.80}; write: {wanted}")


def check_kind(name: str, value: Any, kind: type) -> None:
    """Raise if an option is neither None nor of this kind."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} is a {kind.__name__}, not {value!r:.80}; write: {name}={kind.__name__}(...)")


def check_on(functions: Any) -> None:
    """Raise if the functions for other methods of the agent are no mapping of names to functions."""
    is_mapping = functions is None or isinstance(functions, Mapping)
    if not is_mapping or not all(isinstance(name, str) and callable(each) for name, each in (functions or {}).items()):
        raise TypeError(f'on maps methods to functions, not {functions!r:.80}; write: on={{"_acme/ask": function}}')


def check_function(name: str, function: Any, *parameters: str) -> None:
    """Raise if this is no function that takes these parameters."""
    wanted = f"write: {name}=function, with def function({', '.join(parameters)})"
    if not callable(function):
        raise TypeError(f"{name} is a function, not {function!r:.80}; {wanted}")
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError:
        raise TypeError(f"{name} is a function with other parameters; {wanted}") from None
    except ValueError:  # some functions in C do not tell
        pass


def check_folder(name: str, path: Any) -> None:
    """Raise if a folder is neither text nor a Path."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} is a str or a Path, not {path!r:.80}")


def check_session_id(id: Any) -> None:
    """Raise if a session is named by anything but its id."""
    if not isinstance(id, str):
        advice = "; write: session.id" if hasattr(id, "id") else ""
        raise TypeError(f"a session is named by its id, a str, not {id!r:.80}{advice}")
