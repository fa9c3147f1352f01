"""A client of protocol version 2 written with the official Python SDK, as sdk_client_v2.rs is with that for Rust.

It starts the agent of its arguments, goes through hello, permission requests, cancel and load, and prints what it saw
as one JSON object. Knows nothing of Dragoman. tests/interop/peers/ts_client_v2.mjs is the third; keep them in step.
"""

import asyncio
import json
import os
import sys
from typing import Any

from acp import spawn_stdio_transport
from acp.experimental.v2 import PROTOCOL_VERSION, connect_to_agent, schema


class Client:
    """Records updates and questions; chooses the option of the kind `answer`."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.answer = "allow_once"
        self.cancel_on: str | None = None
        self.idle = asyncio.Event()
        self.agent: Any = None

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Record the update; cancel the turn if the test wants it here."""
        told = plain(update)
        self.updates.append(told)
        if told["sessionUpdate"] == self.cancel_on:
            self.cancel_on = None
            await self.agent.cancel_session(session_id)
        if told["sessionUpdate"] == "state_update" and told["state"] == "idle":
            self.idle.set()

    async def request_permission(
        self, session_id: str, title: str, options: list[Any], **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        """Choose the option of the configured kind."""
        self.asked.append({"title": title, "options": [plain(option) for option in options]})
        chosen = next(option["optionId"] for option in self.asked[-1]["options"] if option["kind"] == self.answer)
        outcome = {"outcome": {"outcome": "selected", "optionId": chosen}}
        return schema.RequestPermissionResponse.model_validate(outcome)

    async def turn(self, session: str, text: str, cancel_on: str | None = None) -> dict[str, Any]:
        """Send a prompt and wait for idle."""
        self.updates, self.asked, self.cancel_on = [], [], cancel_on
        self.idle.clear()
        receipt = await self.agent.prompt(session, [schema.TextContentBlock(type="text", text=text)])
        await self.idle.wait()
        reason = self.updates[-1].get("stopReason")
        return {"receipt": plain(receipt), "stopReason": reason, "updates": self.updates, "asked": self.asked}


def plain(model: Any) -> Any:
    """A model of the SDK as JSON."""
    return model.model_dump(by_alias=True, exclude_none=True, mode="json")


async def main(cwd: str, program: str, *args: str) -> None:
    """Go through all turns and print what was seen."""
    client = Client()
    environ = dict(os.environ)
    async with spawn_stdio_transport(program, *args, env=environ, cwd=cwd, stderr=None) as (reader, writer, _):
        client.agent = agent = connect_to_agent(client, writer, reader)
        info = schema.Implementation(name="python", version="1.0")
        introduced = await agent.initialize(PROTOCOL_VERSION, info)
        made = await agent.new_session(cwd)
        session = made.session_id
        seen = {"introduced": plain(introduced), "made": plain(made)}
        seen["hello"] = await client.turn(session, "/echo hello")
        seen["allowed"] = await client.turn(session, "/write new.txt text")
        client.answer = "reject_once"
        seen["refused"] = await client.turn(session, "/write other.txt text")
        seen["cancelled"] = await client.turn(session, "/slow 60", cancel_on="tool_call_update")
        seen["again"] = await client.turn(session, "/echo again")
        client.updates = []
        await agent.resume_session(session, cwd, replay_from=schema.ReplayFromStartVariant())
        seen["replayed"] = client.updates
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
