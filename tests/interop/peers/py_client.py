"""A client written with the official Python SDK, controlled by a test.

Each line of its input is a step as JSON ({"do": "prompt", ...}). Each line of its output is the outcome: the result or
the error, the updates that arrived meanwhile, the questions and calls it answered. A step names the agent to start.
It does not import Dragoman. ts_client.mjs is the same client with the other SDK; change both together.
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    Client,
    CreateTerminalResponse,
    KillTerminalResponse,
    ReadTextFileResponse,
    ReleaseTerminalResponse,
    RequestError,
    RequestPermissionResponse,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
    WriteTextFileResponse,
    connect_to_agent,
    spawn_agent_process,
    text_block,
)
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AllowedOutcome,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    McpServerStdio,
    SessionConfigOptionsCapabilities,
    TerminalExitStatus,
)

STDERR = asyncio.subprocess.STDOUT
PIPE = asyncio.subprocess.PIPE
LIMIT = 64 * 1024 * 1024


# How many passes of the loop the SDK may need to handle what has arrived.
PASSES = 5


class Terminal:
    """A command and what it printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = b""
        self.ended = asyncio.ensure_future(self._follow())

    async def _follow(self) -> TerminalExitStatus:
        assert self.process.stdout is not None
        while piece := await self.process.stdout.read(65536):
            self.output += piece
        code = await self.process.wait()
        return TerminalExitStatus(exit_code=code if code >= 0 else None, signal=None if code >= 0 else str(-code))


