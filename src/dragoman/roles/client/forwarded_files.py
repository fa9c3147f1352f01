"""File calls that are forwarded to another client, coordinated like those of a workspace: leases and compare before
write. The old content is read from that client.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.methods import METHODS

if TYPE_CHECKING:
    from dragoman.workspace.coordination import FileCoordinator
    from dragoman.workspace.tree_member import TreeMember

# Sends a request to the client whose files are used; takes and returns JSON.
SendRequest = Callable[[str, dict[str, Any]], Awaitable[Any]]

READ_TEXT = "fs/read_text_file"
READ_BINARY = "fs/read_binary_file"

_CONTENT_USES = {row.name: row.content for row in METHODS.values() if row.content}
COORDINATED_METHODS = frozenset(_CONTENT_USES)


class ForwardedFiles:
    """The file calls of one session, forwarded."""

    def __init__(self, coordinator: FileCoordinator, member: TreeMember) -> None:
        self._coordinator = coordinator
        self.member = member
        coordinator.join(member)

    def release(self) -> None:
        """Give up the leases, because the turn is over."""
        self._coordinator.release(self.member)

    def close(self) -> None:
        """Forget the session."""
        self._coordinator.leave(self.member)

    async def call(self, method: str, params: dict[str, Any], send: SendRequest) -> Any:
        """Forward a call of COORDINATED_METHODS; raise if it would overwrite what the session does not know."""
        if _CONTENT_USES[method] == "reads":
            return await self._read(method, params, send)
        contents = _contents(params)
        await self._coordinator.lease(self.member, [path for path, _ in contents])
        try:
            if self.member.is_shared:
                for path, _ in contents:
                    self._coordinator.check(self.member, path, await _current(path, params, send))
            result = await send(method, params)
            for path, data in contents:
                self._coordinator.note_written(self.member, path, data)
            return result
        finally:
            if self.member.activity is None:
                self.release()

    async def _read(self, method: str, params: dict[str, Any], send: SendRequest) -> Any:
        result = await send(method, params)
        path = str(params.get("path", ""))
        data = _content_of(method, result)
        if any(params.get(name) for name in ("line", "limit", "offset", "length")) or _is_truncated(result):
            data = await _current(path, params, send) if self.member.is_shared else None
        if data is not None:
            self._coordinator.note_read(self.member, path, data)
        return result


def _contents(params: dict[str, Any]) -> list[tuple[str, bytes]]:
    """Return the files that a call writes."""
    files = params.get("files", [params])
    found = [each for each in files if isinstance(each, dict)] if isinstance(files, list) else []
    return [(str(each.get("path", "")), _bytes(each.get("content"), each.get("data"))) for each in found]


def _bytes(text: Any, data: Any) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(data) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        return b""  # the client refuses it


def _content_of(method: str, result: Any) -> bytes | None:
    member = "content" if method == READ_TEXT else "data"
    value = result.get(member) if isinstance(result, dict) else None
    if not isinstance(value, str):
        return None
    return _bytes(value, None) if method == READ_TEXT else _bytes(None, value)


def _is_truncated(result: Any) -> bool:
    return isinstance(result, dict) and result.get("truncated") is True


async def _current(path: str, params: dict[str, Any], send: SendRequest) -> bytes | None:
    """Return the content of a file now, None if there is none."""
    asked = {name: value for name, value in params.items() if name == "sessionId"} | {"path": path}
    try:
        return _content_of(READ_TEXT, await send(READ_TEXT, asked))
    except ProtocolError as error:
        if error.kind == Kind.RESOURCE_NOT_FOUND:
            return None
    try:  # it is not text
        return _content_of(READ_BINARY, await send(READ_BINARY, asked))
    except ProtocolError:
        return None
