"""Turn: one prompt and the calls an author uses to answer it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.author.arguments import (
    check_commands,
    check_content,
    check_numbers,
    check_permission_options,
    check_permission_subject,
    check_text,
    check_update,
    check_word,
)
from dragoman.roles.agent.turn_parts import Tool
from dragoman.schema import content as contents
from dragoman.schema import update as updates
from dragoman.schema.permission import (
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionParams,
    SelectedOutcome,
)
from dragoman.schema.plan import PlanEntry
from dragoman.schema.prompt import PromptResult, StopReason, Usage
from dragoman.schema.toolcall import ToolCallLocation, ToolCallUpdate, ToolKind, ToolKindName
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk

if TYPE_CHECKING:
    import asyncio

    from dragoman.engine.incoming import DoneCallback
    from dragoman.roles.agent.client_files import ClientFiles
    from dragoman.roles.agent.client_terminals import ClientTerminals
    from dragoman.roles.agent.elicitation import ElicitationAnswer, Form
    from dragoman.roles.agent.session import Session
    from dragoman.roles.agent.tools import SessionTools
    from dragoman.roles.agent.turn_parts import MessageStream, TurnCompaction, TurnPlan
    from dragoman.roles.agent.work.background import BackgroundFunction
    from dragoman.roles.agent.work.terminal import TurnTerminal

PERMISSION_OPTIONS: tuple[PermissionOption, ...] = (
    PermissionOption(option_id="allow_once", name="Allow once", kind=PermissionOptionKind.ALLOW_ONCE),
    PermissionOption(option_id="allow_always", name="Always allow", kind=PermissionOptionKind.ALLOW_ALWAYS),
    PermissionOption(option_id="reject_once", name="Reject", kind=PermissionOptionKind.REJECT_ONCE),
)

# A message started by `say` ends when one of these is sent.
_MESSAGE_BOUNDARIES = (AgentMessageChunk, AgentThoughtChunk, updates.ToolCallStart)


class Answer(msgspec.Struct, frozen=True):
    """The user's answer to a permission request. It is true if the user allowed it."""

    kind: str  # an option kind, or "cancelled"
    option_id: str = ""

    def __bool__(self) -> bool:
        return self.kind.startswith("allow")

    @property
    def cancelled(self) -> bool:
        """Whether the request was cancelled without an answer."""
        return self.kind == "cancelled"


