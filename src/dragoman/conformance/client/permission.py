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


def _ask_permission(client: ClientUnderTest, options: Json, id: str = "question") -> str:
    """Announce a tool call and ask for permission."""
    call = {"toolCallId": f"call-{id}", "title": "Look something up", "kind": "fetch"}
    client.update("tool_call", **call, status="pending")
    client.call(METHOD, {"sessionId": client.session, "toolCall": call, "options": options}, id=id)
    return id


async def _outcome(client: ClientUnderTest, id: str) -> tuple[ReceivedFrame, Json]:
    """Return the answer to a permission request, and its outcome, which it must have."""
    frame = client.require(await client.wait_reply(id, client.timeouts.turn), "a permission request was never answered")
    client.require("result" in frame.message, "a permission request was answered with an error", frame)
    return frame, frame.result.get("outcome")


def _chosen_option(given: Json) -> Json:
    """Return the id of the chosen option; None for cancelled, and for shapes another probe covers."""
    return given.get("optionId") if isinstance(given, dict) and given.get("outcome") == "selected" else None


async def _require_choice(client: ClientUnderTest, options: list[Json]) -> None:
    """Require that one of these options is chosen, or none."""
    async with client.turn():
        frame, given = await _outcome(client, _ask_permission(client, options))
        choice = _chosen_option(given)
        ids = [option["optionId"] for option in options]
        client.require(choice is None or choice in ids, f"{choice!r} was chosen, which is not among {ids}", frame)


@must("client.permission.01", "permission.md#options")
async def an_option_is_chosen(client: ClientUnderTest) -> None:
    """A permission request is answered with one of its options, or with cancelled."""
    await _require_choice(client, OPTIONS)


@must("client.permission.02", "permission.md#outcome")
async def the_outcome_has_a_shape(client: ClientUnderTest) -> None:
    """The outcome is an object with a member outcome."""
    async with client.turn():
        frame, given = await _outcome(client, _ask_permission(client, OPTIONS))
        client.require_shape(given, dict, frame, "the outcome")
        client.require(given.get("outcome") in ("selected", "cancelled"), "the outcome is neither of the two", frame)
        good = given["outcome"] == "cancelled" or isinstance(given.get("optionId"), str)
        client.require(good, "an option was chosen without its id", frame)


@must("client.permission.03", "peers.md#id-texts")
async def option_ids_are_opaque(client: ClientUnderTest) -> None:
    """The id of the chosen option is returned unchanged."""
    await _require_choice(client, [{"optionId": " Proceed/Once #1 ", "name": "Allow", "kind": "allow_once"}])


@must("client.permission.04", "peers.md#unknown-option-kinds")
async def unknown_kinds_are_tolerated(client: ClientUnderTest) -> None:
    """An option of an unknown kind is not an error."""
    await _require_choice(client, [{"optionId": "later", "name": "Ask me later", "kind": "defer"}, *OPTIONS])


@must("client.permission.05", "permission.md#options")
async def no_choice_without_options(client: ClientUnderTest) -> None:
    """A permission request without options is never answered with a choice."""
    async with client.turn():
        frame = await client.wait_reply(_ask_permission(client, []), client.timeouts.turn)
        frame = client.require(frame, "a permission request without options was never answered")
        choice = _chosen_option(frame.result.get("outcome"))
        client.require(choice is None, f"{choice!r} was chosen where there were no options", frame)


@must("client.permission.06", "json-rpc.md#concurrency")
async def two_questions_get_two_answers(client: ClientUnderTest) -> None:
    """Two permission requests at once are both answered."""
    async with client.turn():
        ids = [_ask_permission(client, OPTIONS, id) for id in ("first", "second")]
        left = await client.wait_replies(ids, client.timeouts.turn)
        client.require(not left, f"of two permission requests at once, {', '.join(sorted(left))} was never answered")


@must("client.permission.07", "peers.md#tool-call-order")
async def minimal_questions_are_answered(client: ClientUnderTest) -> None:
    """A permission request may state only the id and title of its tool call."""
    async with client.turn():
        client.update("tool_call", toolCallId="call-little", title="Something", kind="other", status="pending")
        call = {"toolCallId": "call-little", "title": "Something"}
        client.call(METHOD, {"sessionId": client.session, "toolCall": call, "options": OPTIONS}, id="little")
        await _outcome(client, "little")


@must("client.permission.08", "peers.md#lost-options")
async def options_that_only_refuse_are_kept(client: ClientUnderTest) -> None:
    """If permission can only be denied, nothing else is chosen."""
    await _require_choice(client, [{"optionId": "never", "name": "Reject", "kind": "reject_once"}])


FORM = {"type": "object", "properties": {"name": {"type": "string", "title": "Your name"}}, "required": ["name"]}


async def _form(client: ClientUnderTest) -> ReceivedFrame:
    params = {"sessionId": client.session, "mode": "form", "message": "Who are you?", "requestedSchema": FORM}
    frame = await client.require_answer("elicitation/create", params, "a form", client.timeouts.turn)
    client.require(isinstance(frame.message.get("result"), dict), "a form was answered with an error", frame)
    return frame


@must("client.permission.09", "elicitation.md#answer", needs="client.elicitation.form")
async def a_form_has_three_answers(client: ClientUnderTest) -> None:
    """A form is answered with accept, decline or cancel."""
    async with client.turn():
        frame = await _form(client)
        action = frame.result.get("action")
        client.require(action in ("accept", "decline", "cancel"), f"a form was answered with {action!r}", frame)


@must("client.permission.10", "elicitation.md#answer", needs="client.elicitation.form")
async def a_form_is_filled_in(client: ClientUnderTest) -> None:
    """An accepted form has a value for each required field."""
    async with client.turn():
        frame = await _form(client)
        if frame.result.get("action") == "accept":
            client.require_shape(frame.result, {"content": {"name": str}}, frame)


@must("client.permission.11", "elicitation.md#modes", needs="!client.elicitation.url")
async def other_modes_are_refused(client: ClientUnderTest) -> None:
    """An elicitation in a mode that the client does not offer is refused."""
    async with client.turn():
        params = {"sessionId": client.session, "mode": "url", "message": "Sign in", "elicitationId": "e1"}
        link = {**params, "url": "https://agent.example/in"}
        frame = await client.require_answer("elicitation/create", link, "an elicitation in a mode that is not offered")
        client.require("error" in frame.message, "an elicitation in a mode that is not offered was answered", frame)


@should("client.permission.12", "elicitation.md#complete")
async def stray_completions_are_ignored(client: ClientUnderTest) -> None:
    """The completion of an unknown elicitation is ignored."""
    async with client.turn(survives="the completion of an unknown elicitation"):
        client.notify("elicitation/complete", {"elicitationId": "never-asked"})
