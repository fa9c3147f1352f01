"""Commands of the chat itself. They begin with a colon, so that none is the agent's.

One table for the list, completion and dispatch. `::` begins a text with a colon.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Protocol

from dragoman import ClientSession, ProtocolError
from dragoman.cli.chat.line_editor import Candidate, complete_word
from dragoman.cli.connect import settings
from dragoman.cli.parser import close_word
from dragoman.cli.ui.permission import PermissionUI
from dragoman.cli.ui.terminal import StyledLine, sanitize_line
from dragoman.policy.modes import MODES, mode_summary

COMMAND_PREFIX = ":"


class ChatSurface(Protocol):
    """What a command needs of the chat, or of another program with the same commands."""

    session: ClientSession
    permission_ui: PermissionUI
    is_over: bool

    @property
    def folded_result(self) -> list[StyledLine]:
        """All lines of the last result of which some were left out."""

    @property
    def provides_workspace(self) -> bool:
        """Whether a folder of this machine is lent to an agent on a host."""

    def show_line(self, text: str, style: str = "dim") -> None:
        """Show one line."""

    def show_lines(self, lines: Iterable[StyledLine], *, wraps: bool = True) -> None:
        """Show several lines; `wraps`: they are sentences, and long ones are broken between words."""

    def members_text(self) -> str:
        """Return the members of a session on a host; empty elsewhere."""

    def expect_mode(self, name: str) -> None:
        """Note that the user chooses this mode; "" for none."""

    async def start_new_session(self) -> None:
        """Continue in a new session."""


class ColonCommand(NamedTuple):
    """A command: its arguments, description, completions and function."""

    usage: str
    description: str
    completions: Callable[[ClientSession, list[str]], Iterable[tuple[str, str]]]
    run: Callable[[ChatSurface, str], Awaitable[None]]


def is_colon_command(text: str) -> bool:
    """Return whether this is a colon command, not a prompt."""
    return text.startswith(COMMAND_PREFIX) and not text.startswith(COMMAND_PREFIX * 2)


def unescape_prefix(text: str) -> str:
    """Return the text for the agent."""
    return text[1:] if text.startswith(COMMAND_PREFIX * 2) else text


async def run_colon_command(chat: ChatSurface, text: str) -> None:
    """Run a command; show an error on the terminal."""
    name, _, argument = text[len(COMMAND_PREFIX) :].strip().partition(" ")
    matches = [each for each in COMMANDS if each == name] or [
        each for each in COMMANDS if name and each.startswith(name)
    ]
    if len(matches) != 1:
        close = close_word(name, COMMANDS)
        advice = f"did you mean {COMMAND_PREFIX}{close}?" if close else f"{COMMAND_PREFIX}help lists all commands"
        chat.show_line(f"there is no command {COMMAND_PREFIX}{name}; {advice}", "yellow")
        return
    try:
        await COMMANDS[matches[0]].run(chat, argument.strip())
    except ProtocolError as error:
        chat.show_line(error.message, "yellow")


def complete_colon_command(text_before_cursor: str, session: ClientSession) -> Iterable[Candidate]:
    """Yield the commands, or the arguments of a command."""
    name, space, _ = text_before_cursor[len(COMMAND_PREFIX) :].partition(" ")
    if not space:
        for each, command in COMMANDS.items():
            if each.startswith(name):
                yield Candidate(
                    f"{COMMAND_PREFIX}{each}{' ' if command.usage else ''}",
                    len(text_before_cursor),
                    command.description,
                )
    elif name in COMMANDS:
        yield from complete_word(
            text_before_cursor, COMMANDS[name].completions(session, text_before_cursor.split()[1:])
        )


# --- the commands -----------------------------------------------------------------------------------------


async def show_help(chat: ChatSurface, _: str) -> None:
    """List everything."""
    if chat.session.commands:
        chat.show_lines([StyledLine("Commands of the agent:", "dim")])
        named = {f"/{sanitize_line(each.name)}": sanitize_line(each.description) for each in chat.session.commands}
        width = min(24, max(map(len, named)))
        chat.show_lines([StyledLine(f"  {name:{width}}  {description}", "dim") for name, description in named.items()])
    chat.show_lines([StyledLine(line, "dim") for line in KEY_HELP.splitlines()])
    calls = {name: f"{COMMAND_PREFIX}{name} {command.usage}".rstrip() for name, command in COMMANDS.items()}
    width = max(map(len, calls.values()))
    chat.show_lines(
        [StyledLine(f"  {calls[name]:{width}}  {command.description}") for name, command in COMMANDS.items()]
    )


KEY_HELP = f"""\
Keys:
  Enter sends; Alt-Enter, Ctrl-J or a backslash at the end starts a new line.
  Tab completes commands and files; Up and Ctrl-R search the history.
  Ctrl-C stops the agent, a second one quits. Ctrl-D quits; turns on a host go on.
  While the agent works, what you type stays on the next line; it is not sent.
  @path attaches a file. {COMMAND_PREFIX}{COMMAND_PREFIX} begins a text with a colon.
Commands of the chat:"""


async def show_members(chat: ChatSurface, _: str) -> None:
    """Show the members."""
    chat.show_line(f"members: {chat.members_text()}" if chat.members_text() else "nobody else is here")


async def show_or_set_mode(chat: ChatSurface, argument: str) -> None:
    """Show or change the agent's mode."""
    if argument:
        chat.expect_mode(argument)
        try:
            name = await settings.set_mode(chat.session, argument)
        except ProtocolError:
            chat.expect_mode("")
            raise
        chat.show_line(f"mode is now {sanitize_line(name)}")
        return
    known = settings.available_modes(chat.session)
    _show_choices(chat, known, chat.session.mode or "", "the agent has no modes")


