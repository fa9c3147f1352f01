"""Files, terminals and forms that an agent asks its client for."""

from __future__ import annotations

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.harness.prompt_turn import PromptTurn
from dragoman.conformance.json_shape import Shape, absolute, line_number, natural, non_empty, one_of
from dragoman.conformance.requirement import may, must, should

READ, WRITE, CREATE, RELEASE = "fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/release"
READING: dict[str, Json] = {
    "v1": {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": False},
    "banjo": {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": False},
    "draft": {"fs": {"read": True, "write": False}, "terminal": {"create": False}},
}


async def _require_not_requested(
    agent: AgentUnderTest, capabilities: Json, what: str, begins: tuple[str, ...], *purposes: str
) -> None:
    await agent.open_session(capabilities=capabilities)
    for purpose in purposes:
        await agent.run_turn(purpose)
    agent.require_none(agent.requests(*begins), f"{what} was asked for, and the client offers none")


@must("agent.files.01", "files-terminals.md#offered")
async def files_are_requested_only_when_offered(agent: AgentUnderTest) -> None:
    """The agent requests no files from a client that does not offer them."""
    await _require_not_requested(agent, hello.NOTHING[agent.dialect], "a file", ("fs/",), "read", "write")


@must("agent.files.02", "files-terminals.md#offered")
async def terminals_are_requested_only_when_offered(agent: AgentUnderTest) -> None:
    """The agent requests no terminals from a client that does not offer them."""
    await _require_not_requested(agent, hello.NOTHING[agent.dialect], "a terminal", ("terminal/",), "run")


@must("agent.files.03", "files-terminals.md#offered", "v1 banjo draft")
async def writing_is_offered_separately(agent: AgentUnderTest) -> None:
    """The agent does not request writes from a client that offers only reading."""
    await _require_not_requested(agent, READING[agent.dialect], "writing", (WRITE,), "write")


@must("agent.files.22", "initialize.md#omitted-capabilities, dialects.md#banjo-initialize", "v1 banjo 2025.1 draft")
async def what_is_not_named_is_not_offered(agent: AgentUnderTest) -> None:
    """A capability that the client does not state is not offered."""
    await _require_not_requested(agent, {}, "something", ("fs/", "terminal/"), "read", "write", "run")


async def run_and_collect(agent: AgentUnderTest, purpose: str, method: str) -> list[ReceivedFrame]:
    """Run a turn for this purpose; return its requests of this method, inconclusive if there are none."""
    await agent.run_turn(purpose)
    return agent.assume(agent.requests(method), f"the agent did not ask for {method}")


async def require_request_shape(agent: AgentUnderTest, purpose: str, method: str, shape: Shape) -> None:
    """Require that the requests of this method in such a turn have params of this shape."""
    for frame in await run_and_collect(agent, purpose, method):
        agent.require_params(frame, shape, method)


@must("agent.files.04", "files-terminals.md#read", "v1 banjo")
async def files_are_named(agent: AgentUnderTest) -> None:
    """A request for a file has a session and an absolute path."""
    await require_request_shape(agent, "read", READ, {"sessionId": non_empty, "path": absolute})


@must("agent.files.05", "files-terminals.md#read", "v1 banjo")
async def lines_begin_with_one(agent: AgentUnderTest) -> None:
    """Lines are counted from 1."""
    await require_request_shape(agent, "read", READ, {"line?": line_number, "limit?": natural})


@must("agent.files.06", "files-terminals.md#write", "v1 banjo")
async def texts_are_written(agent: AgentUnderTest) -> None:
    """A write request has the text to write."""
    await require_request_shape(agent, "write", WRITE, {"path": str, "content": str})


async def _require_turn_end(agent: AgentUnderTest, purpose: str, method: str, code: int, what: str) -> None:
    """Require that a turn ends with a result though its requests of this method are refused."""
    await agent.open_session()
    agent.handlers[method] = lambda _: {"refused": code, "why": "Resource not found"}
    turn = await agent.try_turn(purpose)
    agent.assume(agent.requests(method), f"the agent did not ask for {method}")
    agent.require_result(turn.answer, f"a turn in which {what}")


@must("agent.files.07", "files-terminals.md#read, peers.md#missing-files")
async def missing_files_are_survived(agent: AgentUnderTest) -> None:
    """A file that cannot be read does not break the turn."""
    code = agent.error_code("resource_not_found")
    await _require_turn_end(agent, "read", READ, code, "a file could not be read")


@must("agent.files.08", "files-terminals.md#terminal-create, peers.md#terminal-commands", "v1 banjo")
async def terminals_are_described(agent: AgentUnderTest) -> None:
    """A request for a terminal has a command; args, env and cwd are well formed."""
    shape = {"command": non_empty, "args?": [str], "env?": [{"name": non_empty, "value": str}], "cwd?": absolute}
    await require_request_shape(agent, "run", CREATE, {"sessionId": non_empty, **shape})


@must("agent.files.09", "files-terminals.md#terminal-release", "v1 banjo 2025.1 draft")
async def terminals_are_released(agent: AgentUnderTest) -> None:
    """A terminal is released when its work is done."""
    made = await run_and_collect(agent, "run", CREATE)
    await agent.collect()
    agent.require(agent.requests(RELEASE), "a terminal was never released", *made)


@must("agent.files.10", "files-terminals.md#terminal-release", "v1 banjo 2025.1 draft")
async def released_terminals_are_not_used(agent: AgentUnderTest) -> None:
    """A terminal is not used after it was released."""
    await run_and_collect(agent, "run", CREATE)
    await agent.collect()
    found = agent.requests("terminal/")
    release = agent.assume(agent.requests(RELEASE), "the terminal was not released")[0]
    later = [frame for frame in found[found.index(release) + 1 :] if frame.method != CREATE]
    agent.require_none(later, "a terminal was used after it was released")


@must("agent.files.11", "files-terminals.md#terminal-release", "v1 banjo 2025.1 draft")
async def terminals_are_known(agent: AgentUnderTest) -> None:
    """The agent uses only terminals that the client created."""
    await run_and_collect(agent, "run", CREATE)
    for frame in agent.requests("terminal/"):
        found = frame.params.get("terminalId") if isinstance(frame.params, dict) else None
        known = frame.method == CREATE or found == "terminal-1"
        agent.require(known, f"{frame.method} for the terminal {found!r}, which the client did not make", frame)


@should("agent.files.12", "files-terminals.md#terminal-release", "v1 banjo draft")
async def cancelled_terminals_are_released(agent: AgentUnderTest) -> None:
    """A terminal is released also when the turn is cancelled."""
    await agent.open_session()
    agent.hold("terminal/wait_for_exit")
    agent.handlers["terminal/output"] = lambda _: {"output": "", "truncated": False}
    turn = agent.start_turn("run")
    made = agent.assume(await agent.wait_method(CREATE, agent.timeouts.turn), "the agent asked for no terminal")
    await agent.collect()
    agent.cancel()
    await agent.wait_turn(turn)
    await agent.collect()
    agent.require(agent.requests(RELEASE), "the terminal of a cancelled turn was never released", made)


@must("agent.files.13", "files-terminals.md#terminal-create")
async def missing_terminals_are_survived(agent: AgentUnderTest) -> None:
    """A terminal that cannot be created does not break the turn."""
    await _require_turn_end(agent, "run", CREATE, -32603, "a terminal could not be created")


async def _run_with_answer(agent: AgentUnderTest, purpose: str, method: str, result: Json) -> PromptTurn:
    """Run a turn in which the first request of this method gets this answer."""
    turn, asked = await agent.wait_request(purpose, method)
    agent.reply(asked, result)
    return await agent.wait_turn(turn)


@must("agent.files.14", "json-rpc.md#results, peers.md#null-results", "v1 banjo 2025.1")
async def null_is_an_empty_result(agent: AgentUnderTest) -> None:
    """null as an empty result is accepted."""
    turn = await _run_with_answer(agent, "write", WRITE, None)
    agent.require_result(turn.answer, "a turn in which a write was answered with null")


@must("agent.files.21", "extensions.md#lenient-reading", "v1 banjo")
async def nonsense_is_survived(agent: AgentUnderTest) -> None:
    """A nonsense answer to a read does not break the turn."""
    turn = await _run_with_answer(agent, "read", READ, {"content": 5})
    agent.require(turn.answer, "a turn in which a read was answered with nonsense never ended")


# --- forms and links ---

ELICIT = "elicitation/create"


@must("agent.files.15", "elicitation.md#modes", "v1")
async def forms_are_announced(agent: AgentUnderTest) -> None:
    """Forms are sent only to clients that announced support for them."""
    await agent.open_session(capabilities=hello.NOTHING[agent.dialect])
    await agent.run_turn("form")
    agent.require_none(agent.requests(ELICIT), "a form was shown to a client that announced none")


@must("agent.files.16", "elicitation.md#form", "v1")
async def forms_are_complete(agent: AgentUnderTest) -> None:
    """A form has a message, a mode and a schema of its fields."""
    shape = {"message": str, "mode": one_of("form", "url"), "requestedSchema": {"properties": dict}}
    await require_request_shape(agent, "form", ELICIT, shape)


@must("agent.files.17", "elicitation.md#url", "v1")
async def links_are_complete(agent: AgentUnderTest) -> None:
    """A link has a message, an id and a URL."""
    shape = {"message": str, "elicitationId": non_empty, "url": non_empty}
    await require_request_shape(agent, "link", ELICIT, shape)


@must("agent.files.18", "elicitation.md#answer", "v1")
async def declined_forms_are_survived(agent: AgentUnderTest) -> None:
    """A form that is declined does not break the turn."""
    turn = await agent.try_turn("form")
    agent.assume(agent.requests(ELICIT), "the agent showed no form")
    agent.require_result(turn.answer, "a turn in which a form was declined")


@must("agent.files.19", "elicitation.md#modes", "v1")
async def links_are_announced_apart(agent: AgentUnderTest) -> None:
    """A link is not sent to a client that announced only forms."""
    await agent.open_session(capabilities={**hello.NOTHING[agent.dialect], "elicitation": {"form": {}}})
    await agent.run_turn("link")
    found = [frame for frame in agent.requests(ELICIT) if frame.params.get("mode") == "url"]
    agent.require_none(found, "a link was shown to a client that announced forms only")


@must("agent.files.20", "elicitation.md#create", "v1")
async def forms_have_one_subject(agent: AgentUnderTest) -> None:
    """A form is about a session or a request, not both."""
    for frame in await run_and_collect(agent, "form", ELICIT):
        both = ("sessionId" in frame.wire_params) + ("requestId" in frame.wire_params)
        agent.require(both == 1, "a form names " + ("both session and request" if both else "no subject"), frame)


@may("agent.files.24", "elicitation.md#complete", "v1")
async def ends_name_their_link(agent: AgentUnderTest) -> None:
    """The end of a link may be reported, and names a link that was shown."""
    await agent.open_session()
    agent.handlers[ELICIT] = lambda _: {"action": "accept"}
    await agent.run_turn("link")
    await agent.collect()
    ended = agent.skip_unless(agent.calls("elicitation/complete"), "the agent sends no end of a link")
    link_ids = [frame.params.get("elicitationId") for frame in agent.requests(ELICIT)]
    agent.assume(None not in link_ids, "a link was shown without an id", *agent.requests(ELICIT))
    for frame in ended:
        id = frame.params.get("elicitationId") if isinstance(frame.params, dict) else None
        agent.require(id in link_ids, f"the end of {id!r} is sent, and the links were {link_ids}", frame)


@may("agent.files.23", "dialects.md#banjo-content-merging", "v1 banjo")
async def links_are_read_by_their_path(agent: AgentUnderTest) -> None:
    """A link in a prompt may be read through the client, by the path that it names."""
    # An agent need not read the file. What it reads for a prompt without a link is its own business.
    await agent.run_turn("plain")
    usual = {frame.params.get("path") for frame in agent.requests(READ)}
    await agent.prompt([{"type": "text", "text": agent.prompt_for("plain")}, agent.file_link()])
    found = [frame for frame in agent.requests(READ) if frame.params.get("path") not in usual]
    agent.skip_unless(found, "the agent does not read what is linked")
    wrong = [frame for frame in found if frame.params.get("path") != agent.file]
    agent.require_none(wrong, f"something else was read than {agent.file}, which was linked")
