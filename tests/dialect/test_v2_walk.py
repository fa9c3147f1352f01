"""Random walks: a v2 agent or client that does anything legal in any order. Each prompt ends once, with its reason.

`DRAGOMAN_WALK_STEPS` and `DRAGOMAN_WALK_SEED` make the walk longer (`make walk-run`).
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from dragoman.errors import Kind, ProtocolError
from tests.dialect.emulator_harness import EmulatedCall
from tests.dialect.test_emulator_v2 import Agent, Client, S, reason, text

STEPS = int(os.environ.get("DRAGOMAN_WALK_STEPS", "1500"))
SEEDS = os.environ.get("DRAGOMAN_WALK_SEED", "a b c").split()
REASONS = ("end_turn", "max_tokens", "refusal", "max_turn_requests")


class Prompt:
    """A prompt of our client, as the walking agent sees it."""

    def __init__(self, number: int, call: EmulatedCall) -> None:
        self.id = f"m{number}"
        self.call = call
        self.is_answered = False
        self.is_shown = False
        self.reason = ""  # of the idle that ended its work


class WalkingAgent:
    """A v2 agent that inserts one prompt at a time, and tells everything around it in any order."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.agent = Agent()
        self.count = 0
        self.waiting: list[Prompt] = []  # sent, not inserted
        self.current: Prompt | None = None
        self.is_running = False
        self.unanswered: list[Prompt] = []  # receipts are sent in order
        self.ended: list[Prompt] = []

    def step(self) -> None:
        self.random.choice(
            (self.prompt, self.begin, self.run, self.tell, self.answer, self.show, self.end, self.refuse, self.setup)
        )()

    def prompt(self) -> None:
        if len(self.waiting) + len(self.unanswered) > 4:
            return
        self.count += 1
        prompt = Prompt(self.count, self.agent.prompt(f"prompt {self.count}"))
        self.waiting.append(prompt)
        self.unanswered.append(prompt)

    def begin(self) -> None:
        if self.current is None and self.waiting and self.waiting[0] is self.unanswered[0]:
            self.current = self.waiting.pop(0)

    def run(self) -> None:
        if self.current is not None and not self.is_running:
            self.is_running = True
            self.agent.state("running")

    def tell(self) -> None:
        if self.is_running:
            kind = self.random.choice(("agent_message_chunk", "agent_thought_chunk"))
            self.agent.update(kind, messageId=f"a{self.count}", content=text("word")[0])
        if self.is_running and self.random.random() < 0.2:
            self.agent.state(self.random.choice(("requires_action", "running")))

    def answer(self) -> None:
        if self.unanswered and self.unanswered[0] in (self.current, *self.ended):
            prompt = self.unanswered.pop(0)
            prompt.is_answered = True
            self.agent.receipt(prompt.id)

    def show(self) -> None:
        if self.current is not None and not self.current.is_shown:
            self.current.is_shown = True
            self.agent.user_message(self.current.id, f"prompt {self.current.id[1:]}")

    def end(self) -> None:
        """End the work; its user message was told at the latest now."""
        if self.current is None or not self.is_running:
            return
        self.show()
        prompt, self.current, self.is_running = self.current, None, False
        prompt.reason = self.random.choice(REASONS)
        self.ended.append(prompt)
        self.agent.state("idle", stopReason=prompt.reason)
        if self.random.random() < 0.2:
            self.agent.state("idle", stopReason=prompt.reason)  # a repeated snapshot

    def refuse(self) -> None:
        """Refuse a prompt that is not in the conversation."""
        if self.waiting and self.waiting[0] is self.unanswered[0] and self.random.random() < 0.3:
            prompt = self.waiting.pop(0)
            self.unanswered.pop(0)
            self.agent.reply(ProtocolError(Kind.INVALID_PARAMS, "no"))
            assert prompt.call.error.kind == Kind.INVALID_PARAMS

    def setup(self) -> None:
        """Tell that nothing runs, as some agents do at any time."""
        if not self.is_running and self.random.random() < 0.3:
            self.agent.state("idle")

    def finish(self) -> None:
        while self.waiting or self.current or self.unanswered:
            for act in (self.begin, self.run, self.end, self.answer):
                act()

    def check(self) -> None:
        for prompt in self.ended:
            if prompt.is_answered:
                assert reason(prompt.call) == prompt.reason, prompt.id
        self.ended = [prompt for prompt in self.ended if not prompt.is_answered]


