"""Our agent passes every requirement in every dialect, and each seeded fault is found by its own requirement."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from dragoman.conformance.harness.client_answers import ANSWERS
from dragoman.conformance.harness.peer import PROCESS, ReceivedFrame
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.runner import try_one
from dragoman.conformance.verdict import Evidence, Outcome, Verdict
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.transport.base import Transport
from tests.conformance.checked_agents import (
    AGENT,
    AT_ONCE,
    agent_with_fault_of,
    check_all,
    describe,
    faulty_agent,
    our_agent,
)
from tests.conformance.faults.agent.init import refusing
from tests.conformance.faults.edits import edit_all_outgoing, edit_errors, edit_incoming, with_
from tests.conformance.faults.fault import FaultContext, Json
from tests.conformance.memory_agent import MEMORY, MemoryAgent

# Each fault is also tried with these requirements, which must not find it.
OTHERS = ("agent.rpc.03", "agent.init.01", "agent.prompt.14", "agent.v2rpc.07", "agent.v2update.10")

WRONG = (Outcome.FAIL, Outcome.INCONCLUSIVE)

# An unexpected verdict is tried again with the timeouts of processes, because the machine may be busy.


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_our_agent_passes_every_requirement(dialect: str) -> None:
    verdicts = check_all(our_agent(dialect), AGENT)
    doubtful = [requirements()[id] for id, each in verdicts.items() if each.outcome in WRONG]
    verdicts |= check_all(our_agent(dialect, PROCESS), doubtful)
    wrong = [each for each in verdicts.values() if each.outcome in WRONG]
    assert not wrong, describe(wrong)
    assert len(verdicts) >= 100


async def _found(requirement: Requirement, limit: asyncio.Semaphore) -> list[Verdict]:
    others = [requirements()[id] for id in OTHERS if id.rpartition(".")[0] != requirement.chapter]
    others = [each for each in others if each.applies(requirement.first_dialect)]
    async with limit:
        found = []
        for each in (requirement, *others):
            verdict = await try_one(agent_with_fault_of(requirement.id), each)
            if (verdict.outcome is Outcome.FAIL) != (each is requirement):
                verdict = await try_one(agent_with_fault_of(requirement.id, PROCESS), each)
            found.append(verdict)
        return found


def test_every_fault_is_found_by_its_own_requirement() -> None:
    async def work() -> list[list[Verdict]]:
        limit = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(_found(requirement, limit) for requirement in AGENT))

    found = asyncio.run(work())
    missed = [own for own, *_ in found if own.outcome is not Outcome.FAIL]
    assert not missed, describe(missed)
    silent = [own for own, *_ in found if not own.why or not own.evidence]
    assert not silent, f"failures without a reason or without evidence: {describe(silent)}"
    alarms = [f"{own.requirement} -> {each.requirement}: {each.why}" for own, *others in found
              for each in others if each.outcome is Outcome.FAIL]  # fmt: skip
    assert not alarms, "\n".join(alarms)


def _locked(context: FaultContext, message: Json) -> Iterable[Json]:
    """A banner before the answer to initialize, and no session without a login."""
    if context.method(message) == "initialize":
        yield b"Starting agent v0.1"
    if context.method(message) == "session/new":
        message = {
            "jsonrpc": "2.0",
            "id": message["id"],
            "error": {"code": -32000, "message": "Authentication required"},
        }
    yield message


def test_an_error_for_an_unknown_version_is_found() -> None:
    fault = refusing("initialize", lambda params: params.get("protocolVersion") != 1)
    found = check_all(faulty_agent("v1", fault), [requirements()["agent.init.04"]])["agent.init.04"]
    assert (found.outcome, found.why) == (Outcome.FAIL, "an initialize of another version was refused: Invalid params")


def test_nobody_is_logged_out_unless_the_user_allows_it() -> None:
    target = agent_with_fault_of("agent.auth.04")
    target.settings = None
    verdict = check_all(target, [requirements()["agent.auth.04"]])["agent.auth.04"]
    assert (verdict.outcome, verdict.why) == (
        Outcome.NOT_APPLICABLE,
        "it may log you out; --allow-logout tests it",
    )
    sent = "".join(each.text for verdict in check_all(target, AGENT).values() for each in verdict.evidence)
    assert '"method": "logout"' not in sent


def test_a_turn_that_ends_by_itself_is_not_one_that_was_cancelled() -> None:
    """The answer of the other session comes right after the cancel, with end_turn."""

    def end(context: FaultContext, message: Json) -> Iterable[Json]:
        prompt = next(each for each in context.open.values() if each["method"] == "session/prompt")
        context.send({"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "end_turn"}})
        return ()

    verdict = check_all(faulty_agent("v1", edit_incoming("session/cancel", end)), [requirements()["agent.cancel.13"]])[
        "agent.cancel.13"
    ]
    assert (verdict.outcome, verdict.why) == (
        Outcome.INCONCLUSIVE,
        "the other session's turn ended by itself; add a prompt for 'slow' with --script",
    )


@pytest.mark.parametrize("id", ["agent.schema.01", "agent.schema.02"])
def test_only_the_message_against_the_schema_is_marked_as_proof(id: str) -> None:
    verdict = check_all(agent_with_fault_of(id), [requirements()[id]])[id]
    assert sum(each.marked for each in verdict.evidence) == 1


def test_a_slow_refusal_is_a_refusal() -> None:
    """Some agents build a whole session before they look for its history."""
    late = MEMORY.answer * 1.2

    def refuse_late(context: FaultContext, message: Json) -> Iterable[Json]:
        error = {"code": -32602, "message": "unknown session"}
        context.send_later({"jsonrpc": "2.0", "id": message["id"], "error": error}, late)
        return ()

    for method, id in (("session/load", "agent.session.19"), ("session/resume", "agent.session.21")):
        verdict = check_all(faulty_agent("v1", edit_incoming(method, refuse_late)), [requirements()[id]])[id]
        assert verdict.outcome is Outcome.PASS, verdict.why


def test_output_that_is_no_message_is_found_without_a_session() -> None:
    verdict = check_all(faulty_agent("v1", edit_all_outgoing(_locked)), [requirements()["agent.frame.01"]])[
        "agent.frame.01"
    ]
    assert (verdict.outcome, verdict.why) == (Outcome.FAIL, "a line on standard output is not a message")


def test_a_wrong_initialize_result_is_marked_as_proof() -> None:
    def nameless(context: FaultContext, message: Json) -> Iterable[Json]:
        if context.method(message) == "initialize":
            yield b"Starting agent v0.1"
            message = {**message, "result": {"protocolVersion": 1}}
        yield message

    verdict = check_all(faulty_agent("v1", edit_all_outgoing(nameless)), [requirements()["agent.init.08"]])[
        "agent.init.08"
    ]
    assert verdict.outcome is Outcome.FAIL
    assert ["protocolVersion" in each.text for each in verdict.evidence if each.marked] == [True]


@pytest.mark.parametrize("odd", [{"code": "-32601"}, {"message": ["no", "such", "method"]}])
def test_a_malformed_error_is_found_in_any_answer(odd: dict[str, Json]) -> None:
    """Prompts are refused correctly, unknown methods are not."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        is_odd = context.method(message) in ("no/such_method", "session/load") and "error" in message
        yield {**message, "error": {**message["error"], **odd}} if is_odd else message

    verdicts = check_all(
        faulty_agent("v1", edit_all_outgoing(change)), [requirements()[id] for id in ("agent.rpc.06", "agent.init.16")]
    )
    assert verdicts["agent.rpc.06"].outcome is Outcome.FAIL
    assert verdicts["agent.init.16"].outcome is (Outcome.INCONCLUSIVE if "code" in odd else Outcome.PASS)


