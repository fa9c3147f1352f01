"""A prompt as one text: text and context joined, links read through the client, images and audio described."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, Turn
from tests.roles.raw_client import CWD, Raw, new_session, prompt_and_wait, raw_connection

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


def link(uri: str, **members: Any) -> dict[str, Any]:
    """Return a link as an editor sends it."""
    return {"type": "resource_link", "uri": uri, "name": uri.rpartition("/")[2], **members}


async def merged_prompt(
    *blocks: Any, capabilities: Any = None, offers: Any = None, dialect: str = "v1"
) -> tuple[str, Raw]:
    """Return the agent's text of a prompt, and the client."""
    agent = Agent("merging", image=True, audio=True, dialect=dialect)
    received: list[str] = []

    @agent.prompt
    async def answer(turn: Turn) -> None:
        received.append(await turn.prompt_text())
        assert len(turn.prompt) == len(blocks)  # the raw prompt stays as it was

    async with raw_connection(agent, dialect, capabilities) as client:
        if offers is not None:
            client.answers["fs/read_text_file"] = offers
        session = await new_session(client, additionalDirectories=["/usr/share/notes"])
        assert "result" in await prompt_and_wait(client, session, *blocks)
    return received[0], client


@pytest.mark.item("003-19")
@pytest.mark.parametrize("dialect", ["v1", "banjo"])
async def test_text_and_context_are_joined_and_links_are_read_through_the_client(dialect: str) -> None:
    context = {"uri": f"file://{CWD}/a.zig#L42:50", "text": "const a = 1;\n", "mimeType": "text/zig"}
    text, client = await merged_prompt(
        "Compare",
        {"type": "resource", "resource": context},
        "with",
        link(f"file://{CWD}/b%20c.zig"),
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png", "uri": "file:///shot.png"},
        {"type": "audio", "data": "aGVsbG8h", "mimeType": "audio/wav"},
        capabilities=FILES,
        offers=lambda params: {"content": f"text of {params['path']}\n"},
        dialect=dialect,
    )
    assert text == (
        "Compare\n\n"
        f"[context: file://{CWD}/a.zig#L42:50]\nconst a = 1;\n[end of context]\n\n"
        "with\n\n"
        f"[context: file://{CWD}/b%20c.zig]\ntext of {CWD}/b c.zig\n[end of context]\n\n"
        "[image: file:///shot.png, image/png, 5 bytes]\n\n"
        "[audio: audio/wav, 6 bytes]"
    )
    [asked] = client.params_of("fs/read_text_file")
    assert asked["path"] == f"{CWD}/b c.zig"


@pytest.mark.item("003-19")
async def test_links_are_described_if_the_client_offers_no_files() -> None:
    named = link(f"file://{CWD}/a.py", title="The start", mimeType="text/x-python", size=12, description="main")
    text, client = await merged_prompt("See", named)
    assert text == f"See\n\n[link: The start, file://{CWD}/a.py, text/x-python, 12 bytes, main]"
    assert client.params_of("fs/read_text_file") == []


@pytest.mark.parametrize(
    ("fragment", "line", "limit"),
    [("#L3:5", 3, 3), ("#L3", 3, 1), ("#L3-5", 3, 3), ("#L3-L5", 3, 3), ("#L5:3", 5, 1), ("#top", None, None)],
)
async def test_a_link_to_lines_reads_these_lines(fragment: str, line: int | None, limit: int | None) -> None:
    asked: list[Any] = []

    def offers(params: Any) -> Any:
        asked.append((params.get("line"), params.get("limit")))
        return {"content": "three\n"}

    text, _ = await merged_prompt(link(f"file://{CWD}/a.py{fragment}"), capabilities=FILES, offers=offers)
    assert text == f"[context: file://{CWD}/a.py{fragment}]\nthree\n[end of context]"
    assert asked == [(line, limit)]


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        f"file://{CWD}/../secret",
        f"file://{CWD}-other/a.py",
        "file://elsewhere/home/user/project/a.py",
        "https://example.org/a.py",
        "file:relative.py",
        "file:///home/user/project/a%00.py",
        "file://[broken",
    ],
)
async def test_nothing_outside_the_sessions_folders_is_read(uri: str) -> None:
    text, client = await merged_prompt(link(uri), capabilities=FILES, offers=lambda _: {"content": "secret"})
    assert text.startswith("[link: ")
    assert uri in text
    assert client.params_of("fs/read_text_file") == []


async def test_additional_folders_are_the_sessions_own() -> None:
    uri = "file:///usr/share/notes/a.md"
    text, _ = await merged_prompt(link(uri), capabilities=FILES, offers=lambda _: {"content": "a note"})
    assert text == f"[context: {uri}]\na note\n[end of context]"


async def test_a_file_that_the_client_cannot_read_is_described_with_the_reason() -> None:
    text, _ = await merged_prompt(link(f"file://{CWD}/gone.py"), capabilities=FILES)  # the client refuses
    assert text.startswith(f"[link: gone.py, file://{CWD}/gone.py; not read: ")


@pytest.mark.item("003-19")
async def test_an_attachment_of_a_draft_prompt_is_read_like_a_link() -> None:
    agent = Agent("merging")
    received: list[str] = []

    @agent.prompt
    async def answer(turn: Turn) -> None:
        received.append(await turn.prompt_text())

    async with raw_connection(agent, "draft", {"fs": {"read": True, "write": True}}) as client:
        client.answers["fs/read_text_file"] = lambda _: {"content": "the text", "encoding": "utf-8"}
        session = (await client.result("session/new", {"workingDirectory": CWD}))["sessionId"]
        content = [{"type": "text", "text": "Read"}]
        asked = {"sessionId": session, "content": content, "attachments": [{"path": "notes.md"}]}
        await client.result("session/prompt", asked)
    assert received == [f"Read\n\n[context: file://{CWD}/notes.md]\nthe text\n[end of context]"]
