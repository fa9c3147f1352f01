"""Other programs in the terminal: the user's editor for a prompt, a text or a file; a picture alone."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from typing import TYPE_CHECKING

from dragoman.tui import texts
from dragoman.tui.follow import editor_command, has_own_window
from dragoman.tui.images.picture import Picture

if TYPE_CHECKING:
    from dragoman.tui.app import TuiApp


async def edit_prompt(app: TuiApp) -> None:
    """Write the prompt in the editor."""
    edited = await _edit(app, app.composer.text, ".md")
    if edited is not None:
        app.write_prompt(edited.rstrip("\n"))


async def open_text(app: TuiApp, text: str) -> None:
    """Show a text in the editor; changes to it are dropped."""
    await _edit(app, text, ".txt")


async def open_file(app: TuiApp, path: str, line: int) -> None:
    """Open a file at a line in the editor; without an editor, or without the file, say so."""
    command = editor_command(path, line)
    if not command:
        app.show_hint(texts.NO_EDITOR)
    elif not os.path.isfile(path):
        app.show_hint(f"{path}: {texts.NO_FILE}")
    else:
        await _run(app, command)


async def _edit(app: TuiApp, text: str, suffix: str) -> str | None:
    """Return what the user makes of a text; None without an editor."""
    handle, path = tempfile.mkstemp(suffix=suffix, prefix="dragoman-")
    try:
        command = editor_command(path, 1)
        if not command:
            app.show_hint(texts.NO_EDITOR)
            return None
        os.write(handle, text.encode("utf-8", "backslashreplace"))
        os.close(handle)
        await _run(app, command, waits=True)
        return await asyncio.to_thread(_read_text, path)
    finally:
        os.unlink(path)


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


async def _run(app: TuiApp, command: list[str], *, waits: bool = False) -> None:
    """Run a program in the terminal, or beside it if it has a window of its own."""
    try:
        if has_own_window(command) and not waits:
            null = asyncio.subprocess.DEVNULL
            await asyncio.create_subprocess_exec(*command, stdin=null, stdout=null, stderr=null, start_new_session=True)
            return
        async with app.suspend_screen():
            process = await asyncio.create_subprocess_exec(*command)
            await process.wait()
    except OSError as error:
        app.show_hint(f"{command[0]}: {error.strerror or error}")


async def show_picture(app: TuiApp, picture: Picture) -> None:
    """Show a picture alone, until a key; a terminal that cannot gets its description."""
    size = app.window_size
    sequence = {
        "kitty": lambda: picture.kitty_alone(size.columns - 2, size.rows - 4),
        "iterm": lambda: picture.iterm_sequence(size.columns - 2, size.rows - 4),
        "sixel": lambda: picture.sixel_sequence(size.columns - 2, size.rows - 4),
    }.get(app.images.name, str)()
    if not picture.is_showable or not sequence:
        app.show_hint(f"{texts.NO_IMAGES} ({picture.mime_type}{picture.size_text})")
        return
    async with app.suspend_screen():
        sys.stdout.write(f"\x1b[2J\x1b[H{sequence}\r\n\n{texts.PRESS_KEY} ")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