class PythonClient(Client):
    """Offers files and terminals, answers questions as configured, and records everything."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.calls: list[str] = []
        self.answer: str | None = None
        self.cancel_on: str | None = None
        self.cancel: Any = None
        self._terminals: dict[str, Terminal] = {}

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Record the update as JSON."""
        update_json = update.model_dump(by_alias=True, exclude_none=True, mode="json")
        self.updates.append({"sessionId": session_id, **update_json})
        await self._cancel_if(update_json["sessionUpdate"], session_id)

    async def _cancel_if(self, what: str, session_id: str) -> None:
        if self.cancel_on == what:
            self.cancel_on = None
            await self.cancel(session_id)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> RequestPermissionResponse:
        """Choose the option of the configured kind."""
        question = {"toolCall": tool_call, "options": options}
        self.asked.append(
            json.loads(json.dumps(question, default=lambda o: o.model_dump(by_alias=True, exclude_none=True)))
        )
        await self._cancel_if("question", session_id)
        for option in options:
            if option.kind == self.answer:
                return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def read_text_file(self, session_id: str, path: str, *args: Any, **kwargs: Any) -> ReadTextFileResponse:
        """Return the text of the file."""
        self.calls.append("read")
        try:
            return ReadTextFileResponse(content=_read(path))
        except FileNotFoundError:
            raise RequestError.resource_not_found(path) from None

    async def write_text_file(
        self, session_id: str, path: str, content: str, **kwargs: Any
    ) -> WriteTextFileResponse | None:
        """Write the file."""
        self.calls.append("write")
        _write(path, content)
        return None

    async def create_terminal(
        self, session_id: str, command: str, args: list[str] | None = None, *rest: Any, **kwargs: Any
    ) -> CreateTerminalResponse:
        """Start a command."""
        self.calls.append("create")
        cwd = kwargs.get("cwd")
        process = await asyncio.create_subprocess_exec(command, *args or (), cwd=cwd, stdout=PIPE, stderr=STDERR)
        self._terminals[str(process.pid)] = Terminal(process)
        return CreateTerminalResponse(terminal_id=str(process.pid))

    async def terminal_output(self, session_id: str, terminal_id: str, **kwargs: Any) -> TerminalOutputResponse:
        """Return the output so far."""
        self.calls.append("output")
        terminal = self._terminals[terminal_id]
        status = terminal.ended.result() if terminal.ended.done() else None
        return TerminalOutputResponse(output=terminal.output.decode(), truncated=False, exit_status=status)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> WaitForTerminalExitResponse:
        """Wait until the command exits."""
        self.calls.append("wait")
        await self._cancel_if("wait", session_id)
        ended = await self._terminals[terminal_id].ended
        return WaitForTerminalExitResponse(exit_code=ended.exit_code, signal=ended.signal)

    async def kill_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> KillTerminalResponse | None:
        """Kill the command."""
        self.calls.append("kill")
        self._end(terminal_id)
        return None

    async def release_terminal(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> ReleaseTerminalResponse | None:
        """Release the terminal."""
        self.calls.append("release")
        self._end(terminal_id)
        del self._terminals[terminal_id]
        return None

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """There are no extensions (the inherited one would answer null)."""
        raise RequestError.method_not_found(f"_{method}")

    def _end(self, terminal_id: str) -> None:
        process = self._terminals[terminal_id].process
        if process.returncode is None:
            process.terminate()


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _write(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")


class Player:
    """A function for each step."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._agent: ClientSideConnection
        # The SDK's protocol classes are meant to be filled in part, which a type checker cannot know.
        self.client = PythonClient()  # type: ignore[abstract]

    async def start(
        self, cwd: str, command: list[str] | None = None, url: str = "", offers_files: bool = True, headers: Any = None
    ) -> Any:
        """Start an agent, or dial one, and initialize it."""
        if command is None:
            self._agent = await self._stack.enter_async_context(await self._dialled(url, headers))
        else:
            # Left to itself, the SDK trims the environment and leaves a pipe for stderr unread.
            spawned = spawn_agent_process(
                self.client, *command, env=os.environ, cwd=cwd, transport_kwargs={"stderr": None, "limit": LIMIT}
            )
            self._agent, _ = await self._stack.enter_async_context(spawned)
        self.client.cancel = self._agent.cancel
        switches = SessionConfigOptionsCapabilities(boolean=BooleanConfigOptionCapabilities())
        offered = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=offers_files, write_text_file=offers_files),
            terminal=offers_files,
            session=ClientSessionCapabilities(config_options=switches),
        )
        info = Implementation(name="python", version="1.0")
        return await self._agent.initialize(PROTOCOL_VERSION, client_capabilities=offered, client_info=info)

    async def _dialled(self, url: str, headers: Any) -> ClientSideConnection:
        """Connect to a remote agent, over the transport of its URL."""
        from acp.http.client import create_http_stream
        from acp.ws.client import create_websocket_stream

        if url.startswith("ws"):
            return connect_to_agent(self.client, await create_websocket_stream(url, headers=headers))
        return connect_to_agent(self.client, create_http_stream(url, headers=headers))

    async def stop(self) -> None:
        """Disconnect from the agent."""
        await self._stack.aclose()

    async def new(self, cwd: str, servers: tuple[Any, ...] = ()) -> Any:
        """Open a session."""
        return await self._agent.new_session(cwd=cwd, mcp_servers=[McpServerStdio(**server) for server in servers])

    async def load(self, session: str, cwd: str, servers: tuple[Any, ...] = ()) -> Any:
        """Open a stored session."""
        given: list[Any] = [McpServerStdio(**server) for server in servers]
        return await self._agent.load_session(session_id=session, cwd=cwd, mcp_servers=given)

    async def list(self, cwd: str) -> Any:
        """The agent's sessions."""
        return await self._agent.list_sessions(cwd=cwd)

    async def mode(self, session: str, mode: str) -> Any:
        """Change the mode."""
        return await self._agent.set_session_mode(session_id=session, mode_id=mode)

    async def option(self, session: str, option: str, value: Any) -> Any:
        """Change an option."""
        return await self._agent.set_config_option(session_id=session, config_id=option, value=value)

    async def prompt(self, session: str, text: str, answer: str | None = None, cancel_on: str | None = None) -> Any:
        """Run a turn."""
        self.client.answer = answer
        self.client.cancel_on = cancel_on
        return await self._agent.prompt(session_id=session, prompt=[text_block(text)])

    async def disconnect(self, session: str, text: str, file: str) -> None:
        """Start a turn, and disconnect when the agent has created this file."""
        turn = asyncio.ensure_future(self.prompt(session, text, "allow_once"))
        while not Path(file).exists():  # noqa: ASYNC110 (another process makes it)
            await asyncio.sleep(0.01)
        await self.stop()
        await asyncio.gather(turn, return_exceptions=True)

    async def extension(self, method: str, params: Any) -> Any:
        """Send a request of an extension."""
        return await self._agent.ext_method(method, params)


async def play(player: Player, step: dict[str, Any]) -> dict[str, Any]:
    """Run one step and return its outcome."""
    values: dict[str, Any] = {}
    may_fail = step.pop("may_fail", False)
    try:
        result = await getattr(player, step.pop("do"))(**step)
        dump = getattr(result, "model_dump", None)
        values["result"] = dump(by_alias=True, exclude_none=True, mode="json") if dump else result
    except RequestError as error:
        values["error"] = {"code": error.code, "message": str(error), "data": error.data}
    except Exception as error:  # what the SDK raises when the line is gone
        if not may_fail:
            raise
        values["error"] = {"code": 0, "message": str(error) or type(error).__name__, "data": None}
    # The SDK handles each notification in a task. If an update, the answer and the 202 of the POST are read in one pass
    # of the loop, the prompt returns before the task of the update has begun.
    for _ in range(PASSES):
        await asyncio.sleep(0)
    client = player.client
    for name in ("updates", "asked", "calls"):
        values[name] = list(getattr(client, name))
        getattr(client, name).clear()
    return values


async def main() -> None:
    """Run steps until the input ends."""
    player = Player()
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await play(player, json.loads(line))), flush=True)
    finally:
        await player.stop()


if __name__ == "__main__":
    asyncio.run(main())