@pytest.mark.item("V2-11", "V2-12")
@pytest.mark.parametrize("seed", SEEDS)
def test_each_prompt_to_a_walking_agent_ends_once_with_the_reason_of_its_work(seed: str) -> None:
    walk = WalkingAgent(Random(seed))
    for _ in range(STEPS):
        walk.step()
        walk.check()
    walk.finish()
    walk.check()
    assert walk.ended == []
    assert walk.agent.reports == []


class WalkingClient:
    """A v2 client and an agent of the vocabulary that do anything, in any order."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.client = Client()
        self.prompts: list[EmulatedCall] = []
        self.questions: list[EmulatedCall] = []
        self.open_questions = 0

    def running(self) -> bool:
        return any(method == "session/prompt" for method, _ in self.client._ours_open)

    def step(self) -> None:
        self.random.choice(
            (self.prompt, self.say, self.say, self.say, self.finish_turn, self.cancel, self.ask, self.decide, self.wait)
        )()

    def prompt(self) -> None:
        if sum(call.is_open for call in self.prompts) < 4:
            self.prompts.append(self.client.prompt(f"p{len(self.prompts)}"))

    def say(self) -> None:
        kind = self.random.choice(("chunk", "call", "call update"))
        if kind == "chunk":
            self.client.chunk("word")
        elif kind == "call":
            self.client.say("tool_call", toolCallId=f"t{self.random.randrange(3)}", title="Read")
        else:
            self.client.say("tool_call_update", toolCallId=f"t{self.random.randrange(3)}", status="in_progress")

    def finish_turn(self) -> None:
        if self.running():
            outcome: Any = {"stopReason": self.random.choice(REASONS)}
            if self.random.random() < 0.2:
                outcome = ProtocolError(Kind.INTERNAL_ERROR, "broke")
            self.client.answer(outcome)

    def cancel(self) -> None:
        if self.random.random() < 0.3:
            self.client.receive_call("session/cancel", {"sessionId": S})

    def ask(self) -> None:
        if self.running() and len(self.client._theirs_open) < 3:
            call = {"toolCallId": "t0", "title": "Write"}
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            params = {"sessionId": S, "toolCall": call, "options": options}
            self.questions.append(self.client.send_call("session/request_permission", params))

    def decide(self) -> None:
        if self.client._theirs_open:
            self.client.reply({"outcome": {"outcome": "selected", "optionId": "yes"}})

    def wait(self) -> None:
        self.client.wake_all()

    def finish(self) -> None:
        for _ in range(200):
            self.decide()
            self.finish_turn()
            self.wait()


@pytest.mark.item("V2-09", "V2-14", "V2-15")
@pytest.mark.parametrize("seed", SEEDS)
def test_each_prompt_of_a_walking_client_is_answered_once_and_each_turn_ends_with_one_idle(seed: str) -> None:
    walk = WalkingClient(Random(seed))
    for _ in range(STEPS):
        walk.step()
    walk.finish()
    assert not [call for call in (*walk.prompts, *walk.questions) if call.is_open]
    faults = {call._error.kind for call in walk.prompts if call._error is not None}
    assert faults <= {Kind.CANCELLED, Kind.INTERNAL_ERROR}
    assert sum(call._error is None for call in walk.prompts) > STEPS / 100
    inserted = 0
    states: list[str] = []
    for event in walk.client.events():
        if event == "user_message":
            assert not states or states[-1].startswith("idle"), "a prompt was inserted during a turn"
            inserted += 1
        elif event.startswith(("running", "idle", "requires_action")):
            assert not (event.startswith("idle") and states and states[-1].startswith("idle")), "two ends of one turn"
            states.append(event)
    assert inserted == sum(state.startswith("idle") for state in states)
    assert not states or states[-1].startswith("idle")
