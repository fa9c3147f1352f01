"""An MCP server whose tools drive ACP agents, with the transcript of each session as a resource.

The caller gets one line of progress for each step. A turn that takes longer than the call answers `running`. The SDK
reads the annotations of the tools at run time, so this module does not postpone them.
"""

from collections.abc import Callable
from typing import Any

from dragoman.bridge.mcp.agent_sessions import ASKING, DEFAULT_WAIT, AgentSessions, DrivenSession, prompt_blocks
from dragoman.errors import DragomanError

INSTRUCTIONS = """\
Drive coding agents. `open` a session, then `prompt` it. If the state is `running`, call `wait`. If it is `asking`, the
agent needs permission: ask your user, then call `answer` with the id of the question and an option. Do not decide for
your user."""


def build_agent_server(driver: AgentSessions) -> Any:
    """Return the MCPServer of the SDK."""
    from mcp.server.mcpserver.exceptions import ResourceNotFoundError

    from dragoman.mcp.offers import sdk_server, with_readable_errors

    server = sdk_server("dragoman", instructions=INSTRUCTIONS)
    for tool in (*_session_tools(driver), *_turn_tools(driver)):
        server.add_tool(with_readable_errors(tool))

    @server.resource("acp://sessions/{session}/transcript", mime_type="text/markdown")  # type: ignore[untyped-decorator]
    def transcript(session: str) -> str:
        """The transcript of a session."""
        try:
            entries = driver.find(session).entries()
        except DragomanError as error:
            raise ResourceNotFoundError(str(error)) from error
        return "\n\n".join(f"**{entry['role']}**: {entry['text']}" for entry in entries)

    return server


def _session_tools(driver: AgentSessions) -> list[Callable[..., Any]]:
    async def agents() -> dict[str, Any]:
        """List the agents that can be used."""
        return {
            "agents": [
                {"name": name, "command": agent.command, "default": name == driver.default}
                for name, agent in driver.agents.items()
            ]
        }

    async def open(cwd: str, agent: str = "", mode: str = "", model: str = "") -> dict[str, Any]:
        """Start an agent and open a session in the folder `cwd`, an absolute path."""
        opened = await driver.open(agent, cwd, mode, model)
        return {"session": opened.id, "agent": opened.agent_name}

    async def sessions(cwd: str = "") -> dict[str, Any]:
        """List the open sessions, all or those in a folder."""
        found = [each for each in driver.by_id.values() if not cwd or each.session.cwd == cwd]
        return {"sessions": [each.report() | {"agent": each.agent_name, "cwd": each.session.cwd} for each in found]}

    async def read(session: str, after: int = 0) -> dict[str, Any]:
        """Read the transcript of a session after a position; `next` is the position for the next call."""
        entries = driver.find(session).entries(after)
        return {"entries": entries, "next": entries[-1]["position"] if entries else after}

    async def close(session: str) -> dict[str, Any]:
        """Close a session and end its agent."""
        await driver.close(session)
        return {"closed": session}

    return [agents, open, sessions, read, close]


def _turn_tools(driver: AgentSessions) -> list[Callable[..., Any]]:
    from mcp.server.mcpserver import Context

    async def prompt(
        ctx: Context, session: str, text: str, files: list[str] | None = None, wait: float = DEFAULT_WAIT
    ) -> dict[str, Any]:
        """Send a prompt, with links to files, and wait up to `wait` seconds: then it is done, running or asking."""
        driven = driver.find(session)
        driven.start(prompt_blocks(text, files or [], driven.session.cwd))
        return await _wait(driven, wait, ctx)

    async def wait(ctx: Context, sessions: list[str], wait: float = DEFAULT_WAIT) -> dict[str, Any]:
        """Wait until the first of these sessions is done or asks for permission."""
        if len(sessions) == 1:
            return await _wait(driver.find(sessions[0]), wait, ctx)
        return (await driver.wait_any(sessions, wait)).report()

    async def answer(session: str, question: str, option: str) -> dict[str, Any]:
        """Answer the question of a session that is asking, with the id of one of its options."""
        driven = driver.find(session)
        driven.answer(question, option)
        await driven.wait_answered()
        return driven.report()

    async def cancel(session: str) -> dict[str, Any]:
        """Cancel the running turn of a session."""
        driven = driver.find(session)
        await driven.cancel()
        return driven.report()

    return [prompt, wait, answer, cancel]


async def _wait(driven: DrivenSession, seconds: float, ctx: Any) -> dict[str, Any]:
    """Wait with progress. If the host can ask its user, questions are asked there."""
    steps = 0

    async def on_line(line: str) -> None:
        nonlocal steps
        steps += 1
        await ctx.report_progress(steps, message=line)

    await driven.wait(seconds, on_line)
    while driven.state == ASKING and await _elicit(driven, ctx):
        await driven.wait_answered()
        await driven.wait(seconds, on_line)
    return driven.report()


async def _elicit(driven: DrivenSession, ctx: Any) -> bool:
    """Ask the user of the host; return whether the question was answered."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    question, capabilities = driven.question, ctx.client_capabilities
    is_modern = getattr(ctx.session, "protocol_version", "") in MODERN_PROTOCOL_VERSIONS
    if question is None or is_modern or getattr(capabilities, "elicitation", None) is None:
        return False
    names = {name: id for id, name in question.options.items()}
    schema = {
        "type": "object",
        "properties": {"option": {"type": "string", "title": "Your decision", "enum": list(names)}},
        "required": ["option"],
    }
    try:
        result = await ctx.session.elicit_form(question.text, schema)
    except Exception:  # the host cannot ask after all: the model gets the question
        return False
    chosen = names.get(str((result.content or {}).get("option"))) if result.action == "accept" else question.refusal
    if chosen is None or driven.question is not question:
        return False
    driven.answer(question.id, chosen)
    return True
