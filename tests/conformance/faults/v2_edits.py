"""Short ways to write a fault of a v2 agent: by the prompt that runs, by the state of its sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.faults.edits import Edit, apply_edit
from tests.conformance.faults.fault import Change, Fault, FaultContext, Json

When = Callable[[FaultContext, Json], bool]
PROMPT, RESUME, UPDATE = "session/prompt", "session/resume", "session/update"


def prompts(context: FaultContext) -> list[str]:
    """Return the texts of the prompts so far, in order."""
    found = [each for each in context.requests_in.values() if each.get("method") == PROMPT]
    return [text_of(each.get("params")) for each in found]


def text_of(params: Json) -> str:
    """Return the text of a prompt's params."""
    blocks = params.get("prompt") if isinstance(params, dict) else None
    return "".join(str(block.get("text", "")) for block in blocks or () if isinstance(block, dict))


def during(start: str) -> When:
    """Match while the last prompt begins so."""
    return lambda context, _: bool(prompts(context)) and prompts(context)[-1].startswith(start)


def only(start: str) -> When:
    """Match while the only prompt so far begins so."""
    return lambda context, _: len(prompts(context)) == 1 and prompts(context)[0].startswith(start)


def always(_: FaultContext, __: Json) -> bool:
    """Match everything."""
    return True


def update_of(message: Json) -> dict[str, Json]:
    """Return the update of a session/update; empty for anything else."""
    params = message.get("params") if message.get("method") == UPDATE else None
    found = params.get("update") if isinstance(params, dict) else None
    return found if isinstance(found, dict) else {}


def change_updates(kind: str, edit: Callable[[FaultContext, Json, Json], Iterable[Json]], when: When = always) -> Fault:
    """Replace updates of one kind: `edit` gets the context, the message and its update, and gives messages."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict):
            update = update_of(message)
            if update.get("sessionUpdate") == kind and when(context, message):
                return edit(context, message, update)
        return (message,)

    return Fault(outgoing=change)


def with_update(message: Json, update: Json) -> Json:
    """Return a message with another update."""
    return {**message, "params": {**message["params"], "update": update}}


def edit_update(kind: str, edit: Edit, when: When = always, matches: Callable[[Json], bool] = lambda _: True) -> Fault:
    """Edit updates of one kind that match."""
    return change_updates(
        kind,
        lambda _, message, update: [with_update(message, apply_edit(update, edit)) if matches(update) else message],
        when,
    )


def edit_state(state: str, edit: Edit, when: When = always) -> Fault:
    """Edit the updates that tell one state."""
    return edit_update("state_update", edit, when, lambda update: update.get("state") == state)


def drop_update(kind: str, when: When = always, matches: Callable[[Json], bool] = lambda _: True) -> Fault:
    """Drop updates of one kind that match."""
    return change_updates(kind, lambda _, message, update: () if matches(update) else (message,), when)


def add_after(kind: str, added: Json, when: When = always, matches: Callable[[Json], bool] = lambda _: True) -> Fault:
    """Send another update after those that match; `added` is the update, or a function of the update."""

    def change(_: FaultContext, message: Json, update: Json) -> Iterable[Json]:
        yield message
        if matches(update):
            yield with_update(message, added(update) if callable(added) else added)

    return change_updates(kind, change, when)


def on_request(method: str, act: Callable[[FaultContext, Json], Iterable[Json]], when: When = always) -> Fault:
    """Do something instead of delivering a request or notification of the client."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and message.get("method") == method and when(context, message):
            return list(act(context, message))
        return (message,)

    return Fault(incoming=change)


def answer_with(method: str, result: Json, when: When = always) -> Fault:
    """Answer requests with this result, without asking the agent."""

    def act(context: FaultContext, message: Json) -> Iterable[Json]:
        context.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        context.open.pop(next((key for key, each in context.open.items() if each is message), None), None)
        return ()

    return on_request(method, act, when)


def refuse(method: str, when: When = always, code: int = -32602) -> Fault:
    """Refuse requests."""

    def act(context: FaultContext, message: Json) -> Iterable[Json]:
        context.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": "no"}})
        return ()

    return on_request(method, act, when)


def deliver_as(method: str, edit: Edit, when: When = always) -> Fault:
    """Deliver requests with other params."""
    return on_request(method, lambda _, message: [{**message, "params": apply_edit(message["params"], edit)}], when)


def edit_answer(method: str, edit: Callable[[FaultContext, Json], Json], when: When = always) -> Fault:
    """Replace whole answers to requests; `when` gets the request."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and context.method(message) == method and when(context, context.request(message)):
            return (edit(context, message),)
        return (message,)

    return Fault(outgoing=change)


def params_have(**members: Json) -> When:
    """Match requests whose params have these members."""
    return lambda _, message: isinstance(message.get("params"), dict) and members.items() <= message["params"].items()


def is_replaying(context: FaultContext) -> bool:
    """Return whether a session/resume with a replay runs."""
    running = [each for each in context.open.values() if each.get("method") == RESUME]
    return any(each["params"].get("replayFrom") for each in running if isinstance(each.get("params"), dict))


def is_resuming(context: FaultContext) -> bool:
    """Return whether a session/resume without a replay runs."""
    return context.is_running(RESUME) and not is_replaying(context)


def both(outgoing: Change, incoming: Change) -> Fault:
    """Return a fault of both directions."""
    return Fault(outgoing=outgoing, incoming=incoming)