def test_an_error_code_that_is_a_string_is_quoted() -> None:
    fault = edit_errors("no/such_method", with_(code="-32601"))
    verdict = check_all(faulty_agent("v1", fault), [requirements()["agent.rpc.03"]])["agent.rpc.03"]
    assert verdict.why == "an unknown method was refused with '-32601', not -32601"


def test_a_probe_of_a_silent_agent_times_out() -> None:
    async def deaf(transport: Transport) -> None:
        await asyncio.Event().wait()

    verdict = check_all(MemoryAgent(deaf, "v1"), [requirements()["agent.cancel.03"]])["agent.cancel.03"]
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "did not answer initialize" in verdict.why


def test_a_peer_that_disconnects_at_once_does_not_stop_the_run() -> None:
    async def dying(transport: Transport) -> None:
        await transport.close()

    wanted = [requirements()[id] for id in ("agent.rpc.03", "agent.init.01", "agent.frame.13")]
    verdicts = check_all(MemoryAgent(dying, "v1"), wanted)
    assert verdicts["agent.init.01"].outcome is Outcome.FAIL
    assert list(verdicts) == [each.id for each in wanted]
    assert any("gone" in each.text for each in verdicts["agent.init.01"].evidence)


@pytest.mark.timeout(60)
def test_a_fifo_named_by_the_agent_does_not_block(tmp_path: Path) -> None:
    read, write = ANSWERS["fs/read_text_file"], ANSWERS["fs/write_text_file"]
    os.mkfifo(tmp_path / "pipe")
    params = {"path": str(tmp_path / "pipe"), "content": "text"}
    request = ReceivedFrame(at=0, raw=b"", message=None, evidence=Evidence(0, "in", "", 0), params=params)
    assert read(request) == {"refused": -32002, "why": "Resource not found: not a regular file"}
    assert "refused" in write(request)
    params["path"] = str(tmp_path / "file")
    assert write(request) == {}
    assert read(request) == {"content": "text"}


def test_temporary_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    check_all(our_agent("v1"), [requirements()["agent.permission.05"]])
    assert not list(tmp_path.iterdir())
