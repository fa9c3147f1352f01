"""Files, terminals and forms that an agent asks its client for."""

from __future__ import annotations

from typing import Any

from dragoman.conformance import json_shape
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest, PromptTurn
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import Shape, mismatch
from dragoman.conformance.requirement import may, must, should

READ, WRITE, CREATE, RELEASE = "fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"
READING: dict[str, Any] = {
    "v1": {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": False},
    "banjo": {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": False},
    "draft": {"fs": {"read": True, "write": False}, "terminal": {"create": False}},
}


def requests(agent: AgentUnderTest, *begins: str) -> list[ReceivedFrame]:
    """Return the agent's requests whose method begins so."""
    return [frame for frame in agent.received if frame.is_request and frame.method.startswith(begins)]


async def _require_not_requested(
    agent: AgentUnderTest, capabilities: Any, what: str, begins: str | tuple[str, ...], *purposes: str
) -> None:
    await agent.open_session(capabilities=capabilities)
    for purpose in purposes:
        await agent.prompt(agent.prompt_for(purpose))
    found = requests(agent, *([begins] if isinstance(begins, str) else begins))
    agent.require(not found, f"{what} was asked for, and the client offers none", *found)


@must("agent.files.01", "files-terminals.md#offered")
async def files_are_requested_only_when_offered(agent: AgentUnderTest) -> None:
    """Files are not asked for where the client lends none."""
    await _require_not_requested(agent, hello.NOTHING[agent.dialect], "a file", "fs/", "read", "write")


@must("agent.files.02", "files-terminals.md#offered")
async def terminals_are_requested_only_when_offered(agent: AgentUnderTest) -> None:
    """Terminals are not asked for where the client lends none."""
    await _require_not_requested(agent, hello.NOTHING[agent.dialect], "a terminal", "terminal/", "run")


@must("agent.files.03", "files-terminals.md#offered", "v1 banjo draft")
async def writing_is_offered_separately(agent: AgentUnderTest) -> None:
    """Writing is not asked for where only reading is lent."""
    await _require_not_requested(agent, READING[agent.dialect], "writing", WRITE, "write")


@must("agent.files.22", "initialize.md#omitted-capabilities, dialects.md#banjo-initialize", "v1 banjo 2025.1 draft")
async def what_is_not_named_is_not_offered(agent: AgentUnderTest) -> None:
    """What a client does not name it does not lend."""
    await _require_not_requested(agent, {}, "something", ("fs/", "terminal/"), "read", "write", "run")


async def run_and_collect(agent: AgentUnderTest, purpose: str, method: str) -> list[ReceivedFrame]:
    """Run a turn for this purpose; return its requests of this method, inconclusive if there are none."""
    await agent.run_turn(purpose)
    found = requests(agent, method)
    if not found:
        agent.inconclusive(f"the agent did not ask for {method}")
    return found


async def _require_shape(agent: AgentUnderTest, purpose: str, method: str, shape: Shape) -> None:
    for frame in await run_and_collect(agent, purpose, method):
        problem = mismatch(frame.message.get("params"), shape)
        agent.require(not problem, f"{method}: {problem}", frame)


@must("agent.files.04", "files-terminals.md#read", "v1 banjo")
async def files_are_named(agent: AgentUnderTest) -> None:
    """A request for a file has a session and an absolute path."""
    await _require_shape(agent, "read", READ, {"sessionId": json_shape.non_empty, "path": json_shape.absolute})


@must("agent.files.05", "files-terminals.md#read", "v1 banjo")
async def lines_begin_with_one(agent: AgentUnderTest) -> None:
    """Lines are counted from 1."""
    await _require_shape(agent, "read", READ, {"line?": json_shape.line_number, "limit?": json_shape.natural})


@must("agent.files.06", "files-terminals.md#write", "v1 banjo")
async def texts_are_written(agent: AgentUnderTest) -> None:
    """A request to write has the text to write."""
    await _require_shape(agent, "write", WRITE, {"path": str, "content": str})


async def _require_turn_end(agent: AgentUnderTest, purpose: str, method: str, answer: Any, what: str) -> None:
    await agent.open_session()
    agent.handlers[method] = lambda _: answer
    turn = await agent.wait_turn(agent.start_turn(agent.prompt_for(purpose)))
    if not requests(agent, method):
        agent.inconclusive(f"the agent did not ask for {method}")
    agent.require_result(turn.answer, f"a turn in which {what}")


@must("agent.files.07", "files-terminals.md#read, peers.md#missing-files")
async def missing_files_are_survived(agent: AgentUnderTest) -> None:
    """A file that cannot be had does not break the turn."""
    code = agent.error_code("resource_not_found")
    await _require_turn_end(
        agent, "read", READ, {"refused": code, "why": "Resource not found"}, "a file could not be had"
    )


@must("agent.files.08", "files-terminals.md#terminal-create, peers.md#terminal-commands", "v1 banjo")
async def terminals_are_described(agent: AgentUnderTest) -> None:
    """A request for a terminal has a command; args, env and cwd are well formed."""
    variable = {"name": json_shape.non_empty, "value": str}
    shape = {
        "sessionId": json_shape.non_empty,
        "command": json_shape.non_empty,
        "args?": [str],
        "env?": [variable],
        "cwd?": json_shape.absolute,
    }
    await _require_shape(agent, "run", CREATE, shape)


@must("agent.files.09", "files-terminals.md#terminal-release", "v1 banjo 2025.1 draft")
async def terminals_are_released(agent: AgentUnderTest) -> None:
    """A terminal is released when its work is done."""
    made = await run_and_collect(agent, "run", CREATE)
    await agent.collect()
    released = requests(agent, RELEASE)
    agent.require(released, "a terminal was never released", *made)


@must("agent.files.10", "files-terminals.md#terminal-release", "v1 banjo 2025.1 draft")
async def released_is_released(agent: AgentUnderTest) -> None:
    """A terminal is not used after it was released."""
    await run_and_collect(agent, "run", CREATE)
    await agent.collect()
    found = requests(agent, "terminal/")
    at = next((number for number, frame in enumerate(found) if frame.method == RELEASE), None)
    if at is None:
        agent.inconclusive("the terminal was not released")
    later = [frame for frame in found[(at or 0) + 1 :] if frame.method != CREATE]
    agent.require(not later, "a terminal was used after it was released", *later)


@must("agent.files.11", "files-terminals.md#terminal-release", "v1 banjo 2025.1 draft")
async def terminals_are_known(agent: AgentUnderTest) -> None:
    """Only terminals that the client made are asked about."""
    await run_and_collect(agent, "run", CREATE)
    for frame in requests(agent, "terminal/"):
        found = frame.params.get("terminalId") if isinstance(frame.params, dict) else None
        known = frame.method == CREATE or found == "terminal-1"
        agent.require(known, f"{frame.method} for the terminal {found!r}, which the client did not make", frame)


@should("agent.files.12", "files-terminals.md#terminal-release", "v1 banjo draft")
async def cancelled_terminals_are_released(agent: AgentUnderTest) -> None:
    """A terminal is released also when the turn is cancelled."""
    await agent.open_session()
    agent.hold("terminal/wait_for_exit")
    running = {"output": "", "truncated": False}
    agent.handlers["terminal/output"] = lambda _: running
    turn = agent.start_turn(agent.prompt_for("run"))
    made = await agent.wait_for(lambda frame: frame.method == CREATE, agent.timeouts.turn)
    if made is None:
        agent.inconclusive("the agent asked for no terminal")
    await agent.collect()
    agent.cancel()
    await agent.wait_turn(turn)
    await agent.collect()
    agent.require(requests(agent, RELEASE), "the terminal of a cancelled turn was never released", made)


@must("agent.files.13", "files-terminals.md#terminal-create")
async def missing_terminals_are_survived(agent: AgentUnderTest) -> None:
    """A terminal that cannot be had does not break the turn."""
    await _require_turn_end(
        agent, "run", CREATE, {"refused": -32603, "why": "no such command"}, "a terminal could not be had"
    )


async def _run_with_answer(agent: AgentUnderTest, purpose: str, method: str, result: Json) -> PromptTurn:
    """Run a turn in which the first request of this method gets this answer."""
    await agent.open_session()
    agent.hold(method)
    turn = agent.start_turn(agent.prompt_for(purpose))
    asked_for = await agent.wait_for(lambda frame: frame.method == method, agent.timeouts.turn)
    if asked_for is None:
        agent.inconclusive(f"the agent did not ask for {method}")
    agent.reply(asked_for, result)
    return await agent.wait_turn(turn)


@must("agent.files.14", "json-rpc.md#results, peers.md#null-results", "v1 banjo 2025.1")
async def null_is_an_empty_result(agent: AgentUnderTest) -> None:
    """null for an empty result is accepted."""
    turn = await _run_with_answer(agent, "write", WRITE, None)
    agent.require_result(turn.answer, "a turn in which a write was answered with null")


@must("agent.files.21", "extensions.md#lenient-reading", "v1 banjo")
async def nonsense_is_survived(agent: AgentUnderTest) -> None:
    """A read that is answered with nonsense does not break the turn."""
    turn = await _run_with_answer(agent, "read", READ, {"content": 5})
    agent.require(turn.answer, "a turn in which a read was answered with nonsense never ended")


# --- forms and links ---

ELICIT = "elicitation/create"


@must("agent.files.15", "elicitation.md#modes", "v1")
async def forms_are_announced(agent: AgentUnderTest) -> None:
    """Forms are not shown to clients that announced none."""
    await agent.open_session(capabilities=hello.NOTHING[agent.dialect])
    await agent.prompt(agent.prompt_for("form"))
    found = requests(agent, ELICIT)
    agent.require(not found, "a form was shown to a client that announced none", *found)


@must("agent.files.16", "elicitation.md#form", "v1")
async def forms_are_whole(agent: AgentUnderTest) -> None:
    """A form has a message, a mode and a schema of its fields."""
    shape = {"message": str, "mode": json_shape.one_of("form", "url"), "requestedSchema": {"properties": dict}}
    for frame in await run_and_collect(agent, "form", ELICIT):
        problem = mismatch(frame.message.get("params"), shape)
        agent.require(not problem, f"form: {problem}", frame)


@must("agent.files.17", "elicitation.md#url", "v1")
async def links_are_whole(agent: AgentUnderTest) -> None:
    """A link has a message, an id and a URL."""
    for frame in await run_and_collect(agent, "link", ELICIT):
        problem = mismatch(
            frame.message.get("params"),
            {"message": str, "elicitationId": json_shape.non_empty, "url": json_shape.non_empty},
        )
        agent.require(not problem, f"link: {problem}", frame)


@must("agent.files.18", "elicitation.md#answer", "v1")
async def declined_forms_are_survived(agent: AgentUnderTest) -> None:
    """A form that is declined does not break the turn."""
    await agent.open_session()
    turn = await agent.wait_turn(agent.start_turn(agent.prompt_for("form")))
    if not requests(agent, ELICIT):
        agent.inconclusive("the agent showed no form")
    agent.require_result(turn.answer, "a turn in which a form was declined")


@must("agent.files.19", "elicitation.md#modes", "v1")
async def links_are_announced_apart(agent: AgentUnderTest) -> None:
    """A link is not shown to clients that announced forms only."""
    await agent.open_session(capabilities={**hello.NOTHING[agent.dialect], "elicitation": {"form": {}}})
    await agent.prompt(agent.prompt_for("link"))
    found = [frame for frame in requests(agent, ELICIT) if frame.params.get("mode") == "url"]
    agent.require(not found, "a link was shown to a client that announced forms only", *found)


@must("agent.files.20", "elicitation.md#create", "v1")
async def forms_have_one_subject(agent: AgentUnderTest) -> None:
    """A form is about a session or a request, not both."""
    for frame in await run_and_collect(agent, "form", ELICIT):
        both = ("sessionId" in frame.message["params"]) + ("requestId" in frame.message["params"])
        agent.require(both == 1, "a form names " + ("both session and request" if both else "no subject"), frame)


@may("agent.files.24", "elicitation.md#complete", "v1")
async def ends_name_their_link(agent: AgentUnderTest) -> None:
    """The end of a link may be told, and names a link that was shown."""
    await agent.open_session()
    agent.handlers[ELICIT] = lambda _: {"action": "accept"}
    await agent.prompt(agent.prompt_for("link"))
    await agent.collect()
    ended = [frame for frame in agent.received if frame.method == "elicitation/complete"]
    if not ended:
        agent.skip("the agent sends no end of a link")
    link_ids = [frame.params.get("elicitationId") for frame in requests(agent, ELICIT)]
    if None in link_ids:
        agent.inconclusive("a link was shown without an id", *requests(agent, ELICIT))
    for frame in ended:
        id = frame.params.get("elicitationId") if isinstance(frame.params, dict) else None
        agent.require(id in link_ids, f"the end of {id!r} is sent, and the links were {link_ids}", frame)
