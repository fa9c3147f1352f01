"""Permission requests with a title, a description and a subject, for clients whose requests have only a tool call."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from dragoman.dialect.narrow.content import narrow_item, text_item
from dragoman.dialect.narrow.loss import Loss, LossReports
from dragoman.dialect.narrow.tool_calls import ToolCalls
from dragoman.dialect.side_data import with_members
from dragoman.schema.permission import (
    CommandSubject,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionParams,
    ToolCallSubject,
)
from dragoman.schema.toolcall import ToolCallUpdate, ToolKind

_OPTION_KINDS: Final = frozenset(
    {
        PermissionOptionKind.ALLOW_ONCE,
        PermissionOptionKind.ALLOW_ALWAYS,
        PermissionOptionKind.REJECT_ONCE,
        PermissionOptionKind.REJECT_ALWAYS,
    }
)


def narrow_question(
    params: RequestPermissionParams, calls: ToolCalls, losses: LossReports
) -> tuple[list[Any], RequestPermissionParams]:
    """Return the updates that must come before a permission request, and the request as the client gets it."""
    before: list[Any] = []
    known = calls.find(_call_id(params))
    own_title = params.tool_call.title or (known.title if known is not None else None)
    if _is_about_call(params) or known is not None:
        call = params.tool_call if own_title or not params.title else with_members(params.tool_call, title=params.title)
        if type(params.subject) is CommandSubject:
            call = with_members(_command_call(call, params.subject), tool_call_id=_call_id(params))
        before, call = calls.narrow_subject(call)
    else:
        losses.add(Loss.PERMISSION_SUBJECT)
        call = _made_up_call(params, losses)
    text = _question_text(params, own_title if _is_about_call(params) or known is not None else call.title or None)
    if text:
        losses.add(Loss.PERMISSION_TEXT)
        content = call.content if isinstance(call.content, list) else calls.rendered_content(call.tool_call_id)
        call = with_members(call, content=[text_item(text), *content])
        if (known := calls.find(call.tool_call_id)) is not None:
            known.must_restore = True
    narrow = with_members(
        params,
        tool_call=call,
        options=[_narrow_option(option, losses) for option in params.options],
        title=UNSET,
        description=UNSET,
        subject=UNSET,
    )
    return before, narrow


def _is_about_call(params: RequestPermissionParams) -> bool:
    """Return whether other updates are about the tool call too; requests without a title are of official v1."""
    return type(params.subject) is ToolCallSubject or not (params.subject or params.title)


def _call_id(params: RequestPermissionParams) -> str:
    subject = params.subject
    named = subject.tool_call_id if type(subject) is CommandSubject else UNSET
    return named if isinstance(named, str) else params.tool_call.tool_call_id


def _command_call(call: ToolCallUpdate, subject: CommandSubject) -> ToolCallUpdate:
    """Return the tool call of a question about a command, with the command."""
    if call.raw_input is UNSET or call.raw_input is None:
        call = with_members(call, raw_input={"command": subject.command, "cwd": subject.cwd})
    return call if call.kind else with_members(call, kind=ToolKind.EXECUTE)


def _made_up_call(params: RequestPermissionParams, losses: LossReports) -> ToolCallUpdate:
    """Return a tool call that nothing else refers to."""
    call = params.tool_call
    if type(params.subject) is CommandSubject:
        call = _command_call(call, params.subject)
    items = [each for item in call.content or () for each in narrow_item(item, losses)]
    made_up: ToolCallUpdate = with_members(
        call,
        tool_call_id=_call_id(params),
        title=call.title or params.title or call.name or call.tool_call_id,
        kind=call.kind or ToolKind.OTHER,
        content=items or UNSET,
        capabilities=UNSET,
        clear=UNSET,
    )
    return made_up


def _question_text(params: RequestPermissionParams, shown_title: str | None) -> str:
    """Return what the question says beyond the title of its tool call."""
    lines = [params.title] if params.title and shown_title and params.title != shown_title else []
    return "\n\n".join([*lines, *([params.description] if params.description else [])])


def _narrow_option(option: PermissionOption, losses: LossReports) -> PermissionOption:
    """Return an answer; one of an unknown kind must never be chosen as an approval."""
    if option.kind in _OPTION_KINDS:
        return option
    losses.add(Loss.PERMISSION_OPTION, option.kind)
    narrow: PermissionOption = with_members(option, kind=PermissionOptionKind.REJECT_ONCE)
    return narrow