async def show_or_set_model(chat: ChatSurface, argument: str) -> None:
    """Show or change the model."""
    if argument:
        chat.show_line(f"model is now {sanitize_line(await settings.set_model(chat.session, argument))}")
        return
    option = settings.model_option(chat.session)
    known = settings.option_values(option) if option is not None else []
    _show_choices(
        chat, known, str(option.current_value) if option else "", "the agent does not offer a choice of models"
    )


async def show_or_set_option(chat: ChatSurface, argument: str) -> None:
    """Show the options, or set one."""
    name, _, value = argument.partition(" ")
    if value.strip():
        chosen = await settings.set_option(chat.session, name, value.strip())
        chat.show_line(f"{sanitize_line(name)} is now {sanitize_line(chosen)}")
        return
    options = [option for option in chat.session.options if not name or option.id == name]
    for option in options:
        known = ", ".join(sanitize_line(value) for value, _ in settings.option_values(option))
        chat.show_lines(
            [
                StyledLine(
                    f"  {sanitize_line(option.id)} = {sanitize_line(settings.current_value_text(option))}  ({known})"
                )
            ]
        )
    if not options:
        chat.show_line("the agent has no such option" if name else "the agent has no options", "yellow")


async def show_or_set_policy(chat: ChatSurface, argument: str) -> None:
    """Show or change the policy mode."""
    if chat.members_text() and not chat.provides_workspace:
        chat.show_line(
            "on a host, the policy of the host decides what the agent may do (dragoman serve --mode)", "yellow"
        )
    elif not argument:
        _show_choices(
            chat, [(name, mode_summary(name)) for name in MODES], chat.permission_ui.guard.mode(chat.session.id), ""
        )
    elif argument not in MODES:
        chat.show_line(f"there is no policy mode {argument!r}; choose one of: {', '.join(MODES)}", "yellow")
    else:
        await chat.permission_ui.guard.switch_mode(chat.session, argument)
        chat.show_line(f"policy mode is now {argument}")


async def show_plan(chat: ChatSurface, _: str) -> None:
    """Show the plan again."""
    marks = {"completed": "[x]", "in_progress": "[>]"}
    chat.show_lines([StyledLine(f"  {marks.get(entry.status, '[ ]')} {entry.content}") for entry in chat.session.plan])
    if not chat.session.plan:
        chat.show_line("there is no plan")


async def show_folded_result(chat: ChatSurface, _: str) -> None:
    """Show all lines of the last result of which some were left out."""
    lines = chat.folded_result
    chat.show_lines(lines[:1] + [StyledLine(f"    {line.text}", line.style) for line in lines[1:]], wraps=False)
    if not lines:
        chat.show_line("no lines were left out of the last turns")


async def start_new_session(chat: ChatSurface, _: str) -> None:
    """Start a new session, without the earlier messages."""
    await chat.start_new_session()
    chat.show_line("started a new session")


async def quit_chat(chat: ChatSurface, _: str) -> None:
    """Quit."""
    chat.is_over = True


def _show_choices(chat: ChatSurface, choices: list[tuple[str, str]], current_id: str, empty_text: str) -> None:
    for id, name in choices:
        label = sanitize_line(id) if name in ("", id) else f"{sanitize_line(id)}  ({sanitize_line(name)})"
        chat.show_lines(
            [StyledLine(f"  {'•' if id == current_id else ' '} {label}", "bold" if id == current_id else "")]
        )
    if not choices:
        chat.show_line(empty_text, "yellow")


def _no_completions(_: ClientSession, __: list[str]) -> Iterable[tuple[str, str]]:
    return ()


def _model_completions(session: ClientSession, _: list[str]) -> Iterable[tuple[str, str]]:
    option = settings.model_option(session)
    return settings.option_values(option) if option is not None else ()


def _option_completions(session: ClientSession, typed: list[str]) -> Iterable[tuple[str, str]]:
    options = {option.id: option for option in session.options}
    if typed and typed[0] in options:
        return settings.option_values(options[typed[0]])
    return [(id, option.name) for id, option in options.items()]


COMMANDS: dict[str, ColonCommand] = {
    "help": ColonCommand("", "list all commands", _no_completions, show_help),
    "mode": ColonCommand(
        "[ID]",
        "show or change the agent's mode",
        lambda session, _: settings.available_modes(session),
        show_or_set_mode,
    ),
    "model": ColonCommand("[ID]", "show or change the model", _model_completions, show_or_set_model),
    "set": ColonCommand("[OPTION VALUE]", "show or set the agent's options", _option_completions, show_or_set_option),
    "policy": ColonCommand(
        "[MODE]",
        "show or change what is allowed, asked or denied",
        lambda *_: [(each, mode_summary(each)) for each in MODES],
        show_or_set_policy,
    ),
    "plan": ColonCommand("", "show the plan", _no_completions, show_plan),
    "more": ColonCommand("", "show all lines of the last result that was cut", _no_completions, show_folded_result),
    "who": ColonCommand("", "show the other members, on a host", _no_completions, show_members),
    "new": ColonCommand("", "start a new session", _no_completions, start_new_session),
    "quit": ColonCommand("", "quit (also Ctrl-D)", _no_completions, quit_chat),
}