class Turn:
    """One prompt and everything the agent sends in answer to it.

    The Agent creates a Turn for each prompt and passes it to the author's function. The turn ends when that function
    returns.
    """

    def __init__(self, session: Session, prompt: list[contents.ContentBlock]) -> None:
        self.session = session
        self.prompt = prompt
        self._open_tools: dict[str, Tool] = {}
        self.cancelled = False
        self.cancel_reason: str | None = None  # if the client gave one
        self._running: tuple[asyncio.Task[Any], DoneCallback] | None = None  # the author's code, and how to answer
        self.token_usage: Usage | None = None  # sent with the end of the turn
        self.stop_reason: str = StopReason.END_TURN
        self._messages: list[MessageStream] = []
        self._implicit_message: MessageStream | None = None  # the message of `say` where messages have ids
        self.joined: list[list[contents.ContentBlock]] = []  # prompts that the client sent while the turn ran
        self._joined_answers: list[tuple[DoneCallback, asyncio.Event]] = []
        self._is_own_work = False  # no prompt began it
        self._end_event: asyncio.Event | None = None
        self._tool_count = 0
        self._terminal_count = 0
        self._question_count = 0
        self._compaction_count = 0

    def __repr__(self) -> str:
        return f"<Turn of session {self.session.id}: {self.text!r:.80}>"

    @property
    def text(self) -> str:
        """The prompt as one text: text blocks and embedded text as they are, other blocks described."""
        return "\n".join(part for part in map(_block_text, self.prompt) if part)

    @property
    def files(self) -> ClientFiles:
        """The client's files, or local files in the session's folders if the client does not offer file access."""
        return self.session.files

    @property
    def terminals(self) -> ClientTerminals:
        """The client's terminals, or local ones in the session's folders if the client does not offer terminals."""
        return self.session.terminals

    @property
    def tools(self) -> SessionTools:
        """The tools, resources and prompts of the session's MCP servers."""
        return self.session.tools

    async def say(self, text: str | contents.ContentBlock) -> None:
        """Send a message chunk to the user: text (Markdown) or any content block."""
        if self._messages:
            await self._get_implicit_message(AgentMessageChunk).say(text)
        elif type(text) is not str:
            await self.send_update(AgentMessageChunk(content=check_content(text)))
        elif self.session.send_text(AgentMessageChunk, text):
            await self.session.drain()

    async def think(self, text: str) -> None:
        """Send a thought chunk."""
        if self._messages:
            await self._get_implicit_message(AgentThoughtChunk).say(text)
        elif type(text) is not str:
            await self.send_update(AgentThoughtChunk(content=check_content(text)))
        elif self.session.send_text(AgentThoughtChunk, text):
            await self.session.drain()

    def message(self, *, is_thought: bool = False) -> MessageStream:
        """Return a message with its own id: `async with turn.message() as message: await message.say("...")`."""
        return self._begin_message(AgentThoughtChunk if is_thought else AgentMessageChunk)

    def _begin_message(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk]) -> MessageStream:
        from dragoman.roles.agent.turn_parts import MessageStream

        message = MessageStream(self, f"message_{self.session.turn_count}_{len(self._messages) + 1}", kind)
        self._messages.append(message)
        return message

    def _get_implicit_message(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk]) -> MessageStream:
        # A chunk without an id would continue the last message that has one (docs/protocol/updates.md#message-ids).
        if self._implicit_message is not None and self._implicit_message.kind is not kind:
            self._end_implicit_message()
        if self._implicit_message is None:
            self._implicit_message = self._begin_message(kind)
        return self._implicit_message

    async def prompt_text(self) -> str:
        """Return the prompt as one text for a model: links are read through the client, other blocks described."""
        from dragoman.roles.agent.prompt_text import merge_prompt

        return await merge_prompt(self.session, self.prompt)

    async def plan(self, *entries: str | PlanEntry, name: str | None = None) -> TurnPlan:
        """Show a plan and return it, to report progress: `await plan.start(0)`, `await plan.finish(0)`."""
        from dragoman.roles.agent.turn_parts import TurnPlan

        plan = TurnPlan(self, entries, name)
        await plan.send()
        return plan

    def tool(
        self,
        title: str,
        *,
        kind: ToolKindName = "other",
        name: str | None = None,
        input: Any = UNSET,
        paths: Sequence[str | os.PathLike[str] | ToolCallLocation] = (),
        id: str | None = None,
        requires_permission: bool = False,
        cancellable: bool = False,
    ) -> Tool:
        """Create a tool call: `async with turn.tool("Read main.py", kind="read") as call: ...`.

        With `cancellable`, a v2 client can cancel this call alone: the code of the block is cancelled, and the code
        after it runs on; `call.cancelled` is then true.
        """
        known = self.session.announced_tools
        if known is not None and name not in known:
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                f"the tool {name!r} is not one of those this agent announced: {', '.join(sorted(known)) or 'none'}",
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
            cancellable=cancellable,
        )

    def terminal(
        self,
        command: str,
        *,
        cwd: str | None = None,
        size: tuple[int, int] | None = None,
        cancellable: bool = True,
        id: str | None = None,
    ) -> TurnTerminal:
        """Create a terminal that the agent runs itself and the client shows.

        `async with turn.terminal("make test") as terminal: await terminal.run("make", "test")`; `size` is (columns,
        rows).
        """
        from dragoman.roles.agent.work.terminal import TurnTerminal

        self._terminal_count += 1
        name = id or f"terminal_{self.session.turn_count}_{self._terminal_count}"
        return TurnTerminal(self.session, name, command, cwd=cwd, size=size, cancellable=cancellable)

    async def run_in_background(
        self, title: str, function: BackgroundFunction, *, kind: ToolKindName = "other", input: Any = UNSET
    ) -> Tool:
        """Start a tool call that goes on after the turn: `function(call)` runs in a task of its own.

        A v2 client sees it in the list of background work and can cancel it. Closing the session cancels it.
        """
        call = self.tool(title, kind=kind, input=input, cancellable=True)
        await self.session.background.start(call, function)
        return call

    async def ask_permission(
        self,
        question: str,
        *,
        kind: ToolKindName = "other",
        options: Sequence[PermissionOption] | None = None,
        tool: ToolCallUpdate | None = None,
    ) -> Answer:
        """Ask the user for permission, for a tool call or in general. The answer is true if the user allowed it."""
        check_text("a question", question)
        check_word("kind", kind, ToolKind)
        check_permission_subject(tool)
        call = tool
        if call is None:
            check_permission_options(options or ())  # those of another agent, for its own call, go on as they are
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

    async def require_permission(self, question: str, *, kind: ToolKindName = "other") -> None:
        """Ask the user for permission and raise permission_denied if the user does not allow it."""
        if not await self.ask_permission(question, kind=kind):
            raise ProtocolError(Kind.PERMISSION_DENIED, f"the user refused: {question}")

    async def elicit(
        self, message: str, *, form: Form | None = None, url: str | None = None, tool: Tool | None = None
    ) -> ElicitationAnswer:
        """Ask the user to fill in a form (`form={"branch": str}`) or to open a link. True if the user accepted."""
        from dragoman.roles.agent.elicitation import elicit

        self._end_implicit_message()
        self._question_count += 1
        id = f"elicitation_{self.session.turn_count}_{self._question_count}"
        scope = {"session_id": self.session.id, "tool_call_id": UNSET if tool is None else tool.id}
        return await elicit(self.session, message, form=form, url=url, scope=scope, id=id)

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
        """Report the tokens of the turn (sent at its end), and the context size and cost (sent now).

        The update with the cost needs `context_used` and `context_size` (docs/protocol/updates.md#context-usage).
        """
        tokens = {"input_tokens": input_tokens, "output_tokens": output_tokens, "thought_tokens": thought_tokens}
        context = {"context_used": context_used, "context_size": context_size}
        check_numbers(int, **tokens, **context)
        check_numbers(float, cost=cost)
        check_text("a currency", currency)
        missing = [name for name, value in context.items() if value is None]
        if missing and (cost is not None or len(missing) == 1):
            raise ValueError(f"the context and the cost are sent together; give {' and '.join(missing)} too")
        if not (input_tokens is output_tokens is thought_tokens is None):
            usage = Usage(total_tokens=0, input_tokens=input_tokens or 0, output_tokens=output_tokens or 0)
            usage.thought_tokens = UNSET if thought_tokens is None else thought_tokens
            usage.total_tokens = usage.input_tokens + usage.output_tokens + (thought_tokens or 0)
            self.token_usage = usage
        if context_used is not None and context_size is not None:
            price = UNSET if cost is None else updates.Cost(amount=cost, currency=currency)
            await self.send_update(updates.UsageUpdate(used=context_used, size=context_size, cost=price))

    async def set_title(self, title: str) -> None:
        """Set the title of the session."""
        self.session.set_title(title)

    async def set_mode(self, mode_id: str, reason: str = "") -> None:
        """Change the mode of the session and tell the client."""
        self.session.set_mode(mode_id, notify=False)
        self.session._send_mode(reason)

    async def set_option(self, config_id: str, value: Any) -> None:
        """Change a config option of the session and tell the client."""
        self.session.set_option(config_id, value)

    async def set_commands(self, *commands: updates.AvailableCommand) -> None:
        """Replace the slash commands of the session and tell the client."""
        check_commands(commands)
        self.session.commands = list(commands)
        self.session.send_commands()

    async def send_notice(
        self, title: str, description: str = "", *, severity: updates.NoticeSeverityName = "info"
    ) -> None:
        """Show a notice outside the conversation. Only clients that support notices get it."""
        check_text("the title of a notice", title)
        check_text("the description of a notice", description)
        check_word("severity", severity, updates.NoticeSeverity)
        await self.send_update(updates.Notice(severity=severity, title=title, description=description or UNSET))

    def compaction(self) -> TurnCompaction:
        """Report a compaction: `async with turn.compaction() as work: await work.add_summary("...")`."""
        from dragoman.roles.agent.turn_parts import TurnCompaction

        self._compaction_count += 1
        return TurnCompaction(self, f"compaction_{self.session.turn_count}_{self._compaction_count}")

    async def send_update(self, update: updates.SessionUpdate) -> None:
        """Send any session update and wait if the client is behind."""
        check_update(update)
        if self._implicit_message is not None and type(update) in _MESSAGE_BOUNDARIES:
            self._end_implicit_message(getattr(update, "message_id", None))
        self.session.send_update(update)
        if self.session.should_wait:
            await self.session.drain()

    def _end_implicit_message(self, message_id: Any = None) -> None:
        message = self._implicit_message
        if message is not None and message_id != message.id:
            self._implicit_message = None
            message.finish()

    def _finish(self) -> None:
        """Send buffered messages, and cancel open tool calls if the turn was cancelled."""
        self.session._finish_message()
        for message in self._messages:
            message.finish()
        if self.cancelled:
            for tool in list(self._open_tools.values()):
                tool.mark_cancelled()

    @property
    def _ended(self) -> asyncio.Event:
        """Set when the turn is over."""
        if self._end_event is None:
            import asyncio

            self._end_event = asyncio.Event()
        return self._end_event

    def _mark_ended(self) -> None:
        if self._end_event is not None:  # most turns are awaited by nobody
            self._end_event.set()

    def _result(self) -> PromptResult:
        """Return the result of session/prompt."""
        reason = StopReason.CANCELLED if self.cancelled else self.stop_reason
        return PromptResult(stop_reason=reason, usage=self.token_usage or UNSET)


def _block_text(block: contents.ContentBlock) -> str:
    match block:
        case contents.TextContent():
            return block.text
        case contents.EmbeddedResource():
            return block.resource.text or f"[resource {block.resource.uri}]"
        case contents.ResourceLink():
            return f"[link {block.name}: {block.uri}]"
        case contents.ImageContent():
            return f"[image {block.mime_type}]"
        case contents.AudioContent():
            return f"[audio {block.mime_type}]"
        case _:
            return f"[{block.tag}]"
