"""Install real MCP servers and use each through an agent; then let a real agent use another agent through MCP.

`python -m interop.mcp_servers [NAME...]`, part of `make interop`. Prints one line for each; exits with 1 if one failed
or if an era of MCP was not met. git and time of PyPI are in the tests too.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from dragoman import Agent, Turn, connect
from dragoman.schema.mcp import McpServer
from dragoman.testing import connect_in_memory
from interop.counterparts import ALL, Place
from interop.install import CACHE, INSTALLING, install, node, place
from interop.model.server import Model
from interop.run import environment, make_home

# What a server may take on a busy machine, with its start. Seconds.
PATIENCE = 120.0

# What the page says that the fetch server gets, and what the driven agent says.
WORD = "heron"

# The last version of MCP that begins with a handshake.
LAST_OF_HANDSHAKE = "2025-11-25"


class Source(NamedTuple):
    """One server: its packages (the first is its own), its program, one of its tools, and a part of the answer."""

    package: str
    program: str
    tool: str
    arguments: Callable[[Path], dict[str, Any]]
    answer: str
    words: Callable[[Path], list[str]] = lambda folder: []
    is_npm: bool = False
    form: str = "stdio"
    more: tuple[str, ...] = ()  # other packages


SOURCES = {
    "everything": Source(
        "@modelcontextprotocol/server-everything",
        "mcp-server-everything",
        "echo",
        lambda _: {"message": WORD},
        f"Echo: {WORD}",
        lambda _: ["stdio"],
        is_npm=True,
    ),
    "everything over http": Source(
        "@modelcontextprotocol/server-everything",
        "mcp-server-everything",
        "echo",
        lambda _: {"message": WORD},
        f"Echo: {WORD}",
        lambda _: ["streamableHttp"],
        is_npm=True,
        form="http",
    ),
    "everything over sse": Source(
        "@modelcontextprotocol/server-everything",
        "mcp-server-everything",
        "echo",
        lambda _: {"message": WORD},
        f"Echo: {WORD}",
        lambda _: ["sse"],
        is_npm=True,
        form="sse",
    ),
    "filesystem": Source(
        "@modelcontextprotocol/server-filesystem",
        "mcp-server-filesystem",
        "read_text_file",
        lambda folder: {"path": str(folder / "note.txt")},
        WORD,
        lambda folder: [str(folder)],
        is_npm=True,
    ),
    "memory": Source(
        "@modelcontextprotocol/server-memory",
        "mcp-server-memory",
        "create_entities",
        lambda _: {"entities": [{"name": WORD, "entityType": "bird", "observations": ["gray"]}]},
        WORD,
        is_npm=True,
    ),
    "fetch": Source(
        "mcp-server-fetch",
        "mcp-server-fetch",
        "fetch",
        lambda _: {"url": page_address(), "raw": True},  # to shorten a page it installs npm packages at run time
        WORD,
        lambda _: ["--allow-private-ips"],
    ),
    "git": Source(
        "mcp-server-git", "mcp-server-git", "git_status", lambda folder: {"repo_path": str(folder)}, "note.txt"
    ),
    "time": Source(
        "mcp-server-time",
        "mcp-server-time",
        "convert_time",
        lambda _: {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        "21:00",
    ),
    "sqlite": Source(
        "mcp-server-sqlite",
        "mcp-server-sqlite",
        "read_query",
        lambda _: {"query": f"SELECT '{WORD}' AS bird"},
        WORD,
        lambda folder: ["--db-path", str(folder / "notes.db")],
        more=("mcp<2",),  # it was written for the SDK of the handshake era
    ),
}


def page_address() -> str:
    """Serve a page on loopback, for the rest of the run; return its address."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer every page but robots.txt."""
            is_page = self.path != "/robots.txt"
            self.send_response(200 if is_page else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f"<html><body><p>{WORD}</p></body></html>".encode() if is_page else b"")

        def log_message(self, format: str, *values: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def install_server(source: Source, npm: Path) -> str:
    """Install a server into the cache; return its program."""
    name = source.package.rpartition("/")[2]
    folder = CACHE / "mcp-servers" / name
    program = folder / ("node_modules/.bin" if source.is_npm else "bin") / source.program
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if source.is_npm:
            command = [str(npm / "npm"), "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
        else:
            venv.create(folder, with_pip=True)
            command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run(
            [*command, source.package, *source.more], check=True, timeout=INSTALLING, stdout=subprocess.DEVNULL
        )
    return str(program)


@asynccontextmanager
async def entry_of(name: str, source: Source, program: str, folder: Path) -> AsyncIterator[McpServer]:
    """Give the entry of a server; one that listens is started."""
    words = source.words(folder)
    if source.form == "stdio":
        yield McpServer(name=name, command=program, args=words, env=[])
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "PORT": str(port)}
    process = await asyncio.create_subprocess_exec(
        program, *words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    await asyncio.sleep(0.1)
        path = "mcp" if source.form == "http" else "sse"
        yield McpServer(name=name, type=source.form, url=f"http://127.0.0.1:{port}/{path}", headers=[])
    finally:
        process.terminate()
        await process.wait()


async def use_server(name: str, source: Source, program: str, folder: Path) -> tuple[str, str]:
    """Use a server in a turn of an agent; return the version of MCP and figures. Raise AssertionError if it fails."""
    (folder / "note.txt").write_text(f"{WORD}\n")
    await asyncio.to_thread(subprocess.run, ["git", "init", "--quiet", str(folder)], check=True, timeout=PATIENCE)
    found: dict[str, Any] = {}
    agent = Agent("user of tools", mcp_http=True, mcp_sse=True)

    @agent.prompt
    async def act(turn: Turn) -> None:
        found["tools"] = [tool.tool for tool in await turn.tools.list_tools()]
        found["result"] = await turn.tools.call(name, source.tool, source.arguments(folder))
        found["servers"] = turn.tools.servers

    async with entry_of(name, source, program, folder) as entry, asyncio.timeout(PATIENCE):
        async with connect_in_memory(agent, permission="allow") as remote:
            start = time.monotonic()
            session = await remote.open_session(str(folder), mcp_servers=[entry])
            opened = time.monotonic() - start
            await session.ask("go")
    (status,) = found["servers"]
    assert not status.failure, status.failure
    result = found["result"]
    assert not result.is_error, result.text
    assert source.answer in result.text, result.text[:300]
    return status.version, f"MCP {status.version}, {len(found['tools'])} tools, opened in {opened:.1f} s"


async def drive_agent(npm: Path, folder: Path) -> str:
    """Let opencode, with the fake model, open a session of our agent through `dragoman mcp` and prompt it."""
    opencode = next(counterpart for counterpart in ALL if counterpart.name == "opencode")
    if missing := install([opencode], npm, lambda _: None):
        raise AssertionError(missing[opencode.name])
    dragoman = [sys.executable, "-m", "dragoman"]
    own = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    server = McpServer(
        name="agents",
        command=dragoman[0],
        args=[*dragoman[1:], "mcp", "--", *dragoman, "agent", "everything"],
        env=[],
    )
    with Model() as model:
        where = Place(place(opencode), model.url("opencode"))
        env = {**make_home(opencode, where, folder / "home", environment(npm, alone=False)), **own}
        work = folder / "work"
        work.mkdir()
        async with asyncio.timeout(PATIENCE):
            async with connect(opencode.command(where), env=env, inherit_env=False, permission="allow") as remote:
                session = await remote.open_session(str(work), mcp_servers=[server])
                said = await session.ask(f"[[drive {work} /echo {WORD}]]")
    answered = said.partition("The tool answered: ")[2]
    assert "done" in answered, said
    assert WORD in answered, said
    return f"opened a session of our agent, prompted it, and got {WORD!r}"


def main(names: list[str], show: Callable[[str], None] = print) -> int:
    """Use all servers, or those named; then the agent."""
    npm = node(show)
    os.environ["PATH"] = f"{npm}{os.pathsep}{os.environ['PATH']}"  # the programs of npm start node
    failed, versions = 0, set[str]()
    for name in [name for name in SOURCES if not names or name in names]:
        try:
            program = install_server(SOURCES[name], npm)
            with tempfile.TemporaryDirectory(prefix="dragoman-mcp-") as folder:
                version, line = asyncio.run(use_server(name, SOURCES[name], program, Path(os.path.realpath(folder))))
            versions.add(version)
            show(f"{name}: {line}")
        except (AssertionError, LookupError, OSError, subprocess.SubprocessError, TimeoutError) as error:
            failed += 1
            show(f"{name}: FAILED: {error}")
    if not names:
        eras = {version > LAST_OF_HANDSHAKE for version in versions}
        show(f"versions of MCP: {', '.join(sorted(versions))}")
        failed += eras != {True, False}
    if not names or "opencode" in names:
        try:
            with tempfile.TemporaryDirectory(prefix="dragoman-mcp-") as folder:
                show(f"opencode: {asyncio.run(drive_agent(npm, Path(os.path.realpath(folder))))}")
        except (AssertionError, OSError, subprocess.SubprocessError, TimeoutError) as error:
            failed += 1
            show(f"opencode: FAILED: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
