"""Every example agent: in memory, as a process, and through two translated dialects, with one expectation each.

`but` has what becomes of a feature in a dialect that cannot say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from dragoman import WorkspaceAccess
from dragoman.schema.content import ImageContent, ResourceLink, TextContent
from dragoman.schema.elicitation import CreateElicitationParams
from dragoman.schema.session import SystemPrompt
from dragoman.schema.update import AgentMessageChunk, AvailableCommandsUpdate
from tests.examples.run_example import EXAMPLES, MEMORY, STDIO, Met, Scene, or_kind, play

UNSUPPORTED = "capability_unsupported"


class Case(NamedTuple):
    """An example agent, what its client does, and what comes of it."""

    agent: str
    scene: Scene
    dialects: tuple[str, str]
    expected: Any
    but: Mapping[str, Any] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})
    note: str = ""  # tells cases of one agent apart


def asking(text: str, *, then: str = "") -> Scene:
    """One prompt in a new session; `then` names a file that is there afterwards, or not."""

    async def scene(met: Met) -> Any:
        said = await or_kind((await met.remote.open_session(cwd=str(met.folder))).ask(text))
        return (said, (met.folder / then).exists()) if then else said

    return scene


async def tell(met: Met) -> list[tuple[str, str]]:
    session = await met.remote.open_session(cwd=str(met.folder))
    await session.ask("go")
    return [(message.role, message.text) for message in session.transcript.messages if message.role != "user"]


async def plan(met: Met) -> list[str]:
    session = await met.remote.open_session(cwd=str(met.folder))
    async with session.prompt("go") as turn:
        plans = [update.entries async for update in turn if hasattr(update, "entries")]
    return [" ".join(entry.status for entry in entries) for entries in plans]


async def choose(met: Met) -> list[Any]:
    session = await met.remote.open_session(cwd=str(met.folder))
    shown = [option.id for option in session.options]
    commands: list[list[str]] = []

    def note(update: Any) -> None:
        if isinstance(update, AvailableCommandsUpdate):
            commands.append([command.name for command in update.available_commands])

    session.on_update = note
    await session.set_mode("plan")
    await session.set_option("model", "opus")
    await session.set_option("style", "verbose")
    refused = await or_kind(session.set_option("max_tokens", "many"))
    heard = [await session.ask("how?"), await session.ask("and now?")]
    return [sorted(shown), refused, heard, commands]


async def sing(met: Met) -> list[str]:
    session = await met.remote.open_session(cwd=str(met.folder))
    heard = [await session.ask("hi")]
    await session.set_option("route", "duet")
    await session.set_option("primary_agent", "codex")
    heard.append(await session.ask("hi"))
    following = await met.remote.open_session(cwd=str(met.folder))
    heard.append(await following.ask("hi"))
    await following.set_option("auto_resume", "off")
    fresh = await met.remote.open_session(cwd=str(met.folder))
    return [*heard, await fresh.ask("hi")]


async def read(met: Met) -> str:
    (met.folder / "poem.txt").write_text("one\ntwo\nthree\n")
    session = await met.remote.open_session(cwd=str(met.folder))
    poem = ResourceLink(uri=f"file://{met.folder}/poem.txt#L2:3", name="poem.txt")
    picture = ImageContent(data="aGVsbG8=", mime_type="image/png")
    heard = await session.ask([TextContent(text="Look:"), poem, picture])
    return heard.replace(str(met.folder), "HERE")


async def enter(met: Met) -> list[Any]:
    """An official agent is never told credentials, so the token does not help; a visit needs none."""
    remote, news = met.remote, NEWS
    news.clear()
    heard = [await or_kind(remote.open_session(cwd=str(met.folder)))]
    heard.append(await or_kind(remote.authenticate("token", {"token": "let me in"})))
    await remote.authenticate("visit")
    session = await remote.open_session(cwd=str(met.folder))
    heard.append(await session.ask("hello"))
    heard.append(await or_kind(remote.logout()))
    heard.append(await or_kind(session.ask("hello")))
    return [*heard, list(news)]


NEWS: list[str] = []  # of the login, as clients hear them


async def borrow(met: Met) -> list[Any]:
    remote, here = met.remote, str(met.folder)
    session = await remote.open_session(cwd=here, directories=["/opt"], system_prompt="be brief")
    heard: list[Any] = [await session.ask("one")]
    override = SystemPrompt(mode="override", content=[TextContent(text="be kind")])
    other = await or_kind(remote.open_session(cwd=here, system_prompt=override))
    heard.append(other if isinstance(other, str) else await other.ask("one"))
    fork = await or_kind(remote.fork_session(session.id, cwd=here))
    heard.append(fork if isinstance(fork, str) else await fork.ask("two"))
    heard.append(await or_kind(remote.delete_session(session.id)))
    listed = await or_kind(remote.list_sessions())
    return [*heard, listed if isinstance(listed, str) else len(listed.sessions)]


async def count(met: Met) -> list[Any]:
    session = await met.remote.open_session(cwd=str(met.folder))
    heard: list[Any] = [await session.ask("hello"), await session.ask("a secret"), await session.ask("hello")]
    return [*heard, (await met.remote.request("_chain/counts", {}))["session/prompt"]]


async def keep_books(met: Met) -> tuple[list[str], int | None]:
    session = await met.remote.open_session(cwd=str(met.folder))
    async with session.prompt("go") as turn:
        heard = [type(update).__name__ async for update in turn]
    return list(dict.fromkeys(heard)), turn.usage.input_tokens if turn.usage else None


async def dig(met: Met) -> list[Any]:
    session = await met.remote.open_session(cwd=str(met.folder))
    said: list[str] = []
    async with session.prompt("dig") as turn:
        async for update in turn:
            if getattr(update, "status", None) == "in_progress":
                turn.cancel()
            if isinstance(update, AgentMessageChunk):
                said.append(getattr(update.content, "text", ""))
    [call] = session.tool_calls.values()
    return [turn.stop_reason, said, call.status in ("failed", "cancelled")]


async def call_in(met: Met) -> list[Any]:
    remote = met.remote
    heard: list[Any] = [await or_kind(remote.authenticate("browser"))]
    session = await or_kind(remote.open_session(cwd=str(met.folder)))
    return [*heard, session if isinstance(session, str) else await session.ask("hi")]


def reply(question: CreateElicitationParams) -> Any:
    """A user who agrees to every link, and fills in every form."""
    return True if question.mode == "url" else {"name": "Ada", "language": "spanish"}


async def connect_models(met: Met) -> list[Any]:
    remote = met.remote
    told = await or_kind(
        remote.set_provider("spare", api_type="openai", base_url="https://b.example", headers={"k": "v"})
    )
    refused = await or_kind(remote.disable_provider("main"))
    return [told, refused, await (await remote.open_session(cwd=str(met.folder))).ask("where?")]


CONTEXT = "[context: file://HERE/poem.txt#L2:3]\ntwo\nthree\n[end of context]"
VOICES = [
    "claude: Certainly, hi. (answer 1) ",
    "codex: Done, hi. (answer 2) claude: Certainly, hi. (answer 3) ",
    "codex: Done, hi. (answer 4) claude: Certainly, hi. (answer 5) ",
    "claude: Certainly, hi. (answer 1) ",
]
SETTINGS = "model=opus, style=verbose, colour=True, max_tokens=4096"
CHOSEN = ["invalid_params", [f"plan: {SETTINGS}", f"default: {SETTINGS}"], [["approve"]]]
THOUGHT = ("thought", "Both languages at the same time.")
ONE_SWITCH = "main at https://main.example with 0 headers. "
LENT: dict[str, Any] = {"workspace": WorkspaceAccess()}
ALLOWED = {**LENT, "permission": "allow"}
ANSWERED = {"elicit": reply}

CASES = [
    Case("teller", tell, ("banjo", "crow"), [THOUGHT, ("agent", "one two three"), ("agent", "uno dos tres")],
         but={"crow": [THOUGHT, ("agent", "one uno two dos threetres")]}),
    Case("planner", plan, ("draft", "2025.1"), [
        "pending pending", "in_progress pending", "completed pending", "completed pending pending",
        "completed in_progress pending", "completed completed pending",
        "completed completed in_progress", "completed completed completed"]),
    Case("careful", asking("touch made", then="made"), ("draft", "crow"), ("It ended with 0.", True), options=ALLOWED,
         note="allowed"),
    Case("careful", asking("touch made", then="made"), ("draft", "crow"), ("Then I leave it.", False), options=LENT,
         note="denied"),
    Case("tidy", dig, ("draft", "crow"), ["cancelled", ["I put the shovel away."], True]),
    Case("curious", asking("hello"), ("banjo", "draft"), "Hello, Ada. Thank you.", but={"draft": UNSUPPORTED},
         options=ANSWERED),
    Case("concierge", call_in, ("banjo", "draft"), [None, "Hola!"], but={"draft": ["auth_required", "auth_required"]},
         options=ANSWERED),
    Case("scribe", asking("some words"), ("draft", "2025.1"), "some words: 2 words (yours)", options=LENT, note="lent"),
    Case("scribe", asking("some words"), ("banjo", "crow"), "some words: 2 words (mine)", note="own"),
    Case("reader", read, ("draft", "2025.1"), f"3 blocks:\nLook:\n\n{CONTEXT}\n\n[image: image/png, 5 bytes]",
         options=LENT),
    Case("chooser", choose, ("banjo", "draft"),
         [["colour", "max_tokens", "model", "style"], *CHOSEN],
         but={"draft": [[], *CHOSEN]}),  # its sessions begin without a list of options
    Case("duet", sing, ("banjo", "draft"), VOICES),
    Case("bookkeeper", keep_books, ("banjo", "draft"),
         (["UsageUpdate", "Notice", "CompactionUpdate", "CompactionSummaryChunk", "AgentMessageChunk"], 1200),
         but={"banjo": (["UsageUpdate", "AgentMessageChunk"], 1200), "draft": (["AgentMessageChunk"], 1200)}),
    Case("librarian", borrow, ("banjo", "draft"), [
        "1 pages in 2 folders; instructions: be brief", "1 pages in 1 folders; instructions: be kind",
        "2 pages in 1 folders; instructions: be brief", None, 2],
        but={"draft": [
            "1 pages in 1 folders; instructions: be brief", UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED]}),
    Case("doorman", enter, ("draft", "2025.1"), [
        "auth_required", "auth_required", "Welcome.", None, "auth_required",
        ["unauthenticated", "authenticated", "unauthenticated"]],
        but={dialect: ["auth_required", "auth_required", "Welcome.", UNSUPPORTED, "Welcome.", []]
             for dialect in ("draft", "2025.1")},
        options={"on": {"auth/status_update": lambda news: NEWS.append(news.state)}}),
    Case("chain", count, ("draft", "crow"), ["message 1", "", "message 3", 3]),
    Case("switchboard", connect_models, ("banjo", "draft"), [
        None, "invalid_params", f"{ONE_SWITCH}spare at https://b.example with 1 headers. "],
        but={"draft": [UNSUPPORTED, UNSUPPORTED, ONE_SWITCH]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "way"),
    [
        pytest.param(case, way, id="-".join(filter(None, (case.agent, case.note, way))))
        for case in CASES
        for way in (MEMORY, STDIO, *case.dialects)
    ],
)
def test_an_example_does_what_it_shows_in_every_way(case: Case, way: str, tmp_path: Path) -> None:
    heard = play(case.agent, case.scene, way, tmp_path, **case.options)
    assert heard == case.but.get(way, case.expected)


def test_every_example_agent_is_met_here_or_by_a_client() -> None:
    """`guide` and `guarded` are met by the clients that are made for them."""
    agents = {path.stem for path in EXAMPLES.glob("*.py") if "agent.run()" in path.read_text()}
    assert agents == {case.agent for case in CASES} | {"guide", "guarded"}
