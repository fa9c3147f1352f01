"""`dragoman mcp`: an ACP agent as an MCP server; and the MCP servers of the user: list, test, add, remove."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from dragoman.cli import exit_codes
from dragoman.cli.connect import mcp_file
from dragoman.cli.connect import options as session_options
from dragoman.cli.parser import Parser, unknown_name
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.paths import user_paths
from dragoman.config.private_files import read_bytes, write_private
from dragoman.errors import ConfigFault, StartFailed
from dragoman.schema.mcp import McpServer

if TYPE_CHECKING:
    from dragoman.bridge.mcp.agent_sessions import AgentSessions

EPILOG = """\
Configure this command as an MCP server of any MCP host:

  {"mcpServers": {"coder": {"command": "dragoman",
                            "args": ["mcp", "--agent", "opencode"]}}}

Its tools open sessions of the agent, prompt it, wait for it, answer its
questions, and read its transcript. Your policy decides about files and
commands as in `dragoman run`; what it leaves open is asked through the host.
With --http it listens on loopback; the token is printed once on stderr.

actions for your own MCP servers (mcp.json next to config.toml):
  dragoman mcp list [--json]            list them
  dragoman mcp test [NAME] [--json]     start them, show what they offer
  dragoman mcp add NAME [--env A=B] -- CMD ARG...
  dragoman mcp add NAME --url URL [--header A=B] [--sse]
  dragoman mcp remove NAME

`run`, `chat` and `serve` use them with --mcp "$(dragoman mcp path)".

exit codes:
  0  done
  1  a server failed, or the file has an error
  2  wrong usage

