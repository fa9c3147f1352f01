"""Every example agent: in memory, as a process, and through two translated dialects, with one expectation each.

`but` has the result in a dialect that does not support the feature.
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
from tests.examples.run_example import EXAMPLES, MEMORY, STDIO, Client, Connected, or_kind, run_agent

UNSUPPORTED = "capability_unsupported"


class Case(NamedTuple):
    """An example agent, what its client does, and the result."""

    agent: str
    client: Client
    dialects: tuple[str, str]
    expected: Any
    but: Mapping[str, Any] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})
    note: str = ""  # distinguishes cases of one agent


def ask(text: str, *, then: str = "") -> Client:
    """One prompt in a new session; `then` names a file that may exist afterwards."""

    async def client(connected: Connected) -> Any:
        answer = await or_kind((await connected.remote.open_session(cwd=str(connected.folder))).ask(text))
        return (answer, (connected.folder / then).exists()) if then else answer

    return client


async def read_messages(connected: Connected) -> list[tuple[str, str]]:
    session = await connected.remote.open_session(cwd=str(connected.folder))
    await session.ask("go")
    return [(message.role, message.text) for message in session.transcript.messages if message.role != "user"]


async def follow_plan(connected: Connected) -> list[str]:
    session = await connected.remote.open_session(cwd=str(connected.folder))
    async with session.prompt("go") as turn:
        plans = [update.entries async for update in turn if hasattr(update, "entries")]
    return [" ".join(entry.status for entry in entries) for entries in plans]


async def set_options(connected: Connected) -> list[Any]:
    session = await connected.remote.open_session(cwd=str(connected.folder))
    option_ids = [option.id for option in session.options]
    commands: list[list[str]] = []

    def note(update: Any) -> None:
        if isinstance(update, AvailableCommandsUpdate):
            commands.append([command.name for command in update.available_commands])

    session.on_update = note
    await session.set_mode("plan")
    await session.set_option("model", "opus")
    await session.set_option("style", "verbose")
    refused = await or_kind(session.set_option("max_tokens", "many"))
    answers = [await session.ask("how?"), await session.ask("and now?")]
    return [sorted(option_ids), refused, answers, commands]


async def ask_responders(connected: Connected) -> list[str]:
    session = await connected.remote.open_session(cwd=str(connected.folder))
    answers = [await session.ask("hi")]
    await session.set_option("route", "duet")
    await session.set_option("primary_agent", "codex")
    answers.append(await session.ask("hi"))
    following = await connected.remote.open_session(cwd=str(connected.folder))
    answers.append(await following.ask("hi"))
    await following.set_option("auto_resume", "off")
    fresh = await connected.remote.open_session(cwd=str(connected.folder))
    return [*answers, await fresh.ask("hi")]


async def send_blocks(connected: Connected) -> str:
    (connected.folder / "poem.txt").write_text("one\ntwo\nthree\n")
    session = await connected.remote.open_session(cwd=str(connected.folder))
    poem = ResourceLink(uri=f"file://{connected.folder}/poem.txt#L2:3", name="poem.txt")
    picture = ImageContent(data="aGVsbG8=", mime_type="image/png")
    answers = await session.ask([TextContent(text="Look:"), poem, picture])
    return answers.replace(str(connected.folder), "HERE")


async def log_in(connected: Connected) -> list[Any]:
    """An official client sends no credentials, so the token method fails; the guest method needs none."""
    remote = connected.remote
    STATES.clear()
    answers = [await or_kind(remote.open_session(cwd=str(connected.folder)))]
    answers.append(await or_kind(remote.authenticate("token", {"token": "s3cret"})))
    await remote.authenticate("guest")
    session = await remote.open_session(cwd=str(connected.folder))
    answers.append(await session.ask("hello"))
    answers.append(await or_kind(remote.logout()))
    answers.append(await or_kind(session.ask("hello")))
    return [*answers, list(STATES)]


STATES: list[str] = []  # of the login, as the client receives them


async def use_sessions(connected: Connected) -> list[Any]:
    remote, here = connected.remote, str(connected.folder)
    session = await remote.open_session(cwd=here, directories=["/opt"], system_prompt="be brief")
    answers: list[Any] = [await session.ask("one")]
    override = SystemPrompt(mode="override", content=[TextContent(text="be kind")])
    other = await or_kind(remote.open_session(cwd=here, system_prompt=override))
    answers.append(other if isinstance(other, str) else await other.ask("one"))
    fork = await or_kind(remote.fork_session(session.id, cwd=here))
    answers.append(fork if isinstance(fork, str) else await fork.ask("two"))
    answers.append(await or_kind(remote.delete_session(session.id)))
    listed = await or_kind(remote.list_sessions())
    return [*answers, listed if isinstance(listed, str) else len(listed.sessions)]


async def count_prompts(connected: Connected) -> list[Any]:
    session = await connected.remote.open_session(cwd=str(connected.folder))
    answers: list[Any] = [await session.ask("hello"), await session.ask("a secret"), await session.ask("hello")]
    return [*answers, (await connected.remote.request("_example/counts", {}))["session/prompt"]]


async def read_usage(connected: Connected) -> tuple[list[str], int | None]:
    session = await connected.remote.open_session(cwd=str(connected.folder))
    async with session.prompt("go") as turn:
        answers = [type(update).__name__ async for update in turn]
    return list(dict.fromkeys(answers)), turn.usage.input_tokens if turn.usage else None


async def cancel_build(connected: Connected) -> list[Any]:
    session = await connected.remote.open_session(cwd=str(connected.folder))
    texts: list[str] = []
    async with session.prompt("build") as turn:
        async for update in turn:
            if getattr(update, "status", None) == "in_progress":
                turn.cancel()
            if isinstance(update, AgentMessageChunk):
                texts.append(getattr(update.content, "text", ""))
    [call] = session.tool_calls.values()
    return [turn.stop_reason, texts, call.status in ("failed", "cancelled")]


async def log_in_with_form(connected: Connected) -> list[Any]:
    remote = connected.remote
    answers: list[Any] = [await or_kind(remote.authenticate("browser"))]
    session = await or_kind(remote.open_session(cwd=str(connected.folder)))
    return [*answers, session if isinstance(session, str) else await session.ask("hi")]


def answer_form(question: CreateElicitationParams) -> Any:
    """Accept every link and fill in every form."""
    return True if question.mode == "url" else {"name": "Ada", "language": "spanish"}


async def set_providers(connected: Connected) -> list[Any]:
    remote = connected.remote
    result = await or_kind(
        remote.set_provider("spare", api_type="openai", base_url="https://b.example", headers={"k": "v"})
    )
    refused = await or_kind(remote.disable_provider("main"))
    return [result, refused, await (await remote.open_session(cwd=str(connected.folder))).ask("where?")]


CONTEXT = "[context: file://HERE/poem.txt#L2:3]\ntwo\nthree\n[end of context]"
RESPONSES = [
    "claude: Certainly, hi. (answer 1) ",
    "codex: Done, hi. (answer 2) claude: Certainly, hi. (answer 3) ",
    "codex: Done, hi. (answer 4) claude: Certainly, hi. (answer 5) ",
    "claude: Certainly, hi. (answer 1) ",
]
SETTINGS = "model=opus, style=verbose, color=True, max_tokens=4096"
SETTINGS_RESULT = ["invalid_params", [f"plan: {SETTINGS}", f"default: {SETTINGS}"], [["approve"]]]
THOUGHT = ("thought", "Both languages at the same time.")
MAIN_PROVIDER = "main at https://main.example with 0 headers. "
WORKSPACE: dict[str, Any] = {"workspace": WorkspaceAccess()}
ALLOWED = {**WORKSPACE, "permission": "allow"}
ANSWERED = {"elicit": answer_form}

CASES = [
    Case(
        "messages",
        read_messages,
        ("banjo", "crow"),
        [THOUGHT, ("agent", "one two three"), ("agent", "uno dos tres")],
        but={"crow": [THOUGHT, ("agent", "one uno two dos threetres")]},
    ),
    Case(
        "plan",
        follow_plan,
        ("draft", "2025.1"),
        [
            "pending pending",
            "in_progress pending",
            "completed pending",
            "completed pending pending",
            "completed in_progress pending",
            "completed completed pending",
            "completed completed in_progress",
            "completed completed completed",
        ],
    ),
    Case(
        "ask_permission",
        ask("touch made", then="made"),
        ("draft", "crow"),
        ("It ended with 0.", True),
        options=ALLOWED,
        note="allowed",
    ),
    Case(
        "ask_permission",
        ask("touch made", then="made"),
        ("draft", "crow"),
        ("Not allowed.", False),
        options=WORKSPACE,
        note="denied",
    ),
    Case("cancellation", cancel_build, ("draft", "crow"), ["cancelled", ["I removed the temporary files."], True]),
    Case(
        "forms",
        ask("hello"),
        ("banjo", "draft"),
        "Hello, Ada. Thank you.",
        but={"draft": UNSUPPORTED},
        options=ANSWERED,
    ),
    Case(
        "forms_before_session",
        log_in_with_form,
        ("banjo", "draft"),
        [None, "Hola!"],
        but={"draft": ["auth_required", "auth_required"]},
        options=ANSWERED,
    ),
    Case(
        "files_and_terminals",
        ask("some words"),
        ("draft", "2025.1"),
        "some words: 2 words (yours)",
        options=WORKSPACE,
        note="client",
    ),
    Case("files_and_terminals", ask("some words"), ("banjo", "crow"), "some words: 2 words (mine)", note="own"),
    Case(
        "prompt_text",
        send_blocks,
        ("draft", "2025.1"),
        f"3 blocks:\nLook:\n\n{CONTEXT}\n\n[image: image/png, 5 bytes]",
        options=WORKSPACE,
    ),
    Case(
        "options",
        set_options,
        ("banjo", "draft"),
        [["color", "max_tokens", "model", "style"], *SETTINGS_RESULT],
        but={"draft": [[], *SETTINGS_RESULT]},
    ),  # a draft client gets no list of options
    Case("responders", ask_responders, ("banjo", "draft"), RESPONSES),
    Case(
        "usage",
        read_usage,
        ("banjo", "draft"),
        (["UsageUpdate", "Notice", "CompactionUpdate", "CompactionSummaryChunk", "AgentMessageChunk"], 1200),
        but={"banjo": (["UsageUpdate", "AgentMessageChunk"], 1200), "draft": (["AgentMessageChunk"], 1200)},
    ),
    Case(
        "session_hooks",
        use_sessions,
        ("banjo", "draft"),
        [
            "1 pages in 2 folders; instructions: be brief",
            "1 pages in 1 folders; instructions: be kind",
            "2 pages in 1 folders; instructions: be brief",
            None,
            2,
        ],
        but={
            "draft": [
                "1 pages in 1 folders; instructions: be brief",
                UNSUPPORTED,
                UNSUPPORTED,
                UNSUPPORTED,
                UNSUPPORTED,
            ]
        },
    ),
    Case(
        "login",
        log_in,
        ("draft", "2025.1"),
        [
            "auth_required",
            "auth_required",
            "Welcome.",
            None,
            "auth_required",
            ["unauthenticated", "authenticated", "unauthenticated"],
        ],
        but={
            dialect: ["auth_required", "auth_required", "Welcome.", UNSUPPORTED, "Welcome.", []]
            for dialect in ("draft", "2025.1")
        },
        options={"on": {"auth/status_update": lambda status: STATES.append(status.state)}},
    ),
    Case("middleware", count_prompts, ("draft", "crow"), ["message 1", "", "message 3", 3]),
    Case(
        "providers",
        set_providers,
        ("banjo", "draft"),
        [None, "invalid_params", f"{MAIN_PROVIDER}spare at https://b.example with 1 headers. "],
        but={"draft": [UNSUPPORTED, UNSUPPORTED, MAIN_PROVIDER]},
    ),
]


@pytest.mark.parametrize(
    ("case", "way"),
    [
        pytest.param(case, way, id="-".join(filter(None, (case.agent, case.note, way))))
        for case in CASES
        for way in (MEMORY, STDIO, *case.dialects)
    ],
)
def test_an_example_agent_gives_the_same_result_in_every_way(case: Case, way: str, tmp_path: Path) -> None:
    answers = run_agent(case.agent, case.client, way, tmp_path, **case.options)
    assert answers == case.but.get(way, case.expected)


def test_every_example_agent_is_tested_here_or_with_a_client() -> None:
    """`locations` and `terminal_login_agent` are tested with their example clients."""
    agents = {path.stem for path in EXAMPLES.glob("*.py") if "agent.run()" in path.read_text()}
    assert agents == {case.agent for case in CASES} | {"locations", "terminal_login_agent"}
