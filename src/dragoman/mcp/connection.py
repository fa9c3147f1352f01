"""One connection to an MCP server: open, list, call, read, prompt, close. It speaks both eras of MCP.

The SDK's client is a group of tasks that must be entered and left in one task: the keeper. Callers may be in any task.
Errors of the SDK become ServerFailed, or results that say what went wrong; neither shows a credential.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dragoman.mcp.channel import Channel
from dragoman.mcp.limits import CALL_TIMEOUT, CLOSE_TIMEOUT, LIST_TIMEOUT, MAX_ENTRIES, MAX_PAGES, OPEN_TIMEOUT
from dragoman.mcp.names import tool_name
from dragoman.mcp.results import (
    McpPrompt,
    McpResource,
    McpResult,
    McpTool,
    PromptMessage,
    read_messages,
    read_prompt_entry,
    read_resource_entry,
    read_resources,
    read_result,
    read_tool,
)
from dragoman.mcp.sdk import CODE_NO_METHOD, ServerFailed, failure_text
from dragoman.policy.redaction import Redactor
from dragoman.schema.content import EmbeddedResource, TextContent

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")

# Progress of a call: how much is done, of how much, and a text.
OnProgress = Callable[[float, float | None, str], Awaitable[None]]

# Answers an elicitation of a server: takes its params, returns the action and the values of the form.
Elicit = Callable[[dict[str, Any]], Awaitable[tuple[str, dict[str, Any]]]]

# Answers a sampling request of a server: takes its params, returns the members of its result.
Sample = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class ServerSettings(msgspec.Struct, kw_only=True):
    """What a connection needs to know of its session."""

    roots: list[str] = []  # folders that the server may ask for
    timeout: float = CALL_TIMEOUT  # of one call, in seconds
    elicit: Elicit | None = None
    sample: Sample | None = None
    client_name: str = "dragoman"
    client_version: str = "0.1.0"


class ServerConnection:
    """A connection to one server. `key` stands for the server in the names of its tools."""

    def __init__(
        self,
        name: str,
        key: str,
        channel: Channel,
        settings: ServerSettings,
        redactor: Redactor,
        on_list_changed: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.key = key
        self.channel = channel
        self.settings = settings
        self.failure: ServerFailed | None = None
        self.version = ""  # of MCP, as negotiated
        self._redactor = redactor
        self._on_list_changed = on_list_changed
        self._client: Client | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._lists: dict[str, list[Any]] = {}
        self._index: dict[str, McpTool] | None = None
        self._deadlines: set[asyncio.Timeout] = set()

    # --- opening and closing ----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        return self._client is not None and self.failure is None

    async def open(self, timeout: float = OPEN_TIMEOUT) -> None:
        """Connect; raise ServerFailed. What a server that does not answer started is ended in the background."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        opened.add_done_callback(lambda future: future.exception())  # whoever waited may be cancelled by then
        self._keeper = asyncio.create_task(self._keep(opened), name=f"MCP server {self.name}")
        try:
            await asyncio.wait([opened], timeout=timeout)
        except BaseException:
            self._keeper.cancel()
            raise
        if not opened.done():
            self._keeper.cancel()
            raise self._fail(f"it did not answer within {timeout:g} seconds{self._last_words()}")
        opened.result()

    async def _keep(self, opened: asyncio.Future[None]) -> None:
        try:
            async with self._connect() as client:
                self._client, self.version = client, client.protocol_version
                opened.set_result(None)
                listener = asyncio.create_task(self._listen(client))
                try:
                    await self._stop.wait()
                finally:
                    listener.cancel()
        except (Exception, BaseExceptionGroup) as error:
            if not opened.done():
                opened.set_exception(self._fail(self.channel.failure or failure_text(error)))
            elif not self._stop.is_set():
                self._fail(self.channel.failure or failure_text(error))
        finally:
            self._client = None
            if not opened.done():
                opened.set_exception(self._fail("it was closed"))

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Client]:
        async with self.channel.open() as streams:
            from mcp import Client

            @asynccontextmanager
            async def as_transport() -> AsyncIterator[Any]:
                yield streams

            settings = self.settings
            client = Client(
                as_transport(),
                cache=None,
                client_info=_implementation(settings),
                list_roots_callback=self._list_roots if settings.roots else None,
                elicitation_callback=self._elicit if settings.elicit is not None else None,
                sampling_callback=self._sample if settings.sample is not None else None,
                message_handler=self._on_message,
            )
            async with client:
                yield client

    def _fail(self, why: str) -> ServerFailed:
        self.failure = ServerFailed(self.name, self._redactor.redact_text(why))
        return self.failure

    def _last_words(self) -> str:
        return f"; {self.channel.failure}" if self.channel.failure else ""

    async def close(self) -> None:
        """Disconnect and end what was started, within a limit."""
        self._stop.set()
        keeper = self._keeper
        if keeper is None or keeper.done():
            return
        done, _ = await asyncio.wait([keeper], timeout=CLOSE_TIMEOUT)
        if not done:
            keeper.cancel()
            await asyncio.wait([keeper], timeout=CLOSE_TIMEOUT)

    # --- what the server offers -------------------------------------------------------------------------------

    async def list_tools(self) -> list[McpTool]:
        """Return the tools, from memory until the server says that they changed."""

        def read(entry: Any, number: int) -> McpTool | None:
            return read_tool(self.name, tool_name(self.key, str(entry.get("name", ""))), entry)

        return await self._list("tools", lambda client, cursor: client.list_tools(cursor=cursor), "tools", read)

    @property
    def known_tools(self) -> dict[str, McpTool]:
        """The tools as they were listed last, by name; without those whose names for models are equal."""
        if self._index is None:
            tools = self._lists.get("tools", [])
            count = Counter(tool.name for tool in tools)
            self._index = {tool.tool: tool for tool in tools if count[tool.name] == 1}
        return self._index

    async def list_resources(self) -> list[McpResource]:
        """Return the resources and the templates of resources."""

        def read(entry: Any, _: int) -> McpResource | None:
            return read_resource_entry(self.name, entry)

        resources = await self._list(
            "resources", lambda client, cursor: client.list_resources(cursor=cursor), "resources", read
        )
        templates = await self._list(
            "resources",
            lambda client, cursor: client.list_resource_templates(cursor=cursor),
            "resourceTemplates",
            read,
        )
        return [*resources, *templates]

    async def list_prompts(self) -> list[McpPrompt]:
        """Return the prompts."""

        def read(entry: Any, _: int) -> McpPrompt | None:
            return read_prompt_entry(self.name, entry)

        return await self._list("prompts", lambda client, cursor: client.list_prompts(cursor=cursor), "prompts", read)

    async def _list(
        self,
        capability: str,
        fetch: Callable[[Client, str | None], Awaitable[Any]],
        member: str,
        read: Callable[[Any, int], T | None],
    ) -> list[T]:
        """Return all pages of a list."""
        if member in self._lists:
            return list(self._lists[member])
        client = self.client()
        if getattr(client.server_capabilities, capability, None) is None:
            return []
        found: list[T] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._ask(lambda cursor=cursor: fetch(client, cursor), LIST_TIMEOUT, is_list=True)  # type: ignore[misc]
            if page is None:
                break
            entries = (read(entry, len(found)) for entry in page.get(member, ()))
            found += [entry for entry in entries if entry is not None]
            cursor = page.get("nextCursor")
            if not cursor or len(found) >= MAX_ENTRIES:
                break
        self._lists[member] = found = found[:MAX_ENTRIES]
        self._index = None
        return list(found)

    # --- calls ------------------------------------------------------------------------------------------------

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> McpResult:
        """Call a tool. A failure of the tool or of the server is a result with `is_error`."""

        async def on_step(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None:
                await on_progress(progress, total, self._redactor.redact_known(message or ""))

        try:
            client = self.client()
            if "tools" not in self._lists:  # the SDK checks a result against the schema in the list
                await self.list_tools()
            answer = await self._ask(
                lambda: client.call_tool(tool, dict(arguments), progress_callback=on_step),
                timeout or self.settings.timeout,
            )
        except ServerFailed as error:
            return McpResult(content=[TextContent(text=str(error))], is_error=True)
        return read_result(answer, self._redactor)

    async def read(self, uri: str) -> list[EmbeddedResource]:
        """Read a resource; raise ServerFailed."""
        client = self.client()
        return read_resources(await self._ask(lambda: client.read_resource(uri), self.settings.timeout), self._redactor)

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> list[PromptMessage]:
        """Return the messages of a prompt; raise ServerFailed."""
        client = self.client()
        answer = await self._ask(lambda: client.get_prompt(name, dict(arguments)), self.settings.timeout)
        return read_messages(answer, self._redactor)

    def client(self) -> Client:
        """Return the client of the SDK; raise ServerFailed if the server is not connected."""
        if self._client is None or self.failure is not None:
            raise self.failure or self._fail("it is not connected")
        return self._client

    async def _ask(self, send: Callable[[], Awaitable[Any]], timeout: float, *, is_list: bool = False) -> Any:
        """Send a request and return the JSON of its result, None for a list that the server lacks."""
        try:
            async with asyncio.timeout(timeout) as deadline:
                self._deadlines.add(deadline)
                try:
                    result = await send()
                finally:
                    self._deadlines.discard(deadline)
        except TimeoutError:
            raise ServerFailed(self.name, f"it did not answer within {timeout:g} seconds") from None
        except (Exception, BaseExceptionGroup) as error:
            if is_list and getattr(error, "code", None) == CODE_NO_METHOD:
                return None
            if self.channel.failure:
                raise self._fail(self.channel.failure) from None
            raise ServerFailed(self.name, self._redactor.redact_text(failure_text(error))) from None
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    # --- what the server asks and tells -----------------------------------------------------------------------

    async def _list_roots(self, context: Any) -> Any:
        import mcp_types as types

        from dragoman.mcp.uris import file_uri

        return types.ListRootsResult(roots=[types.Root(uri=file_uri(path)) for path in self.settings.roots])  # type: ignore[arg-type]

    async def _elicit(self, context: Any, params: Any) -> Any:
        import mcp_types as types

        assert self.settings.elicit is not None
        with self._no_deadlines():
            asked = params.model_dump(by_alias=True, mode="json", exclude_none=True)
            action, content = await self.settings.elicit(asked)
        return types.ElicitResult.model_validate({"action": action, "content": content or None})

    async def _sample(self, context: Any, params: Any) -> Any:
        import mcp_types as types

        assert self.settings.sample is not None
        answer = await self.settings.sample(params.model_dump(by_alias=True, mode="json", exclude_none=True))
        return types.CreateMessageResult.model_validate(answer)

    def _no_deadlines(self) -> Any:
        return _Paused(self._deadlines)

    async def _on_message(self, message: Any) -> None:
        method = getattr(message, "method", "")
        if isinstance(method, str) and method.endswith("/list_changed"):
            self._forget_list(method.split("/")[1])

    async def _listen(self, client: Client) -> None:
        """Listen for changed lists where that is a request of its own: MCP from 2026-07-28 on."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        offered = client.server_capabilities
        wanted = {
            f"{name}_list_changed": True
            for name in ("tools", "prompts", "resources")
            if getattr(getattr(offered, name, None), "list_changed", None)
        }
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not wanted:
            return
        try:
            async with client.listen(**wanted) as events:  # type: ignore[arg-type]
                async for _ in events:
                    for name in ("tools", "prompts", "resources"):
                        self._forget_list(name)
        except (Exception, BaseExceptionGroup):
            return  # without it, lists stay as they were first read

    def _forget_list(self, name: str) -> None:
        self._lists.pop(name, None)
        self._index = None
        if name == "resources":
            self._lists.pop("resourceTemplates", None)
        if self._on_list_changed is not None:
            self._on_list_changed(name)


class _Paused:
    """Stops deadlines while a user is asked."""

    def __init__(self, deadlines: set[asyncio.Timeout]) -> None:
        self._deadlines = deadlines
        self._left: dict[asyncio.Timeout, float] = {}

    def __enter__(self) -> None:
        now = asyncio.get_running_loop().time()
        for deadline in self._deadlines:
            if (when := deadline.when()) is not None:
                self._left[deadline] = when - now
                deadline.reschedule(None)

    def __exit__(self, *_: object) -> None:
        now = asyncio.get_running_loop().time()
        for deadline, left in self._left.items():
            if deadline in self._deadlines:
                deadline.reschedule(now + left)


def _implementation(settings: ServerSettings) -> Any:
    import mcp_types as types

    return types.Implementation(name=settings.client_name, version=settings.client_version)
