"""Attachments: what is no regular file is refused or sent as a link, and never blocks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman import Kind, ProtocolError
from dragoman.cli.connect.prompt import build_prompt, file_block
from dragoman.schema.content import EmbeddedResource, ImageContent, ResourceLink
from dragoman.schema.initialize import AgentCapabilities, PromptCapabilities

TAKES = AgentCapabilities(
    prompt_capabilities=PromptCapabilities(image=True, audio=True, embedded_context=True),
)


def test_a_file_is_attached_in_its_best_form(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.png").write_bytes(b"\x89PNG")
    _, text, image = build_prompt("see @a.txt and @b.png", str(tmp_path), TAKES)
    assert isinstance(text, EmbeddedResource)
    assert isinstance(image, ImageContent)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["pipe.png", "pipe.wav"])
def test_a_named_pipe_with_an_image_name_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ProtocolError, match="not a regular file") as refused:
        build_prompt(f"see @{name}", str(tmp_path), TAKES)
    assert refused.value.kind == Kind.CAPABILITY_UNSUPPORTED


@pytest.mark.timeout(60)
def test_a_named_pipe_or_a_folder_is_attached_as_a_link(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        assert isinstance(file_block(str(path), TAKES), ResourceLink)
