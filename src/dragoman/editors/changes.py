"""Changes of an editor's file: plan one, apply it, undo it. Nothing but the entry of one agent changes.

What was there before is kept in the user's own state folder. If the file is still as we left it, undo restores it byte
for byte; if somebody changed it since, undo changes only the entry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.config.config_file import NAME_PATTERN
from dragoman.config.private_files import JsonFile, as_config_faults, read_bytes, write_private
from dragoman.editors import blocks, json_edit
from dragoman.editors.jsonc import JsonFault
from dragoman.editors.launch import Launch
from dragoman.editors.settings_file import FileState, digest, read_file, replace_file
from dragoman.editors.table import EDITORS, JSON, Editor
from dragoman.errors import ConfigFault

# Changes that can be undone. Each keeps a copy of a settings file.
MAX_CHANGES = 20

# The newest Zed says "registry"; older ones said "extension" for the same.
_REGISTRY_KINDS = ("registry", "extension")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one file, before it is applied."""

    editor: str
    title: str  # the name of the entry
    file: FileState
    after: str | None  # None: the file is removed
    source: str | None = None  # the entry as it was; None if there was none

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return self.after == self.file.text


class AppliedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change that can be undone."""

    id: str
    time: str
    editor: str
    title: str
    path: str
    after: str  # digest of the text that we wrote
    existed: bool  # whether there was a file before
    source: str | None


class EditorEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry as an editor's file has it."""

    title: str
    kind: str = "custom"  # "registry": the editor installs the agent by its id; "block": a block of ours
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    mode: str = ""
    fault: str = ""  # why the entry cannot be used


def render_entry(editor: Editor, launch: Launch) -> str:
    """Return the entry as a text to copy."""
    value = editor.entry(launch)
    if editor.form == JSON:
        for key in reversed(editor.member_path(launch.title)):
            value = {key: value}
        return json_edit.render(value, "  ") + "\n"
    head, tail = editor.around
    return "\n".join(line for line in (head, *value, tail) if line) + "\n"


def plan_write(editor: Editor, launch: Launch, path: str) -> Change:
    """Plan to write the entry; raise ConfigFault if the file cannot be read or changed."""
    file = read_file(path)
    label = _label(editor, launch)
    with _Faults(path):
        if editor.form == JSON:
            keys = editor.member_path(label)
            text = file.text or ""
            source = json_edit.source_of(text, keys)
            after = _merge(editor, text, keys, launch)
        else:
            source = blocks.find_block(file.text or "", editor.form, label)
            after = blocks.set_block(file.text, editor.form, label, editor.entry(launch))
    return Change(editor=editor.name, title=label, file=file, after=after, source=source)


def plan_undo(change: AppliedChange, folder: str) -> Change:
    """Plan to take a change back."""
    file = read_file(change.path)
    if digest(file.text) == change.after:
        return Change(editor=change.editor, title=change.title, file=file, after=_read_copy(change, folder))
    editor = EDITORS[change.editor]
    text = file.text or ""
    with _Faults(change.path):
        if editor.form == JSON:
            keys = editor.member_path(change.title)
            after = (
                json_edit.remove_member(text, keys)
                if change.source is None
                else json_edit.restore_member(text, keys, change.source)
            )
        elif change.source is None:
            after = blocks.remove_block(text, editor.form, change.title)
        else:
            after = blocks.set_block(text, editor.form, change.title, change.source.splitlines())
    return Change(editor=change.editor, title=change.title, file=file, after=file.text if file.text is None else after)


def read_entries(editor: Editor, path: str) -> list[EditorEntry]:
    """Return the entries of a file; raise ConfigFault if it cannot be read."""
    text = read_file(path).text or ""
    if editor.form != JSON:
        labels = [label.partition(" ") for label in blocks.block_labels(text, editor.form)]
        return [EditorEntry(title=name, kind="block") for owner, _, name in labels if owner == editor.name]
    with _Faults(path):
        node = json_edit.find_member(text, editor.keys)
    if node is None:
        return []
    if not isinstance(node.value, dict):
        raise ConfigFault([f"{path}: {'.'.join(editor.keys)} is not an object in braces"])
    return [_read_entry(title, value) for title, value in node.value.items()]


# --- the history ----------------------------------------------------------------------------------------------


