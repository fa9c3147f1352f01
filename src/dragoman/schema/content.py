"""Content blocks, of which prompts, messages and tool calls consist (docs/protocol/content.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dragoman.schema.base import UNSET, Maybe, Model, Unknown


class Audience:
    """For whom a block is meant (members of `Annotations.audience`)."""

    ASSISTANT = "assistant"
    USER = "user"


class Annotations(Model, kw_only=True):
    """Hints on how to show or weigh a block."""

    audience: Maybe[list[str]] = UNSET
    last_modified: Maybe[str] = UNSET
    priority: Maybe[float] = UNSET


class TextContent(Model, kw_only=True, tag_field="type", tag="text"):
    """Plain text or Markdown."""

    text: str
    annotations: Maybe[Annotations] = UNSET


class ImageContent(Model, kw_only=True, tag_field="type", tag="image"):
    """An image, base64."""

    data: str
    mime_type: str
    uri: Maybe[str] = UNSET
    annotations: Maybe[Annotations] = UNSET


class AudioContent(Model, kw_only=True, tag_field="type", tag="audio"):
    """Sound, base64."""

    data: str
    mime_type: str
    annotations: Maybe[Annotations] = UNSET


class Icon(Model, kw_only=True):
    """A picture for a resource."""

    src: str
    mime_type: Maybe[str] = UNSET
    sizes: Maybe[list[str]] = UNSET
    theme: Maybe[str] = UNSET


class ResourceLink(Model, kw_only=True, tag_field="type", tag="resource_link"):
    """A resource that the reader can fetch by itself."""

    name: str
    uri: str
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    mime_type: Maybe[str] = UNSET
    size: Maybe[int] = UNSET
    icons: Maybe[list[Icon]] = UNSET
    annotations: Maybe[Annotations] = UNSET


class ResourceContents(Model, kw_only=True):
    """The contents of an embedded resource: `text`, or `blob` in base64."""

    uri: str
    mime_type: Maybe[str] = UNSET
    text: Maybe[str] = UNSET
    blob: Maybe[str] = UNSET

    @property
    def form(self) -> str:
        """Which of the official forms this is: "text" or "blob"."""
        return "blob" if isinstance(self.blob, str) and not isinstance(self.text, str) else "text"


class EmbeddedResource(Model, kw_only=True, tag_field="type", tag="resource"):
    """A resource sent along whole."""

    resource: ResourceContents
    annotations: Maybe[Annotations] = UNSET


if TYPE_CHECKING:
    ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | Unknown
else:
    ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
