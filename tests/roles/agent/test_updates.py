"""What a turn tells beside its words: plans, usage, titles, settings, notices, compactions; each to who can hear it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman import Agent, Option, Turn
from dragoman.schema.config import SessionMode
from dragoman.schema.plan import PlanEntry
from dragoman.schema.update import AvailableCommand
from tests.roles.raw_client import CWD, Raw, opened, prompted, served, updates

Act = Callable[[Turn], Awaitable[Any]]


def acting(act: Act, **declared: Any) -> Agent:
    """An agent that does one thing."""
    agent = Agent("acting", **declared)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await act(turn)

    return agent


async def heard(act: Act, capabilities: Any = None, dialect: str = "v1", **declared: Any) -> Raw:
    """What a v1 (or banjo) client hears of it."""
    async with served(acting(act, **declared), dialect, capabilities) as client:
        assert "result" in await prompted(client, await opened(client))
    return client


async def heard_in_draft(act: Act, **declared: Any) -> Raw:
    """What a draft client hears of it."""
    async with served(acting(act, **declared), "draft") as client:
        session = (await client.result("session/new", {"workingDirectory": CWD}))["sessionId"]
        content = [{"type": "text", "text": "go"}]
        await client.result("session/prompt", {"sessionId": session, "content": content})
    return client


async def work(turn: Turn) -> None:
    """Walk through a plan."""
    plan = await turn.plan("look", PlanEntry(content="leap", priority="high", status="pending"))
    await plan.start(0)
    await plan.finish(0)
    await plan.add("rest")
    await plan.change(1, content="jump", status="in_progress")


STATES = [
    [("look", "pending"), ("leap", "pending")],
    [("look", "in_progress"), ("leap", "pending")],
    [("look", "completed"), ("leap", "pending")],
    [("look", "completed"), ("leap", "pending"), ("rest", "pending")],
    [("look", "completed"), ("jump", "in_progress"), ("rest", "pending")],
]


async def test_a_plan_is_told_whole_after_every_step() -> None:

    client = await heard(work)
    plans = updates(client, "plan")
    assert [[(e["content"], e["status"]) for e in plan["entries"]] for plan in plans] == STATES
    assert [entry["priority"] for entry in plans[-1]["entries"]] == ["medium", "high", "medium"]


async def test_steps_given_as_one_list_are_refused_before_a_client_hears_nonsense() -> None:
    async def misled(turn: Turn) -> None:
        with pytest.raises(TypeError, match=r"plan\(\*steps\)"):
            await turn.plan(["look", "leap"])  # type: ignore[arg-type]

    assert updates(await heard(misled), "plan") == []


async def test_a_plan_in_the_words_of_the_draft_and_of_2025_1() -> None:

    client = await heard_in_draft(work)
    plans = client.updates("plan")
    assert [[(s["description"], s["status"]) for s in plan["steps"]] for plan in plans] == STATES
    assert [step["id"] for step in plans[-1]["steps"]] == ["step_1", "step_2", "step_3"]
    async with served(acting(work), "2025.1") as old:
        await old.result("session/new", {"session_id": "s", "mode": "agent"})
        await old.result("session/prompt", {"session_id": "s", "content": [{"type": "text", "text": "go"}]})
    assert [step["id"] for step in old.updates("plan")[-1]["steps"]] == [1, 2, 3]


async def name_plans(turn: Turn) -> None:
    """Two plans side by side, one of them taken away."""
    build = await turn.plan("compile", name="build")
    await turn.plan("write", name="docs")
    await build.finish(0)
    await build.remove()


async def test_named_plans_are_for_clients_that_asked_for_them_and_plain_plans_for_the_others() -> None:

    client = await heard(name_plans, {"plan": {}})
    told = [(update["plan"]["planId"], update["plan"]["type"]) for update in updates(client, "plan_update")]
    assert told == [("build", "items"), ("docs", "items"), ("build", "items")]
    assert updates(client, "plan_removed") == [{"sessionUpdate": "plan_removed", "planId": "build"}]
    assert updates(client, "plan") == []
    client = await heard(name_plans)
    assert [[entry["content"] for entry in plan["entries"]] for plan in updates(client, "plan")] == [
        ["compile"],
        ["write"],
        ["compile"],
        [],
    ]
    assert updates(client, "plan_update") == updates(client, "plan_removed") == []


async def test_what_is_replayed_is_said_to_the_client_that_loads_in_its_own_form() -> None:

    agent = acting(name_plans)
    async with served(agent, capabilities={"plan": {}}) as client:
        session = await opened(client)
        await prompted(client, session)
    async with served(agent) as client:
        await client.result("session/load", {"sessionId": session, "cwd": CWD, "mcpServers": []})
        assert len(updates(client, "plan")) == 4
        assert updates(client, "plan_update") == []


async def test_usage_is_told_now_and_with_the_end_of_the_turn() -> None:
    async def spend(turn: Turn) -> None:
        await turn.report_usage(
            input_tokens=10, output_tokens=5, thought_tokens=2, context_used=1500, context_size=8000, cost=0.25
        )

    client = await heard(spend)
    [update] = updates(client, "usage_update")
    assert update["cost"] == {"amount": 0.25, "currency": "USD"}
    assert (update["used"], update["size"]) == (1500, 8000)
    counts = {"totalTokens": 17, "inputTokens": 10, "outputTokens": 5, "thoughtTokens": 2}
    assert client.heard[-1]["result"] == {"stopReason": "end_turn", "usage": counts}
    client = await heard_in_draft(spend)
    usage = client.heard[-1]["result"]["usage"]
    assert (usage["inputTokens"], usage["outputTokens"]) == (10, 5)


MODES = [SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")]


async def settle(turn: Turn) -> None:
    """Change everything a session is set to."""
    await turn.set_title("A good name")
    await turn.set_mode("code", reason="the plan was approved")
    await turn.set_option("route", "codex")
    await turn.set_commands(AvailableCommand(name="undo", description="Take it back"))


async def test_settings_of_the_session_are_changed_and_told() -> None:

    client = await heard(settle, modes=MODES, options=[Option.select("route", ["auto", "codex"])])
    assert updates(client, "session_info_update")[0]["title"] == "A good name"
    assert updates(client, "current_mode_update")[0]["currentModeId"] == "code"
    assert updates(client, "config_option_update")[0]["configOptions"][0]["currentValue"] == "codex"
    commands = updates(client, "available_commands_update")[0]["availableCommands"]
    assert commands == [{"name": "undo", "description": "Take it back"}]
    client = await heard_in_draft(settle, modes=MODES, options=[Option.select("route", ["auto", "codex"])])
    [mode] = client.updates("current_mode_update")
    assert mode == {"previousMode": "ask", "currentMode": "code", "reason": "the plan was approved"}
    [option] = client.updates("config_option_update")
    del option["_meta"]  # the full list, for who reads it
    assert option == {"key": "route", "previousValue": "auto", "currentValue": "codex", "source": "agent"}
    assert client.updates("available_commands")[0]["commands"][0]["name"] == "undo"


async def test_commands_of_a_session_are_told_again_to_who_loads_it() -> None:

    agent = acting(settle, modes=MODES, options=[Option.select("route", ["auto", "codex"])])
    async with served(agent) as client:
        session = await opened(client)
        await prompted(client, session)
    async with served(agent) as client:
        await client.result("session/load", {"sessionId": session, "cwd": CWD, "mcpServers": []})
        await client.heard_call("session/update")
        told = client.heard[-1]["params"]["update"]
        assert [command["name"] for command in told["availableCommands"]] == ["undo"]


async def remark(turn: Turn) -> None:
    """A notice and a compaction."""
    await turn.send_notice("The disk is nearly full", "2 MB are left", severity="warning")
    async with turn.compaction() as compaction:
        await compaction.add_summary("They talked ")
        await compaction.add_summary("about disks.")


async def test_notices_and_compactions_are_for_clients_that_asked_for_them() -> None:

    client = await heard(remark, {"session": {"notices": {}, "compaction": {}}})
    [notice] = updates(client, "notice")
    assert (notice["severity"], notice["title"], notice["description"]) == (
        "warning",
        "The disk is nearly full",
        "2 MB are left",
    )
    told = updates(client, "compaction_update")
    assert [update["status"] for update in told] == ["in_progress", "completed"]
    assert told[1]["summary"] == [{"type": "text", "text": "They talked about disks."}]
    assert len({update["compactionId"] for update in told + updates(client, "compaction_summary_chunk")}) == 1
    assert len(updates(client, "compaction_summary_chunk")) == 2
    for quiet in (await heard(remark), await heard(remark, dialect="banjo"), await heard_in_draft(remark)):
        assert quiet.said("session/update") == []


@pytest.mark.parametrize(("error", "status"), [(RuntimeError("no room"), "failed"), (None, "cancelled")])
async def test_a_compaction_that_does_not_end_well_says_so(error: Exception | None, status: str) -> None:
    async def fail(turn: Turn) -> None:
        async with turn.compaction():
            if error is not None:
                raise error
            await asyncio.Event().wait()

    async with served(acting(fail), capabilities={"session": {"compaction": {}}}) as client:
        session = await opened(client)
        prompt = client.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
        await client.heard_call("session/update")
        client.tell("session/cancel", {"sessionId": session})
        await client.answer(prompt)
        assert updates(client, "compaction_update")[-1]["status"] == status
