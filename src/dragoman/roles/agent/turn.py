"""A turn as an agent author sees it: what was asked, and one obvious call for everything an agent can say.

Made by the Agent for each prompt, given to the author's function, ended by its return. Above is the author's code;
below is the session it belongs to. Knows nothing of frames and dialects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.tool import Tool
from dragoman.schema.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from dragoman.schema.permission import (
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionParams,
    SelectedOutcome,
)
from dragoman.schema.plan import PlanEntry
from dragoman.schema.prompt import PromptResult, StopReason, Usage
from dragoman.schema.toolcall import ToolCallLocation, ToolCallUpdate
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    Cost,
    Notice,
    NoticeSeverity,
    SessionUpdate,
    ToolCallStart,
    UsageUpdate,
)

if TYPE_CHECKING:
    import asyncio

    from dragoman.engine.pending import DoneCallback
    from dragoman.roles.agent.client_terminals import ClientFiles, ClientTerminals
    from dragoman.roles.agent.elicitation import ElicitationAnswer, Form
    from dragoman.roles.agent.session import Session
    from dragoman.roles.agent.turn_parts import MessageStream, TurnCompaction, TurnPlan

PERMISSION_OPTIONS: tuple[PermissionOption, ...] = (
    PermissionOption(option_id="allow_once", name="Allow once", kind=PermissionOptionKind.ALLOW_ONCE),
    PermissionOption(option_id="allow_always", name="Always allow", kind=PermissionOptionKind.ALLOW_ALWAYS),
    PermissionOption(option_id="reject_once", name="Reject", kind=PermissionOptionKind.REJECT_ONCE),
)


# What is said after one of these is another message.
_MESSAGE_BOUNDARIES = (AgentMessageChunk, AgentThoughtChunk, ToolCallStart)


class Answer(msgspec.Struct, frozen=True):
    """The user's answer to a question; true when allowed."""

    kind: str  # an option kind, or "cancelled"
    option_id: str = ""

    def __bool__(self) -> bool:
        return self.kind.startswith("allow")

    @property
    def cancelled(self) -> bool:
        """Whether the question was closed without an answer."""
        return self.kind == "cancelled"


