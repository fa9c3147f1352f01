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

    from dragoman.engine.pending import Done
    from dragoman.roles.agent.client_terminals import LentFiles, LentTerminals
    from dragoman.roles.agent.elicitation import Elicited, Form
    from dragoman.roles.agent.session import Session
    from dragoman.roles.agent.turn_parts import Compaction, Saying, TurnPlan

OPTIONS: tuple[PermissionOption, ...] = (
    PermissionOption(option_id="allow_once", name="Allow once", kind=PermissionOptionKind.ALLOW_ONCE),
    PermissionOption(option_id="allow_always", name="Always allow", kind=PermissionOptionKind.ALLOW_ALWAYS),
    PermissionOption(option_id="reject_once", name="Reject", kind=PermissionOptionKind.REJECT_ONCE),
)


# What is said after one of these is another message.
_DIVIDING = (AgentMessageChunk, AgentThoughtChunk, ToolCallStart)


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
        self.work: tuple[asyncio.Task[Any], Done] | None = None  # the author's code, and how its client is answered
        self.spent: Usage | None = None  # tokens, told with the end of the turn
        self.stop_reason: str = StopReason.END_TURN
        self._sayings: list[Saying] = []
        self._aside: Saying | None = None  # what is being said beside the messages that have an id
        self._tools = 0
        self._questions = 0
        self._compactions = 0

    @property
    def text(self) -> str:
        """The prompt as one text: text blocks as they are, embedded text in place, the rest described."""
        return "\n".join(part for part in map(_readable, self.prompt) if part)

    @property
    def files(self) -> LentFiles:
        """The client's files when it lends them, the agent's own in the session's folders otherwise."""
        return self.session.files

    @property
    def terminals(self) -> LentTerminals:
        """The client's terminals when it lends them, the agent's own in the session's folders otherwise."""
        return self.session.terminals

    async def say(self, text: str | ContentBlock) -> None:
        """Say something to the user: text (Markdown) or any content block."""
        if self._sayings:
            await self._beside(AgentMessageChunk).say(text)
        elif type(text) is not str:
            await self.update(AgentMessageChunk(content=text))  # type: ignore[arg-type]
        elif self.session.say(AgentMessageChunk, text):
            await self.session.flow_control()

    async def think(self, text: str) -> None:
        """Think aloud."""
        if self._sayings:
            await self._beside(AgentThoughtChunk).say(text)
        elif self.session.say(AgentThoughtChunk, text):
            await self.session.flow_control()

    def message(self, *, is_thought: bool = False) -> Saying:
        """A message with an id, whose pieces belong together: `first = turn.message(); await first.say("...")`."""
        return self._begin_message(AgentThoughtChunk if is_thought else AgentMessageChunk)

    def _begin_message(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk]) -> Saying:
        from dragoman.roles.agent.turn_parts import Saying

        saying = Saying(self, f"message_{self.session.turns}_{len(self._sayings) + 1}", kind)
        self._sayings.append(saying)
        return saying

    def _beside(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk]) -> Saying:
        """Where messages have ids, a piece without one would be taken for more of the last (reference 1.8)."""
        if self._aside is not None and self._aside.kind is not kind:
            self._divide()
        if self._aside is None:
            self._aside = self._begin_message(kind)
        return self._aside

    async def merged(self) -> str:
        """The prompt as one text for a model: context joined, links read through the client, the rest described."""
        from dragoman.roles.agent.prompt_text import merged

        return await merged(self.session, self.prompt)

    async def plan(self, *entries: str | PlanEntry, name: str | None = None) -> TurnPlan:
        """Show a plan; what is given back tells how it goes: `await plan.start(0)`, `await plan.done(0)`."""
        from dragoman.roles.agent.turn_parts import TurnPlan

        plan = TurnPlan(self, entries, name)
        await plan.show()
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
        self._tools += 1
        return Tool(
            self,
            id or f"call_{self.session.turns}_{self._tools}",
            title,
            kind=kind,
            name=name,
            input=input,
            paths=paths,
            requires_permission=requires_permission,
        )

    async def ask(
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
            self._questions += 1
            call = ToolCallUpdate(tool_call_id=f"ask_{self.session.turns}_{self._questions}", title=question, kind=kind)
        offered = list(options or OPTIONS)
        self._divide()
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

    async def require(self, question: str, *, kind: str = "other") -> None:
        """Ask for leave and raise permission_denied when it is refused."""
        if not await self.ask(question, kind=kind):
            raise ProtocolError(Kind.PERMISSION_DENIED, f"the user refused: {question}")

    async def elicit(
        self, message: str, *, form: Form | None = None, url: str | None = None, tool: Tool | None = None
    ) -> Elicited:
        """Ask the user to fill in a form (`form={"branch": str}`) or to follow a link; true when accepted."""
        from dragoman.roles.agent.elicitation import elicit

        self._divide()
        self._questions += 1
        id = f"elicitation_{self.session.turns}_{self._questions}"
        about = {"session_id": self.session.id, "tool_call_id": UNSET if tool is None else tool.id}
        return await elicit(self.session, message, form=form, url=url, about=about, id=id)

    # --- the session ------------------------------------------------------------------------------------------

    async def usage(
        self,
        *,
        input: int | None = None,
        output: int | None = None,
        thought: int | None = None,
        used: int | None = None,
        size: int | None = None,
        cost: float | None = None,
        currency: str = "USD",
    ) -> None:
        """Tell what the turn took: tokens in and out (told at its end), and how full the context is (told now)."""
        if input is not None or output is not None:
            spent = Usage(total_tokens=0, input_tokens=input or 0, output_tokens=output or 0)
            spent.thought_tokens = UNSET if thought is None else thought
            spent.total_tokens = spent.input_tokens + spent.output_tokens + (thought or 0)
            self.spent = spent
        if used is not None and size is not None:
            paid = UNSET if cost is None else Cost(amount=cost, currency=currency)
            await self.update(UsageUpdate(used=used, size=size, cost=paid))

    async def title(self, title: str) -> None:
        """Name the session."""
        self.session.set_title(title)

    async def mode(self, mode_id: str, reason: str = "") -> None:
        """Change the mode of the session, and tell the client."""
        self.session.set_mode(mode_id, tell=False)
        self.session.tell_mode(reason)

    async def option(self, config_id: str, value: Any) -> None:
        """Change a config option of the session, and tell the client."""
        self.session.set_option(config_id, value)

    async def commands(self, *commands: AvailableCommand) -> None:
        """Change which slash commands there are in the session, and tell the client."""
        self.session.commands = list(commands)
        self.session.tell_commands()

    async def notice(self, title: str, description: str = "", *, severity: str = NoticeSeverity.INFO) -> None:
        """Tell the user something beside the conversation; only clients that asked for notices hear it."""
        await self.update(Notice(severity=severity, title=title, description=description or UNSET))

    def compaction(self) -> Compaction:
        """Shorten the history: `async with turn.compaction() as work: await work.summary("...")`."""
        from dragoman.roles.agent.turn_parts import Compaction

        self._compactions += 1
        return Compaction(self, f"compaction_{self.session.turns}_{self._compactions}")

    async def update(self, update: SessionUpdate) -> None:
        """Send any session update."""
        if self._aside is not None and type(update) in _DIVIDING:
            self._divide(getattr(update, "message_id", None))
        self.session.push(update)
        if self.session.should_wait:
            await self.session.flow_control()

    def _divide(self, by: Any = None) -> None:
        """What is said beside the messages with an id is whole, unless this is more of it."""
        aside = self._aside
        if aside is not None and by != aside.id:
            self._aside = None
            aside.finish()

    def finish(self) -> None:
        """Nothing is left open: messages are told whole, and what a cancelled turn was at is cancelled too."""
        self.session.finish_message()
        for saying in self._sayings:
            saying.finish()
        if self.cancelled:
            for tool in list(self.open_tools.values()):
                tool.close_cancelled()

    def result(self) -> PromptResult:
        """What the prompt is answered with."""
        reason = StopReason.CANCELLED if self.cancelled else self.stop_reason
        return PromptResult(stop_reason=reason, usage=self.spent or UNSET)


def _readable(block: ContentBlock) -> str:
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
