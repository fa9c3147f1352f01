"""The shortest client with the official Python SDK: `py_plain.py AGENT ARG...`, one prompt, one answer.

It uses the defaults of the SDK: how the agent is started and stopped, what happens to stderr, how handlers are called.
Drawing text takes time in proportion to its length, as in a real interface. Ctrl-C cancels. Dragoman is not imported.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    Client,
    ReadTextFileResponse,
    RequestError,
    RequestPermissionResponse,
    WriteTextFileResponse,
    spawn_agent_process,
    text_block,
)
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    TextContentBlock,
)

CHARACTERS_PER_SECOND = 2_000_000


class PlainClient(Client):
    """Prints text, allows everything once, offers files."""

    cancelled = False

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Draw a chunk of the answer."""
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            await asyncio.sleep(len(update.content.text) / CHARACTERS_PER_SECOND)
            print(update.content.text, end="", flush=True)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> RequestPermissionResponse:
        """Choose the first option that allows."""
        allowing = [option for option in options if option.kind in ("allow_once", "allow_always")]
        if self.cancelled or not allowing:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=allowing[0].option_id))

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> ReadTextFileResponse:
        """Return the text of the file."""
        try:
            lines = _read(path).splitlines(keepends=True)
        except OSError:
            raise RequestError.resource_not_found(path) from None
        start = (line or 1) - 1
        return ReadTextFileResponse(content="".join(lines[start : None if limit is None else start + limit]))

    async def write_text_file(
        self, session_id: str, path: str, content: str, **kwargs: Any
    ) -> WriteTextFileResponse | None:
        """Write the file."""
        _write(path, content)
        return None

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """There are no extensions."""
        raise RequestError.method_not_found(f"_{method}")


def _read(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    Path(path).write_bytes(text.encode())


async def main() -> None:
    """One turn."""
    # The SDK's protocol classes are meant to be filled in part, which a type checker cannot know.
    client = PlainClient()  # type: ignore[abstract]
    async with spawn_agent_process(client, *sys.argv[1:]) as (agent, _):
        await agent.initialize(
            PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=True, write_text_file=True)
            ),
            client_info=Implementation(name="plain", version="1.0"),
        )
        session = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])

        loop = asyncio.get_running_loop()

        def cancel() -> None:
            client.cancelled = True
            loop.remove_signal_handler(signal.SIGINT)  # the second one ends everything
            cancelling.append(asyncio.ensure_future(agent.cancel(session_id=session.session_id)))

        cancelling: list[asyncio.Future[None]] = []
        loop.add_signal_handler(signal.SIGINT, cancel)
        answer = await agent.prompt(session_id=session.session_id, prompt=[text_block("Hello")])
        print(f"the turn ended: {answer.stop_reason}", file=sys.stderr)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except RequestError as error:
        sys.exit(f"the agent answered with an error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
