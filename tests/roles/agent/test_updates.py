"""Other updates of a turn: plans, usage, titles, settings, notices, compactions, each for clients that support it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman import Agent, Option, Turn
from dragoman.schema.config import SessionMode
from dragoman.schema.plan import PlanEntry
from dragoman.schema.update import AvailableCommand
from tests.roles.raw_client import CWD, Raw, new_session, prompt_and_wait, raw_connection, updates

Act = Callable[[Turn], Awaitable[Any]]


def acting_agent(act: Act, **declared: Any) -> Agent:
    """Return an agent that runs one function."""
    agent = Agent("acting", **declared)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await act(turn)

    return agent


async def run_turn(act: Act, capabilities: Any = None, dialect: str = "v1", **declared: Any) -> Raw:
    """Run it with a v1 (or banjo) client."""
    async with raw_connection(acting_agent(act, **declared), dialect, capabilities) as client:
        assert "result" in await prompt_and_wait(client, await new_session(client))
    return client


async def run_turn_in_draft(act: Act, **declared: Any) -> Raw:
    """Run it with a draft client."""
    async with raw_connection(acting_agent(act, **declared), "draft") as client:
        session = (await client.result("session/new", {"workingDirectory": CWD}))["sessionId"]
        content = [{"type": "text", "text": "go"}]
        await client.result("session/prompt", {"sessionId": session, "content": content})
    return client


async def work(turn: Turn) -> None:
    """Work through a plan."""
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


async def test_a_plan_is_sent_whole_after_every_step() -> None:
    client = await run_turn(work)
    plans = updates(client, "plan")
    assert [[(e["content"], e["status"]) for e in plan["entries"]] for plan in plans] == STATES
    assert [entry["priority"] for entry in plans[-1]["entries"]] == ["medium", "high", "medium"]


async def test_plan_steps_given_as_one_list_raise() -> None:
    async def misled(turn: Turn) -> None:
        with pytest.raises(TypeError, match=r"plan\(\*steps\)"):
            await turn.plan(["look", "leap"])  # type: ignore[arg-type]

    assert updates(await run_turn(misled), "plan") == []


async def test_a_plan_in_the_draft_and_in_2025_1() -> None:
    client = await run_turn_in_draft(work)
    plans = client.updates("plan")
    assert [[(s["description"], s["status"]) for s in plan["steps"]] for plan in plans] == STATES
    assert [step["id"] for step in plans[-1]["steps"]] == ["step_1", "step_2", "step_3"]
    async with raw_connection(acting_agent(work), "2025.1") as old:
        await old.result("session/new", {"session_id": "s", "mode": "agent"})
        await old.result("session/prompt", {"session_id": "s", "content": [{"type": "text", "text": "go"}]})
    assert [step["id"] for step in old.updates("plan")[-1]["steps"]] == [1, 2, 3]


async def name_plans(turn: Turn) -> None:
    """Show two plans and remove one of them."""
    build = await turn.plan("compile", name="build")
    await turn.plan("write", name="docs")
    await build.finish(0)
    await build.remove()


async def test_named_plans_are_sent_to_clients_that_support_them_and_plain_plans_to_others() -> None:
    client = await run_turn(name_plans, {"plan": {}})
    plans = [(update["plan"]["planId"], update["plan"]["type"]) for update in updates(client, "plan_update")]
    assert plans == [("build", "items"), ("docs", "items"), ("build", "items")]
    assert updates(client, "plan_removed") == [{"sessionUpdate": "plan_removed", "planId": "build"}]
    assert updates(client, "plan") == []
    client = await run_turn(name_plans)
    assert [[entry["content"] for entry in plan["entries"]] for plan in updates(client, "plan")] == [
        ["compile"],
        ["write"],
        ["compile"],
        [],
    ]
    assert updates(client, "plan_update") == updates(client, "plan_removed") == []


async def test_history_is_replayed_in_the_form_that_the_loading_client_supports() -> None:
    agent = acting_agent(name_plans)
    async with raw_connection(agent, capabilities={"plan": {}}) as client:
        session = await new_session(client)
        await prompt_and_wait(client, session)
    async with raw_connection(agent) as client:
        await client.result("session/load", {"sessionId": session, "cwd": CWD, "mcpServers": []})
        assert len(updates(client, "plan")) == 4
        assert updates(client, "plan_update") == []


async def test_usage_is_sent_at_once_and_with_the_end_of_the_turn() -> None:
    async def spend(turn: Turn) -> None:
        await turn.report_usage(
            input_tokens=10, output_tokens=5, thought_tokens=2, context_used=1500, context_size=8000, cost=0.25
        )

    client = await run_turn(spend)
    [update] = updates(client, "usage_update")
    assert update["cost"] == {"amount": 0.25, "currency": "USD"}
    assert (update["used"], update["size"]) == (1500, 8000)
    counts = {"totalTokens": 17, "inputTokens": 10, "outputTokens": 5, "thoughtTokens": 2}
    assert client.received[-1]["result"] == {"stopReason": "end_turn", "usage": counts}
    client = await run_turn_in_draft(spend)
    usage = client.received[-1]["result"]["usage"]
    assert (usage["inputTokens"], usage["outputTokens"]) == (10, 5)


MODES = [SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")]


async def change_settings(turn: Turn) -> None:
    """Change every setting of a session."""
    await turn.set_title("A good name")
    await turn.set_mode("code", reason="the plan was approved")
    await turn.set_option("route", "codex")
    await turn.set_commands(AvailableCommand(name="undo", description="Take it back"))


async def test_settings_of_the_session_are_changed_and_sent() -> None:
    client = await run_turn(change_settings, modes=MODES, options=[Option.select("route", ["auto", "codex"])])
    assert updates(client, "session_info_update")[0]["title"] == "A good name"
    assert updates(client, "current_mode_update")[0]["currentModeId"] == "code"
    assert updates(client, "config_option_update")[0]["configOptions"][0]["currentValue"] == "codex"
    commands = updates(client, "available_commands_update")[0]["availableCommands"]
    assert commands == [{"name": "undo", "description": "Take it back"}]
    client = await run_turn_in_draft(change_settings, modes=MODES, options=[Option.select("route", ["auto", "codex"])])
    [mode] = client.updates("current_mode_update")
    assert mode == {"previousMode": "ask", "currentMode": "code", "reason": "the plan was approved"}
    [option] = client.updates("config_option_update")
    del option["_meta"]  # the full list, for who reads it
    assert option == {"key": "route", "previousValue": "auto", "currentValue": "codex", "source": "agent"}
    assert client.updates("available_commands")[0]["commands"][0]["name"] == "undo"


async def test_commands_of_a_session_are_sent_again_before_the_answer_to_a_load() -> None:
    agent = acting_agent(change_settings, modes=MODES, options=[Option.select("route", ["auto", "codex"])])
    async with raw_connection(agent) as client:
        session = await new_session(client)
        await prompt_and_wait(client, session)
    async with raw_connection(agent) as client:
        await client.result("session/load", {"sessionId": session, "cwd": CWD, "mcpServers": []})
        *_, last_update = [
            each["params"]["update"] for each in client.received if each.get("method") == "session/update"
        ]
        assert [command["name"] for command in last_update["availableCommands"]] == ["undo"]


async def send_notices(turn: Turn) -> None:
    """Send a notice and a compaction."""
    await turn.send_notice("The disk is nearly full", "2 MB are left", severity="warning")
    async with turn.compaction() as compaction:
        await compaction.add_summary("They talked ")
        await compaction.add_summary("about disks.")


async def test_notices_and_compactions_are_sent_only_to_clients_that_support_them() -> None:
    client = await run_turn(send_notices, {"session": {"notices": {}, "compaction": {}}})
    [notice] = updates(client, "notice")
    assert (notice["severity"], notice["title"], notice["description"]) == (
        "warning",
        "The disk is nearly full",
        "2 MB are left",
    )
    compactions = updates(client, "compaction_update")
    assert [update["status"] for update in compactions] == ["in_progress", "completed"]
    assert compactions[1]["summary"] == [{"type": "text", "text": "They talked about disks."}]
    assert len({update["compactionId"] for update in compactions + updates(client, "compaction_summary_chunk")}) == 1
    assert len(updates(client, "compaction_summary_chunk")) == 2
    for quiet in (
        await run_turn(send_notices),
        await run_turn(send_notices, dialect="banjo"),
        await run_turn_in_draft(send_notices),
    ):
        assert quiet.params_of("session/update") == []


@pytest.mark.parametrize(("error", "status"), [(RuntimeError("no room"), "failed"), (None, "cancelled")])
async def test_a_failed_or_cancelled_compaction_reports_its_status(error: Exception | None, status: str) -> None:
    async def fail(turn: Turn) -> None:
        async with turn.compaction():
            if error is not None:
                raise error
            await asyncio.Event().wait()

    async with raw_connection(acting_agent(fail), capabilities={"session": {"compaction": {}}}) as client:
        session = await new_session(client)
        prompt = client.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
        await client.wait_for_call("session/update")
        client.notify("session/cancel", {"sessionId": session})
        await client.answer(prompt)
        assert updates(client, "compaction_update")[-1]["status"] == status