class History:
    """The changes that can be undone, in the user's state folder."""

    def __init__(self, state_folder: str) -> None:
        self.folder = os.path.join(state_folder, "editors")
        self._file = JsonFile(
            os.path.join(self.folder, "changes.json"), list[AppliedChange], [], "forget which changes can be undone"
        )

    def apply(self, change: Change, id: str, time: str) -> None:
        """Apply a change and remember how it is undone."""
        applied = AppliedChange(
            id=id,
            time=time,
            editor=change.editor,
            title=change.title,
            path=change.file.path,
            after=digest(change.after),
            existed=change.file.text is not None,
            source=change.source,
        )
        with as_config_faults(self.folder):
            if change.file.text is not None:
                write_private(_copy_path(self.folder, id), change.file.text.encode())
        # The record comes first: a change that is there can always be undone.
        self._file.edit(lambda changes: [*changes, applied])
        try:
            replace_file(change.file, change.after)
        except BaseException:
            self.forget(applied)
            raise
        for old in self._file.current()[:-MAX_CHANGES]:
            self.forget(old)

    def undo(self, applied: AppliedChange, change: Change) -> None:
        """Apply the plan that takes a change back, and forget it."""
        if not change.is_empty:
            replace_file(change.file, change.after)
        self.forget(applied)

    def forget(self, applied: AppliedChange) -> None:
        """Forget a change."""
        self._file.edit(lambda changes: [each for each in changes if each.id != applied.id])
        try:
            os.unlink(_copy_path(self.folder, applied.id))
        except FileNotFoundError:
            pass

    def last(self, editor: str, title: str | None = None) -> AppliedChange | None:
        """Return the newest change of an editor, or of one entry."""
        return next(
            (each for each in reversed(self._file.current()) if each.editor == editor and title in (None, each.title)),
            None,
        )


def _copy_path(folder: str, id: str) -> str:
    return os.path.join(folder, f"{id}.before")


def _read_copy(change: AppliedChange, folder: str) -> str | None:
    if not change.existed:
        return None
    with as_config_faults(folder):
        data = read_bytes(_copy_path(folder, change.id))
    if data is None:
        raise ConfigFault([f"the copy of {change.path} is gone from {folder}; remove the entry by hand"])
    return data.decode()


# --- parts ----------------------------------------------------------------------------------------------------


class _Faults:
    """Turns a fault of a text into a ConfigFault that names the file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, JsonFault):
            raise ConfigFault([f"{self._path}: {error}"]) from None


def _label(editor: Editor, launch: Launch) -> str:
    """Return the name of the entry in the file."""
    if editor.form == JSON:
        return launch.title
    if NAME_PATTERN.fullmatch(launch.name) is None:
        raise ConfigFault([f"{launch.name!r} cannot be the name of a block; give another with --name"])
    return f"{editor.name} {launch.name}"


def _merge(editor: Editor, text: str, keys: tuple[str, ...], launch: Launch) -> str:
    """Set the members that we write; members of an existing entry that only the user sets stay."""
    node = json_edit.find_member(text, keys)
    entry: dict[str, Any] = editor.entry(launch)
    ours = entry.keys() | {"env"}
    if node is None or not isinstance(node.value, dict) or node.value.get("type") in _REGISTRY_KINDS:
        return json_edit.set_member(text, keys, entry)
    for name, value in entry.items():
        if node.value.get(name) != value:
            text = json_edit.set_member(text, (*keys, name), value)
    for name in ours - entry.keys() & node.value.keys():
        text = json_edit.remove_member(text, (*keys, name))
    return text


def _read_entry(title: str, value: Any) -> EditorEntry:
    if not isinstance(value, dict):
        return EditorEntry(title=title, kind="?", fault="it is not an object in braces")
    mode, env = str(value.get("default_mode") or ""), _texts(value.get("env"))
    if value.get("type") in _REGISTRY_KINDS:
        return EditorEntry(title=title, kind="registry", env=env, mode=mode)
    command, args = value.get("command"), value.get("args", [])
    if not isinstance(command, str) or not command:
        return EditorEntry(title=title, mode=mode, fault="it has no command")
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        return EditorEntry(title=title, command=command, mode=mode, fault="its args are not a list of texts")
    return EditorEntry(title=title, command=command, args=tuple(args), env=env, mode=mode)


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: each for name, each in value.items() if isinstance(each, str)}
