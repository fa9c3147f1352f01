"""Files of the client: two official calls (docs/protocol/files-terminals.md#read) and ours
(docs/protocol/extensions.md#file-calls).
"""

from __future__ import annotations

from dragoman.schema.base import UNSET, Maybe, Model


class ReadTextFileParams(Model, kw_only=True):
    """fs/read_text_file; `line` counts from 1, `limit` is a number of lines."""

    session_id: str
    path: str
    line: Maybe[int] = UNSET
    limit: Maybe[int] = UNSET


class ReadTextFileResult(Model, kw_only=True):
    """The text, with what the editor has not saved yet."""

    content: str


class WriteTextFileParams(Model, kw_only=True):
    """fs/write_text_file."""

    session_id: str
    path: str
    content: str


class WriteTextFileResult(Model, kw_only=True):
    """The file is written."""


class ReadBinaryFileParams(Model, kw_only=True):
    """fs/read_binary_file; `offset` and `length` count bytes."""

    path: str
    session_id: Maybe[str] = UNSET
    offset: Maybe[int] = UNSET
    length: Maybe[int] = UNSET


class ReadBinaryFileResult(Model, kw_only=True):
    """Bytes in base64, and the size of the whole file."""

    data: str
    size: int
    truncated: Maybe[bool] = UNSET


class WriteBinaryFileParams(Model, kw_only=True):
    """fs/write_binary_file; `data` is base64."""

    path: str
    data: str
    session_id: Maybe[str] = UNSET
    create_directories: Maybe[bool] = UNSET
    overwrite: Maybe[bool] = UNSET


class WriteBinaryFileResult(Model, kw_only=True):
    """What was written."""

    bytes_written: int
    created: bool


class EntryType:
    """What a directory entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


class DirectoryEntry(Model, kw_only=True):
    """One name in a directory."""

    name: str
    type: str
    size: Maybe[int] = UNSET
    modified_at: Maybe[str] = UNSET


class ListDirectoryParams(Model, kw_only=True):
    """fs/list_directory."""

    path: str
    session_id: Maybe[str] = UNSET
    recursive: Maybe[bool] = UNSET
    limit: Maybe[int] = UNSET


class ListDirectoryResult(Model, kw_only=True):
    """The names found."""

    entries: list[DirectoryEntry]
    truncated: Maybe[bool] = UNSET


class CreateDirectoryParams(Model, kw_only=True):
    """fs/create_directory."""

    path: str
    session_id: Maybe[str] = UNSET
    parents: Maybe[bool] = UNSET


class CreateDirectoryResult(Model, kw_only=True):
    """Whether the directory is new."""

    created: bool


class WatchParams(Model, kw_only=True):
    """fs/watch."""

    path: str
    session_id: Maybe[str] = UNSET
    recursive: Maybe[bool] = UNSET


class WatchResult(Model, kw_only=True):
    """The watch that was set."""

    watch_id: str


class UnwatchParams(Model, kw_only=True):
    """fs/unwatch."""

    watch_id: str
    session_id: Maybe[str] = UNSET


class UnwatchResult(Model, kw_only=True):
    """The watch is gone."""


class ChangeType:
    """What happened to a watched path."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"


class FileChange(Model, kw_only=True):
    """One path that changed."""

    path: str
    type: str


class ChangedParams(Model, kw_only=True):
    """fs/changed, told to the agent."""

    watch_id: str
    changes: list[FileChange]
    session_id: Maybe[str] = UNSET


class FileToWrite(Model, kw_only=True):
    """One file of an all-or-none write: `content` is text, `data` base64."""

    path: str
    content: Maybe[str] = UNSET
    data: Maybe[str] = UNSET

    @property
    def form(self) -> str:
        """Which of the two it is: "text" or "binary"."""
        return "binary" if isinstance(self.data, str) and not isinstance(self.content, str) else "text"


class WriteFilesParams(Model, kw_only=True):
    """fs/write_files: all or none."""

    files: list[FileToWrite]
    session_id: Maybe[str] = UNSET
    create_directories: Maybe[bool] = UNSET


class WriteFilesResult(Model, kw_only=True):
    """What was written, all together."""

    bytes_written: int