class Turn:
    """One prompt and everything said in answer to it."""

    def __init__(self, session: Session, prompt: list[ContentBlock]) -> None:
        self.session = session
        self.prompt = prompt
        self.open_tools: dict[str, Tool] = {}
        self.cancelled = False
        self.cancel_reason: str | None = None  # as far as the client told it
        self.running: tuple[asyncio.Task[Any], DoneCallback] | None = (
            None  # the author's code, and how its client is answered
        )
        self.token_usage: Usage | None = None  # tokens, told with the end of the turn
        self.stop_reason: str = StopReason.END_TURN
        self._messages: list[MessageStream] = []
        self._implicit_message: MessageStream | None = None  # what is being said beside the messages that have an id
        self._tool_count = 0
        self._question_count = 0
        self._compaction_count = 0

    @property
    def text(self) -> str:
        """The prompt as one text: text blocks as they are, embedded text in place, the rest described."""
        return "\n".join(part for part in map(_block_text, self.prompt) if part)

    @property
    def files(self) -> ClientFiles:
        """The client's files when it lends them, the agent's own in the session's folders otherwise."""
        return self.session.files

    @property
    def terminals(self) -> ClientTerminals:
        """The client's terminals when it lends them, the agent's own in the session's folders otherwise."""
        return self.session.terminals

    async def say(self, text: str | ContentBlock) -> None:
        """Say something to the user: text (Markdown) or any content block."""
        if self._messages:
            await self._get_implicit_message(AgentMessageChunk).say(text)
        elif type(text) is not str:
            await self.send_update(AgentMessageChunk(content=text))  # type: ignore[arg-type]
        elif self.session.send_text(AgentMessageChunk, text):
            await self.session.drain()

    async def think(self, text: str) -> None:
        """Think aloud."""
        if self._messages:
            await self._get_implicit_message(AgentThoughtChunk).say(text)
        elif self.session.send_text(AgentThoughtChunk, text):
            await self.session.drain()

    def message(self, *, is_thought: bool = False) -> MessageStream:
        """A message with an id, whose pieces belong together: `first = turn.message(); await first.say("...")`."""
        return self._begin_message(AgentThoughtChunk if is_thought else AgentMessageChunk)

    def _begin_message(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk]) -> MessageStream:
        from dragoman.roles.agent.turn_parts import MessageStream

        saying = MessageStream(self, f"message_{self.session.turn_count}_{len(self._messages) + 1}", kind)
        self._messages.append(saying)
        return saying

    def _get_implicit_message(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk]) -> MessageStream:
        """Where messages have ids, a piece without one would be taken for more of the last (reference 1.8)."""
        if self._implicit_message is not None and self._implicit_message.kind is not kind:
            self._end_implicit_message()
        if self._implicit_message is None:
            self._implicit_message = self._begin_message(kind)
        return self._implicit_message

    async def prompt_text(self) -> str:
        """The prompt as one text for a model: context joined, links read through the client, the rest described."""
        from dragoman.roles.agent.prompt_text import merge_prompt

        return await merge_prompt(self.session, self.prompt)

    async def plan(self, *entries: str | PlanEntry, name: str | None = None) -> TurnPlan:
        """Show a plan; what is given back tells how it goes: `await plan.start(0)`, `await plan.done(0)`."""
        from dragoman.roles.agent.turn_parts import TurnPlan

        plan = TurnPlan(self, entries, name)
        await plan.send()
        return plan

    def tool(
        self,
        title: str,
        *,
        kind: str = "other",
        name: str | None = None,
        input: Any = UNSET,
        paths: Sequence[str | ToolCallLocation] = (),
        id: str | None = None,
        requires_permission: bool = False,
    ) -> Tool:
        """A tool call: `async with turn.tool("Read main.py", kind="read") as call: ...`."""
        known = self.session.tools
        if known is not None and name not in known:
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                f"the tool {name!r} is none of those this agent announced: {', '.join(sorted(known)) or 'none'}",
                {"tool": name},
            )
        self._tool_count += 1
        return Tool(
            self,
            id or f"call_{self.session.turn_count}_{self._tool_count}",
            title,
            kind=kind,
            name=name,
            input=input,
            paths=paths,
            requires_permission=requires_permission,
        )

    async def ask_permission(
        self,
        question: str,
        *,
        kind: str = "other",
        options: Sequence[PermissionOption] | None = None,
        tool: ToolCallUpdate | None = None,
    ) -> Answer:
        """Ask the user for leave, for a tool call or just so; the answer is true when it is an allow."""
        call = tool
        if call is None:
            self._question_count += 1
            call = ToolCallUpdate(
                tool_call_id=f"ask_{self.session.turn_count}_{self._question_count}", title=question, kind=kind
            )
        offered = list(options or PERMISSION_OPTIONS)
        self._end_implicit_message()
        result = await self.session.request(
            "session/request_permission",
            RequestPermissionParams(session_id=self.session.id, tool_call=call, options=offered),
        )
        if isinstance(result.outcome, SelectedOutcome):
            for option in offered:
                if option.option_id == result.outcome.option_id:
                    return Answer(option.kind, option.option_id)
            return Answer(PermissionOptionKind.REJECT_ONCE, result.outcome.option_id)
        return Answer("cancelled")

    async def require_permission(self, question: str, *, kind: str = "other") -> None:
        """Ask for leave and raise permission_denied when it is refused."""
        if not await self.ask_permission(question, kind=kind):
            raise ProtocolError(Kind.PERMISSION_DENIED, f"the user refused: {question}")

    async def elicit(
        self, message: str, *, form: Form | None = None, url: str | None = None, tool: Tool | None = None
    ) -> ElicitationAnswer:
        """Ask the user to fill in a form (`form={"branch": str}`) or to follow a link; true when accepted."""
        from dragoman.roles.agent.elicitation import elicit

        self._end_implicit_message()
        self._question_count += 1
        id = f"elicitation_{self.session.turn_count}_{self._question_count}"
        about = {"session_id": self.session.id, "tool_call_id": UNSET if tool is None else tool.id}
        return await elicit(self.session, message, form=form, url=url, scope=about, id=id)

    # --- the session ------------------------------------------------------------------------------------------

    async def report_usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        thought_tokens: int | None = None,
        context_used: int | None = None,
        context_size: int | None = None,
        cost: float | None = None,
        currency: str = "USD",
    ) -> None:
        """Tell what the turn took: tokens in and out (told at its end), and how full the context is (told now)."""
        if input_tokens is not None or output_tokens is not None:
            spent = Usage(total_tokens=0, input_tokens=input_tokens or 0, output_tokens=output_tokens or 0)
            spent.thought_tokens = UNSET if thought_tokens is None else thought_tokens
            spent.total_tokens = spent.input_tokens + spent.output_tokens + (thought_tokens or 0)
            self.token_usage = spent
        if context_used is not None and context_size is not None:
            paid = UNSET if cost is None else Cost(amount=cost, currency=currency)
            await self.send_update(UsageUpdate(used=context_used, size=context_size, cost=paid))

    async def set_title(self, title: str) -> None:
        """Name the session."""
        self.session.set_title(title)

    async def set_mode(self, mode_id: str, reason: str = "") -> None:
        """Change the mode of the session, and tell the client."""
        self.session.set_mode(mode_id, notify=False)
        self.session.send_mode(reason)

    async def set_option(self, config_id: str, value: Any) -> None:
        """Change a config option of the session, and tell the client."""
        self.session.set_option(config_id, value)

    async def set_commands(self, *commands: AvailableCommand) -> None:
        """Change which slash commands there are in the session, and tell the client."""
        self.session.commands = list(commands)
        self.session.send_commands()

    async def send_notice(self, title: str, description: str = "", *, severity: str = NoticeSeverity.INFO) -> None:
        """Tell the user something beside the conversation; only clients that asked for notices hear it."""
        await self.send_update(Notice(severity=severity, title=title, description=description or UNSET))

    def compaction(self) -> TurnCompaction:
        """Shorten the history: `async with turn.compaction() as work: await work.summary("...")`."""
        from dragoman.roles.agent.turn_parts import TurnCompaction

        self._compaction_count += 1
        return TurnCompaction(self, f"compaction_{self.session.turn_count}_{self._compaction_count}")

    async def send_update(self, update: SessionUpdate) -> None:
        """Send any session update."""
        if self._implicit_message is not None and type(update) in _MESSAGE_BOUNDARIES:
            self._end_implicit_message(getattr(update, "message_id", None))
        self.session.send_update(update)
        if self.session.should_wait:
            await self.session.drain()

    def _end_implicit_message(self, message_id: Any = None) -> None:
        """What is said beside the messages with an id is whole, unless this is more of it."""
        aside = self._implicit_message
        if aside is not None and message_id != aside.id:
            self._implicit_message = None
            aside.finish()

    def finish(self) -> None:
        """Nothing is left open: messages are told whole, and what a cancelled turn was at is cancelled too."""
        self.session.finish_message()
        for saying in self._messages:
            saying.finish()
        if self.cancelled:
            for tool in list(self.open_tools.values()):
                tool.mark_cancelled()

    def result(self) -> PromptResult:
        """What the prompt is answered with."""
        reason = StopReason.CANCELLED if self.cancelled else self.stop_reason
        return PromptResult(stop_reason=reason, usage=self.token_usage or UNSET)


def _block_text(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case EmbeddedResource():
            return block.resource.text or f"[resource {block.resource.uri}]"
        case ResourceLink():
            return f"[link {block.name}: {block.uri}]"
        case ImageContent():
            return f"[image {block.mime_type}]"
        case AudioContent():
            return f"[audio {block.mime_type}]"
        case _:
            return f"[{block.tag}]"
