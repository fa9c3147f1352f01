"""The proxy `budget`: stops a turn that takes too long or uses too many tool calls, tokens or too much money.

Tokens and money count for a session, seconds and tool calls for each turn. The user is told why, in the session.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.roles.proxy.built_in.option import ProxyOption, above_zero
from dragoman.roles.proxy.proxy import Forward, Proxy
from dragoman.schema.prompt import PromptParams, PromptResult, StopReason
from dragoman.schema.update import ToolCallStart, UpdateParams, UsageUpdate

# How long an agent that was told to stop may take; then the turn is answered without it. Seconds.
STOP_TIMEOUT = 15.0

OPTIONS = (
    ProxyOption("--tokens", above_zero, "tokens for a session, as the agent reports them"),
    ProxyOption("--cost", above_zero, "money for a session, in the currency that the agent reports"),
    ProxyOption("--seconds", above_zero, "seconds for a turn"),
    ProxyOption("--tool-calls", above_zero, "tool calls for a turn"),
)


class Spent(msgspec.Struct):
    """What a session has used."""

    tokens: float = 0
    cost: float = 0
    currency: str = ""
    tool_calls: int = 0  # of the running turn
    context: int = 0  # tokens in the context window, which some agents report instead of what a turn used
    overrun: str = ""  # why the running turn is stopped
    is_over: asyncio.Event | None = None


def make(
    tokens: float | None = None,
    cost: float | None = None,
    seconds: float | None = None,
    tool_calls: float | None = None,
) -> Proxy:
    """Return the proxy."""
    if tokens is cost is seconds is tool_calls is None:
        raise ValueError("the proxy budget needs a limit: --tokens, --cost, --seconds or --tool-calls")
    proxy = Proxy("budget")
    sessions: dict[str, Spent] = {}

    def exhausted(spent: Spent) -> str:
        """Return which limit of the session is reached."""
        if tokens is not None and max(spent.tokens, spent.context) >= tokens:
            return f"the session used {max(spent.tokens, spent.context):,.0f} of {tokens:,.0f} tokens"
        if cost is not None and spent.cost >= cost:
            return f"the session cost {spent.cost:g} of {cost:g} {spent.currency}".rstrip()
        return ""

    def check(spent: Spent) -> None:
        reason = exhausted(spent)
        if not reason and tool_calls is not None and spent.tool_calls > tool_calls:
            reason = f"the turn made more than {tool_calls:g} tool calls"
        if reason and spent.is_over is not None and not spent.overrun:
            spent.overrun = reason
            spent.is_over.set()

    @proxy.from_agent("session/update")
    async def watch(params: UpdateParams, forward: Forward[None]) -> None:
        spent = sessions.get(params.session_id)
        if spent is not None:
            update: Any = params.update
            if isinstance(update, UsageUpdate):
                spent.context = update.used
                if update.cost is not UNSET and update.cost is not None:
                    spent.cost, spent.currency = update.cost.amount, update.cost.currency
            elif isinstance(update, ToolCallStart):
                spent.tool_calls += 1
            check(spent)
        await forward(params)

    @proxy.from_client("session/prompt")
    async def prompt(params: PromptParams, forward: Forward[PromptResult]) -> PromptResult:
        spent = sessions.setdefault(params.session_id, Spent())
        if reason := exhausted(spent):
            raise ProtocolError(
                Kind.RATE_LIMITED, f"the budget is used up: {reason}; open a new session or raise the limit"
            )
        spent.tool_calls, spent.overrun, spent.is_over = 0, "", asyncio.Event()
        try:
            return await _run_turn(params, forward, spent, seconds)
        finally:
            spent.is_over = None

    return proxy


async def _run_turn(
    params: PromptParams, forward: Forward[PromptResult], spent: Spent, seconds: float | None
) -> PromptResult:
    assert spent.is_over is not None
    turn = asyncio.ensure_future(forward(params))
    over = asyncio.ensure_future(spent.is_over.wait())
    try:
        await asyncio.wait({turn, over}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if turn.done():
            return _count(turn.result(), spent)
        reason = spent.overrun or f"the turn took longer than {seconds:g} s"
        forward.notify_agent("session/cancel", {"sessionId": params.session_id})
        text = f"\n\nStopped by the budget: {reason}.\n"
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        await asyncio.wait({turn}, timeout=STOP_TIMEOUT)
        forward.notify_client("session/update", {"sessionId": params.session_id, "update": update})
        if turn.done() and turn.exception() is None:
            return msgspec.structs.replace(_count(turn.result(), spent), stop_reason=_stop_reason(reason))
        return PromptResult(stop_reason=_stop_reason(reason))
    finally:
        over.cancel()
        if not turn.done():
            turn.cancel()
        await asyncio.gather(over, turn, return_exceptions=True)


def _count(result: PromptResult, spent: Spent) -> PromptResult:
    if result.usage is not UNSET and result.usage is not None:
        spent.tokens += result.usage.total_tokens
    return result


def _stop_reason(reason: str) -> str:
    return StopReason.MAX_TOKENS if "tokens" in reason else StopReason.MAX_TURN_REQUESTS