examples:
  dragoman mcp -- my-agent --acp
  dragoman mcp --agent opencode --http 8765
  dragoman mcp add time -- uvx mcp-server-time
  dragoman mcp test time"""


def main(arguments: list[str]) -> int:
    """Run an action, or serve."""
    action = arguments[0] if arguments else ""
    if action in _ACTIONS:
        return _ACTIONS[action](arguments[1:])
    return _serve(arguments)


# --- an agent as a server -------------------------------------------------------------------------------------


def _serve(arguments: list[str]) -> int:
    parser = Parser(
        "mcp",
        "[ACTION] [--agent NAME] [--http PORT] [-- CMD ARG...]",
        "Offer an agent as an MCP server; manage your MCP servers.",
        EPILOG,
    )
    parser.add_argument("action", metavar="ACTION", nargs="?", choices=tuple(_ACTIONS), help=", ".join(_ACTIONS))
    session_options.add_agent_option(parser)
    parser.add_value("--http", "PORT", "listen on this port of loopback instead of stdio (0: any)", type=int)
    options, command = parser.read(arguments)
    if options.action:
        parser.error(f"the action comes first, as in: dragoman mcp {options.action}")
    from dragoman.cli.connect.which_agent import available_agents, resolve_agent
    from dragoman.config.config_file import load_config
    from dragoman.mcp.sdk import HOW_TO_INSTALL, is_installed

    if not is_installed():
        return parser.fail(HOW_TO_INSTALL, exit_codes.FAILED)
    chosen = resolve_agent(parser, options.agent, command, offers=False)
    agents = {chosen.name: chosen}
    if not command and options.agent is None:
        agents |= {agent.name: agent for agent, _ in available_agents(load_config(user_paths().config_file))}
    try:
        asyncio.run(_run_server(agents, chosen.name, options.http))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return exit_codes.INTERRUPTED
    except StartFailed as error:
        return parser.fail(str(error), exit_codes.FAILED)
    return exit_codes.OK


async def _run_server(agents: Any, default: str, port: int | None) -> None:
    import secrets

    from dragoman.bridge.mcp.agent_server import build_agent_server
    from dragoman.bridge.mcp.agent_sessions import AgentSessions

    sessions = AgentSessions(agents, default, user_paths())
    server = build_agent_server(sessions)
    try:
        if port is None:
            await _serve_stdio(server, sessions)
            return
        from dragoman.mcp.listener import serve_app

        token = secrets.token_urlsafe(32)
        async with serve_app(server, token, port=port) as url:
            print(f"{url}\nAuthorization: Bearer {token}", file=sys.stderr, flush=True)
            await asyncio.Event().wait()
    finally:
        await sessions.close_all()


async def _serve_stdio(server: Any, sessions: AgentSessions) -> None:
    """Serve standard input and output until the input ends, or Ctrl-C."""
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    if sys.stdin is not None and sys.stdin.isatty():
        what = "This program is an MCP server on standard input and output; an MCP host starts it."
        print(f"{what} Press Ctrl-C to end it.", file=sys.stderr, flush=True)
    serving = asyncio.ensure_future(server.run_stdio_async())
    interruption = asyncio.ensure_future(interrupted.wait())
    await asyncio.wait((serving, interruption), return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        await sessions.close_all()
        os._exit(exit_codes.INTERRUPTED)  # the SDK reads the input in a thread that nothing can stop
    interruption.cancel()
    await serving


# --- the user's servers ---------------------------------------------------------------------------------------


def _path() -> str:
    return os.path.join(user_paths().config, "mcp.json")


def _read_document() -> dict[str, Any]:
    data = read_bytes(_path())
    if data is None:
        return {"mcpServers": {}}
    try:
        document = json.loads(data)
    except ValueError as error:
        raise ConfigFault([f"{_path()}: not valid JSON: {error}"]) from None
    if not isinstance(document, dict) or not isinstance(document.get("mcpServers"), dict):
        raise ConfigFault([f"{_path()}: mcpServers: required, an object with an entry for each server"])
    return document


def _load() -> list[McpServer]:
    return mcp_file.load(_path()) if os.path.exists(_path()) else []


def _list(arguments: list[str]) -> int:
    parser = Parser("mcp list", "[--json]", "List your MCP servers, without their credentials.", "")
    parser.add_flag("--json", "print JSON")
    options = parser.read_options(arguments)
    rows = [
        {"name": name, "type": entry.get("type", "http" if "url" in entry else "stdio"), "target": _target(entry)}
        for name, entry in _read_document()["mcpServers"].items()
    ]
    if options.json:
        print(json.dumps({"servers": rows}))
    else:
        for row in rows:
            print(sanitize_line(f"{row['name']}  {row['type']}  {row['target']}"))
        if not rows:
            print("no MCP servers; add one with: dragoman mcp add NAME -- CMD")
    return exit_codes.OK


def _target(entry: dict[str, Any]) -> str:
    """Return the command or the address of an entry, without what may be a secret."""
    from dragoman.policy.redaction import Redactor

    words = [str(entry.get("command", "")), *map(str, entry.get("args", ()))]
    return (
        " ".join(Redactor().redact_command(words)) if "url" not in entry else Redactor().redact_text(str(entry["url"]))
    )


def _test(arguments: list[str]) -> int:
    parser = Parser("mcp test", "[NAME] [--json]", "Start your MCP servers and show what they offer.", "")
    parser.add_argument("name", nargs="?", metavar="NAME", help="only this one")
    parser.add_flag("--json", "print JSON")
    options = parser.read_options(arguments)
    known = _load()
    servers = [server for server in known if options.name in (None, server.name)]
    if options.name is not None and not servers:
        return parser.fail(unknown_name("MCP server", options.name, [server.name for server in known]))
    rows = asyncio.run(_test_servers(servers))
    if options.json:
        print(json.dumps({"servers": rows}))
    else:
        for row in rows:
            print(sanitize_line(f"{row['name']}  {row['seconds']:.1f} s  {row['failure'] or _summary(row)}"))
    return exit_codes.OK if all(not row["failure"] for row in rows) else exit_codes.FAILED


def _summary(row: dict[str, Any]) -> str:
    tools = ", ".join(row["tools"]) or "no tools"
    return f"MCP {row['version']}: {tools}; {row['resources']} resources, {row['prompts']} prompts"


async def _test_servers(servers: list[McpServer]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(_test_server(server) for server in servers)))


async def _test_server(entry: McpServer) -> dict[str, Any]:
    from dragoman.mcp.connection import ServerSettings
    from dragoman.mcp.limits import OPEN_TIMEOUT
    from dragoman.mcp.servers import direct_channel
    from dragoman.mcp.toolbox import Toolbox

    start = time.monotonic()
    toolbox = Toolbox([entry], lambda server, report: direct_channel(server, os.getcwd(), report), ServerSettings())
    try:
        await toolbox.open(OPEN_TIMEOUT)
        seconds = time.monotonic() - start
        tools, resources = await toolbox.list_tools(), await toolbox.list_resources()
        prompts = await toolbox.list_prompts()
        (status,) = toolbox.status()
    finally:
        await toolbox.close()
    return {
        "name": entry.name,
        "version": status.version,
        "seconds": round(seconds, 2),
        "tools": [tool.tool for tool in tools],
        "resources": len(resources),
        "prompts": len(prompts),
        "failure": status.failure,
    }


def _add(arguments: list[str]) -> int:
    parser = Parser("mcp add", "NAME [OPTIONS] [-- CMD ARG...]", "Add an MCP server to your mcp.json.", "")
    parser.add_argument("name", metavar="NAME", help="name of the server")
    parser.add_value("--env", "NAME=VALUE", "set a variable; ${NAME} is taken from the environment", repeated=True)
    parser.add_value("--url", "URL", "its address, instead of a command", default="")
    parser.add_value("--header", "NAME=VALUE", "send a header", repeated=True)
    parser.add_flag("--sse", "the address is of the older HTTP with SSE")
    options, command = parser.read(arguments)
    if bool(command) == bool(options.url):
        parser.error("give either a command after --, or --url")
    document = _read_document()
    if options.name in document["mcpServers"]:
        return parser.fail(f"there is an MCP server {options.name} already; remove it first", exit_codes.FAILED)
    if command:
        entry: dict[str, Any] = {"command": command[0], "args": command[1:], "env": _pairs(parser, options.env)}
    else:
        headers = _pairs(parser, options.header)
        entry = {"type": "sse" if options.sse else "http", "url": options.url, "headers": headers}
    document["mcpServers"][options.name] = {key: value for key, value in entry.items() if value}
    _write(document)
    print(f"added {sanitize_line(options.name)}; try it with: dragoman mcp test {sanitize_line(options.name)}")
    return exit_codes.OK


def _pairs(parser: Parser, given: list[str]) -> dict[str, str]:
    if wrong := [each for each in given if "=" not in each]:
        parser.error(f"{wrong[0]!r} must be NAME=VALUE")
    return dict(each.split("=", 1) for each in given)


def _remove(arguments: list[str]) -> int:
    parser = Parser("mcp remove", "NAME", "Remove an MCP server from your mcp.json.", "")
    parser.add_argument("name", metavar="NAME", help="name of the server")
    options = parser.read_options(arguments)
    document = _read_document()
    servers = document["mcpServers"]
    if servers.pop(options.name, None) is None:
        return parser.fail(unknown_name("MCP server", options.name, servers))
    _write(document)
    return exit_codes.OK


def _write(document: dict[str, Any]) -> None:
    write_private(_path(), (json.dumps(document, indent=2) + "\n").encode())  # it may hold credentials


def _print_path(arguments: list[str]) -> int:
    Parser("mcp path", "", "Print the path of your mcp.json.", "").read_options(arguments)
    print(_path())
    return exit_codes.OK


_ACTIONS = {"list": _list, "test": _test, "add": _add, "remove": _remove, "path": _print_path}
