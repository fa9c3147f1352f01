"""Content blocks and contents of tool calls in forms that every client has: patches become diffs, and what is unknown
becomes text. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import UNSET

from dragoman.dialect.guesses import placeholder_text
from dragoman.dialect.narrow.git_patch import MalformedPatch, PatchSection, parse_patch
from dragoman.dialect.narrow.loss import Loss, LossReports
from dragoman.dialect.side_data import with_members, with_side_data
from dragoman.schema.base import Unknown
from dragoman.schema.content import Audience, ResourceLink, TextContent
from dragoman.schema.toolcall import Diff, FileChange, PatchDiff, ToolCallBlock

_AUDIENCES: Final = frozenset({Audience.USER, Audience.ASSISTANT})
_PATCH_FORMAT: Final = "git_patch"
_VERBS: Final = {"add": "added", "modify": "modified", "delete": "deleted", "move": "moved", "copy": "copied"}
_ORIGINS: Final = {"move": "renamed from", "copy": "copied from"}
_OPERATIONS: Final = frozenset({"add", "modify"})


def text_item(text: str) -> ToolCallBlock:
    """Return a text as the content of a tool call."""
    return ToolCallBlock(content=TextContent(text=text))


def narrow_block(block: Any, losses: LossReports) -> Any:
    """Return a content block without what only v2 has; an unknown one is text."""
    if type(block) is TextContent and block.annotations is UNSET:
        return block
    if type(block) is Unknown:
        losses.add(Loss.UNKNOWN_CONTENT, block.tag)
        return TextContent(text=placeholder_text(block.raw))
    if type(block) is ResourceLink and block.icons:
        losses.add(Loss.ICONS)
        block = with_members(block, icons=UNSET)
    annotations = block.annotations
    audience = annotations.audience if annotations else None
    if audience and not _AUDIENCES.issuperset(audience):
        known = [each for each in audience if each in _AUDIENCES]
        return with_members(block, annotations=with_members(annotations, audience=known or UNSET))
    return block


def narrow_item(item: Any, losses: LossReports) -> list[Any]:
    """Return one content of a tool call as such contents; a terminal of the agent stays as it is."""
    if type(item) is ToolCallBlock:
        block = narrow_block(item.content, losses)
        return [item if block is item.content else with_members(item, content=block)]
    if type(item) is PatchDiff:
        return list(_diffs(item, losses))
    if type(item) is Unknown:
        losses.add(Loss.UNKNOWN_CONTENT, item.tag)
        return [text_item(placeholder_text(item.raw))]
    return [item]


def changed_paths(content: list[Any]) -> list[str]:
    """Return the files that the patches among these contents change, in order."""
    paths = [
        change.path
        for item in content
        if type(item) is PatchDiff
        for change in item.changes
        if isinstance(change.path, str)
    ]
    return list(dict.fromkeys(paths))


# --- patches ------------------------------------------------------------------------------------------------------


def _diffs(item: PatchDiff, losses: LossReports) -> Iterator[Any]:
    patch = item.patch or None
    sections: list[PatchSection] = []
    if patch is not None:
        losses.add(Loss.PATCH)
        try:
            if patch.format == _PATCH_FORMAT:
                sections = parse_patch(patch.text)
        except MalformedPatch:
            pass
    changes = item.changes or [_change_of(section) for section in sections]
    for change in changes:
        if change.mime_type:
            losses.add(Loss.MIME_TYPE)
        if change.operation not in _OPERATIONS or change.file_type not in (UNSET, None, "text"):
            losses.add(Loss.FILE_OPERATION)
        yield from _change_items(change, _section_of(change, sections, len(changes)))
    if patch is not None and not sections and patch.text:
        fence = "`" * 4
        yield text_item(f"{fence}diff\n{patch.text.removesuffix(chr(10))}\n{fence}")


def _change_of(section: PatchSection) -> FileChange:
    old: Any = section.old_path if section.operation in _ORIGINS else UNSET
    return FileChange(operation=section.operation, path=section.path, old_path=old)


def _section_of(change: FileChange, sections: list[PatchSection], count: int) -> PatchSection | None:
    """Return the part of the patch about a change; agents write relative paths too, with or without a prefix."""
    path = change.path or ""
    for section in sections:
        if section.path == path:
            return section
    for section in sections:
        name = section.path.removeprefix("a/").removeprefix("b/")
        if name and path.endswith(f"/{name.lstrip('/')}"):
            return section
    return sections[0] if len(sections) == count == 1 else None


def _change_items(change: FileChange, section: PatchSection | None) -> Iterator[Any]:
    """Return the diffs of one file; a change that has no text is a line of text."""
    path = change.path or ""
    is_text = change.file_type in (UNSET, None, "text")
    if section is None or section.is_binary or not is_text:
        yield text_item(_change_line(change, "binary" if section is not None and section.is_binary else ""))
        return
    if change.operation == "add":
        yield Diff(path=path, old_text=None, new_text="".join(hunk.new_text for hunk in section.hunks))
        return
    if change.operation == "delete":
        old = "".join(hunk.old_text for hunk in section.hunks)
        yield with_side_data(Diff(path=path, old_text=old, new_text=""), operation="delete")
        return
    if change.operation in _ORIGINS or not section.hunks:
        yield text_item(_change_line(change))
    for hunk in section.hunks:
        yield Diff(path=path, old_text=hunk.old_text, new_text=hunk.new_text)


def _change_line(change: FileChange, file_type: str = "") -> str:
    """Return a line such as `modified (binary) /work/logo.png`."""
    kind = file_type or change.file_type
    words = [_VERBS.get(change.operation, change.operation)]
    words += [f"({kind})"] if kind and kind != "text" else []
    words += [change.path] if change.path else []
    if change.operation in _ORIGINS and change.old_path:
        words += [f"({_ORIGINS[change.operation]} {change.old_path})"]
    return " ".join(words)
