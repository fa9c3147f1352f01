"""Answers of a client to permission requests."""

from __future__ import annotations

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.requirement import must, should

OPTIONS = [
    {"optionId": "allow-1", "name": "Allow", "kind": "allow_once"},
    {"optionId": "allow-2", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject-1", "name": "Reject", "kind": "reject_once"},
]
METHOD = "session/request_permission"


def ask_permission(client: ClientUnderTest, options: Json, id: str = "question", **tool: Json) -> str:
    """Announce a tool call and ask for permission."""
    call = {"toolCallId": f"call-{id}", "title": "Look something up", "kind": "fetch", **tool}
    client.update("tool_call", **{**call, "status": "pending"})
    client.call(METHOD, {"sessionId": client.session, "toolCall": call, "options": options}, id=id)
    return id


async def outcome(client: ClientUnderTest, id: str) -> tuple[ReceivedFrame, Json]:
    """Return the outcome of a permission request, which must have one."""
    frame = client.require(await client.wait_reply(id, client.timeouts.turn), "a permission request was never answered")
    client.require("result" in frame.message, "a permission request was answered with an error", frame)
    result = frame.message["result"]
    return frame, result.get("outcome") if isinstance(result, dict) else None


def chosen_option(given: Json) -> Json:
    """Return the id of the chosen option; None for cancelled, and for shapes another probe covers."""
    return given.get("optionId") if isinstance(given, dict) and given.get("outcome") == "selected" else None


async def _require_choice(client: ClientUnderTest, options: list[Json], **tool: Json) -> None:
    """Require that one of these options is chosen, or none."""
    async with client.turn():
        frame, given = await outcome(client, ask_permission(client, options, **tool))
        choice = chosen_option(given)
        ids = [option["optionId"] for option in options]
        client.require(choice is None or choice in ids, f"{choice!r} was chosen, which is not among {ids}", frame)


@must("client.permission.01", "permission.md#options")
async def an_option_is_chosen(client: ClientUnderTest) -> None:
    """A question for leave is answered with one of its options, or with cancelled."""
    await _require_choice(client, OPTIONS)


@must("client.permission.02", "permission.md#outcome")
async def the_outcome_has_a_shape(client: ClientUnderTest) -> None:
    """The outcome is an object with its own outcome in it."""
    async with client.turn():
        frame, given = await outcome(client, ask_permission(client, OPTIONS))
        client.require(isinstance(given, dict), "the outcome is not an object", frame)
        client.require(given.get("outcome") in ("selected", "cancelled"), "the outcome is neither of the two", frame)
        good = given["outcome"] == "cancelled" or isinstance(given.get("optionId"), str)
        client.require(good, "an option was chosen without its id", frame)


@must("client.permission.03", "peers.md#id-texts")
async def option_ids_are_opaque(client: ClientUnderTest) -> None:
    """The id of the chosen option is said as it was given."""
    await _require_choice(client, [{"optionId": " Proceed/Once #1 ", "name": "Allow", "kind": "allow_once"}])


@must("client.permission.04", "peers.md#unknown-option-kinds")
async def unknown_kinds_are_tolerated(client: ClientUnderTest) -> None:
    """An option of an unknown kind is no error."""
    await _require_choice(client, [{"optionId": "later", "name": "Ask me later", "kind": "defer"}, *OPTIONS])


@must("client.permission.05", "permission.md#options")
async def nothing_cannot_be_chosen(client: ClientUnderTest) -> None:
    """A question without options is never answered with a choice."""
    async with client.turn():
        frame = client.require(
            await client.wait_reply(ask_permission(client, []), client.timeouts.turn),
            "a question without options was never answered",
        )
        result = frame.message.get("result")
        choice = chosen_option(result.get("outcome")) if isinstance(result, dict) else None
        client.require(choice is None, f"{choice!r} was chosen where there were no options", frame)


@must("client.permission.06", "json-rpc.md#concurrency")
async def two_questions_get_two_answers(client: ClientUnderTest) -> None:
    """Two questions at once are both answered."""
    async with client.turn():
        for id in ("first", "second"):
            ask_permission(client, OPTIONS, id)
        await client.wait_for(lambda frame: len(_answered_ids(client)) == 2, client.timeouts.turn)
        left = {"first", "second"} - _answered_ids(client)
        client.require(not left, f"of two questions at once, {', '.join(sorted(left))} was never answered")


def _answered_ids(client: ClientUnderTest) -> set[str]:
    return {each.message.get("id") for each in client.received if each.is_reply} & {"first", "second"}


@must("client.permission.07", "peers.md#tool-call-order")
async def minimal_questions_are_answered(client: ClientUnderTest) -> None:
    """A question may say no more of its tool call than id and title."""
    async with client.turn():
        client.update("tool_call", toolCallId="call-little", title="Something", kind="other", status="pending")
        call = {"toolCallId": "call-little", "title": "Something"}
        client.call(METHOD, {"sessionId": client.session, "toolCall": call, "options": OPTIONS}, id="little")
        await outcome(client, "little")


@must("client.permission.08", "peers.md#lost-options")
async def refusals_are_all_there_is(client: ClientUnderTest) -> None:
    """Where leave can only be refused, nothing else is chosen."""
    await _require_choice(client, [{"optionId": "never", "name": "Reject", "kind": "reject_once"}])


FORM = {"type": "object", "properties": {"name": {"type": "string", "title": "Your name"}}, "required": ["name"]}


async def _form(client: ClientUnderTest) -> tuple[ReceivedFrame, Json]:
    params = {"sessionId": client.session, "mode": "form", "message": "Who are you?", "requestedSchema": FORM}
    frame = client.require(
        await client.wait_reply(client.call("elicitation/create", params, id="form"), client.timeouts.turn),
        "a form was never answered",
    )
    result = frame.message.get("result")
    client.require(isinstance(result, dict), "a form was answered with an error", frame)
    return frame, result


@must("client.permission.09", "elicitation.md#answer", needs="client.elicitation.form")
async def a_form_has_three_answers(client: ClientUnderTest) -> None:
    """A form is answered with accept, decline or cancel."""
    async with client.turn():
        frame, result = await _form(client)
        action = result.get("action")
        client.require(action in ("accept", "decline", "cancel"), f"a form was answered with {action!r}", frame)


@must("client.permission.10", "elicitation.md#answer", needs="client.elicitation.form")
async def a_form_is_filled_in(client: ClientUnderTest) -> None:
    """An accepted form has a value for what it requires."""
    async with client.turn():
        frame, result = await _form(client)
        content = result.get("content")
        if result.get("action") == "accept":
            filled = isinstance(content, dict) and isinstance(content.get("name"), str)
            client.require(filled, "an accepted form lacks a value it requires", frame)


@must("client.permission.11", "elicitation.md#modes", needs="!client.elicitation.url")
async def modes_are_kept_to(client: ClientUnderTest) -> None:
    """A question in a mode the client does not offer is an error."""
    async with client.turn():
        params = {"sessionId": client.session, "mode": "url", "message": "Sign in", "elicitationId": "e1"}
        id = client.call("elicitation/create", {**params, "url": "https://agent.example/in"}, id="link")
        frame = client.require(
            await client.wait_reply(id), "a question in a mode that is not offered was never answered"
        )
        client.require("error" in frame.message, "a question in a mode that is not offered was answered", frame)


@should("client.permission.12", "elicitation.md#complete")
async def stray_completions_are_passed_over(client: ClientUnderTest) -> None:
    """The completion of a question nobody asked is passed over."""
    prompt = await client.begin_turn()
    client.notify("elicitation/complete", {"elicitationId": "never-asked"})
    await client.require_alive(prompt, "the completion of an unknown question")
