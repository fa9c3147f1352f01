"""Questions to a v2 client: permission requests of every form, forms, and methods that are gone."""

from __future__ import annotations

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import non_empty
from dragoman.conformance.requirement import must

QUESTION = "session/request_permission"
ALLOW = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
REJECT = {"optionId": "no", "name": "No", "kind": "reject_once"}


async def _ask(client: ClientUnderTest, **members: Json) -> ReceivedFrame:
    """Ask for permission; return the answer."""
    params = {"sessionId": client.session, "title": "May I?", "options": [ALLOW, REJECT], **members}
    return await client.require_answer(QUESTION, params, "a permission request", client.timeouts.turn)


def _require_outcome(client: ClientUnderTest, frame: ReceivedFrame, *offered: str) -> None:
    outcome = frame.result.get("outcome")
    client.require(isinstance(outcome, dict), "the answer to a question has no outcome", frame)
    if outcome.get("outcome") == "selected":
        id = outcome.get("optionId")
        client.require(id in offered, f"the client selected {id!r}, which was not offered", frame)
    else:
        client.require(outcome.get("outcome") == "cancelled", "the outcome is unknown", frame)


def _answers(id: str, sentence: str, **members: Json) -> None:
    """Require that a question with these members is answered with an offered option, or cancelled."""

    async def probe(client: ClientUnderTest) -> None:
        async with client.turn():
            _require_outcome(client, await _ask(client, **members), "yes", "no")

    probe.__doc__ = sentence
    must(id, "v2.md#permission")(probe)


CALL = {"toolCallId": "asked", "title": "Write a file", "kind": "edit"}
_answers("client.v2question.01", "A question without a subject is answered.")
_answers(
    "client.v2question.02",
    "A question about a tool call is answered.",
    subject={"type": "tool_call", "toolCall": CALL},
)
_answers(
    "client.v2question.03",
    "A question about a command is answered.",
    subject={"type": "command", "command": "make test", "cwd": "/tmp"},
)
_answers(
    "client.v2question.04",
    "A question about an unknown subject is answered.",
    subject={"type": "_spell", "words": "abracadabra"},
)
_answers("client.v2question.05", "A question with a description is answered.", description="It writes one file.")


@must("client.v2question.06", "v2.md#permission")
async def unknown_kinds_are_not_chosen_by_kind(client: ClientUnderTest) -> None:
    """A client that answers by the kind of options does not take an unknown kind for an approval."""
    options = [{"optionId": "perhaps", "name": "Perhaps", "kind": "_perhaps"}, REJECT]
    async with client.turn():
        frame = await _ask(client, options=options)
        outcome = frame.result.get("outcome") or {}
        client.require(outcome.get("optionId") != "perhaps", "the client took an unknown kind for an approval", frame)


@must("client.v2question.07", "v2.md#cancel")
async def withdrawn_questions_do_no_harm(client: ClientUnderTest) -> None:
    """The withdrawal of a question that was answered does no harm."""
    async with client.turn(survives="the withdrawal of a question"):
        frame = await _ask(client, title="Never mind?")
        client.notify("$/cancel_request", {"requestId": frame.message["id"]})


@must("client.v2question.08", "v2.md#permission")
async def two_questions_are_answered(client: ClientUnderTest) -> None:
    """Two questions at the same time are both answered."""
    async with client.turn():
        params = {"sessionId": client.session, "title": "Both?", "options": [ALLOW, REJECT]}
        ids = [client.call(QUESTION, params), client.call(QUESTION, params)]
        missing = await client.wait_replies(ids, client.timeouts.turn)
        client.require(not missing, "one of two questions was not answered", *client.received[-1:])


@must("client.v2question.09", "v2.md#gone-methods")
async def files_are_gone(client: ClientUnderTest) -> None:
    """fs/read_text_file is refused with -32601."""
    async with client.turn():
        params = {"sessionId": client.session, "path": client.create_file("secret")}
        frame = await client.require_answer("fs/read_text_file", params)
        client.require(frame.error.get("code") == -32601, "the client serves files, which version 2 has not", frame)


@must("client.v2question.10", "v2.md#gone-methods")
async def terminals_are_gone(client: ClientUnderTest) -> None:
    """terminal/create is refused with -32601."""
    async with client.turn():
        frame = await client.require_answer("terminal/create", {"sessionId": client.session, "command": "true"})
        client.require(frame.error.get("code") == -32601, "the client runs commands, which version 2 has not", frame)


@must("client.v2question.11", "v2.md#elicitation")
async def forms_are_answered(client: ClientUnderTest) -> None:
    """A form is answered with an action, if the client announced forms."""
    async with client.turn():
        offered = (client.calls("initialize")[0].wire_params.get("capabilities") or {}).get("elicitation") or {}
        client.skip_unless(offered.get("form") is not None, "the client announced no forms")
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"sessionId": client.session, "mode": "form", "message": "Who are you?", "requestedSchema": schema}
        frame = await client.require_answer("elicitation/create", params, seconds=client.timeouts.turn)
        client.require_shape(frame.result, {"action": non_empty}, frame, "result")


@must("client.v2question.12", "v2.md#states")
async def questions_may_come_without_a_state(client: ClientUnderTest) -> None:
    """A question is answered although requires_action was not told."""
    prompt = await client.wait_prompt()
    client.chunk("check-begin\n")
    params = {"sessionId": client.session, "title": "Already?", "options": [ALLOW, REJECT]}
    frame = await client.require_answer(QUESTION, params, "a question before the answer to the prompt")
    _require_outcome(client, frame, "yes", "no")
    client.accept_prompt(prompt)
    client.end_turn(prompt)
