"""A v1 client and a v2 agent, both scripted, and a relay between them: what may cross on the wire, and what follows.

tests/dialect/test_emulator_v2.py has the orders of receipt, message, states and idle; recorded agents are in
test_v2_recordings.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.relay import Relay
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.pairs.peers import BOUND, CWD
from tests.pairs.words import WORDS, Json

S = "s"
PROMPT = {"sessionId": S, "prompt": [{"type": "text", "text": "hello"}]}
OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]


class Pair:
    """Both ends of the relay."""

    def __init__(self, client: ScriptedPeer, agent: ScriptedPeer) -> None:
        self.client = client
        self.agent = agent

    def ask(self, id: int, method: str, params: Json) -> None:
        """Send a request of the client."""
        self.client.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    async def prompt(self, id: int, message: str) -> Any:
        """Send a prompt, which the agent inserts under this id; return the agent's id of the request."""
        self.ask(id, "session/prompt", PROMPT)
        heard = await self.agent.expect(method="session/prompt")
        self.answer(heard["id"], {"messageId": message})
        return heard["id"]

    def answer(self, id: Any, result: Json) -> None:
        """Answer a request as the agent."""
        self.agent.send({"jsonrpc": "2.0", "id": id, "result": result})

    def tell(self, kind: str, **members: Any) -> None:
        """Send an update of the agent."""
        params = {"sessionId": S, "update": {"sessionUpdate": kind, **members}}
        self.agent.send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def say(self, text: str) -> None:
        """Send a piece of the agent's message."""
        self.tell("agent_message_chunk", messageId="a", content={"type": "text", "text": text})

    def idle(self, reason: str = "end_turn") -> None:
        """End the work of the agent."""
        self.tell("state_update", state="idle", stopReason=reason)

    async def until(self, id: int) -> tuple[list[str], Json]:
        """What the client gets until this request is answered: texts of the agent, and the answer."""
        texts: list[str] = []
        while True:
            message = await self.client.receive()
            update = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                texts.append(update["content"]["text"])
            elif "method" not in message and message["id"] == id:
                return texts, message


@asynccontextmanager
async def relayed() -> AsyncIterator[Pair]:
    """A client of v1 with an open session of an agent of v2."""
    front, outside = memory_pair()
    back, inside = memory_pair()
    relay = Relay(front, Dialer(back, dialect="v2", cwd=CWD, report=lambda _: None), report=lambda _: None)
    running = asyncio.create_task(relay.run())
    pair = Pair(ScriptedPeer(outside), ScriptedPeer(inside))
    async with asyncio.timeout(BOUND):
        pair.ask(1, "initialize", WORDS["v1"].initialize(True, True, CWD))
        heard = await pair.agent.expect(method="initialize")
        info = {"name": "scripted", "version": "1"}
        pair.answer(heard["id"], {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}})
        await pair.until(1)
        pair.ask(2, "session/new", {"cwd": CWD, "mcpServers": []})
        heard = await pair.agent.expect(method="session/new")
        pair.tell("state_update", state="idle")  # before the answer, as crow does
        pair.answer(heard["id"], {"sessionId": S})
        await pair.until(2)
        try:
            yield pair
        finally:
            await outside.close()
            await inside.close()
            await running


async def test_text_after_a_cancel_and_before_idle_reaches_the_client() -> None:
    async with relayed() as pair:
        await pair.prompt(3, "m")
        pair.tell("state_update", state="running")
        pair.say("one ")
        pair.client.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": S}})
        await pair.agent.expect(method="session/cancel")
        pair.say("two")
        pair.idle("cancelled")
        texts, answer = await pair.until(3)
        assert ("".join(texts), answer["result"]["stopReason"]) == ("one two", "cancelled")


async def test_updates_after_idle_are_not_lost() -> None:
    async with relayed() as pair:
        await pair.prompt(3, "m")
        pair.tell("state_update", state="running")
        pair.idle()
        pair.tell("session_info_update", title="A title")
        pair.tell("usage_update", used=1, size=2)
        await pair.until(3)
        kinds = [(await pair.client.receive())["params"]["update"]["sessionUpdate"] for _ in range(2)]
        assert kinds == ["session_info_update", "usage_update"]


