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
    call = params.tool_call
    if type(params.subject) is CommandSubject:
        call = _command_call(call, params.subject, is_known=known is not None)
    own_title = call.title or (known.title if known is not None else None)
    if _is_about_call(params) or known is not None:
        if not own_title and params.title:
            call = with_members(call, title=params.title)
        before, call = calls.narrow_subject(call)
    else:
        losses.add(Loss.PERMISSION_SUBJECT)
        call = _made_up_call(call, params, losses)
        own_title = call.title or None
    content = call.content if isinstance(call.content, list) else calls.rendered_content(call.tool_call_id)
    text = _question_text(params, own_title, content)
    if text:
        losses.add(Loss.PERMISSION_TEXT)
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


def _command_call(call: ToolCallUpdate, subject: CommandSubject, is_known: bool) -> ToolCallUpdate:
    """Return the tool call of a question about a command; a call that is known keeps its own title."""
    if isinstance(subject.tool_call_id, str):
        call = with_members(call, tool_call_id=subject.tool_call_id)
    if call.raw_input is UNSET or call.raw_input is None:
        call = with_members(call, raw_input={"command": subject.command, "cwd": subject.cwd})
    named: ToolCallUpdate = with_members(
        call, kind=call.kind or ToolKind.EXECUTE, title=UNSET if is_known else call.title
    )
    return named


def _made_up_call(call: ToolCallUpdate, params: RequestPermissionParams, losses: LossReports) -> ToolCallUpdate:
    """Return a tool call that nothing else refers to."""
    items = [each for item in call.content or () for each in narrow_item(item, losses)]
    made_up: ToolCallUpdate = with_members(
        call,
        title=call.title or params.title or call.name or call.tool_call_id,
        kind=call.kind or ToolKind.OTHER,
        content=items or UNSET,
        capabilities=UNSET,
        clear=UNSET,
    )
    return made_up


def _question_text(params: RequestPermissionParams, shown_title: str | None, content: list[Any]) -> str:
    """Return what the question says beyond the title and the contents of its tool call."""
    lines = [params.title] if params.title and shown_title and params.title != shown_title else []
    if params.description and text_item(params.description) not in content:
        lines.append(params.description)
    return "\n\n".join(lines)


def _narrow_option(option: PermissionOption, losses: LossReports) -> PermissionOption:
    """Return an answer; one of an unknown kind must never be chosen as an approval."""
    if option.kind in _OPTION_KINDS:
        return option
    losses.add(Loss.PERMISSION_OPTION, option.kind)
    narrow: PermissionOption = with_members(option, kind=PermissionOptionKind.REJECT_ONCE)
    return narrow
