"""Files that go along with a prompt: what is no regular file is refused or goes as a link, and nobody waits for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman import Kind, ProtocolError
from dragoman.cli.connect.attachments import build_prompt, file_block
from dragoman.schema.content import EmbeddedResource, ImageContent, ResourceLink
from dragoman.schema.initialize import AgentCapabilities, PromptCapabilities

TAKES = AgentCapabilities(
    prompt_capabilities=PromptCapabilities(image=True, audio=True, embedded_context=True),
)


def test_a_file_goes_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.png").write_bytes(b"\x89PNG")
    _, text, image = build_prompt("see @a.txt and @b.png", str(tmp_path), TAKES)
    assert isinstance(text, EmbeddedResource)
    assert isinstance(image, ImageContent)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["pipe.png", "pipe.wav"])
def test_a_pipe_that_is_called_like_a_picture_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ProtocolError, match="no regular file") as refused:
        build_prompt(f"see @{name}", str(tmp_path), TAKES)
    assert refused.value.kind == Kind.CAPABILITY_UNSUPPORTED


@pytest.mark.timeout(60)
def test_a_pipe_or_a_folder_goes_as_a_link(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        assert isinstance(file_block(str(path), TAKES), ResourceLink)