async def test_a_prompt_that_crosses_an_idle_waits_for_its_own() -> None:
    async with relayed() as pair:
        await pair.prompt(3, "m")
        pair.tell("state_update", state="running")
        pair.ask(4, "session/prompt", PROMPT)
        pair.idle()  # sent before the second prompt was read
        assert (await pair.until(3))[1]["result"]["stopReason"] == "end_turn"
        heard = await pair.agent.expect(method="session/prompt")
        pair.answer(heard["id"], {"messageId": "n"})
        pair.tell("state_update", state="running")
        pair.say("second")
        pair.idle("max_tokens")
        texts, answer = await pair.until(4)
        assert (texts, answer["result"]["stopReason"]) == (["second"], "max_tokens")


async def test_an_agent_that_dies_after_its_receipt_fails_every_open_prompt_once() -> None:
    async with relayed() as pair:
        await pair.prompt(3, "m")
        pair.tell("state_update", state="running")
        await pair.prompt(4, "n")
        await pair.agent.transport.close()
        answers = [await pair.client.receive() for _ in range(2)]
        assert {each["id"] for each in answers} == {3, 4}
        assert all("error" in each for each in answers)


async def test_a_withdrawn_prompt_that_is_inserted_already_is_cancelled() -> None:
    async with relayed() as pair:
        await pair.prompt(3, "m")
        pair.tell("state_update", state="running")
        pair.say("on the way")
        while not (await pair.client.receive()).get("params", {}).get("update", {}).get("content"):
            pass
        pair.client.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 3}})
        while (await pair.agent.receive())["method"] != "session/cancel":
            pass
        pair.idle("cancelled")
        assert (await pair.until(3))[1]["result"]["stopReason"] == "cancelled"


async def test_a_late_answer_to_a_question_of_cancelled_work_does_no_harm() -> None:
    async with relayed() as pair:
        await pair.prompt(3, "m")
        pair.tell("state_update", state="running")
        asked = {"sessionId": S, "title": "May I?", "options": OPTIONS}
        pair.agent.send({"jsonrpc": "2.0", "id": "q", "method": "session/request_permission", "params": asked})
        question = await pair.client.receive()
        while question.get("method") != "session/request_permission":
            question = await pair.client.receive()
        pair.client.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": S}})
        await pair.agent.expect(method="session/cancel")
        pair.agent.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "q"}})
        pair.idle("cancelled")
        assert (await pair.until(3))[1]["result"]["stopReason"] == "cancelled"
        outcome = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        pair.client.send({"jsonrpc": "2.0", "id": question["id"], "result": outcome})
        pair.ask(4, "session/prompt", PROMPT)
        heard = await pair.agent.receive()
        while heard.get("method") != "session/prompt":  # the late answer may come before it, but no error
            assert "error" not in heard or heard["error"]["code"] == -32800, heard
            heard = await pair.agent.receive()
        pair.answer(heard["id"], {"messageId": "n"})
        pair.tell("state_update", state="running")
        pair.idle()
        assert (await pair.until(4))[1]["result"]["stopReason"] == "end_turn"


async def test_a_session_that_is_loaded_while_it_works_goes_on_without_a_prompt() -> None:
    async with relayed() as pair:
        pair.ask(3, "session/load", {"sessionId": S, "cwd": CWD, "mcpServers": []})
        heard = await pair.agent.expect(method="session/resume")
        pair.tell("state_update", state="running")
        pair.answer(heard["id"], {})
        await pair.until(3)
        pair.say("still at it")
        pair.idle()
        await pair.prompt(4, "m")
        pair.tell("state_update", state="running")
        pair.idle("refusal")
        texts, answer = await pair.until(4)
        assert (texts, answer["result"]["stopReason"]) == (["still at it"], "refusal")


async def test_what_an_agent_tells_before_it_answers_a_close_comes_before_the_answer() -> None:
    async with relayed() as pair:
        await pair.prompt(3, "m")
        pair.tell("state_update", state="running")
        pair.ask(4, "session/close", {"sessionId": S})
        heard = await pair.agent.expect(method="session/close")
        pair.say("bye")
        pair.idle("cancelled")
        pair.tell("session_info_update", title="Closed")
        pair.answer(heard["id"], {})
        texts, answer = await pair.until(3)
        assert (texts, answer["result"]["stopReason"]) == (["bye"], "cancelled")
        assert (await pair.client.receive())["params"]["update"]["title"] == "Closed"
        assert (await pair.client.expect(id=4))["result"] == {}
