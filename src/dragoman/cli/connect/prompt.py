"""Build a prompt from text and files, and run it: send it, show the updates, cancel on Ctrl-C.

In a prompt, `@path` names a file; on the command line, --file and --image do. It is sent as image, audio, text or link,
depending on what the agent supports. The first Ctrl-C asks the agent to stop, the second one ends the program.
"""

from __future__ import annotations

import asyncio
import mimetypes
import os
import re
import signal
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dragoman import ClientSession, ClientTurn, Kind, ProtocolError
from dragoman.cli import exit_codes
from dragoman.cli.connect.local import OpenSession
from dragoman.cli.ui.turn_view import TurnView
from dragoman.config.private_files import open_regular
from dragoman.schema import content as blocks
from dragoman.schema.initialize import AgentCapabilities, PromptCapabilities

# A longer text is sent as a link, so that the agent can read as much as it wants. Bytes.
MAX_EMBEDDED_TEXT = 256 * 1024

# Larger than any image a model accepts. Bytes.
MAX_FILE_SIZE = 20 * 1024 * 1024

_MENTION = re.compile(r"""(?:(?<=\s)|^)@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]+))""")
_TRAILING_PUNCTUATION = ".,;:!?)]}'"


def build_prompt(text: str, cwd: str, capabilities: AgentCapabilities) -> list[blocks.ContentBlock]:
    """Return the typed text and the files that it mentions."""
    return [blocks.TextContent(text=text), *(file_block(path, capabilities) for path in mentioned_files(text, cwd))]


def mentioned_files(text: str, cwd: str) -> list[str]:
    """Return the files that `@path` names in a text, each once; a path that does not exist is plain text."""
    paths: list[str] = []
    for match in _MENTION.finditer(text):
        name = match["quoted"] or match["bare"]
        for candidate in (name, name.rstrip(_TRAILING_PUNCTUATION)):
            path = os.path.normpath(os.path.join(cwd, os.path.expanduser(candidate)))
            if candidate and os.path.exists(path):
                paths.append(path)
                break
    return list(dict.fromkeys(paths))


def file_block(path: str, capabilities: AgentCapabilities, *, as_image: bool = False) -> blocks.ContentBlock:
    """Return a file in the best form that the agent supports; `as_image`: as an image, or raise."""
    supported: PromptCapabilities = capabilities.prompt_capabilities or PromptCapabilities()
    kind = mimetypes.guess_type(path)[0] or ""
    if as_image:
        if problem := image_problem(path):
            raise _unsupported(problem)
        if not supported.image:
            raise _unsupported("this agent does not support images; attach it as a link with --file")
    if kind.startswith("image/") and supported.image:
        return blocks.ImageContent(data=_read_base64(path), mime_type=kind, uri=Path(path).as_uri())
    if kind.startswith("audio/") and supported.audio:
        return blocks.AudioContent(data=_read_base64(path), mime_type=kind)
    text = _read_text(path) if supported.embedded_context else None
    if text is not None:
        return blocks.EmbeddedResource(
            resource=blocks.ResourceContents(uri=Path(path).as_uri(), mime_type=kind or "text/plain", text=text)
        )
    more: dict[str, Any] = {"mime_type": kind} if kind else {}
    if os.path.isfile(path):
        more["size"] = os.path.getsize(path)
    return blocks.ResourceLink(name=os.path.basename(path) or path, uri=Path(path).as_uri(), **more)


def image_problem(path: str) -> str:
    """Return why a file cannot be sent as an image to any agent; "" if it can."""
    if not (mimetypes.guess_type(path)[0] or "").startswith("image/"):
        return f"{path} is not an image, judging by its name; attach it with --file"
    if not os.path.isfile(path):
        return f"{path} is not a regular file"
    return _size_problem(path, os.path.getsize(path))


def _size_problem(path: str, size: int) -> str:
    return f"{path} is larger than {MAX_FILE_SIZE // 1024 // 1024} MiB" if size > MAX_FILE_SIZE else ""


def _read_base64(path: str) -> str:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_FILE_SIZE + 1)
    except OSError as error:
        raise _unsupported(f"{path}: {error.strerror or error}") from None
    if problem := _size_problem(path, len(data)):
        raise _unsupported(problem)
    return b64encode(data).decode("ascii")


def _read_text(path: str) -> str | None:
    """Return the content of a text file; None if it is too long, not text or not a file."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_EMBEDDED_TEXT + 1)
        return data.decode("utf-8") if len(data) <= MAX_EMBEDDED_TEXT and b"\0" not in data else None
    except (OSError, UnicodeDecodeError):
        return None


def _unsupported(message: str) -> ProtocolError:
    return ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message)


class Interrupts:
    """The action of Ctrl-C: the one that was set last, or else the end of the program."""

    def __init__(self) -> None:
        self.on_interrupt: Callable[[], None] | None = None
        self.exit_code = exit_codes.INTERRUPTED  # of a program that was interrupted
        self._main_task = asyncio.current_task()
        try:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._on_sigint)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end, exit_codes.TERMINATED)
            if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._end, exit_codes.HANGUP)
        except (NotImplementedError, RuntimeError, ValueError):
            pass  # not the main thread: another thread handles Ctrl-C

    def _end(self, exit_code: int) -> None:
        """End the program in order: the end of the turn is stored, worktrees are removed, the agents stop."""
        self.exit_code = exit_code
        if self._main_task is not None:
            self._main_task.cancel()

    def _on_sigint(self) -> None:
        action, self.on_interrupt = self.on_interrupt, None
        if action is not None:
            action()
        elif self._main_task is not None:
            self._main_task.cancel()


async def run_turn(
    opened: OpenSession,
    content: str | Sequence[blocks.ContentBlock],
    view: TurnView,
    interrupts: Interrupts,
    *,
    session: ClientSession | None = None,
    timeout: float | None = None,
    is_own_update: Callable[[], bool] | None = None,
) -> ClientTurn:
    """Prompt, show all updates, and return the finished turn; raises what ended it otherwise.

    `session` is another session of the same agent. `is_own_update` says whether the next update belongs to this turn,
    where other members have turns.
    """
    permission_ui, diagnostics = opened.permission_ui, opened.diagnostics
    is_own_update = is_own_update or opened.is_own_update
    async with (session or opened.session).prompt(content, timeout=timeout) as turn:

        def cancel() -> None:
            diagnostics.note_terminal_echo()
            turn.cancel()
            if permission_ui.is_asking:
                permission_ui.close_question()
            else:
                diagnostics.write_line("cancelling; press Ctrl-C again to end at once", "yellow")

        interrupts.on_interrupt = cancel
        permission_ui.begin_turn(turn)
        try:
            async for update in turn:
                if permission_ui.is_asking:
                    await permission_ui.wait_until_answered()
                if is_own_update is None or is_own_update():
                    view.show(update)
        finally:
            interrupts.on_interrupt = None
            permission_ui.end_turn()
            view.end_turn()
    return turn
